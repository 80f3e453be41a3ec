//! The time of day, for everything that records or compares it: the embedded API, the controllers and the in-memory
//! provider.
//!
//! What only measures how long something takes, such as a timeout or the age of a cache entry, uses
//! [`tokio::time::Instant`] directly.
//!
//! ```
//! use std::time::Duration;
//!
//! use windlass_clock::Clock;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
//! # runtime.block_on(async {
//! let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
//! tokio::time::sleep(Duration::from_secs(3600)).await;
//! assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
//! # });
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where the time of day is taken from. Copies of one clock always show the same time.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    System,
    Virtual {
        started: Instant,
        at: Timestamp,
        /// By how many milliseconds it was set forward.
        shift: Arc<AtomicI64>,
    },
}

impl Clock {
    /// The time of the machine.
    pub fn real() -> Self {
        Self { source: Source::System }
    }

    /// Starts at `at` now, and goes on as tokio's clock does. Under a paused clock hours pass at once, and what runs by
    /// such a clock runs in an order that depends on its seed alone.
    pub fn starting_at(at: Timestamp) -> Self {
        Self { source: Source::Virtual { started: Instant::now(), at, shift: Arc::default() } }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match &self.source {
            Source::System => Timestamp::now(),
            Source::Virtual { .. } => self.at(Instant::now()),
        }
    }

    /// What the time will be at an instant, or was.
    pub fn at(&self, instant: Instant) -> Timestamp {
        let (now, at) = match &self.source {
            Source::System => (Instant::now(), Timestamp::now()),
            Source::Virtual { started, at, shift } => {
                let shift = SignedDuration::from_millis(shift.load(Ordering::Relaxed));
                (*started, at.checked_add(shift).unwrap_or(*at))
            }
        };
        let apart = match instant.checked_duration_since(now) {
            Some(later) => SignedDuration::try_from(later),
            None => SignedDuration::try_from(now.duration_since(instant)).map(|earlier| -earlier),
        };
        apart.ok().and_then(|apart| at.checked_add(apart).ok()).unwrap_or(Timestamp::MAX)
    }

    /// Sets the clock and all copies of it forward, or back if `by` is negative, as an operator or a time server does:
    /// what waits for a time of day sees the jump, what measures how long something takes does not. The clock of the
    /// machine is left alone.
    pub fn set(&self, by: SignedDuration) {
        if let Source::Virtual { shift, .. } = &self.source {
            shift.fetch_add(i64::try_from(by.as_millis()).unwrap_or_default(), Ordering::Relaxed);
        }
    }

    /// Whether it goes with tokio's clock and not with that of the machine.
    pub fn is_virtual(&self) -> bool {
        matches!(self.source, Source::Virtual { .. })
    }
}

impl Default for Clock {
    /// Starts at the time of the machine and goes on as tokio's clock does.
    fn default() -> Self {
        Self::starting_at(Timestamp::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_passes_with_tokio_time() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        assert_eq!(clock.now(), start);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(clock.at(later).to_string(), "2026-01-01T01:01:00Z");
        let earlier = Instant::now() - Duration::from_secs(60);
        assert_eq!(clock.at(earlier).to_string(), "2026-01-01T00:59:00Z");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_takes_its_copies_along() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let copy = clock.clone();
        clock.set(SignedDuration::from_secs(90));
        assert_eq!(copy.now().as_second(), 90);
        copy.set(SignedDuration::from_secs(-100));
        assert_eq!(clock.now().as_second(), -10);
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(clock.now().as_second(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn copies_of_a_clock_show_the_same_time_whenever_they_were_made() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let copy = clock.clone();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(copy.now(), clock.now());
        assert_eq!(copy.now().as_second(), 10);
    }
}
