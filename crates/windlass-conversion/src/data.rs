//! The annotation in which v1beta1 carries what it cannot say.

use serde_json::Value;
use windlass_api::names::CONVERSION_DATA_ANNOTATION;

use crate::error::ConvertError;
use crate::path::Fields;

/// Writes the whole object of v1beta2, without its metadata, into the annotation of one of v1beta1.
pub(crate) fn write(object: &mut Fields, hub: &Fields) {
    let mut hub = hub.clone();
    hub.remove("metadata");
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Fields::new()));
    let Value::Object(metadata) = metadata else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Fields::new()));
    if annotations.is_null() {
        *annotations = Value::Object(Fields::new());
    }
    if let Value::Object(annotations) = annotations {
        annotations.insert(CONVERSION_DATA_ANNOTATION.to_owned(), Value::Object(hub).to_string().into());
    }
}

/// Takes the annotation away and reads it.
pub(crate) fn take(object: &mut Fields) -> Result<Option<Fields>, ConvertError> {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return Ok(None) };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return Ok(None) };
    let Some(data) = annotations.remove(CONVERSION_DATA_ANNOTATION) else { return Ok(None) };
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    // In a fragment, which stands for the names of fields, the value may be missing.
    let Some(data) = data.as_str() else { return Ok(None) };
    match serde_json::from_str(data) {
        Ok(data) => Ok(Some(data)),
        Err(error) => Err(ConvertError::ConversionData { problem: error.to_string() }),
    }
}
