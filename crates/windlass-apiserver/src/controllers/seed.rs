//! What every cluster has from the start.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_api::api_version;
use windlass_store::Expect;

use super::crd::establish;
use super::namespace::furnish;
use crate::api::Failure;
use crate::server::Inner;
use crate::verbs::{Call, Ownership, unavailable};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Makes what is missing.
pub(crate) async fn seed(server: &Arc<Inner>) -> Result<(), Failure> {
    for name in NAMESPACES {
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
        create(server, "namespaces", "", namespace).await?;
        // Now, and not when the controllers get to it: after the start, only clients write.
        furnish(server, name).await;
    }
    let service = json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]},
    });
    create(server, "services", "default", service).await?;
    let everything = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    let role = json!({"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "cluster-admin"}, "rules": everything});
    create(server, "clusterroles", "", role).await?;
    let binding = json!({"kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "cluster-admin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"}]});
    create(server, "clusterrolebindings", "", binding).await?;
    component_status(server).await?;

    // A CRD that was written just before a crash may not have been accepted yet.
    let crds = server.registry().get("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned();
    if let Some(crds) = crds {
        let names: Vec<String> = {
            let snapshot = server.store.snapshot();
            snapshot.list(&crds.scope(None)).map(|object| object.key().name().to_owned()).collect()
        };
        for name in names {
            establish(server, &name).await?;
        }
    }
    Ok(())
}

async fn create(server: &Arc<Inner>, plural: &str, namespace: &str, object: Value) -> Result<(), Failure> {
    let registry = server.registry();
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version::split(api_version);
    let Some(resource) = registry.get(group, version, plural) else { return Ok(()) };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let exists = resource.key(namespace, name).is_ok_and(|key| server.store.get(&key).is_some());
    if exists {
        return Ok(());
    }
    let call = Call::internal(server, resource, namespace, None);
    call.insert(object, Ownership::Creator, &mut Vec::new()).await.map(drop)
}

/// Old clients read it to see whether the cluster is healthy. It is read-only.
async fn component_status(server: &Arc<Inner>) -> Result<(), Failure> {
    let Some(resource) = server.registry().get("", "v1", "componentstatuses").cloned() else { return Ok(()) };
    let Ok(key) = resource.key("", "scheduler") else { return Ok(()) };
    if server.store.get(&key).is_some() {
        return Ok(());
    }
    let status = json!({"kind": "ComponentStatus", "apiVersion": "v1",
        "metadata": {"name": "scheduler", "uid": server.uid(&resource, "", "scheduler"), "creationTimestamp": crate::time::stamp(server.clock.now())},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]});
    let value = resource.to_store(&status)?;
    server.store.put(key, Expect::Absent, value).await.map(drop).map_err(|error| unavailable(&error))
}
