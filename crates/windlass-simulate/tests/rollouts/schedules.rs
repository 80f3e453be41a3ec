//! Random schedules of the real controllers: never too many machines, never too few, always at the end, none made twice.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use windlass_runtime::WriteFault;
use windlass_simulate::{Limits, WorkerGroup, World, WorldError};

use crate::support::Workers;

#[derive(Debug, Clone)]
struct Schedule {
    replicas: u32,
    surge: u32,
    unavailable: u32,
    /// Of the order in which things happen.
    seed: u64,
    /// How late events may come, in milliseconds.
    late: u64,
    /// What happens after the first change, each after so many seconds.
    acts: Vec<(u64, Act)>,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Scale(u32),
    Change,
    Kill { in_writes: u64, before: bool },
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let act = prop_oneof![
        (1_u32..=4).prop_map(Act::Scale),
        Just(Act::Change),
        (1_u64..=20, any::<bool>()).prop_map(|(in_writes, before)| Act::Kill { in_writes, before }),
    ];
    let acts = proptest::collection::vec((0_u64..=15, act), 0..=4);
    let limits = (1_u32..=3, 0_u32..=2, 0_u32..=2)
        .prop_filter("something must be allowed to move", |limits| limits.1 + limits.2 > 0);
    (limits, any::<u64>(), 0_u64..=200, acts).prop_map(
        |((replicas, surge, unavailable), seed, late, acts)| Schedule {
            replicas,
            surge,
            unavailable,
            seed,
            late,
            acts,
        },
    )
}

/// Lets time pass, and starts what was killed.
async fn pass(workers: &mut Workers, seconds: u64) -> Result<(), WorldError> {
    let result =
        workers.world.run_until("it is killed", Duration::from_secs(seconds), World::has_crashed).await;
    match result {
        Ok(()) => {
            workers.world.restart().await;
            Ok(())
        }
        Err(WorldError::NotReached(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn run(schedule: &Schedule) -> Result<(), String> {
    let Schedule { replicas, surge, unavailable, seed, late, ref acts } = *schedule;
    let group = WorkerGroup::new("w", replicas).rolling_update(surge, unavailable);
    let mut workers = Workers::new(seed, group).await;
    workers.world.faults().delay_watches(Duration::ZERO..=Duration::from_millis(late), seed);
    let scales = acts.iter().filter_map(|(_, act)| match act {
        Act::Scale(replicas) => Some(*replicas),
        _ => None,
    });
    let sizes: Vec<u32> = scales.chain([replicas]).collect();
    let (most, fewest) = (sizes.iter().max().unwrap(), sizes.iter().min().unwrap());
    workers.population.limit(Some(Limits {
        max_machines: (most + surge) as usize,
        min_available: fewest.saturating_sub(unavailable) as usize,
    }));
    workers.change_spec().await;
    let mut wanted = replicas;
    for (seconds, act) in acts {
        pass(&mut workers, *seconds).await.map_err(|error| error.to_string())?;
        match *act {
            Act::Scale(replicas) => {
                wanted = replicas;
                workers.change(|group| group.replicas(replicas)).await;
            }
            Act::Change => workers.change_spec().await,
            Act::Kill { in_writes, before } => {
                let fault = if before { WriteFault::CrashBefore } else { WriteFault::CrashAfter };
                let faults = workers.world.faults();
                faults.on_write(faults.writes() + in_writes, fault);
            }
        }
    }
    // Long enough for what is to be killed to be killed.
    pass(&mut workers, 60).await.map_err(|error| error.to_string())?;
    while workers.world.has_crashed() {
        workers.world.restart().await;
        pass(&mut workers, 60).await.map_err(|error| error.to_string())?;
    }
    workers.until_complete().await.map_err(|error| error.to_string())?;
    let used: Vec<_> = workers.shape().into_iter().filter(|(_, _, owned)| *owned > 0).collect();
    let expected = (workers.template_name(), i32::try_from(wanted).ok(), wanted as usize);
    if used != [expected.clone()] {
        return Err(format!("it ends with {used:?}, not with {expected:?}"));
    }
    let changes = 1 + acts.iter().filter(|(_, act)| matches!(act, Act::Change)).count();
    let created = workers.population.bounds().created;
    if acts.is_empty() && created != replicas as usize {
        return Err(format!("{created} machines were made for {replicas}"));
    }
    // Whatever is in between: for each change, no more than there ever are at the same time.
    if created > changes * (most + surge) as usize {
        return Err(format!("{created} machines were made for {changes} changes of {most}"));
    }
    Ok(())
}

#[test]
fn limits_hold_in_any_schedule() {
    let mut runner = TestRunner::new(Config { cases: 6, failure_persistence: None, ..Config::default() });
    let result = runner.run(&schedule(), |schedule| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(run(&schedule)).map_err(TestCaseError::fail)
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}
