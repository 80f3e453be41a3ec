//! Objects of providers that an object points to: whether they are there, what they say, and whether they go.

use std::fmt;

use windlass_api::cluster::ContractVersionedObjectReference;
use windlass_api::conditions::{ConditionStatus, reason};

use crate::condition::Finding;
use crate::contract::ReadyReport;

/// A provider's object that an object points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Referenced<T> {
    /// There is no reference.
    None,
    /// There is no such object.
    Missing(ContractVersionedObjectReference),
    /// It could not be read.
    Unreadable {
        /// The reference.
        reference: ContractVersionedObjectReference,
        /// Why.
        why: String,
    },
    /// It was read.
    Found {
        /// The reference.
        reference: ContractVersionedObjectReference,
        /// What the contract reads of it.
        object: T,
        /// Whether it is being deleted.
        deleting: bool,
        /// Whether it is marked as being updated in place.
        updating: bool,
    },
}

/// An object that has to go before the one that points to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Kind and name.
    pub what: String,
    /// Whether it is not being deleted yet.
    pub delete: bool,
}

/// An object that could not be read, so that it is unknown whether it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MayBeGone {
    /// Kind and name.
    pub what: String,
    /// What went wrong.
    pub why: String,
}

impl<T> Referenced<T> {
    /// What was read of the object, if it was.
    pub fn object(&self) -> Option<&T> {
        match self {
            Self::Found { object, .. } => Some(object),
            _ => None,
        }
    }

    /// Whether it is marked as being updated in place, if it is there.
    pub(crate) fn mark(&self) -> Option<bool> {
        match self {
            Self::Found { updating, .. } => Some(*updating),
            _ => None,
        }
    }

    /// What has to go; nothing if it is gone.
    pub(crate) fn leaving(&self) -> Option<Result<Leaving, MayBeGone>> {
        match self {
            Self::Found { reference, deleting, .. } => {
                Some(Ok(Leaving { what: reference.to_string(), delete: !deleting }))
            }
            Self::Unreadable { reference, why } => {
                Some(Err(MayBeGone { what: reference.to_string(), why: why.clone() }))
            }
            Self::Missing(_) | Self::None => None,
        }
    }
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "* {}", self.what)
    }
}

impl fmt::Display for MayBeGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot tell whether {} is gone: {}", self.what, self.why)
    }
}

/// What is said of a provider's object by the object that points to it, and in which words.
pub(crate) struct Mirrored<'a> {
    /// The condition of the object that points to it.
    pub(crate) type_: &'a str,
    /// The condition of the provider's object.
    pub(crate) words: &'a Words,
    /// Whether the object has been done before.
    pub(crate) was: bool,
    /// What an object that is not done does not say: the rest of a sentence that its name begins.
    pub(crate) silent: &'a str,
    /// What is said instead where the object has said nothing, by a caller that knows what is waited on.
    pub(crate) instead: Option<&'a str>,
}

/// A condition, and the reasons for what a provider gives none.
pub(crate) struct Words {
    condition: &'static str,
    good: &'static str,
    issue: &'static str,
    unknown: &'static str,
}

impl Words {
    /// Of `Ready`.
    pub(crate) const READY: Self = Self {
        condition: "Ready",
        good: reason::READY,
        issue: reason::NOT_READY,
        unknown: reason::READY_UNKNOWN,
    };
    /// Of `Available`.
    pub(crate) const AVAILABLE: Self = Self {
        condition: "Available",
        good: reason::AVAILABLE,
        issue: reason::NOT_AVAILABLE,
        unknown: reason::AVAILABLE_UNKNOWN,
    };
}

