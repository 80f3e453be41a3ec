//! Patches and server-side apply.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::create::Ownership;
use super::prepare::text;
use super::update::Part;
use super::{Call, Written};
use crate::api::{Failure, PatchFormat, StatusCause};
use crate::decode::{self, Document};
use crate::machinery::{
    ApplyError, Cause, Dialect, JsonPatch, JsonPatchError, merge_patch, strategic_merge_patch,
};
use crate::response::Reply;

/// A patch that was read and can be applied any number of times.
enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

impl Call {
    pub(super) async fn patch(&self, part: Part, body: &Bytes) -> Result<Reply, Failure> {
        let format = PatchFormat::of(&self.headers, self.resource.strategy.custom)?;
        if format == PatchFormat::Apply {
            return self.apply(part, body).await;
        }
        if self.query.force.is_some() {
            return Err(patch_options(Cause::forbidden("force", "may not be specified for non-apply patch")));
        }
        let mut warnings = Vec::new();
        let mut said = Vec::new();
        let patch = self.read_patch(format, body, &mut warnings)?;
        let written = self
            .rewrite(part, Ownership::Creator, &mut warnings, |old| {
                let mut new = patch.apply(self, old)?;
                self.check_patched(old, &new)?;
                let unknown = self.drop_unknown(&mut new)?;
                said.clear();
                self.complain(&mut said, unknown.into_iter())?;
                Ok(new)
            })
            .await?;
        warnings.append(&mut said);
        let mut reply = self.reply(StatusCode::OK, written)?;
        reply.warnings = warnings;
        Ok(reply)
    }

    pub(super) fn read_json(&self, body: &Bytes) -> Result<Document, Failure> {
        decode::json(body).map_err(|error| {
            Failure::bad_request(format!("error decoding patch: {}", decode::describe(&error, body)))
        })
    }

    fn read_patch(
        &self,
        format: PatchFormat,
        body: &Bytes,
        warnings: &mut Vec<String>,
    ) -> Result<Patch, Failure> {
        let Document { value, duplicates } = self.read_json(body)?;
        self.complain(warnings, duplicates.iter().map(|field| format!("duplicate field {field:?}")))?;
        match format {
            PatchFormat::Json => {
                JsonPatch::parse(Dialect::ApiServer, &value).map(Patch::Json).map_err(json_failure)
            }
            _ if !value.is_object() => {
                Err(Failure::bad_request("error decoding patch: a patch is an object"))
            }
            PatchFormat::Strategic => Ok(Patch::Strategic(value)),
            PatchFormat::Merge | PatchFormat::Apply => Ok(Patch::Merge(value)),
        }
    }

    /// A patch may change everything except what the object is.
    fn check_patched(&self, old: &Value, new: &Value) -> Result<(), Failure> {
        self.check_metadata_types(new)?;
        for field in ["apiVersion", "kind"] {
            if new[field] != old[field] {
                let given = new[field].as_str().unwrap_or_default();
                return Err(Failure::bad_request(format!(
                    "{field} of the patched object is {given:?} instead of {}",
                    old[field]
                )));
            }
        }
        for field in ["name", "namespace"] {
            let (given, found) = (text(new, field), text(old, field));
            if given != found {
                return Err(Failure::bad_request(format!(
                    "the {field} of the provided object does not match the {field} sent on the request"
                )));
            }
        }
        Ok(())
    }

