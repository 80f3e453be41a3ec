//! Durations as Go writes them: `10s`, `1m0s`, `500ms`, `1.5h`.

use std::time::Duration;

/// Reads a duration. `None` for what Go would not read, and for negative ones, which nobody can wait for.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_ends = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_ends);
        let unit_ends = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_ends);
        total = total.checked_add(amount(number, nanoseconds(unit)?)?)?;
        rest = after;
    }
    Some(total)
}

fn nanoseconds(unit: &str) -> Option<u64> {
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

fn amount(number: &str, unit: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanoseconds = u128::from(whole) * u128::from(unit);
    let mut scale = u128::from(unit);
    for digit in fraction.bytes() {
        scale /= 10;
        nanoseconds += u128::from(digit - b'0') * scale;
    }
    Some(Duration::from_nanos(u64::try_from(nanoseconds).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_in_go() {
        for (text, nanoseconds) in [
            ("0", Some(0)),
            ("10s", Some(10_000_000_000)),
            ("1m0s", Some(60_000_000_000)),
            ("1h1m1s", Some(3_661_000_000_000)),
            ("500ms", Some(500_000_000)),
            ("1.5s", Some(1_500_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("+3us", Some(3_000)),
            ("3µs", Some(3_000)),
            ("3%C2%B5s", None),
            ("7ns", Some(7)),
            ("0.1ns", Some(0)),
            ("", None),
            ("+", None),
            ("3", None),
            ("s", None),
            (".s", None),
            ("1.2.3s", None),
            ("-1s", None),
            ("1 s", None),
            ("1d", None),
            ("99999999999999999999s", None),
            ("5124095576h", None),
        ] {
            assert_eq!(parse(text), nanoseconds.map(Duration::from_nanos), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9.smhnuµ+-]{0,24}") {
            let _ = parse(&text);
        }

        #[test]
        fn whole_seconds_survive(seconds in 0_u32..100_000) {
            let text = format!("{}h{}m{}s", seconds / 3600, seconds / 60 % 60, seconds % 60);
            prop_assert_eq!(parse(&text), Some(Duration::from_secs(seconds.into())));
        }
    }
}
