//! The conditions of a Machine that its controller owns.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::cluster::{Machine, Polarity as GatePolarity};
use windlass_api::conditions as types;
use windlass_api::conditions::ConditionStatus;

use super::deletion::Step;
use super::{NodeSeen, Observed, UpToDate, Updating};
use crate::condition::{self, Finding, Part, Polarity, Reasons, Verdict};
use crate::contract::ReadyReport;
use crate::in_place::Effect;
use crate::pause::not_paused;
use crate::referenced::{Mirrored, Referenced, Words};
use crate::waiting::WaitingOn;

/// For how long the last thing known about a Node counts when the workload cluster stops answering. Control planes
/// restart; a MachineHealthCheck should not see that as a failure of all Nodes.
const SILENCE_GRACE: SignedDuration = SignedDuration::from_mins(5);

/// What the controller finds, the summaries not included.
pub(super) fn findings(observed: &Observed<'_>, waits: &Waits, now: Timestamp) -> Vec<Finding> {
    let mut findings = vec![
        bootstrap(observed, waits.bootstrap.as_ref()),
        infrastructure(observed, waits.infrastructure.as_ref()),
        updating(observed),
        deleting(observed),
        not_paused(),
    ];
    findings.extend(node(observed, waits.node.as_ref(), now));
    findings.extend(observed.up_to_date.as_ref().map(up_to_date));
    findings
}

/// What each part of a Machine waits on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) bootstrap: Option<WaitingOn>,
    pub(super) infrastructure: Option<WaitingOn>,
    pub(super) node: Option<WaitingOn>,
}

fn bootstrap(observed: &Observed<'_>, wait: Option<&WaitingOn>) -> Finding {
    let type_ = types::BOOTSTRAP_CONFIG_READY;
    if observed.bootstrap == Referenced::None && wait.is_none() {
        return Finding::yes(type_, "DataSecretProvided");
    }
    let was = observed.machine.status.initialization.bootstrap_data_secret_created == Some(true);
    let report = observed.bootstrap.object().map(|object| (&object.ready, object.data_secret_created));
    mirrored(type_, &observed.bootstrap, report, was, wait)
}

fn infrastructure(observed: &Observed<'_>, wait: Option<&WaitingOn>) -> Finding {
    let was = observed.machine.status.initialization.infrastructure_provisioned == Some(true);
    let report = observed.infrastructure.object().map(|object| (&object.ready, object.provisioned));
    mirrored(types::INFRASTRUCTURE_READY, &observed.infrastructure, report, was, wait)
}

/// What is waited on is said where the object says nothing.
fn mirrored<T>(
    type_: &str,
    referenced: &Referenced<T>,
    report: Option<(&ReadyReport, bool)>,
    was: bool,
    wait: Option<&WaitingOn>,
) -> Finding {
    let says = wait.map(|wait| wait.sentence().to_string()).unwrap_or_default();
    Mirrored { type_, words: &Words::READY, was, silent: "is not done", instead: Some(&says) }
        .finding(referenced, report)
}

fn updating(observed: &Observed<'_>) -> Finding {
    if !observed.marks().update_in_progress() {
        return Finding::no(types::UPDATING, "NotUpdating");
    }
    match &observed.updating {
        Some(Updating::Failed(failure)) => {
            let requirements =
                Effect::written_in(observed.machine.metadata.annotations.as_ref()).requirements;
            let node = observed.machine.status.node_ref.as_ref().filter(|_| !requirements.is_empty());
            let cordoned =
                node.map(|node| format!("\nNode {} stays cordoned until the update is done", node.name));
            let says = format!("{failure}{}", cordoned.unwrap_or_default());
            Finding::yes(types::UPDATING, "InPlaceUpdateFailed").because(says)
        }
        Some(Updating::Preparing(on)) => {
            Finding::yes(types::UPDATING, on.reason()).because(on.sentence().to_string())
        }
        Some(Updating::Overdue { message }) => {
            Finding::yes(types::UPDATING, "InPlaceUpdateOverdue").because(message)
        }
        Some(Updating::InProgress { message, .. }) if !message.is_empty() => {
            Finding::yes(types::UPDATING, "InPlaceUpdating")
                .because(format!("In-place update in progress: {message}"))
        }
        _ => Finding::yes(types::UPDATING, "InPlaceUpdating").because("In-place update in progress"),
    }
}

