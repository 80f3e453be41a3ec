use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::cluster::{
    ClusterStatus, MachineDeploymentStatus, MachineHealthCheckStatus, MachinePoolStatus, MachineSetStatus,
    MachineStatus,
};
use windlass_api::control_plane::KubeadmControlPlaneStatus;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A status with these conditions of v1beta2: type, status, reason, message.
fn status<S: serde::de::DeserializeOwned>(conditions: &[(&str, &str, &str, &str)], more: Value) -> S {
    let mut status = more;
    let listed = conditions.iter().map(|(type_, status, reason, message)| {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "1970-01-01T00:00:00Z"})
    });
    status["conditions"] = listed.collect();
    serde_json::from_value(status).unwrap()
}

/// The conditions of v1beta1 as lines: type, status, severity, reason, message.
fn lines(deprecated: Option<&AnyObject>) -> Vec<String> {
    let all = deprecated.unwrap().0["v1beta1"]["conditions"].as_array().unwrap().clone();
    let line = |condition: &Value| {
        let fields = ["type", "status", "severity", "reason", "message"];
        let words: Vec<&str> = fields.iter().filter_map(|field| condition.get(field)?.as_str()).collect();
        words.join(" ")
    };
    all.iter().map(line).collect()
}

#[test]
fn a_cluster_says_what_providers_of_the_old_contract_ask() {
    let mut coming: ClusterStatus = status(
        &[
            ("InfrastructureReady", "False", "NotReady", "no network"),
            ("ControlPlaneAvailable", "Unknown", "AvailableUnknown", ""),
            ("ControlPlaneInitialized", "False", "NotInitialized", "waiting"),
            ("TopologyReconciled", "False", "ReconcileFailed", "no class"),
        ],
        json!({}),
    );
    cluster(&mut coming, at(5));
    assert_eq!(
        lines(coming.deprecated.as_ref()),
        [
            "Ready False Info NotReady no network",
            "ControlPlaneInitialized False Info NotInitialized waiting",
            "ControlPlaneReady Unknown AvailableUnknown",
            "InfrastructureReady False Info NotReady no network",
            "TopologyReconciled False Error ReconcileFailed no class",
        ]
    );
    let mut upgraded: ClusterStatus = status(
        &[
            ("InfrastructureReady", "True", "Ready", ""),
            ("ControlPlaneAvailable", "True", "Available", ""),
            ("ControlPlaneInitialized", "True", "Initialized", ""),
            ("TopologyReconciled", "False", "ClusterUpgrading", "waiting for a"),
        ],
        json!({"initialization": {"infrastructureProvisioned": true}}),
    );
    cluster(&mut upgraded, at(5));
    assert_eq!(
        lines(upgraded.deprecated.as_ref()),
        [
            "Ready True",
            "ControlPlaneInitialized True",
            "ControlPlaneReady True",
            "InfrastructureReady True",
            "TopologyReconciled False Info ClusterUpgrading",
        ],
        "an upgrade leaves a Cluster ready"
    );
}

