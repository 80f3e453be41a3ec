//! From the body of a request to an object of the resource.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::Call;
use crate::api::{BodyFormat, Failure, FieldValidation};
use crate::decode::{self, Document};
use crate::machinery::{Cause, check_metadata, depth, types};
use crate::proto;

/// How much of a body that cannot be read an error repeats.
const SHOWN: usize = 1024;

impl Call {
    /// Reads an object of this resource. Built-in kinds may leave out what the path says already.
    pub(crate) fn read_object(&self, body: &Bytes, warnings: &mut Vec<String>) -> Result<Value, Failure> {
        let document = self.read_document(body)?;
        let mut object = document.value;
        let Value::Object(fields) = &mut object else {
            return Err(self.unrecognised("json: cannot unmarshal the document into an object", body));
        };
        self.check_type(fields, body)?;
        self.check_metadata_types(&object)?;
        let duplicates = document.duplicates.iter().map(|field| format!("duplicate field {field:?}"));
        let unknown = self.drop_unknown(&mut object)?;
        self.complain(warnings, duplicates.chain(unknown))?;
        Ok(object)
    }

    /// Drops what a built-in kind does not have, and says what that was. CRDs are looked at later,
    /// when every component that may change an object has done so.
    pub(super) fn drop_unknown(&self, object: &mut Value) -> Result<Vec<String>, Failure> {
        let Some(id) = self.resource.type_id else { return Ok(Vec::new()) };
        let unknown = types::tidy(types::catalogue(), id, object).map_err(|misfit| {
            let (kind, version) = (&self.resource.kind, &self.resource.version);
            Failure::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {misfit}"
            ))
        })?;
        Ok(unknown.into_iter().map(|field| format!("unknown field {field:?}")).collect())
    }

    pub(crate) fn read_document(&self, body: &Bytes) -> Result<Document, Failure> {
        match BodyFormat::of(&self.headers)? {
            BodyFormat::Json => decode::json(body).map_err(|error| {
                let why = decode::describe(&error, body);
                self.unrecognised(&format!("couldn't get version/kind; json parse error: {why}"), body)
            }),
            BodyFormat::Yaml => decode::yaml(body)
                .map_err(|error| self.unrecognised(&format!("couldn't get version/kind; {error}"), body)),
            BodyFormat::Protobuf => proto::decode(body)
                .map(|value| Document { value, duplicates: Vec::new() })
                .map_err(|error| match error {
                    proto::ProtoError::Unsupported { .. } => {
                        Failure::unsupported_media_type(&["application/json", "application/yaml"])
                    }
                    error => self.unrecognised(&error.to_string(), body),
                }),
        }
    }

    fn unrecognised(&self, why: &str, body: &Bytes) -> Failure {
        let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
        let kind = &self.resource.kind;
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    }

    fn check_type(&self, fields: &mut Map<String, Value>, body: &Bytes) -> Result<(), Failure> {
        let api_version = self.resource.api_version();
        let custom = self.resource.strategy.custom;
        for (name, wanted) in [("apiVersion", api_version.as_str()), ("kind", &self.resource.kind)] {
            let given = fields.get(name).and_then(Value::as_str).unwrap_or_default();
            if given.is_empty() {
                if custom {
                    let label = if name == "kind" { "Kind" } else { "apiVersion" };
                    let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
                    return Err(self.unrecognised(&format!("Object '{label}' is missing in '{shown}'"), body));
                }
                fields.insert(name.to_owned(), wanted.into());
            } else if given != wanted {
                return Err(self.wrong_type(name, given, wanted, fields));
            }
        }
        Ok(())
    }

    fn wrong_type(&self, field: &str, given: &str, wanted: &str, fields: &Map<String, Value>) -> Failure {
        let api_version = fields.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or(&self.resource.kind);
        if field == "apiVersion" || !self.resource.strategy.custom {
            return Failure::bad_request(format!(
                "{kind} in version {api_version:?} cannot be handled as a {}: no kind {kind:?} is registered for \
                 version {api_version:?} here",
                self.resource.kind
            ));
        }
        let name = fields.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        let cause = Cause::invalid(field, &given.into(), format!("must be {wanted}"));
        Failure::invalid(&self.resource.group, kind, name, &[cause])
    }

    /// Metadata must have its types before anything looks into it.
    pub(super) fn check_metadata_types(&self, object: &Value) -> Result<(), Failure> {
        depth::check(object).map_err(|error| Failure::bad_request(error.to_string()))?;
        let Some(metadata) = object.get("metadata").filter(|metadata| !metadata.is_null()) else {
            return Ok(());
        };
        let (kind, version) = (&self.resource.kind, &self.resource.version);
        check_metadata(metadata).map_err(|error| {
            Failure::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
            ))
        })
    }

    /// Fields that are given twice or that are unknown: errors, warnings or nothing, as the client wants.
    pub(super) fn complain(
        &self,
        warnings: &mut Vec<String>,
        complaints: impl Iterator<Item = String>,
    ) -> Result<(), Failure> {
        let complaints: Vec<String> = complaints.collect();
        match self.query.field_validation {
            FieldValidation::Strict if !complaints.is_empty() => {
                let kind = &self.resource.kind;
                Err(Failure::bad_request(format!(
                    "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
                    self.resource.version,
                    complaints.join(", ")
                )))
            }
            FieldValidation::Warn => {
                warnings.extend(complaints);
                Ok(())
            }
            FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
        }
    }
}
