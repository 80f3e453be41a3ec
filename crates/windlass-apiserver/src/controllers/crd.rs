//! CRDs: accepted when they are written, cleaned up when they are deleted.

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

fn crds(server: &Inner) -> Option<Arc<Resource>> {
    server.registry().get("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned()
}

/// Accepts the names of a CRD and makes its resources known, before its write is answered.
pub(crate) async fn establish(server: &Arc<Inner>, name: &str) -> Result<(), Failure> {
    let Some(crds) = crds(server) else { return Ok(()) };
    let found = crds.key("", name).ok().and_then(|key| server.store.get(&key));
    let Some(object) = found else { return Ok(()) };
    let crd = parse(&object)?;
    if !is_current(&crd) && meta(&object).deleted_at.is_none() {
        let conflict = conflict(server, &crds, &crd);
        let now = crate::time::stamp(server.clock.now());
        let call = Call::internal(server, &crds, "", Some(name));
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
fn is_current(crd: &Value) -> bool {
    let stored = crd["status"]["storedVersions"].as_array();
    let is_stored = crd::storage_version(crd)
        .is_some_and(|version| stored.is_some_and(|stored| stored.iter().any(|known| known == version)));
    crd::has_condition(crd, "Established")
        && crd["status"]["acceptedNames"] == crd["spec"]["names"]
        && is_stored
}

/// What of a CRD says how its objects are called. The schemas, which are most of it, are skipped.
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

/// What stands in the way of the names of a CRD: another one of the same group that has them.
fn conflict(server: &Inner, crds: &Resource, crd: &Value) -> Option<String> {
    let names = |names: &Value| -> Vec<String> {
        let single = ["plural", "singular"].iter().filter_map(|name| names[*name].as_str());
        let short = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        single.chain(short).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let wanted = names(&crd["spec"]["names"]);
    let snapshot = server.store.snapshot();
    for object in snapshot.list(&crds.scope(None)) {
        let Ok(other) = serde_json::from_slice::<Named>(object.value()) else { continue };
        let is_other = crd["metadata"]["name"] != other.metadata.name.as_str()
            && crd["spec"]["group"] == other.spec.group.as_str();
        let NamedStatus { accepted_names, conditions } = &other.status;
        if !is_other || !crd::is_true(conditions, "NamesAccepted") {
            continue;
        }
        let taken = names(accepted_names);
        if let Some(name) = wanted.iter().find(|name| taken.contains(name)) {
            return Some(format!("{name:?} is already in use"));
        }
        if accepted_names["kind"] == crd["spec"]["names"]["kind"] {
            return Some(format!("{} is already in use", crd["spec"]["names"]["kind"]));
        }
    }
    None
}

/// Deletes the objects of a CRD that is going away, then lets it go.
pub(super) async fn clean_up(server: &Arc<Inner>, name: &str) {
    let Some(crds) = crds(server) else { return };
    let Some(key) = crds.key("", name).ok() else { return };
    let Some(object) = server.store.get(&key) else { return };
    let held = meta(&object);
    if held.deleted_at.is_none() || !held.finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        return;
    }
    let Ok(crd) = parse(&object) else { return };
    let (group, plural) = (&crd["spec"]["group"], &crd["spec"]["names"]["plural"]);
    let (Some(group), Some(plural)) = (group.as_str(), plural.as_str()) else { return };
    if empty(server, group, plural).await {
        release(server, &crds, &key, CLEANUP).await;
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
