//! What is waited on, in words. This is the only place where they are made.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windlass_api::hooks::Hook;
use windlass_api::names::{
    APPROVED_ANNOTATION, DEFER_UPGRADE_ANNOTATION, HOLD_ANNOTATION, HOLD_AT_ANNOTATION,
    HOLD_UPGRADE_SEQUENCE_ANNOTATION, IGNORE_ROLLOUTS_ANNOTATION,
};
use windlass_version::Version;

use super::{DeletionStep, HeldByHook, WaitingOn};

impl WaitingOn {
    /// A whole sentence, without its full stop: `waiting for ...`, or what is in the way.
    pub fn sentence(&self) -> Sentence<'_> {
        Sentence(self)
    }

    /// Whether the words say what is in the way, rather than what is waited for.
    const fn is_clause(&self) -> bool {
        matches!(
            self,
            Self::HookFailed { .. }
                | Self::Path(_)
                | Self::Preflight { .. }
                | Self::UnsafeRemoval { .. }
                | Self::InPlaceRefused { .. }
                | Self::Unreadable { .. }
                | Self::BrokenContract { .. }
                | Self::NodeLookup { .. }
                | Self::Workload { .. }
                | Self::NodeHealthy { .. }
                | Self::MinReady { .. }
                | Self::Update { .. }
                | Self::Drain { .. }
                | Self::WorkloadOfDeletion { .. }
                | Self::NodeDeletion { .. }
        )
    }
}

