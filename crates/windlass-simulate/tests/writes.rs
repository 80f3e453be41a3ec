//! What an upgrade writes: how many revisions, by which controller, and none that is needless.
//!
//! `cargo test --package windlass-simulate --test writes -- --nocapture` prints the tables of docs/benchmarks.md, and with
//! `WINDLASS_TRACE=1` every revision with what changed in it.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]
#![expect(clippy::print_stdout, reason = "the tables of docs/benchmarks.md are printed from here")]

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use windlass_api::cluster::Cluster;
use windlass_runtime::{Verb, Write};
use windlass_simulate::{
    Changed, Ledger, Revision, Startup, TopologyManifests, World, WorldOptions, is_at, key,
};
use windlass_version::Version;

const LIMIT: Duration = Duration::from_secs(3600);
/// What is left to be written after an upgrade, such as the last status, is written by then.
const SETTLED: Duration = Duration::from_secs(30);

/// What was written from the edit of the version until nothing was left to do.
struct Upgrade {
    revisions: Vec<Revision>,
    table: BTreeMap<(String, String, Changed), usize>,
    flaps: Vec<String>,
    repeats: Vec<Write>,
}

async fn upgrade(control_plane: u32, workers: u32, versions: &[&str]) -> Upgrade {
    // The delays of the comparison with Cluster API's own managers: 200 ms each.
    let startup = Startup { vm: 0.2, node: 0.2, jitter: 0.0 };
    let manifests = TopologyManifests::new("c1", versions[0], control_plane)
        .machine_deployment("web", workers)
        .versions(versions.iter().copied())
        .startup(startup);
    let mut world = World::begin(WorldOptions::new(7)).await.unwrap();
    world.apply_objects(&manifests.objects()).await.unwrap();
    let at = |version: &str| Version::parse(version).unwrap();
    let (first, last) = (at(versions[0]), at(versions[versions.len() - 1]));
    world.run_until("created", LIMIT, |world| is_at(world, &key("c1"), &first)).await.unwrap();
    world.run_to_the_end(SETTLED).await;
    let ledger = Ledger::new();
    world.observe(ledger.clone());
    world.faults().keep_journal();
    let patch = json!({"spec": {"topology": {"version": last.to_string()}}});
    world.patch::<Cluster>(&key("c1"), patch).await.unwrap();
    world.run_until("upgraded", LIMIT, |world| is_at(world, &key("c1"), &last)).await.unwrap();
    world.run_to_the_end(SETTLED).await;
    let journal = world.faults().journal();
    let mut seen = std::collections::BTreeSet::new();
    let first = ledger.revisions()[0].number;
    let repeats = journal.iter().filter(|write| {
        write.verb != Verb::Delete
            && write.revision.is_some_and(|revision| revision < first || !seen.insert(revision))
    });
    Upgrade {
        repeats: repeats.cloned().collect(),
        revisions: ledger.revisions(),
        table: ledger.table(&journal),
        flaps: ledger.flaps().iter().map(ToString::to_string).collect(),
    }
}

impl Upgrade {
    fn print(&self, title: &str) {
        println!(
            "\n{title}: {} revisions, {} writes that changed nothing",
            self.revisions.len(),
            self.repeats.len()
        );
        let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
        for ((kind, _, _), count) in &self.table {
            *by_kind.entry(kind).or_default() += count;
        }
        for (kind, count) in by_kind {
            println!("| {kind} | | | {count} |");
            for ((of, controller, changed), count) in &self.table {
                if of == kind {
                    println!("| {kind} | {controller} | {changed} | {count} |");
                }
            }
        }
        for repeat in &self.repeats {
            println!("in vain: {:?} {} {} {}", repeat.by, repeat.verb, repeat.kind, repeat.key);
        }
        for flap in &self.flaps {
            println!("flap: {flap}");
        }
    }
}

/// Kinds of one machine, one control plane, one cluster. What groups say changes with every machine that comes or goes,
/// and these take less than a second here.
fn is_of_no_group(flap: &str) -> bool {
    !flap.starts_with("MachineSet ") && !flap.starts_with("MachineDeployment ")
}

/// The most that an upgrade by four minors and a worker more may take: what was reached last. Wanted are 500 and 30.
/// A machine that joins has one more than before: its KubeadmConfig says with which token and which hashes it finds the control plane.
const MOST_OF_CHAIN: usize = 988;
const MOST_OF_WORKER: f64 = 57.2;

#[tokio::test(start_paused = true)]
async fn an_upgrade_writes_no_more_than_before_and_nothing_in_vain() {
    let chain = upgrade(3, 2, &["v1.29.0", "v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0"]).await;
    chain.print("3 control plane and 2 worker machines from v1.29 to v1.33");
    if std::env::var_os("WINDLASS_TRACE").is_some() {
        for revision in &chain.revisions {
            let Revision { at, kind, key, changed, fields, conditions, .. } = revision;
            println!("{at} {kind} {key} {changed} {fields:?} {conditions:?}");
        }
    }
    assert!(chain.revisions.len() <= MOST_OF_CHAIN, "{} revisions", chain.revisions.len());
    let flaps: Vec<&String> = chain.flaps.iter().filter(|flap| is_of_no_group(flap)).collect();
    assert!(flaps.is_empty(), "{flaps:?}");
    assert!(chain.repeats.is_empty(), "{:?}", chain.repeats);
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_replaced_with_no_more_writes_than_before() {
    let few = upgrade(1, 4, &["v1.29.0", "v1.30.0"]).await;
    let many = upgrade(1, 12, &["v1.29.0", "v1.30.0"]).await;
    many.print("1 control plane machine and 12 workers by one minor");
    let one_more = (many.revisions.len() - few.revisions.len()) as f64 / 8.0;
    println!("one more worker: {one_more:.1} revisions");
    assert!(one_more <= MOST_OF_WORKER, "{one_more} revisions per replaced worker");
}
