//! Any patch of any document gives a document or says why not, and a merge patch can be repeated.

use serde_json::Value;
use windlass_apimachinery::patch::strategic_merge_patch;
use windlass_patch::{Dialect, JsonPatch, merge_patch};

/// One input: the document on the first line, the patch on the rest.
pub fn run(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let mut read = || serde_json::from_slice::<Value>(parts.next().unwrap_or_default()).ok();
    let (Some(document), Some(patch)) = (read(), read()) else { return };
    for dialect in [Dialect::ApiServer, Dialect::ClusterApi] {
        match JsonPatch::parse(dialect, &patch).and_then(|patch| patch.apply(&document)) {
            Ok(patched) => drop(patched.to_string()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if let Ok(patched) = merge_patch::apply(&document, &patch) {
        assert_eq!(
            merge_patch::apply(&patched, &patch).as_ref(),
            Ok(&patched),
            "a merge patch twice is one merge patch"
        );
    }
    for (api_version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "ConfigMap")] {
        match strategic_merge_patch(api_version, kind, &document, &patch) {
            Ok(patched) => drop(patched.to_string()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
