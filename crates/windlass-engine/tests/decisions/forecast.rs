//! Where an upgrade stops until its owner lets it go on, told from a manifest.
#![expect(clippy::unwrap_used, reason = "test helpers")]

use serde_json::{Value, json};
use windlass_api::cluster::Cluster;
use windlass_engine::topology::{Observed, PlanSource, stops};
use windlass_plan::Source;
use windlass_version::Version;

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

fn told(annotations: Value, entry: Value) -> Vec<(String, &'static str)> {
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": {"name": "c1", "annotations": annotations},
        "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.30.0", "workers": {
            "machineDeployments": [
                {"class": "w", "name": "md-0", "metadata": {"annotations": entry}},
                {"class": "w", "name": "md-1"},
            ],
        }}},
    }))
    .unwrap();
    let source = Source::versions((30..=34).map(|minor| format!("v1.{minor}.0")));
    let observed =
        Observed::of_manifest(&cluster, &v("v1.30.0"), &v("v1.34.0"), PlanSource::Known(source)).unwrap();
    stops(&observed).into_iter().map(|stop| (stop.before.to_string(), stop.waiting.reason())).collect()
}

#[test]
fn an_upgrade_that_nothing_holds_does_not_stop() {
    assert_eq!(told(json!({}), json!({})), []);
}

#[test]
fn every_place_is_told_in_its_order() {
    let key = |name: &str| format!("upgrade.windlass.dev/{name}");
    let stop = |before: &str, reason| (before.to_owned(), reason);
    for (annotations, entry, expected) in [
        (json!({key("hold"): "x"}), json!({}), vec![stop("cluster/v1.34.0", "UpgradeHeld")]),
        (
            json!({key("hold-at"): "v1.31.0"}),
            json!({}),
            vec![stop("control-plane/v1.32.0", "UpgradeHeldAtVersion")],
        ),
        (
            json!({key("hold-at"): "v1.30.0"}),
            json!({}),
            vec![stop("control-plane/v1.31.0", "UpgradeHeldAtVersion")],
        ),
        (
            json!({key("hold"): "", key("require-approval"): "workers", key("hold-at"): "v1.33.0"}),
            json!({}),
            vec![
                stop("cluster/v1.34.0", "UpgradeHeld"),
                stop("workers/v1.33.0", "UpgradeApprovalNeeded"),
                stop("control-plane/v1.34.0", "UpgradeHeldAtVersion"),
                stop("workers/v1.34.0", "UpgradeApprovalNeeded"),
            ],
        ),
        (
            json!({key("require-approval"): "cluster,groups",
                key("approved"): "MachineDeployment/md-0/v1.33.0,cluster/v1.33.0"}),
            json!({}),
            vec![
                stop("cluster/v1.34.0", "UpgradeApprovalNeeded"),
                stop("MachineDeployment/md-1/v1.33.0", "UpgradeApprovalNeeded"),
                stop("MachineDeployment/md-0/v1.34.0", "UpgradeApprovalNeeded"),
                stop("MachineDeployment/md-1/v1.34.0", "UpgradeApprovalNeeded"),
            ],
        ),
        (
            json!({"before-upgrade.hook.cluster.cluster.x-k8s.io/backup": ""}),
            json!({"topology.cluster.x-k8s.io/defer-upgrade": ""}),
            vec![
                stop("cluster/v1.34.0", "UpgradeHeld"),
                stop("MachineDeployment/md-0/v1.33.0", "UpgradeDeferred"),
            ],
        ),
        (
            json!({}),
            json!({"topology.cluster.x-k8s.io/hold-upgrade-sequence": ""}),
            vec![stop("MachineDeployment/md-0/v1.33.0", "UpgradeSequenceHeld")],
        ),
    ] {
        assert_eq!(told(annotations.clone(), entry.clone()), expected, "{annotations} {entry}");
    }
}
