//! A Cluster in a few lines: what is, what comes next, what it waits on.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachinePool, MachinesStatus};
use windlass_api::conditions::TOPOLOGY_RECONCILED;
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, PENDING_HOOKS_ANNOTATION, TOPOLOGY_DEPLOYMENT_NAME_LABEL,
    TOPOLOGY_POOL_NAME_LABEL, UPGRADE_STEP_ANNOTATION,
};

use super::hooks::PendingHooks;
use crate::condition;

/// The objects that a description is made from.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The Cluster.
    pub cluster: &'a Cluster,
    /// MachineDeployments of its namespace; those of other Clusters are left out.
    pub machine_deployments: &'a [MachineDeployment],
    /// MachinePools of its namespace.
    pub machine_pools: &'a [MachinePool],
    /// Machines of its namespace.
    pub machines: &'a [Machine],
}

/// A Cluster in a few lines. The fields are a contract with scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDescription {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of the Cluster.
    pub name: String,
    /// Its class, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The version that everything shall have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What is: the control plane first, then worker groups in the order of their names.
    pub parts: Vec<PartDescription>,
    /// What comes next, if an upgrade is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeDescription>,
    /// What it waits on, in the words of those who wait.
    pub waiting_on: Vec<String>,
}

/// The control plane or a worker group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartDescription {
    /// What it is called: `control plane`, or the kind and name of a worker group.
    pub name: String,
    /// How many machines it shall have.
    pub desired: i32,
    /// How many of them are available.
    pub available: i32,
    /// Which versions its machines have, and how many have each.
    pub versions: BTreeMap<String, usize>,
}

/// An upgrade that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeDescription {
    /// The step that the control plane takes or took last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Versions that the control plane still goes through.
    pub control_plane: Vec<String>,
    /// Versions that workers still go through.
    pub workers: Vec<String>,
    /// Hooks that are still to be called.
    pub pending_hooks: Vec<String>,
}

impl ClusterDescription {
    /// Describes a Cluster.
    pub fn of(objects: Described<'_>) -> Self {
        let cluster = objects.cluster;
        let topology = cluster.spec.topology.as_ref();
        let annotations = cluster.metadata.annotations.clone().unwrap_or_default();
        let pending = PendingHooks::parse(annotations.get(PENDING_HOOKS_ANNOTATION).map(String::as_str));
        let pending_hooks: Vec<String> = pending
            .annotation()
            .unwrap_or_default()
            .split(',')
            .filter(|hook| !hook.is_empty())
            .map(str::to_owned)
            .collect();
        let plan = |status: Option<&MachinesStatus>| -> Vec<String> {
            status
                .into_iter()
                .flat_map(|status| &status.upgrade_plan)
                .map(|step| step.version.clone())
                .collect()
        };
        let (control_plane, workers) =
            (plan(cluster.status.control_plane.as_ref()), plan(cluster.status.workers.as_ref()));
        let step = annotations.get(UPGRADE_STEP_ANNOTATION).cloned();
        let under_way = step.is_some() || !control_plane.is_empty() || !workers.is_empty();
        Self {
            namespace: cluster.metadata.namespace.clone().unwrap_or_default(),
            name: cluster.metadata.name.clone().unwrap_or_default(),
            class: topology.map(|topology| topology.class_ref.name.clone()),
            version: topology.map(|topology| topology.version.clone()),
            parts: parts(objects),
            upgrade: under_way.then_some(UpgradeDescription { step, control_plane, workers, pending_hooks }),
            waiting_on: waiting_on(cluster, objects.machines),
        }
    }
}

fn parts(objects: Described<'_>) -> Vec<PartDescription> {
    let cluster = objects.cluster;
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let is_mine = |labels: Option<&BTreeMap<String, String>>| {
        labels.is_some_and(|labels| labels.get(CLUSTER_NAME_LABEL) == Some(&name))
    };
    let count = |belongs: &dyn Fn(&BTreeMap<String, String>) -> bool| -> BTreeMap<String, usize> {
        let mut versions = BTreeMap::new();
        for machine in objects.machines.iter().filter(|machine| is_mine(machine.metadata.labels.as_ref())) {
            if machine.metadata.labels.as_ref().is_some_and(belongs) {
                let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.clone());
                *versions.entry(kubelet.unwrap_or_else(|| machine.spec.version.clone())).or_default() += 1;
            }
        }
        versions
    };
    let status = cluster.status.control_plane.as_ref();
    let mut parts = vec![PartDescription {
        name: "control plane".to_owned(),
        desired: status.and_then(|status| status.desired_replicas).unwrap_or_default(),
        available: status.and_then(|status| status.available_replicas).unwrap_or_default(),
        versions: count(&|labels| labels.contains_key(CONTROL_PLANE_LABEL)),
    }];
    for group in objects.machine_deployments.iter().filter(|group| is_mine(group.metadata.labels.as_ref())) {
        let entry =
            group.metadata.labels.as_ref().and_then(|labels| labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL));
        let selector = group.spec.selector.match_labels.clone().unwrap_or_default();
        let shown = entry.or(group.metadata.name.as_ref()).cloned().unwrap_or_default();
        parts.push(PartDescription {
            name: format!("{} {shown}", MachineDeployment::KIND),
            desired: group.spec.replicas.unwrap_or_default(),
            available: group.status.available_replicas.unwrap_or_default(),
            versions: count(&|labels| selector.iter().all(|(key, value)| labels.get(key) == Some(value))),
        });
    }
    for pool in objects.machine_pools.iter().filter(|pool| is_mine(pool.metadata.labels.as_ref())) {
        let entry = pool.metadata.labels.as_ref().and_then(|labels| labels.get(TOPOLOGY_POOL_NAME_LABEL));
        let shown = entry.or(pool.metadata.name.as_ref()).cloned().unwrap_or_default();
        let versions = pool.status.versions.iter();
        parts.push(PartDescription {
            name: format!("{} {shown}", MachinePool::KIND),
            desired: pool.spec.replicas.unwrap_or_default(),
            available: pool.status.ready_replicas.unwrap_or_default(),
            versions: versions
                .map(|running| {
                    let count = running.replicas.and_then(|count| usize::try_from(count).ok());
                    (running.version.clone(), count.unwrap_or_default())
                })
                .collect(),
        });
    }
    parts
}

