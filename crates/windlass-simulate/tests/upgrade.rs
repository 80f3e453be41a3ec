//! A whole upgrade with all real controllers, in virtual time.

use windlass_simulate::{TopologyManifests, UpgradeError, UpgradeReport, UpgradeRequest, simulate_upgrade};

fn upgraded(seed: u64) -> UpgradeReport {
    let manifests = TopologyManifests::new("c1", "v1.29.0", 1)
        .machine_deployment("web", 1)
        .versions((29..=33).map(|minor| format!("v1.{minor}.0")));
    let request = UpgradeRequest {
        manifests: manifests.objects(),
        to: "v1.33.0".to_owned(),
        seed,
        live_extensions: false,
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
    };
    let refused = simulate_upgrade(&request);
    assert!(
        matches!(&refused, Err(UpgradeError::Refused(error)) if error.to_string().contains("v1.34.0")),
        "{refused:?}"
    );
}
