//! Patches in responses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::wire::{inline_schema, open_enum, wire_struct};

open_enum! {
    /// The format of a patch.
    pub enum PatchType {
        /// A list of operations, RFC 6902.
        JsonPatch = "JSONPatch",
        /// An object laid over another, RFC 7396.
        JsonMergePatch = "JSONMergePatch",
    }
}

wire_struct! {
    /// A patch of one object, with its format.
    #[derive(Default, Eq)]
    pub struct Patch {
        /// JSONPatch or JSONMergePatch. A client refuses a patch whose format it does not know.
        #[schemars(length(min = 1))]
        pub patch_type: PatchType,
        /// The patch, a JSON document.
        pub patch: PatchDocument,
    }
}

impl Patch {
    /// A list of operations, RFC 6902.
    pub fn json_patch(operations: &Value) -> Self {
        Self { patch_type: PatchType::JsonPatch, patch: PatchDocument::from(operations) }
    }

    /// An object laid over another, RFC 7396.
    pub fn json_merge_patch(overlay: &Value) -> Self {
        Self { patch_type: PatchType::JsonMergePatch, patch: PatchDocument::from(overlay) }
    }

    /// Whether anything was said at all. A patch without type and content is the same as none.
    pub fn is_defined(&self) -> bool {
        !self.patch.is_empty() || self.patch_type != PatchType::default()
    }

    /// Whether a response leaves this patch out.
    pub(crate) fn is_omitted(patch: &Option<Self>) -> bool {
        !patch.as_ref().is_some_and(Self::is_defined)
    }

    /// Drops a patch that says nothing.
    pub(crate) fn if_defined(patch: Option<Self>) -> Option<Self> {
        patch.filter(Self::is_defined)
    }
}

/// The bytes of a patch.
///
/// On the wire they are base64, which is what Go does with bytes. On input a JSON text in a string and
/// inline JSON are understood as well, because that is what people write who do not know about base64;
/// neither can be mistaken for the other, since no base64 starts with a bracket or a brace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchDocument(Vec<u8>);

impl PatchDocument {
    /// Takes bytes as they are.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, which need not be JSON.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes, read as JSON.
    ///
    /// # Errors
    ///
    /// When they are not JSON.
    pub fn to_json(&self) -> Result<Value, PatchError> {
        serde_json::from_slice(&self.0).map_err(PatchError::NotJson)
    }
}

inline_schema! { PatchDocument { "type": "string", "format": "byte" } }

impl From<&Value> for PatchDocument {
    fn from(json: &Value) -> Self {
        Self(json.to_string().into_bytes())
    }
}

impl Serialize for PatchDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for PatchDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::default()),
            inline @ (Value::Array(_) | Value::Object(_)) => Ok(Self::from(&inline)),
            Value::String(text) => Self::from_text(text).map_err(D::Error::custom),
            Value::Bool(value) => Err(wrong_type(Unexpected::Bool(value))),
            Value::Number(_) => Err(wrong_type(Unexpected::Other("number"))),
        }
    }
}

impl PatchDocument {
    fn from_text(text: String) -> Result<Self, PatchError> {
        if text.trim_start().starts_with(['[', '{']) {
            return Ok(Self(text.into_bytes()));
        }
        // Go skips line breaks inside base64; tools that wrap long lines put them there.
        let encoded: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        STANDARD.decode(encoded).map(Self).map_err(PatchError::NotBase64)
    }
}

fn wrong_type<E: Error>(found: Unexpected<'_>) -> E {
    E::invalid_type(found, &"a patch as base64, as JSON in a string, or as inline JSON")
}

/// Why a patch cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// A text that is neither base64 nor JSON.
    #[error("patch is neither base64 nor JSON: {0}")]
    NotBase64(#[source] base64::DecodeError),
    /// Bytes that are not JSON.
    #[error("patch is not JSON: {0}")]
    NotJson(#[source] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_is_read_in_every_form_and_written_as_base64() {
        let operations = json!([{"op": "replace", "path": "/spec/version", "value": "v1.33.1"}]);
        let text = operations.to_string();
        let encoded = STANDARD.encode(&text);
        let wrapped = format!("{}\r\n{}\n", &encoded[..20], &encoded[20..]);
        for patch in [json!(encoded), json!(text), operations.clone(), json!(wrapped)] {
            let read: Patch =
                serde_json::from_value(json!({"patchType": "JSONPatch", "patch": patch})).unwrap();
            assert_eq!(read, Patch::json_patch(&operations));
            assert_eq!(read.patch.to_json().unwrap(), operations);
            assert_eq!(
                serde_json::to_string(&read).unwrap(),
                format!("{{\"patchType\":\"JSONPatch\",\"patch\":\"{encoded}\"}}")
            );
        }
    }

    #[test]
    fn a_merge_patch_may_be_an_inline_object() {
        let read: Patch =
            serde_json::from_value(json!({"patchType": "JSONMergePatch", "patch": {"spec": {"a": null}}}))
                .unwrap();
        assert_eq!(read, Patch::json_merge_patch(&json!({"spec": {"a": null}})));
    }

    #[test]
    fn json_text_keeps_its_spaces() {
        let read: PatchDocument = serde_json::from_value(json!("\n [ ] ")).unwrap();
        assert_eq!(read.as_bytes(), b"\n [ ] ");
    }

    #[test]
    fn unreadable_patches_are_refused_with_the_reason() {
        for (patch, message) in [
            (json!("not base64!"), "patch is neither base64 nor JSON: Invalid symbol 32, offset 3."),
            (
                json!(7),
                "invalid type: number, expected a patch as base64, as JSON in a string, or as inline JSON",
            ),
            (
                json!(true),
                "invalid type: boolean `true`, expected a patch as base64, as JSON in a string, or as inline JSON",
            ),
        ] {
            assert_eq!(serde_json::from_value::<PatchDocument>(patch).unwrap_err().to_string(), message);
        }
        assert!(PatchDocument::from_bytes("nonsense").to_json().is_err());
    }

    #[test]
    fn a_patch_that_says_nothing_is_not_defined() {
        for (wire, defined) in [
            (json!({}), false),
            (json!({"patchType": "", "patch": ""}), false),
            (json!({"patchType": null, "patch": null}), false),
            (json!({"patchType": "JSONPatch"}), true),
            (json!({"patch": "W10="}), true),
            (json!({"patchType": "Strange"}), true),
        ] {
            let patch: Patch = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(patch.is_defined(), defined, "{wire}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive_the_wire(bytes: Vec<u8>) {
            let document = PatchDocument::from_bytes(bytes);
            let wire = serde_json::to_string(&document).unwrap();
            prop_assert_eq!(serde_json::from_str::<PatchDocument>(&wire).unwrap(), document);
        }
    }
}
