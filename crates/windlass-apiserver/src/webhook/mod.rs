//! Admission by others: webhooks that configuration objects name.

mod client;
mod conversion;
mod hook;
mod service;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_random::uuid;

use crate::admission::{Operation, Review};
use crate::api::Failure;
use crate::machinery::{Dialect, JsonPatch};
use crate::registry::{Registry, Resource};
use crate::server::Inner;
use crate::stored::{meta, parse};
pub(crate) use conversion::of_crd as conversion_of;
use hook::Hook;
pub(crate) use hook::check;
pub(crate) use service::Directory;
pub use service::{ServiceReference, ServiceResolver};

const GROUP: &str = "admissionregistration.k8s.io";

/// The webhooks of all configurations, read and compiled once for each state of those.
#[derive(Default)]
pub(crate) struct Cache {
    /// By the resource of the configurations: their names and revisions, and their webhooks.
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Clone)]
struct Known {
    revisions: Vec<(String, u64)>,
    hooks: Arc<Vec<Arc<Hook>>>,
}

/// Asks the mutating webhooks one after the other, each about what the one before made of the object. Those
/// that want it are asked once more if others have changed the object since.
pub(crate) async fn mutate(
    server: &Arc<Inner>,
    review: &Review<'_>,
    object: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let session = Session::new(server, review);
    let mut asked: Vec<(Arc<Hook>, Value)> = Vec::new();
    for hook in session.hooks("mutatingwebhookconfigurations")?.iter() {
        if session.change(hook, object, warnings).await? && hook.reinvoked {
            asked.push((Arc::clone(hook), object.clone()));
        }
    }
    for (hook, seen) in asked {
        if seen != *object {
            session.change(&hook, object, warnings).await?;
        }
    }
    Ok(())
}

/// Asks the validating webhooks.
pub(crate) async fn validate(
    server: &Arc<Inner>,
    review: &Review<'_>,
    object: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    let session = Session::new(server, review);
    for hook in session.hooks("validatingwebhookconfigurations")?.iter() {
        session.ask(hook, object, warnings).await?;
    }
    Ok(())
}

/// One write that webhooks are asked about.
struct Session<'a> {
    server: &'a Arc<Inner>,
    registry: Arc<Registry>,
    review: &'a Review<'a>,
}

/// What a webhook answered, and in which version it saw the object.
struct Answer {
    response: Value,
    shown: Value,
    version: String,
}

impl<'a> Session<'a> {
    fn new(server: &'a Arc<Inner>, review: &'a Review<'a>) -> Self {
        Self { server, registry: server.registry(), review }
    }

    /// All webhooks, in the order of their configurations.
    fn hooks(&self, plural: &str) -> Result<Arc<Vec<Arc<Hook>>>, Failure> {
        // Otherwise a broken webhook could prevent its own repair.
        if self.review.group == GROUP {
            return Ok(Arc::default());
        }
        let Some(configurations) = self.registry.get(GROUP, "v1", plural) else { return Ok(Arc::default()) };
        let snapshot = self.server.store.snapshot();
        if snapshot.count(&configurations.storage) == 0 {
            return Ok(Arc::default());
        }
        let scope = configurations.scope(None);
        let revisions: Vec<(String, u64)> = snapshot
            .list(&scope)
            .map(|configuration| (configuration.key().name().to_owned(), configuration.revision()))
            .collect();
        let cache = &self.server.webhooks.known;
        let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(plural).filter(|known| known.revisions == revisions) {
            return Ok(Arc::clone(&known.hooks));
        }
        let mut hooks = Vec::new();
        for configuration in snapshot.list(&scope) {
            let configuration = parse(configuration)?;
            let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
            hooks.extend(webhooks.map(|webhook| Arc::new(Hook::read(webhook))));
        }
        let hooks = Arc::new(hooks);
        lock().insert(plural.to_owned(), Known { revisions, hooks: Arc::clone(&hooks) });
        Ok(hooks)
    }

    fn resource(&self, version: &str) -> Option<&Arc<Resource>> {
        self.registry.get(self.review.group, version, self.review.resource)
    }

    /// The object as a version shows it.
    fn shown(&self, object: &Value, from: &str, to: &str) -> Result<Value, Failure> {
        match (self.resource(from), self.resource(to)) {
            (Some(from), Some(to)) => from.shown_as(object.clone(), to),
            _ => Ok(object.clone()),
        }
    }