/// What the topology says it waits on, then what machines do that are not available yet.
fn waiting_on(cluster: &Cluster, machines: &[Machine]) -> Vec<String> {
    let mut lines = Vec::new();
    let topology = condition::find(&cluster.status.conditions, TOPOLOGY_RECONCILED);
    if let Some(topology) = topology.filter(|topology| topology.status != "True") {
        let mut message = topology.message.lines();
        let head = message.next().unwrap_or(&topology.reason).to_owned();
        let details: Vec<String> =
            message.map(|line| line.trim().trim_start_matches("* ").to_owned()).collect();
        if details.is_empty() { lines.push(head) } else { lines.extend(details) }
    }
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    for machine in machines.iter().filter(|machine| machine.spec.cluster_name == name) {
        let ready = condition::find(&machine.status.conditions, "Ready");
        if let Some(ready) = ready.filter(|ready| ready.status != "True" && !ready.message.is_empty()) {
            let first = ready.message.lines().next().unwrap_or_default().trim_start_matches("* ");
            lines.push(format!("Machine {}: {first}", machine.metadata.name.as_deref().unwrap_or_default()));
        }
    }
    lines
}

impl fmt::Display for ClusterDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Cluster {}/{}", self.namespace, self.name)?;
        if let (Some(class), Some(version)) = (&self.class, &self.version) {
            writeln!(f, "  class {class}, version {version}")?;
        }
        for part in &self.parts {
            let versions: Vec<String> =
                part.versions.iter().map(|(version, count)| format!("{count} at {version}")).collect();
            let versions = if versions.is_empty() { "no machines".to_owned() } else { versions.join(", ") };
            writeln!(f, "  {}: {} of {} available; {versions}", part.name, part.available, part.desired)?;
        }
        if let Some(upgrade) = &self.upgrade {
            writeln!(f, "Next")?;
            for (what, versions) in [("control plane", &upgrade.control_plane), ("workers", &upgrade.workers)]
            {
                if !versions.is_empty() {
                    writeln!(f, "  {what}: {}", versions.join(", "))?;
                }
            }
            if !upgrade.pending_hooks.is_empty() {
                writeln!(f, "  hooks to be called: {}", upgrade.pending_hooks.join(", "))?;
            }
        }
        if !self.waiting_on.is_empty() {
            writeln!(f, "Waiting on")?;
            for line in &self.waiting_on {
                writeln!(f, "  {line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_cluster_in_the_middle_of_an_upgrade() {
        let cluster: Cluster = read(json!({
            "metadata": {"name": "c1", "namespace": "ns", "annotations": {
                "runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade,AfterWorkersUpgrade",
                "topology.internal.cluster.x-k8s.io/upgrade-step": "v1.32.0"}},
            "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.33.0"}},
            "status": {
                "controlPlane": {"desiredReplicas": 1, "availableReplicas": 1, "upgradePlan": [{"version": "v1.33.0"}]},
                "workers": {"upgradePlan": [{"version": "v1.32.0"}, {"version": "v1.33.0"}]},
                "conditions": [{"type": "TopologyReconciled", "status": "False", "reason": "ClusterUpgrading",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "message": "The Cluster is upgrading to v1.33.0\n  * MachineDeployment c1-a is upgrading to v1.32.0"}],
            },
        }));
        let labels =
            json!({"cluster.x-k8s.io/cluster-name": "c1", "topology.cluster.x-k8s.io/deployment-name": "a"});
        let group: MachineDeployment = read(json!({
            "metadata": {"name": "c1-a-x", "labels": labels},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}}, "status": {"availableReplicas": 1},
        }));
        let machine = |name: &str, labels: &Value, version: &str| -> Machine {
            read(
                json!({"metadata": {"name": name, "labels": labels}, "spec": {"clusterName": "c1", "version": version}}),
            )
        };
        let control_plane =
            json!({"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/control-plane": ""});
        let machines = [
            machine("cp", &control_plane, "v1.32.0"),
            machine("a1", &labels, "v1.29.0"),
            machine("a2", &labels, "v1.32.0"),
        ];
        let described = ClusterDescription::of(Described {
            cluster: &cluster,
            machine_deployments: &[group],
            machine_pools: &[],
            machines: &machines,
        });
        assert_eq!(
            described.to_string(),
            "Cluster ns/c1\n  class quick, version v1.33.0\n  \
             control plane: 1 of 1 available; 1 at v1.32.0\n  \
             MachineDeployment a: 1 of 2 available; 1 at v1.29.0, 1 at v1.32.0\n\
             Next\n  control plane: v1.33.0\n  workers: v1.32.0, v1.33.0\n  \
             hooks to be called: AfterClusterUpgrade, AfterWorkersUpgrade\n\
             Waiting on\n  MachineDeployment c1-a is upgrading to v1.32.0\n"
        );
    }
}
