//! Every error body, in one place, with the words that clients know.

use std::borrow::Cow;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use windlass_api::printable;

use crate::machinery::{Cause, cause};

/// Why a request is answered with something else than what it asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An answer that clients can take apart.
    #[error("{}", .0.message)]
    Status(Box<Status>),
    /// There is nothing at this path. Clients tell it from a missing object by it not being JSON.
    #[error("404 page not found")]
    NoSuchPath,
}

/// A Kubernetes `Status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    kind: &'static str,
    api_version: &'static str,
    metadata: Map<String, Value>,
    /// `Success` or `Failure`.
    pub status: &'static str,
    /// What happened, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What happened, in one word, for programs.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'static str,
    /// What it happened to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// The HTTP status; absent on success.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// What a `Status` is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the object; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its kind, or its resource where the API server says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// UID of the object; empty if the request did not get as far as one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// When to try again.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u16,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatusCause {
    /// In one word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The field it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// What an error is about: `widgets.demo.test "w1"`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    /// The plural name in most errors, the kind in some.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

impl Subject<'_> {
    fn details(&self) -> Details {
        Details {
            name: self.name.to_owned(),
            group: self.group.to_owned(),
            kind: self.kind.to_owned(),
            ..Details::default()
        }
    }
}

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            write!(f, "{} {:?}", self.kind, self.name)
        } else {
            write!(f, "{}.{} {:?}", self.kind, self.group, self.name)
        }
    }
}

impl Status {
    /// What clients sent is in messages and names, and people see both in their terminals.
    fn failure(code: u16, reason: &'static str, message: String, details: Option<Details>) -> Self {
        let clean = |text: String| {
            let escaped = match printable(&text) {
                Cow::Owned(escaped) => Some(escaped),
                Cow::Borrowed(_) => None,
            };
            escaped.unwrap_or(text)
        };
        let message = clean(message);
        let details = details.map(|mut details| {
            details.name = clean(details.name);
            let causes = details.causes.into_iter().map(|cause| StatusCause {
                message: clean(cause.message),
                field: clean(cause.field),
                ..cause
            });
            details.causes = causes.collect();
            details
        });
        Self { status: "Failure", message, reason, details, code, ..Self::success(None) }
    }

