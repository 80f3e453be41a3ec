//! A whole upgrade with all real controllers, in virtual time.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_simulate::{
    OperationRecord, SimulatedExtension, TopologyManifests, UpgradeError, UpgradeOptions, UpgradeReport,
    UpgradeRequest, UpgradeSteering, simulate_upgrade, upgrade,
};

fn upgraded(seed: u64) -> UpgradeReport {
    let manifests = TopologyManifests::new("c1", "v1.29.0", 1)
        .machine_deployment("web", 1)
        .versions((29..=33).map(|minor| format!("v1.{minor}.0")));
    let request = UpgradeRequest {
        manifests: manifests.objects(),
        to: "v1.33.0".to_owned(),
        seed,
        live_extensions: false,
        steering: UpgradeSteering::default(),
    };
    simulate_upgrade(&request).unwrap_or_else(|error| unreachable!("{error}"))
}

#[test]
fn workers_skip_what_they_may_and_hooks_and_machines_are_reported() {
    let report = upgraded(7);
    let steps: Vec<String> = report
        .operations
        .iter()
        .map(|step| format!("{} {} -> {}", step.group.as_deref().unwrap_or("cp"), step.from, step.to))
        .collect();
    assert_eq!(
        steps,
        [
            "cp v1.29.0 -> v1.30.0",
            "cp v1.30.0 -> v1.31.0",
            "cp v1.31.0 -> v1.32.0",
            "web v1.29.0 -> v1.32.0",
            "cp v1.32.0 -> v1.33.0",
            "web v1.32.0 -> v1.33.0",
        ]
    );
    assert_eq!(report.worst_skew, 3);
    // The control plane's machine in four steps, the worker in two.
    assert_eq!((report.machines.created, report.machines.deleted), (6, 6));
    assert_eq!(report.hooks.len(), 14);
    assert!(report.operations.windows(2).all(|pair| pair[0].end_seconds <= pair[1].start_seconds));
}

/// A class with a patch for a field that the control plane's template does not have.
fn with_broken_patch(enabled_if: &str) -> Vec<Value> {
    let manifests = TopologyManifests::new("c1", "v1.31.0", 1).versions(["v1.31.0", "v1.32.0"]);
    let mut objects = manifests.objects();
    let selector = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
        "matchResources": {"controlPlane": true}});
    let replace = json!({"op": "replace", "path": "/spec/template/spec/nothing/here", "value": "x"});
    for object in objects.iter_mut().filter(|object| object["kind"] == "ClusterClass") {
        object["spec"]["patches"] = json!([{"name": "broken", "enabledIf": enabled_if,
            "definitions": [{"selector": selector, "jsonPatches": [replace]}]}]);
    }
    objects
}

