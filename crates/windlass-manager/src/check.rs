//! Reads a management cluster, to say whether Windlass can run there. Nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_api::names::{
    ADDONS_GROUP, CLUSTER_GROUP, CLUSTER_NAME_LABEL, CONTROL_PLANE_GROUP, RUNTIME_GROUP,
    TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL,
};
use windlass_engine::contract::compare_api_versions;
use windlass_engine::features::Features;
use windlass_engine::readiness::{self, CalledService, Finding, Management, Objects, WouldWrite};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{InProcess, boxed};
use windlass_runtime::{Manager, Options, describe_error};

use crate::controllers::Plane;
use crate::dry_run::dry_run;
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
    let of = |group, kind| objects(client, &crds, group, kind);
    let objects = Objects {
        clusters: of(CLUSTER_GROUP, "Cluster").await?,
        cluster_classes: of(CLUSTER_GROUP, "ClusterClass").await?,
        control_planes: of(CONTROL_PLANE_GROUP, "KubeadmControlPlane").await?,
        machine_deployments: of(CLUSTER_GROUP, "MachineDeployment").await?,
        machines: of(CLUSTER_GROUP, "Machine").await?,
        machine_pools: of(CLUSTER_GROUP, "MachinePool").await?,
        machine_health_checks: of(CLUSTER_GROUP, "MachineHealthCheck").await?,
        extension_configs: of(RUNTIME_GROUP, "ExtensionConfig").await?,
        cluster_resource_sets: of(ADDONS_GROUP, "ClusterResourceSet").await?,
        providers: of("clusterctl.cluster.x-k8s.io", "Provider").await?,
    };
    let services = services(client, &crds).await?;
    // Without the right to read them, every feature may be on.
    let deployments: Vec<Deployment> = list(client).await.unwrap_or_default();
    Ok(Management { leases: list(client).await?, deployments, services, objects, crds })
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
    group: &str,
    kind: &str,
) -> Result<Vec<Value>, CheckError> {
    let is_it = |crd: &&CustomResourceDefinition| crd.spec.names.kind == kind && crd.spec.group == group;
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

/// What the controllers would write if they began now, as a dry run on the server. Extensions are not called. Leases and Events are
/// left out.
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
    Ok(std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// What stands against a take-over in what would be written: fields that would be lost, Machines that would count as outdated, and
/// machines, or what machines are made from, that would come or go.
pub async fn write_findings(client: &Client, management: &Management, writes: &[WouldWrite]) -> Vec<Finding> {
    let mut rotated = BTreeMap::new();
    for write in writes.iter().filter(|write| write.is_new) {
        if let Some(before) = template_before(client, write).await {
            rotated.insert(write.path.clone(), before);
        }
    }
    readiness::write_findings(writes, &management.objects.machines, &rotated)
}

/// The template that a new one would stand in for: the newest of the same topology entry.
async fn template_before(client: &Client, write: &WouldWrite) -> Option<Value> {
    let (plural, _) = write.rolls_out().filter(|(plural, _)| plural.ends_with("templates"))?;
    let (within, _) = write.path.split_once(plural)?;
    let labels = &write.becomes["metadata"]["labels"];
    let same: Vec<String> = [CLUSTER_NAME_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL]
        .into_iter()
        .map(|label| match labels[label].as_str() {
            Some(value) => format!("{label}={value}"),
            None => format!("!{label}"),
        })
        .collect();
    let selected = ListParams::default().labels(&same.join(","));
    let request = kube::core::Request::new(format!("{within}{plural}")).list(&selected);
    let found: Value = client.request(request.ok()?).await.ok()?;
    let created = |template: &&Value| template["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
    found["items"].as_array()?.iter().max_by_key(created).cloned()
}
