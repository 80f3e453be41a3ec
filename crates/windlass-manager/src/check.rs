//! Reads a management cluster, to say whether Windlass can run there. Nothing is written.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_engine::contract::compare_api_versions;
use windlass_engine::features::Features;

use windlass_engine::readiness::{CalledService, Finding, Level, Management, Objects};
use windlass_engine::topology::TAKE_OVER_REFUSED;
use windlass_hooks::HookClient;
use windlass_hooks::transport::{InProcess, boxed};
use windlass_runtime::{Manager, Options, describe_error};

use crate::controllers::Plane;
use crate::dry_run::{WouldWrite, dry_run};
use crate::selection::Selection;

/// How long the controllers are given to come to rest in a dry run.
const REST: Duration = Duration::from_secs(60);

/// What could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot list {what}: {why}")]
pub struct CheckError {
    /// The kind.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// Reads what a check looks at.
///
/// # Errors
///
/// When CRDs, Leases or objects of Cluster API cannot be listed. Webhooks that cannot be read are left out of the answer.
pub async fn read_management(client: &Client) -> Result<Management, CheckError> {
    let all: Vec<CustomResourceDefinition> = list(client).await?;
    let is_ours = |crd: &CustomResourceDefinition| {
        crd.spec.group == "cluster.x-k8s.io" || crd.spec.group.ends_with(".cluster.x-k8s.io")
    };
    let crds: Vec<CustomResourceDefinition> = all.into_iter().filter(is_ours).collect();
    let objects = Objects {
        clusters: objects(client, &crds, "Cluster").await?,
        machines: objects(client, &crds, "Machine").await?,
        machine_pools: objects(client, &crds, "MachinePool").await?,
        extension_configs: objects(client, &crds, "ExtensionConfig").await?,
    };
    let services = services(client, &crds).await?;
    Ok(Management { leases: list(client).await?, services, objects, crds })
}

async fn list<K>(client: &Client) -> Result<Vec<K>, CheckError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let found = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    let failed = |error| CheckError { what: K::plural(&()).into_owned(), why: describe_error(&error) };
    Ok(found.map_err(failed)?.items)
}

/// The objects of a kind in the newest version that is served; none if the kind is not there.
async fn objects(
    client: &Client,
    crds: &[CustomResourceDefinition],
    kind: &str,
) -> Result<Vec<Value>, CheckError> {
    let is_it = |crd: &&CustomResourceDefinition| {
        crd.spec.names.kind == kind
            && ["cluster.x-k8s.io", "runtime.cluster.x-k8s.io"].contains(&&*crd.spec.group)
    };
    let Some(crd) = crds.iter().find(is_it) else { return Ok(Vec::new()) };
    let served =
        crd.spec.versions.iter().filter(|version| version.served).map(|version| version.name.as_str());
    let Some(version) = served.max_by(|a, b| compare_api_versions(a, b)) else { return Ok(Vec::new()) };
    let kind = GroupVersionKind::gvk(&crd.spec.group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &crd.spec.names.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let found = api.list(&ListParams::default()).await;
    let failed = |error| CheckError { what: crd.name_any(), why: describe_error(&error) };
    let found = found.map_err(failed)?.items.into_iter().map(serde_json::to_value);
    found
        .collect::<Result<_, _>>()
        .map_err(|error| CheckError { what: crd.name_any(), why: error.to_string() })
}

/// The Services that are called about the kinds of Cluster API.
async fn services(
    client: &Client,
    crds: &[CustomResourceDefinition],
) -> Result<Vec<CalledService>, CheckError> {
    let mut called: BTreeSet<(String, String, String)> = BTreeSet::new();
    let mut add = |config: &WebhookClientConfig, by: String| {
        if let Some(service) = &config.service {
            called.insert((by, service.namespace.clone(), service.name.clone()));
        }
    };
    let is_ours = |groups: Option<&Vec<String>>| {
        groups.into_iter().flatten().any(|group| group == "*" || group.ends_with("cluster.x-k8s.io"))
    };
    for one in list::<MutatingWebhookConfiguration>(client).await? {
        for webhook in one.webhooks.iter().flatten() {
            if webhook.rules.iter().flatten().any(|rule| is_ours(rule.api_groups.as_ref())) {
                add(&webhook.client_config, format!("MutatingWebhookConfiguration {}", one.name_any()));
            }
        }
    }
    for one in list::<ValidatingWebhookConfiguration>(client).await? {
        for webhook in one.webhooks.iter().flatten() {
            if webhook.rules.iter().flatten().any(|rule| is_ours(rule.api_groups.as_ref())) {
                add(&webhook.client_config, format!("ValidatingWebhookConfiguration {}", one.name_any()));
            }
        }
    }
    for crd in crds {
        let webhook = crd.spec.conversion.as_ref().and_then(|conversion| conversion.webhook.as_ref());
        let service = webhook.and_then(|webhook| webhook.client_config.as_ref()?.service.as_ref());
        if let Some(service) = service {
            called.insert((
                format!("conversion of {}", crd.name_any()),
                service.namespace.clone(),
                service.name.clone(),
            ));
        }
    }
    // Without the right to read them, that much is not known.
    let slices: Option<Vec<EndpointSlice>> = list(client).await.ok();
    let has_endpoints = |namespace: &str, name: &str| {
        slices.as_ref().map(|slices| {
            slices.iter().any(|slice| {
                slice.namespace().as_deref() == Some(namespace)
                    && slice.labels().get("kubernetes.io/service-name").map(String::as_str) == Some(name)
                    && slice.endpoints.iter().any(|endpoint| {
                        endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false))
                    })
            })
        })
    };
    let found = called.into_iter().map(|(called_by, namespace, name)| {
        let has_endpoints = has_endpoints(&namespace, &name);
        CalledService { called_by, namespace, name, has_endpoints }
    });
    Ok(found.collect())
}

