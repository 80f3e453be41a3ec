//! The management plane, put together once: `windlass up`, `windlass run`, the demo and every simulation run this.
//!
//! [`Plane`] is what acts, [`EmbeddedAdmission`] is who has a say in what the embedded API stores.

mod admission;
mod controllers;

pub use admission::EmbeddedAdmission;
pub use controllers::Plane;
