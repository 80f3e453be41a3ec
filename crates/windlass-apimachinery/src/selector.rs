//! Field selectors in their string form: `metadata.name=x`. Label selectors are `windlass_api::label_selector`.

mod field;

pub use field::{FieldRequirement, FieldSelector, FieldSelectorError};
