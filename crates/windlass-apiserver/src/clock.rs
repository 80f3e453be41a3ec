//! The time of day, as objects record it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use tokio::time::Instant;

/// Where the API takes the time of day from.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    System,
    Tokio { started: Instant, at: SystemTime },
}

impl Clock {
    /// The time of the machine.
    pub fn system() -> Self {
        Self { source: Source::System }
    }

    /// Starts at `at` and goes on as tokio's clock does: under a paused clock, hours pass at once.
    pub fn starting_at(at: SystemTime) -> Self {
        Self { source: Source::Tokio { started: Instant::now(), at } }
    }

    /// The time.
    pub fn now(&self) -> SystemTime {
        match &self.source {
            Source::System => SystemTime::now(),
            Source::Tokio { started, at } => *at + started.elapsed(),
        }
    }

    /// The time as objects have it, to the second.
    pub(crate) fn stamp(&self) -> String {
        rfc3339(self.now())
    }
}

impl Default for Clock {
    /// Starts at the time of the machine and goes on as tokio's clock does.
    fn default() -> Self {
        Self::starting_at(SystemTime::now())
    }
}

/// A time as objects have it, to the second: `2026-11-15T19:10:39Z`.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let timestamp = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    timestamp.unwrap_or_default().to_string()
}

/// Reads a time of an object.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let timestamp: Timestamp = text.parse().ok()?;
    let nanoseconds = u64::try_from(timestamp.as_nanosecond()).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds))
}

/// How long ago something was, in the few characters that a column has: `30s`, `5m3s`, `3d`.
pub(crate) fn age(since: SystemTime, now: SystemTime) -> String {
    let Ok(elapsed) = now.duration_since(since) else { return "0s".to_owned() };
    let seconds = elapsed.as_secs();
    let (minutes, hours, days, years) =
        (seconds / 60, seconds / 3600, seconds / 86_400, seconds / (365 * 86_400));
    let two = |large: u64, unit: char, small: u64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (303, "5m3s"),
            (601, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (30 * 3600, "30h"),
            (49 * 3600, "2d1h"),
            (9 * 86_400, "9d"),
            (800 * 86_400, "2y70d"),
            (3650 * 86_400, "10y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(age(UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_passes_with_the_paused_clock() {
        let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        assert_eq!(clock.stamp(), "2023-11-14T22:13:20Z");
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(clock.stamp(), "2023-11-14T23:13:20Z");
        assert_eq!(parse(&clock.stamp()), Some(clock.now()));
    }
}
