//! Manifests of v1beta1, and objects of a live cluster, as commands read them: from a directory and from the standard input.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn exported() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/exported")
}

fn windlass(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read it may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_plan_is_made_from_a_directory_and_from_the_standard_input() {
    let directory = exported();
    let arguments = ["plan", "cluster", "--to", "v1.33.0", "-f"];
    let (code, plan, said) = windlass(&[&arguments[..], &[directory.to_str().unwrap()]].concat(), "");
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(plan.starts_with("Upgrade v1.31.0 -> v1.33.0"), "{plan}");
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let input = format!("{}---\n{}", read("class.yaml"), read("exported.yaml"));
    let (code, again, said) = windlass(&[&arguments[..], &["-"]].concat(), &input);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert_eq!(again, plan);
}

#[test]
fn an_upgrade_of_exported_objects_is_simulated() {
    let directory = exported();
    let arguments = ["simulate", "upgrade", "--to", "v1.33.0", "-f", directory.to_str().unwrap()];
    let (code, story, said) = windlass(&arguments, "");
    assert_eq!((code, said.as_str()), (Some(0), ""), "{story}");
    assert!(story.contains("control plane v1.32.0 -> v1.33.0"), "{story}");
}

#[test]
fn what_cannot_be_converted_is_named_with_its_file() {
    let manifest = "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: c}\n\
                    spec: {topology: {class: a, controlPlane: {nodeDrainTimeout: soon}}}\n";
    let (code, _, said) = windlass(&["plan", "cluster", "--to", "v1.33.0", "-f", "-"], manifest);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("standard input: Cluster c: spec.topology.controlPlane.nodeDrainTimeout: invalid duration \"soon\""),
        "{said}"
    );
}
