//! What managed fields need to know about the versions of a resource.

use std::sync::Arc;

use serde_json::Value;

use super::Call;
use super::update::Part;
use crate::machinery::{ConversionError, Endpoint, FieldManager, Shape, Versions, builtin_blank};

impl Versions for Call {
    fn shape(&self, api_version: &str) -> Option<Arc<Shape>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if (group, version) == (self.resource.group.as_str(), self.resource.version.as_str()) {
            return Some(Arc::clone(&self.resource.shape));
        }
        let resource = self.registry.get(group, version, &self.resource.plural)?;
        Some(Arc::clone(&resource.shape))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConversionError> {
        let mut converted = object.clone();
        let from = self.resource.api_version();
        if let Some(convert) = self.resource.conversion.function().filter(|_| from != api_version) {
            convert(&mut converted, &from, api_version)
                .map_err(|problem| ConversionError { api_version: api_version.to_owned(), problem })?;
        }
        converted["apiVersion"] = api_version.into();
        Ok(converted)
    }
}

impl Call {
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
