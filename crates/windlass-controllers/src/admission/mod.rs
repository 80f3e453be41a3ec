//! Admission of the kinds of Cluster API: the rules of `windlass_engine::admission`, asked in the process by
//! the embedded API, or over HTTP by any other.

mod objects;
mod review;
mod webhook;

pub use objects::{LookUp, ObjectLookUp};
pub use review::{ADMITTED, Asked, Refused, Rules};
pub use webhook::{AdmissionWebhook, PATH_MUTATE, PATH_VALIDATE};
