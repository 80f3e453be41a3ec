//! Tests a live runtime extension, or the manifest that registers it, against the contract of the Runtime SDK.
//!
//! [`run`] connects to an extension the way Cluster API does and tries what goes wrong in practice: TLS,
//! missing headers, odd bodies, what discovery announces, and, for hooks that are opted into, every answer:
//! its form, its speed, whether it is the same twice, whether patches apply and plans are valid. [`lint`]
//! checks the manifest offline. Both answer with a [`Report`], which prints as a table, as JSON or as JUnit.
//! Every [`Finding`] says what was observed, what a caller does with it, and how to repair it.
//!
//! ```
//! use windlass_conformance::{Rule, lint};
//!
//! let report = lint("extension.yaml", "
//! apiVersion: runtime.cluster.x-k8s.io/v1beta2
//! kind: ExtensionConfig
//! metadata:
//!   name: gate
//! spec:
//!   clientConfig:
//!     url: https://gate.example/?key=1
//!   namespaceSelctor: {}
//! ");
//! let rules: Vec<Rule> = report.findings().map(|finding| finding.rule).collect();
//! assert_eq!(rules, [Rule::NoCaBundle, Rule::SelectorAbsent, Rule::UrlForbiddenPart, Rule::UnknownField]);
//! assert_eq!(report.exit_code(), 1);
//! ```
//!
//! Without hooks in the [`Options`] no handler gets a request that it could act on. Objects in requests are
//! synthetic, and marked as such in name, namespace, label and annotation.

mod answer;
mod availability;
mod blocking;
mod calls;
mod catalogue;
mod certificate;
mod changes;
mod check;
mod determinism;
mod discovery;
mod endpoint;
mod external_update;
mod in_place;
mod lint;
mod operations;
mod options;
mod patch_order;
mod patches;
mod progress;
mod report;
mod session;
mod synthetic;
mod target;
mod tls_probe;
mod transport;
mod trust;
mod upgrade_plan;

pub use crate::check::{CheckId, Finding, Group, Level, Rule};
pub use crate::lint::{lint, lint_at};
pub use crate::operations::{Operation, OperationError, Operations, ShellCommands};
pub use crate::options::{CapiVersion, CapiVersionError, HookSelection, Options, Timing};
pub use crate::progress::{Progress, ProgressSink};
pub use crate::report::{CheckResult, Report, ReportKind, Skipped, Status, Summary};
pub use crate::session::run;
pub use crate::target::{ClientIdentity, Target, TargetError};
