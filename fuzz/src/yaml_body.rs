//! Any bytes that say they are YAML are an object or are refused, and what was read as YAML is the same as JSON.

use crate::api;

/// One input: the document.
pub fn run(data: &[u8]) {
    let path = "/api/v1/namespaces/default/configmaps";
    let request = api::request("POST", &format!("{path}?dryRun=All&fieldValidation=Strict"));
    api::ask(request.header("content-type", "application/yaml"), data);
    let patch = api::request("PATCH", &format!("{path}/fuzz?dryRun=All&fieldManager=fuzz&force=true"));
    api::ask(patch.header("content-type", "application/apply-patch+yaml"), data);
}
