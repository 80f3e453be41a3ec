//! Since when a Machine waits.
//!
//! Its status tells: a Machine comes up in stages, and a condition keeps when each was done. So nothing has to be kept
//! for waits of Machines, of which there are many and which change often.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use windlass_api::cluster::{ContractVersionedObjectReference, Machine};
use windlass_api::conditions as types;

use crate::condition;
use crate::waiting::{Wait, WaitingOn};

/// A wait of a Machine, with its beginning: when the stage before it was done. `machine` is as it was read, before the
/// decision that it waits.
///
/// Of a step of its deletion after the drain it is the time of the last step that was recorded, which is the earliest
/// that it can have begun.
pub(super) fn wait(on: &WaitingOn, machine: &Machine, now: Timestamp) -> Wait {
    Wait::since(on, on.began().or_else(|| since(on, machine)).unwrap_or(now))
}

fn since(on: &WaitingOn, machine: &Machine) -> Option<Timestamp> {
    let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let done = |type_| transition(&machine.status.conditions, type_, |status| status == "True");
    let undone = |type_| transition(&machine.status.conditions, type_, |status| status != "True");
    let infrastructure = || done(types::BOOTSTRAP_CONFIG_READY).or(created);
    match on {
        WaitingOn::BootstrapData | WaitingOn::BootstrapProvider { .. } => created,
        WaitingOn::InfrastructureProvider { .. } => infrastructure(),
        WaitingOn::Missing(reference)
        | WaitingOn::Unreadable { reference, .. }
        | WaitingOn::BrokenContract { reference, .. } => {
            if is_bootstrap(machine, reference) {
                created
            } else {
                infrastructure()
            }
        }
        WaitingOn::NodeLookup { .. } | WaitingOn::Node { .. } => done(types::INFRASTRUCTURE_READY),
        WaitingOn::NodeHealthy { .. } => undone(types::NODE_READY),
        WaitingOn::MinReady { .. } => done(types::READY),
        WaitingOn::Update { .. } => done(types::UPDATING),
        _ => last_step_of_deletion(machine),
    }
}

fn is_bootstrap(machine: &Machine, reference: &ContractVersionedObjectReference) -> bool {
    machine.spec.bootstrap.config_ref.as_ref() == Some(reference)
}

fn transition(conditions: &[Condition], type_: &str, is: impl Fn(&str) -> bool) -> Option<Timestamp> {
    let found = condition::find(conditions, type_).filter(|found| is(&found.status))?;
    Some(found.last_transition_time.0)
}

fn last_step_of_deletion(machine: &Machine) -> Option<Timestamp> {
    let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
    let deletion = machine.status.deletion.as_ref();
    let steps = deletion.map(|deletion| {
        [time(&deletion.node_drain_start_time), time(&deletion.wait_for_node_volume_detach_start_time)]
    });
    steps.into_iter().flatten().chain([time(&machine.metadata.deletion_timestamp)]).flatten().max()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn time(second: i64) -> String {
        at(second).to_string()
    }

    fn condition(type_: &str, status: &str, second: i64) -> Value {
        json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": time(second)})
    }

    #[test]
    fn a_stage_begins_when_the_one_before_it_was_done() {
        let bootstrap = json!({"apiGroup": "b", "kind": "KubeadmConfig", "name": "m1"});
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"creationTimestamp": time(10), "deletionTimestamp": time(80)},
            "spec": {"clusterName": "c1", "bootstrap": {"configRef": bootstrap}},
            "status": {
                "deletion": {"nodeDrainStartTime": time(90)},
                "conditions": [condition("BootstrapConfigReady", "True", 20),
                    condition("InfrastructureReady", "True", 30), condition("NodeReady", "False", 40),
                    condition("Ready", "True", 50), condition("Updating", "True", 60)],
            },
        }))
        .unwrap();
        let reference: ContractVersionedObjectReference = serde_json::from_value(bootstrap).unwrap();
        let other = ContractVersionedObjectReference { kind: "DevMachine".to_owned(), ..reference.clone() };
        let text = String::new;
        for (on, second) in [
            (WaitingOn::BootstrapData, 10),
            (WaitingOn::Missing(reference), 10),
            (WaitingOn::Missing(other.clone()), 20),
            (WaitingOn::InfrastructureProvider { reference: other, says: text() }, 20),
            (WaitingOn::Node { provider_id: text() }, 30),
            (WaitingOn::NodeHealthy { name: text(), says: text() }, 40),
            (WaitingOn::MinReady { left: SignedDuration::from_secs(1) }, 50),
            (WaitingOn::Update { says: text() }, 60),
            (WaitingOn::Workload { why: text(), since: at(70) }, 70),
            (WaitingOn::PreTerminateHooks(Vec::new()), 90),
        ] {
            assert_eq!(wait(&on, &machine, at(100)).since.0, at(second), "{on:?}");
        }
        let fresh = Machine::default();
        let on = WaitingOn::Node { provider_id: text() };
        assert_eq!(wait(&on, &fresh, at(100)).since.0, at(100), "what nothing tells of begins now");
    }
}
