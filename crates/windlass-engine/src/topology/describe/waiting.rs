//! What a Cluster waits on, in one line, with the evidence.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use windlass_api::cluster::Machine;
use windlass_api::conditions::TOPOLOGY_RECONCILED;

use super::{Described, version_of};
use crate::condition;

/// What is waited on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingDescription {
    /// One line.
    pub what: String,
    /// Since when, as far as a condition tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Where that can be seen: conditions and machines.
    pub evidence: Vec<String>,
}

/// How the line of a held upgrade begins in the condition.
const HELD: &str = "The upgrade waits for ";

impl WaitingDescription {
    /// What the topology waits on, else what keeps the Cluster from being available.
    pub(super) fn of(objects: Described<'_>) -> Option<Self> {
        let conditions = &objects.cluster.status.conditions;
        let topology = condition::find(conditions, TOPOLOGY_RECONCILED);
        let unmet = |type_| condition::find(conditions, type_).filter(|found| found.status != "True");
        let found = topology
            .filter(|found| found.status != "True")
            .or_else(|| unmet("Available"))
            .or_else(|| unmet("Ready"))?;
        let head = found.message.lines().next().filter(|head| !head.is_empty()).unwrap_or(&found.reason);
        // A message that is nothing but a list has no head.
        let skip = usize::from(!head.starts_with("* "));
        let details = found.message.lines().skip(skip).map(|line| line.trim().trim_start_matches("* "));
        let details: Vec<&str> = details.collect();
        let held = details.iter().find_map(|line| line.strip_prefix(HELD));
        let moving = || details.iter().find(|line| line.contains(" upgrading to ")).copied();
        let first = || details.iter().find(|line| !line.ends_with(':')).copied();
        let said = held.or_else(moving).or_else(first).unwrap_or(head);
        let mut evidence =
            vec![format!("condition {} of the Cluster is {}: {}", found.type_, found.status, found.reason)];
        evidence.extend(details.iter().filter(|line| !line.ends_with(said)).map(|line| (*line).to_owned()));
        evidence.extend(objects.my_machines().filter_map(unready));
        Some(Self { what: reach(said), since: Some(found.last_transition_time.clone()), evidence })
    }
}

/// What is on its way is waited on until it is there.
fn reach(said: &str) -> String {
    let moved = said.split_once(" is upgrading to ").or_else(|| said.split_once(" are upgrading to "));
    match moved {
        Some((who, to)) => {
            let (version, _) = to.split_once(' ').unwrap_or((to, ""));
            format!("{who} to reach {version}")
        }
        None => said.to_owned(),
    }
}

/// What a machine says that is not ready.
fn unready(machine: &Machine) -> Option<String> {
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    let ready =
        condition::find(&machine.status.conditions, "Ready").filter(|ready| ready.status != "True")?;
    let first = ready.message.lines().next().unwrap_or_default().trim_start_matches("* ");
    let why = if first.is_empty() { &ready.reason } else { first };
    let doing =
        if machine.metadata.deletion_timestamp.is_some() { "is being deleted" } else { "is not ready" };
    Some(format!("Machine {name} at {} {doing}: {why}", version_of(machine)))
}
