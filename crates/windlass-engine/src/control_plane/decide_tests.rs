//! Every kind of step, one case each.

use super::fixture::*;
use super::*;
use crate::waiting::WaitingOn;

fn join(reason: JoinReason) -> Step {
    Step::Act(Action::Join { failure_domain: None, reason, remediation_for: None })
}

fn delete(machine: &str, reason: DeleteReason) -> Step {
    Step::Act(Action::Delete { machine: machine.to_owned(), reason })
}

#[test]
fn the_first_machine_waits_for_infrastructure_certificates_and_endpoint() {
    let mut observed = control_plane(Vec::new());
    observed.replicas = 3;
    observed.initialized = false;
    let first = Step::Act(Action::Initialize { failure_domain: None, remediation_for: None });
    assert_eq!(decided(&observed), first);
    for (change, waiting) in [
        ((|o| o.infrastructure_provisioned = false) as fn(&mut Observed), WaitingOn::ClusterInfrastructure),
        (|o| o.certificates_available = false, WaitingOn::Certificates),
        (|o| o.endpoint = false, WaitingOn::Endpoint),
    ] {
        let mut observed = observed.clone();
        change(&mut observed);
        assert_eq!(decided(&observed), Step::Wait(waiting));
    }
}

#[test]
fn machines_join_one_at_a_time_when_all_others_are_healthy() {
    let mut observed = healthy(1);
    observed.replicas = 3;
    assert_eq!(decided(&observed), join(JoinReason::ScaleUp));

    observed.machines[0].node = None;
    assert_eq!(waits(&decided(&observed)), "adding a Machine waits: Machine m1 has no Node yet");

    observed.machines[0] = machine(1);
    observed.machines[0].components.insert(Component::EtcdMember, Health::Unknown);
    assert_eq!(waits(&decided(&observed)), "adding a Machine waits: etcd member of Machine m1 is unknown");

    observed.etcd = Etcd::External;
    assert_eq!(decided(&observed), join(JoinReason::ScaleUp), "an external etcd is not on the Machines");

    observed.certificates_available = false;
    assert_eq!(waits(&decided(&observed)), "adding a Machine waits: cluster certificates are missing");
}

#[test]
fn a_control_plane_that_is_as_it_should_be_is_left_alone() {
    for replicas in [1, 3, 5] {
        assert_eq!(decided(&healthy(replicas)), Step::Settled);
    }
}

#[test]
fn scaling_down_removes_the_oldest_and_never_while_another_is_unhealthy() {
    let mut observed = healthy(3);
    observed.replicas = 1;
    assert_eq!(decided(&observed), delete("m1", DeleteReason::ScaleDown));

    // The one that goes may be broken; the others may not.
    observed.machines[0].components.insert(Component::ApiServer, Health::Unhealthy);
    assert_eq!(decided(&observed), delete("m1", DeleteReason::ScaleDown));
    observed.machines[1].components.insert(Component::Scheduler, Health::Unhealthy);
    assert_eq!(
        waits(&decided(&observed)),
        "removing a Machine waits: kube-scheduler of Machine m2 is not healthy"
    );
}

#[test]
fn an_unknown_or_learning_etcd_keeps_its_members() {
    let mut observed = healthy(3);
    observed.replicas = 1;
    observed.etcd = Etcd::Managed { members: None };
    assert_eq!(waits(&decided(&observed)), "Machine m1 must stay for now: the members of etcd are not known");
    let members = ["m1", "m2", "m3"].map(|name| EtcdMember { learner: name == "m3", ..member(name) });
    observed.etcd = Etcd::Managed { members: Some(members.to_vec()) };
    assert_eq!(waits(&decided(&observed)), "Machine m1 must stay for now: etcd member m3 is still a learner");
}

#[test]
fn a_rollout_with_surge_adds_before_it_removes() {
    let mut observed = upgrading();
    assert_eq!(decided(&observed), join(JoinReason::Rollout));

    let mut new = machine(4);
    new.version = Some(V2.to_owned());
    observed.machines.push(new);
    observed.etcd = control_plane(observed.machines.clone()).etcd;
    assert_eq!(decided(&observed), delete("m1", DeleteReason::Rollout));

    observed.machines[0].deletion = deletion(900);
    assert_eq!(waits(&decided(&observed)), "waiting for the deletion of Machine m1");
}