    /// What a deletion that is done answers.
    pub fn success(details: Option<Details>) -> Self {
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: Map::new(),
            status: "Success",
            message: String::new(),
            reason: "",
            details,
            code: 0,
        }
    }

    /// The body.
    pub fn to_json(&self) -> Vec<u8> {
        // A struct of texts and numbers can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Failure {
    fn status(code: StatusCode, reason: &'static str, message: String, details: Option<Details>) -> Self {
        Self::Status(Box::new(Status::failure(code.as_u16(), reason, message, details)))
    }

    /// The HTTP status.
    pub fn code(&self) -> u16 {
        match self {
            Self::Status(status) => status.code,
            Self::NoSuchPath => StatusCode::NOT_FOUND.as_u16(),
        }
    }

    /// The word for programs, empty for a path that does not exist.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Status(status) => status.reason,
            Self::NoSuchPath => "",
        }
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::status(StatusCode::BAD_REQUEST, "BadRequest", message.into(), None)
    }

    pub(crate) fn not_found(subject: Subject<'_>) -> Self {
        let message = format!("{subject} not found");
        Self::status(StatusCode::NOT_FOUND, "NotFound", message, Some(subject.details()))
    }

    pub(crate) fn already_exists(subject: Subject<'_>, being_deleted: bool) -> Self {
        let prefix = if being_deleted { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{subject} already exists");
        Self::status(StatusCode::CONFLICT, "AlreadyExists", message, Some(subject.details()))
    }

    pub(crate) fn modified(subject: Subject<'_>) -> Self {
        Self::conflict(
            subject,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn conflict(subject: Subject<'_>, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {subject}: {why}");
        Self::status(StatusCode::CONFLICT, "Conflict", message, Some(subject.details()))
    }

    /// An apply that others' fields stand in the way of.
    pub(crate) fn apply_conflict(message: String, causes: Vec<StatusCause>) -> Self {
        let details = Details { causes, ..Details::default() };
        Self::status(StatusCode::CONFLICT, "Conflict", message, Some(details))
    }

    /// An object, or the options of a request, with fields that are wrong.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let subject = Subject { group, kind, name };
        let message = format!("{subject} is invalid: {}", cause::summary(causes));
        let causes = causes.iter().map(|cause| StatusCause {
            reason: cause.reason.as_str().to_owned(),
            message: cause.message.clone(),
            field: cause.field.clone(),
        });
        let details = Details { causes: causes.collect(), ..subject.details() };
        Self::status(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }

    /// A patch that does not fit the object it is for.
    pub(crate) fn patch_does_not_fit() -> Self {
        let message = "the server rejected our request due to an error in our request".to_owned();
        Self::status(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(Details::default()))
    }

    pub(crate) fn forbidden(subject: Subject<'_>, why: &str) -> Self {
        let message = match subject {
            Subject { kind: "", .. } => format!("forbidden: {why}"),
            Subject { group: "", kind, name: "" } => format!("{kind} is forbidden: {why}"),
            Subject { group, kind, name: "" } => format!("{kind}.{group} is forbidden: {why}"),
            subject => format!("{subject} is forbidden: {why}"),
        };
        Self::status(StatusCode::FORBIDDEN, "Forbidden", message, Some(subject.details()))
    }

    /// A refusal by an admission webhook, with the status of its choice.
    pub(crate) fn denied(code: u16, message: String) -> Self {
        let code = StatusCode::from_u16(code).ok().filter(|code| code.as_u16() >= 400);
        let (code, reason) = match code.unwrap_or(StatusCode::FORBIDDEN) {
            StatusCode::BAD_REQUEST => (StatusCode::BAD_REQUEST, "BadRequest"),
            StatusCode::CONFLICT => (StatusCode::CONFLICT, "Conflict"),
            StatusCode::UNPROCESSABLE_ENTITY => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
            StatusCode::FORBIDDEN => (StatusCode::FORBIDDEN, "Forbidden"),
            code => (code, ""),
        };
        Self::status(code, reason, message, None)
    }

    /// New content for a namespace that is going away.
    pub(crate) fn namespace_terminating(subject: Subject<'_>, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = StatusCause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        };
        let mut failure = Self::forbidden(subject, &why);
        if let Self::Status(status) = &mut failure {
            status.details.get_or_insert_default().causes.push(cause);
        }
        failure
    }

    pub(crate) fn unauthorized() -> Self {
        Self::status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized".to_owned(), None)
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message, None)
    }

    pub(crate) fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::status(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, None)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource".to_owned();
        Self::status(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, Some(Details::default()))
    }

    /// A method that is refused for now, with the reason.
    pub(crate) fn not_while_terminating(subject: Subject<'_>) -> Self {
        let message = "create not allowed while custom resource definition is terminating".to_owned();
        let details = Details { name: String::new(), ..subject.details() };
        Self::status(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, Some(details))
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        let message = format!("limit is {limit}");
        let message = format!("Request entity is too large: {message}");
        Self::status(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, None)
    }

    /// A revision that the store has not reached.
    pub(crate) fn version_too_large(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = StatusCause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
        Self::status(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(details))
    }

    /// A revision from which a watch can no longer start.
    pub(crate) fn version_too_old(requested: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {requested} ({oldest})");
        Self::status(StatusCode::GONE, "Expired", message, None)
    }

    /// A page of a list whose moment is no longer known.
    pub(crate) fn continue_expired() -> Self {
        let message =
            "The provided continue parameter is too old to display a consistent list result. You must \
                       start a new list without the continue parameter."
                .to_owned();
        Self::status(StatusCode::GONE, "Expired", message, None)
    }

    pub(crate) fn too_many_requests(message: &str) -> Self {
        let details = Details { retry_after_seconds: 1, ..Details::default() };
        Self::status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message.to_owned(), Some(details))
    }

    /// An eviction that a disruption budget does not allow now.
    pub(crate) fn disruption(message: &str, why: &str, retry_after_seconds: u16) -> Self {
        let cause = StatusCause {
            reason: "DisruptionBudget".to_owned(),
            message: why.to_owned(),
            field: String::new(),
        };
        let details = Details { causes: vec![cause], retry_after_seconds, ..Details::default() };
        Self::status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message.to_owned(), Some(details))
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message.into(), None)
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message, None)
    }

    /// The seconds of a `Retry-After` header.
    pub(crate) fn retry_after(&self) -> Option<u16> {
        match self {
            Self::Status(status) => status
                .details
                .as_ref()
                .map(|details| details.retry_after_seconds)
                .filter(|seconds| *seconds > 0),
            Self::NoSuchPath => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_invalid_object_names_every_field() {
        let causes = [Cause::required("spec.color", "")];
        let Failure::Status(status) = Failure::invalid("demo.test", "Widget", "w2", &causes) else {
            panic!("an invalid object is answered with a status");
        };
        let body: Value = serde_json::from_slice(&status.to_json()).unwrap();
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Widget.demo.test \"w2\" is invalid: spec.color: Required value",
            "reason": "Invalid",
            "details": {"name": "w2", "group": "demo.test", "kind": "Widget", "causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.color"}]},
            "code": 422,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn core_objects_are_named_without_a_group() {
        let failure = Failure::not_found(Subject { group: "", kind: "namespaces", name: "nons" });
        assert_eq!(failure.to_string(), "namespaces \"nons\" not found");
    }
}
