//! Server-side apply and `managedFields`: who owns which field, and what happens when two want it.
//!
//! [`FieldManager`] is the entrance: it takes a stored object and what a request makes of it, and
//! returns the object to store. Below it, from the bottom up: paths and sets of paths, shapes (what a
//! schema means for ownership), typed values (merged, compared, cut down), the codec of
//! `managedFields`, and the algorithm that moves ownership.

mod conflict;
mod entries;
mod last_applied;
mod managed;
mod manager;
mod path;
mod quick;
#[cfg(test)]
mod quick_tests;
mod set;
mod shape;
pub mod typed;
mod updater;

pub use conflict::{Conflict, Conflicts};
pub use managed::{
    ManagedFields, ManagedFieldsError, Manager, Operation, Ownership, Timestamp, manager_name,
    settle_timestamps,
};
pub use manager::{ApplyError, Endpoint, FieldManager};
pub use path::{MalformedElement, Path, PathElement, display};
pub use set::{FieldsError, Set};
pub use shape::{Deduced, Field, ListShape, MapShape, ScalarType, Shape, object_meta};
pub use updater::{ConversionError, Versions};
