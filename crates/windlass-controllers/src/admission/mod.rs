//! Admission of the kinds of Cluster API: the rules of `windlass_engine::topology::admission`, asked in the process by
//! the embedded API, or over HTTP by any other.

mod in_process;
mod objects;
mod review;
mod webhook;

pub use in_process::{ADMITTED, ClusterAdmission};
pub use objects::{LookUp, ObjectLookUp};
pub use review::{Asked, Refused, Rules};
pub use webhook::{AdmissionWebhook, PATH_MUTATE, PATH_VALIDATE};
