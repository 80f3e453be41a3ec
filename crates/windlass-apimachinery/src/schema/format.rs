//! The string formats a schema may ask for. An unknown format is no constraint.

use std::net::{Ipv4Addr, Ipv6Addr};

use windlass_api::GoDuration;

/// Whether `text` has the format called `name`; `None` when the API knows no such format.
pub(crate) fn conforms(name: &str, text: &str) -> Option<bool> {
    // Dashes in format names carry no meaning: `date-time` and `datetime` are one format.
    Some(match name.replace('-', "").as_str() {
        "datetime" => rfc3339(text).is_some(),
        "date" => date(text.as_bytes()).is_some_and(|(_, rest)| rest.is_empty()),
        "duration" => duration_nanos(text).is_some(),
        "byte" => base64(text).is_some(),
        "uuid" => uuid(text, None),
        "uuid3" => uuid(text, Some(b'3')),
        "uuid4" => uuid(text, Some(b'4')),
        "uuid5" => uuid(text, Some(b'5')),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "mac" => mac(text),
        "hostname" => hostname(text),
        "email" => email(text),
        "uri" => uri(text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && all_hex(digits)
        }
        "rgbcolor" => rgb(text),
        "bsonobjectid" => text.len() == 24 && all_hex(text),
        "ssn" => ssn(text),
        "isbn" => isbn10(text) || isbn13(text),
        "isbn10" => isbn10(text),
        "isbn13" => isbn13(text),
        "creditcard" => credit_card(text),
        "k8sshortname" => text.len() <= 63 && dns_segment(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(dns_segment),
        "password" => true,
        _ => return None,
    })
}

/// Seconds since the epoch of an RFC 3339 date and time; fractions are dropped.
pub(crate) fn rfc3339(text: &str) -> Option<i64> {
    let ((year, month, day), rest) = date(text.as_bytes())?;
    let (b'T' | b't', rest) = rest.split_first()? else { return None };
    let (hour, rest) = digits(rest, 2)?;
    let (minute, rest) = digits(expect(rest, b':')?, 2)?;
    let (second, mut rest) = digits(expect(rest, b':')?, 2)?;
    if let Some((b'.', fraction)) = rest.split_first() {
        let end = fraction.iter().position(|b| !b.is_ascii_digit()).unwrap_or(fraction.len());
        if end == 0 {
            return None;
        }
        rest = &fraction[end..];
    }
    let offset = match rest {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), rest @ ..] => {
            let (hours, rest) = digits(rest, 2)?;
            let (minutes, rest) = digits(expect(rest, b':')?, 2)?;
            if hours > 23 || minutes > 59 || !rest.is_empty() {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(days_from_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

/// `2026-11-15T19:10:41Z` for a number of seconds since the epoch.
pub(crate) fn to_rfc3339(seconds: i64) -> String {
    let (year, month, day) = date_from_epoch(seconds.div_euclid(86_400));
    let time = seconds.rem_euclid(86_400);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, counting years from March so that the
/// leap day comes last.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn date_from_epoch(days: i64) -> Date {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Year, month and day.
type Date = (i64, i64, i64);

/// A full date at the start of `text`, and what follows it.
fn date(text: &[u8]) -> Option<(Date, &[u8])> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(expect(rest, b'-')?, 2)?;
    let (day, rest) = digits(expect(rest, b'-')?, 2)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(((year, month, day), rest))
}

/// Nanoseconds of what the API takes for a duration: what Go reads, such as `1h30m`, or else numbers with the names of
/// units anywhere in the string, such as `3 days`.
pub(crate) fn duration_nanos(text: &str) -> Option<i64> {
    if let Ok(duration) = text.parse::<GoDuration>() {
        return Some(duration.as_nanos());
    }
    let mut total = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let after = after.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        let end = after.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        rest = after;
        if unit.is_empty() {
            continue;
        }
        let number: i64 = number.parse().ok()?;
        if let Some(nanos) = named_unit(&unit.to_lowercase()) {
            total = Some(total.unwrap_or(0i64).wrapping_add(number.wrapping_mul(nanos)));
        }
    }
    total
}

/// Nanoseconds of a unit by its name: an abbreviation, or anything that begins with its long name.
fn named_unit(name: &str) -> Option<i64> {
    const UNITS: [(&[&str], &str, i64); 8] = [
        (&["ns"], "nano", 1),
        (&["us", "µs"], "micro", 1_000),
        (&["ms"], "milli", 1_000_000),
        (&["s"], "sec", 1_000_000_000),
        (&["m"], "min", 60_000_000_000),
        (&["h", "hr"], "hour", 3_600_000_000_000),
        (&["d"], "day", 86_400_000_000_000),
        (&["w", "wk"], "week", 604_800_000_000_000),
    ];
    let unit = UNITS.iter().find(|(short, long, _)| short.contains(&name) || name.starts_with(long));
    unit.map(|(.., nanos)| *nanos)
}

/// The bytes that standard, padded base64 encodes.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut filled) = (0u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        filled += 6;
        if filled >= 8 {
            filled -= 8;
            bytes.push((bits >> filled) as u8);
        }
    }
    Some(bytes)
}

fn digits(text: &[u8], count: usize) -> Option<(i64, &[u8])> {
    let (head, rest) = text.split_at_checked(count)?;
    head.iter().all(u8::is_ascii_digit).then(|| {
        let number = head.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        (number, rest)
    })
}

fn expect(text: &[u8], byte: u8) -> Option<&[u8]> {
    text.split_first().and_then(|(first, rest)| (*first == byte).then_some(rest))
}

fn all_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn uuid(text: &str, version: Option<u8>) -> bool {
    let mut hex = Vec::with_capacity(32);
    let mut rest = text.as_bytes();
    for length in [8, 4, 4, 4, 12] {
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        hex.extend_from_slice(group);
        // The dashes are optional, each on its own.
        rest = after.strip_prefix(b"-").filter(|_| hex.len() < 32).unwrap_or(after);
    }
    let variant = |byte: u8| matches!(byte.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b');
    rest.is_empty()
        && hex.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| hex[12] == version && (version == b'3' || variant(hex[16])))
}

fn cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    let canonical = prefix.bytes().all(|b| b.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
    let Ok(bits) = prefix.parse::<u8>() else { return false };
    let max = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    canonical && bits <= max
}

fn mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| part.len() == width && all_hex(part))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