/// A wait as a whole sentence.
#[derive(Clone, Copy, Debug)]
pub struct Sentence<'a>(&'a WaitingOn);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_clause() {
            f.write_str("waiting for ")?;
        }
        self.0.fmt(f)
    }
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = |says: &str| if says.is_empty() { String::new() } else { format!(": {says}") };
        let given_up = |until: &Option<Timestamp>| match until {
            Some(until) => format!(", given up at {until}"),
            None => String::new(),
        };
        match self {
            // A topology.
            Self::Hook(held) => held.fmt(f),
            Self::HookFailed { hook, error, .. } => write!(f, "{hook} failed: {error}"),
            Self::UpgradeHolds { keys } => {
                write!(f, "{}: removal of annotation {}", Hook::BeforeClusterUpgrade, keys.join(", "))
            }
            Self::Held { reason } => {
                write!(f, "removal of annotation {HOLD_ANNOTATION}{}", colon(reason))
            }
            Self::HeldAt { at, next } => {
                write!(
                    f,
                    "removal of annotation {HOLD_AT_ANNOTATION}, which keeps the control plane at {at} before {next}"
                )
            }
            Self::Approval { step } => {
                write!(f, "approval of {step} in annotation {APPROVED_ANNOTATION}")
            }
            Self::RolloutsBefore { entries, .. } => {
                f.write_str("the rollout of ")?;
                all(f, &self.objects())?;
                write!(
                    f,
                    " to finish before the upgrade begins; annotation {IGNORE_ROLLOUTS_ANNOTATION}={} begins it at once",
                    entries.join(",")
                )
            }
            Self::Path(no_path) => no_path.fmt(f),
            Self::ControlPlaneProvisioning { .. } => {
                all(f, &self.objects())?;
                f.write_str(" to be provisioned")
            }
            Self::ControlPlaneUpgrade { to, running, says, .. } => {
                all(f, &self.objects())?;
                write!(f, " to reach {to}")?;
                if !running.is_empty() {
                    let running: Vec<String> = running.iter().map(Version::to_string).collect();
                    write!(f, ", it runs {}", running.join(", "))?;
                }
                f.write_str(&colon(says))
            }
            Self::ControlPlaneVersion { next } => write!(f, "the control plane to reach {next}"),
            Self::ControlPlaneAtTarget { target } => {
                write!(f, "the control plane to be stable at {target}")
            }
            Self::WorkersVersion { version, says, .. } => {
                all(f, &self.objects())?;
                write!(f, " to reach {version}{}", colon(says))
            }
            Self::WorkersRollout { .. } => {
                f.write_str("machines of ")?;
                all(f, &self.objects())?;
                f.write_str(" to be upgraded")
            }
            Self::Turn { concurrency, .. } => {
                all(f, &self.objects())?;
                write!(f, " to finish, {concurrency} may upgrade at a time")
            }
            Self::MachineDeployments { .. } => {
                all(f, &self.objects())?;
                f.write_str(" to finish, MachinePools come after MachineDeployments")
            }
            Self::Deferred => write!(f, "removal of annotation {DEFER_UPGRADE_ANNOTATION}"),
            Self::SequenceHeld { by } => {
                write!(f, "removal of annotation {HOLD_UPGRADE_SEQUENCE_ANNOTATION} of {by}")
            }
            // A control plane.
            Self::ClusterInfrastructure => f.write_str("the infrastructure of the Cluster"),
            Self::Certificates => f.write_str("the cluster certificates"),
            Self::Endpoint => f.write_str("the control plane endpoint of the Cluster"),
            Self::Preflight { operation, failures } => {
                write!(f, "{operation} waits: ")?;
                some(f, failures)
            }
            Self::MachineDeletion { machine, hooks, .. } if hooks.is_empty() => {
                write!(f, "the deletion of Machine {machine}")
            }
            Self::MachineDeletion { machine, hooks, .. } => {
                write!(f, "the deletion of Machine {machine}, held by ")?;
                some(f, hooks)
            }
            Self::UnsafeRemoval { machine, why } => write!(f, "Machine {machine} must stay for now: {why}"),
            Self::InPlaceUpdate { machine } => write!(f, "the in-place update of Machine {machine}"),
            Self::InPlaceAnswer { machine, why } => {
                write!(f, "an answer whether Machine {machine} can be updated in place: {why}")
            }
            Self::InPlaceRefused { machine, why, refusals } => {
                write!(
                    f,
                    "the rollout stops: Machine {machine} cannot be updated in place, and the strategy has no \
                     fallback: {why}"
                )?;
                refusals.iter().try_for_each(|refusal| write!(f, "; {refusal}"))
            }
            Self::ExternalUpdate { handler } => write!(f, "{handler}, which updates the Machines"),
            Self::ExternalAnswer => f.write_str("an answer whether an external updater accepts the update"),
            Self::WorkersDeletion { names } => {
                f.write_str("the deletion of workers: ")?;
                some(f, names)
            }
            Self::MachinesDeletion { names } => {
                f.write_str("the deletion of Machines: ")?;
                some(f, names)
            }
            // A Machine that comes up or is updated.
            Self::BootstrapData => f.write_str("spec.bootstrap.dataSecretName to be set"),
            Self::Missing(reference) => write!(f, "{reference} to be created"),
            Self::Unreadable { reference, why } => write!(f, "{reference} could not be read: {why}"),
            Self::BootstrapProvider { reference, says } => {
                write!(f, "{reference} to make the bootstrap data{}", colon(says))
            }
            Self::InfrastructureProvider { reference, says } => {
                write!(f, "{reference} to be provisioned{}", colon(says))
            }
            Self::BrokenContract { reference, field } => {
                write!(f, "{reference} says it is done but does not set {field}")
            }
            Self::NodeLookup { why } => write!(f, "the Node was not looked up yet: {why}"),
            Self::Workload { why, since } => {
                write!(f, "the workload cluster has not answered since {since}: {why}")
            }
            Self::Node { provider_id } => write!(f, "a Node with spec.providerID {provider_id}"),
            Self::NodeHealthy { name, says } => write!(f, "Node {name} is not healthy{}", colon(says)),
            Self::MinReady { left } => write!(f, "ready, and available in {left:#}"),
            Self::Update { says } => write!(f, "being updated in place{}", colon(says)),
            // A Machine that is deleted.
            Self::PreDrainHooks(hooks) => write!(f, "pre-drain hooks to be removed: {}", hooks.join(", ")),
            Self::Drain { since, until, progress } => {
                write!(f, "draining the Node since {since}{}:\n{progress}", given_up(until))
            }
            Self::Volumes { since, until, attached } => {
                let attached = attached.join(", ");
                write!(f, "volumes to be detached since {since}{}: {attached}", given_up(until))
            }
            Self::WorkloadOfDeletion { step, until, why, .. } => {
                write!(f, "the workload cluster does not answer ({step}{}): {why}", given_up(until))
            }
            Self::PreTerminateHooks(hooks) => {
                write!(f, "pre-terminate hooks to be removed: {}", hooks.join(", "))
            }
            Self::InfrastructureDeletion { kind, name } | Self::BootstrapDeletion { kind, name } => {
                write!(f, "{kind} {name} to be deleted")
            }
            Self::NodeDeletion { name, until, why } => {
                write!(f, "deleting Node {name}{}: {why}", given_up(until))
            }
        }
    }
}

impl fmt::Display for HeldByHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.hook)?;
        if !self.handlers.is_empty() {
            write!(f, " ({})", self.handlers.join(", "))?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        f.write_str("; ")?;
        if Duration::from_secs(self.asked_seconds.into()) > self.retry.interval {
            write!(f, "asked for {}s, ", self.asked_seconds)?;
        }
        let interval = SignedDuration::try_from(self.retry.interval).unwrap_or(SignedDuration::MAX);
        write!(f, "asked again after {interval:#}")
    }
}

impl fmt::Display for DeletionStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drain => "drain",
            Self::Volumes => "volumes",
        })
    }
}

/// At most this many are named; a message must stay readable in a table.
const NAMED: usize = 5;

fn some<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    all(f, items.get(..NAMED).unwrap_or(items))?;
    match items.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

fn all<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}
