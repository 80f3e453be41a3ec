//! Everything that a controller may wait on, each with its evidence.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windlass_api::cluster::ContractVersionedObjectReference;
use windlass_api::hooks::Hook;
use windlass_version::Version;

use crate::control_plane::{Operation, PreflightFailure, UnsafeRemoval};
use crate::external_update::Refusal;
use crate::in_place::WhyNotInPlace;
use crate::machine::drain::DrainProgress;
use crate::topology::{GroupId, NoPath, StepName};

/// Why something does not happen now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    // A topology.
    /// An extension asked to wait.
    Hook(Box<HeldByHook>),
    /// An extension failed, and nothing goes on without its answer.
    HookFailed {
        /// Which hook.
        hook: Hook,
        /// What went wrong, with the full name of the handler and when it is tried again.
        error: String,
        /// When the hook is called again, if at a known time.
        retry: Option<Retry>,
    },
    /// Annotations on the Cluster hold the upgrade.
    UpgradeHolds {
        /// Their keys, sorted.
        keys: Vec<String>,
    },
    /// An annotation holds everything of the upgrade that has not started.
    Held {
        /// Why, in the words of the annotation; may be empty.
        reason: String,
    },
    /// An annotation keeps the control plane at a version.
    HeldAt {
        /// The version.
        at: Version,
        /// The version that comes next.
        next: Version,
    },
    /// A step needs an approval that was not given.
    Approval {
        /// The step.
        step: StepName,
    },
    /// Machines of workers are being rolled out from before, and a new upgrade would roll them out again.
    RolloutsBefore {
        /// Of which groups.
        groups: Vec<GroupId>,
        /// The entries of these groups in the topology.
        entries: Vec<String>,
    },
    /// There is no safe way to the target.
    Path(NoPath),
    /// The control plane does not run yet.
    ControlPlaneProvisioning {
        /// Kind and name of the control plane.
        control_plane: String,
    },
    /// Machines of the control plane are behind.
    ControlPlaneUpgrade {
        /// Kind and name of the control plane.
        control_plane: String,
        /// The version it goes to.
        to: Version,
        /// The versions its machines have.
        running: Vec<Version>,
        /// What the control plane says if it cannot go on by itself; else empty.
        says: String,
    },
    /// The control plane must reach a version before the workers may.
    ControlPlaneVersion {
        /// The version that the workers go to next.
        next: Version,
    },
    /// The control plane must be at the target, with nothing under way, before new workers are created.
    ControlPlaneAtTarget {
        /// The target.
        target: Version,
    },
    /// Workers must reach a version before the upgrade goes on.
    WorkersVersion {
        /// The version.
        version: Version,
        /// Which groups are missing.
        groups: Vec<GroupId>,
        /// What the first group says that cannot go on by itself; else empty.
        says: String,
    },
    /// Machines of workers are being replaced or updated.
    WorkersRollout {
        /// Of which groups.
        groups: Vec<GroupId>,
    },
    /// Other groups upgrade first.
    Turn {
        /// How many may upgrade at the same time.
        concurrency: usize,
        /// Which do.
        upgrading: Vec<GroupId>,
    },
    /// MachinePools come after MachineDeployments.
    MachineDeployments {
        /// Those that are not done.
        groups: Vec<GroupId>,
    },
    /// The entry asks to be left out for now.
    Deferred,
    /// The entry, or one before it, asks to stop the sequence there.
    SequenceHeld {
        /// The entry that asks.
        by: String,
    },

    // A control plane.
    /// The infrastructure of the Cluster is not there yet.
    ClusterInfrastructure,
    /// The cluster certificates are not there yet.
    Certificates,
    /// The Cluster has no control plane endpoint yet.
    Endpoint,
    /// Something must be true before the control plane is changed.
    Preflight {
        /// What would be done.
        operation: Operation,
        /// All that is in the way; never empty.
        failures: Vec<PreflightFailure>,
    },
    /// A Machine goes, and is not at the point where etcd is cleaned up.
    MachineDeletion {
        /// The Machine that goes.
        machine: String,
        /// Since when.
        since: Timestamp,
        /// Hooks of others that hold it, by their annotation keys.
        hooks: Vec<String>,
    },
    /// A Machine must not go now.
    UnsafeRemoval {
        /// The Machine that has to stay.
        machine: String,
        /// Why.
        why: UnsafeRemoval,
    },
    /// A Machine of the control plane is being updated in place.
    InPlaceUpdate {
        /// The Machine that is updated.
        machine: String,
    },
    /// Extensions were asked about a Machine, and there is no answer that could be used.
    InPlaceAnswer {
        /// The Machine that extensions were asked about.
        machine: String,
        /// What went wrong.
        why: String,
    },
    /// The strategy allows nothing but in-place updates, and this Machine cannot be updated in place.
    InPlaceRefused {
        /// The Machine that stays as it is.
        machine: String,
        /// Why.
        why: Box<WhyNotInPlace>,
        /// The external updaters that were asked, and why they refuse.
        refusals: Vec<Refusal>,
    },
    /// An external updater updates the Machines.
    ExternalUpdate {
        /// The full name of its handler.
        handler: String,
    },
    /// An external updater could not be asked whether it accepts the update; a condition of its own says which and why.
    ExternalAnswer,
    /// Deletion of a control plane: workers are still there.
    WorkersDeletion {
        /// Machines and pools, by name.
        names: Vec<String>,
    },
    /// Deletion of a control plane: its Machines are still there.
    MachinesDeletion {
        /// Their names.
        names: Vec<String>,
    },

    // A Machine that comes up or is updated.
    /// `spec.bootstrap.dataSecretName` has to be set: there is no bootstrap config that could make the data.
    BootstrapData,
    /// A provider's object has to be created.
    Missing(ContractVersionedObjectReference),
    /// A provider's object has to become readable.
    Unreadable {
        /// Which one.
        reference: ContractVersionedObjectReference,
        /// What went wrong.
        why: String,
    },
    /// The bootstrap provider has to make the data.
    BootstrapProvider {
        /// Which object.
        reference: ContractVersionedObjectReference,
        /// What it says about itself; may be empty.
        says: String,
    },
    /// The infrastructure provider has to make the machine.
    InfrastructureProvider {
        /// Which object.
        reference: ContractVersionedObjectReference,
        /// What it says about itself; may be empty.
        says: String,
    },
    /// A provider says it is done and does not say what the contract demands.
    BrokenContract {
        /// Which object.
        reference: ContractVersionedObjectReference,
        /// The field that is missing.
        field: &'static str,
    },
    /// The control plane has to answer before a Node can be looked up.
    NodeLookup {
        /// Why it was not looked up.
        why: String,
    },
    /// The workload cluster has to answer again.
    Workload {
        /// What happened instead.
        why: String,
        /// Since when.
        since: Timestamp,
    },
    /// A Node with this identity has to register.
    Node {
        /// The identity.
        provider_id: String,
    },
    /// The Node has to become healthy.
    NodeHealthy {
        /// The name of the Node.
        name: String,
        /// What is wrong with it.
        says: String,
    },
    /// The Machine has to be ready for a while.
    MinReady {
        /// How much longer.
        left: SignedDuration,
    },
    /// The update in place has to go on.
    Update {
        /// What is known about it.
        says: String,
    },

    // A Machine that is deleted.
    /// Annotations have to be removed before the Node is drained.
    PreDrainHooks(Vec<String>),
    /// Pods have to go.
    Drain {
        /// When the drain began.
        since: Timestamp,
        /// When it is given up.
        until: Option<Timestamp>,
        /// Which pods.
        progress: Box<DrainProgress>,
    },
    /// Volumes have to be detached.
    Volumes {
        /// When the wait for them began.
        since: Timestamp,
        /// When it is given up.
        until: Option<Timestamp>,
        /// Which volumes.
        attached: Vec<String>,
    },
    /// The workload cluster has to answer, for the drain or for the volumes.
    WorkloadOfDeletion {
        /// For which of them.
        step: DeletionStep,
        /// When that step began.
        since: Timestamp,
        /// When it is given up.
        until: Option<Timestamp>,
        /// What happened instead.
        why: String,
    },
    /// Annotations have to be removed before the infrastructure goes.
    PreTerminateHooks(Vec<String>),
    /// The provider has to delete its machine.
    InfrastructureDeletion {
        /// The kind of the infrastructure machine.
        kind: String,
        /// The name of the infrastructure machine.
        name: String,
    },
    /// The provider has to delete the bootstrap config.
    BootstrapDeletion {
        /// The kind of the bootstrap config.
        kind: String,
        /// The name of the bootstrap config.
        name: String,
    },
    /// The Node has to go.
    NodeDeletion {
        /// The name of the Node.
        name: String,
        /// When it is given up.
        until: Option<Timestamp>,
        /// What is known about it.
        why: String,
    },
}

