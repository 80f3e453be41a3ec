//! Never too many, never too few, always at the end: over seeds, sizes, limits, and changes in the middle.

use windlass_simulate::{
    Amount, Change, ChangeKind, Limits, RolloutOptions, Strategy as Replacing, WorkerGroup, World,
    WorldOptions, rollout_with,
};

use crate::support::Workers;

#[tokio::test(start_paused = true)]
async fn a_rollout_is_reported_step_by_step() {
    let mut options = RolloutOptions::new(3);
    options.strategy =
        Replacing::RollingUpdate { max_surge: Amount::Percent(34), max_unavailable: Amount::Number(1) };
    let mut told = 0;
    let report = rollout_with(&options, |_| told += 1).await.unwrap();
    assert_eq!((report.created, report.deleted, report.updated_in_place), (3, 3, 0));
    assert!(report.max_machines <= 5 && report.min_available >= 2, "{report:?}");
    assert!(told >= report.steps.len());
    let numbers: Vec<usize> = report.steps.iter().map(|step| step.step).collect();
    assert_eq!(numbers, (1..=report.steps.len()).collect::<Vec<_>>());
    assert!(report.steps.is_sorted_by(|a, b| a.seconds <= b.seconds));
    assert!(report.virtual_seconds >= 12.0, "machines take their time: {}", report.virtual_seconds);

    let again = rollout_with(&options, |_| ()).await.unwrap();
    assert_eq!(again, report, "the same seed, the same story");
}

#[tokio::test(start_paused = true)]
async fn changes_come_at_their_step() {
    let mut options = RolloutOptions::new(2);
    let change = |at_step, what| Change { at_step, what };
    options.changes = vec![change(4, ChangeKind::Scale(4)), change(2, ChangeKind::Spec)];
    let report = rollout_with(&options, |_| ()).await.unwrap();
    assert!(report.created >= 5, "two at least for the first change or the second, and two more: {report:?}");
    let last = report.steps.last().unwrap();
    assert_eq!((last.counts.machines, last.counts.available), (4, 4));
}

#[derive(Debug, Clone)]
struct Case {
    replicas: u32,
    surge: u32,
    unavailable: u32,
    delay: u64,
    seed: u64,
}

/// What chance tries, in one world: every case is another cluster in it.
fn cases(count: usize) -> Vec<Case> {
    let mut random = fastrand::Rng::with_seed(20_261_116);
    let case = || Case {
        replicas: random.u32(1..=4),
        surge: random.u32(0..=2),
        unavailable: random.u32(0..=2),
        delay: random.u64(0..=200),
        seed: random.u64(..),
    };
    std::iter::repeat_with(case).take(count).collect()
}

#[tokio::test(start_paused = true)]
async fn limits_hold_whatever_the_order_of_things() {
    let mut world = World::begin(WorldOptions::new(7)).await.unwrap();
    for (number, case) in cases(4).into_iter().enumerate() {
        let Case { replicas, surge, mut unavailable, delay, seed } = case.clone();
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        world.restart_with(seed).await;
        let group = WorkerGroup::new("w", replicas).rolling_update(surge, unavailable);
        let mut workers = Workers::in_world(world, &format!("c{number}"), group).await;
        let late = std::time::Duration::from_millis(delay);
        workers.world.faults().delay_watches(std::time::Duration::ZERO..=late, seed);
        let (replicas, surge, unavailable) = (replicas as usize, surge as usize, unavailable as usize);
        workers.population.limit(Some(Limits {
            max_machines: replicas + surge,
            min_available: replicas.saturating_sub(unavailable),
        }));
        workers.change_spec().await;
        workers.until_complete().await.unwrap_or_else(|error| panic!("{case:?}: {error}"));
        let bounds = workers.population.bounds();
        assert_eq!((bounds.created, bounds.deleted), (replicas, replicas), "{case:?}: none is made twice");
        workers.world.faults().deliver_at_once();
        workers.population.limit(None);
        world = workers.delete().await;
    }
}
