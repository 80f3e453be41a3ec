//! `windlass check` on the management cluster of another process.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::process::{Up, example, windlass};

/// The exit code and the document.
fn check(directory: &Path, up: &Up, more: &[&str]) -> (Option<i32>, Value) {
    let kubeconfig = up.kubeconfig.to_str().unwrap();
    let usual = ["check", "--kubeconfig", kubeconfig, "-o", "json"];
    let output = windlass(directory, &[&usual, more].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let document = serde_json::from_str(&text);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), document.unwrap_or_else(|error| panic!("{error}: {text}{said}")))
}

#[test]
fn a_check_finds_what_is_there_and_would_write_nothing_to_a_settled_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(directory.path(), &[]);
    up.says_after(&["apply", "-f", "-"], &example("quickstart.yaml"));
    // Everything is there, and nothing is on its way any more.
    let replicas =
        "jsonpath={range .items[*]}{.kind}={.status.availableReplicas},{.status.upToDateReplicas} {end}";
    let done = |said: &str| {
        ["KubeadmControlPlane=3,3", "MachineDeployment=2,2"].iter().all(|part| said.contains(part))
    };
    up.until(
        Duration::from_mins(2),
        &["get", "kubeadmcontrolplanes,machinedeployments", "-o", replicas],
        done,
    );
    let condition = "jsonpath={.status.conditions[?(@.type==\"TopologyReconciled\")].status}";
    up.until(Duration::from_mins(2), &["get", "cluster", "quickstart", "-o", condition], |said| {
        said == "True"
    });

    let (code, document) = check(directory.path(), &up, &[]);
    assert_eq!(code, Some(0), "{document:#}");
    let cluster = &document["clusters"][0];
    assert_eq!(cluster["name"], "default/quickstart");
    assert_eq!((&cluster["state"], &cluster["machines"]), (&"settled".into(), &5.into()));
    assert_eq!(document["wouldWrite"].as_array().unwrap().len(), 0, "{document:#}");
    assert_eq!(document["next"], "windlass run --dry-run");
    let kinds: Vec<&str> =
        document["kinds"].as_array().unwrap().iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"Cluster") && kinds.contains(&"KubeadmControlPlane"), "{kinds:?}");

    // Upstream's core runs: that blocks, unless its work is left to it.
    let lease = "apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: controller-leader-election-capi, namespace: default}
spec: {holderIdentity: capi-controller-manager-0, leaseDurationSeconds: 15, renewTime: \"2999-01-01T00:00:00.000000Z\"}
";
    up.says_after(&["apply", "-f", "-"], lease);
    let (code, document) = check(directory.path(), &up, &["--without-dry-run"]);
    assert_eq!(code, Some(3), "{document:#}");
    assert_eq!(document["findings"][0]["level"], "blocks");
    assert_eq!(document["findings"][0]["about"], "Lease default/controller-leader-election-capi");
    assert_eq!(document["wouldWrite"], Value::Null);

    let kubeconfig = up.kubeconfig.to_str().unwrap();
    let output = windlass(directory.path(), &["check", "--kubeconfig", kubeconfig]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["Installed\n", "Running\n", "Clusters\n", "Would write at once", "Findings\n", "\nNext: "] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}
