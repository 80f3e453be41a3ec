use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineHealthCheck};
use windlass_api::conditions as types;

use super::*;
use crate::condition;

/// Noon of the day on which everything here happens.
const NOON: i64 = 1_767_268_800;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOON + seconds).unwrap()
}

fn check(spec: Value) -> MachineHealthCheck {
    serde_json::from_value(json!({"metadata": {"name": "mhc", "generation": 1}, "spec": spec})).unwrap()
}

fn ready_check() -> MachineHealthCheck {
    check(json!({"checks": {
        "nodeStartupTimeoutSeconds": 600,
        "unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 300}],
        "unhealthyMachineConditions": [{"type": "Updating", "status": "True", "timeoutSeconds": 60}],
    }}))
}

fn cluster(initialized_at: Option<i64>) -> Cluster {
    let status = match initialized_at {
        None => json!({}),
        Some(second) => json!({
            "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
            "conditions": [{
                "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "",
                "lastTransitionTime": at(second),
            }],
        }),
    };
    serde_json::from_value(json!({"metadata": {"name": "c"}, "status": status})).unwrap()
}

fn machine(name: &str, extra: Value) -> Machine {
    let mut value =
        json!({"metadata": {"name": name, "creationTimestamp": at(0)}, "spec": {"clusterName": "c"}});
    for (key, fields) in extra.as_object().unwrap() {
        for (field, content) in fields.as_object().unwrap() {
            value[key][field] = content.clone();
        }
    }
    serde_json::from_value(value).unwrap()
}

fn node(ready: &str, since: i64) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n", "creationTimestamp": at(0)},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at(since)}]},
    }))
    .unwrap()
}

#[test]
fn a_node_that_is_not_ready_makes_its_machine_unhealthy_after_a_while() {
    let (check, cluster) = (ready_check(), cluster(Some(0)));
    let machine = machine("m", json!({"status": {"nodeRef": {"name": "n"}}}));
    let look = |node: NodeState<'_>, now: i64| health(&machine, node, &cluster, &check.spec.checks, at(now));
    let (well, ill) = (node("True", 0), node("False", 100));
    assert_eq!(look(NodeState::Found(&well), 5000), Health::Healthy { look_again: None });
    assert_eq!(look(NodeState::Found(&ill), 399), Health::Healthy { look_again: Some(at(400)) });
    let Health::Unhealthy(why) = look(NodeState::Found(&ill), 400) else { panic!() };
    assert_eq!(why.to_string(), "Condition Ready has been False for more than 300 s on the Node");
    assert_eq!(why.reason(), "UnhealthyNode");
    assert_eq!(
        look(NodeState::NoAnswer, 9000),
        Health::Pending { look_again: None },
        "silence is no illness"
    );
    let Health::Unhealthy(why) = look(NodeState::Gone, 1) else { panic!() };
    assert_eq!((why.reason(), why.to_string().as_str()), ("NodeDeleted", "Node n has been deleted"));
}

#[test]
fn a_machine_has_time_to_become_a_node_once_it_could() {
    let check = ready_check();
    let machine = machine("m", json!({}));
    let look =
        |cluster: &Cluster, now: i64| health(&machine, NodeState::None, cluster, &check.spec.checks, at(now));
    assert_eq!(look(&cluster(None), 90_000), Health::Pending { look_again: None }, "there is no API server");
    let late = cluster(Some(1000));
    assert_eq!(look(&late, 1599), Health::Pending { look_again: Some(at(1600)) });
    let Health::Unhealthy(why) = look(&late, 1600) else { panic!() };
    assert_eq!((why.reason(), why.to_string().as_str()), ("NodeStartupTimeout", "No Node within 600 s"));

    let patient = super::tests::check(json!({"checks": {"nodeStartupTimeoutSeconds": 0}}));
    let never = health(&machine, NodeState::None, &late, &patient.spec.checks, at(900_000));
    assert_eq!(never, Health::Pending { look_again: None });
    let unsaid = super::tests::check(json!({}));
    let default = health(&machine, NodeState::None, &late, &unsaid.spec.checks, at(1599));
    assert_eq!(default, Health::Pending { look_again: Some(at(1600)) }, "ten minutes if nobody says");
}