/// What the controllers would write if they began now, as a dry run on the server. Extensions are not called. Statuses,
/// Leases and Events are left out.
///
/// # Errors
///
/// When the controllers do not come to rest within a minute.
pub async fn would_write(client: Client, controllers: &Selection) -> Result<Vec<WouldWrite>, CheckError> {
    let told: Arc<Mutex<Vec<WouldWrite>>> = Arc::default();
    let tell = Arc::clone(&told);
    let client =
        dry_run(client, move |write| tell.lock().unwrap_or_else(PoisonError::into_inner).push(write));
    let manager = Manager::new(client.clone(), Options::new());
    let hooks = HookClient::builder(boxed(InProcess::new())).build();
    let plane = Plane { client, hooks, provider: None, features: Features::default() };
    plane.register_selected(&manager, controllers);
    let running = manager.start();
    let rested = tokio::time::timeout(REST, manager.idle()).await;
    drop(running);
    rested.map_err(|_| CheckError {
        what: "what would be written".to_owned(),
        why: format!("the controllers did not come to rest within {} s", REST.as_secs()),
    })?;
    let writes = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(writes
        .into_iter()
        .filter(|write| !write.path.ends_with("/status") || refusal(write).is_some())
        .collect())
}

/// What a Cluster would say about a take-over that is refused.
fn refusal(write: &WouldWrite) -> Option<&str> {
    let conditions = write.body["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["reason"] == TAKE_OVER_REFUSED)?["message"].as_str()
}

/// Machines, and what machines are made from, that would come or go: a take-over must not lead to that. And what Windlass would
/// not write, because fields would be lost.
pub fn write_findings(writes: &[WouldWrite]) -> Vec<Finding> {
    let refused = writes.iter().filter_map(|write| {
        let name = write.path.trim_end_matches("/status").rsplit('/').next()?;
        let (what, remedy) = refusal(write)?.split_once(". ")?;
        let (about, what, remedy) = (format!("Cluster {name}"), what.to_owned(), remedy.to_owned());
        Some(Finding { level: Level::Blocks, about, what, remedy })
    });
    let replaced = writes.iter().filter(|write| write.verb == "delete" || write.is_new).filter_map(|write| {
        let (plural, name) = kind_and_name(write)?;
        let what = format!("Windlass would {} it: machines would be replaced by taking over", write.verb);
        let remedy = "windlass run --dry-run shows the whole object".to_owned();
        Some(Finding { level: Level::Blocks, about: format!("{plural} {name}"), what, remedy })
    });
    refused.chain(replaced).collect()
}

/// Plural and name of an object whose coming or going means that machines are replaced.
fn kind_and_name(write: &WouldWrite) -> Option<(&str, &str)> {
    const ROLLS: [&str; 4] = ["machines", "machinesets", "machinedeployments", "machinepools"];
    let (_, within) = write.path.split_once("/namespaces/")?;
    let mut parts = within.split('/').skip(1);
    let plural = parts.next()?;
    let name = parts.next().or_else(|| write.body["metadata"]["name"].as_str()).unwrap_or("(new)");
    (ROLLS.contains(&plural) || plural.ends_with("templates")).then_some((plural, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_replaces_machines_stands_in_the_way() {
        let write = |verb, path: &str, is_new| WouldWrite {
            verb,
            path: format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/a/{path}"),
            is_new,
            body: json!({"metadata": {"name": "from-the-body"}}),
        };
        let writes = [
            write("apply", "machinesets/settled", false),
            write("apply", "machinesets/surprise", true),
            write("create", "machines", true),
            write("delete", "machines/old", false),
            write("apply", "kubeadmconfigtemplates/rotated", true),
            write("create", "secrets", true),
            write("patch", "clusters/c", false),
        ];
        let refused = WouldWrite {
            body: json!({"status": {"conditions": [{"type": "TopologyReconciled", "reason": TAKE_OVER_REFUSED,
                "message": "taking over X would remove f: nothing is written. Add it"}]}}),
            ..write("apply", "clusters/refused/status", false)
        };
        let found = write_findings(&[refused]);
        assert_eq!(found[0].about, "Cluster refused");
        assert_eq!(found[0].remedy, "Add it");
        assert_eq!(found[0].level, Level::Blocks);

        let found: Vec<String> = write_findings(&writes).into_iter().map(|finding| finding.about).collect();
        let expected = [
            "machinesets surprise",
            "machines from-the-body",
            "machines old",
            "kubeadmconfigtemplates rotated",
        ];
        assert_eq!(found, expected);
    }
}
