//! Whether extensions can update machines in place, field by field.
//!
//! An extension answers with patches of the current objects: what they change is what it covers. Several extensions are
//! asked one after the other; each sees the current state with what the ones before it cover. [`Composition`] keeps
//! the account, [`Verdict`] is what came of it: per field, which extension covers it, if any does; [`InPlaceAnswer`] is what follows. Paths of fields are
//! shown to people, values never: they may be secret.

mod answer;
mod claims;
mod composition;
mod effect;
mod fields;
mod finding;
mod kubeadm;
mod objects;
mod preview;
mod verdict;

pub use answer::{InPlaceAnswer, WhyNotInPlace};
pub use claims::{ClaimError, Claims, WhyUnusable};
pub use composition::Composition;
pub use effect::{Effect, Requirement};
pub use fields::Field;
pub use finding::{CAN_UPDATE_IN_PLACE, Said, finding, reason};
pub use kubeadm::comparable_configs;
pub use objects::{Incomparable, Level, Objects, Part};
pub use preview::{Preview, PreviewedEffect, PreviewedField, Question, questions};
pub use verdict::{Dropped, FieldVerdict, Verdict};