/// The outcome, and how much virtual time it took. A week of it would be more than a minute of a user's.
async fn tried(manifests: &[Value]) -> (Result<UpgradeReport, UpgradeError>, Duration) {
    let options = UpgradeOptions {
        to: "v1.32.0".to_owned(),
        seed: 1,
        limit: Duration::from_secs(7 * 24 * 3600),
        extension: SimulatedExtension::new(),
        steering: UpgradeSteering::default(),
    };
    let begun = tokio::time::Instant::now();
    let outcome = upgrade(manifests, &options).await;
    (outcome, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_topology_that_can_never_be_reconciled_is_not_waited_for() {
    let mut even = TopologyManifests::new("c1", "v1.31.0", 3).objects();
    for object in even.iter_mut().filter(|object| object["kind"] == "Cluster") {
        object["spec"]["topology"]["controlPlane"]["replicas"] = json!(2);
    }
    for (manifests, why) in
        [(with_broken_patch("true"), "there is no field \"nothing\""), (even, "2 is even")]
    {
        let (outcome, took) = tried(&manifests).await;
        let error = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        let begins = "the cluster was not created: cannot reconcile the topology of default/c1: ";
        assert!(error.starts_with(begins) && error.contains(why), "{error}");
        assert!(took < Duration::from_secs(3600), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_the_class_breaks_stops_there_and_says_why() {
    let at_target = "{{ eq .builtin.controlPlane.version \"v1.32.0\" }}";
    let (outcome, took) = tried(&with_broken_patch(at_target)).await;
    let stopped =
        outcome.ok().and_then(|report| report.stopped).map(|stop| stop.waits_for).unwrap_or_default();
    assert!(stopped.contains("there is no field \"nothing\""), "{stopped}");
    assert!(took < Duration::from_secs(3600), "{took:?}");
}

#[test]
fn a_target_without_a_path_is_refused_at_once() {
    let manifests = TopologyManifests::new("c1", "v1.31.0", 1).versions(["v1.31.0", "v1.32.0"]);
    let request = UpgradeRequest {
        manifests: manifests.objects(),
        to: "v1.34.0".to_owned(),
        seed: 1,
        live_extensions: false,
        steering: UpgradeSteering::default(),
    };
    let refused = simulate_upgrade(&request);
    assert!(
        matches!(&refused, Err(UpgradeError::Refused(error)) if error.to_string().contains("v1.34.0")),
        "{refused:?}"
    );
}

fn steered(annotations: &[(&str, &str)], steering: UpgradeSteering) -> Result<UpgradeReport, UpgradeError> {
    let manifests = TopologyManifests::new("c1", "v1.29.0", 1)
        .machine_deployment("web", 1)
        .versions((29..=34).map(|minor| format!("v1.{minor}.0")));
    let mut manifests = manifests.objects();
    for cluster in manifests.iter_mut().filter(|object| object["kind"] == "Cluster") {
        for (key, value) in annotations {
            cluster["metadata"]["annotations"][format!("upgrade.windlass.dev/{key}")] = (*value).into();
        }
    }
    let to = "v1.33.0".to_owned();
    simulate_upgrade(&UpgradeRequest { manifests, to, seed: 7, live_extensions: false, steering })
}

fn steps(report: &UpgradeReport) -> Vec<String> {
    let step = |step: &OperationRecord| format!("{} {}", step.group.as_deref().unwrap_or("cp"), step.to);
    report.operations.iter().map(step).collect()
}

#[test]
fn an_upgrade_that_is_held_ends_where_it_stops() {
    for (annotations, reason, done) in [
        (&[("hold", "until Monday")][..], "UpgradeHeld", &[][..]),
        (&[("hold-at", "v1.31.0")], "UpgradeHeldAtVersion", &["cp v1.30.0", "cp v1.31.0"]),
        (
            &[("require-approval", "workers")],
            "UpgradeApprovalNeeded",
            &["cp v1.30.0", "cp v1.31.0", "cp v1.32.0"],
        ),
    ] {
        let report = steered(annotations, UpgradeSteering::default()).unwrap();
        assert_eq!(steps(&report), done, "{annotations:?}");
        let stopped = report.stopped.unwrap();
        assert_eq!(stopped.reason, reason);
        assert!(stopped.waits_for.contains("upgrade.windlass.dev/"), "{}", stopped.waits_for);
        assert!(stopped.at_seconds < 3600, "it is not waited for the end of time: {}", stopped.at_seconds);
    }
}

#[test]
fn approvals_are_given_as_they_are_needed() {
    let steering = UpgradeSteering { approve_after: Some(Duration::from_secs(1800)), ..Default::default() };
    let report = steered(&[("require-approval", "all")], steering).unwrap();
    let given: Vec<&str> = report.approvals.iter().map(|given| given.step.as_str()).collect();
    assert_eq!(
        given,
        [
            "cluster/v1.33.0",
            "control-plane/v1.30.0",
            "control-plane/v1.31.0",
            "control-plane/v1.32.0",
            "workers/v1.32.0",
            "MachineDeployment/web/v1.32.0",
            "control-plane/v1.33.0",
            "workers/v1.33.0",
            "MachineDeployment/web/v1.33.0",
        ]
    );
    assert_eq!((steps(&report).len(), report.stopped.as_ref()), (6, None));
    assert!(report.approvals.iter().zip(1..).all(|(given, count)| given.at_seconds >= count * 1800));
}

#[test]
fn a_target_that_changes_in_mid_chain_is_followed() {
    let retarget =
        |text: &str| UpgradeSteering { retargets: vec![text.parse().unwrap()], ..UpgradeSteering::default() };
    let lowered = steered(&[], retarget("v1.31.0@control-plane/v1.31.0")).unwrap();
    assert_eq!(steps(&lowered), ["cp v1.30.0", "cp v1.31.0", "web v1.31.0"]);
    assert_eq!(lowered.retargets.len(), 1);
    let raised = steered(&[], retarget("v1.34.0@1s")).unwrap();
    assert_eq!(steps(&raised).last().map(String::as_str), Some("web v1.34.0"));
    assert_eq!(raised.retargets[0].at_seconds, 1);
    // What holds one target does not hold another.
    let freed = steered(&[("hold-at", "v1.31.0")], retarget("v1.31.0@2h")).unwrap();
    assert_eq!((steps(&freed).len(), freed.stopped), (3, None));
    let late = steered(&[], retarget("v1.34.0@control-plane/v1.34.0")).unwrap();
    assert_eq!(late.retargets, []);
    assert_eq!(
        late.warnings,
        ["the target v1.34.0@control-plane/v1.34.0 was not set: the upgrade ended before"]
    );
    let refused = steered(&[], retarget("v1.30.0@control-plane/v1.31.0"));
    assert!(
        matches!(&refused, Err(UpgradeError::Refused(error)) if error.to_string().contains("v1.31.0 or newer")),
        "{refused:?}"
    );
}
