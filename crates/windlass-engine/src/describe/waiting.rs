//! What a Cluster waits on, in one line, with the evidence.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::Machine;
use windlass_api::conditions::TOPOLOGY_RECONCILED;

use super::{Described, version_of};
use crate::condition;
use crate::topology::HELD;
use crate::waiting::Wait;

/// What is waited on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingDescription {
    /// The wait, as the topology controller keeps it. Of a Cluster that another controller manages, or that waits on
    /// something else than its topology, it is what a condition says: then `since` is the time of that condition.
    #[serde(flatten)]
    pub wait: Wait,
    /// Where that can be seen: conditions and machines.
    pub evidence: Vec<String>,
    /// The command that lets it go on, where that is for the owner of the Cluster to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl WaitingDescription {
    /// What the topology waits on, else what keeps the Cluster from being available.
    pub fn of(objects: Described<'_>) -> Option<Self> {
        let conditions = &objects.cluster.status.conditions;
        let unmet = |type_| condition::find(conditions, type_).filter(|found| found.status != "True");
        let found = unmet(TOPOLOGY_RECONCILED).or_else(|| unmet("Available")).or_else(|| unmet("Ready"))?;
        let wait = Wait::of_cluster(objects.cluster).unwrap_or_else(|| reported(found));
        let mut evidence =
            vec![format!("condition {} of the Cluster is {}: {}", found.type_, found.status, found.reason)];
        let details = details(found).filter(|line| !line.ends_with(&wait.what));
        evidence.extend(details.map(ToOwned::to_owned));
        evidence.extend(control_plane(objects));
        evidence.extend(objects.my_machines().filter_map(unready));
        let command = wait.command(objects.cluster);
        Some(Self { wait, evidence, command })
    }
}

/// What a condition says, for lack of a wait that was kept.
fn reported(found: &Condition) -> Wait {
    let said = details(found).find_map(|line| line.strip_prefix(HELD));
    let said = said.or_else(|| details(found).find(|line| !line.ends_with(':')));
    let head = found.message.lines().next().filter(|head| !head.is_empty()).unwrap_or(&found.reason);
    Wait {
        reason: found.reason.clone(),
        what: said.unwrap_or(head).to_owned(),
        objects: Vec::new(),
        hook: None,
        handlers: Vec::new(),
        version: None,
        step: None,
        since: found.last_transition_time.clone(),
        retry_after_seconds: None,
    }
}

/// The lines of a message below its head. A message that is nothing but a list has no head.
fn details(found: &Condition) -> impl Iterator<Item = &str> {
    let skip = usize::from(!found.message.starts_with("* "));
    found.message.lines().skip(skip).map(|line| line.trim().trim_start_matches("* "))
}

/// What the control plane waits on in turn.
fn control_plane(objects: Described<'_>) -> Option<String> {
    let reference = objects.cluster.spec.control_plane_ref.as_ref()?;
    let annotations = objects.control_plane?.pointer("/metadata/annotations").and_then(Value::as_object)?;
    let texts = annotations.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let Wait { reason, what, since: Time(since), .. } = Wait::read(Some(&texts.collect()))?;
    Some(format!("{} {}, {reason} since {since}: {what}", reference.kind, reference.name))
}

/// What a machine says that is not ready.
fn unready(machine: &Machine) -> Option<String> {
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    let ready =
        condition::find(&machine.status.conditions, "Ready").filter(|ready| ready.status != "True")?;
    let doing =
        if machine.metadata.deletion_timestamp.is_some() { "is being deleted" } else { "is not ready" };
    let head = format!("Machine {name} at {} {doing}", version_of(machine));
    if let Some(wait) = Wait::read(machine.metadata.annotations.as_ref()) {
        // What providers say may have several lines.
        let what: Vec<&str> = wait.what.lines().map(str::trim).collect();
        return Some(format!("{head}, {} since {}: {}", wait.reason, wait.since.0, what.join(" ")));
    }
    let first = ready.message.lines().next().unwrap_or_default().trim_start_matches("* ");
    let why = if first.is_empty() { &ready.reason } else { first };
    Some(format!("{head}: {why}"))
}
