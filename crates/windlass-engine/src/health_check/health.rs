//! Whether one Machine is healthy.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use windlass_api::cluster::{Cluster, HealthChecks, Machine, UnhealthyCondition};
use windlass_api::conditions::{CONTROL_PLANE_INITIALIZED, INFRASTRUCTURE_READY, reason};
use windlass_api::names::REMEDIATE_MACHINE_ANNOTATION;

use crate::condition;

/// How long a Machine may take to become a Node by default.
const NODE_STARTUP: SignedDuration = SignedDuration::from_mins(10);

/// What is known of the Node of a Machine.
#[derive(Clone, Copy, Debug)]
pub enum NodeState<'a> {
    /// The Machine has none yet.
    None,
    /// It had one, and it is gone.
    Gone,
    /// It has one.
    Found(&'a Node),
    /// The workload cluster does not answer: nothing can be said.
    NoAnswer,
}

/// Whether a Machine is healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is.
    Healthy {
        /// When to look again, because something is bad and not yet for long enough.
        look_again: Option<Timestamp>,
    },
    /// It is not.
    Unhealthy(Unhealthy),
    /// It has no Node yet, and still has time to become one; or that is unknown.
    Pending {
        /// When that time is over.
        look_again: Option<Timestamp>,
    },
}

/// Why a Machine is unhealthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unhealthy {
    /// The user asked for its remediation.
    Requested,
    /// A condition of the Machine has been bad for too long.
    MachineCondition(Since),
    /// A condition of its Node has been bad for too long.
    NodeCondition(Since),
    /// It took too long to become a Node.
    NodeStartup {
        /// How long it had.
        timeout: SignedDuration,
    },
    /// Its Node is gone.
    NodeGone {
        /// What the Node was called.
        name: String,
    },
}

/// A condition that has been the same for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The type of the condition, such as `Ready`.
    pub type_: String,
    /// The status that it has had all that time.
    pub status: String,
    /// How long it may be so.
    pub timeout: SignedDuration,
    /// Since when it is.
    pub since: Timestamp,
}

/// Looks at one Machine.
pub fn health(
    machine: &Machine,
    node: NodeState<'_>,
    cluster: &Cluster,
    checks: &HealthChecks,
    now: Timestamp,
) -> Health {
    let annotations = machine.metadata.annotations.as_ref();
    if annotations.is_some_and(|annotations| annotations.contains_key(REMEDIATE_MACHINE_ANNOTATION)) {
        return Health::Unhealthy(Unhealthy::Requested);
    }
    let mut look_again: Option<Timestamp> = None;
    for check in &checks.unhealthy_machine_conditions {
        let found = condition::find(&machine.status.conditions, &check.type_);
        let found = found.map(|found| (found.status.as_str(), condition::since(found)));
        match overdue(check, found, now) {
            Overdue::No => {}
            Overdue::Later(at) => look_again = earlier(look_again, at),
            Overdue::Yes(since) => return Health::Unhealthy(Unhealthy::MachineCondition(since)),
        }
    }
    match node {
        NodeState::NoAnswer => Health::Pending { look_again },
        NodeState::Gone => {
            let name = machine.status.node_ref.as_ref().map(|node| node.name.clone()).unwrap_or_default();
            Health::Unhealthy(Unhealthy::NodeGone { name })
        }
        NodeState::None => match startup(machine, cluster, checks, now) {
            Overdue::Yes(since) => Health::Unhealthy(Unhealthy::NodeStartup { timeout: since.timeout }),
            Overdue::Later(at) => Health::Pending { look_again: earlier(look_again, at) },
            Overdue::No => Health::Pending { look_again },
        },
        NodeState::Found(node) => {
            let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
            for check in &checks.unhealthy_node_conditions {
                let found =
                    conditions.unwrap_or_default().iter().find(|condition| condition.type_ == check.type_);
                // A condition without a time has been so since the Node was created.
                let created = node.metadata.creation_timestamp.as_ref();
                let found = found.and_then(|found| {
                    let since = found.last_transition_time.as_ref().or(created)?;
                    Some((found.status.as_str(), since.0))
                });
                match overdue(check, found, now) {
                    Overdue::No => {}
                    Overdue::Later(at) => look_again = earlier(look_again, at),
                    Overdue::Yes(since) => return Health::Unhealthy(Unhealthy::NodeCondition(since)),
                }
            }
            Health::Healthy { look_again }
        }
    }
}

