//! The smallest merge patch between two states of an object: writing it claims nothing that did not change.

use serde::Serialize;
use serde_json::Value;
use windlass_patch::merge_patch::{self, NotMergeable};

/// Why a change of an object cannot be written as a merge patch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergePatchError {
    /// The object cannot be expressed as JSON.
    #[error("the object cannot be expressed as JSON: {0}")]
    Encode(#[from] serde_json::Error),
    /// The object has a `null`.
    #[error(transparent)]
    Null(#[from] NotMergeable),
}

/// What turns one state into another, as a JSON merge patch; `None` if they are the same. Lists are replaced as a whole,
/// so a patch with one in it has to be written with the version of the object that was read.
pub(crate) fn between(
    before: &impl Serialize,
    after: &impl Serialize,
) -> Result<Option<Value>, MergePatchError> {
    Ok(merge_patch::between(&serde_json::to_value(before)?, &serde_json::to_value(after)?)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changed_is_in_the_patch() {
        let before = json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": true, "list": [1, 2]});
        let after = json!({"a": 1, "b": {"c": 1, "d": 3}, "new": {"x": 1}, "list": [1]});
        let patch = json!({"b": {"d": 3}, "new": {"x": 1}, "gone": null, "list": [1]});
        assert_eq!(between(&before, &after).unwrap(), Some(patch));
        assert_eq!(between(&after, &after).unwrap(), None);
    }
}
