//! What the upgrade decision looks at: small values, read from the API by the shell.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_api::cluster::Cluster;
use windlass_api::names::{
    ACKNOWLEDGED_TARGET_ANNOTATION, BEFORE_CLUSTER_UPGRADE_ANNOTATION_PREFIX, PENDING_HOOKS_ANNOTATION,
    TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL, UPGRADE_CONCURRENCY_ANNOTATION,
    UPGRADE_STEP_ANNOTATION,
};
use windlass_plan::Source;
use windlass_version::{Comparison, Version};

use super::steering::Steering;
use crate::pending_hooks::PendingHooks;

/// Everything that decides which version each part of a managed topology gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// `spec.topology.version`: where everything shall go.
    pub version: Version,
    /// Where the versions in between come from.
    pub source: PlanSource,
    /// The control plane, if it exists.
    pub control_plane: Option<ControlPlane>,
    /// Worker groups of the topology, in list order and MachineDeployments first; after them those that exist
    /// but are no longer in the topology.
    pub workers: Vec<WorkerGroup>,
    /// Hooks that are still to be called.
    pub pending_hooks: PendingHooks,
    /// The step that was recorded before the control plane was written.
    pub upgrade_step: Option<Version>,
    /// The target for which BeforeClusterUpgrade passed, while an upgrade runs. Missing if the upgrade was begun by
    /// something that keeps none: then it has passed for the target of now.
    pub acknowledged_target: Option<Version>,
    /// What the annotations of the Cluster ask of the upgrade.
    pub steering: Steering,
    /// How many groups of a kind may upgrade at the same time; at least 1.
    pub concurrency: usize,
    /// Annotation keys that hold an upgrade as a blocking BeforeClusterUpgrade would.
    pub upgrade_holds: BTreeSet<String>,
    /// Pins of worker groups that have no effect, because the feature gate is off.
    pub ignored_pins: Vec<String>,
    /// Whether the Cluster refers to its infrastructure or its control plane already.
    pub created: bool,
    /// Whether the API server of the workload cluster was reached once.
    pub control_plane_initialized: bool,
}

impl Observed {
    /// A cluster that does not exist yet.
    pub fn new(version: Version) -> Self {
        Self {
            version,
            source: PlanSource::Known(Source::OneMinor),
            control_plane: None,
            workers: Vec::new(),
            pending_hooks: PendingHooks::default(),
            upgrade_step: None,
            acknowledged_target: None,
            steering: Steering::default(),
            concurrency: 1,
            upgrade_holds: BTreeSet::new(),
            ignored_pins: Vec::new(),
            created: false,
            control_plane_initialized: false,
        }
    }

    /// What the annotations of a Cluster say: what was promised, what its owner asks for. Nothing of its parts is known yet.
    pub fn with_annotations(version: Version, cluster: &Cluster) -> Self {
        let annotations = cluster.metadata.annotations.as_ref();
        let annotation = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let version_in = |key: &str| annotation(key).and_then(|version| Version::parse(version).ok());
        let concurrency = annotation(UPGRADE_CONCURRENCY_ANNOTATION).and_then(|value| value.parse().ok());
        Self {
            pending_hooks: PendingHooks::parse(annotation(PENDING_HOOKS_ANNOTATION)),
            upgrade_step: version_in(UPGRADE_STEP_ANNOTATION),
            acknowledged_target: version_in(ACKNOWLEDGED_TARGET_ANNOTATION),
            steering: Steering::read(annotations).0,
            concurrency: concurrency.unwrap_or(1).max(1),
            upgrade_holds: upgrade_holds(&cluster.metadata).cloned().collect(),
            ..Self::new(version)
        }
    }

    /// The oldest version of the worker groups that take part in upgrades, those on their way out included: their
    /// machines still run. Among builds without an order, one that differs from the control plane is behind it.
    pub fn oldest_workers(&self) -> Option<&Version> {
        let control_plane = self.control_plane.as_ref().map(|control_plane| &control_plane.version);
        let taking_part = self.workers.iter().filter(|group| group.pin.is_none());
        taking_part.filter_map(WorkerGroup::version).reduce(|oldest, candidate| {
            match candidate.compare(oldest) {
                Comparison::Less => candidate,
                Comparison::DifferentBuild if control_plane == Some(oldest) => candidate,
                _ => oldest,
            }
        })
    }
}

/// The annotations that hold an upgrade before it begins, by their keys.
pub(crate) fn upgrade_holds(metadata: &ObjectMeta) -> impl Iterator<Item = &String> {
    let keys = metadata.annotations.iter().flat_map(BTreeMap::keys);
    keys.filter(|key| key.starts_with(BEFORE_CLUSTER_UPGRADE_ANNOTATION_PREFIX))
}

/// Where the versions of a plan come from, or why that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanSource {
    /// The class or an extension told.
    Known(Source),
    /// The extension that plans could not be asked, or its plan could not be used.
    Unavailable(String),
}

