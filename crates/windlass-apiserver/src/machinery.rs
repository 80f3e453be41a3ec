//! The pure parts of the API, from the crates that have them. Nothing else in here names those crates.

pub(crate) use windlass_apimachinery::builtin::{blank as builtin_blank, shape as builtin_shape};
pub(crate) use windlass_apimachinery::cause::{self, Cause};
pub(crate) use windlass_apimachinery::fieldmanager::{
    ApplyError, ConversionError, Endpoint, FieldManager, Shape, Timestamp, Versions, manager_name,
    settle_timestamps,
};
pub(crate) use windlass_apimachinery::patch::strategic_merge_patch;
pub(crate) use windlass_apimachinery::schema::{Condition, ConditionError, Rules, Schema, check_metadata};
pub(crate) use windlass_apimachinery::selector::{FieldRequirement, FieldSelector};
pub(crate) use windlass_apimachinery::types;
pub(crate) use windlass_patch::{Dialect, JsonPatch, JsonPatchError, depth, merge_patch};