#[test]
fn an_update_that_takes_too_long_and_a_wish_of_the_user_are_unhealthy() {
    let (check, cluster) = (ready_check(), cluster(Some(0)));
    let well = node("True", 0);
    let updating = machine(
        "m",
        json!({"status": {"nodeRef": {"name": "n"}, "conditions": [{
            "type": "Updating", "status": "True", "reason": "InPlaceUpdating", "message": "", "lastTransitionTime": at(0),
        }]}}),
    );
    let look = |now: i64| health(&updating, NodeState::Found(&well), &cluster, &check.spec.checks, at(now));
    assert_eq!(look(59), Health::Healthy { look_again: Some(at(60)) });
    assert!(matches!(look(60), Health::Unhealthy(Unhealthy::MachineCondition(_))));

    let wished =
        machine("m", json!({"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}}));
    let now = health(&wished, NodeState::NoAnswer, &cluster, &check.spec.checks, at(0));
    assert_eq!(now, Health::Unhealthy(Unhealthy::Requested));
}

#[test]
fn limits_are_numbers_shares_or_ranges() {
    let allowance = |trigger: Value, expected: u32, unhealthy: u32| {
        let trigger = serde_json::from_value(trigger).unwrap();
        Allowance::of(&trigger, expected, unhealthy).map(|it| (it.allowed, it.left))
    };
    assert_eq!(allowance(json!({}), 3, 3), Ok((true, 0)), "all of them, if nobody says");
    let most = |limit: Value| json!({"unhealthyLessThanOrEqualTo": limit});
    assert_eq!(allowance(most(json!(1)), 3, 1), Ok((true, 0)));
    assert_eq!(allowance(most(json!(1)), 3, 2), Ok((false, 0)));
    assert_eq!(allowance(most(json!("40%")), 3, 1), Ok((true, 0)), "rounded down");
    assert_eq!(allowance(most(json!("40%")), 3, 2), Ok((false, 0)));
    assert_eq!(allowance(most(json!(0)), 3, 0), Ok((true, 0)));
    let range = json!({"unhealthyInRange": "[2-4]", "unhealthyLessThanOrEqualTo": 0});
    assert_eq!(allowance(range.clone(), 9, 1), Ok((false, 3)));
    assert_eq!(allowance(range.clone(), 9, 3), Ok((true, 1)));
    assert_eq!(allowance(range, 9, 5), Ok((false, 0)));
    for wrong in
        [json!({"unhealthyInRange": "[4-2]"}), json!({"unhealthyInRange": "2-4"}), most(json!("two"))]
    {
        assert!(allowance(wrong, 9, 1).is_err());
    }
}

/// A health check on machines of which the last ones are ill.
fn decided(check: &MachineHealthCheck, machines: &[Machine], ill: usize, now: i64) -> Decision {
    let cluster = cluster(Some(0));
    let (well, bad) = (node("True", 0), node("False", 0));
    let first_ill = machines.len() - ill;
    let targets = machines.iter().enumerate().map(|(index, machine)| Target {
        machine,
        node: NodeState::Found(if index < first_ill { &well } else { &bad }),
    });
    let observed = Observed { check, cluster: &cluster, targets: targets.collect() };
    decide(&observed, at(now)).unwrap()
}

fn machines(count: usize) -> Vec<Machine> {
    (0..count)
        .map(|index| machine(&format!("m{index}"), json!({"status": {"nodeRef": {"name": "n"}}})))
        .collect()
}

#[test]
fn unhealthy_machines_are_marked_for_their_owner() {
    let (check, machines) = (ready_check(), machines(3));
    let decision = decided(&check, &machines, 1, 1000);
    assert_eq!((decision.status.expected_machines, decision.status.current_healthy), (Some(3), Some(2)));
    assert_eq!(decision.status.remediations_allowed, Some(2));
    assert_eq!(decision.status.targets, ["m0", "m1", "m2"]);
    assert_eq!(decision.unhealthy.len(), 1);
    let mark = decision.marks.iter().find(|mark| mark.machine == "m2").unwrap();
    assert_eq!(mark.remedy, Remedy::Owner);
    assert!(condition::is_false(&mark.conditions, types::HEALTH_CHECK_SUCCEEDED));
    assert!(condition::is_false(&mark.conditions, types::OWNER_REMEDIATED));
    let healthy = decision.marks.iter().find(|mark| mark.machine == "m0").unwrap();
    assert!(condition::is_true(&healthy.conditions, types::HEALTH_CHECK_SUCCEEDED));
}

#[test]
fn what_the_owner_says_of_remediation_is_left_to_it_and_goes_when_the_machine_recovers() {
    let check = ready_check();
    let mut machines = machines(1);
    let first = decided(&check, &machines, 1, 1000);
    machines[0].status.conditions = first.marks[0].conditions.clone();
    let deferred = condition::Finding::no(types::OWNER_REMEDIATED, "RemediationDeferred").because("later");
    condition::set(&mut machines[0].status.conditions, deferred, None, at(1001));
    assert_eq!(decided(&check, &machines, 1, 1002).marks, [], "marked already");

    let recovered = decided(&check, &machines, 0, 1003);
    assert!(condition::is_true(&recovered.marks[0].conditions, types::HEALTH_CHECK_SUCCEEDED));
    assert_eq!(condition::find(&recovered.marks[0].conditions, types::OWNER_REMEDIATED), None);
}

#[test]
fn too_many_unhealthy_machines_are_said_and_not_remediated() {
    let mut check = ready_check();
    check.spec.remediation.trigger_if =
        serde_json::from_value(json!({"unhealthyLessThanOrEqualTo": "40%"})).unwrap();
    let decision = decided(&check, &machines(3), 2, 1000);
    let allowed = condition::find(&decision.status.conditions, types::REMEDIATION_ALLOWED).unwrap();
    assert_eq!((allowed.status.as_str(), allowed.reason.as_str()), ("False", "TooManyUnhealthy"));
    assert_eq!(allowed.message, "Remediation is not allowed: 2 Machines are unhealthy, it is for at most 1");
    for mark in decision.marks.iter().filter(|mark| mark.machine != "m0") {
        assert!(condition::is_false(&mark.conditions, types::HEALTH_CHECK_SUCCEEDED), "that is still true");
        assert_eq!(mark.remedy, Remedy::None);
        assert_eq!(condition::find(&mark.conditions, types::OWNER_REMEDIATED), None);
    }
}

#[test]
fn with_a_template_somebody_else_remediates() {
    let mut check = ready_check();
    let template = json!({"apiVersion": "r/v1", "kind": "RebootTemplate", "name": "t"});
    check.spec.remediation.template_ref = Some(serde_json::from_value(template).unwrap());
    let mut machines = machines(1);
    let decision = decided(&check, &machines, 1, 1000);
    assert_eq!(decision.marks[0].remedy, Remedy::External);
    assert!(condition::is_false(&decision.marks[0].conditions, types::EXTERNALLY_REMEDIATED));
    assert_eq!(condition::find(&decision.marks[0].conditions, types::OWNER_REMEDIATED), None);
    machines[0].status.conditions = decision.marks[0].conditions.clone();
    assert_eq!(decided(&check, &machines, 0, 1001).marks[0].remedy, Remedy::ExternalDone);
}

#[test]
fn users_can_have_a_machine_left_alone() {
    for (annotation, expected) in
        [("cluster.x-k8s.io/skip-remediation", true), ("cluster.x-k8s.io/paused", true), ("other", false)]
    {
        let machine = machine("m", json!({"metadata": {"annotations": {annotation: ""}}}));
        assert_eq!(is_left_alone(&machine), expected, "{annotation}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn looking_when_asked_to_finds_what_looking_all_the_time_would(
        bad_since in 0_i64..1000, timeout in 0_i32..1000, start in 0_i64..2000,
    ) {
        let check = check(json!({"checks": {
            "unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": timeout}],
        }}));
        let (cluster, node) = (cluster(Some(0)), node("False", bad_since));
        let machine = machine("m", json!({"status": {"nodeRef": {"name": "n"}}}));
        let start = bad_since + start;
        match health(&machine, NodeState::Found(&node), &cluster, &check.spec.checks, at(start)) {
            Health::Healthy { look_again: Some(again) } => {
                prop_assert!(again > at(start));
                let then = health(&machine, NodeState::Found(&node), &cluster, &check.spec.checks, again);
                prop_assert!(matches!(then, Health::Unhealthy(_)));
            }
            Health::Unhealthy(_) => prop_assert!(start >= bad_since + i64::from(timeout)),
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
