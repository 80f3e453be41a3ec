//! Points in time that templates are given as strings, read and written with Go's layouts. The clock is not asked, and
//! the local time zone is UTC, as in upstream's containers.

use std::fmt;

/// A point in time with the offset that it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    /// Seconds since 1970, in UTC.
    pub(crate) seconds: i64,
    nanoseconds: u32,
    /// Seconds east of UTC; none for UTC itself.
    offset: Option<i32>,
}

/// A day and a time of day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    /// Days since Sunday.
    weekday: usize,
    pub(crate) day_of_year: i64,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// What layouts are made of, longest first where one begins with another.
const PIECES: &[&str] = &[
    "January", "Jan", "Monday", "Mon", "MST", "2006", "-07:00", "-0700", "-07", "Z07:00", "Z0700", "002",
    "01", "02", "03", "04", "05", "06", "15", "PM", "pm", "_2", "1", "2", "3", "4", "5",
];

impl Time {
    /// What Go's zero time is: what an unreadable date comes to.
    pub(crate) const ZERO: Self = Self { seconds: -62_135_596_800, nanoseconds: 0, offset: None };

    pub(crate) fn plus_nanoseconds(self, nanoseconds: i64) -> Option<Self> {
        let total =
            i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds) + i128::from(nanoseconds);
        Some(Self {
            seconds: i64::try_from(total.div_euclid(1_000_000_000)).ok()?,
            nanoseconds: u32::try_from(total.rem_euclid(1_000_000_000)).ok()?,
            offset: self.offset,
        })
    }

    pub(crate) fn civil(self) -> Civil {
        let local = self.seconds + i64::from(self.offset.unwrap_or(0));
        let (days, rest) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0),
            day_of_year: days - days_from_civil(year, 1, 1) + 1,
        }
    }

    pub(crate) fn rfc3339(self) -> String {
        let fraction = self.fraction(9, true);
        format!("{}{fraction}{}", self.format("2006-01-02T15:04:05"), self.format("Z07:00"))
    }

    fn fraction(self, digits: usize, trims: bool) -> String {
        let all = format!("{:09}", self.nanoseconds);
        let kept = &all[..digits.min(9)];
        let kept = if trims { kept.trim_end_matches('0') } else { kept };
        if kept.is_empty() { String::new() } else { format!(".{kept}") }
    }

    fn zone(self, separator: &str, minutes: bool) -> String {
        let offset = self.offset.unwrap_or(0);
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, rest) = (offset.abs() / 3600, offset.abs() / 60 % 60);
        if minutes { format!("{sign}{hours:02}{separator}{rest:02}") } else { format!("{sign}{hours:02}") }
    }

    /// Writes it with a layout such as `2006-01-02`.
    pub(crate) fn format(self, layout: &str) -> String {
        let civil = self.civil();
        let month = MONTHS[usize::try_from(civil.month - 1).unwrap_or(0).min(11)];
        let day = DAYS[civil.weekday.min(6)];
        let hour12 = if civil.hour % 12 == 0 { 12 } else { civil.hour % 12 };
        let mut out = String::new();
        let mut rest = layout;
        while !rest.is_empty() {
            let (before, piece, behind) = next_piece(rest);
            out.push_str(before);
            out.push_str(&match piece {
                "January" => month.to_owned(),
                "Jan" => month[..3].to_owned(),
                "Monday" => day.to_owned(),
                "Mon" => day[..3].to_owned(),
                "2006" => format!("{:04}", civil.year),
                "06" => format!("{:02}", civil.year.rem_euclid(100)),
                "002" => format!("{:03}", civil.day_of_year),
                "01" => format!("{:02}", civil.month),
                "1" => civil.month.to_string(),
                "02" => format!("{:02}", civil.day),
                "_2" => format!("{:2}", civil.day),
                "2" => civil.day.to_string(),
                "15" => format!("{:02}", civil.hour),
                "03" => format!("{hour12:02}"),
                "3" => hour12.to_string(),
                "04" => format!("{:02}", civil.minute),
                "4" => civil.minute.to_string(),
                "05" => format!("{:02}", civil.second),
                "5" => civil.second.to_string(),
                "PM" => if civil.hour >= 12 { "PM" } else { "AM" }.to_owned(),
                "pm" => if civil.hour >= 12 { "pm" } else { "am" }.to_owned(),
                "Z07:00" | "Z0700" if self.offset.unwrap_or(0) == 0 => "Z".to_owned(),
                "-07:00" | "Z07:00" => self.zone(":", true),
                "-0700" | "Z0700" => self.zone("", true),
                "-07" => self.zone("", false),
                "MST" => match self.offset {
                    None => "UTC".to_owned(),
                    Some(offset) if offset % 3600 == 0 => self.zone("", false),
                    Some(_) => self.zone("", true),
                },
                piece if piece.starts_with(['.', ',']) => {
                    self.fraction(piece.len() - 1, piece.ends_with('9'))
                }
                piece => piece.to_owned(),
            });
            rest = behind;
        }
        out
    }

    /// Reads what is written with a layout.
    pub(crate) fn parse(layout: &str, written: &str) -> Result<Self, String> {
        let wrong = || format!("{written:?} is not written as {layout:?}");
        let mut read = Reading::default();
        let mut layout_rest = layout;
        let mut rest = written;
        while !layout_rest.is_empty() {
            let (before, piece, behind) = next_piece(layout_rest);
            rest = rest.strip_prefix(before).ok_or_else(wrong)?;
            rest = read.piece(piece, rest).ok_or_else(wrong)?;
            layout_rest = behind;
        }
        if !rest.is_empty() {
            return Err(wrong());
        }
        read.time().ok_or_else(wrong)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = self.fraction(9, true);
        write!(f, "{}{fraction}{}", self.format("2006-01-02 15:04:05"), self.format(" -0700 MST"))
    }
}

