//! The invariants of ARCHITECTURE.md, checked on what cargo says of the workspace.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

/// The crates from the bottom up. A crate may use those above it in this list, never those below.
const LAYERS: &[&str] = &[
    "windlass-version",
    "windlass-random",
    "windlass-patch",
    "windlass-api",
    "windlass-conversion",
    "windlass-plan",
    "windlass-gotemplate",
    "windlass-engine",
    "windlass-apimachinery",
    "windlass-clock",
    "windlass-etcd",
    "windlass-store",
    "windlass-extension",
    "windlass-hooks",
    "windlass-conformance",
    "windlass-apiserver",
    "windlass-runtime",
    "windlass-bootstrap",
    "windlass-inmemory",
    "windlass-controllers",
    "windlass-testkit",
    "windlass-manager",
    "windlass-simulate",
    "windlass-demo",
    "windlass-web",
    "windlass",
];

/// Pure crates: what they compute depends on their arguments alone.
const PURE: &[&str] = &[
    "windlass-version",
    "windlass-patch",
    "windlass-api",
    "windlass-conversion",
    "windlass-plan",
    "windlass-gotemplate",
    "windlass-engine",
];

/// What must not be anywhere below a pure crate: I/O, async, clocks and randomness come with these. `jiff` may be: the
/// types of Kubernetes have its timestamps as fields. That its clock is never read is checked on the sources.
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
fn the_test_kit_is_for_tests_only() {
    let metadata = metadata();
    let mut users = 0;
    for package in metadata.workspace_packages() {
        for dependency in package.dependencies.iter().filter(|other| other.name == "windlass-testkit") {
            users += 1;
            assert_eq!(dependency.kind, DependencyKind::Development, "{}", package.name);
        }
    }
    assert!(users > 0, "nothing uses it");
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
fn the_map_has_every_crate_in_the_order_of_the_layers() {
    let map = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../ARCHITECTURE.md")).unwrap();
    let table = map.split("| crate | what it is for |\n| --- | --- |\n").nth(1).unwrap();
    let rows = table.lines().map_while(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: Vec<&str> = rows.collect();
    // That every crate has its layer is another test.
    assert!(rows.iter().rev().eq(LAYERS), "from the top down: {rows:?}");
}

#[test]
fn an_api_version_is_split_in_one_place() {
    let metadata = metadata();
    for source in members(&metadata).flat_map(|package| sources(package.name.as_str())) {
        if source.path == "windlass-api/src/api_version.rs" {
            continue;
        }
        let by_hand = source
            .code()
            .lines()
            .find(|line| {
                (line.contains("api_version") || line.contains("apiVersion"))
                    && line.contains("split")
                    && line.contains("'/'")
            })
            .map(str::to_owned);
        assert_eq!(by_hand, None, "{}: ask windlass_api::api_version", source.path);
    }
}

#[test]
fn pure_crates_do_not_ask_for_the_time() {
    const CLOCKS: &[&str] = &["Timestamp::now", "Zoned::now", "SystemTime::now", "Instant::now"];
    for source in PURE.iter().flat_map(|name| sources(name)) {
        for clock in CLOCKS {
            assert!(!source.text.contains(clock), "{} asks for the time: {clock}", source.path);
        }
    }
}

/// Where the kinds of kubeadm may be named. Our own control plane is one of them, and its machines have the bootstrap
/// configuration of kubeadm; everything else knows contracts.
const KUBEADM: &[&str] = &[
    "windlass-engine/src/control_plane/",
    "windlass-controllers/src/control_plane/",
    "windlass-controllers/src/bootstrap/",
    // Compares and shows updates in place of control plane machines.
    "windlass-engine/src/in_place/kubeadm.rs",
    "windlass-engine/src/in_place/preview.rs",
    // kubeadm joins machines of its own minor only: a check of Cluster API that looks at the bootstrap template.
    "windlass-controllers/src/machine_set/preflight.rs",
    // The template of the names of Machines has the kind of their owner among its data.
    "windlass-engine/src/machine_set/naming.rs",
    // The status of v1beta1 of each of our kinds.
    "windlass-engine/src/legacy/control_plane.rs",
    // Admission of each of our kinds.
    "windlass-controllers/src/admission/",
];

#[test]
fn the_engine_and_the_controllers_name_no_kind_of_a_provider() {
    let providers =
        ["Dev", "Docker", "AWS", "Azure", "GCP", "VSphere", "OpenStack", "Metal3", "Hetzner", "Nutanix"];
    let kinds = ["Cluster", "Machine", "ManagedCluster", "ManagedMachine"];
    let infrastructure: Vec<String> = providers
        .iter()
        .flat_map(|provider| kinds.iter().map(move |kind| format!("{provider}{kind}")))
        .chain(["windlass_api::infrastructure".to_owned(), "windlass_inmemory".to_owned()])
        .collect();
    for source in ["windlass-engine", "windlass-controllers"].iter().flat_map(|name| sources(name)) {
        for name in &infrastructure {
            assert!(!source.code().contains(name.as_str()), "{} names {name}", source.path);
        }
        let may_name_kubeadm = KUBEADM.iter().any(|place| source.path.starts_with(place));
        for name in ["KubeadmConfig", "KubeadmControlPlane"] {
            assert!(may_name_kubeadm || !source.code().contains(name), "{} names {name}", source.path);
        }
    }
}

/// Files that may use a hash map or a hash set, none of which lets its order reach anything.
const HASH_MAPS: &[&str] = &[
    // The map that the CEL library wants; CEL sorts keys where their order shows.
    "windlass-apimachinery/src/schema/cel/convert.rs",
    // Looked up by UID for every object of a reconcile, never iterated.
    "windlass-runtime/src/applied.rs",
];

#[test]
fn nothing_that_reaches_output_comes_from_a_hash_map() {
    let metadata = metadata();
    let mut used = BTreeSet::new();
    for source in members(&metadata).flat_map(|package| sources(package.name.as_str())) {
        if ["HashMap", "HashSet", "hash_map::Entry", "hash_set"]
            .iter()
            .any(|name| source.code().contains(name))
        {
            assert!(
                HASH_MAPS.contains(&source.path.as_str()),
                "{} uses a hash map: use an ordered one, or say in HASH_MAPS why its order reaches nothing",
                source.path
            );
            used.insert(source.path.clone());
        }
    }
    assert!(used.iter().eq(HASH_MAPS), "HASH_MAPS names a file that uses none: {used:?}");
}

/// Who may ask whether something is paused in another way than by `Pause`.
const PAUSED: &[&str] = &[
    "windlass-engine/src/pause.rs",
    // A MachineDeployment has a `spec.paused` of its own, which stops its rollout only.
    "windlass-engine/src/rollout/facts.rs",
    // Not copied from a MachineDeployment to its MachineSets.
    "windlass-engine/src/rollout/desired.rs",
    // Only tell that the pause of a Cluster has changed, so that what belongs to it is reconciled.
    "windlass-controllers/src/bootstrap/mod.rs",
    "windlass-controllers/src/machine/mod.rs",
    "windlass-inmemory/src/provider.rs",
];

#[test]
fn every_controller_checks_for_a_pause_and_all_in_the_same_way() {
    let mut controllers = 0;
    let crates = ["windlass-engine", "windlass-controllers", "windlass-inmemory"];
    for source in crates.iter().flat_map(|name| sources(name)) {
        let code = source.code();
        let asks = ["PAUSED_ANNOTATION", "spec.paused"].iter().any(|sign| code.contains(sign));
        assert!(!asks || PAUSED.contains(&source.path.as_str()), "{}: ask Pause::of", source.path);
        for reconciler in code.split("impl Reconciler for ").skip(1) {
            controllers += 1;
            let name = reconciler.split_whitespace().next().unwrap();
            assert!(reconciler.contains("Pause::of("), "{}: {name} does not check for a pause", source.path);
        }
    }
    assert!(controllers >= 14, "only {controllers} controllers were found");
}

#[test]
fn controllers_do_not_know_which_api_they_talk_to() {
    let metadata = metadata();
    for package in members(&metadata).filter(|package| package.name.as_str() == "windlass-controllers") {
        for dependency in ["windlass-apiserver", "windlass-store", "windlass-inmemory"] {
            assert!(
                normal_dependencies(package).all(|name| name != dependency),
                "{} must not use {dependency}",
                package.name
            );
        }
    }
}

/// A source file of a crate, with its path below `crates`.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// What is compiled into the crate, without comments: neither its tests nor a file of tests.
    fn code(&self) -> String {
        if self.path.ends_with("tests.rs") || self.path.contains("/tests/") {
            return String::new();
        }
        let code = self.text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn sources(name: &str) -> Vec<Source> {
    let crates = format!("{}/../crates", env!("CARGO_MANIFEST_DIR"));
    let mut open = vec![std::path::PathBuf::from(format!("{crates}/{name}/src"))];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(&crates).unwrap().display().to_string();
            found.push(Source { path, text });
        }
    }
    assert!(!found.is_empty(), "the sources of {name} were not found");
    found
}