    async fn apply(&self, part: Part, body: &Bytes) -> Result<Reply, Failure> {
        let manager = &self.query.field_manager;
        if manager.is_empty() {
            return Err(patch_options(Cause::required("fieldManager", "is required for apply patch")));
        }
        let mut warnings = Vec::new();
        let document = decode::yaml(body)
            .map_err(|error| Failure::bad_request(format!("error decoding YAML: {error}")))?;
        self.complain(
            &mut warnings,
            document.duplicates.iter().map(|field| format!("duplicate field {field:?}")),
        )?;
        let mut config = document.value;
        if !config.is_object() {
            return Err(Failure::bad_request("error decoding YAML: an apply needs an object"));
        }
        self.check_applied(&config)?;
        if let Some(schema) = self.resource.schema.as_ref().filter(|_| config["kind"] == *self.resource.kind)
        {
            let given = config.pointer("/metadata/managedFields").cloned();
            let unknown = schema.schema.prune_checked(&mut config);
            self.complain(&mut warnings, unknown.iter().map(|field| format!("unknown field {field:?}")))?;
            if let Some(given) = given {
                config["metadata"]["managedFields"] = given;
            }
        }
        let is_it = config["kind"] == *self.resource.kind;
        if let Some(unknown) = if is_it { self.drop_unknown(&mut config)? } else { Vec::new() }.first() {
            let (api_version, kind) = (self.resource.api_version(), &self.resource.kind);
            let field = unknown.trim_start_matches("unknown field ").trim_matches('"');
            return Err(Failure::bad_request(format!(
                "failed to create typed patch object ({}/{}; {api_version}, Kind={kind}): .{field}: field not \
                 declared in schema",
                self.namespace,
                self.name()
            )));
        }
        let force = self.query.force.unwrap_or_default();
        let merge = |live: &Value| -> Result<Value, Failure> {
            let now = self.timestamp();
            let applied =
                self.with_fields(part, |fields| fields.apply_checked(live, &config, manager, force, now));
            applied.map_err(|error| self.apply_failure(error))
        };
        let result = self.rewrite(part, Ownership::Recorded, &mut warnings, merge).await;
        let (code, written) = match result {
            Err(failure) if failure.reason() == "NotFound" && part == Part::Object => {
                (StatusCode::CREATED, self.apply_new(&config, merge, &mut warnings).await?)
            }
            result => (StatusCode::OK, result?),
        };
        let mut reply = self.reply(code, written)?;
        reply.warnings = warnings;
        Ok(reply)
    }

    async fn apply_new(
        &self,
        config: &Value,
        merge: impl Fn(&Value) -> Result<Value, Failure>,
        warnings: &mut Vec<String>,
    ) -> Result<Written, Failure> {
        if !text(config, "uid").is_empty() || !text(config, "resourceVersion").is_empty() {
            // It is about an object that was there once.
            return Err(Failure::conflict(
                self.resource.subject(self.name()),
                "uid or resourceVersion given for an object that does not exist",
            ));
        }
        self.may_create()?;
        let mut object = merge(&self.blank())?;
        object["metadata"]["name"] = self.name().into();
        self.insert(object, Ownership::Recorded, warnings).await
    }

    /// What an apply says about itself must be what the path says.
    fn check_applied(&self, config: &Value) -> Result<(), Failure> {
        self.check_metadata_types(config)?;
        let name = text(config, "name");
        if !name.is_empty() && name != self.name() {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name()
            )));
        }
        let namespace = text(config, "namespace");
        if !namespace.is_empty() && namespace != self.namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    fn apply_failure(&self, error: ApplyError) -> Failure {
        match error {
            ApplyError::Conflicts(conflicts) => {
                let cause = |cause: &Value| {
                    let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
                    StatusCause { reason: text("reason"), message: text("message"), field: text("field") }
                };
                let causes = conflicts.causes().iter().map(cause).collect();
                Failure::apply_conflict(conflicts.to_string(), causes)
            }
            ApplyError::NotServed(_) => Failure::NoSuchPath,
            error @ (ApplyError::MalformedLive { .. }
            | ApplyError::ManagedFields(_)
            | ApplyError::Conversion(_)) => Failure::internal(error),
            error => Failure::bad_request(error.to_string()),
        }
    }
}

impl Patch {
    fn apply(&self, call: &Call, old: &Value) -> Result<Value, Failure> {
        match self {
            Self::Json(patch) => patch.apply(old).map_err(json_failure),
            // The patch was just read, and what comes out of it is checked.
            Self::Merge(patch) => {
                let mut new = old.clone();
                merge_patch::apply_to(&mut new, patch);
                Ok(new)
            }
            Self::Strategic(patch) => {
                let api_version = call.resource.api_version();
                strategic_merge_patch(&api_version, &call.resource.kind, old, patch)
                    .map_err(|error| Failure::bad_request(error.to_string()))
            }
        }
    }
}

fn json_failure(error: JsonPatchError) -> Failure {
    match error {
        JsonPatchError::Malformed => Failure::bad_request(error.to_string()),
        _ => Failure::patch_does_not_fit(),
    }
}

fn patch_options(cause: Cause) -> Failure {
    Failure::invalid("meta.k8s.io", "PatchOptions", "", &[cause])
}
