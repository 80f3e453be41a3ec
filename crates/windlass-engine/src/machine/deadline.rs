//! How long an update in place may take, and what becomes of a Machine then. The user chooses; without a word of theirs
//! there is no deadline.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use windlass_api::GoDuration;
use windlass_api::names::{IN_PLACE_AFTER_DEADLINE_ANNOTATION, IN_PLACE_DEADLINE_ANNOTATION};

/// The deadline of a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// How long an update may take.
    pub after: SignedDuration,
    /// What becomes of the Machine then.
    pub then: AfterDeadline,
}

/// What becomes of a Machine whose update takes too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDeadline {
    /// Extensions are asked on, and people are told.
    #[default]
    KeepTrying,
    /// No extension is asked any more until the user changes something.
    Stop,
    /// The owner is asked to remediate the Machine, as after a failed health check.
    Replace,
}

/// A deadline that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key}: {value:?} is not {expected}")]
pub struct DeadlineError {
    key: &'static str,
    value: String,
    expected: &'static str,
}

/// Where an update is with respect to its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// There is no deadline.
    Unlimited,
    /// There is time until then.
    Until(Timestamp),
    /// It is over since then.
    Over {
        /// When it was.
        since: Timestamp,
        /// What becomes of the Machine.
        then: AfterDeadline,
    },
}

impl Deadline {
    /// Reads the annotations of a Machine, which usually come from the template of Machines.
    ///
    /// # Errors
    ///
    /// They say nothing that could be understood.
    pub fn of(annotations: &BTreeMap<String, String>) -> Result<Option<Self>, DeadlineError> {
        let Some(text) = annotations.get(IN_PLACE_DEADLINE_ANNOTATION) else { return Ok(None) };
        let after = duration(text).ok_or_else(|| DeadlineError {
            key: IN_PLACE_DEADLINE_ANNOTATION,
            value: text.clone(),
            expected: "a duration such as 90m",
        })?;
        let then = match annotations.get(IN_PLACE_AFTER_DEADLINE_ANNOTATION).map(String::as_str) {
            None | Some("KeepTrying") => AfterDeadline::KeepTrying,
            Some("Stop") => AfterDeadline::Stop,
            Some("Replace") => AfterDeadline::Replace,
            Some(other) => {
                return Err(DeadlineError {
                    key: IN_PLACE_AFTER_DEADLINE_ANNOTATION,
                    value: other.to_owned(),
                    expected: "KeepTrying, Stop or Replace",
                });
            }
        };
        Ok(Some(Self { after, then }))
    }

    /// Where an update is that began at `began`.
    pub fn time(deadline: Option<&Self>, began: Option<Timestamp>, now: Timestamp) -> Time {
        let Some((deadline, began)) = deadline.zip(began) else { return Time::Unlimited };
        let until = began.checked_add(deadline.after).unwrap_or(Timestamp::MAX);
        if now < until { Time::Until(until) } else { Time::Over { since: until, then: deadline.then } }
    }
}

/// A deadline after no time at all, or before the update begins, is a mistake.
fn duration(text: &str) -> Option<SignedDuration> {
    let duration: GoDuration = text.parse().ok()?;
    Some(SignedDuration::from_nanos(duration.as_nanos())).filter(SignedDuration::is_positive)
}

impl fmt::Display for AfterDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeepTrying => "extensions are asked on",
            Self::Stop => "no extension is asked any more",
            Self::Replace => "the Machine is to be replaced",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(deadline: &str, then: Option<&str>) -> BTreeMap<String, String> {
        let then = then.map(|then| (IN_PLACE_AFTER_DEADLINE_ANNOTATION.to_owned(), then.to_owned()));
        [(IN_PLACE_DEADLINE_ANNOTATION.to_owned(), deadline.to_owned())].into_iter().chain(then).collect()
    }

    #[test]
    fn deadlines_are_read_or_refused() {
        assert_eq!(Deadline::of(&BTreeMap::new()), Ok(None));
        for (text, seconds) in
            [("90m", 5400), ("1h30m", 5400), ("1.5h", 5400), ("45s", 45), ("2h", 7200), ("1h0m5s", 3605)]
        {
            let read = Deadline::of(&annotations(text, None)).unwrap().unwrap();
            assert_eq!((read.after.as_secs(), read.then), (seconds, AfterDeadline::KeepTrying), "{text}");
        }
        for text in ["", "soon", "5", "m", "0s", "-5m", "5d", "99999999999999999999s", "9223372036854775807h"]
        {
            let error = Deadline::of(&annotations(text, None)).unwrap_err().to_string();
            assert!(error.ends_with("is not a duration such as 90m"), "{error}");
        }
        for (word, then) in [
            ("KeepTrying", AfterDeadline::KeepTrying),
            ("Stop", AfterDeadline::Stop),
            ("Replace", AfterDeadline::Replace),
        ] {
            assert_eq!(Deadline::of(&annotations("1h", Some(word))).unwrap().unwrap().then, then);
        }
        assert!(Deadline::of(&annotations("1h", Some("replace"))).is_err());
    }

    #[test]
    fn an_update_is_in_time_until_its_deadline() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let deadline = Deadline { after: SignedDuration::from_secs(60), then: AfterDeadline::Stop };
        for (deadline, began, now, expected) in [
            (None, Some(at(0)), at(1_000_000), Time::Unlimited),
            (Some(&deadline), None, at(100), Time::Unlimited),
            (Some(&deadline), Some(at(100)), at(159), Time::Until(at(160))),
            (
                Some(&deadline),
                Some(at(100)),
                at(160),
                Time::Over { since: at(160), then: AfterDeadline::Stop },
            ),
        ] {
            assert_eq!(Deadline::time(deadline, began, now), expected);
        }
    }
}
