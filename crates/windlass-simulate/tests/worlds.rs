//! Random worlds: whatever the user does and whatever goes wrong, the rules hold and everything ends where it should.

use windlass_simulate::worlds::{Search, Tale, minimise};

/// That of the `windlass` binary: simulations make and drop many small values, and end a fifth sooner with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many are played here. `cargo xtask worlds` plays more.
const RUNS: u64 = 300;

#[test]
fn random_worlds_keep_the_rules_and_end_where_the_user_wants() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let search = Search { seeds: 0..RUNS, compare_every: 8, until: None, threads };
    let found = search.run(|_| {});
    assert_eq!(found.played, RUNS);
    assert!(found.compared > RUNS / 20, "{} were compared", found.compared);
    let mut findings = found.findings.into_iter();
    if let Some((tale, finding)) = findings.next() {
        let (short, found) = minimise(&tale, finding.clone(), 40);
        let others: Vec<u64> = findings.map(|(tale, _)| tale.seed).collect();
        panic!("world {}: {finding}\nshorter:\n{short}{found}\nother seeds: {others:?}", tale.seed);
    }
}

#[test]
fn a_tale_comes_from_its_seed_alone() {
    assert_eq!(Tale::draw(7), Tale::draw(7));
    assert_ne!(Tale::draw(7).to_string(), Tale::draw(8).to_string());
    let tales: String = (0..400).map(|seed| Tale::draw(seed).to_string()).collect();
    for part in [
        "pool ",
        "plan by extension",
        "updater ",
        "crash",
        "trouble stale lists",
        "trouble failed writes 100%",
        "clock is set back",
        "hook ",
        "delete ",
        "scale ",
        "upgrade.windlass.dev/version",
        "upgrade.windlass.dev/hold",
        "defer-upgrade",
        "kubeadmconfigtemplate",
    ] {
        assert!(tales.contains(part), "no tale of 400 has {part:?}");
    }
}
