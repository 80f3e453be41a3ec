//! Patches: JSON patch, JSON merge patch and strategic merge patch.

mod json;
mod merge;
mod strategic;

pub use json::{JsonPatch, JsonPatchError, MAX_COPIED_BYTES, MAX_OPERATIONS, Problem};
pub use merge::{merge_patch, merge_patch_checked};
pub use strategic::{StrategicError, strategic_merge_patch};
