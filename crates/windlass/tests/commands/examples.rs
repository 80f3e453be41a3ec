//! Every example is applied, with admission, as `windlass up` has it; and the pages in `docs/` name what there is.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::CONTROL_PLANE_LABEL;
use windlass_engine::condition;
use windlass_manager::{Data, Embedded, EmbeddedAdmission, install};
use windlass_simulate::{SimulatedExtension, SimulatedUpdater, World, WorldOptions, key};

use crate::apply::apply;

/// Wrong on purpose: what `windlass extension lint` finds in it is in the README.
const MISTAKEN: &str = "mistaken-extensionconfig.yaml";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(directory: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(directory)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == ending));
    files.sort();
    files
}

fn objects(example: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("examples").join(example)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

#[tokio::test]
async fn every_example_is_accepted_without_an_unknown_field() {
    let admission = EmbeddedAdmission::new();
    let embedded = Embedded::open(&Data::Memory, Some(&admission)).await.unwrap();
    install(embedded.server(), windlass_api::crds::manifests()).await.unwrap();
    let client = embedded.client();
    let examples = files("examples", "yaml");
    assert!(examples.len() >= 6, "{examples:?}");
    for file in examples {
        let name = file.file_name().unwrap().to_str().unwrap();
        let objects = objects(name);
        let mut outcome = Ok(());
        for object in &objects {
            outcome = apply(&client, object).await.map(drop);
            if name != MISTAKEN
                && let Err(error) = &outcome
            {
                panic!("{name}: {}: {error}", object["kind"]);
            }
        }
        assert_eq!(outcome.is_err(), name == MISTAKEN, "{name}");
    }
}

const LONG: Duration = Duration::from_secs(24 * 3600);

/// The Cluster of an example in virtual time, with its machines up. Extensions are reached where they are in a simulation.
async fn world(example: &str, extension: &SimulatedExtension, updater: Option<&SimulatedUpdater>) -> World {
    let mut objects = objects(example);
    for object in &mut objects {
        if object["kind"] == "ExtensionConfig" {
            object["spec"]["clientConfig"] = updater.unwrap().config()["spec"]["clientConfig"].clone();
        }
    }
    let mut world = World::begin(WorldOptions::extended_by(1, extension)).await.unwrap();
    world.apply_objects(&objects).await.unwrap();
    world.run_until("the cluster is up", LONG, |world| is_at(world, "v1.29.0")).await.unwrap();
    world
}

fn is_at(world: &World, version: &str) -> bool {
    let machines: Vec<Machine> = world.list();
    let runs = |machine: &Machine| {
        machine.status.node_info.as_ref().is_some_and(|info| info.kubelet_version == version)
            && condition::is_true(&machine.status.conditions, "Available")
    };
    let clusters: Vec<Cluster> = world.list();
    clusters.iter().all(|cluster| condition::is_true(&cluster.status.conditions, "TopologyReconciled"))
        && machines.len() > 2
        && machines.iter().all(runs)
}

/// Names of the machines of the control plane, or of the workers.
fn names(world: &World, control_plane: bool) -> Vec<String> {
    let machines: Vec<Machine> = world.list();
    let chosen = machines.iter();
    let chosen = chosen.filter(|it| it.labels().contains_key(CONTROL_PLANE_LABEL) == control_plane);
    chosen.map(ResourceExt::name_any).collect()
}

async fn upgrade(world: &World, cluster: &str, version: &str) {
    let patch = json!({"spec": {"topology": {"version": version}}});
    world.patch::<Cluster>(&key(cluster), patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_workers_of_the_in_place_example_are_never_replaced() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("in-place-updater").taking(Duration::from_secs(30));
    let mut world = world("in-place.yaml", &extension, Some(&updater)).await;
    let before = names(&world, false);
    assert_eq!(before.len(), 2);
    upgrade(&world, "in-place", "v1.33.0").await;
    let same = before.clone();
    world
        .run_until("everything runs v1.33.0", LONG, |world| {
            assert_eq!(names(world, false), same, "no worker is created or deleted");
            is_at(world, "v1.33.0")
        })
        .await
        .unwrap();
    let updated: Vec<String> = updater.calls().into_iter().map(|call| call.machine).collect();
    for name in &before {
        assert!(updated.contains(name), "{name} was updated: {updated:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_control_plane_of_the_external_example_is_updated_in_place_or_not_at_all() {
    // Nobody can do it: it stops, and says why.
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("late").taking(Duration::from_secs(30));
    let mut world = world("external.yaml", &extension, None).await;
    let (machine, workers) = (names(&world, true), names(&world, false));
    assert_eq!(machine.len(), 1);
    upgrade(&world, "external", "v1.31.2").await;
    world.run_until("never", Duration::from_secs(2 * 3600), |_| false).await.unwrap_err();
    assert_eq!((names(&world, true), names(&world, false)), (machine.clone(), workers));
    let planes: Vec<KubeadmControlPlane> = world.list();
    let rolling_out = condition::find(&planes[0].status.conditions, "RollingOut").unwrap();
    let why = format!("the rollout stops: Machine {} cannot be updated in place", machine[0]);
    assert!(rolling_out.message.contains(&why), "{}", rolling_out.message);

    // Somebody comes who can: the same machine goes on.
    world.apply_objects(&[updater.config()]).await.unwrap();
    let same = machine.clone();
    world
        .run_until("everything runs v1.31.2", LONG, |world| {
            assert_eq!(names(world, true), same, "the machine is not replaced");
            is_at(world, "v1.31.2")
        })
        .await
        .unwrap();
}

#[test]
fn the_reference_has_every_name_that_the_code_has() {
    let reference = std::fs::read_to_string(root().join("docs/reference.md")).unwrap();
    let source = |file: &str| {
        let text = std::fs::read_to_string(root().join("crates/windlass-api/src").join(file)).unwrap();
        text.replace("=\n    ", "= ")
    };
    let mut checked = 0;
    let names = source("names.rs");
    let kinds = ["ANNOTATION: ", "LABEL: ", "FINALIZER: ", "PREFIX: ", "TAINT: "];
    let names = names.lines().filter(|line| kinds.iter().any(|kind| line.contains(kind)));
    let conditions = source("conditions.rs");
    // Reasons are in a module of their own, indented.
    for line in names.chain(conditions.lines().filter(|line| line.starts_with("pub const "))) {
        let Some(value) = line.split('"').nth(1) else { continue };
        assert!(reference.contains(&format!("| `{value}` |")), "docs/reference.md does not have {value}");
        checked += 1;
    }
    assert!(checked > 90, "{checked}");
}

/// What pages say between backticks and in blocks of code, with the page and the line.
fn named_in_pages() -> Vec<(String, String, String)> {
    let mut pages = files("docs", "md");
    pages.push(root().join("README.md"));
    let mut named = Vec::new();
    for page in pages {
        let (text, mut block) = (std::fs::read_to_string(&page).unwrap(), false);
        let page = page.file_name().unwrap().to_str().unwrap().to_owned();
        for line in text.lines() {
            if line.starts_with("```") {
                block = !block;
            } else if block {
                named.push((page.clone(), line.to_owned(), line.to_owned()));
            } else {
                let quoted = line.split('`').skip(1).step_by(2);
                named.extend(quoted.map(|words| (page.clone(), line.to_owned(), words.to_owned())));
            }
        }
    }
    named
}

/// Every flag of every command.
fn flags() -> BTreeSet<String> {
    let commands = [
        "demo",
        "up",
        "run",
        "check",
        "plan",
        "plan check",
        "plan cluster",
        "plan diff",
        "simulate rollout",
        "simulate script",
        "simulate upgrade",
        "describe cluster",
        "upgrade cluster",
        "upgrade retarget",
        "upgrade cancel",
        "upgrade hold",
        "upgrade resume",
        "upgrade approve",
        "upgrade pin",
        "upgrade unpin",
        "upgrade abort",
        "credentials show",
        "credentials rotate",
        "credentials kubeconfig",
        "extension test",
        "extension lint",
        "extension call",
        "extension openapi",
        "serve",
        "crds",
        "backup",
        "restore",
        "completion",
        "man",
        "version",
    ];
    let mut flags = BTreeSet::from(["--help".to_owned()]);
    for command in commands {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
        let output = program.args(command.split(' ')).arg("--help").output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let help = String::from_utf8(output.stdout).unwrap();
        // Below the arguments are examples, which prove nothing.
        let words = help.split("\nExamples:").next().unwrap().split_whitespace();
        flags.extend(
            words.filter(|word| word.starts_with("--")).map(|word| word.trim_end_matches(',').to_owned()),
        );
    }
    flags
}

#[test]
fn pages_name_flags_that_there_are() {
    let known = flags();
    let mut checked = 0;
    for (page, line, words) in named_in_pages() {
        // Flags of other programs, and of the examples.
        let others = [
            "kubectl",
            "cargo bench",
            "cargo build",
            "cargo test",
            "cargo xtask",
            "podman",
            "valgrind",
            "--example",
            "-- --seconds",
        ];
        if others.iter().any(|other| words.contains(other)) {
            continue;
        }
        let ours = words.strip_prefix("cargo run --release -- ").unwrap_or(&words);
        for flag in ours.split(|letter: char| letter.is_whitespace() || "=[]()".contains(letter)) {
            if flag
                .strip_prefix("--")
                .is_some_and(|name| name.starts_with(|letter: char| letter.is_alphabetic()))
            {
                assert!(known.contains(flag), "{page}: there is no {flag}: {line}");
                checked += 1;
            }
        }
    }
    assert!(checked > 40, "{checked}");
}

/// All sources of the libraries and of the developer tasks in one text.
fn sources() -> String {
    fn read(directory: &std::path::Path, text: &mut String) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                None if path.is_dir() => read(&path, text),
                Some(ending) if ending == "rs" => text.push_str(&std::fs::read_to_string(&path).unwrap()),
                _ => {}
            }
        }
    }
    let mut text = String::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        read(&entry.unwrap().path().join("src"), &mut text);
    }
    read(&root().join("xtask/src"), &mut text);
    text
}

