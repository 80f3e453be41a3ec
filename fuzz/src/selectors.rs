//! Any text is a selector that can be asked, or is refused with a reason.

use serde_json::json;
use windlass_api::label_selector::Selector;
use windlass_apimachinery::selector::FieldSelector;

/// One input: the text of a selector.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let object = json!({"metadata": {"name": "a", "labels": {"a": "b", "b": "7", "a.b/c": ""}}});
    match Selector::parse(text) {
        Ok(selector) => {
            assert!(!selector.is_everything() || selector.matches_object(&object));
            for requirement in selector.requirements() {
                assert!(!requirement.to_string().is_empty());
            }
            selector.matches_object(&object);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match FieldSelector::parse(text, |field| field.starts_with("metadata.")) {
        Ok(selector) => {
            assert!(!selector.is_empty() || selector.matches_object(&object));
            selector.matches_object(&object);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
