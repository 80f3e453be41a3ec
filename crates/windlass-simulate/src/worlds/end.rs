//! How a world ends: what is compared between a run with faults and one without.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachinePool};
use windlass_api::infrastructure::DevMachine;
use windlass_api::names::{CONTROL_PLANE_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL};
use windlass_runtime::Write;

use crate::world::{World, key};

/// Everything that a run with faults must have in common with one without, if the user wants the same in both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// What the user wants: `spec.topology` of the Cluster.
    pub wanted: String,
    /// How many machines there are, by group and version.
    pub machines: BTreeMap<(String, String), usize>,
    /// The versions and sizes of worker groups.
    pub groups: BTreeMap<String, (String, Option<i32>)>,
    /// How many objects of a machine there are, by kind.
    pub parts: BTreeMap<&'static str, usize>,
    /// How many writes it took, which need not be the same.
    pub writes: u64,
}

impl End {
    /// What is there now.
    pub(super) fn of(world: &World, cluster: &str) -> Self {
        let wanted = world.get::<Cluster>(&key(cluster)).and_then(|cluster| cluster.spec.topology);
        let wanted = serde_json::to_string(&wanted).unwrap_or_default();
        let mut machines = BTreeMap::new();
        for machine in world.list::<Machine>() {
            let labels = machine.labels();
            let group = match labels.contains_key(CONTROL_PLANE_LABEL) {
                true => "control plane".to_owned(),
                false => labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).cloned().unwrap_or_default(),
            };
            *machines.entry((group, machine.spec.version)).or_default() += 1;
        }
        let mut groups = BTreeMap::new();
        for group in world.list::<MachineDeployment>() {
            let name = group.labels().get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).cloned().unwrap_or_default();
            let replicas = group.replicas();
            groups.insert(name, (group.spec.template.spec.version, replicas));
        }
        for pool in world.list::<MachinePool>() {
            let name = pool.labels().get(TOPOLOGY_POOL_NAME_LABEL).cloned().unwrap_or_default();
            let replicas = pool.replicas();
            groups.insert(name, (pool.spec.template.spec.version, replicas));
        }
        let parts = BTreeMap::from([
            ("DevMachine", world.list::<DevMachine>().len()),
            ("KubeadmConfig", world.list::<KubeadmConfig>().len()),
        ]);
        Self { wanted, machines, groups, parts, writes: world.faults().writes() }
    }

    /// How it differs from an end of the same tale without faults; nothing, if the user wants something else there.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let comparable = |end: &Self| Self { writes: 0, ..end.clone() };
        if self.wanted != other.wanted || comparable(self) == comparable(other) {
            return None;
        }
        Some(format!("with faults {self:?}\nwithout {other:?}"))
    }
}

/// Recognises the writes that renew the tokens of pools.
///
/// A token is good for 15 minutes, so the bootstrap data of a pool is made anew for as long as the pool is there. The token is
/// in the spec of its KubeadmConfig, and the topology, which applies that object, looks at it then.
pub fn token_renewals(world: &World) -> impl Fn(&Write) -> bool + use<> {
    let configs = world.list::<KubeadmConfig>();
    let of_pools = configs.iter().filter(|config| config.labels().contains_key(TOPOLOGY_POOL_NAME_LABEL));
    let names: BTreeSet<String> = of_pools.map(ResourceExt::name_any).collect();
    move |write| {
        let by = write.by.as_ref().map(|(controller, _)| controller.as_str());
        names.contains(&write.key.name)
            && match write.kind.kind.as_str() {
                "KubeadmConfig" => matches!(by, Some("kubeadmconfig" | "topology")),
                "Secret" => by == Some("kubeadmconfig"),
                _ => false,
            }
    }
}
