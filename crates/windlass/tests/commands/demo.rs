//! `windlass demo` as a process, without a terminal.

use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_windlass")).arg("demo").args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn an_upgrade_is_told_line_by_line_and_summed_up() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("demo.svg");
    let arguments =
        ["--from", "v1.31.0", "--to", "v1.33.0", "--workers", "1", "--speed", "1000", "--picture"];
    let (code, said, problem) = demo(&[&arguments[..], &[picture.to_str().unwrap()]].concat());
    assert_eq!(code, Some(0), "{said}{problem}");
    let mut lines = said.lines();
    for expected in [
        "creating a cluster at v1.31.0",
        "upgrading v1.31.0 -> v1.33.0",
        "hook BeforeClusterUpgrade v1.31.0 -> v1.33.0, asks to wait 2 s",
        "hook BeforeControlPlaneUpgrade v1.31.0 -> v1.32.0",
        "done   control plane v1.31.0 -> v1.32.0 (worst skew 1)",
        "hook AfterControlPlaneUpgrade v1.33.0",
        "hook BeforeWorkersUpgrade v1.31.0 -> v1.33.0",
        "done   workers team-a v1.31.0 -> v1.33.0 (worst skew 2)",
        "hook AfterClusterUpgrade v1.33.0",
        "done: everything is at v1.33.0",
        "v1.31.0 -> v1.33.0: 3 of 3 operations",
        "7 machines replaced, 0 updated in place",
    ] {
        // In this order; what is in between may be told sooner or later.
        assert!(lines.any(|line| line.ends_with(expected)), "{expected} in its place in\n{said}");
    }
    assert!(said.contains(" s of wall time"), "{said}");
    assert!(said.contains("\nNext: windlass demo --keep"), "{said}");
    assert!(std::fs::read_to_string(picture).unwrap().starts_with("<svg "));
}

#[test]
fn machines_are_updated_in_place_and_none_is_replaced() {
    let arguments =
        ["--from", "v1.31.0", "--to", "v1.32.0", "--workers", "2", "--speed", "1000", "--in-place"];
    let (code, said, problem) = demo(&arguments);
    assert_eq!(code, Some(0), "{said}{problem}");
    for expected in [
        "hook CanUpdateMachine v1.32.0\n",
        "hook CanUpdateMachineSet v1.32.0\n",
        "hook UpdateMachine v1.32.0\n",
        "2 of 2 operations\n0 machines replaced, 5 updated in place\n",
    ] {
        assert!(said.contains(expected), "{expected} in\n{said}");
    }
}

#[test]
fn what_cannot_be_shown_is_refused_at_once() {
    for (arguments, code, says) in [
        (
            &["--from", "v1.33.0", "--to", "v1.29.0"][..],
            3,
            "error: v1.29.0 is not newer than v1.33.0: there is",
        ),
        (&["--from", "v1.33.0", "--to", "v1.33.0"], 3, "error: v1.33.0 is not newer than v1.33.0: there is"),
        (&["--speed", "0"], 2, "--speed must be at least 0.1"),
        (&["--workers", "1000"], 2, "at most 12 groups of 100 machines"),
        (&["--to", "one"], 2, "invalid value 'one'"),
    ] {
        let (got, said, problem) = demo(arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {said}{problem}");
        assert!(problem.contains(says), "{arguments:?}: {problem}");
    }
}
