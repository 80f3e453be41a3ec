//! The conditions of a Cluster that its core controller owns.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::cluster::{ClusterStatus, Machine, Polarity as GatePolarity};
use windlass_api::conditions as types;
use windlass_api::conditions::reason;

use super::{Connection, Observed};
use crate::condition::{self, Aggregate, Finding, Part, Polarity, Reasons, Source};
use crate::pause::not_paused;
use crate::referenced::{Mirrored, Referenced, Words};

/// What the controller finds, the summary not included.
pub(super) fn findings(observed: &Observed<'_>, status: &ClusterStatus, now: Timestamp) -> Vec<Finding> {
    let control_plane: Vec<&Machine> = observed.descendants.control_plane_machines().collect();
    let workers: Vec<&Machine> = observed.descendants.worker_machines_outside_pools().collect();
    vec![
        connection(observed, now),
        infrastructure(observed),
        control_plane_available(observed, status),
        initialized(observed, status),
        workers_available(observed),
        machines(types::CONTROL_PLANE_MACHINES_READY, types::READY, &control_plane),
        machines(types::CONTROL_PLANE_MACHINES_UP_TO_DATE, types::UP_TO_DATE, &control_plane),
        machines(types::WORKER_MACHINES_READY, types::READY, &workers),
        machines(types::WORKER_MACHINES_UP_TO_DATE, types::UP_TO_DATE, &workers),
        any(observed, types::ROLLING_OUT, reason::ROLLING_OUT, reason::NOT_ROLLING_OUT),
        any(observed, types::SCALING_UP, reason::SCALING_UP, reason::NOT_SCALING_UP),
        any(observed, types::SCALING_DOWN, reason::SCALING_DOWN, reason::NOT_SCALING_DOWN),
        any(observed, types::REMEDIATING, reason::REMEDIATING, reason::NOT_REMEDIATING),
        deleting(observed),
        not_paused(),
    ]
}

/// Condition `Available`: everything that must be good for the Cluster to be used.
pub(super) fn available(observed: &Observed<'_>, conditions: &[Condition]) -> Finding {
    let mut parts = vec![
        Part::negative(types::DELETING),
        Part::required(types::INFRASTRUCTURE_READY),
        Part::required(types::CONTROL_PLANE_AVAILABLE),
        Part::required(types::WORKERS_AVAILABLE),
    ];
    // A topology that waits or upgrades leaves the Cluster as usable as it was; only one that failed does not.
    let topology = condition::find(conditions, types::TOPOLOGY_RECONCILED);
    let failed = [reason::RECONCILE_FAILED, reason::CLUSTER_CLASS_NOT_RECONCILED];
    let counts = topology
        .is_none_or(|topology| topology.status != "False" || failed.contains(&topology.reason.as_str()));
    if observed.cluster.spec.topology.is_some() && counts {
        parts.push(Part::required(types::TOPOLOGY_RECONCILED));
    }
    for gate in &observed.cluster.spec.availability_gates {
        let polarity = match gate.polarity {
            Some(GatePolarity::Negative) => Polarity::Negative,
            _ => Polarity::Positive,
        };
        parts.push(Part { type_: &gate.condition_type, polarity, required: true });
    }
    let reasons =
        Reasons { good: reason::AVAILABLE, issue: reason::NOT_AVAILABLE, unknown: reason::AVAILABLE_UNKNOWN };
    condition::summary(types::AVAILABLE, conditions, &parts, reasons)
}

/// `RemoteConnectionProbe`: whether the API server of the cluster answers. What was known counts for a while.
fn connection(observed: &Observed<'_>, now: Timestamp) -> Finding {
    let type_ = types::REMOTE_CONNECTION_PROBE;
    let answered = condition::is_true(&observed.cluster.status.conditions, type_);
    match &observed.connection {
        Connection::NotSought => Finding::no(type_, reason::PROBE_FAILED)
            .because("There is no API server yet that accepts requests"),
        Connection::Silent { since, why } if !answered || observed.connection.is_lost(now) => {
            let since = condition::to_the_second(*since);
            Finding::no(type_, reason::PROBE_FAILED)
                .because(format!("The API server of the cluster has not answered since {since}: {why}"))
        }
        Connection::Answers | Connection::Silent { .. } => Finding::yes(type_, reason::PROBE_SUCCEEDED),
    }
}

fn infrastructure(observed: &Observed<'_>) -> Finding {
    let type_ = types::INFRASTRUCTURE_READY;
    let was = observed.cluster.status.initialization.infrastructure_provisioned == Some(true);
    match &observed.infrastructure {
        Referenced::None if observed.cluster.spec.topology.is_some() => {
            Finding::no(type_, reason::INFRASTRUCTURE_DOES_NOT_EXIST)
                .because("Waiting for the topology to bring the infrastructure")
        }
        Referenced::None => {
            Finding::yes(type_, reason::READY).because("There is no infrastructure to wait for")
        }
        referenced => {
            let report = referenced.object().map(|object| (&object.ready, object.provisioned));
            let (words, silent) = (&Words::READY, "has not said that it is provisioned");
            Mirrored { type_, words, was, silent, instead: None }.finding(referenced, report)
        }
    }
}

