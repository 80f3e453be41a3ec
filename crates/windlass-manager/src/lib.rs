//! The management plane, put together once: `windlass up`, `windlass run`, the demo and every simulation run this.
//!
//! - [`Plane`] is what acts, [`Selection`] which of it does
//! - [`EmbeddedAdmission`] is who has a say in what the embedded API stores
//! - [`Embedded`] is the API in this process: data directory, credentials, listener
//! - [`Up`] is all of it, in one process; [`run`] the same controllers on any other API
//! - [`read_management`] reads what a check looks at before that

mod admission;
mod check;
mod controllers;
mod conversions;
mod crds;
mod diagnostics;
mod dry_run;
mod embedded;
mod leader;
mod metrics;
mod run;
mod selection;
mod up;
mod webhooks;

pub use admission::EmbeddedAdmission;
pub use check::{CheckError, read_management, would_write, write_findings};
pub use controllers::Plane;
pub use conversions::convert_in_process;
pub use crds::{InstallError, install};
pub use diagnostics::{Diagnostics, serve_diagnostics};
pub use dry_run::dry_run;
pub use embedded::{Data, Embedded, EmbeddedError};
pub use leader::{Candidate, LeaderOptions, Standing};
pub use metrics::PlaneMetrics;
pub use run::{Ended, Listening, RunError, RunOptions, Told, run};
pub use selection::{Controller, Selection, SelectionError};
pub use up::{Up, UpError, UpOptions};
pub use webhooks::{CertificateFiles, WebhookError, serve_webhooks};
pub use windlass_engine::readiness::WouldWrite;
pub use windlass_runtime::AGENT;
