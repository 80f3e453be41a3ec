//! Control planes for tests.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::*;
use crate::in_place::WhyNotInPlace;

pub(super) const V1: &str = "v1.32.0";
pub(super) const V2: &str = "v1.33.0";

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or_default()
}

/// A healthy Machine at [`V1`], as old as its number says: the first is the oldest.
pub(super) fn machine(number: i64) -> ObservedMachine {
    ObservedMachine {
        name: format!("m{number}"),
        created: at(number),
        version: Some(V1.to_owned()),
        failure_domain: None,
        node: Some(format!("m{number}")),
        outdated: Vec::new(),
        deletion: None,
        marked_for_deletion: false,
        marked_for_remediation: false,
        remediation_requested: false,
        remediation_for: None,
        update_in_progress: false,
        update_hook_pending: false,
        in_place: Err(WhyNotInPlace::NoExtension),
        components: Component::ALL.into_iter().map(|component| (component, Health::Healthy)).collect(),
    }
}

/// A control plane at [`V1`] with these Machines, all of which it should have.
pub(super) fn control_plane(machines: Vec<ObservedMachine>) -> Observed {
    let members = machines.iter().filter_map(|machine| machine.node.as_deref().map(member)).collect();
    Observed {
        version: V1.to_owned(),
        replicas: machines.len() as u32,
        strategy: Strategy::RollingUpdate { max_surge: 1 },
        deleting: false,
        infrastructure_provisioned: true,
        endpoint: true,
        certificates_available: true,
        initialized: true,
        topology: None,
        failure_domains: BTreeSet::new(),
        etcd: Etcd::Managed { members: Some(members) },
        remediation: RemediationPolicy::default(),
        remediation_in_progress: None,
        machines,
        external_update: crate::external_update::ExternalUpdate::NotAsked,
        workers: Vec::new(),
    }
}

/// A member that votes and has no alarm.
pub(super) fn member(name: &str) -> EtcdMember {
    let id = name.bytes().fold(7, |id: u64, byte| id.wrapping_mul(31).wrapping_add(byte.into()));
    EtcdMember { id, name: name.to_owned(), learner: false, alarms: Vec::new() }
}

pub(super) fn healthy(count: i64) -> Observed {
    control_plane((1..=count).map(machine).collect())
}

/// Three healthy Machines of an older version than wanted.
pub(super) fn upgrading() -> Observed {
    let mut observed = healthy(3);
    V2.clone_into(&mut observed.version);
    for machine in &mut observed.machines {
        outdate(machine);
    }
    observed
}

pub(super) fn outdate(machine: &mut ObservedMachine) {
    machine.outdated = vec![OutdatedReason::Version { current: V1.to_owned(), required: V2.to_owned() }];
}

pub(super) fn deletion(since: i64) -> Option<MachineDeletion> {
    Some(MachineDeletion {
        since: at(since),
        has_cleanup_hook: true,
        at_pre_terminate: false,
        other_hooks: Vec::new(),
    })
}

pub(super) fn decided(observed: &Observed) -> Step {
    decide(observed, at(1000)).step
}

/// The sentence that is shown for a step that waits; empty if it does not wait.
pub(super) fn waits(step: &Step) -> String {
    match step {
        Step::Wait(waiting) => waiting.sentence().to_string(),
        _ => String::new(),
    }
}
