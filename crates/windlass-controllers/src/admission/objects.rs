//! What rules need to know about other objects.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde_json::Value;
use windlass_api::api_version;
use windlass_api::cluster::{Cluster, ClusterClass, Machine, MachineDeployment, MachinePool};
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, TOPOLOGY_OWNED_LABEL, UPGRADE_STEP_ANNOTATION,
};
use windlass_engine::admission::UpgradeState;
use windlass_engine::contract::{self, Contract};
use windlass_engine::machine_set::selector;
use windlass_engine::topology::{
    ControlPlane, GroupObject, MachineVersions, PendingHooks, WorkerGroup, WorkerKind,
};
use windlass_engine::waiting::Wait;
use windlass_runtime::{ObjectKey, describe_error};
use windlass_version::Version;

use crate::external::resource;

/// Looks up what rules need to know. A failure is a refusal: what cannot be checked is not let through.
pub trait LookUp: Send + Sync + 'static {
    /// A class.
    fn class<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<ClusterClass>, String>>;

    /// The Clusters that use a class.
    fn users<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Vec<Cluster>, String>>;

    /// The parts of a Cluster, and what was promised about them. The Cluster is the stored one: annotations of one that
    /// is being written may be missing.
    fn state<'a>(&'a self, cluster: &'a Cluster) -> BoxFuture<'a, Result<UpgradeState, String>>;
}

/// Looks up in an API. The client may come later than the rules: an API server is given its admission before any client
/// can be its client.
#[derive(Clone, Default)]
pub struct ObjectLookUp(Arc<OnceLock<Client>>);

impl ObjectLookUp {
    /// Without a client yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a client.
    pub fn with_client(client: Client) -> Self {
        let look_up = Self::default();
        look_up.connect(client);
        look_up
    }

    /// Sets the client, once.
    pub fn connect(&self, client: Client) {
        // A second client would be the same API.
        let _ = self.0.set(client);
    }

    fn client(&self) -> Result<Client, String> {
        self.0.get().cloned().ok_or_else(|| "the API is not ready to look things up".to_owned())
    }
}

impl LookUp for ObjectLookUp {
    fn class<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<ClusterClass>, String>> {
        Box::pin(async move {
            // A name that is missing is a matter of the rules, not of the API.
            if name.is_empty() {
                return Ok(None);
            }
            let classes: Api<ClusterClass> = Api::namespaced(self.client()?, namespace);
            classes.get_opt(name).await.map_err(|error| describe_error(&error))
        })
    }

    fn users<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Vec<Cluster>, String>> {
        Box::pin(async move {
            let clusters: Api<Cluster> = Api::all(self.client()?);
            let all = clusters.list(&ListParams::default()).await.map_err(|error| describe_error(&error))?;
            let uses = |cluster: &Cluster| {
                cluster.spec.topology.as_ref().is_some_and(|topology| {
                    let own = ObjectKey::of(cluster).namespace;
                    let class = &topology.class_ref;
                    let of = if class.namespace.is_empty() { own.as_str() } else { &class.namespace };
                    class.name == name && of == namespace
                })
            };
            Ok(all.items.into_iter().filter(uses).collect())
        })
    }

    fn state<'a>(&'a self, cluster: &'a Cluster) -> BoxFuture<'a, Result<UpgradeState, String>> {
        Box::pin(async move {
            let client = self.client()?;
            let namespace = ObjectKey::of(cluster).namespace;
            let owned = format!("{CLUSTER_NAME_LABEL}={},{TOPOLOGY_OWNED_LABEL}", cluster.name_any());
            let owned = ListParams::default().labels(&owned);
            let fail = |error: kube::Error| describe_error(&error);
            let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), &namespace);
            let pools: Api<MachinePool> = Api::namespaced(client.clone(), &namespace);
            let machines: Api<Machine> = Api::namespaced(client.clone(), &namespace);
            let of_cluster =
                ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={}", cluster.name_any()));
            let machines = machines.list(&of_cluster).await.map_err(fail)?.items;
            let mut workers = Vec::new();
            for deployment in deployments.list(&owned).await.map_err(fail)?.items {
                let selector = selector(&deployment.spec.selector)
                    .map_err(|error| format!("MachineDeployment {}: {error}", deployment.name_any()))?;
                let mine = machines.iter().filter(|machine| selector.matches(machine.labels()));
                let versions = mine.map(|machine| MachineVersions {
                    desired: Version::parse(&machine.spec.version).ok(),
                    kubelet: machine
                        .status
                        .node_info
                        .as_ref()
                        .and_then(|info| Version::parse(&info.kubelet_version).ok()),
                });
                let version = &deployment.spec.template.spec.version;
                workers.push(group(WorkerKind::MachineDeployment, &deployment, version, versions));
            }
            for pool in pools.list(&owned).await.map_err(fail)?.items {
                let versions = pool.status.versions.iter().map(|running| MachineVersions {
                    desired: None,
                    kubelet: Version::parse(&running.version).ok(),
                });
                let version = &pool.spec.template.spec.version;
                workers.push(group(WorkerKind::MachinePool, &pool, version, versions));
            }
            let step = cluster.annotations().get(UPGRADE_STEP_ANNOTATION);
            Ok(UpgradeState {
                control_plane: control_plane(&client, cluster, &machines).await?,
                workers,
                pending_hooks: PendingHooks::of(&cluster.metadata),
                upgrade_step: step.and_then(|step| Version::parse(step).ok()),
                waiting: Wait::of_cluster(cluster),
            })
        })
    }
}

fn group<K: kube::Resource<DynamicType = ()>>(
    kind: WorkerKind,
    object: &K,
    version: &str,
    mut machines: impl Iterator<Item = MachineVersions>,
) -> WorkerGroup {
    let version = Version::parse(version).ok();
    let upgrading = version.as_ref().is_some_and(|version| machines.any(|machine| !machine.have(version)));
    let name = object.name_any();
    let entry = object.labels().get(kind.entry_label()).unwrap_or(&name).clone();
    let object = GroupObject { name, version, upgrading, rolling_out: false, blocked: None };
    WorkerGroup::of(kind, &entry, Some(object))
}

async fn control_plane(
    client: &Client,
    cluster: &Cluster,
    machines: &[Machine],
) -> Result<Option<ControlPlane>, String> {
    let Some(reference) = &cluster.spec.control_plane_ref else { return Ok(None) };
    // Paths of versions are the same in both contracts, and so is v1beta2 of the control planes that are known.
    let resource = resource(&api_version::join(&reference.api_group, "v1beta2"), &reference.kind);
    let namespace = ObjectKey::of(cluster).namespace;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    let found = api.get_opt(&reference.name).await.map_err(|error| describe_error(&error))?;
    let Some(found) = found else { return Ok(None) };
    let data: &Value = &found.data;
    let read = contract::control_plane(data, Contract::V1Beta2);
    let Some(written) = read.version.as_deref() else { return Ok(None) };
    let Ok(version) = Version::parse(written) else { return Ok(None) };
    let has_come_up = |machine: &Machine| {
        machine.labels().contains_key(CONTROL_PLANE_LABEL)
            && machine.spec.version == written
            && (machine.status.node_ref.is_some() || machine.status.node_info.is_some())
    };
    let running = read.observed_versions.iter().filter_map(|version| Version::parse(version).ok());
    Ok(Some(ControlPlane {
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        version,
        running: running.collect(),
        unborn: !machines.iter().any(has_come_up),
        leaves_step: false,
        updating_in_place: false,
        blocked: None,
    }))
}
