//! The management plane, put together once: `windlass up`, `windlass run`, the demo and every simulation run this.
//!
//! - [`Plane`] is what acts, [`Selection`] which of it does
//! - [`EmbeddedAdmission`] is who has a say in what the embedded API stores
//! - [`Embedded`] is the API in this process: data directory, credentials, listener
//! - [`Up`] is all of it, in one process

mod admission;
mod controllers;
mod definitions;
mod embedded;
mod selection;
mod up;

pub use admission::EmbeddedAdmission;
pub use controllers::Plane;
pub use definitions::{InstallError, install};
pub use embedded::{Data, Embedded, EmbeddedError};
pub use selection::{Controller, Selection, SelectionError};
pub use up::{Up, UpError, UpOptions};