fn control_plane_available(observed: &Observed<'_>, status: &ClusterStatus) -> Finding {
    let type_ = types::CONTROL_PLANE_AVAILABLE;
    let was = observed.cluster.status.initialization.control_plane_initialized == Some(true);
    match &observed.control_plane {
        Referenced::None if observed.cluster.spec.topology.is_some() => {
            Finding::no(type_, reason::INFRASTRUCTURE_DOES_NOT_EXIST)
                .because("Waiting for the topology to bring the control plane")
        }
        Referenced::None if status.initialization.control_plane_initialized == Some(true) => {
            Finding::yes(type_, reason::AVAILABLE)
        }
        Referenced::None => Finding::no(type_, reason::NOT_AVAILABLE).because("There is no control plane"),
        referenced => {
            let report = referenced.object().map(|object| (&object.available, object.facts.initialized));
            let (words, silent) = (&Words::AVAILABLE, "has not said that it is available");
            Mirrored { type_, words, was, silent, instead: None }.finding(referenced, report)
        }
    }
}

fn initialized(observed: &Observed<'_>, status: &ClusterStatus) -> Finding {
    let type_ = types::CONTROL_PLANE_INITIALIZED;
    if status.initialization.control_plane_initialized == Some(true) {
        return Finding::yes(type_, reason::INITIALIZED);
    }
    let finding = Finding::no(type_, reason::NOT_INITIALIZED);
    match &observed.control_plane {
        Referenced::None => finding.because("Waiting for the first control plane Machine to become a Node"),
        Referenced::Missing(reference) => finding.because(format!("{reference} does not exist")),
        Referenced::Unreadable { reference, why } => {
            Finding::unknown(type_, reason::INTERNAL_ERROR).because(format!("cannot read {reference}: {why}"))
        }
        Referenced::Found { reference, .. } => {
            finding.because(format!("Waiting for {reference} to accept requests"))
        }
    }
}

fn workers_available(observed: &Observed<'_>) -> Finding {
    let type_ = types::WORKERS_AVAILABLE;
    let groups = groups(observed);
    let sources: Vec<Source<'_>> =
        groups.iter().filter(|group| group.has_availability).map(|group| group.source()).collect();
    let aggregate = Aggregate {
        type_,
        kind: "group",
        of: types::AVAILABLE,
        polarity: Polarity::Positive,
        reasons: Reasons {
            good: reason::AVAILABLE,
            issue: reason::NOT_AVAILABLE,
            unknown: reason::AVAILABLE_UNKNOWN,
        },
        none: reason::NO_WORKERS,
    };
    condition::aggregate(&aggregate, &sources)
}

fn machines(type_: &str, of: &str, machines: &[&Machine]) -> Finding {
    let sources: Vec<Source<'_>> = machines
        .iter()
        // Machines without an owner are never said to be up to date.
        .filter(|machine| {
            of != types::UP_TO_DATE || condition::find(&machine.status.conditions, of).is_some()
        })
        .map(|machine| Source {
            name: machine.metadata.name.as_deref().unwrap_or_default(),
            conditions: &machine.status.conditions,
        })
        .collect();
    let reasons = if of == types::READY {
        Reasons { good: reason::READY, issue: reason::NOT_READY, unknown: reason::READY_UNKNOWN }
    } else {
        Reasons {
            good: reason::UP_TO_DATE,
            issue: reason::NOT_UP_TO_DATE,
            unknown: reason::UP_TO_DATE_UNKNOWN,
        }
    };
    let aggregate = Aggregate {
        type_,
        kind: Machine::KIND,
        of,
        polarity: Polarity::Positive,
        reasons,
        none: reason::NO_REPLICAS,
    };
    condition::aggregate(&aggregate, &sources)
}

/// A part of a Cluster that says of itself what it does.
struct Group<'a> {
    label: String,
    conditions: &'a [Condition],
    /// Whether its availability is that of the workers.
    has_availability: bool,
}

impl Group<'_> {
    fn source(&self) -> Source<'_> {
        Source { name: &self.label, conditions: self.conditions }
    }
}

fn groups<'a>(observed: &'a Observed<'_>) -> Vec<Group<'a>> {
    let label = |kind: &str, name: &Option<String>| format!("{kind} {}", name.as_deref().unwrap_or_default());
    let descendants = &observed.descendants;
    let mut groups = Vec::new();
    if let Referenced::Found { reference, object, .. } = &observed.control_plane {
        groups.push(Group {
            label: reference.to_string(),
            conditions: &object.conditions,
            has_availability: false,
        });
    }
    groups.extend(descendants.machine_deployments.iter().map(|group| Group {
        label: label("MachineDeployment", &group.metadata.name),
        conditions: &group.status.conditions,
        has_availability: true,
    }));
    groups.extend(descendants.machine_pools.iter().map(|pool| Group {
        label: label("MachinePool", &pool.metadata.name),
        conditions: &pool.status.conditions,
        has_availability: true,
    }));
    groups.extend(descendants.standalone_sets().map(|set| Group {
        label: label("MachineSet", &set.metadata.name),
        conditions: &set.status.conditions,
        has_availability: false,
    }));
    groups
}

/// Something is under way in the Cluster as soon as it is in one of its parts.
fn any(observed: &Observed<'_>, type_: &str, yes: &str, no: &str) -> Finding {
    let groups = groups(observed);
    let lines: Vec<String> = groups
        .iter()
        .filter_map(|group| {
            let condition = condition::find(group.conditions, type_)?;
            let says = if condition.message.is_empty() { &condition.reason } else { &condition.message };
            (condition.status == "True").then(|| {
                let indented = says.replace('\n', "\n  ");
                format!("* {}: {indented}", group.label)
            })
        })
        .collect();
    if lines.is_empty() { Finding::no(type_, no) } else { Finding::yes(type_, yes).because(lines.join("\n")) }
}

fn deleting(observed: &Observed<'_>) -> Finding {
    match &observed.deletion {
        None => Finding::no(types::DELETING, reason::NOT_DELETING),
        Some(deletion) => Finding::yes(types::DELETING, deletion.reason()).because(deletion),
    }
}
