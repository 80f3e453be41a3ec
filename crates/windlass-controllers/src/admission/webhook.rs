//! Admission over HTTP: AdmissionReview v1, for a kube-apiserver.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use tower_service::Service;

use windlass_engine::features::Features;

use super::objects::LookUp;
use super::review::{Asked, Refused, Rules};

/// Where objects are filled in.
pub const PATH_MUTATE: &str = "/mutate";
/// Where objects are checked.
pub const PATH_VALIDATE: &str = "/validate";

/// A service that answers AdmissionReviews at [`PATH_MUTATE`] and [`PATH_VALIDATE`].
pub struct AdmissionWebhook<L> {
    rules: Arc<Rules<L>>,
}

impl<L: LookUp> AdmissionWebhook<L> {
    /// Rules that look things up in some way.
    pub fn new(look_up: L) -> Self {
        Self::with_features(look_up, Features::default())
    }

    /// The same with features of the caller's choice.
    pub fn with_features(look_up: L, features: Features) -> Self {
        Self { rules: Arc::new(Rules::new(look_up).with_features(features)) }
    }

    /// Answers a review, which is what the path says.
    ///
    /// # Errors
    ///
    /// When the body is no AdmissionReview.
    pub async fn review(&self, mutating: bool, body: &[u8]) -> Result<Value, String> {
        let review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let request = &review["request"];
        // The API server leaves out what is empty: no subresource, no namespace, no name yet.
        let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let required = |pointer: &str| {
            let found = request.pointer(pointer).and_then(Value::as_str);
            found.ok_or_else(|| {
                let field = pointer.replace('/', ".");
                format!("request{field} is missing: an AdmissionReview of admission.k8s.io/v1 is needed")
            })
        };
        let uid = required("/uid")?;
        let (old, is_deletion) = (&request["oldObject"], required("/operation")? == "DELETE");
        let asked = Asked {
            group: required("/resource/group")?,
            resource: required("/resource/resource")?,
            subresource: text("/subResource"),
            namespace: text("/namespace"),
            name: text("/name"),
            old: Some(old).filter(|old| !old.is_null()),
            is_deletion,
        };
        let object = if is_deletion { old } else { &request["object"] };
        let mut answer = json!({"uid": uid, "allowed": true});
        if mutating {
            let mut filled = object.clone();
            match self.rules.mutate(&asked, &mut filled).await {
                Err(refused) => refuse(&mut answer, &refused),
                Ok(()) => {
                    // What rules fill in is below these two.
                    let paths = ["/spec", "/metadata/annotations"].into_iter();
                    let changed = paths.filter(|path| filled.pointer(path) != object.pointer(path));
                    let patch: Vec<Value> = changed
                        .map(|path| json!({"op": "add", "path": path, "value": filled.pointer(path)}))
                        .collect();
                    if !patch.is_empty() {
                        answer["patchType"] = json!("JSONPatch");
                        answer["patch"] = json!(BASE64_STANDARD.encode(json!(patch).to_string()));
                    }
                }
            }
        } else {
            match self.rules.validate(&asked, object).await {
                Err(refused) => refuse(&mut answer, &refused),
                Ok(warnings) if !warnings.is_empty() => answer["warnings"] = json!(warnings),
                Ok(_) => {}
            }
        }
        Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}))
    }
}

fn refuse(answer: &mut Value, refused: &Refused) {
    let causes: Vec<Value> = refused
        .fields
        .iter()
        .map(|(field, message)| json!({"reason": "FieldValueInvalid", "field": field, "message": message}))
        .collect();
    answer["allowed"] = json!(false);
    answer["status"] = json!({
        "status": "Failure", "code": 422, "reason": "Invalid",
        "message": refused.to_string(), "details": {"causes": causes},
    });
}

impl<L> Clone for AdmissionWebhook<L> {
    fn clone(&self) -> Self {
        Self { rules: Arc::clone(&self.rules) }
    }
}

impl<L: LookUp> Service<Request<Bytes>> for AdmissionWebhook<L> {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Bytes>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let webhook = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let mutating = match parts.uri.path() {
                PATH_MUTATE => true,
                PATH_VALIDATE => false,
                _ => return Ok(answer(StatusCode::NOT_FOUND, &json!({"message": "there is nothing here"}))),
            };
            if parts.method != Method::POST {
                let message = json!({"message": "reviews are sent with POST"});
                return Ok(answer(StatusCode::METHOD_NOT_ALLOWED, &message));
            }
            Ok(match webhook.review(mutating, &body).await {
                Ok(review) => answer(StatusCode::OK, &review),
                Err(problem) => answer(StatusCode::BAD_REQUEST, &json!({"message": problem})),
            })
        })
    }
}

fn answer(status: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
