//! From every version of a catalogue to every later one.

use windlass_simulate::worlds::token_renewals;
use windlass_simulate::{TopologyManifests, is_at, key};
use windlass_version::Version;

use crate::support::{Chains, LONG, planned};

/// Eight minors, with patches that differ.
const CATALOGUE: [&str; 8] =
    ["v1.28.4", "v1.29.0", "v1.30.11", "v1.31.2", "v1.32.0", "v1.33.7", "v1.34.1", "v1.35.0"];

/// A cluster that goes through the catalogue with steps of one length: all walks of all lengths are all pairs.
struct Walk {
    name: String,
    at: usize,
    stride: usize,
}

impl Walk {
    fn version(&self) -> &'static str {
        CATALOGUE[self.at]
    }

    fn next(&self) -> Option<&'static str> {
        CATALOGUE.get(self.at + self.stride).copied()
    }
}

fn walks(strides: &[usize]) -> Vec<Walk> {
    let mut walks = Vec::new();
    for &stride in strides {
        for at in (0..stride).take_while(|at| at + stride < CATALOGUE.len()) {
            walks.push(Walk { name: format!("s{stride}-{at}"), at, stride });
        }
    }
    walks
}

/// Walks clusters with these worker groups, side by side in one world. How many upgrades there were.
async fn walk(seed: u64, strides: &[usize], deployments: &[&str], pools: &[&str]) -> usize {
    let groups: Vec<&str> = deployments.iter().chain(pools).copied().collect();
    let versions = CATALOGUE.map(str::to_owned);
    let mut chains = Chains::begin(seed).await;
    let mut walks = walks(strides);
    for (number, walk) in walks.iter().enumerate() {
        let mut manifests = TopologyManifests::new(&walk.name, walk.version(), 1).versions(CATALOGUE);
        for group in deployments {
            manifests = manifests.machine_deployment(group, 1);
        }
        for pool in pools {
            manifests = manifests.machine_pool(pool, 1);
        }
        let mut objects = manifests.objects();
        let shared = objects.len() - 1;
        // The class and its templates are the same for all.
        objects.drain(..if number == 0 { 0 } else { shared });
        chains.world.apply_objects(&objects).await.unwrap();
    }
    let mut upgrades = 0;
    loop {
        let all = walks.iter().map(|walk| (key(&walk.name), Version::parse(walk.version()).unwrap()));
        let all: Vec<_> = all.collect();
        let there = |world: &_| all.iter().all(|(key, version)| is_at(world, key, version));
        chains.world.run_until("all clusters are there", LONG, there).await.unwrap();
        chains.pass(15).await;
        for walk in walks.iter().filter(|_| upgrades > 0) {
            let from = CATALOGUE[walk.at - walk.stride];
            let expected = planned(from, walk.version(), &groups, &versions);
            assert_eq!(chains.story(&walk.name), expected, "{} {from} -> {}", walk.name, walk.version());
            chains.nothing_is_pending(&walk.name);
        }
        walks.retain(|walk| walk.next().is_some());
        if walks.is_empty() {
            return upgrades;
        }
        chains.extension.begin();
        for walk in &mut walks {
            chains.chronicle.begin(&walk.name);
            let next = walk.next().unwrap();
            chains.change_version(&walk.name, next).await;
            walk.at += walk.stride;
            upgrades += 1;
        }
    }
}

#[test]
fn walks_make_all_pairs() {
    let mut pairs = std::collections::BTreeSet::new();
    for mut walk in walks(&[1, 2, 3, 4, 5, 6, 7]) {
        while walk.next().is_some() {
            assert!(pairs.insert((walk.at, walk.at + walk.stride)), "a pair comes once");
            walk.at += walk.stride;
        }
    }
    assert_eq!(pairs.len(), 28);
}

// All pairs are those of all strides. Several tests, so that they run side by side.

#[tokio::test(start_paused = true)]
async fn all_pairs_without_workers() {
    assert_eq!(walk(1, &[1, 2, 3, 4, 5, 6, 7], &[], &[]).await, 28);
}

#[tokio::test(start_paused = true)]
async fn pairs_up_to_three_minors_apart_with_one_group() {
    assert_eq!(walk(2, &[1, 2, 3], &["a"], &[]).await, 18);
}

#[tokio::test(start_paused = true)]
async fn pairs_further_apart_with_one_group() {
    assert_eq!(walk(3, &[4, 5, 6, 7], &["a"], &[]).await, 10);
}

#[tokio::test(start_paused = true)]
async fn pairs_three_minors_apart_with_three_groups_and_a_pool() {
    assert_eq!(walk(5, &[3], &["a", "b", "c"], &["pool"]).await, 5);
}

#[tokio::test(start_paused = true)]
async fn pairs_four_minors_apart_with_three_groups_and_a_pool() {
    assert_eq!(walk(6, &[4], &["a", "b", "c"], &["pool"]).await, 4);
}

#[tokio::test(start_paused = true)]
async fn pairs_up_to_two_minors_apart_with_three_groups_and_a_pool() {
    assert_eq!(walk(4, &[1, 2], &["a", "b", "c"], &["pool"]).await, 13);
}

#[tokio::test(start_paused = true)]
async fn pairs_further_apart_with_three_groups_and_a_pool() {
    assert_eq!(walk(7, &[5, 6, 7], &["a", "b", "c"], &["pool"]).await, 6);
}

#[tokio::test(start_paused = true)]
async fn from_a_version_to_itself_nothing_happens() {
    let manifests = TopologyManifests::new("c1", "v1.31.2", 1).machine_deployment("a", 1).versions(CATALOGUE);
    let mut chains = Chains::with(5, manifests, "v1.31.2").await;
    chains.change_version("c1", "v1.31.2").await;
    chains.pass(600).await;
    assert_eq!(chains.story("c1"), Vec::<String>::new());
    chains.nothing_is_pending("c1");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_complete_is_left_alone() {
    let manifests = TopologyManifests::new("c1", "v1.31.2", 1)
        .machine_deployment("a", 1)
        .machine_pool("pool", 1)
        .versions(CATALOGUE);
    let mut chains = Chains::with(6, manifests, "v1.31.2").await;
    chains.pass(60).await;
    chains.world.faults().keep_journal();
    chains.pass(3600).await;
    // The token of a pool is good for 15 minutes: its bootstrap data is made anew for as long as there is the pool.
    let journal = chains.world.faults().journal();
    let renews = token_renewals(&chains.world);
    let others: Vec<_> = journal.iter().filter(|write| !renews(write)).collect();
    assert!(others.is_empty(), "{others:#?}");
    assert!(journal.len() <= 30, "{} writes for the token of one pool", journal.len());
}
