//! The pure parts of the API, from the crate that has them. Nothing else in here names that crate.

pub(crate) use windlass_apimachinery::builtin::{blank as builtin_blank, shape as builtin_shape};
pub(crate) use windlass_apimachinery::cause::{self, Cause};
pub(crate) use windlass_apimachinery::depth;
pub(crate) use windlass_apimachinery::fieldmanager::{
    ApplyError, ConversionError, Endpoint, FieldManager, Shape, Timestamp, Versions, manager_name,
    settle_timestamps,
};
pub(crate) use windlass_apimachinery::patch::{
    JsonPatch, JsonPatchError, merge_patch, merge_patch_checked, strategic_merge_patch,
};
pub(crate) use windlass_apimachinery::schema::{Condition, ConditionError, Rules, Schema, check_metadata};
pub(crate) use windlass_apimachinery::selector::{
    FieldRequirement, FieldSelector, LabelSelector, label_key_problems, label_value_problems,
};
pub(crate) use windlass_apimachinery::types;
