//! kubeadm itself reads every document that is rendered for its version. `cargo xtask real` builds it and runs these tests.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]

#[path = "../corpus/mod.rs"]
mod corpus;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use corpus::{HOSTNAME, cases, render};

/// The kubeadm of each version that was built: `v1.35.4/kubeadm` below the directory of the programs.
fn kubeadms() -> Vec<(String, PathBuf)> {
    let bin = std::env::var_os("WINDLASS_REAL_BIN").unwrap_or_else(|| panic!("run by cargo xtask real"));
    let mut found: Vec<(String, PathBuf)> = fs::read_dir(bin)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("kubeadm").exists())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path.join("kubeadm")))
        .collect();
    found.sort();
    assert!(found.len() >= 4, "only {found:?}");
    found
}

/// What kubeadm is given: its file, with what the machine fills in.
fn configuration(data: &str) -> String {
    let document: Value = serde_saphyr::from_str(data).unwrap();
    let files = document["write_files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"].as_str().unwrap().starts_with("/run/kubeadm/")).unwrap();
    let content = file["content"].as_str().unwrap();
    content.replace(HOSTNAME, "host-1").replace("{{ ds.meta_data.instance_id }}", "i-1")
}

fn validate(kubeadm: &Path, folder: &Path, configuration: &str) -> (bool, String) {
    let file = folder.join("kubeadm.yaml");
    fs::write(&file, configuration).unwrap();
    let output = Command::new(kubeadm).args(["config", "validate", "--config"]).arg(&file).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn kubeadm_of_every_version_accepts_every_document() {
    let folder = tempfile::tempdir().unwrap();
    // kubeadm looks whether the kubeconfig that it is told of is there.
    fs::write(folder.path().join("discovery.conf"), "").unwrap();
    for (version, kubeadm) in kubeadms() {
        for case in cases(folder.path()) {
            let configuration = configuration(&render(&case, &version));
            let (accepted, said) = validate(&kubeadm, folder.path(), &configuration);
            assert!(accepted, "{version}, {}: {said}\n{configuration}", case.name);
        }
    }
}

#[test]
fn kubeadm_refuses_a_field_that_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    for (version, kubeadm) in kubeadms() {
        let configuration = configuration(&render(&cases(folder.path())[0], &version));
        let wrong = configuration.replace("clusterName:", "clusterNome:");
        assert_ne!(wrong, configuration);
        let (accepted, said) = validate(&kubeadm, folder.path(), &wrong);
        assert!(!accepted && said.contains("clusterNome"), "{version}: {said}");
    }
}
