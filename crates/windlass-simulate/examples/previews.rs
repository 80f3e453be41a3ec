//! Compares previews of random topologies with what then happens: `cargo xtask previews --runs 200 --seed 0`.
//!
//! Every fourth one is taken in mid-upgrade. Prints every difference with the story of its topology.

#![allow(clippy::print_stdout, reason = "it is a program")]

#[path = "shared/arguments.rs"]
mod arguments;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use windlass_simulate::worlds::{Taken, Tale, foretold};

use arguments::option;

fn main() -> ExitCode {
    let (runs, seed) = (option("--runs").unwrap_or(200), option("--seed").unwrap_or(0));
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let counted = Mutex::new((0_u64, 0_u64, 0_u64));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run >= runs {
                        return;
                    }
                    let taken = if run % 4 == 3 { Taken::MidUpgrade } else { Taken::Before };
                    let tale = Tale::draw(seed + run);
                    let result = foretold(&tale, taken);
                    let Ok(mut counted) = counted.lock() else { return };
                    counted.0 += 1;
                    counted.1 += u64::from(taken == Taken::MidUpgrade);
                    if let Err(finding) = result {
                        counted.2 += 1;
                        println!("world {}, {taken:?}: {finding}\n{tale}", tale.seed);
                    }
                }
            });
        }
    });
    let (compared, mid, findings) = counted.into_inner().unwrap_or_default();
    println!(
        "{compared} previews from seed {seed}, {mid} in mid-upgrade, {} s: {findings} differ from what happened",
        begun.elapsed().as_secs()
    );
    if findings == 0 && compared == runs { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
