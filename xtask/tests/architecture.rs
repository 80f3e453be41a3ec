//! The invariants of ARCHITECTURE.md, checked on what cargo says of the workspace.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// The crates from the bottom up. A crate may use those above it in this list, never those below.
const LAYERS: &[&str] = &[
    "windlass-version",
    "windlass-api",
    "windlass-plan",
    "windlass-engine",
    "windlass-apimachinery",
    "windlass-store",
    "windlass-extension",
    "windlass-hooks",
    "windlass-conformance",
    "windlass-apiserver",
    "windlass-reconcile",
    "windlass-dev",
    "windlass-controllers",
    "windlass-plane",
    "windlass-simulate",
    "windlass-demo",
    "windlass-web",
    "windlass",
];

/// Pure crates: what they compute depends on their arguments alone.
const PURE: &[&str] = &["windlass-version", "windlass-api", "windlass-plan", "windlass-engine"];

/// What must not be anywhere below a pure crate: I/O, async, clocks and randomness come with these. `jiff` may be: the
/// types of Kubernetes have its timestamps as fields. That nobody asks it for the time is checked on the sources.
const IMPURE: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "futures-executor",
    "mio",
    "hyper",
    "reqwest",
    "axum",
    "tower",
    "kube",
    "kube-client",
    "rustls",
    "native-tls",
    "redb",
    "rand",
    "getrandom",
    "chrono",
    "time",
    "tracing",
];

/// Crates that others may build on: no error type that hides what went wrong.
const LIBRARIES_WITHOUT: &[&str] = &["anyhow", "eyre"];

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .exec()
        .unwrap()
}

fn members(metadata: &Metadata) -> impl Iterator<Item = &Package> {
    metadata.workspace_packages().into_iter().filter(|package| package.name.as_str() != "xtask")
}

fn normal_dependencies(package: &Package) -> impl Iterator<Item = &str> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.as_str())
}

#[test]
fn every_crate_has_its_layer_and_uses_lower_ones_only() {
    let metadata = metadata();
    let layer: BTreeMap<&str, usize> = LAYERS.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    for package in members(&metadata) {
        let name = package.name.as_str();
        let at = *layer.get(name).unwrap_or_else(|| panic!("{name} is not in the list of layers"));
        for dependency in normal_dependencies(package).filter(|name| name.starts_with("windlass")) {
            assert!(layer[dependency] < at, "{name} must not use {dependency}: it is not below it");
        }
    }
}

#[test]
fn pure_crates_bring_no_io_async_clock_or_randomness_with_them() {
    let metadata = metadata();
    let resolve = metadata.resolve.as_ref().unwrap();
    let name_of: BTreeMap<_, _> =
        metadata.packages.iter().map(|package| (&package.id, package.name.as_str())).collect();
    for package in members(&metadata).filter(|package| PURE.contains(&package.name.as_str())) {
        let mut seen = BTreeSet::new();
        let mut open = vec![&package.id];
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let node = resolve.nodes.iter().find(|node| node.id == *id).unwrap();
            let normal = |kinds: &[cargo_metadata::DepKindInfo]| {
                kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
            };
            open.extend(node.deps.iter().filter(|dep| normal(&dep.dep_kinds)).map(|dep| &dep.pkg));
        }
        for id in seen {
            assert!(
                !IMPURE.contains(&name_of[id]),
                "{} must not bring {} with it",
                package.name,
                name_of[id]
            );
        }
    }
}

#[test]
fn libraries_keep_typed_errors() {
    let metadata = metadata();
    for package in members(&metadata).filter(|package| package.name.as_str() != "windlass") {
        for dependency in normal_dependencies(package) {
            assert!(!LIBRARIES_WITHOUT.contains(&dependency), "{} must not use {dependency}", package.name);
        }
    }
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let metadata = metadata();
    for package in metadata.workspace_packages() {
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{}", package.manifest_path);
    }
}

#[test]
fn folders_are_named_as_their_crates() {
    let metadata = metadata();
    for package in members(&metadata) {
        let folder = package.manifest_path.parent().unwrap();
        assert_eq!(folder.file_name(), Some(package.name.as_str()));
        assert_eq!(folder.parent().unwrap().file_name(), Some("crates"));
    }
}

#[test]
fn the_map_names_every_crate() {
    let map = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../ARCHITECTURE.md")).unwrap();
    let metadata = metadata();
    for package in members(&metadata) {
        assert!(
            map.contains(&format!("`{}`", package.name)),
            "ARCHITECTURE.md does not name {}",
            package.name
        );
    }
}

#[test]
fn pure_crates_do_not_ask_for_the_time() {
    const CLOCKS: &[&str] = &["Timestamp::now", "Zoned::now", "SystemTime::now", "Instant::now"];
    let mut open: Vec<std::path::PathBuf> = PURE
        .iter()
        .map(|name| format!("{}/../crates/{name}/src", env!("CARGO_MANIFEST_DIR")).into())
        .collect();
    let mut files = 0;
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files += 1;
            let source = std::fs::read_to_string(&path).unwrap();
            for clock in CLOCKS {
                assert!(!source.contains(clock), "{} asks for the time: {clock}", path.display());
            }
        }
    }
    assert!(files > PURE.len(), "the sources were not found");
}
