//! A rollout as it is reported, and changes in the middle of it.

use windlass_simulate::{Amount, Change, ChangeKind, RolloutOptions, Strategy as Replacing, rollout_with};

#[tokio::test(start_paused = true)]
async fn a_rollout_is_reported_step_by_step() {
    let mut options = RolloutOptions::new(3);
    options.strategy =
        Replacing::RollingUpdate { max_surge: Amount::Percent(34), max_unavailable: Amount::Number(1) };
    let mut told = 0;
    let report = rollout_with(&options, &mut |_| told += 1).await.unwrap();
    assert_eq!((report.created, report.deleted, report.updated_in_place), (3, 3, 0));
    assert!(report.max_machines <= 5 && report.min_available >= 2, "{report:?}");
    assert!(told >= report.steps.len());
    let numbers: Vec<usize> = report.steps.iter().map(|step| step.step).collect();
    assert_eq!(numbers, (1..=report.steps.len()).collect::<Vec<_>>());
    assert!(report.steps.is_sorted_by(|a, b| a.seconds <= b.seconds));
    assert!(report.virtual_seconds >= 12.0, "machines take their time: {}", report.virtual_seconds);

    let again = rollout_with(&options, &mut |_| ()).await.unwrap();
    assert_eq!(again, report, "the same seed, the same story");
}

#[tokio::test(start_paused = true)]
async fn changes_come_at_their_step() {
    let mut options = RolloutOptions::new(2);
    let change = |at_step, what| Change { at_step, what };
    options.changes = vec![change(4, ChangeKind::Scale(4)), change(2, ChangeKind::Spec)];
    let report = rollout_with(&options, &mut |_| ()).await.unwrap();
    assert!(report.created >= 5, "two at least for the first change or the second, and two more: {report:?}");
    let last = report.steps.last().unwrap();
    assert_eq!((last.counts.machines, last.counts.available), (4, 4));
}
