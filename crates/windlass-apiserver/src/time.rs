//! Times as objects have them.

use jiff::Timestamp;

/// A time to the second: `2026-11-15T19:10:39Z`.
pub(crate) fn stamp(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Reads a time of an object.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// How long ago something was, in the few characters that a column has: `30s`, `5m3s`, `3d`.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    let (minutes, hours, days, years) =
        (seconds / 60, seconds / 3600, seconds / 86_400, seconds / (365 * 86_400));
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
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
            assert_eq!(age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).unwrap()), text);
        }
    }

    #[test]
    fn what_is_in_the_future_has_no_age() {
        assert_eq!(age(Timestamp::from_second(10).unwrap(), Timestamp::UNIX_EPOCH), "0s");
    }

    #[test]
    fn times_are_written_to_the_second_and_read_again() {
        let time: Timestamp = "2023-11-14T22:13:20.75Z".parse().unwrap();
        assert_eq!(stamp(time), "2023-11-14T22:13:20Z");
        assert_eq!(parse(&stamp(time)).map(Timestamp::as_second), Some(time.as_second()));
        assert_eq!(parse("yesterday"), None);
    }
}