#[test]
fn a_rollout_without_surge_removes_first_but_only_from_three_on() {
    let mut observed = upgrading();
    observed.strategy = Strategy::RollingUpdate { max_surge: 0 };
    assert_eq!(decided(&observed), delete("m1", DeleteReason::Rollout));

    // Whatever the specification says: removing one of one or of two loses etcd.
    for count in [1, 2] {
        let mut observed = observed.clone();
        observed.machines.truncate(count);
        observed.replicas = count as u32;
        observed.etcd = control_plane(observed.machines.clone()).etcd;
        assert_eq!(decided(&observed), join(JoinReason::Rollout), "{count} replicas");
    }
}

#[test]
fn nothing_changes_until_the_topology_wants_this_version() {
    let topology = |version: &str, step: Option<&str>| {
        let mut observed = upgrading();
        observed.topology =
            Some(TopologyStep { version: version.to_owned(), upgrade_step: step.map(str::to_owned) });
        waits(&decided(&observed))
    };
    assert_eq!(topology(V2, None), "");
    assert_eq!(topology("v1.35.0", Some(V2)), "");
    assert_eq!(
        topology("v1.35.0", None),
        "adding a Machine waits: version v1.35.0 is to be propagated first, the control plane is at v1.33.0"
    );
    assert_eq!(
        topology("v1.35.0", Some("v1.34.0")),
        "adding a Machine waits: version v1.34.0 is to be propagated first, the control plane is at v1.33.0"
    );
}

#[test]
fn api_servers_are_never_more_than_one_minor_apart() {
    let mut observed = upgrading();
    for (version, allowed) in
        [("v1.33.7", true), ("v1.31.0", true), ("v1.34.0", false), ("v1.30.0", false), ("v2.33.0", false)]
    {
        version.clone_into(&mut observed.version);
        for strategy in [Strategy::RollingUpdate { max_surge: 0 }, Strategy::RollingUpdate { max_surge: 1 }] {
            observed.strategy = strategy;
            assert_eq!(matches!(decided(&observed), Step::Act(_)), allowed, "{version} {strategy:?}");
        }
    }
    "v1.34.0".clone_into(&mut observed.version);
    observed.machines.truncate(1);
    observed.replicas = 1;
    observed.etcd = control_plane(observed.machines.clone()).etcd;
    assert_eq!(
        waits(&decided(&observed)),
        "adding a Machine waits: Machine m1 is at v1.32.0, more than one minor from v1.34.0: \
         API servers may be one minor apart"
    );
}

#[test]
fn a_machine_that_is_deleted_is_released_when_it_is_drained_and_etcd_can_bear_it() {
    let mut observed = healthy(3);
    observed.machines[0].deletion = deletion(900);
    assert_eq!(waits(&decided(&observed)), "waiting for the deletion of Machine m1");

    let drained = |hooks: &[&str]| {
        Some(MachineDeletion {
            at_pre_terminate: true,
            other_hooks: hooks.iter().map(|&hook| hook.to_owned()).collect(),
            ..deletion(900).unwrap()
        })
    };
    observed.machines[0].deletion = drained(&[]);
    let release = Step::Act(Action::ReleaseMachine {
        machine: "m1".to_owned(),
        member: Some("m1".to_owned()),
        successors: vec!["m3".to_owned(), "m2".to_owned()],
    });
    assert_eq!(decided(&observed), release);

    observed.machines[0].deletion = drained(&["backup"]);
    assert_eq!(waits(&decided(&observed)), "waiting for the deletion of Machine m1, held by backup");
    observed.machines[0].version = Some("v1.30.4".to_owned());
    assert_eq!(decided(&observed), release, "before v1.31 the order of hooks does not matter");

    observed.machines[1].components.insert(Component::EtcdMember, Health::Unhealthy);
    assert_eq!(
        waits(&decided(&observed)),
        "Machine m1 must stay for now: etcd would keep 1 healthy of 2 members, and needs 2"
    );
}

#[test]
fn the_last_machine_and_one_that_never_joined_go_without_etcd() {
    for (count, node) in [(1, Some("m1")), (3, None)] {
        let mut observed = healthy(count);
        observed.machines[0].node = node.map(str::to_owned);
        observed.machines[0].deletion =
            Some(MachineDeletion { at_pre_terminate: true, ..deletion(900).unwrap() });
        let Etcd::Managed { members: Some(members) } = &mut observed.etcd else { unreachable!() };
        members.retain(|member| node.is_some() || member.name != "m1");
        assert_eq!(
            decided(&observed),
            Step::Act(Action::ReleaseMachine {
                machine: "m1".to_owned(),
                member: None,
                successors: Vec::new()
            })
        );
    }
}