#[test]
fn pages_name_metrics_variables_keys_and_reasons_that_there_are() {
    let sources = sources();
    let mut checked = [0; 4];
    let parts = |words: &str| -> Vec<String> {
        let apart = |letter: char| !(letter.is_alphanumeric() || "_-./".contains(letter));
        words.split(apart).map(|word| word.trim_matches(&['.', '/'][..]).to_owned()).collect()
    };
    for (page, line, words) in named_in_pages() {
        for word in parts(&words) {
            let is_metric = ["controller_runtime_", "workqueue_", "windlass_cluster_", "capi_"]
                .iter()
                .any(|prefix| word.starts_with(prefix));
            let is_key = words == word && word.contains("x-k8s.io/");
            let is_word = word.len() > 3
                && word.starts_with(|letter: char| letter.is_ascii_uppercase())
                && word.chars().all(|letter| letter.is_ascii_alphabetic())
                && words == word
                && word != "Containerfile";
            let (kind, name) = match () {
                () if is_metric => (0, word.trim_end_matches("_sum").trim_end_matches("_count")),
                () if word.starts_with("WINDLASS_") => (1, word.as_str()),
                () if is_key && !word.contains("v1beta") && !word.contains("v1alpha") => (2, word.as_str()),
                // Conditions, reasons, hooks, kinds, values.
                () if is_word => (3, word.as_str()),
                () => continue,
            };
            assert!(sources.contains(name), "{page}: there is no {name}: {line}");
            checked[kind] += 1;
        }
    }
    for (count, least) in checked.into_iter().zip([6, 2, 40, 80]) {
        assert!(count >= least, "{checked:?}");
    }
}

#[test]
fn the_reference_has_no_name_that_the_code_has_not() {
    let sources = sources();
    let reference = std::fs::read_to_string(root().join("docs/reference.md")).unwrap();
    let rows: Vec<&str> =
        reference.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(rows.len() > 90, "{}", rows.len());
    for name in rows {
        assert!(sources.contains(&format!("\"{name}\"")), "docs/reference.md has {name}");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = files("docs", "md");
    pages.push(root().join("README.md"));
    let mut links = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.starts_with("http") && !link.starts_with('#') {
                let target = page.parent().unwrap().join(link.split('#').next().unwrap());
                assert!(target.exists(), "{}: {link}", page.display());
                links += 1;
            }
        }
    }
    assert!(links > 5, "{links}");
}
