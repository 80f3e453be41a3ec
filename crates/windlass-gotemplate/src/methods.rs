//! Methods of versions and times: the only values that have any.

use std::cmp::Ordering;
use std::rc::Rc;

use super::dates::Time;
use super::semver::Version;
use super::value::{Heap, Integer, Value};

/// Calls a method.
pub(crate) fn call(heap: &Heap, receiver: &Value, name: &str, arguments: &[Value]) -> Result<Value, String> {
    let result = match receiver {
        Value::Version(version) => of_version(version, name, arguments)?,
        Value::Time(time) => of_time(*time, name, arguments),
        _ => None,
    };
    result.ok_or_else(|| {
        let given: Vec<&str> = arguments.iter().map(|argument| argument.go_type(heap)).collect();
        let receiver = receiver.go_type(heap);
        format!("{receiver} has no method {name:?} with the arguments ({})", given.join(", "))
    })
}

fn of_version(version: &Version, name: &str, arguments: &[Value]) -> Result<Option<Value>, String> {
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX), Integer::Uint64);
    let made = |version: Version| Value::Version(Rc::new(version));
    Ok(Some(match (name, arguments) {
        ("Major", []) => number(version.major),
        ("Minor", []) => number(version.minor),
        ("Patch", []) => number(version.patch),
        ("Prerelease", []) => version.prerelease.as_str().into(),
        ("Metadata", []) => version.metadata.as_str().into(),
        ("Original", []) => version.original.as_str().into(),
        ("String", []) => version.to_string().into(),
        ("IncMajor", []) => made(version.with_numbers(version.major.saturating_add(1), 0, 0)),
        ("IncMinor", []) => made(version.with_numbers(version.major, version.minor.saturating_add(1), 0)),
        // The release that a pre-release leads to comes first.
        ("IncPatch", []) => {
            let step = u64::from(version.prerelease.is_empty());
            made(version.with_numbers(version.major, version.minor, version.patch.saturating_add(step)))
        }
        ("SetPrerelease", [Value::String(prerelease)]) => made(version.with_prerelease(prerelease)?),
        ("SetMetadata", [Value::String(metadata)]) => made(version.with_metadata(metadata)?),
        ("Compare", [Value::Version(other)]) => Value::int(version.compare(other) as i64),
        ("Equal", [Value::Version(other)]) => (version.compare(other) == Ordering::Equal).into(),
        ("LessThan", [Value::Version(other)]) => (version.compare(other) == Ordering::Less).into(),
        ("LessThanEqual", [Value::Version(other)]) => (version.compare(other) != Ordering::Greater).into(),
        ("GreaterThan", [Value::Version(other)]) => (version.compare(other) == Ordering::Greater).into(),
        ("GreaterThanEqual", [Value::Version(other)]) => (version.compare(other) != Ordering::Less).into(),
        _ => return Ok(None),
    }))
}

fn of_time(time: Time, name: &str, arguments: &[Value]) -> Option<Value> {
    let civil = time.civil();
    Some(match (name, arguments) {
        ("Year", []) => Value::int(civil.year),
        ("YearDay", []) => Value::int(civil.day_of_year),
        ("Day", []) => Value::int(civil.day),
        ("Hour", []) => Value::int(civil.hour),
        ("Minute", []) => Value::int(civil.minute),
        ("Second", []) => Value::int(civil.second),
        ("Unix", []) => Value::int64(time.seconds),
        ("String", []) => time.to_string().into(),
        ("Format", [Value::String(layout)]) => time.format(layout).into(),
        _ => return None,
    })
}
