//! The quickstart, with kubectl.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::process::{Up, example};

const PATIENCE: Duration = Duration::from_secs(180);

/// Applies the quickstart, as it stands in the repository.
fn apply_quickstart(up: &Up) {
    let said = up.says_after(&["apply", "-f", "-"], &example("quickstart.yaml"));
    assert!(said.contains("cluster.cluster.x-k8s.io/quickstart created"), "{said}");
}

fn wait(up: &Up, condition: &str) {
    let condition = format!("--for=condition={condition}");
    up.says(&["wait", &condition, "--timeout=180s", "cluster/quickstart"]);
}

#[test]
fn the_quickstart_is_created_upgraded_and_deleted_with_kubectl() {
    let directory = tempfile::tempdir().unwrap();
    let mut up = Up::start(directory.path(), &[]);
    let mode = std::fs::metadata(&up.kubeconfig).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the kubeconfig is the owner's alone");
    assert_eq!(up.kubeconfig, directory.path().join("data/kubeconfig"));
    apply_quickstart(&up);
    wait(&up, "Available");

    let table = up.says(&["get", "clusters"]);
    let (heads, row) = table.split_once('\n').unwrap();
    for (head, value) in [("NAME", "quickstart"), ("CLUSTERCLASS", "quickstart"), ("PHASE", "Provisioned")] {
        let at = heads.find(head).unwrap_or_else(|| panic!("{head} in {table}"));
        assert!(row[at..].starts_with(value), "{table}");
    }
    let described = up.says(&["describe", "cluster", "quickstart"]);
    for line in ["Name:         quickstart", "Kind:         Cluster", "TopologyReconciled"] {
        assert!(described.contains(line), "{line} in {described}");
    }

    let before = up.until(PATIENCE, &["get", "machines", "-o", "name"], |said| said.lines().count() == 5);
    let mut watching = up.kubectl(&["get", "machines", "--watch", "-o", "name"]);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();

    let patch = r#"{"spec":{"topology":{"version":"v1.31.2"}}}"#;
    let said = up.says(&["patch", "cluster", "quickstart", "--type", "merge", "-p", patch]);
    assert_eq!(said, "cluster.cluster.x-k8s.io/quickstart patched\n");
    let is_new = |line: &String| !before.lines().any(|known| known == line.as_str());
    assert!(lines.any(|line| is_new(&line.unwrap())), "a new machine is seen");
    let _ = watching.kill();
    let _ = watching.wait();
    let versions = ["get", "machines", "-o", "jsonpath={.items[*].spec.version}"];
    up.until(PATIENCE, &versions, |said| said == ["v1.31.2"; 5].join(" "));
    wait(&up, "TopologyReconciled");
    let refused = up
        .kubectl(&["patch", "cluster", "quickstart", "--type", "merge", "-p"])
        .arg(r#"{"spec":{"topology":{"version":"v1.29.0"}}}"#)
        .output()
        .unwrap();
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("version"), "admission refuses to go back: {refused}");

    // An editor that is a script, as kubectl edit knows it from the environment.
    let editor = directory.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/replicas: 2/replicas: 3/' \"$1\"\n").unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o700)).unwrap();
    let edited = up.kubectl(&["edit", "cluster", "quickstart"]).env("KUBE_EDITOR", &editor).output().unwrap();
    let edited = String::from_utf8_lossy(&edited.stdout).into_owned();
    assert_eq!(edited, "cluster.cluster.x-k8s.io/quickstart edited\n");
    let ready = ["get", "machinedeployments", "-o", "jsonpath={.items[*].status.availableReplicas}"];
    up.until(PATIENCE, &ready, |said| said == "3");

    let finalizers = up.says(&["get", "cluster", "quickstart", "-o", "jsonpath={.metadata.finalizers}"]);
    assert!(finalizers.contains("cluster.cluster.x-k8s.io"), "{finalizers}");
    up.says(&["delete", "cluster", "quickstart", "--timeout=180s"]);
    assert_eq!(up.says(&["get", "clusters,machines,devclusters,devmachines", "-o", "name"]), "");

    // Nothing of the old one is in the way of another of its name.
    let begun = Instant::now();
    apply_quickstart(&up);
    wait(&up, "Available");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(up.signal("TERM").code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "it stops within ten seconds");
}

#[test]
fn what_was_there_is_there_after_a_restart_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut up = Up::start(directory.path(), &[]);
    apply_quickstart(&up);
    wait(&up, "Available");
    let patch = r#"{"spec":{"topology":{"version":"v1.30.4"}}}"#;
    up.says(&["patch", "cluster", "quickstart", "--type", "merge", "-p", patch]);
    let begun = Instant::now();
    assert_eq!(up.signal("TERM").code(), Some(0), "in the middle of an upgrade");
    assert!(begun.elapsed() < Duration::from_secs(10), "it stops within ten seconds");
    // The Nodes of the in-memory machines are gone with the process, and come back.
    let up = Up::start(directory.path(), &[]);
    let versions = ["get", "machines", "-o", "jsonpath={.items[*].status.nodeInfo.kubeletVersion}"];
    up.until(PATIENCE, &versions, |said| said == ["v1.30.4"; 5].join(" "));
    wait(&up, "Available");
}
