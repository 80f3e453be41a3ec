//! Requests about a version that is not the stored one.
//!
//! Where the process itself converts, an object is brought into the stored version as soon as the request has made it: then
//! admission, defaults, validation and managed fields see one version, whichever the client uses. A patch and a server-side
//! apply are made on what the client sees, and an apply is recorded in the client's version.

use std::sync::Arc;

use serde_json::Value;
use windlass_api::api_version;

use super::update::Part;
use super::{Call, Written};
use crate::api::Failure;
use crate::machinery::{ConversionError, Endpoint, FieldManager, Shape, Versions, builtin_blank};

impl Versions for Call {
    fn shape(&self, api_version: &str) -> Option<Arc<Shape>> {
        let (group, version) = api_version::split(api_version);
        if (group, version) == (self.resource.group.as_str(), self.resource.version.as_str()) {
            return Some(Arc::clone(&self.resource.shape));
        }
        let resource = self.registry.get(group, version, &self.resource.plural)?;
        Some(Arc::clone(&resource.shape))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConversionError> {
        let mut converted = object.clone();
        // Not always the version of the request: ownership is seen in the versions of all managers.
        let from = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        if let Some(convert) = self.resource.conversion.function().filter(|_| from != api_version) {
            convert(&mut converted, &from, api_version)
                .map_err(|problem| ConversionError { api_version: api_version.to_owned(), problem })?;
        }
        converted["apiVersion"] = api_version.into();
        Ok(converted)
    }
}

impl Call {
    /// The same request about the stored version, if that is another one and the process converts.
    pub(super) fn at_home(&self) -> Option<Self> {
        if self.resource.version == self.resource.storage_version || !self.resource.converts_in_process() {
            return None;
        }
        let home = self.registry.home(&self.resource.storage)?;
        let subresource = self
            .subresource
            .as_ref()
            .and_then(|part| home.subresources.iter().find(|other| other.name() == part.name()).cloned());
        Some(Self { resource: Arc::clone(home), subresource, ..self.clone() })
    }

    /// What the client has sent as it will be stored. That it cannot be converted is the client's fault.
    pub(super) fn for_storage(&self, home: &Self, object: Value) -> Result<Value, Failure> {
        let (from, to) = (self.resource.api_version(), home.resource.api_version());
        let mut object = object;
        if let Some(convert) = self.resource.conversion.function() {
            convert(&mut object, &from, &to)
                .map_err(|why| Failure::bad_request(format!("cannot be converted to {to}: {why}")))?;
        }
        object["apiVersion"] = to.into();
        Ok(object)
    }

    /// What was written as the client sees it.
    pub(super) fn as_asked_for(&self, home: &Self, written: Written) -> Result<Written, Failure> {
        Ok(match written {
            Written::Shown(value) => Written::Shown(home.resource.shown_as(value, &self.resource)?),
            stored @ Written::Stored(_) => stored,
        })
    }

    /// Runs something with the manager of fields for a part of an object.
    pub(super) fn with_fields<T>(&self, part: Part, work: impl FnOnce(&FieldManager<'_>) -> T) -> T {
        let endpoint = match part {
            Part::Status | Part::Approval => Endpoint::Status,
            _ => Endpoint::Object { has_status: self.resource.has_status() },
        };
        let api_version = self.resource.api_version();
        work(&FieldManager { versions: self, api_version: &api_version, kind: &self.resource.kind, endpoint })
    }

    /// An object with nothing in it: what is there before a create.
    pub(super) fn blank(&self) -> Value {
        let (api_version, kind) = (self.resource.api_version(), &self.resource.kind);
        if self.resource.strategy.custom {
            serde_json::json!({"apiVersion": api_version, "kind": kind})
        } else {
            builtin_blank(&api_version, kind)
        }
    }
}
