//! Objects as the store has them, and as a version of their resource shows them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use windlass_store as store;

use crate::api::{Failure, canonical, stamped};
use crate::registry::{Conversion, Resource};

/// What is needed to know of an object without reading all of it, derived once per version.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Meta {
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default, rename = "ownerReferences")]
    pub(crate) owners: Vec<Owner>,
    #[serde(default)]
    pub(crate) finalizers: Vec<String>,
    #[serde(default, rename = "deletionTimestamp")]
    pub(crate) deleted_at: Option<String>,
}

/// An owner of an object.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner {
    #[serde(default)]
    pub(crate) api_version: String,
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) block_owner_deletion: bool,
}

/// The metadata of an object.
pub(crate) fn meta(object: &store::Object) -> Arc<Meta> {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(default)]
        metadata: Meta,
    }
    object.meta(|object| {
        // What is in the store was written by us; if it cannot be read, it has no labels and no owners.
        serde_json::from_slice::<Envelope>(object.value()).map(|object| object.metadata).unwrap_or_default()
    })
}

/// The labels of a CRD in a store, for functions that convert: which version keeps a contract is said there. They are
/// derived once per version of the CRD, so that this costs little.
pub fn crd_labels(store: &store::Store, name: &str) -> Option<BTreeMap<String, String>> {
    let crds = store::Resource::new("apiextensions.k8s.io/customresourcedefinitions").ok()?;
    let key = store::Key::new(&crds, "", name).ok()?;
    let crd = store.get(&key)?;
    Some(meta(&crd).labels.clone())
}

impl Resource {
    /// Whether a function of the process makes its versions from each other.
    pub(crate) fn converts_in_process(&self) -> bool {
        matches!(self.conversion, Conversion::Function(_))
    }

    /// Whether it may take a call over the network to show an object in this version.
    pub(crate) fn waits_to_convert(&self) -> bool {
        matches!(self.conversion, Conversion::Webhook(_))
    }

    /// Whether the bytes in the store are what a client of this version gets.
    fn is_ready_made(&self, object: &store::Object) -> bool {
        self.version == self.storage_version
            && object.revision() >= self.since
            && !matches!(self.conversion, Conversion::Events)
    }

    /// An object as this version shows it.
    pub(crate) fn bytes(&self, object: &store::Object) -> Result<Bytes, Failure> {
        if self.is_ready_made(object) {
            return Ok(object.value().clone());
        }
        Ok(canonical(&self.value(object)?, self.layout()))
    }

    /// An object as this version shows it, parsed.
    pub(crate) fn value(&self, object: &store::Object) -> Result<Value, Failure> {
        let mut value = parse(object)?;
        if !self.is_ready_made(object) {
            self.convert_from_storage(&mut value)?;
            self.tidy(&mut value);
        }
        Ok(value)
    }

    fn convert_from_storage(&self, value: &mut Value) -> Result<(), Failure> {
        let to = self.api_version();
        match &self.conversion {
            Conversion::Relabel => {}
            Conversion::Events => event_from_core(value),
            Conversion::Function(convert) | Conversion::Webhook(convert) => {
                let from = value["apiVersion"].as_str().unwrap_or_default().to_owned();
                if from != to {
                    convert(value, &from, &to).map_err(Failure::internal)?;
                }
            }
        }
        value["apiVersion"] = to.into();
        Ok(())
    }

    /// An object of this version as the store keeps it.
    fn to_storage<'v>(&self, value: &'v Value) -> Result<Cow<'v, Value>, Failure> {
        let is_same = self.version == self.storage_version && !matches!(self.conversion, Conversion::Events);
        if is_same {
            return Ok(Cow::Borrowed(value));
        }
        let mut value = value.clone();
        let (from, to) = (self.api_version(), self.storage_api_version());
        match &self.conversion {
            Conversion::Events => {
                event_to_core(&mut value);
                value["apiVersion"] = "v1".into();
            }
            Conversion::Relabel => value["apiVersion"] = to.into(),
            Conversion::Function(convert) | Conversion::Webhook(convert) => {
                convert(&mut value, &from, &to).map_err(Failure::internal)?;
                value["apiVersion"] = to.into();
            }
        }
        Ok(Cow::Owned(value))
    }

    /// An object of this version as another version shows it.
    pub(crate) fn shown_as(&self, value: Value, other: &Self) -> Result<Value, Failure> {
        if self.version == other.version {
            return Ok(value);
        }
        let mut value = self.to_storage(&value)?.into_owned();
        other.convert_from_storage(&mut value)?;
        Ok(value)
    }

    /// An object of this version as bytes for the store, with a gap for its revision, and with what would
    /// otherwise have to be read from the bytes again.
    pub(crate) fn to_store(&self, value: &Value) -> Result<store::Value, Failure> {
        let value = self.to_storage(value)?;
        let stamped = stamped(&value, self.layout());
        let meta = value.get("metadata").map(Meta::deserialize).and_then(Result::ok).unwrap_or_default();
        Ok(store::Value::stamped(stamped.before, stamped.after).with_meta(Arc::new(meta)))
    }

    /// Drops what the schema of today does not know and fills in its defaults.
    fn tidy(&self, value: &mut Value) {
        if let Some(schema) = &self.schema {
            schema.schema.prune_checked(value);
            schema.schema.apply_defaults_checked(value);
        }
    }
}

/// An object as it was written.
pub(crate) fn parse(object: &store::Object) -> Result<Value, Failure> {
    serde_json::from_slice(object.value())
        .map_err(|error| Failure::internal(format!("{}: {error}", object.key())))
}

/// The names of fields that differ between the two kinds of events.
const EVENT_FIELDS: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// `reportingComponent` is called `reportingController` in the other group.
const EVENT_REPORTER: (&str, &str) = ("reportingComponent", "reportingController");

fn event_from_core(event: &mut Value) {
    rename(event, EVENT_FIELDS.iter().chain([&EVENT_REPORTER]).copied());
}

fn event_to_core(event: &mut Value) {
    let swapped = EVENT_FIELDS.iter().chain([&EVENT_REPORTER]).map(|(core, other)| (*other, *core));
    rename(event, swapped);
}

fn rename<'a>(object: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    let Value::Object(fields) = object else { return };
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_of_one_group_is_one_of_the_other_and_back() {
        let core = json!({"involvedObject": {"name": "a"}, "message": "m", "count": 2, "reason": "R",
            "reportingComponent": "c", "source": {"component": "s"}});
        let mut event = core.clone();
        event_from_core(&mut event);
        let other = json!({"regarding": {"name": "a"}, "note": "m", "deprecatedCount": 2, "reason": "R",
            "reportingController": "c", "deprecatedSource": {"component": "s"}});
        assert_eq!(event, other);
        event_to_core(&mut event);
        assert_eq!(event, core);
    }
}
