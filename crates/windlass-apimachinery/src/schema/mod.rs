//! Schemas of custom resources: parsed, and applied to objects by pruning, defaulting, validation
//! and validation rules.
//!
//! The order matters. Pruning comes first, so that defaults and validation see only what the schema
//! knows; defaults come before validation, so that a required field with a default is never missing;
//! rules come last and only on objects that the schema accepts.

mod cel;
mod default;
mod format;
mod listtype;
mod meta;
mod pattern;
mod place;
mod prune;
mod ratchet;
mod structural;
mod validate;
mod wellformed;

#[cfg(test)]
mod tests;

pub use cel::{Condition, ConditionError, RuleBudget, Rules};
pub(crate) use format::{rfc3339, to_rfc3339};
pub use meta::{MetadataError, check_metadata};
pub use pattern::{Pattern, PatternError};
pub use place::Place;
pub use structural::{Additional, Checks, ListType, Rule, Schema, Type};
