//! Everything that acts is killed between two writes of a chained upgrade, and started again.

use windlass_api::infrastructure::DevMachineTemplate;
use windlass_reconcile::WriteFault;
use windlass_simulate::{TopologyManifests, World, is_at, key};
use windlass_version::Version;

use crate::support::{Chains, LONG, planned, releases};

/// Which writes are tried: all of them if this is set, otherwise some, which takes seconds.
const EVERY_WRITE: &str = "WINDLASS_EVERY_WRITE";
/// How many upgrades one cluster makes: a class lists so many versions.
const UPGRADES: u64 = 40;

fn version(minor: u64) -> String {
    format!("v1.{minor}.0")
}

async fn begin(seed: u64) -> Chains {
    let manifests = TopologyManifests::new("c1", "v1.20.0", 1)
        .machine_deployment("a", 1)
        .versions(releases(20..20 + 2 * UPGRADES + 1));
    Chains::with(seed, manifests, "v1.20.0").await
}

/// Upgrades by two minors with faults, and checks that it ends as without. How often it was killed.
async fn upgrade(chains: &mut Chains, minor: u64, mut fault: impl FnMut(&World)) -> u64 {
    let (from, to) = (version(minor), version(minor + 2));
    chains.forget("c1");
    fault(&chains.world);
    chains.change_version("c1", &to).await;
    let target = Version::parse(&to).unwrap();
    let mut kills = 0;
    loop {
        let over = |world: &World| world.has_crashed() || is_at(world, &key("c1"), &target);
        chains.world.run_until("it is killed or done", LONG, over).await.unwrap();
        if !chains.world.has_crashed() {
            break;
        }
        kills += 1;
        fault(&chains.world);
        chains.world.restart().await;
    }
    chains.pass(15).await;
    let versions = [&from, &version(minor + 1), &to].map(String::to_owned);
    assert_eq!(chains.story("c1"), planned(&from, &to, &["a"], &versions), "killed {kills} times");
    chains.nothing_is_pending("c1");
    // Two of the class, one of the control plane, one of the group.
    assert_eq!(chains.world.list::<DevMachineTemplate>().len(), 4, "templates are left over");
    kills
}

/// Kills at every write of a part of all numbers, one in every upgrade.
async fn kill_once(part: u64, parts: u64) {
    let every = std::env::var_os(EVERY_WRITE).is_some();
    let stride = if every { parts } else { parts * 9 };
    let mut chains = begin(40 + part).await;
    let (mut number, mut minor) = (1 + part, 20);
    loop {
        let fault = if number % 2 == 0 { WriteFault::CrashBefore } else { WriteFault::CrashAfter };
        let mut times = 0;
        let once = |world: &World| {
            times += 1;
            if times == 1 {
                world.faults().on_write(world.faults().writes() + number, fault);
            }
        };
        let kills = upgrade(&mut chains, minor, once).await;
        if kills == 0 {
            break;
        }
        assert_eq!(kills, 1, "{fault:?} at write {number}");
        number += stride;
        minor += 2;
        if minor >= 20 + 2 * UPGRADES {
            (chains, minor) = (begin(40 + number).await, 20);
        }
    }
    assert!(number > 60, "an upgrade has more than {number} writes");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_killed_at_any_write_ends_the_same() {
    kill_once(0, 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_killed_at_any_other_write_ends_the_same() {
    kill_once(1, 2).await;
}
