//! What a decision about a control plane looks at.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

use super::etcd::Etcd;
use super::outdated::OutdatedReason;
use super::remediation::{RemediationPolicy, RemediationRecord};
use crate::external_update::ExternalUpdate;
use crate::in_place::{Effect, InPlaceAnswer, Verdict};

/// One KubeadmControlPlane with its Machines, at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// `spec.version`, as written.
    pub version: String,
    /// `spec.replicas`.
    pub replicas: u32,
    /// How outdated Machines are brought up to date.
    pub strategy: Strategy,
    /// The KubeadmControlPlane is being deleted.
    pub deleting: bool,
    /// The infrastructure of the Cluster is there.
    pub infrastructure_provisioned: bool,
    /// The Cluster has a control plane endpoint.
    pub endpoint: bool,
    /// All cluster certificates are there.
    pub certificates_available: bool,
    /// The first Machine has initialised the cluster, once.
    pub initialized: bool,
    /// The version that the managed topology wants; none without a managed topology.
    pub topology: Option<TopologyStep>,
    /// Failure domains of the Cluster that take control plane Machines.
    pub failure_domains: BTreeSet<String>,
    /// What is known of etcd.
    pub etcd: Etcd,
    /// Limits of remediation.
    pub remediation: RemediationPolicy,
    /// A remediation whose replacement does not exist yet.
    pub remediation_in_progress: Option<RemediationRecord>,
    /// What came of asking external updaters.
    pub external_update: ExternalUpdate,
    /// Machines that this control plane owns, in any order.
    pub machines: Vec<ObservedMachine>,
    /// Machines and pools of the Cluster that are not of this control plane; looked at when it is deleted.
    pub workers: Vec<String>,
}

/// Version of a managed topology, and the step that it is at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyStep {
    /// `spec.topology.version` of the Cluster.
    pub version: String,
    /// Value of the `upgrade-step` annotation.
    pub upgrade_step: Option<String>,
}

impl TopologyStep {
    /// Whether a control plane at this version may be changed: it is where the topology wants it to be.
    pub fn permits(&self, version: &str) -> bool {
        self.version == version || self.upgrade_step.as_deref() == Some(version)
    }
}

/// How outdated Machines are brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Machines are replaced, or updated in place where extensions cover the whole change.
    RollingUpdate {
        /// `rollout.strategy.rollingUpdate.maxSurge`, 0 or 1.
        max_surge: u32,
    },
    /// Machines are updated in place, and nothing else happens unless there is a fallback.
    External {
        /// Surge of the rolling update that replaces a Machine which cannot be updated in place.
        fallback_surge: Option<u32>,
    },
}

impl Strategy {
    /// How many Machines beyond `replicas` may exist while Machines are replaced; none if they never are.
    ///
    /// Going below `replicas` needs three of them: with fewer, losing one loses etcd, so one is added first whatever
    /// the specification says.
    pub fn surge(self, replicas: u32) -> Option<u32> {
        let max_surge = match self {
            Self::RollingUpdate { max_surge } => max_surge,
            Self::External { fallback_surge } => fallback_surge?,
        };
        Some(if replicas < 3 { 1 } else { max_surge.min(1) })
    }

    /// What an update in place does to a Machine. With `External` a Machine that is updated always counts as unavailable.
    pub fn effect(self, verdict: &Verdict) -> Effect {
        let effect = verdict.effect();
        let external = matches!(self, Self::External { .. });
        Effect { affects_availability: effect.affects_availability || external, ..effect }
    }
}