/// A control plane object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane {
    /// Its kind, for messages.
    pub kind: String,
    /// The name of the object that `spec.controlPlaneRef` refers to.
    pub name: String,
    /// `spec.version`.
    pub version: Version,
    /// The versions of its machines, as `status.versions` or `status.version` tells them.
    pub running: Vec<Version>,
    /// Whether no machine that was made for its version has a Node. What it reports as running may count such machines.
    pub unborn: bool,
    /// Whether a machine of it was made for a later version than its own: a step that was given up, whose machine goes.
    pub leaves_step: bool,
    /// Whether a machine of it is being updated in place.
    pub updating_in_place: bool,
    /// What it says about a rollout that it cannot go on with by itself.
    pub blocked: Option<String>,
}

impl ControlPlane {
    /// Whether no machine of it has reported a version yet.
    pub fn is_provisioning(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether a machine of it is behind its specification, or is left from a step that was given up.
    pub fn is_upgrading(&self) -> bool {
        self.leaves_step || self.running.iter().any(|running| self.version.compare(running).is_progress())
    }

    /// Whether it has reached a version: its specification has, and no machine of it is behind.
    pub fn has_reached(&self, version: &Version) -> bool {
        let is_there = |at: &Version| at.compare(version) != Comparison::Less;
        is_there(&self.version) && self.running.iter().all(is_there)
    }

    /// The oldest version that a machine of it runs.
    pub fn oldest_running(&self) -> Option<&Version> {
        self.running.iter().reduce(
            |oldest, running| {
                if running.compare(oldest) == Comparison::Less { running } else { oldest }
            },
        )
    }
}

/// The kind of a worker group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerKind {
    /// A MachineDeployment.
    MachineDeployment,
    /// A MachinePool.
    MachinePool,
}

impl WorkerKind {
    /// The kind on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MachineDeployment => "MachineDeployment",
            Self::MachinePool => "MachinePool",
        }
    }

    /// What templates and fields call it, as in `{{ .machineDeployment.topologyName }}`.
    pub const fn field(self) -> &'static str {
        match self {
            Self::MachineDeployment => "machineDeployment",
            Self::MachinePool => "machinePool",
        }
    }

    /// The label with the name of the topology's entry.
    pub const fn entry_label(self) -> &'static str {
        match self {
            Self::MachineDeployment => TOPOLOGY_DEPLOYMENT_NAME_LABEL,
            Self::MachinePool => TOPOLOGY_POOL_NAME_LABEL,
        }
    }
}

impl fmt::Display for WorkerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A worker group, as it is called in messages: by its object if it has one, else by its topology entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    /// Whether it is a MachineDeployment or a MachinePool.
    pub kind: WorkerKind,
    /// The name of the object, or of the entry as long as there is none.
    pub name: String,
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// One worker group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerGroup {
    /// MachineDeployment or MachinePool.
    pub kind: WorkerKind,
    /// Name of its entry in the topology.
    pub topology_name: String,
    /// Whether the entry is still in the topology.
    pub in_topology: bool,
    /// Whether the entry asks to be left out of the upgrade for now.
    pub defer: bool,
    /// Whether the entry asks that neither it nor any later entry upgrades for now.
    pub hold: bool,
    /// The version that the entry keeps the group at. It takes no part in upgrades.
    pub pin: Option<Version>,
    /// The object, if it exists.
    pub object: Option<GroupObject>,
}

/// The object of a worker group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupObject {
    /// `metadata.name`.
    pub name: String,
    /// The version its machines shall have.
    pub version: Option<Version>,
    /// Whether some of its machines do not have that version yet.
    pub upgrading: bool,
    /// Whether machines are being rolled out, for whatever change.
    pub rolling_out: bool,
    /// What it says about a rollout that it cannot go on with by itself.
    pub blocked: Option<String>,
}

impl WorkerGroup {
    /// An entry of the topology that asks for nothing, with its object.
    pub fn of(kind: WorkerKind, topology_name: &str, object: Option<GroupObject>) -> Self {
        Self {
            kind,
            topology_name: topology_name.to_owned(),
            in_topology: true,
            defer: false,
            hold: false,
            pin: None,
            object,
        }
    }

    /// What the group is called.
    pub fn id(&self) -> GroupId {
        let name = self.object.as_ref().map_or(&self.topology_name, |object| &object.name);
        GroupId { kind: self.kind, name: name.clone() }
    }

    /// The version its machines shall have, if it exists.
    pub fn version(&self) -> Option<&Version> {
        self.object.as_ref()?.version.as_ref()
    }

    /// Whether some of its machines do not have their version yet.
    pub fn is_upgrading(&self) -> bool {
        self.object.as_ref().is_some_and(|object| object.upgrading)
    }

    /// Whether it takes no part in upgrades.
    pub const fn is_pinned(&self) -> bool {
        self.pin.is_some()
    }

    /// What it says about a rollout that it cannot go on with by itself.
    pub fn blocked(&self) -> Option<&str> {
        self.object.as_ref()?.blocked.as_deref()
    }
}

