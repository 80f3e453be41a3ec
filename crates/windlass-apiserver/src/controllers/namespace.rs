//! Namespaces: what each one has from the start, and how one is emptied.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use windlass_store::Object;

use crate::registry::Resource;
use crate::server::Inner;
use crate::stored::meta;
use crate::verbs::{Call, DeleteOptions, Ownership, Part};

/// How many objects are deleted at the same time, so that they share syncs of the disk.
const AT_A_TIME: usize = 64;

fn namespaces(server: &Inner) -> Option<Arc<Resource>> {
    server.registry().get("", "v1", "namespaces").cloned()
}

/// Gives a new namespace what every one has; empties one that is going away.
pub(super) async fn look_after(server: &Arc<Inner>, namespace: &Object) {
    let name = namespace.key().name();
    if meta(namespace).deleted_at.is_none() {
        furnish(server, name).await;
        return;
    }
    let snapshot = server.store.snapshot();
    let registry = server.registry();
    for resource in registry.storages().filter(|resource| resource.namespaced) {
        let objects: Vec<Arc<Object>> = snapshot.list(&resource.scope(Some(name))).cloned().collect();
        for some in objects.chunks(AT_A_TIME) {
            join_all(some.iter().map(|object| async {
                let call = Call::internal(server, resource, name, Some(object.key().name()));
                // What is gone already is what was wanted.
                let _ = call.remove(object.key().name(), &DeleteOptions::default()).await;
            }))
            .await;
        }
    }
    finish(server, name).await;
}

/// Lets a namespace go once it is empty.
pub(super) async fn finish(server: &Arc<Inner>, name: &str) {
    let Some(namespaces) = namespaces(server) else { return };
    let found = namespaces.key("", name).ok().and_then(|key| server.store.get(&key));
    if found.is_none_or(|namespace| meta(&namespace).deleted_at.is_none()) {
        return;
    }
    let snapshot = server.store.snapshot();
    let registry = server.registry();
    let mut storages = registry.storages().filter(|resource| resource.namespaced);
    if storages.any(|resource| snapshot.list(&resource.scope(Some(name))).next().is_some()) {
        return;
    }
    let call = Call::internal(server, &namespaces, "", Some(name));
    let make = |old: &Value| {
        let mut new = old.clone();
        if let Some(finalizers) = new["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != "kubernetes");
        }
        Ok(new)
    };
    // If another client was faster, it is gone.
    let _ = call.rewrite_only(Part::Finalizers, Ownership::Creator, &mut Vec::new(), make).await;
}

/// Gives a namespace what every one has.
pub(super) async fn furnish(server: &Arc<Inner>, name: &str) {
    let account = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}});
    let bundle = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "kube-root-ca.crt"},
        "data": {"ca.crt": server.ca_bundle}});
    for (plural, object) in [("serviceaccounts", account), ("configmaps", bundle)] {
        let Some(resource) = server.registry().get("", "v1", plural).cloned() else { continue };
        let exists = object["metadata"]["name"]
            .as_str()
            .and_then(|object| resource.key(name, object).ok())
            .is_some_and(|key| server.store.get(&key).is_some());
        if !exists {
            let call = Call::internal(server, &resource, name, None);
            // It may be there by now, or the namespace may be gone: both are fine.
            let _ = call.insert(object, Ownership::Creator, &mut Vec::new()).await;
        }
    }
}
