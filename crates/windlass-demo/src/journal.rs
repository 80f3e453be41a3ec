//! Follows what is written about the cluster, and makes a model of it.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment};
use windlass_api::conditions::TOPOLOGY_RECONCILED;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    CONTROL_PLANE_LABEL, PENDING_HOOKS_ANNOTATION, TOPOLOGY_DEPLOYMENT_NAME_LABEL,
    UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::condition;
use windlass_engine::describe::{Described, WaitingDescription};
use windlass_engine::progress::{self, MachineState, Seen};
use windlass_plan::{Operation, Step};
use windlass_store::{Event, EventKind};
use windlass_version::Version;

use crate::model::{HookLine, Model, Phase, PlanStep, StepState};

/// What a journal begins with.
pub(crate) struct Story {
    pub(crate) from: Version,
    pub(crate) to: Version,
    pub(crate) versions: Vec<Version>,
    pub(crate) speed: f64,
    pub(crate) operations: Vec<Operation>,
    /// Worker groups in the order of the topology.
    pub(crate) groups: Vec<String>,
    /// The desired number of machines.
    pub(crate) machines_wanted: usize,
}

/// Everything about the cluster that was seen.
pub(crate) struct Journal {
    story: Story,
    cluster: Option<Cluster>,
    control_plane: Option<KubeadmControlPlane>,
    deployments: BTreeMap<String, MachineDeployment>,
    machines: BTreeMap<String, Machine>,
    created: usize,
    deleted: usize,
    updated: usize,
    worst_skew: u64,
}

impl Journal {
    pub(crate) fn new(story: Story) -> Self {
        Self {
            story,
            cluster: None,
            control_plane: None,
            deployments: BTreeMap::new(),
            machines: BTreeMap::new(),
            created: 0,
            deleted: 0,
            updated: 0,
            worst_skew: 0,
        }
    }

    /// Counts from now on: what was created before belongs to the cluster as it was.
    pub(crate) fn begin(&mut self) {
        (self.created, self.deleted, self.updated, self.worst_skew) = (0, 0, 0, self.skew());
    }

    /// Takes in one write; true if it is about the cluster.
    pub(crate) fn take(&mut self, event: &Event) -> bool {
        let (bytes, gone) = (event.object().value(), event.kind() == EventKind::Deleted);
        let name = event.key().name().to_owned();
        fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<T> {
            windlass_api::read::from_bytes(bytes).ok()
        }
        match event.key().resource().as_str() {
            "cluster.x-k8s.io/clusters" => self.cluster = read(bytes.as_ref()).filter(|_| !gone),
            "controlplane.cluster.x-k8s.io/kubeadmcontrolplanes" => {
                self.control_plane = read(bytes.as_ref()).filter(|_| !gone);
            }
            "cluster.x-k8s.io/machinedeployments" => match read::<MachineDeployment>(bytes.as_ref()) {
                Some(group) if !gone => drop(self.deployments.insert(name, group)),
                _ => drop(self.deployments.remove(&name)),
            },
            "cluster.x-k8s.io/machines" => {
                let Some(machine) = read::<Machine>(bytes.as_ref()) else { return false };
                self.machine(name, machine, gone);
            }
            _ => return false,
        }
        true
    }

    fn machine(&mut self, name: String, machine: Machine, gone: bool) {
        let was_updating = self.machines.get(&name).is_some_and(is_updating);
        if gone {
            self.machines.remove(&name);
            self.deleted += 1;
        } else {
            self.updated += usize::from(was_updating && !is_updating(&machine));
            self.created += usize::from(self.machines.insert(name, machine).is_none());
        }
        self.worst_skew = self.worst_skew.max(self.skew());
    }

    /// The largest skew between a kubelet of a worker and an API server.
    fn skew(&self) -> u64 {
        self.look(progress::skew).unwrap_or_default()
    }