/// What stands before the first piece of a layout, the piece, and what is behind it.
fn next_piece(layout: &str) -> (&str, &str, &str) {
    for (at, _) in layout.char_indices() {
        let rest = &layout[at..];
        if let Some(piece) = PIECES.iter().find(|piece| rest.starts_with(**piece)) {
            // Names of months and days are not the beginnings of longer words.
            let cut = piece.starts_with(char::is_uppercase)
                && matches!(*piece, "Jan" | "Mon")
                && rest[piece.len()..].starts_with(|c: char| c.is_ascii_lowercase());
            if !cut {
                return (&layout[..at], &rest[..piece.len()], &rest[piece.len()..]);
            }
        }
        // Fractions of seconds: a point or comma and zeros or nines that no other digit follows.
        if let Some(digits) = rest.strip_prefix(['.', ','])
            && let Some(digit @ ('0' | '9')) = digits.chars().next()
        {
            let length = digits.bytes().take_while(|byte| char::from(*byte) == digit).count();
            if !digits[length..].starts_with(|c: char| c.is_ascii_digit()) {
                return (&layout[..at], &rest[..=length], &rest[length + 1..]);
            }
        }
    }
    (layout, "", "")
}

#[derive(Debug)]
struct Reading {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanoseconds: u32,
    afternoon: Option<bool>,
    offset: Option<i32>,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            year: 0,
            month: 1,
            day: 1,
            day_of_year: None,
            hour: 0,
            minute: 0,
            second: 0,
            nanoseconds: 0,
            afternoon: None,
            offset: None,
        }
    }
}

