//! External updaters update machines: which one is asked, which one has accepted, and what of it is done.
//!
//! Hook `ExternalUpdate` is called only with strategy `External`, when extensions do not cover a change in place.
//! External updaters are asked in the order of their full names. What they said is a [`Record`] on the owner of the machines, so
//! that a new process goes on where the last one stopped: [`decide`] is a function of it and of what is observed. The one
//! that accepted brings the machines and their objects to what is desired; [`is_reached`] tells from the objects.

mod decide;
mod finding;
mod reached;
mod record;

pub use decide::{Answer, ExternalUpdater, Observed, REFUSALS_HOLD, Step, UNREACHED_AGAIN, after, decide};
pub use finding::{EXTERNAL_UPDATE, ExternalUpdate, finding, reason};
pub(crate) use reached::is_empty;
pub use reached::{Part, digest, fingerprint, has_reached, is_reached};
pub use record::{Acceptance, Record, Refusal};