    /// Looks at the Cluster as every view does.
    fn look<T>(&self, view: impl FnOnce(Described<'_>) -> T) -> Option<T> {
        let cluster = self.cluster.as_ref()?;
        let (deployments, machines): (Vec<_>, Vec<_>) =
            (self.deployments.values().cloned().collect(), self.machines.values().cloned().collect());
        Some(view(Described {
            cluster,
            infrastructure: None,
            control_plane: None,
            machine_deployments: &deployments,
            machine_pools: &[],
            machines: &machines,
            version_changes: &[],
        }))
    }

    /// Whether everything has a version and is available, and nothing about the topology is open.
    pub(crate) fn is_at(&self, version: &Version) -> bool {
        let text = version.to_string();
        let Some(cluster) = &self.cluster else { return false };
        let available = |machine: &Machine| {
            state(machine) == MachineState::Available && kubelet(machine) == Some(text.as_str())
        };
        condition::is_true(&cluster.status.conditions, TOPOLOGY_RECONCILED)
            && !cluster.annotations().contains_key(PENDING_HOOKS_ANNOTATION)
            && self.control_plane.as_ref().is_some_and(|found| found.spec.version == text)
            && self.deployments.len() == self.story.groups.len()
            && self.deployments.values().all(|group| group.spec.template.spec.version == text)
            && self.machines.len() == self.story.machines_wanted
            && self.machines.values().all(available)
    }

    /// What there is to see now.
    pub(crate) fn model(&self, phase: Phase, elapsed: Duration, hooks: Vec<HookLine>) -> Model {
        let steps = self.story.operations.iter().map(|operation| {
            let state = if phase == Phase::Creating { StepState::Coming } else { self.step(&operation.step) };
            PlanStep { text: operation.step.to_string(), state }
        });
        Model {
            phase,
            from: self.story.from.to_string(),
            to: self.story.to.to_string(),
            versions: self.story.versions.iter().map(ToString::to_string).collect(),
            lanes: self.look(progress::lanes).unwrap_or_default(),
            steps: steps.collect(),
            hooks,
            skew: self.skew(),
            worst_skew: self.worst_skew,
            waiting_on: self.waiting_on(),
            created: self.created,
            deleted: self.deleted,
            updated: self.updated,
            elapsed,
            speed: self.story.speed,
        }
    }

    /// How far an operation is: where its machines are tells, whatever is written about it.
    fn step(&self, step: &Step) -> StepState {
        let group = step.group().map(windlass_plan::GroupName::as_str);
        let spec = match group {
            None => self.control_plane.as_ref().map(|found| found.spec.version.as_str()),
            Some(name) => self
                .deployments
                .values()
                .find(|found| entry(found.labels()) == Some(name))
                .map(|found| found.spec.template.spec.version.as_str()),
        };
        let reached = |version: Option<&str>| {
            version
                .and_then(|version| Version::parse(version).ok())
                .is_some_and(|version| !version.is_older_than(step.to()))
        };
        let mut machines = self.machines.values().filter(|machine| group_of(machine) == group);
        match () {
            () if !reached(spec) => StepState::Coming,
            () if machines
                .all(|machine| reached(kubelet(machine)) && state(machine) == MachineState::Available) =>
            {
                StepState::Done
            }
            // A later step of the same part has begun, so this one is done.
            () if spec != Some(step.to().to_string().as_str()) => StepState::Done,
            () => StepState::Running,
        }
    }

    fn waiting_on(&self) -> Vec<String> {
        let waiting = self.look(WaitingDescription::of).flatten();
        waiting.map_or_else(Vec::new, |waiting| vec![waiting.wait.what])
    }
}

fn entry(labels: &BTreeMap<String, String>) -> Option<&str> {
    labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).map(String::as_str)
}

/// The worker group of a machine; nothing for the control plane.
fn group_of(machine: &Machine) -> Option<&str> {
    entry(machine.labels()).filter(|_| !machine.labels().contains_key(CONTROL_PLANE_LABEL))
}

fn kubelet(machine: &Machine) -> Option<&str> {
    machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str())
}

fn is_updating(machine: &Machine) -> bool {
    machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION)
}

fn state(machine: &Machine) -> MachineState {
    Seen::of(machine).map_or(MachineState::Starting, |seen| seen.state())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::frame;

    #[test]
    fn the_line_says_what_the_topology_keeps() {
        let version = |version: &str| Version::parse(version).unwrap();
        let mut journal = Journal::new(Story {
            from: version("v1.29.0"),
            to: version("v1.30.0"),
            versions: vec![version("v1.29.0"), version("v1.30.0")],
            speed: 1.0,
            operations: Vec::new(),
            groups: Vec::new(),
            machines_wanted: 0,
        });
        let what = "BeforeClusterUpgrade: not before noon";
        let wait = json!({"reason": "WaitingForHook", "what": what, "since": "2026-01-01T01:00:00Z"});
        let cluster = json!({
            "metadata": {"name": "c1", "annotations": {"upgrade.windlass.dev/waiting-on": wait.to_string()}},
            "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.30.0"}},
            "status": {"conditions": [{"type": "TopologyReconciled", "status": "False", "reason": "ClusterUpgrading",
                "message": format!("The Cluster is upgrading to v1.30.0\n  * The upgrade waits for {what}"),
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        journal.cluster = Some(serde_json::from_value(cluster).unwrap());
        let model = journal.model(Phase::Upgrading, Duration::ZERO, Vec::new());
        assert_eq!(model.waiting_on, [what]);
        let frame = frame::frame(&model, 100, 30);
        assert!(frame.contains(what), "{frame}");
    }
}