enum Overdue {
    No,
    Later(Timestamp),
    Yes(Since),
}

fn overdue(check: &UnhealthyCondition, found: Option<(&str, Timestamp)>, now: Timestamp) -> Overdue {
    let Some((status, since)) = found.filter(|(status, _)| *status == check.status) else {
        return Overdue::No;
    };
    let timeout = SignedDuration::from_secs(check.timeout_seconds.unwrap_or_default().into());
    let at = since.saturating_add(timeout).unwrap_or(Timestamp::MAX);
    if now < at {
        return Overdue::Later(at);
    }
    Overdue::Yes(Since { type_: check.type_.clone(), status: status.to_owned(), timeout, since })
}

/// The time that a Machine has to become a Node starts when it could: when the infrastructure of its Cluster is there and
/// the control plane accepts requests.
fn startup(machine: &Machine, cluster: &Cluster, checks: &HealthChecks, now: Timestamp) -> Overdue {
    let timeout = checks
        .node_startup_timeout_seconds
        .map_or(NODE_STARTUP, |seconds| SignedDuration::from_secs(seconds.into()));
    let initialization = cluster.status.initialization;
    let started = initialization.infrastructure_provisioned == Some(true)
        && initialization.control_plane_initialized == Some(true);
    let created = machine.metadata.creation_timestamp.as_ref().map(|created| created.0);
    let (Some(created), false, true) = (created, timeout.is_zero(), started) else { return Overdue::No };
    let conditions = &cluster.status.conditions;
    let reached = [CONTROL_PLANE_INITIALIZED, INFRASTRUCTURE_READY].into_iter().filter_map(|type_| {
        let found = condition::find(conditions, type_)?;
        (found.status == "True").then(|| condition::since(found))
    });
    // A Cluster whose infrastructure flaps would give every Machine new time; only what came before it counts.
    let since = reached.filter(|since| *since <= now).fold(created, Timestamp::max);
    let at = since.saturating_add(timeout).unwrap_or(Timestamp::MAX);
    if now < at {
        return Overdue::Later(at);
    }
    Overdue::Yes(Since { type_: String::new(), status: String::new(), timeout, since })
}

fn earlier(known: Option<Timestamp>, at: Timestamp) -> Option<Timestamp> {
    Some(known.map_or(at, |known| known.min(at)))
}

impl Unhealthy {
    /// The reason of condition `HealthCheckSucceeded`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Requested => reason::HAS_REMEDIATE_ANNOTATION,
            Self::MachineCondition(_) => reason::UNHEALTHY_MACHINE,
            Self::NodeCondition(_) => reason::UNHEALTHY_NODE,
            Self::NodeStartup { .. } => reason::NODE_STARTUP_TIMEOUT,
            Self::NodeGone { .. } => reason::NODE_DELETED,
        }
    }
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => {
                write!(f, "Marked for remediation with annotation {REMEDIATE_MACHINE_ANNOTATION}")
            }
            Self::MachineCondition(since) => write!(f, "Condition {since}"),
            Self::NodeCondition(since) => write!(f, "Condition {since} on the Node"),
            Self::NodeStartup { timeout } => write!(f, "No Node within {} s", timeout.as_secs()),
            Self::NodeGone { name } => write!(f, "Node {name} has been deleted"),
        }
    }
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has been {} for more than {} s", self.type_, self.status, self.timeout.as_secs())
    }
}
