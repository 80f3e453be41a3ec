//! Strategic merge patch. JSON Patch and JSON merge patch, which know no kinds, are in `windlass-patch`.

mod strategic;

pub use strategic::{StrategicError, strategic_merge_patch};
