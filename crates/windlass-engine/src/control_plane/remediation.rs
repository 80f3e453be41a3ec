//! Replacing one unhealthy Machine, if that is safe and not tried too often.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::etcd::{self, UnsafeRemoval};
use super::observed::{Component, Health, Observed, ObservedMachine};

/// Limits of remediation, `spec.remediation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemediationPolicy {
    /// How often a replacement that fails is itself replaced; without limit if absent.
    pub max_retry: Option<u32>,
    /// Time between two tries.
    pub retry_period: SignedDuration,
    /// A Machine that lived this long ends a chain of retries.
    pub min_healthy_period: SignedDuration,
}

impl Default for RemediationPolicy {
    fn default() -> Self {
        Self {
            max_retry: None,
            retry_period: SignedDuration::ZERO,
            min_healthy_period: SignedDuration::from_hours(1),
        }
    }
}

/// A remediation: what the annotations `remediation-in-progress` and `remediation-for` hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemediationRecord {
    /// The Machine that was removed.
    pub machine: String,
    /// When.
    pub timestamp: Timestamp,
    /// How many remediations came directly before this one.
    pub retry_count: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRecord {
    machine: String,
    timestamp: String,
    #[serde(default)]
    retry_count: u32,
}

impl RemediationRecord {
    /// Reads the value of an annotation; none if it has another form.
    pub fn from_annotation(value: &str) -> Option<Self> {
        let WireRecord { machine, timestamp, retry_count } = serde_json::from_str(value).ok()?;
        Some(Self { machine, timestamp: timestamp.parse().ok()?, retry_count })
    }

    /// The value of an annotation.
    pub fn to_annotation(&self) -> String {
        let wire = WireRecord {
            machine: self.machine.clone(),
            timestamp: self.timestamp.to_string(),
            retry_count: self.retry_count,
        };
        // A map of two strings and a number always serialises.
        serde_json::to_string(&wire).unwrap_or_default()
    }
}

/// What became of the Machine that should be remediated next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemediationOutcome {
    /// It is deleted now. The record is to be written before it is.
    Start(RemediationRecord),
    /// It is left alone.
    Blocked {
        /// The Machine that is not healthy and stays.
        machine: String,
        /// Why.
        why: RemediationBlock,
    },
}

/// Why a Machine is not remediated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemediationBlock {
    /// The replacement of another Machine is still to come.
    InProgress {
        /// The Machine that is being replaced.
        machine: String,
    },
    /// The topology is about to change the version.
    TopologyVersion {
        /// The version that is to come.
        coming: String,
    },
    /// The last try was too recent.
    RetryPeriod {
        /// When the next may be.
        until: Timestamp,
    },
    /// It was tried often enough.
    RetriesExhausted {
        /// How often.
        retries: u32,
    },
    /// It is the only Machine.
    LastMachine,
    /// Another Machine is still coming up.
    Provisioning {
        /// The Machine that comes up.
        machine: String,
    },
    /// Another Machine is being deleted.
    Deleting {
        /// The Machine that goes.
        machine: String,
    },
    /// Removing it would break the control plane.
    Unsafe(UnsafeRemoval),
}

impl RemediationBlock {
    /// Reason of the condition `OwnerRemediated`: whether waiting may help.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::InProgress { .. }
            | Self::TopologyVersion { .. }
            | Self::RetryPeriod { .. }
            | Self::Provisioning { .. }
            | Self::Deleting { .. } => "RemediationDeferred",
            Self::RetriesExhausted { .. } | Self::LastMachine | Self::Unsafe(_) => "CannotBeRemediated",
        }
    }
}

impl fmt::Display for RemediationBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InProgress { machine } => write!(f, "the replacement of Machine {machine} comes first"),
            Self::TopologyVersion { coming } => write!(f, "version {coming} is to be propagated first"),
            Self::RetryPeriod { until } => write!(f, "the next try may be at {until}"),
            Self::RetriesExhausted { retries } => {
                write!(f, "it failed already after {retries} retries, which is the limit")
            }
            Self::LastMachine => f.write_str("it is the only Machine of the control plane"),
            Self::Provisioning { machine } => write!(f, "Machine {machine} is still coming up"),
            Self::Deleting { machine } => write!(f, "Machine {machine} is being deleted"),
            Self::Unsafe(why) => write!(f, "{why}"),
        }
    }
}

