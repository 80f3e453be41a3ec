//! Random worlds: whatever the user does and whatever goes wrong, the rules hold and everything ends where it should.

use std::collections::BTreeSet;

use windlass_simulate::script::{PlayOptions, Script, play};
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
        "trouble late events",
        "trouble lost events",
        "trouble repeated events",
        "trouble stale lists",
        "trouble conflicts 95%",
        "trouble failed writes 100%",
        "trouble lost answers",
        "trouble failed reads",
        "trouble slow reads",
        "trouble torn writes",
        "trouble flapping hooks",
        "clock jumps",
        "clock is set back",
        "hook ",
        "delete newest of w/md",
        "delete oldest of w/control-plane",
        "delete cluster/w",
        "is not ready",
        "scale ",
        "scale w/control-plane",
        "upgrade.windlass.dev/version",
        "upgrade.windlass.dev/hold",
        "defer-upgrade",
        "hold-upgrade-sequence",
        "rollout.windlass.dev/strategy=External",
        "rollout.windlass.dev/fallback=rolling",
        "external updater site accepts",
        "external updater site refuses",
        "external updater site updates",
        "blocks ",
        "answers failure",
        "extension is down",
        "kubeadmconfigtemplate",
        "try edit cluster/w\n  {\"spec\"",
        "try edit clusterclass/quick",
        "try edit kubeadmcontrolplanetemplate/quick",
        "try edit devmachinetemplate/quick-worker",
    ] {
        assert!(tales.contains(part), "no tale of 400 has {part:?}");
    }
    let groups = |tale: &Tale| {
        tale.lines[0].text.matches("\n  workers").count() + tale.lines[0].text.matches("\n  pool").count()
    };
    let sizes: BTreeSet<usize> = (0..400).map(|seed| groups(&Tale::draw(seed))).collect();
    assert_eq!(sizes, (0..=6).collect());
}

/// A field that is always refused is not changed at all.
#[test]
fn changes_of_any_field_are_accepted_more_often_than_not() {
    let (mut tried, mut accepted) = (0, 0);
    for seed in 0..60 {
        let tale = Tale::draw(seed);
        let edits = tale.lines.iter().filter(|line| line.text.contains("\n  {\"spec\""));
        let create = tale.lines[0].text.clone();
        for edit in edits {
            let script = Script::parse(&format!("{create}\n{}", edit.text)).unwrap();
            let read = |_: &str| Err(String::new());
            let options = PlayOptions { seed, live_extensions: false, read: &read };
            play(&script, &options, |outcome| {
                if outcome.statement.starts_with("try edit") {
                    tried += 1;
                    accepted += usize::from(outcome.failed.is_none());
                }
            })
            .unwrap();
        }
    }
    assert!(tried > 20 && accepted * 2 > tried, "{accepted} of {tried}");
}