fn deleting(observed: &Observed<'_>) -> Finding {
    let type_ = types::DELETING;
    match &observed.deletion {
        None => Finding::no(type_, "NotDeleting"),
        Some(Step::Wait(wait)) => Finding::yes(type_, wait.reason()).because(wait.sentence()),
        Some(Step::Release) => Finding::yes(type_, "DeletionCompleted"),
        Some(_) => Finding::yes(type_, "Deleting"),
    }
}

fn up_to_date(up_to_date: &UpToDate) -> Finding {
    let type_ = types::UP_TO_DATE;
    match up_to_date {
        UpToDate::Yes => Finding::yes(type_, "UpToDate"),
        UpToDate::No(reasons) => Finding::no(type_, "NotUpToDate").because(reasons.join("\n")),
        UpToDate::Updating(reasons) if reasons.is_empty() => {
            Finding::no(type_, "Updating").because("* In-place update in progress")
        }
        UpToDate::Updating(reasons) => Finding::no(type_, "Updating").because(reasons.join("\n")),
    }
}

/// `NodeReady` and `NodeHealthy`. Nothing where what was known before still counts.
fn node(observed: &Observed<'_>, wait: Option<&WaitingOn>, now: Timestamp) -> Vec<Finding> {
    let says = wait.map(|wait| wait.sentence().to_string()).unwrap_or_default();
    let both = |status: ConditionStatus, reason: &str, message: &str| {
        [types::NODE_READY, types::NODE_HEALTHY]
            .map(|type_| Finding::new(type_, status, reason).because(message))
            .to_vec()
    };
    match &observed.node {
        NodeSeen::Found(node) => vec![node_ready(&node.conditions), node_healthy(&node.conditions)],
        NodeSeen::NoAnswer { since, .. } => {
            let known = condition::find(&observed.machine.status.conditions, types::NODE_HEALTHY);
            if known.is_some() && now.duration_since(*since) < SILENCE_GRACE {
                return kept(observed);
            }
            both(ConditionStatus::Unknown, "ConnectionDown", &says)
        }
        NodeSeen::Absent => match &observed.machine.status.node_ref {
            Some(node) if observed.deletion.is_none() => {
                let message = format!("Node {} was deleted while its Machine still exists", node.name);
                both(ConditionStatus::False, "NodeDeleted", &message)
            }
            Some(node) => {
                both(ConditionStatus::False, "NodeDeleted", &format!("Node {} has been deleted", node.name))
            }
            None => both(ConditionStatus::Unknown, "NodeDoesNotExist", &says),
        },
        NodeSeen::NotSought { .. } => both(ConditionStatus::Unknown, "InspectionFailed", &says),
    }
}

/// What was found before, once more: an apply that leaves a condition out removes it.
fn kept(observed: &Observed<'_>) -> Vec<Finding> {
    let conditions = &observed.machine.status.conditions;
    let types = [types::NODE_READY, types::NODE_HEALTHY];
    let found = types.iter().filter_map(|type_| condition::find(conditions, type_));
    found
        .map(|found| {
            Finding::new(&found.type_, condition::status_of(found), &found.reason).because(&found.message)
        })
        .collect()
}

