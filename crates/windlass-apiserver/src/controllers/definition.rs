//! Definitions: accepted when they are written, cleaned up when they are deleted.

use std::sync::Arc;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::Value;
use windlass_store::{Key, Object, Resource as Storage, Scope};

use super::garbage::release;
use crate::api::Failure;
use crate::registry::{Resource, crd};
use crate::server::Inner;
use crate::stored::{meta, parse};
use crate::verbs::{CLEANUP, Call, DeleteOptions, Ownership, Part};

fn definitions(server: &Inner) -> Option<Arc<Resource>> {
    server.registry().get("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned()
}

/// Accepts the names of a definition and makes its resources known, before its write is answered.
pub(crate) async fn establish(server: &Arc<Inner>, name: &str) -> Result<(), Failure> {
    let Some(definitions) = definitions(server) else { return Ok(()) };
    let found = definitions.key("", name).ok().and_then(|key| server.store.get(&key));
    let Some(object) = found else { return Ok(()) };
    let definition = parse(&object)?;
    if !is_current(&definition) && meta(&object).deleted_at.is_none() {
        let conflict = conflict(server, &definitions, &definition);
        let now = server.clock.stamp();
        let call = Call::internal(server, &definitions, "", Some(name));
        let make = |old: &Value| {
            let mut new = old.clone();
            new["status"] = match &conflict {
                None => crd::established(old, &now),
                Some(conflict) => crd::refused(old, &now, conflict),
            };
            Ok(new)
        };
        call.rewrite_only(Part::Status, Ownership::Creator, &mut Vec::new(), make).await?;
    }
    server.rebuild_registry();
    Ok(())
}

/// Whether the status says all that the spec asks for.
fn is_current(definition: &Value) -> bool {
    let stored = definition["status"]["storedVersions"].as_array();
    let is_stored = crd::storage_version(definition)
        .is_some_and(|version| stored.is_some_and(|stored| stored.iter().any(|known| known == version)));
    crd::has_condition(definition, "Established")
        && definition["status"]["acceptedNames"] == definition["spec"]["names"]
        && is_stored
}

/// What of a definition says how its objects are called. The schemas, which are most of it, are skipped.
#[derive(Deserialize)]
struct Named {
    metadata: NamedMeta,
    spec: NamedSpec,
    #[serde(default)]
    status: NamedStatus,
}

#[derive(Deserialize)]
struct NamedMeta {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct NamedSpec {
    #[serde(default)]
    group: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NamedStatus {
    accepted_names: Value,
    conditions: Value,
}

/// What stands in the way of the names of a definition: another one of the same group that has them.
fn conflict(server: &Inner, definitions: &Resource, definition: &Value) -> Option<String> {
    let names = |names: &Value| -> Vec<String> {
        let single = ["plural", "singular"].iter().filter_map(|name| names[*name].as_str());
        let short = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        single.chain(short).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let wanted = names(&definition["spec"]["names"]);
    let snapshot = server.store.snapshot();
    for object in snapshot.list(&definitions.scope(None)) {
        let Ok(other) = serde_json::from_slice::<Named>(object.value()) else { continue };
        let is_other = definition["metadata"]["name"] != other.metadata.name.as_str()
            && definition["spec"]["group"] == other.spec.group.as_str();
        let NamedStatus { accepted_names, conditions } = &other.status;
        if !is_other || !crd::is_true(conditions, "NamesAccepted") {
            continue;
        }
        let taken = names(accepted_names);
        if let Some(name) = wanted.iter().find(|name| taken.contains(name)) {
            return Some(format!("{name:?} is already in use"));
        }
        if accepted_names["kind"] == definition["spec"]["names"]["kind"] {
            return Some(format!("{} is already in use", definition["spec"]["names"]["kind"]));
        }
    }
    None
}

/// Deletes the objects of a definition that is going away, then lets it go.
pub(super) async fn clean_up(server: &Arc<Inner>, name: &str) {
    let Some(definitions) = definitions(server) else { return };
    let Some(key) = definitions.key("", name).ok() else { return };
    let Some(object) = server.store.get(&key) else { return };
    let held = meta(&object);
    if held.deleted_at.is_none() || !held.finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        return;
    }
    let Ok(definition) = parse(&object) else { return };
    let (group, plural) = (&definition["spec"]["group"], &definition["spec"]["names"]["plural"]);
    let (Some(group), Some(plural)) = (group.as_str(), plural.as_str()) else { return };
    if empty(server, group, plural).await {
        release(server, &definitions, &key, CLEANUP).await;
        server.rebuild_registry();
    }
}

/// Deletes all objects of a resource, and says whether they are all gone.
async fn empty(server: &Arc<Inner>, group: &str, plural: &str) -> bool {
    let Ok(storage) = Storage::new(&format!("{group}/{plural}")) else { return true };
    let scope = Scope::from(&storage);
    let registry = server.registry();
    let Some(resource) = registry.versions_of(group, plural).next() else {
        // Never established, so that there is nothing.
        return true;
    };
    let objects: Vec<Arc<Object>> = server.store.snapshot().list(&scope).cloned().collect();
    let remove = |key: &Key| {
        let call = Call::internal(server, resource, key.namespace(), Some(key.name()));
        let name = key.name().to_owned();
        async move { call.remove(&name, &DeleteOptions::default()).await.is_ok() }
    };
    join_all(
        objects.iter().filter(|object| meta(object).deleted_at.is_none()).map(|object| remove(object.key())),
    )
    .await;
    server.store.snapshot().list(&scope).next().is_none()
}