impl Reading {
    /// Reads one piece; returns what is behind it.
    fn piece<'a>(&mut self, piece: &str, rest: &'a str) -> Option<&'a str> {
        let named = |names: &[&str], length: Option<usize>| {
            let found = names.iter().enumerate().find_map(|(at, name)| {
                let name = &name[..length.unwrap_or(name.len())];
                let start = rest.get(..name.len())?;
                start.eq_ignore_ascii_case(name).then_some((at, name.len()))
            });
            found.map(|(at, length)| (i64::try_from(at).unwrap_or(0), &rest[length..]))
        };
        let rest = match piece {
            "" => rest,
            "January" | "Jan" => {
                let (at, rest) = named(&MONTHS, (piece == "Jan").then_some(3))?;
                self.month = at + 1;
                rest
            }
            "Monday" => named(&DAYS, None)?.1,
            "Mon" => named(&DAYS, Some(3))?.1,
            "2006" => digits(rest, 4, 4, &mut self.year)?,
            "06" => {
                let rest = digits(rest, 2, 2, &mut self.year)?;
                self.year += if self.year >= 69 { 1900 } else { 2000 };
                rest
            }
            "002" => {
                let mut day = 0;
                let rest = digits(rest, 3, 3, &mut day)?;
                self.day_of_year = Some(day);
                rest
            }
            "01" => digits(rest, 2, 2, &mut self.month)?,
            "1" => digits(rest, 1, 2, &mut self.month)?,
            "02" => digits(rest, 2, 2, &mut self.day)?,
            "2" => digits(rest, 1, 2, &mut self.day)?,
            "_2" => digits(rest.strip_prefix(' ').unwrap_or(rest), 1, 2, &mut self.day)?,
            "15" => digits(rest, 2, 2, &mut self.hour)?,
            "03" => digits(rest, 2, 2, &mut self.hour)?,
            "3" => digits(rest, 1, 2, &mut self.hour)?,
            "04" => digits(rest, 2, 2, &mut self.minute)?,
            "4" => digits(rest, 1, 2, &mut self.minute)?,
            "05" | "5" => {
                let rest = digits(rest, piece.len(), 2, &mut self.second)?;
                self.fraction(rest)
            }
            "PM" | "pm" => {
                let half = rest.get(..2)?;
                let (morning, evening) = if piece == "PM" { ("AM", "PM") } else { ("am", "pm") };
                self.afternoon = Some(half == evening);
                if half != morning && half != evening {
                    return None;
                }
                &rest[2..]
            }
            // Other abbreviations depend on the place where they are read.
            "MST" => rest.strip_prefix("UTC")?,
            "Z07:00" | "Z0700" if rest.starts_with('Z') => &rest[1..],
            "-07:00" | "Z07:00" => self.zone(rest, true, true)?,
            "-0700" | "Z0700" => self.zone(rest, false, true)?,
            "-07" => self.zone(rest, false, false)?,
            // Fractions of seconds were read with the seconds.
            _ => {
                if piece.contains('0') && self.nanoseconds == 0 && rest.starts_with(['.', ',']) {
                    self.fraction(rest)
                } else {
                    rest
                }
            }
        };
        Some(rest)
    }

    /// A fraction may follow seconds even if the layout has none.
    fn fraction<'a>(&mut self, rest: &'a str) -> &'a str {
        let Some(digits) = rest.strip_prefix(['.', ',']) else { return rest };
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return rest;
        }
        let nine: String = digits[..length].chars().chain("000000000".chars()).take(9).collect();
        self.nanoseconds = nine.parse().unwrap_or(0);
        &digits[length..]
    }

    fn zone<'a>(&mut self, rest: &'a str, colon: bool, minutes: bool) -> Option<&'a str> {
        let sign = match rest.chars().next()? {
            '+' => 1,
            '-' => -1,
            _ => return None,
        };
        let (mut hours, mut rest_minutes) = (0, 0);
        let mut rest = digits(&rest[1..], 2, 2, &mut hours)?;
        if minutes {
            rest = if colon { rest.strip_prefix(':')? } else { rest };
            rest = digits(rest, 2, 2, &mut rest_minutes)?;
        }
        let offset = sign * i32::try_from(hours * 3600 + rest_minutes * 60).ok()?;
        self.offset = (offset != 0).then_some(offset);
        (hours <= 24 && rest_minutes < 60).then_some(rest)
    }

    fn time(mut self) -> Option<Time> {
        match self.afternoon {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let days = match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        let valid = (1..=days).contains(&self.day)
            && (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second);
        if !valid {
            return None;
        }
        let day = match self.day_of_year {
            Some(day) if (1..=if leap { 366 } else { 365 }).contains(&day) => {
                days_from_civil(self.year, 1, 1) + day - 1
            }
            Some(_) => return None,
            None => days_from_civil(self.year, self.month, self.day),
        };
        let seconds = day * 86_400 + self.hour * 3600 + self.minute * 60 + self.second;
        let seconds = seconds - i64::from(self.offset.unwrap_or(0));
        Some(Time { seconds, nanoseconds: self.nanoseconds, offset: self.offset })
    }
}

fn digits<'a>(rest: &'a str, least: usize, most: usize, value: &mut i64) -> Option<&'a str> {
    let length = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if length < least {
        return None;
    }
    *value = rest[..length].parse().ok()?;
    Some(&rest[length..])
}

/// Days since 1970 of a day of the Gregorian calendar, with years that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}
