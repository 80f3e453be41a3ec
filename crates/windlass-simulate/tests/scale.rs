//! What a machine costs does not grow with the number of its neighbours. Counted, not timed.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use windlass_simulate::{
    Amount, Progress, RolloutOptions, RolloutReport, Strategy, TopologyManifests, UpgradeRequest,
    UpgradeSteering, rollout_with, simulate_upgrade,
};

/// Rolls out so many machines, a tenth of them at a time.
async fn rolled_out(replicas: u32) -> RolloutReport {
    let mut options = RolloutOptions::new(replicas);
    options.strategy =
        Strategy::RollingUpdate { max_surge: Amount::Percent(10), max_unavailable: Amount::Number(0) };
    rollout_with(&options, &mut |_: Progress<'_>| {}).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_machine_costs_no_more_among_many_than_among_few() {
    let (few, many) = (rolled_out(8).await, rolled_out(32).await);
    assert_eq!((few.created, many.created), (8, 32));
    for (what, few, many) in [
        ("reconciles", few.reconciles, many.reconciles),
        ("writes", few.writes, many.writes),
        ("events", few.events, many.events),
    ] {
        let (few, many) = (few as f64 / 8.0, many as f64 / 32.0);
        assert!(many <= few * 1.05, "{what} per machine: {few:.1} among 8, {many:.1} among 32");
    }
}

/// Allocations of a whole upgrade by one minor, one worker at a time, creation of the cluster included. Work that a
/// controller does for every machine whenever one of them changes shows in them.
fn allocations(workers: u32) -> u64 {
    let manifests = TopologyManifests::new("c1", "v1.30.0", 1)
        .machine_deployment("web", workers)
        .versions(["v1.30.0", "v1.31.0"]);
    let request = UpgradeRequest {
        manifests: manifests.objects(),
        to: "v1.31.0".to_owned(),
        seed: 11,
        live_extensions: false,
        steering: UpgradeSteering::default(),
    };
    let mut made = 0;
    let counted = allocation_counter::measure(|| {
        made = simulate_upgrade(&request).unwrap().machines.created;
    });
    assert_eq!(u32::try_from(made), Ok(workers + 1));
    counted.count_total
}

#[test]
fn a_machine_that_is_replaced_costs_the_same_in_a_small_group_and_in_a_large_one() {
    // What one machine more costs: the cluster itself does not count.
    let one_more = |few: u32, many: u32| (allocations(many) - allocations(few)) / u64::from(many - few);
    let (small, large) = (one_more(5, 10), one_more(70, 90));
    assert!(large * 10 <= small * 13, "allocations per machine: {small} in a group of 10, {large} of 90");
}
