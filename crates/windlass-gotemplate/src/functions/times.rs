//! Dates and durations, as far as they do not ask the clock.

use super::Type::{Any, Str, Time as Date};
use super::{Call, Function, function};
use windlass_api::{GoDuration, GoDurationError};

use crate::dates::Time;
use crate::value::{Integer, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("duration", &[Any], |c| {
        // Upstream knows strings and int64 only; everything else is 0.
        let seconds = match c.value(0)? {
            Value::String(seconds) => seconds.parse().unwrap_or(0),
            Value::Integer(seconds, Integer::Int64) => *seconds,
            _ => 0_i64,
        };
        Ok(GoDuration::from_nanos(seconds.wrapping_mul(1_000_000_000)).to_string().into())
    }),
    function("durationRound", &[Any], |c| match c.value(0)? {
        Value::String(written) => Ok(rounded(written.parse().map_or(0, GoDuration::as_nanos)).into()),
        Value::Integer(nanoseconds, Integer::Int64) => Ok(rounded(*nanoseconds).into()),
        Value::Time(_) => Err("the time since a date depends on the time of day".to_owned()),
        _ => Ok(rounded(0).into()),
    }),
    function("mustDateModify", &[Str, Date], modify),
    function("mustToDate", &[Str, Str], |c| Ok(Value::Time(Time::parse(&c.str(0)?, &c.str(1)?)?))),
    function("must_date_modify", &[Str, Date], modify),
    function("toDate", &[Str, Str], |c| {
        Ok(Value::Time(Time::parse(&c.str(0)?, &c.str(1)?).unwrap_or(Time::ZERO)))
    }),
    function("unixEpoch", &[Date], |c| Ok(c.time(0)?.seconds.to_string().into())),
];

fn modify(c: &mut Call<'_>) -> Result<Value, String> {
    let (written, time) = (c.str(0)?, c.time(1)?);
    let duration: GoDuration = written.parse().map_err(|error: GoDurationError| error.to_string())?;
    match time.plus_nanoseconds(duration.as_nanos()) {
        Some(time) => Ok(Value::Time(time)),
        None => Err(format!("{written} leads to no date")),
    }
}

/// The largest unit that fits more than once.
fn rounded(nanoseconds: i64) -> String {
    const HOUR: u64 = 3_600_000_000_000;
    let size = nanoseconds.unsigned_abs();
    for (unit, name) in [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
    ] {
        if size > unit {
            return format!("{}{name}", size / unit);
        }
    }
    "0s".to_owned()
}