/// A hook that asked to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldByHook {
    /// Which hook.
    pub hook: Hook,
    /// The version that is left, for hooks that are told.
    pub from: Option<Version>,
    /// The version that is gone to, or that was reached.
    pub to: Option<Version>,
    /// The full names of the handlers that asked to wait.
    pub handlers: Vec<String>,
    /// What the handlers said.
    pub message: String,
    /// When it is called again.
    pub retry: Retry,
    /// What the handlers asked for when they were called last. More than the interval if that is more than anything waits.
    pub asked_seconds: u32,
}

/// When something is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// From now on.
    pub left: Duration,
    /// From the last try on. Unlike what is left of it, it stays the same until the next try, so this is what is printed.
    pub interval: Duration,
}

/// The step of a deletion for which the workload cluster has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionStep {
    /// The pods of the Node are evicted.
    Drain,
    /// The volumes of the Node are detached.
    Volumes,
}

/// How long an annotation that holds an upgrade is not read again if nothing else happens. Taking it away is an event
/// of its own, so this is only a safety net.
pub const UPGRADE_HOLD_RETRY_SECONDS: u32 = 1200;

/// How often a workload cluster is asked for a Node: nothing tells when it has registered.
const NODE_LOOKUP: SignedDuration = SignedDuration::from_secs(20);
/// How often pods and volumes are listed: nothing tells when they are gone.
const DRAIN_LOOKUP: SignedDuration = SignedDuration::from_secs(20);
/// How often deletion of a Node is tried.
const NODE_DELETION: SignedDuration = SignedDuration::from_secs(2);

