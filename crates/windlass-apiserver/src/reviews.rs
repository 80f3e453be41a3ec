//! Questions that are answered and not kept: who am I, may I, is this token good.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{Failure, Layout, canonical};
use crate::authorize::{self, Wish};
use crate::identity::Identity;
use crate::response::Reply;
use crate::stored::meta;
use crate::time;
use crate::tokens::{API, Bound, Grant};
use crate::verbs::Call;

/// Answers a review.
pub(crate) async fn answer(call: &Call, body: &Bytes) -> Result<Reply, Failure> {
    let mut warnings = Vec::new();
    let mut review = call.read_object(body, &mut warnings)?;
    let spec = review["spec"].clone();
    review["status"] = match call.resource.kind.as_str() {
        "SelfSubjectReview" => {
            review["metadata"]["creationTimestamp"] = time::stamp(call.server.clock.now()).into();
            json!({"userInfo": call.identity.user_info()})
        }
        "TokenReview" => token_review(call, &spec),
        "SelfSubjectAccessReview" => access(call, &call.identity, &spec),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => access(call, &subject(&spec), &spec),
        "SelfSubjectRulesReview" => rules(call, spec["namespace"].as_str().unwrap_or_default()),
        _ => return Err(Failure::method_not_allowed()),
    };
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    let mut reply = Reply::json(StatusCode::CREATED, canonical(&review, Layout::KindFirst));
    reply.warnings = warnings;
    Ok(reply)
}

/// The audiences that a request names, or that of this API.
fn audiences(spec: &Value) -> Vec<String> {
    let named = spec["audiences"].as_array().into_iter().flatten();
    let named: Vec<String> = named.filter_map(|audience| audience.as_str().map(str::to_owned)).collect();
    if named.is_empty() { vec![API.to_owned()] } else { named }
}

fn token_review(call: &Call, spec: &Value) -> Value {
    let token = spec["token"].as_str().unwrap_or_default();
    match call.server.verify_token(token, &audiences(spec)) {
        Some((identity, audiences)) => {
            json!({"authenticated": true, "user": identity.user_info(), "audiences": audiences})
        }
        None => {
            json!({"user": {}, "error": "the token is not one that this server has issued, or it has expired"})
        }
    }
}

fn subject(spec: &Value) -> Identity {
    let groups = spec["groups"].as_array().into_iter().flatten();
    let groups = groups.filter_map(|group| group.as_str().map(str::to_owned));
    Identity {
        username: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: groups.collect(),
        ..Identity::default()
    }
}

fn access(call: &Call, identity: &Identity, spec: &Value) -> Value {
    let resource = &spec["resourceAttributes"];
    let path = &spec["nonResourceAttributes"];
    fn text<'a>(value: &'a Value, name: &str) -> &'a str {
        value[name].as_str().unwrap_or_default()
    }
    let wish = if path.is_object() {
        Wish { verb: text(path, "verb"), path: text(path, "path"), ..Wish::default() }
    } else {
        Wish {
            verb: text(resource, "verb"),
            group: text(resource, "group"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
            path: "",
        }
    };
    json!({"allowed": authorize::allows(&call.server, identity, &wish)})
}

fn rules(call: &Call, namespace: &str) -> Value {
    let mut rules = authorize::rules(&call.server, &call.identity, namespace);
    if call.identity.is_admin() {
        rules.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        rules.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    let (paths, resources): (Vec<Value>, Vec<Value>) =
        rules.into_iter().partition(|rule| rule.get("nonResourceURLs").is_some());
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

/// The shortest and the longest lifetime of a token; what is asked for is brought in between.
const LIFETIME: (u64, u64) = (600, 365 * 24 * 3600);

/// Makes a token for a service account.
pub(crate) async fn issue_token(call: &Call, body: &Bytes) -> Result<Reply, Failure> {
    let mut request = call.read_document(body)?.value;
    let account = call.find(call.name())?;
    let asked = request["spec"]["expirationSeconds"].as_u64().unwrap_or(3600);
    let lifetime = Duration::from_secs(asked.clamp(LIFETIME.0, LIFETIME.1));
    let subject = format!("system:serviceaccount:{}:{}", call.namespace, call.name());
    let now = call.server.token_time();
    let audiences = audiences(&request["spec"]);
    let bound = bound_object(call, &request["spec"])?;
    let grant = Grant { subject: &subject, uid: &meta(&account).uid, audiences: &audiences, bound };
    let (token, end) = call.server.token_key.issue(&grant, now, lifetime);
    request["spec"]["audiences"] = audiences.as_slice().into();
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["metadata"] =
        json!({"name": call.name(), "namespace": call.namespace, "creationTimestamp": time::stamp(now)});
    request["spec"]["expirationSeconds"] = lifetime.as_secs().into();
    request["status"] = json!({"token": token, "expirationTimestamp": time::stamp(end)});
    Ok(Reply::json(StatusCode::CREATED, canonical(&request, Layout::KindFirst)))
}

/// The object that a token shall be bound to, as it is now. It ends with that object.
fn bound_object(call: &Call, spec: &Value) -> Result<Option<Bound>, Failure> {
    let reference = &spec["boundObjectRef"];
    if reference.is_null() {
        return Ok(None);
    }
    let text = |name: &str| reference[name].as_str().unwrap_or_default();
    let plural = match (text("apiVersion"), text("kind")) {
        ("v1", "Pod") => "pods",
        ("v1", "Secret") => "secrets",
        ("v1", "Node") => "nodes",
        (version, kind) => {
            let detail = format!("cannot bind a token to an object of type {version:?}, kind {kind:?}");
            return Err(Failure::bad_request(detail));
        }
    };
    let resource = call.registry.get("", "v1", plural).ok_or(Failure::NoSuchPath)?;
    let namespace = if resource.namespaced { call.namespace.as_str() } else { "" };
    let subject = resource.subject(text("name"));
    let key = resource.key(namespace, text("name")).map_err(|_| Failure::not_found(subject))?;
    let object = call.server.store.get(&key).ok_or_else(|| Failure::not_found(subject))?;
    let uid = &meta(&object).uid;
    if !text("uid").is_empty() && text("uid") != *uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record",
            text("uid")
        );
        return Err(Failure::conflict(subject, &why));
    }
    Ok(Some(Bound { resource: plural.to_owned(), name: text("name").to_owned(), uid: uid.clone() }))
}