/// The versions of one machine of a worker group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineVersions {
    /// `spec.version` of the Machine; for a member of a MachinePool, nothing.
    pub desired: Option<Version>,
    /// What the kubelet reports, once it runs.
    pub kubelet: Option<Version>,
}

impl MachineVersions {
    /// Whether the machine has a version. A kubelet whose build is named differently, or not at all, does not
    /// count as another version: distributions label their kubelets in their own ways.
    pub fn have(&self, version: &Version) -> bool {
        let desired = self.desired.as_ref().is_none_or(|desired| desired == version);
        desired && self.kubelet.as_ref().is_none_or(|kubelet| same_kubelet(kubelet, version))
    }
}

/// The members of a MachinePool. Nothing is known of those that are not there yet: they have no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolMembers<'a> {
    /// How many there shall be.
    pub wanted: usize,
    /// The versions that their kubelets report, with how many report each.
    pub running: &'a [(Version, usize)],
}

impl PoolMembers<'_> {
    /// Whether some of them do not have the version of their pool yet.
    pub fn are_upgrading(&self, version: &Version, step: Option<&Version>) -> bool {
        let have = |(running, _): &(Version, usize)| same_kubelet(running, version);
        let members: usize = self.running.iter().map(|(_, members)| members).sum();
        !self.running.iter().all(have) || are_missing(members, self.wanted, version, step)
    }
}

/// Whether a worker group misses machines that an upgrade is to bring.
///
/// One that is missing counts only in a step of workers, in groups that have been given the version of the step: it is being
/// replaced then, and the step is not over before it is back. At other times it is ill or still to come, which is no upgrade
/// and must not hold one up.
pub fn are_missing(running: usize, wanted: usize, version: &Version, step: Option<&Version>) -> bool {
    step == Some(version) && running < wanted
}

fn same_kubelet(kubelet: &Version, version: &Version) -> bool {
    let builds_agree =
        kubelet.build().is_empty() || version.build().is_empty() || kubelet.build() == version.build();
    kubelet.precedence(version).is_eq() && builds_agree
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_control_plane_upgrades_while_a_machine_is_behind() {
        for (running, provisioning, upgrading) in [
            (&[][..], true, false),
            (&["v1.31.0"], false, false),
            (&["v1.30.0", "v1.31.0"], false, true),
            (&["v1.30.0"], false, true),
            (&["v1.32.0"], false, false),
            (&["v1.31.0+a"], false, false),
        ] {
            let control_plane = ControlPlane {
                kind: "KubeadmControlPlane".to_owned(),
                name: "cp".to_owned(),
                version: v("v1.31.0"),
                running: running.iter().map(|text| v(text)).collect(),
                unborn: false,
                leaves_step: false,
                updating_in_place: false,
                blocked: None,
            };
            assert_eq!(control_plane.is_provisioning(), provisioning, "{running:?}");
            assert_eq!(control_plane.is_upgrading(), upgrading, "{running:?}");
        }
    }

    #[test]
    fn a_pool_upgrades_until_the_last_member_is_back() {
        for (running, step, upgrading) in [
            (&[("v1.31.0", 2)][..], None, false),
            (&[("v1.31.0", 2)], Some("v1.31.0"), false),
            (&[("v1.30.0", 1), ("v1.31.0", 1)], None, true),
            // One is missing: in the step to this version it is on its way, otherwise it is ill.
            (&[("v1.31.0", 1)], Some("v1.31.0"), true),
            (&[("v1.31.0", 1)], Some("v1.32.0"), false),
            (&[("v1.31.0", 1)], None, false),
            (&[], Some("v1.31.0"), true),
            (&[], None, false),
        ] {
            let running: Vec<(Version, usize)> =
                running.iter().map(|(version, members)| (v(version), *members)).collect();
            let members = PoolMembers { wanted: 2, running: &running };
            let step = step.map(v);
            assert_eq!(
                members.are_upgrading(&v("v1.31.0"), step.as_ref()),
                upgrading,
                "{members:?} {step:?}"
            );
        }
    }

    #[test]
    fn a_kubelet_may_name_its_build_in_its_own_way() {
        for (desired, kubelet, version, have) in [
            (Some("v1.31.0"), Some("v1.31.0"), "v1.31.0", true),
            (Some("v1.31.0"), None, "v1.31.0", true),
            (None, Some("v1.31.0"), "v1.31.0", true),
            (Some("v1.30.0"), Some("v1.31.0"), "v1.31.0", false),
            (Some("v1.31.0"), Some("v1.30.0"), "v1.31.0", false),
            (Some("v1.31.0"), Some("v1.31.0+vendor"), "v1.31.0", true),
            (Some("v1.31.0+vendor.1"), Some("v1.31.0"), "v1.31.0+vendor.1", true),
            (Some("v1.31.0+b"), Some("v1.31.0+a"), "v1.31.0+b", false),
        ] {
            let machine = MachineVersions { desired: desired.map(v), kubelet: kubelet.map(v) };
            assert_eq!(machine.have(&v(version)), have, "{machine:?} at {version}");
        }
    }
}