/// The remediation whose replacement is still to come.
///
/// The record on the control plane is removed after the replacement was created. It counts as gone if that did not
/// happen: the replacement carries the record, or nothing needs to be replaced any more.
pub fn pending(observed: &Observed) -> Option<&RemediationRecord> {
    let record = observed.remediation_in_progress.as_ref()?;
    let replaced = observed.machines.iter().any(|machine| machine.remediation_for.as_ref() == Some(record));
    let present = observed.machines.iter().any(|machine| machine.name == record.machine);
    let complete = observed.machines.len() >= observed.replicas as usize;
    (!replaced && (present || !complete)).then_some(record)
}

/// What to do about unhealthy Machines; none if there are none.
pub fn remediate(observed: &Observed, now: Timestamp) -> Option<RemediationOutcome> {
    let pending = pending(observed);
    if let Some(record) = pending {
        let unfinished = observed
            .machines
            .iter()
            .any(|machine| machine.name == record.machine && machine.deletion.is_none());
        if unfinished {
            // The record was written, and the deletion that belongs to it was not.
            return Some(RemediationOutcome::Start(record.clone()));
        }
    }
    let machine = next(observed)?;
    let blocked = |why| Some(RemediationOutcome::Blocked { machine: machine.name.clone(), why });
    if let Some(record) = pending {
        return blocked(RemediationBlock::InProgress { machine: record.machine.clone() });
    }
    if let Some(topology) = observed.topology.as_ref().filter(|topology| !topology.permits(&observed.version))
    {
        let coming = topology.upgrade_step.clone().unwrap_or_else(|| topology.version.clone());
        return blocked(RemediationBlock::TopologyVersion { coming });
    }
    let retry_count = match retry_count(machine, &observed.remediation, now) {
        Ok(count) => count,
        Err(why) => return blocked(why),
    };
    if observed.initialized
        && let Err(why) = check_initialized(machine, observed)
    {
        return blocked(why);
    }
    Some(RemediationOutcome::Start(RemediationRecord {
        machine: machine.name.clone(),
        timestamp: now,
        retry_count,
    }))
}

/// The worst off comes first, so that a control plane that can bear one replacement spends it well.
fn next(observed: &Observed) -> Option<&ObservedMachine> {
    observed
        .machines
        .iter()
        .filter(|machine| machine.remediation_requested && machine.deletion.is_none())
        .min_by_key(|machine| {
            let broken = |etcd: bool| {
                Component::of(&observed.etcd)
                    .filter(|component| component.is_etcd() == etcd)
                    .any(|component| machine.health(component) != Health::Healthy)
            };
            // `false` sorts before `true`.
            (
                !machine.marked_for_remediation,
                machine.node.is_some(),
                !broken(true),
                !broken(false),
                machine.created,
                &machine.name,
            )
        })
}

fn retry_count(
    machine: &ObservedMachine,
    policy: &RemediationPolicy,
    now: Timestamp,
) -> Result<u32, RemediationBlock> {
    // Only a Machine that was itself a replacement makes this a retry.
    let Some(last) = &machine.remediation_for else { return Ok(0) };
    let elapsed = now.duration_since(last.timestamp);
    if elapsed >= policy.min_healthy_period {
        return Ok(0);
    }
    if elapsed < policy.retry_period {
        let until = last.timestamp.checked_add(policy.retry_period).unwrap_or(Timestamp::MAX);
        return Err(RemediationBlock::RetryPeriod { until });
    }
    match policy.max_retry {
        Some(retries) if last.retry_count >= retries => Err(RemediationBlock::RetriesExhausted { retries }),
        _ => Ok(last.retry_count.saturating_add(1)),
    }
}

fn check_initialized(machine: &ObservedMachine, observed: &Observed) -> Result<(), RemediationBlock> {
    if observed.machines.len() <= 1 {
        return Err(RemediationBlock::LastMachine);
    }
    let others = || observed.machines.iter().filter(|other| other.name != machine.name);
    if let Some(other) = others().find(|other| other.deletion.is_some()) {
        return Err(RemediationBlock::Deleting { machine: other.name.clone() });
    }
    if let Some(other) = others().find(|other| other.node.is_none()) {
        return Err(RemediationBlock::Provisioning { machine: other.name.clone() });
    }
    etcd::check_removal(machine, &observed.machines, &observed.etcd).map_err(RemediationBlock::Unsafe)
}
