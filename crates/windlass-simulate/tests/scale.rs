//! What a machine costs does not grow with the number of its neighbours. Counted, not timed.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use windlass_simulate::{Amount, Progress, RolloutOptions, RolloutReport, Strategy, rollout_with};

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
