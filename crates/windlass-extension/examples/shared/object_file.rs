//! Names of files for objects.

use windlass_extension::Object;

/// `<namespace>_<name>`. No object has an underscore in its name, so no two objects share a file.
///
/// The names come from the caller, and a path must not: whatever Kubernetes does not allow is refused.
pub(crate) fn object_file(object: &Object) -> Result<String, String> {
    let part = |field: &str, value: Option<&str>| {
        let value = value.unwrap_or_default();
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        let edge = |c: char| c.is_ascii_alphanumeric();
        if value.len() <= 253
            && value.starts_with(edge)
            && value.ends_with(edge)
            && value.chars().all(allowed)
        {
            Ok(value.to_owned())
        } else {
            Err(format!("metadata.{field} {value:?} is not a name that Kubernetes allows"))
        }
    };
    Ok(format!("{}_{}", part("namespace", object.namespace())?, part("name", object.name())?))
}
