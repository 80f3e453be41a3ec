//! Durations as Go reads and writes them: `10s`, `1h30m`, `1.5h`, `-500ms`.
//!
//! Objects of Kubernetes, annotations and the `timeout` of a hook call have them. The one difference to
//! [`std::time::Duration`] that matters is that they may be negative.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A Go `time.Duration`: nanoseconds, up to 292 years in either direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// Why a string is not a Go duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoDurationError {
    /// There is no number where one must be, or the duration is too long.
    #[error("invalid duration {0:?}")]
    Invalid(String),
    /// A number has no unit.
    #[error("missing unit in duration {0:?}")]
    MissingUnit(String),
    /// Go knows no such unit.
    #[error("unknown unit {unit:?} in duration {duration:?}: the units are ns, us, ms, s, m and h")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole string.
        duration: String,
    },
}

impl GoDuration {
    /// A duration of so many nanoseconds.
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// The nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The duration to wait; `None` if it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl From<Duration> for GoDuration {
    /// What is longer than Go can say becomes the longest that it can.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = GoDurationError;

    /// Reads what `time.ParseDuration` reads.
    fn from_str(duration: &str) -> Result<Self, Self::Err> {
        let invalid = || GoDurationError::Invalid(duration.to_owned());
        let negative = duration.starts_with('-');
        let mut rest = duration.strip_prefix(['-', '+']).unwrap_or(duration);
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        // Without the sign: the most negative duration has no positive counterpart.
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(number);
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
                return Err(invalid());
            }
            let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, after) = after.split_at(unit);
            if unit.is_empty() {
                return Err(GoDurationError::MissingUnit(duration.to_owned()));
            }
            let factor = factor(unit).ok_or_else(|| GoDurationError::UnknownUnit {
                unit: unit.to_owned(),
                duration: duration.to_owned(),
            })?;
            let amount = amount(whole, fraction, factor);
            total = amount.and_then(|amount| bounded(total.checked_add(amount)?)).ok_or_else(invalid)?;
            rest = after;
        }
        match negative {
            true => Ok(Self(0i64.wrapping_sub_unsigned(total))),
            false => i64::try_from(total).map(Self).map_err(|_| invalid()),
        }
    }
}

/// Nanoseconds of a unit.
fn factor(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn amount(whole: &str, fraction: &str, factor: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let whole = bounded(whole.checked_mul(factor)?)?;
    // As Go does it: with a float, and without the digits that do not fit.
    let (mut digits, mut scale) = (0u64, 1f64);
    for digit in fraction.bytes() {
        let longer = digits.checked_mul(10).and_then(|digits| digits.checked_add(u64::from(digit - b'0')));
        let Some(longer) = longer.and_then(bounded) else { break };
        (digits, scale) = (longer, scale * 10.0);
    }
    bounded(whole.checked_add((digits as f64 * (factor as f64 / scale)) as u64)?)
}

/// At most the nanoseconds of the most negative duration.
fn bounded(nanoseconds: u64) -> Option<u64> {
    (nanoseconds <= 1 << 63).then_some(nanoseconds)
}

impl fmt::Display for GoDuration {
    /// Writes what `Duration.String` writes: `1h30m0s`, `1.5s`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let nanoseconds = self.0.unsigned_abs();
        let (unit, name) = match nanoseconds {
            0 => return f.write_str("0s"),
            1..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let (whole, fraction) = (nanoseconds / unit, nanoseconds % unit);
        let (hours, minutes) = if name == "s" { (whole / 3_600, whole / 60 % 60) } else { (0, 0) };
        let units = if name == "s" { whole % 60 } else { whole };
        match (hours, minutes) {
            (0, 0) => {}
            (0, minutes) => write!(f, "{minutes}m")?,
            (hours, minutes) => write!(f, "{hours}h{minutes}m")?,
        }
        write!(f, "{units}")?;
        if fraction > 0 {
            let width = unit.ilog10() as usize;
            write!(f, ".{}", format!("{fraction:0width$}").trim_end_matches('0'))?;
        }
        f.write_str(name)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What Go itself makes of these: `time.ParseDuration` and `Duration.String` of Go 1.26.
    #[derive(Deserialize)]
    struct Table {
        parse: Vec<(String, Option<i64>)>,
        format: Vec<(i64, String)>,
    }

    fn table() -> Table {
        serde_json::from_str(include_str!("go_durations.json")).unwrap()
    }

    #[test]
    fn durations_are_read_as_in_go() {
        for (text, nanoseconds) in table().parse {
            assert_eq!(text.parse().ok(), nanoseconds.map(GoDuration), "{text:?}");
        }
    }

    #[test]
    fn durations_are_written_as_in_go() {
        for (nanoseconds, text) in table().format {
            assert_eq!(GoDuration(nanoseconds).to_string(), text);
        }
    }

    #[test]
    fn errors_quote_the_duration() {
        for (text, error) in [
            ("soon", "invalid duration \"soon\""),
            ("5", "missing unit in duration \"5\""),
            ("1h5d", "unknown unit \"d\" in duration \"1h5d\": the units are ns, us, ms, s, m and h"),
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn only_what_is_not_negative_can_be_waited_for() {
        assert_eq!(GoDuration(1_500).to_std(), Some(Duration::from_nanos(1_500)));
        assert_eq!(GoDuration(-1).to_std(), None);
        assert_eq!(GoDuration::from(Duration::MAX), GoDuration(i64::MAX));
    }

    proptest! {
        #[test]
        fn no_string_makes_it_panic(text in "[0-9.smhnuµ+-]{0,24}") {
            let _ = text.parse::<GoDuration>();
        }

        #[test]
        fn what_is_written_is_read_again(nanoseconds in any::<i64>()) {
            // Beyond 2^53 ns a fraction is read through a float, in Go too.
            let nanoseconds = nanoseconds % (1 << 53);
            prop_assert_eq!(GoDuration(nanoseconds).to_string().parse(), Ok(GoDuration(nanoseconds)));
        }

        #[test]
        fn whole_seconds_survive(seconds in 0_u32..100_000) {
            let text = format!("{}h{}m{}s", seconds / 3600, seconds / 60 % 60, seconds % 60);
            prop_assert_eq!(text.parse(), Ok(GoDuration(i64::from(seconds) * 1_000_000_000)));
        }
    }
}