fn hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
    };
    text.len() <= 255 && text.split('.').all(label)
}

fn email(text: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "<>()@,;:\"".contains(c))
    };
    // Both `a@b` and `Name <a@b>` are addresses.
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(open), Some(inner)) => inner.get(open + 1..).unwrap_or(""),
        _ => text,
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| {
        plain(local) && plain(domain) && !local.starts_with('.') && !local.ends_with('.')
    })
}

/// What may stand in a request line: an absolute URI, or a path from the root.
fn uri(text: &str) -> bool {
    if text.is_empty() || text.contains(|c: char| c.is_ascii_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    text.split_once(':').is_some_and(|(scheme, rest)| {
        let mut characters = scheme.bytes();
        characters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && characters.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            && !rest.is_empty()
    })
}

fn rgb(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    inner.is_some_and(|inner| {
        let channels: Vec<&str> = inner.split(',').map(str::trim).collect();
        channels.len() == 3 && channels.iter().all(|channel| channel.parse::<u8>().is_ok())
    })
}

fn ssn(text: &str) -> bool {
    let compact: String = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    let separators_fit = text.len() <= 11 && text.split(['-', ' ']).map(str::len).all(|n| matches!(n, 2..=9));
    compact.len() == 9 && compact.bytes().all(|b| b.is_ascii_digit()) && separators_fit
}

fn isbn10(text: &str) -> bool {
    let compact: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'-' | b' ')).collect();
    let digit = |(index, byte): (usize, &u8)| match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'X' | b'x' if index == 9 => Some(10),
        _ => None,
    };
    let digits: Option<Vec<u32>> = compact.iter().enumerate().map(digit).collect();
    digits.is_some_and(|digits| {
        let sum: u32 = (1u32..).zip(&digits).map(|(weight, digit)| weight * digit).sum();
        digits.len() == 10 && sum.is_multiple_of(11)
    })
}

fn isbn13(text: &str) -> bool {
    let compact: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'-' | b' ')).collect();
    if compact.len() != 13 || !compact.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = compact
        .iter()
        .zip([1, 3].iter().cycle())
        .map(|(digit, weight)| u32::from(digit - b'0') * weight)
        .sum();
    sum.is_multiple_of(10)
}

fn credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let luhn = |(index, digit): (usize, &u32)| if index % 2 == 1 { doubled(*digit) } else { *digit };
    (13..=19).contains(&digits.len())
        && digits.iter().rev().enumerate().map(luhn).sum::<u32>().is_multiple_of(10)
}

