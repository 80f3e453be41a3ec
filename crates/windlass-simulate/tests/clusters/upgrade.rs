//! A whole upgrade with all real controllers, in virtual time.

use std::time::Duration;

use windlass_simulate::{
    OperationRecord, TopologyManifests, UpgradeError, UpgradeReport, UpgradeRequest, UpgradeSteering,
    simulate_upgrade,
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
