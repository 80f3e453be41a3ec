//! The scale subresource: how many of something there are and should be, whatever the kind.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::create::Ownership;
use super::prepare::text;
use super::update::Part;
use super::{Call, Written};
use crate::api::{Failure, Layout, PatchFormat, canonical};
use crate::machinery::{Dialect, JsonPatch, merge_patch};
use crate::registry::ScalePaths;
use crate::response::Reply;

impl Call {
    pub(super) fn get_scale(&self, paths: &ScalePaths) -> Result<Reply, Failure> {
        let object = self.find(self.name())?;
        Ok(reply(&scale(&self.resource.value(&object)?, paths)))
    }

    pub(super) async fn put_scale(&self, paths: &ScalePaths, body: &Bytes) -> Result<Reply, Failure> {
        let given = self.read_document(body)?.value;
        self.set_scale(paths, |_| Ok(given.clone())).await
    }

    pub(super) async fn patch_scale(&self, paths: &ScalePaths, body: &Bytes) -> Result<Reply, Failure> {
        let format = PatchFormat::of(&self.headers, self.resource.strategy.custom)?;
        let patch = self.read_json(body)?.value;
        self.set_scale(paths, |old| {
            let current = scale(old, paths);
            match format {
                PatchFormat::Json => JsonPatch::parse(Dialect::ApiServer, &patch)
                    .and_then(|patch| patch.apply(&current))
                    .map_err(|_| Failure::patch_does_not_fit()),
                _ => merge_patch::apply(&current, &patch)
                    .map_err(|error| Failure::bad_request(error.to_string())),
            }
        })
        .await
    }

    async fn set_scale(
        &self,
        paths: &ScalePaths,
        make: impl Fn(&Value) -> Result<Value, Failure>,
    ) -> Result<Reply, Failure> {
        let mut warnings = Vec::new();
        let written = self
            .rewrite(Part::Scale, Ownership::Recorded, &mut warnings, |old| {
                let given = make(old)?;
                let replicas = given["spec"]["replicas"].as_i64().unwrap_or_default();
                if replicas < 0 {
                    let detail = "should be a non-negative integer";
                    let cause = crate::machinery::Cause::invalid("spec.replicas", &replicas.into(), detail);
                    return Err(Failure::invalid("autoscaling", "Scale", self.name(), &[cause]));
                }
                let mut new = old.clone();
                paths.spec_replicas.set(&mut new, replicas.into());
                new["metadata"]["resourceVersion"] = text(&given, "resourceVersion").into();
                Ok(new)
            })
            .await?;
        let value = match written {
            Written::Stored(object) => self.resource.value(&object)?,
            Written::Shown(value) => value,
        };
        Ok(reply(&scale(&value, paths)))
    }
}

fn reply(scale: &Value) -> Reply {
    Reply::json(StatusCode::OK, canonical(scale, Layout::KindFirst))
}

/// An object as its scale.
fn scale(object: &Value, paths: &ScalePaths) -> Value {
    let number =
        |path: &crate::registry::JsonPath| path.first(object).and_then(Value::as_i64).unwrap_or_default();
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": number(&paths.spec_replicas)},
        "status": {"replicas": number(&paths.status_replicas)},
    });
    match paths.selector.as_ref().and_then(|path| path.first(object)) {
        Some(Value::String(selector)) if !selector.is_empty() => {
            scale["status"]["selector"] = selector.as_str().into();
        }
        Some(Value::Object(selector)) => scale["status"]["selector"] = selector_text(selector).into(),
        _ => {}
    }
    scale
}

/// A selector of a workload as text: `app=web`.
fn selector_text(selector: &serde_json::Map<String, Value>) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).unwrap_or(selector);
    let pair = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    labels.iter().map(pair).collect::<Vec<_>>().join(",")
}