/// One Machine of the control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedMachine {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `spec.version`.
    pub version: Option<String>,
    /// Where it runs.
    pub failure_domain: Option<String>,
    /// Name of its Node, once it has one.
    pub node: Option<String>,
    /// Why it needs a rollout; empty if it is up to date.
    pub outdated: Vec<OutdatedReason>,
    /// Deletion under way.
    pub deletion: Option<MachineDeletion>,
    /// Has the `delete-machine` annotation.
    pub marked_for_deletion: bool,
    /// Has the `remediate-machine` annotation.
    pub marked_for_remediation: bool,
    /// A health check found it unhealthy, and asks the owner to remediate.
    pub remediation_requested: bool,
    /// The Machine that this one replaces, if it was created by a remediation.
    pub remediation_for: Option<RemediationRecord>,
    /// Has the `update-in-progress` annotation.
    pub update_in_progress: bool,
    /// `UpdateMachine` is among its pending hooks.
    pub update_hook_pending: bool,
    /// Whether extensions can update it in place.
    pub in_place: InPlaceAnswer,
    /// State of its control plane components; what is missing is unknown.
    pub components: BTreeMap<Component, Health>,
}

impl ObservedMachine {
    /// Needs a rollout and is not on its way out.
    pub fn needs_rollout(&self) -> bool {
        !self.outdated.is_empty() && self.deletion.is_none()
    }

    /// An in-place update is triggered or runs: either half of the pair of annotations is there.
    pub fn is_updating(&self) -> bool {
        self.update_in_progress || self.update_hook_pending
    }

    /// State of one component.
    pub fn health(&self, component: Component) -> Health {
        self.components.get(&component).copied().unwrap_or(Health::Unknown)
    }

    /// Whether a component is known to be broken.
    pub fn has_broken_component(&self, etcd: &Etcd) -> bool {
        Component::of(etcd).any(|component| self.health(component) == Health::Unhealthy)
    }
}

/// Deletion of a Machine, as far as its owner takes part in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDeletion {
    /// When it was asked for.
    pub since: Timestamp,
    /// Our pre-terminate hook is still on it.
    pub has_cleanup_hook: bool,
    /// The Machine is drained and held by pre-terminate hooks.
    pub at_pre_terminate: bool,
    /// Pre-terminate hooks of others, by their annotation keys.
    pub other_hooks: Vec<String>,
}

/// State of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// It works.
    Healthy,
    /// It does not.
    Unhealthy,
    /// Not known.
    Unknown,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "not healthy",
            Self::Unknown => "unknown",
        })
    }
}

/// A part of a control plane Machine whose health counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// The etcd process.
    EtcdPod,
    /// The member of the etcd cluster.
    EtcdMember,
}

impl Component {
    /// Every component, in the order of conditions.
    pub const ALL: [Self; 5] =
        [Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::EtcdPod, Self::EtcdMember];

    /// Those of a Machine with this etcd: an external etcd is not on the Machines.
    pub fn of(etcd: &Etcd) -> impl Iterator<Item = Self> + use<> {
        let managed = etcd.is_managed();
        Self::ALL.into_iter().filter(move |component| managed || !component.is_etcd())
    }

    /// Whether it is part of etcd.
    pub const fn is_etcd(self) -> bool {
        matches!(self, Self::EtcdPod | Self::EtcdMember)
    }

    /// Type of the Machine condition that tells its health.
    pub const fn condition(self) -> &'static str {
        match self {
            Self::ApiServer => "APIServerPodHealthy",
            Self::ControllerManager => "ControllerManagerPodHealthy",
            Self::Scheduler => "SchedulerPodHealthy",
            Self::EtcdPod => "EtcdPodHealthy",
            Self::EtcdMember => "EtcdMemberHealthy",
        }
    }

    /// Name of its static pod, without the Node; none for the member, which is no pod.
    pub const fn pod(self) -> Option<&'static str> {
        match self {
            Self::ApiServer => Some("kube-apiserver"),
            Self::ControllerManager => Some("kube-controller-manager"),
            Self::Scheduler => Some("kube-scheduler"),
            Self::EtcdPod => Some("etcd"),
            Self::EtcdMember => None,
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::EtcdPod => "etcd pod",
            Self::EtcdMember => "etcd member",
        })
    }
}
