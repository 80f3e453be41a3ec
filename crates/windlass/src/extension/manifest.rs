//! Reads the manifests that users name.

use std::path::Path;

use serde_json::Value;
use windlass_api::runtime::{ExtensionConfig, validate};

use crate::exit::Failure;
use crate::output;

/// Largest file that is read. An API server takes no request above 3 MiB, so no object is larger.
pub(super) const MAX_FILE: u64 = 3 * 1024 * 1024;

/// Reads a valid ExtensionConfig, with the defaults that admission would fill in.
pub(super) fn read_config(path: &Path) -> Result<ExtensionConfig, Failure> {
    let invalid = |message: String| Failure::Invalid(format!("{}: {message}", path.display()));
    let mut config: ExtensionConfig = serde_json::from_value(read_yaml(path)?)
        .map_err(|error| invalid(format!("not an ExtensionConfig: {error}")))?;
    config.fill_defaults();
    let violations = validate(&config);
    if violations.is_empty() {
        return Ok(config);
    }
    let lines: Vec<String> = violations.iter().map(|violation| format!("\n  {violation}")).collect();
    Err(invalid(format!("not a valid ExtensionConfig:{}", lines.concat())))
}

/// Reads one document.
pub(super) fn read_yaml(path: &Path) -> Result<Value, Failure> {
    let text = output::read_file(path, MAX_FILE).map_err(Failure::Invalid)?;
    serde_saphyr::from_str(&text).map_err(|error| {
        Failure::Invalid(format!("{}: not valid YAML: {}", path.display(), output::yaml_error(&error)))
    })
}
