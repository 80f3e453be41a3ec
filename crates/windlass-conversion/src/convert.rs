//! From one version of an object to another.

use serde_json::Value;
use windlass_api::api_version;

use crate::data;
use crate::emission::{is_nothing, tidy};
use crate::error::ConvertError;
use crate::path::Fields;
use crate::tables::{self, Kind};
use crate::walk::{self, Context};

/// The version that is stored, and into which everything is converted before it is validated.
const HUB: &str = "v1beta2";

/// Which version of a provider's kind keeps the newest contract, as the labels of its CRD say.
pub trait Contracts {
    /// The version for a group and a kind; `None` if there is no such CRD, or if it has no contract.
    fn newest_version(&self, group: &str, kind: &str) -> Option<String>;
}

impl<F: Fn(&str, &str) -> Option<String>> Contracts for F {
    fn newest_version(&self, group: &str, kind: &str) -> Option<String> {
        self(group, kind)
    }
}

/// Converts an object of a kind that [`versions`] knows to another of its versions.
///
/// Objects may be fragments without `spec`, which API servers convert to keep track of field managers.
///
/// # Errors
///
/// When the kind or the version is unknown, when a duration or the version of a reference cannot be read, or, on the way to
/// an older version, when no contract says which version a reference is to.
pub fn convert(
    object: Value,
    desired_api_version: &str,
    contracts: &dyn Contracts,
) -> Result<Value, ConvertError> {
    let missing = |missing| ConvertError::NotAnObject { missing };
    let Value::Object(mut object) = object else { return Err(missing("everything")) };
    let text = |object: &Fields, name| object.get(name).and_then(Value::as_str).map(str::to_owned);
    let api_version = text(&object, "apiVersion").ok_or(missing("apiVersion"))?;
    let kind_name = text(&object, "kind").ok_or(missing("kind"))?;
    if api_version == desired_api_version {
        return Ok(Value::Object(object));
    }
    let (group, from) = api_version::split(&api_version);
    let Some(kind) = tables::find(group, &kind_name) else {
        return Err(ConvertError::UnknownKind { group: group.to_owned(), kind: kind_name });
    };
    let unknown = |api_version: &str| ConvertError::UnknownVersion {
        kind: kind_name.clone(),
        api_version: api_version.to_owned(),
        known: kind.older.iter().copied().chain([HUB]).collect(),
    };
    let (to_group, to) = api_version::split(desired_api_version);
    if to_group != group || !kind.has(to) {
        return Err(unknown(desired_api_version));
    }
    if !kind.has(from) {
        return Err(unknown(&api_version));
    }
    object.insert("apiVersion".to_owned(), desired_api_version.into());
    let converted = match (from, to) {
        (_, HUB) => up(object, kind, contracts)?,
        (HUB, _) => down(object, &api_version, kind, contracts)?,
        // Kinds with two older versions are the same in both.
        _ => object,
    };
    Ok(Value::Object(converted))
}

/// The versions of a kind, oldest first and the stored one last; none if it is not a kind of Cluster API.
pub fn versions(group: &str, kind: &str) -> Vec<&'static str> {
    tables::find(group, kind)
        .map(|kind| kind.older.iter().copied().chain([HUB]).collect())
        .unwrap_or_default()
}

/// The group and name of every kind that has more than one version.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    tables::KINDS.iter().map(|kind| (kind.group, kind.name))
}

/// Whether an object is of a version older than the one that is stored.
pub fn is_older(object: &Value) -> bool {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = api_version::split(text("apiVersion"));
    tables::find(group, text("kind")).is_some_and(|kind| kind.older.contains(&version))
}

/// An object of an older version as the stored one; everything else as it is. No contract is needed for that.
///
/// # Errors
///
/// As [`convert`].
pub fn newest(object: Value) -> Result<Value, ConvertError> {
    if !is_older(&object) {
        return Ok(object);
    }
    let group = object.get("apiVersion").and_then(Value::as_str).map_or("", api_version::group);
    let desired = api_version::join(group, HUB);
    convert(object, &desired, &|_: &str, _: &str| None)
}

fn up(mut object: Fields, kind: &Kind, contracts: &dyn Contracts) -> Result<Fields, ConvertError> {
    let data = if kind.keeps_data { data::take(&mut object)? } else { None };
    walked(object, kind, |body, context| walk::up(body, kind.rules, data.as_ref(), context), contracts)
}

fn down(
    object: Fields,
    hub_version: &str,
    kind: &Kind,
    contracts: &dyn Contracts,
) -> Result<Fields, ConvertError> {
    let mut hub = object.clone();
    hub.insert("apiVersion".to_owned(), hub_version.into());
    let mut converted =
        walked(object, kind, |body, context| walk::down(body, kind.rules, context), contracts)?;
    // A fragment with neither has nothing to lose.
    if kind.keeps_data && (hub.contains_key("spec") || hub.contains_key("status")) {
        data::write(&mut converted, &hub);
    }
    Ok(converted)
}

/// Converts `spec` and `status`; metadata are the same in all versions.
fn walked(
    mut object: Fields,
    kind: &Kind,
    walk: impl FnOnce(Fields, &Context<'_>) -> Result<Fields, ConvertError>,
    contracts: &dyn Contracts,
) -> Result<Fields, ConvertError> {
    if kind.rules.is_empty() {
        return Ok(object);
    }
    let mut body = Fields::new();
    for part in ["spec", "status"] {
        if let Some(value) = object.remove(part) {
            body.insert(part.to_owned(), value);
        }
    }
    let namespace = object.get("metadata").and_then(|metadata| metadata.get("namespace"));
    let context = Context { path: String::new(), namespace: namespace.and_then(Value::as_str), contracts };
    for (part, mut value) in walk(body, &context)? {
        tidy(&part, &mut value);
        if !is_nothing(&value) {
            object.insert(part, value);
        }
    }
    Ok(object)
}
