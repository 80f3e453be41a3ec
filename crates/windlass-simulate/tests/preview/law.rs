//! The law: what a simulation says from a snapshot is what then happens.

use windlass_simulate::worlds::{Taken, Tale, difference, foretell, foretold, happen, untimed};

use crate::disguise::disguised;

/// How many random topologies are compared here. `cargo xtask previews` compares more.
const BEFORE: u64 = 12;
/// How many of them in mid-upgrade.
const MID_UPGRADE: u64 = 8;

fn compare(seeds: impl Iterator<Item = u64>, taken: Taken) -> Vec<String> {
    let mut findings = Vec::new();
    for seed in seeds {
        let tale = Tale::draw(seed);
        if let Err(finding) = foretold(&tale, taken) {
            findings.push(format!("world {seed}: {finding}\n{tale}"));
        }
    }
    findings
}

#[test]
fn what_is_foretold_before_an_upgrade_is_what_happens() {
    assert_eq!(compare(0..BEFORE, Taken::Before), [""; 0]);
}

#[test]
fn what_is_foretold_in_mid_upgrade_is_what_happens() {
    assert_eq!(compare(1000..1000 + MID_UPGRADE, Taken::MidUpgrade), [""; 0]);
}

/// Machines of a provider that only keeps the contract: everything that the in-memory provider knows of its own is gone.
#[test]
fn what_is_foretold_for_another_provider_is_what_happens() {
    for seed in 2000..2003 {
        for taken in [Taken::Before, Taken::MidUpgrade] {
            let tale = Tale::draw(seed);
            let mut then = happen(&tale, taken).unwrap();
            then.snapshot = disguised(&then.snapshot);
            let (mut said, mut happened) = (foretell(&then).unwrap(), then.happened);
            if taken == Taken::MidUpgrade {
                // When a machine began to start is known to the second at best.
                (said, happened) = (said.map(untimed), happened.map(untimed));
            }
            assert_eq!(difference(&said, &happened), None, "world {seed}, {taken:?}\n{tale}");
        }
    }
}