#[test]
fn machines_that_a_user_deletes_all_at_once_are_released_one_after_the_other() {
    let mut observed = healthy(3);
    for (index, machine) in observed.machines.iter_mut().enumerate() {
        machine.deletion =
            Some(MachineDeletion { at_pre_terminate: true, ..deletion(900 - index as i64).unwrap() });
    }
    let Step::Act(Action::ReleaseMachine { machine, .. }) = decided(&observed) else {
        unreachable!("m3 is the oldest deletion")
    };
    assert_eq!(machine, "m3");
    // Released, and still going: the next one follows, although the first is not gone.
    observed.machines[2].deletion.as_mut().unwrap().has_cleanup_hook = false;
    let Etcd::Managed { members: Some(members) } = &mut observed.etcd else { unreachable!() };
    members.retain(|member| member.name != "m3");
    let Step::Act(Action::ReleaseMachine { machine, .. }) = decided(&observed) else {
        unreachable!("m2 is the next deletion")
    };
    assert_eq!(machine, "m2");
}

#[test]
fn a_member_without_a_machine_is_removed_once_every_machine_has_its_node() {
    let mut observed = healthy(3);
    let Etcd::Managed { members: Some(members) } = &mut observed.etcd else { unreachable!() };
    members.push(member("gone"));
    let removal =
        |member: &EtcdMember| Step::Act(Action::RemoveMember { id: member.id, member: member.label() });
    assert_eq!(decided(&observed), removal(&member("gone")));

    // One that was added and never started has no name, and no vote: it goes first.
    let Etcd::Managed { members: Some(members) } = &mut observed.etcd else { unreachable!() };
    let unstarted = EtcdMember { id: 0xab, learner: true, ..member("") };
    members.push(unstarted.clone());
    assert_eq!(decided(&observed), removal(&unstarted));
    assert_eq!(unstarted.label(), "ab");
    let mut waiting = observed.clone();
    waiting.machines[2].node = None;
    assert_eq!(decided(&waiting), Step::Settled, "either may be the member of m3");
}

#[test]
fn a_member_without_a_machine_stays_where_the_others_are_no_quorum() {
    let mut observed = healthy(3);
    let Etcd::Managed { members: Some(members) } = &mut observed.etcd else { unreachable!() };
    members.push(member("gone"));
    for (index, component) in [(0, Component::EtcdMember), (1, Component::EtcdPod)] {
        observed.machines[index].components.insert(component, Health::Unknown);
    }
    assert_eq!(
        decided(&observed),
        Step::Settled,
        "one of three is known to be healthy: nothing is done about etcd"
    );
}

#[test]
fn the_leadership_goes_to_a_healthy_member_that_stays() {
    let mut observed = healthy(5);
    outdate(&mut observed.machines[4]);
    observed.machines[3].components.insert(Component::EtcdMember, Health::Unknown);
    observed.machines[2].deletion = deletion(900);
    observed.machines[1].remediation_requested = true;
    assert_eq!(etcd::successors("m1", &observed.machines), ["m5", "m2", "m4"]);
    observed.machines[1].node = None;
    assert_eq!(etcd::successors("m5", &observed.machines), ["m1", "m4"]);
}

#[test]
fn deletion_waits_for_workers_and_then_takes_all_machines_at_once() {
    let mut observed = healthy(3);
    observed.deleting = true;
    observed.workers = (1..=7).map(|number| format!("w{number}")).collect();
    assert_eq!(
        waits(&decided(&observed)),
        "waiting for the deletion of workers: w1, w2, w3, w4, w5 and 2 more"
    );
    observed.workers.clear();
    observed.machines[1].deletion = deletion(900);
    assert_eq!(
        decided(&observed),
        Step::Act(Action::DeleteAll {
            delete: vec!["m1".to_owned(), "m3".to_owned()],
            release: vec!["m2".to_owned()],
        })
    );
    for machine in &mut observed.machines {
        machine.deletion = Some(MachineDeletion { has_cleanup_hook: false, ..deletion(900).unwrap() });
    }
    assert_eq!(waits(&decided(&observed)), "waiting for the deletion of Machines: m1, m2, m3");
    observed.machines.clear();
    assert_eq!(decided(&observed), Step::Act(Action::Finish));
}
