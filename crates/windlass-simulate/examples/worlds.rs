//! Plays random worlds, as many as wanted: `cargo xtask worlds --runs 1000 --seed 0 --minutes 30`.
//!
//! `--show SEED` prints the story of a seed instead. Tells how it goes every few seconds, and every finding with its story, made as short as it can be.

#![allow(clippy::print_stdout, reason = "it is a program")]

#[path = "shared/arguments.rs"]
mod arguments;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use windlass_simulate::worlds::{Found, Search, Tale, minimise};

use arguments::option;

fn main() -> ExitCode {
    let (runs, seed) = (option("--runs").unwrap_or(1000), option("--seed").unwrap_or(0));
    if let Some(seed) = option("--show") {
        println!("{}", Tale::draw(seed));
        return ExitCode::SUCCESS;
    }
    let begun = Instant::now();
    let until = option("--minutes").map(|minutes| begun + Duration::from_secs(minutes * 60));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let search = Search { seeds: seed..seed + runs, compare_every: 3, until, threads };
    let told = Mutex::new((begun, 0));
    let tell = |found: &Found| {
        let Ok(mut told) = told.lock() else { return };
        for (tale, finding) in &found.findings[told.1..] {
            println!("world {}: {finding}", tale.seed);
        }
        told.1 = found.findings.len();
        if told.0.elapsed() >= Duration::from_secs(10) {
            told.0 = Instant::now();
            let (played, seconds) = (found.played, begun.elapsed().as_secs());
            println!("{played} of {runs} worlds after {seconds} s, {} findings", found.findings.len());
        }
    };
    let found = search.run(tell);
    for (tale, finding) in &found.findings {
        let (short, finding) = minimise(tale, finding.clone(), 60);
        println!("\n{short}# {finding}");
    }
    println!(
        "{} worlds of {runs} from seed {seed}, {} compared with their end without faults, {} writes, {} s: {} findings",
        found.played,
        found.compared,
        found.writes,
        begun.elapsed().as_secs(),
        found.findings.len()
    );
    if found.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