    /// Lets a webhook change the object; whether it was asked.
    async fn change(
        &self,
        hook: &Hook,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Failure> {
        let Some(answer) = self.ask(hook, object, warnings).await? else { return Ok(false) };
        let Some(patch) = answer.response["patch"].as_str() else { return Ok(true) };
        let broken = |why: &str| Failure::internal(format!("admission webhook {:?}: {why}", hook.name));
        let patch = STANDARD.decode(patch).map_err(|_| broken("its patch is not base64"))?;
        let patch: Value = serde_json::from_slice(&patch).map_err(|_| broken("its patch is not JSON"))?;
        let patch =
            JsonPatch::parse(Dialect::ApiServer, &patch).map_err(|error| broken(&error.to_string()))?;
        let patched = patch.apply(&answer.shown).map_err(|error| broken(&error.to_string()))?;
        *object = self.shown(&patched, &answer.version, self.review.version)?;
        Ok(true)
    }

    /// Asks one webhook: its answer if it allows the write, `None` if it is not about such writes, or cannot be
    /// asked and need not be.
    async fn ask(
        &self,
        hook: &Hook,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Answer>, Failure> {
        let review = self.review;
        let Some(version) = self.version_for(hook, object) else { return Ok(None) };
        let name = &hook.name;
        let shown = self.shown(object, review.version, version)?;
        let old = review.old.map(|old| self.shown(old, review.version, version)).transpose()?;
        let uid = uuid(&mut self.server.randomness.generator(&["AdmissionReview", name]));
        let request = self.request(version, &shown, old.as_ref(), &uid);
        let (new, before) = (&request["request"]["object"], &request["request"]["oldObject"]);
        match hook.conditions_hold(new, before, &request["request"]) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if !hook.fails_closed => return Ok(None),
            Err(error) => {
                let message = format!("failed to evaluate match conditions of webhook {name:?}: {error}");
                return Err(Failure::internal(message));
            }
        }
        if review.dry_run && !hook.allows_dry_run {
            return Err(Failure::bad_request(format!("admission webhook {name:?} does not support dry run")));
        }
        let answer = match client::post(&self.server.directory, &hook.target, hook.timeout, &request).await {
            Ok(answer) => answer,
            Err(_) if !hook.fails_closed => return Ok(None),
            Err(error) => {
                let message = format!("failed calling webhook {name:?}: failed to call webhook: {error}");
                return Err(Failure::internal(message));
            }
        };
        let response = &answer["response"];
        if response["uid"] != uid {
            if !hook.fails_closed {
                return Ok(None);
            }
            return Err(Failure::internal(format!(
                "failed calling webhook {name:?}: its answer is to another question"
            )));
        }
        for warning in response["warnings"].as_array().into_iter().flatten() {
            warnings.extend(warning.as_str().map(str::to_owned));
        }
        if response["allowed"] == true {
            return Ok(Some(Answer { response: response.clone(), shown, version: version.to_owned() }));
        }
        let code = response["status"]["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let message = match response["status"]["message"].as_str() {
            Some(message) if !message.is_empty() => {
                format!("admission webhook {name:?} denied the request: {message}")
            }
            _ => format!("admission webhook {name:?} denied the request without explanation"),
        };
        Err(Failure::denied(code.unwrap_or(403), message))
    }

    /// The version in which a webhook wants to see the object, if it wants to see it.
    fn version_for<'s>(&'s self, hook: &Hook, object: &Value) -> Option<&'s str> {
        let review = self.review;
        let namespaces = self.registry.get("", "v1", "namespaces");
        let namespace = namespaces.and_then(|namespaces| namespaces.key("", review.namespace).ok());
        let namespace = namespace.and_then(|key| self.server.store.get(&key)).map(|found| meta(&found));
        let versions = self.registry.versions_of(review.group, review.resource);
        let versions: Vec<&str> = versions.map(|resource| resource.version.as_str()).collect();
        hook.asked_in(review, &versions, object, namespace.as_ref().map(|namespace| &namespace.labels))
    }

    fn request(&self, asked_in: &str, object: &Value, old: Option<&Value>, uid: &str) -> Value {
        let Review { group, version, resource, kind, .. } = self.review;
        let review = self.review;
        let is_delete = review.operation == Operation::Delete;
        let options = match review.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let nothing = Value::Null;
        json!({
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": uid,
                "kind": {"group": group, "version": asked_in, "kind": kind},
                "resource": {"group": group, "version": asked_in, "resource": resource},
                "requestKind": {"group": group, "version": version, "kind": kind},
                "requestResource": {"group": group, "version": version, "resource": resource},
                "subResource": review.subresource,
                "name": review.name,
                "namespace": review.namespace,
                "operation": review.operation.as_str(),
                "userInfo": review.user.user_info(),
                "object": if is_delete { &nothing } else { object },
                "oldObject": old,
                "dryRun": review.dry_run,
                "options": {"kind": options, "apiVersion": "meta.k8s.io/v1"},
            },
        })
    }
}
