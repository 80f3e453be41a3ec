//! The time that decisions are made at.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where controllers take the time from.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    System,
    Virtual { started: Instant, at: Timestamp },
}

impl Clock {
    /// The time of the machine.
    pub fn real() -> Self {
        Self { source: Source::System }
    }

    /// Starts at `at` now, and goes on as tokio's clock does. Under a paused clock hours pass at once, and a manager
    /// with such a clock runs in an order that depends on its seed alone.
    pub fn starting_at(at: Timestamp) -> Self {
        Self { source: Source::Virtual { started: Instant::now(), at } }
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
            Source::Virtual { started, at } => (*started, *at),
        };
        let apart = match instant.checked_duration_since(now) {
            Some(later) => SignedDuration::try_from(later),
            None => SignedDuration::try_from(now.duration_since(instant)).map(|earlier| -earlier),
        };
        apart.ok().and_then(|apart| at.checked_add(apart).ok()).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self.source, Source::Virtual { .. })
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
    }
}
