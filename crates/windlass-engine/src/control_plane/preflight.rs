//! What must be true before a Machine is added, removed or updated in place.

use std::fmt;
use std::time::Duration;

use windlass_version::{Distance, Version};

use super::etcd;
use super::observed::{Component, Health, Observed, ObservedMachine};
use super::remediation;

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A Machine is added.
    ScaleUp,
    /// A Machine is removed.
    ScaleDown,
    /// A Machine is updated in place.
    UpdateInPlace,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScaleUp => "adding a Machine",
            Self::ScaleDown => "removing a Machine",
            // Whether in place is known only when extensions have been asked.
            Self::UpdateInPlace => "updating a Machine",
        })
    }
}

/// One thing that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreflightFailure {
    /// The control plane is not yet, or no longer, at the version that the topology wants.
    TopologyVersion {
        /// Version of the control plane.
        current: String,
        /// Version that will come: of the upgrade step, or of the topology.
        coming: String,
    },
    /// Cluster certificates are missing.
    CertificatesUnavailable,
    /// A Machine is being deleted.
    Deleting {
        /// The Machine that goes.
        machine: String,
    },
    /// A Machine has no Node yet.
    NoNode {
        /// The Machine without a Node.
        machine: String,
    },
    /// A component is unhealthy, or its health is unknown.
    Component {
        /// The Machine it is on.
        machine: String,
        /// Which.
        component: Component,
        /// Its state.
        health: Health,
    },
    /// API servers of one control plane may be at most one minor apart.
    VersionSkew {
        /// The Machine that is too far away.
        machine: String,
        /// Its version.
        current: String,
        /// Version of the control plane.
        required: String,
    },
    /// During a remediation: no Machine has all its components.
    NoHealthyMachine,
    /// During a remediation: etcd would not survive if the new member failed.
    EtcdTooWeak,
}

impl PreflightFailure {
    /// When to look again, if no event comes before. Deletions take longer than anything else here.
    pub const fn retry_after(&self) -> Duration {
        match self {
            Self::Deleting { .. } => Duration::from_secs(30),
            _ => Duration::from_secs(15),
        }
    }
}

impl fmt::Display for PreflightFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TopologyVersion { current, coming } => {
                write!(f, "version {coming} is to be propagated first, the control plane is at {current}")
            }
            Self::CertificatesUnavailable => f.write_str("cluster certificates are missing"),
            Self::Deleting { machine } => write!(f, "Machine {machine} is being deleted"),
            Self::NoNode { machine } => write!(f, "Machine {machine} has no Node yet"),
            Self::Component { machine, component, health } => {
                write!(f, "{component} of Machine {machine} is {health}")
            }
            Self::VersionSkew { machine, current, required } => write!(
                f,
                "Machine {machine} is at {current}, more than one minor from {required}: \
                 API servers may be one minor apart"
            ),
            Self::NoHealthyMachine => f.write_str("no Machine has all its control plane components healthy"),
            Self::EtcdTooWeak => f.write_str("etcd would lose its quorum if the new member failed"),
        }
    }
}

/// Everything that is in the way of the operation; empty if it may go ahead. The Machine `except` is not looked at:
/// it is the one that goes.
pub fn preflight(observed: &Observed, operation: Operation, except: Option<&str>) -> Vec<PreflightFailure> {
    let mut failures = Vec::new();
    if observed.machines.is_empty() {
        return failures;
    }
    if let Some(topology) = &observed.topology
        && !topology.permits(&observed.version)
    {
        failures.push(PreflightFailure::TopologyVersion {
            current: observed.version.clone(),
            coming: topology.upgrade_step.clone().unwrap_or_else(|| topology.version.clone()),
        });
    }
    if operation == Operation::ScaleUp && !observed.certificates_available {
        failures.push(PreflightFailure::CertificatesUnavailable);
    }
    let deleting = observed.machines.iter().filter(|machine| machine.deletion.is_some());
    failures.extend(deleting.map(|machine| PreflightFailure::Deleting { machine: machine.name.clone() }));
    failures.extend(version_skew(observed));

    if operation == Operation::ScaleUp && remediation::pending(observed).is_some() {
        failures.extend(health_during_remediation(observed));
    } else {
        let others = observed.machines.iter().filter(|machine| except != Some(machine.name.as_str()));
        failures.extend(others.flat_map(|machine| machine_health(machine, observed)));
    }
    failures
}

/// Also the Machine that goes counts here: if it is too far away, its replacement must not be created, and removing it
/// would only leave a hole.
fn version_skew(observed: &Observed) -> impl Iterator<Item = PreflightFailure> {
    let required = Version::parse(&observed.version).ok();
    observed.machines.iter().filter_map(move |machine| {
        let current = machine.version.as_deref()?;
        let distance = Version::parse(current).ok()?.minor().distance_to(required.as_ref()?.minor());
        match distance {
            Distance::Forward(0 | 1) | Distance::Back(1) => None,
            _ => Some(PreflightFailure::VersionSkew {
                machine: machine.name.clone(),
                current: current.to_owned(),
                required: observed.version.clone(),
            }),
        }
    })
}

fn machine_health(machine: &ObservedMachine, observed: &Observed) -> Vec<PreflightFailure> {
    // A Machine that is being deleted was named already; that its components go is to be expected.
    if machine.deletion.is_some() {
        return Vec::new();
    }
    if machine.node.is_none() {
        return vec![PreflightFailure::NoNode { machine: machine.name.clone() }];
    }
    Component::of(&observed.etcd)
        .filter_map(|component| match machine.health(component) {
            Health::Healthy => None,
            health => Some(PreflightFailure::Component { machine: machine.name.clone(), component, health }),
        })
        .collect()
}

/// The Machine that remediation removed may not have been the only broken one; waiting for all to be healthy before
/// its replacement comes would then wait for ever.
fn health_during_remediation(observed: &Observed) -> Vec<PreflightFailure> {
    let mut failures = Vec::new();
    let healthy = |machine: &ObservedMachine| {
        machine.deletion.is_none()
            && machine.node.is_some()
            && Component::of(&observed.etcd).all(|component| machine.health(component) == Health::Healthy)
    };
    if !observed.machines.iter().any(healthy) {
        failures.push(PreflightFailure::NoHealthyMachine);
    }
    if !etcd::survives_unhealthy_addition(&observed.machines, &observed.etcd) {
        failures.push(PreflightFailure::EtcdTooWeak);
    }
    failures
}