fn node_ready(conditions: &[NodeCondition]) -> Finding {
    let type_ = types::NODE_READY;
    let Some(ready) = conditions.iter().find(|condition| condition.type_ == "Ready") else {
        return Finding::unknown(type_, "NodeReadyUnknown").because("* Node.Ready: not yet reported");
    };
    let message = ready.message.clone().unwrap_or_default();
    match node_status(ready) {
        ConditionStatus::True => Finding::yes(type_, "NodeReady"),
        ConditionStatus::False => {
            Finding::no(type_, "NodeNotReady").because(format!("* Node.Ready: {message}"))
        }
        ConditionStatus::Unknown => {
            Finding::unknown(type_, "NodeReadyUnknown").because(format!("* Node.Ready: {message}"))
        }
    }
}

/// What a healthy Node has, and what it has not.
const NODE_HEALTH: [(&str, Polarity); 4] = [
    ("Ready", Polarity::Positive),
    ("MemoryPressure", Polarity::Negative),
    ("DiskPressure", Polarity::Negative),
    ("PIDPressure", Polarity::Negative),
];

fn node_healthy(conditions: &[NodeCondition]) -> Finding {
    let type_ = types::NODE_HEALTHY;
    let mut worst = Verdict::Good;
    let mut lines = Vec::new();
    for (about, polarity) in NODE_HEALTH {
        let condition = conditions.iter().find(|condition| condition.type_ == about);
        let verdict =
            condition.map_or(Verdict::Unknown, |condition| polarity.verdict(node_status(condition)));
        worst = worst.min(verdict);
        if verdict != Verdict::Good {
            let message = condition.and_then(|condition| condition.message.clone());
            lines.push(format!(
                "* Node.{about}: {}",
                message.unwrap_or_else(|| "not yet reported".to_owned())
            ));
        }
    }
    let finding = match worst {
        Verdict::Good => Finding::yes(type_, "NodeHealthy"),
        Verdict::Issue => Finding::no(type_, "NodeNotHealthy"),
        Verdict::Unknown => Finding::unknown(type_, "NodeHealthyUnknown"),
    };
    finding.because(lines.join("\n"))
}

fn node_status(condition: &NodeCondition) -> ConditionStatus {
    match condition.status.as_str() {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}

/// `Ready`: the summary of what the controller found, health checks, and the gates of the Machine.
pub(super) fn ready(machine: &Machine, conditions: &[Condition]) -> Finding {
    let mut parts = vec![
        Part::negative(types::DELETING),
        Part::required(types::BOOTSTRAP_CONFIG_READY),
        Part::required(types::INFRASTRUCTURE_READY),
        Part::required(types::NODE_HEALTHY),
        Part::optional(types::HEALTH_CHECK_SUCCEEDED),
    ];
    // An update that does not affect availability leaves it to the Node to say how it is.
    if Effect::written_in(machine.metadata.annotations.as_ref()).takes_out_of_service() {
        parts.insert(1, Part::negative(types::UPDATING));
    }
    parts.extend(machine.spec.readiness_gates.iter().map(|gate| Part {
        type_: &gate.condition_type,
        polarity: match gate.polarity {
            Some(GatePolarity::Negative) => Polarity::Negative,
            _ => Polarity::Positive,
        },
        required: true,
    }));
    let reasons = Reasons { good: "Ready", issue: "NotReady", unknown: "ReadyUnknown" };
    condition::summary(types::READY, conditions, &parts, reasons)
}

/// `Available`: ready for long enough. The time that is missing comes with it.
pub(super) fn available(
    machine: &Machine,
    conditions: &[Condition],
    now: Timestamp,
) -> (Finding, Option<SignedDuration>) {
    let type_ = types::AVAILABLE;
    let Some(ready_for) = condition::true_for(conditions, types::READY, now) else {
        return (Finding::no(type_, "NotReady"), None);
    };
    let needed = SignedDuration::from_secs(i64::from(machine.spec.min_ready_seconds.unwrap_or_default()));
    let left = needed - ready_for;
    if left <= SignedDuration::ZERO {
        return (Finding::yes(type_, "Available"), None);
    }
    (Finding::no(type_, "WaitingForMinReadySeconds"), Some(left))
}
