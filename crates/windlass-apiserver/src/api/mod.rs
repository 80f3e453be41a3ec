//! What goes over the wire, before anything is known about resources: paths, queries, media types,
//! errors and JSON.

mod json;
mod negotiate;
mod query;
mod request;
mod status;

pub(crate) use json::{Layout, canonical, indent, stamped};
pub(crate) use negotiate::{Accept, BodyFormat, PatchFormat, View};
pub use query::{FieldValidation, Propagation, Query, VersionMatch};
pub use request::{ResourcePath, Route};
pub(crate) use status::{Details, StatusCause, Subject};
pub use status::{Failure, Status};