#[test]
fn the_time_moves_with_the_status_and_what_is_not_derived_stays() {
    let before = json!({"other": 1, "v1beta1": {"failureReason": "Gone", "conditions": [
        {"type": "Mine", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"},
        {"type": "InfrastructureReady", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"},
        {"type": "TopologyReconciled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:03Z"},
        {"type": "ControlPlaneInitialized", "status": "False", "lastTransitionTime": "1970-01-01T00:00:04Z"},
    ]}});
    let mut now: ClusterStatus = status(
        &[
            ("InfrastructureReady", "True", "Ready", "again"),
            ("ControlPlaneInitialized", "True", "Initialized", ""),
        ],
        json!({"deprecated": before}),
    );
    cluster(&mut now, at(9));
    let expected = json!({"other": 1, "v1beta1": {"failureReason": "Gone", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"},
        {"type": "ControlPlaneInitialized", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"},
        {"type": "InfrastructureReady", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"},
        {"type": "Mine", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"},
    ]}});
    assert_eq!(serde_json::to_value(&now.deprecated).unwrap(), expected);
    let first = now.clone();
    cluster(&mut now, at(20));
    assert_eq!(now, first, "nothing is written twice");
}

#[test]
fn a_machine_goes_through_the_steps_of_its_deletion() {
    let case = |reason: &str| {
        let mut going: MachineStatus = status(
            &[
                ("BootstrapConfigReady", "True", "Ready", ""),
                ("InfrastructureReady", "True", "Ready", ""),
                ("Deleting", "True", reason, "so"),
            ],
            json!({}),
        );
        machine(&mut going, at(0));
        let all = lines(going.deprecated.as_ref());
        all.into_iter().filter(|line| !line.contains("BootstrapReady") && !line.contains("Infra")).collect()
    };
    let cases: [(&str, Vec<&str>); 5] = [
        (
            "WaitingForPreDrainHook",
            vec!["Ready True", "PreDrainDeleteHookSucceeded False Info WaitingForPreDrainHook so"],
        ),
        (
            "DrainingNode",
            vec![
                "Ready False Info DrainingNode so",
                "DrainingSucceeded False Info DrainingNode so",
                "PreDrainDeleteHookSucceeded True",
            ],
        ),
        (
            "WaitingForPreTerminateHook",
            vec![
                "Ready True",
                "DrainingSucceeded True",
                "PreDrainDeleteHookSucceeded True",
                "PreTerminateDeleteHookSucceeded False Info WaitingForPreTerminateHook so",
                "VolumeDetachSucceeded True",
            ],
        ),
        (
            "WaitingForInfrastructureDeletion",
            vec![
                "Ready True",
                "DrainingSucceeded True",
                "PreDrainDeleteHookSucceeded True",
                "PreTerminateDeleteHookSucceeded True",
                "VolumeDetachSucceeded True",
            ],
        ),
        ("Deleting", vec!["Ready True"]),
    ];
    for (reason, expected) in cases {
        let found: Vec<String> = case(reason);
        assert_eq!(found, expected, "{reason}");
    }
}

#[test]
fn a_machine_says_that_it_is_sick_and_what_is_done_about_it() {
    let mut sick: MachineStatus = status(
        &[
            ("BootstrapConfigReady", "True", "Ready", ""),
            ("InfrastructureReady", "False", "NotReady", "gone"),
            ("NodeHealthy", "Unknown", "NodeDoesNotExist", "waiting"),
            ("HealthCheckSucceeded", "False", "UnhealthyNode", "not ready"),
            ("OwnerRemediated", "False", "WaitingForRemediation", ""),
        ],
        json!({"initialization": {"infrastructureProvisioned": true}}),
    );
    machine(&mut sick, at(0));
    assert_eq!(
        lines(sick.deprecated.as_ref()),
        [
            "Ready False Warning NotReady gone",
            "BootstrapReady True",
            "HealthCheckSucceeded False Warning UnhealthyNode not ready",
            "InfrastructureReady False Warning NotReady gone",
            "NodeHealthy False Info NodeDoesNotExist waiting",
            "OwnerRemediated False Warning WaitingForRemediation",
        ]
    );
    sick.conditions.retain(|condition| condition.type_ != "OwnerRemediated");
    machine(&mut sick, at(0));
    assert!(!lines(sick.deprecated.as_ref()).iter().any(|line| line.starts_with("OwnerRemediated")));
}

#[test]
fn groups_of_machines_have_their_old_conditions_and_counters() {
    let counts = json!({"replicas": 4, "readyReplicas": 3, "availableReplicas": 2, "upToDateReplicas": 1});
    let legacy = |deprecated: Option<AnyObject>| deprecated.unwrap().0["v1beta1"].clone();

    let mut deployment: MachineDeploymentStatus = status(
        &[("Available", "False", "NotAvailable", "2 of 3"), ("MachinesReady", "True", "Ready", "")],
        counts.clone(),
    );
    machine_deployment(&mut deployment, at(0));
    let found = [
        "Ready False Warning NotAvailable 2 of 3",
        "Available False Warning NotAvailable 2 of 3",
        "MachineSetReady True",
    ];
    assert_eq!(lines(deployment.deprecated.as_ref()), found);
    let written = legacy(deployment.deprecated);
    assert_eq!(
        (
            &written["updatedReplicas"],
            &written["readyReplicas"],
            &written["availableReplicas"],
            &written["unavailableReplicas"]
        ),
        (&json!(1), &json!(3), &json!(2), &json!(2))
    );

    let mut set: MachineSetStatus = status(
        &[("ScalingUp", "True", "ScalingUp", "from 3 to 4"), ("MachinesReady", "True", "Ready", "")],
        counts.clone(),
    );
    machine_set(&mut set, &["no template".to_owned()], at(0));
    let found = [
        "Ready False Error MachineCreationFailed no template",
        "MachinesCreated False Error MachineCreationFailed no template",
        "MachinesReady True",
        "Resized False Warning ScalingUp from 3 to 4",
    ];
    assert_eq!(lines(set.deprecated.as_ref()), found);
    assert_eq!(legacy(set.deprecated)["fullyLabeledReplicas"], 4);

    let mut pool: MachinePoolStatus = status(
        &[("Available", "True", "Available", ""), ("BootstrapConfigReady", "True", "Ready", "")],
        counts.clone(),
    );
    machine_pool(&mut pool, at(0));
    assert_eq!(lines(pool.deprecated.as_ref()), ["Ready True", "BootstrapReady True", "ReplicasReady True"]);
    assert_eq!(legacy(pool.deprecated)["unavailableReplicas"], 2);

    let mut plane: KubeadmControlPlaneStatus = status(
        &[
            ("Initialized", "True", "Initialized", ""),
            ("MachinesUpToDate", "False", "NotUpToDate", "* Machine a"),
            ("ScalingUp", "False", "NotScalingUp", ""),
            ("ScalingDown", "False", "NotScalingDown", ""),
            ("EtcdClusterHealthy", "False", "NotHealthy", "no quorum"),
        ],
        counts,
    );
    control_plane(&mut plane, at(0));
    let found = [
        "Ready False Warning RollingUpdateInProgress * Machine a",
        "Available True",
        "EtcdClusterHealthy False Warning NotHealthy no quorum",
        "MachinesSpecUpToDate False Warning RollingUpdateInProgress * Machine a",
        "Resized True",
    ];
    assert_eq!(lines(plane.deprecated.as_ref()), found);
    assert_eq!(legacy(plane.deprecated)["unavailableReplicas"], 1);

    let mut check: MachineHealthCheckStatus =
        status(&[("RemediationAllowed", "False", "TooManyUnhealthy", "3 of 3")], json!({}));
    health_check(&mut check, at(0));
    assert_eq!(
        lines(check.deprecated.as_ref()),
        ["RemediationAllowed False Warning TooManyUnhealthy 3 of 3"]
    );
}
