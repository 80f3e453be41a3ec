//! Plays many tales, on all processors.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::draw::Tale;
use super::run::{Finding, live, same_end};

/// Which tales are played.
#[derive(Debug, Clone)]
pub struct Search {
    /// The seeds.
    pub seeds: Range<u64>,
    /// Every so many tales are played without their faults, too, and the ends compared.
    pub compare_every: u64,
    /// No tale is begun after this.
    pub until: Option<Instant>,
    /// How many are played at the same time.
    pub threads: usize,
}

/// What came of a search.
#[derive(Debug, Default)]
pub struct Found {
    /// How many tales were played.
    pub played: u64,
    /// How many writes they made.
    pub writes: u64,
    /// How many of them were played without faults, too.
    pub compared: u64,
    /// Those that went wrong, by seed.
    pub findings: Vec<(Tale, Finding)>,
}

impl Search {
    /// Plays the tales. `tell` is called after each, with what is known so far.
    pub fn run(&self, tell: impl Fn(&Found) + Sync) -> Found {
        let next = AtomicU64::new(self.seeds.start);
        let found = Mutex::new(Found::default());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| self.play(&next, &found, &tell));
            }
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.findings.sort_by_key(|(tale, _)| tale.seed);
        found
    }

    fn play(&self, next: &AtomicU64, found: &Mutex<Found>, tell: &impl Fn(&Found)) {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !self.seeds.contains(&seed) || self.until.is_some_and(|until| Instant::now() >= until) {
                return;
            }
            let tale = Tale::draw(seed);
            let compares = seed.is_multiple_of(self.compare_every.max(1)) && tale.has_faults();
            let result = if compares { same_end(&tale) } else { live(&tale) };
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.played += 1;
            found.compared += u64::from(compares);
            match result {
                Ok(end) => found.writes += end.writes,
                Err(finding) => found.findings.push((tale, finding)),
            }
            tell(&found);
        }
    }
}
