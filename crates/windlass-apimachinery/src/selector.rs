//! Label and field selectors in their text form: `app in (a,b),!gone` and `metadata.name=x`.

mod field;
mod label;

pub use field::{FieldRequirement, FieldSelector, FieldSelectorError};
pub use label::{
    LabelSelector, LabelSelectorError, Operator, Requirement, label_key_problems, label_value_problems,
};
