//! A status is written as the smallest merge patch between what it was and what it is: nothing is claimed that did not
//! change.

use serde::Serialize;
use serde_json::{Value, json};
use windlass_patch::merge_patch::{self, NotMergeable};
use windlass_runtime::{Kind, WriteError, Writer};

use crate::references::ignore_gone;

/// Why a status cannot be written as a merge patch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// It cannot be expressed as JSON.
    #[error("the status cannot be expressed as JSON: {0}")]
    Encode(#[from] serde_json::Error),
    /// It has a `null`.
    #[error("status: {0}")]
    Null(#[from] NotMergeable),
}

/// Writes a status, if it changed, onto the version of the object that was read: lists in a patch are whole. An object that
/// went in the meantime needs none.
pub(crate) async fn write<K: Kind, S: Serialize, E: From<WriteError> + From<StatusError>>(
    writer: &Writer<K>,
    read: &K,
    before: &S,
    after: &S,
) -> Result<(), E> {
    match patch(before, after)? {
        Some(patch) => Ok(ignore_gone(writer.patch_status(read, patch).await)?),
        None => Ok(()),
    }
}

/// The merge patch of an object that turns one status into another; `None` if they are the same.
pub(crate) fn patch<S: Serialize>(before: &S, after: &S) -> Result<Option<Value>, StatusError> {
    let status = merge_patch::between(&serde_json::to_value(before)?, &serde_json::to_value(after)?)?;
    Ok(status.map(|status| json!({"status": status})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_in_the_patch() {
        let before = json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": true, "list": [1, 2]});
        let after = json!({"a": 1, "b": {"c": 1, "d": 3}, "new": {"x": 1}, "list": [1]});
        let changes = json!({"status": {"b": {"d": 3}, "new": {"x": 1}, "gone": null, "list": [1]}});
        assert_eq!(patch(&before, &after).unwrap(), Some(changes));
        assert_eq!(patch(&after, &after).unwrap(), None);
    }

    #[test]
    fn a_null_in_a_status_is_an_error_that_says_where() {
        let error = patch(&json!({}), &json!({"replicas": null})).unwrap_err();
        assert_eq!(error.to_string(), "status: a merge patch cannot set \"/replicas\" to null");
    }
}
