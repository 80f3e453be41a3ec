//! Rollouts of many machines in virtual time: how long they take on the wall, how fast reconciles are, and how much memory
//! they take.
//!
//! `cargo bench --package windlass-simulate --bench rollout -- 10000` chooses the number of machines.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::ExitCode;
use std::time::Instant;

use windlass_simulate::{Amount, Progress, RolloutOptions, Strategy, rollout};

/// That of the `windlass` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let given = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let mut sizes: Vec<u32> = given.collect();
    if sizes.is_empty() {
        sizes = vec![100, 1000];
    }
    println!(
        "machines  created in s  rolled out in s  virtual s  reconciles  reconciles/s  writes  events  peak MB"
    );
    for replicas in sizes {
        let mut options = RolloutOptions::new(replicas);
        options.strategy =
            Strategy::RollingUpdate { max_surge: Amount::Percent(10), max_unavailable: Amount::Number(0) };
        forget_peak();
        let started = Instant::now();
        // The last look at machines that are still being made.
        let mut created = started;
        let report = rollout(&options, |progress| {
            if matches!(progress, Progress::Preparing(_)) {
                created = Instant::now();
            }
        });
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                println!("{replicas} machines: {error}");
                return ExitCode::FAILURE;
            }
        };
        let wall = created.elapsed().as_secs_f64();
        let (reconciles, writes, events) = (report.reconciles, report.writes, report.events);
        println!(
            "{replicas:>8}  {:>12.1}  {wall:>15.1}  {:>9.0}  {reconciles:>10}  {:>12.0}  {writes:>6}  {events:>6}  {:>7}",
            created.duration_since(started).as_secs_f64(),
            report.virtual_seconds,
            reconciles as f64 / wall,
            peak().map_or_else(|| "?".to_owned(), |kilobytes| (kilobytes / 1024).to_string()),
        );
    }
    ExitCode::SUCCESS
}

/// The most memory that was resident since the peak was forgotten, in kilobytes. Only Linux says it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Each size has its own peak, where the system lets us begin anew.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
