//! Everything that acts is killed between two writes of a chained upgrade, and started again: it ends the same, and no
//! hook is skipped.

use windlass_api::infrastructure::DevMachineTemplate;
use windlass_runtime::WriteFault;
use windlass_simulate::{TopologyManifests, World, is_at, key};
use windlass_version::Version;

use crate::support::{Chains, LONG, planned, releases};

/// How many upgrades one cluster makes: a class lists so many versions.
const UPGRADES: u64 = 40;
/// The minor at which clusters begin.
const FIRST: u64 = 30;
/// More than any upgrade has writes here, also one that is killed all the time.
const MANY: u64 = 1000;

fn version(minor: u64) -> String {
    format!("v1.{minor}.0")
}

async fn begin(seed: u64) -> Chains {
    let manifests = TopologyManifests::new("c1", &version(FIRST), 1)
        .machine_deployment("a", 1)
        .versions(releases(FIRST..FIRST + 2 * UPGRADES + 1));
    Chains::with(seed, manifests, &version(FIRST)).await
}

/// Before one kill and after the next: what a hook has passed is not written down yet, or just so.
fn fault(kills: u64) -> WriteFault {
    if kills.is_multiple_of(2) { WriteFault::CrashAfter } else { WriteFault::CrashBefore }
}

/// Upgrades by two minors and is killed again and again, and checks that it ends as if nothing had happened. `next` says
/// how many writes there are until the next kill, after so many of them. How often it was killed.
async fn upgrade(chains: &mut Chains, minor: u64, next: impl Fn(u64) -> Option<(u64, WriteFault)>) -> u64 {
    let (from, to) = (version(minor), version(minor + 2));
    chains.forget("c1");
    let arm = |world: &World, kills: u64| {
        if let Some((writes, fault)) = next(kills) {
            world.faults().on_write(world.faults().writes() + writes, fault);
        }
    };
    let mut kills = 0;
    arm(&chains.world, kills);
    chains.change_version("c1", &to).await;
    let target = Version::parse(&to).unwrap();
    loop {
        let over = |world: &World| world.has_crashed() || is_at(world, &key("c1"), &target);
        chains.world.run_until("it is killed or done", LONG, over).await.unwrap();
        if !chains.world.has_crashed() {
            break;
        }
        kills += 1;
        assert!(kills < MANY, "it gets no further: {:?}", chains.story("c1"));
        arm(&chains.world, kills);
        chains.world.restart().await;
    }
    // No process is killed any more: what is left to do is little, and is done in peace.
    chains.world.faults().forget();
    chains.pass(15).await;
    let versions = [&from, &version(minor + 1), &to].map(String::to_owned);
    assert_eq!(chains.story("c1"), planned(&from, &to, &["a"], &versions), "killed {kills} times");
    chains.nothing_is_pending("c1");
    // Two of the class, one of the control plane, one of the group.
    assert_eq!(chains.world.list::<DevMachineTemplate>().len(), 4, "templates are left over");
    kills
}

/// Kills once in every upgrade, each time after another write of a part of all numbers.
async fn kill_after_every_write(part: u64, parts: u64) {
    let mut chains = begin(40 + part).await;
    let (mut number, mut minor) = (1 + part, FIRST);
    loop {
        let once = |kills: u64| (kills == 0).then_some((number, WriteFault::CrashAfter));
        if upgrade(&mut chains, minor, once).await == 0 {
            break;
        }
        number += parts;
        minor += 2;
        if minor >= FIRST + 2 * UPGRADES {
            (chains, minor) = (begin(40 + number).await, FIRST);
        }
    }
    assert!(number > 100, "an upgrade has more than {number} writes");
}

// Two tests, so that they run side by side.

#[tokio::test(start_paused = true)]
async fn an_upgrade_killed_at_any_write_ends_the_same() {
    kill_after_every_write(0, 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_killed_at_any_other_write_ends_the_same() {
    kill_after_every_write(1, 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_killed_at_every_single_write_in_a_row_ends_the_same() {
    let mut chains = begin(50).await;
    // A process that starts again does the one write that comes first, or not even that.
    let kills = upgrade(&mut chains, FIRST, |kills| Some((1, fault(kills)))).await;
    assert!(kills > 200, "an upgrade has more than {kills} writes");
}