impl Mirrored<'_> {
    /// What follows from the object. `report` is its condition, and whether the object is done without one.
    pub(crate) fn finding<T>(
        &self,
        referenced: &Referenced<T>,
        report: Option<(&ReadyReport, bool)>,
    ) -> Finding {
        let Self { type_, was, silent, .. } = *self;
        let Words { condition, good, issue, unknown } = *self.words;
        let or = |text: String| self.instead.map_or(text, str::to_owned);
        match (referenced, report) {
            (Referenced::Missing(reference), _) if was => {
                Finding::no(type_, reason::OBJECT_DELETED).because(format!("{reference} has been deleted"))
            }
            (Referenced::Missing(reference), _) => Finding::no(type_, reason::OBJECT_DOES_NOT_EXIST)
                .because(or(format!("{reference} does not exist"))),
            (Referenced::Unreadable { reference, why }, _) => Finding::unknown(type_, reason::INTERNAL_ERROR)
                .because(or(format!("cannot read {reference}: {why}"))),
            (_, Some((ReadyReport::Reported { status, reason, message }, _))) => {
                // Providers of the older contract leave the reason out where there is nothing to say.
                let word = match (reason.as_str(), status) {
                    ("", ConditionStatus::True) => good,
                    ("", ConditionStatus::False) => issue,
                    ("", ConditionStatus::Unknown) => unknown,
                    (word, _) => word,
                };
                Finding::new(type_, *status, word).because(message)
            }
            (_, Some((ReadyReport::Invalid { status }, _))) => {
                Finding::unknown(type_, reason::INVALID_CONDITION_REPORTED)
                    .because(format!("condition {condition} has the status {status:?}"))
            }
            (_, Some((ReadyReport::Absent, true))) => Finding::yes(type_, good),
            (Referenced::Found { reference, .. }, _) => {
                Finding::no(type_, issue).because(or(format!("{reference} {silent}")))
            }
            (Referenced::None, _) => Finding::no(type_, issue).because(or(String::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIRRORED: Mirrored<'static> = Mirrored {
        type_: "InfrastructureReady",
        words: &Words::READY,
        was: false,
        silent: "is not done",
        instead: None,
    };

    fn reference() -> ContractVersionedObjectReference {
        ContractVersionedObjectReference {
            api_group: "infra.io".to_owned(),
            kind: "Infra".to_owned(),
            name: "x".to_owned(),
        }
    }

    fn said(
        mirrored: &Mirrored<'_>,
        referenced: &Referenced<()>,
        report: Option<(&ReadyReport, bool)>,
    ) -> [String; 3] {
        let finding = mirrored.finding(referenced, report);
        [format!("{:?}", finding.status), finding.reason, finding.message]
    }

    #[test]
    fn what_is_said_follows_from_the_object_and_its_condition() {
        let found =
            Referenced::Found { reference: reference(), object: (), deleting: false, updating: false };
        let missing = Referenced::Missing(reference());
        let unreadable = Referenced::Unreadable { reference: reference(), why: "no CRD".to_owned() };
        let reported = |status, reason: &str| ReadyReport::Reported {
            status,
            reason: reason.to_owned(),
            message: "m".to_owned(),
        };
        let (silent, no_disk) = (ReadyReport::Absent, reported(ConditionStatus::False, "NoDisk"));
        let (well, ill) = (reported(ConditionStatus::True, ""), reported(ConditionStatus::False, ""));
        let invalid = ReadyReport::Invalid { status: "Yes".to_owned() };
        let cases = [
            (&missing, None, ["False", "ObjectDoesNotExist", "Infra x does not exist"]),
            (&unreadable, None, ["Unknown", "InternalError", "cannot read Infra x: no CRD"]),
            (&found, Some((&no_disk, true)), ["False", "NoDisk", "m"]),
            (&found, Some((&well, false)), ["True", "Ready", "m"]),
            (&found, Some((&ill, true)), ["False", "NotReady", "m"]),
            (
                &found,
                Some((&invalid, true)),
                ["Unknown", "InvalidConditionReported", "condition Ready has the status \"Yes\""],
            ),
            (&found, Some((&silent, true)), ["True", "Ready", ""]),
            (&found, Some((&silent, false)), ["False", "NotReady", "Infra x is not done"]),
            (&Referenced::None, None, ["False", "NotReady", ""]),
        ];
        for (referenced, report, expected) in cases {
            assert_eq!(said(&MIRRORED, referenced, report), expected, "{referenced:?} {report:?}");
        }
        let was = Mirrored { was: true, ..MIRRORED };
        assert_eq!(said(&was, &missing, None), ["False", "ObjectDeleted", "Infra x has been deleted"]);
    }

    #[test]
    fn only_what_is_known_to_be_gone_is_gone() {
        let found =
            |deleting| Referenced::Found { reference: reference(), object: (), deleting, updating: false };
        let unreadable = Referenced::Unreadable { reference: reference(), why: "no CRD".to_owned() };
        let cases = [
            (found(false), Some(Ok(Leaving { what: "Infra x".to_owned(), delete: true }))),
            (found(true), Some(Ok(Leaving { what: "Infra x".to_owned(), delete: false }))),
            (unreadable, Some(Err(MayBeGone { what: "Infra x".to_owned(), why: "no CRD".to_owned() }))),
            (Referenced::Missing(reference()), None),
            (Referenced::None, None),
        ];
        for (referenced, expected) in cases {
            assert_eq!(referenced.leaving(), expected, "{referenced:?}");
        }
    }

    #[test]
    fn a_caller_that_knows_what_is_waited_on_says_that() {
        let waits = Mirrored { instead: Some("Waiting for the disk"), ..MIRRORED };
        let missing = Referenced::Missing(reference());
        assert_eq!(said(&waits, &missing, None)[2], "Waiting for the disk");
        let gone = Mirrored { was: true, ..waits };
        assert_eq!(said(&gone, &missing, None)[2], "Infra x has been deleted", "that is no wait");
    }
}
