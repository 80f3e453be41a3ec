//! Rollouts of many machines in virtual time: how long they take on the wall, and how fast reconciles are.
//!
//! `cargo bench --package windlass-simulate --bench rollout -- 10000` chooses the number of machines.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::ExitCode;
use std::time::Instant;

use windlass_simulate::{Amount, RolloutOptions, Strategy, rollout};

fn main() -> ExitCode {
    let given = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let mut sizes: Vec<u32> = given.collect();
    if sizes.is_empty() {
        sizes = vec![100, 1000];
    }
    println!("machines  wall s  virtual s  reconciles  reconciles/s  writes");
    for replicas in sizes {
        let mut options = RolloutOptions::new(replicas);
        options.strategy =
            Strategy::RollingUpdate { max_surge: Amount::Percent(10), max_unavailable: Amount::Number(0) };
        let started = Instant::now();
        let mut begun = None;
        let report = rollout(&options, |progress| {
            if matches!(progress, windlass_simulate::Progress::Step(_)) {
                begun.get_or_insert_with(Instant::now);
            }
        });
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                println!("{replicas} machines: {error}");
                return ExitCode::FAILURE;
            }
        };
        let wall = begun.unwrap_or(started).elapsed().as_secs_f64();
        let (reconciles, writes) = (report.reconciles, report.writes);
        println!(
            "{replicas:>8}  {wall:>6.1}  {:>9.0}  {reconciles:>10}  {:>12.0}  {writes:>6}",
            report.virtual_seconds,
            reconciles as f64 / wall
        );
    }
    ExitCode::SUCCESS
}