impl WaitingOn {
    /// The hook that is waited for.
    pub const fn hook(&self) -> Option<Hook> {
        match self {
            Self::Hook(held) => Some(held.hook),
            Self::HookFailed { hook, .. } => Some(*hook),
            Self::UpgradeHolds { .. } => Some(Hook::BeforeClusterUpgrade),
            _ => None,
        }
    }

    /// Whether this is an error that has to be repaired, rather than a wait.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::HookFailed { .. } | Self::Path(_))
    }

    /// Whether a worker group waits because its entry in the topology asks for it.
    pub const fn is_deferral(&self) -> bool {
        matches!(self, Self::Deferred | Self::SequenceHeld { .. })
    }

    /// When to reconcile again, if no event comes before; none if only an event or a change by the user helps.
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        let until = |every: SignedDuration, until: &Option<Timestamp>| {
            let left = until.map_or(every, |until| until.duration_since(now));
            Duration::try_from(left.min(every).max(SignedDuration::from_millis(1))).ok()
        };
        match self {
            Self::Hook(held) => Some(held.retry.left),
            Self::HookFailed { retry, .. } => retry.map(|retry| retry.left),
            Self::MinReady { left } => Duration::try_from(*left).ok(),
            Self::Drain { until: end, .. }
            | Self::Volumes { until: end, .. }
            | Self::WorkloadOfDeletion { until: end, .. } => until(DRAIN_LOOKUP, end),
            Self::NodeDeletion { until: end, .. } => until(NODE_DELETION, end),
            _ => self.interval(),
        }
    }

    /// How often it is tried again while nothing changes. Unlike the time that is left until then, this stays the same
    /// from one reconcile to the next.
    pub fn interval(&self) -> Option<Duration> {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        match self {
            Self::Hook(held) => Some(held.retry.interval),
            Self::HookFailed { retry, .. } => retry.map(|retry| retry.interval),
            Self::UpgradeHolds { .. } => seconds(UPGRADE_HOLD_RETRY_SECONDS.into()),
            Self::Preflight { failures, .. } => failures.iter().map(PreflightFailure::retry_after).min(),
            Self::UnsafeRemoval { .. }
            | Self::InPlaceAnswer { .. }
            | Self::ExternalAnswer
            // Infrastructure that was updated does not tell us.
            | Self::ExternalUpdate { .. } => seconds(15),
            // Extensions may learn; nothing says when they have.
            Self::InPlaceRefused { .. } => seconds(600),
            Self::MachineDeletion { .. }
            | Self::WorkersDeletion { .. }
            | Self::MachinesDeletion { .. } => seconds(30),
            Self::NodeLookup { .. }
            | Self::Workload { .. }
            | Self::Node { .. }
            | Self::Missing(_)
            | Self::Unreadable { .. } => NODE_LOOKUP.try_into().ok(),
            Self::Drain { .. } | Self::Volumes { .. } | Self::WorkloadOfDeletion { .. } => {
                DRAIN_LOOKUP.try_into().ok()
            }
            Self::NodeDeletion { .. } => NODE_DELETION.try_into().ok(),
            _ => None,
        }
    }

    /// When it began, where the evidence itself tells.
    pub const fn began(&self) -> Option<Timestamp> {
        match self {
            Self::MachineDeletion { since, .. }
            | Self::Workload { since, .. }
            | Self::Drain { since, .. }
            | Self::Volumes { since, .. }
            | Self::WorkloadOfDeletion { since, .. } => Some(*since),
            _ => None,
        }
    }
}
