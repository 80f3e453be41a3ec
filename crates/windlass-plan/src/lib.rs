//! Plans chained Kubernetes upgrades.
//!
//! From where a cluster is and where it should go, [`plan`] computes every control plane step, the
//! fewest worker rollouts that the version skew policy allows, the order in which all of it happens,
//! and the skew after each step. It is a pure function: no I/O, no clock, no randomness. Asked again in
//! the middle of an upgrade it answers with exactly the steps that remain, which is what lets a
//! controller recompute it in every reconcile and store nothing.
//!
//! ```
//! use windlass_plan::{PlanRequest, Source, WorkerGroup, plan};
//!
//! let request = PlanRequest::new("v1.29.0".parse()?, "v1.33.0".parse()?)
//!     .with_workers([WorkerGroup::new("pool", "v1.29.0".parse()?)])
//!     .with_source(Source::versions(["v1.30.4", "v1.31.2", "v1.32.0", "v1.33.0"]));
//! let plan = plan(&request)?;
//! let steps: Vec<String> = plan.operations.iter().map(|operation| operation.step.to_string()).collect();
//! assert_eq!(steps[3..], [
//!     "workers pool v1.29.0 -> v1.32.0",
//!     "control plane v1.32.0 -> v1.33.0",
//!     "workers pool v1.32.0 -> v1.33.0",
//! ]);
//! assert_eq!(plan.worst_skew, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request that has no safe plan is refused with a [`Refusal`] that lists *every* [`Violation`].

mod control_plane;
mod diff;
mod document;
mod input_hash;
mod operation;
mod planner;
mod proof;
mod request;
mod violation;
mod workers;

pub use diff::{Change, PlanDiff};
pub use document::{OperationDocument, OperationKind, PlanDocument, RefusalDocument, ViolationDocument};
pub use input_hash::InputHash;
pub use operation::{Operation, Reason, Step, UpgradeHook};
pub use planner::{GroupPlan, UpgradePlan, plan};
pub use proof::{BrokenStep, Proof, prove};
pub use request::{GroupName, HooksPassed, PlanRequest, Source, SourceKind, WorkerGroup};
pub use violation::{MAX_LISTED_VERSIONS, MAX_STEPS, PlanPart, Refusal, Violation};