fn dns_segment(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    !text.is_empty()
        && text.bytes().all(|b| alphanumeric(b) || b == b'-')
        && text.bytes().next().is_some_and(alphanumeric)
        && text.bytes().next_back().is_some_and(alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_and_refuses() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "date-time",
                &["2026-11-15T19:10:41Z", "2026-11-15T19:10:41.123+02:00", "2024-02-29T00:00:00Z"],
                &["2026-11-15", "2026-13-01T00:00:00Z", "2023-02-29T00:00:00Z", "2026-11-15T24:00:00Z", ""],
            ),
            ("date", &["2026-11-15"], &["2026-11-15T00:00:00Z", "2026-11-31"]),
            ("duration", &["1h30m", "22 ns", "-1.5s", "0", "3 days"], &["", "1", "1 fortnight", "h"]),
            ("byte", &["", "aGk=", "aGkh"], &["aGk", "a===", "a$b="]),
            (
                "uuid",
                &["3f52a664-1050-4594-989c-397ef58a5f84", "3F52A66410504594989c397ef58a5f84"],
                &[
                    "3f52a664",
                    "zf52a664-1050-4594-989c-397ef58a5f84",
                    "3f52a664-1050-4594-989c-397ef58a5f84-",
                ],
            ),
            ("uuid4", &["3f52a664-1050-4594-989c-397ef58a5f84"], &["3f52a664-1050-3594-989c-397ef58a5f84"]),
            ("uuid3", &["3f52a664-1050-3594-189c-397ef58a5f84"], &["3f52a664-1050-4594-989c-397ef58a5f84"]),
            ("ipv4", &["10.0.0.1"], &["10.0.0", "::1", "256.0.0.1"]),
            ("ipv6", &["::1", "fe80::1"], &["10.0.0.1", ":::"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08"]),
            ("mac", &["00:1b:44:11:3a:b7", "001b.4411.3ab7"], &["00:1b:44", "00-1b:44:11:3a:b7"]),
            ("hostname", &["a.example", "x"], &["-a.example", "a..b", ""]),
            ("email", &["a@b.example", "A <a@b>"], &["a", "@b", "a@", "a b@c"]),
            ("uri", &["https://a/b", "/path", "urn:x:y"], &["a b", "", "nope"]),
            ("hexcolor", &["#fff", "00ff00"], &["#ff", "#gggggg"]),
            ("rgbcolor", &["rgb(1, 2,255)"], &["rgb(1,2)", "rgb(1,2,256)"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77"]),
            ("ssn", &["111-22-3333", "111223333"], &["1-1-1", "11122333a"]),
            ("isbn10", &["0321751043"], &["0321751044", "032175104"]),
            ("isbn13", &["978-0321751041"], &["978-0321751042"]),
            ("isbn", &["0321751043", "978-0321751041"], &["1"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112", "4"]),
            ("k8s-short-name", &["a-1"], &["A", "-a", "a.b", ""]),
            ("k8s-long-name", &["a-1.b"], &["a..b", "a_b"]),
            ("password", &["", "x"], &[]),
        ];
        for (format, good, bad) in cases {
            for text in *good {
                assert_eq!(conforms(format, text), Some(true), "{format} should accept {text:?}");
            }
            for text in *bad {
                assert_eq!(conforms(format, text), Some(false), "{format} should refuse {text:?}");
            }
        }
        assert_eq!(conforms("int-of-sorts", "x"), None);
    }

    #[test]
    fn seconds_and_text_convert_both_ways() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (1_794_769_841, "2026-11-15T19:10:41Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(to_rfc3339(seconds), text);
            assert_eq!(rfc3339(text), Some(seconds), "{text}");
        }
        assert_eq!(rfc3339("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(rfc3339("1969-12-31T23:00:00.5-01:00"), Some(0));
    }

    #[test]
    fn base64_decodes() {
        assert_eq!(base64("aGVsbG8="), Some(b"hello".to_vec()));
    }

    #[test]
    fn durations_add_up() {
        assert_eq!(duration_nanos("1h1m1.5s"), Some(3_661_500_000_000));
        assert_eq!(duration_nanos("-2ms"), Some(-2_000_000));
    }

    /// The table has what `strfmt.ParseDuration` of k8s.io/kube-openapi makes of these.
    #[test]
    fn durations_are_those_of_the_api_server() {
        let table: Vec<(String, Option<i64>)> = serde_json::from_str(include_str!("durations.json")).unwrap();
        for (text, nanos) in table {
            assert_eq!(duration_nanos(&text), nanos, "{text:?}");
        }
    }
}
