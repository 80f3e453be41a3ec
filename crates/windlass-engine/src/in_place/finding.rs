//! The verdict as a condition of whoever owns the machines.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Verdict;
use crate::condition::{self, Finding};

/// Condition of a MachineDeployment or a control plane that has machines to update: whether that is possible in place.
pub const CAN_UPDATE_IN_PLACE: &str = "CanUpdateInPlace";

/// Reasons of [`CAN_UPDATE_IN_PLACE`].
pub mod reason {
    /// Extensions cover every field.
    pub const COVERED: &str = "Covered";
    /// Some fields are covered by nobody.
    pub const NOT_COVERED: &str = "NotCovered";
    /// An extension could not be asked, or its answer cannot be used.
    pub const NO_ANSWER: &str = "NoUsableAnswer";
}

/// What was found out about the machines of one MachineSet, or about one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Extensions answered.
    Verdict(Verdict),
    /// No update leads there, whoever is asked.
    Impossible(String),
    /// It could not be found out.
    NoAnswer(String),
}

/// The condition, from what was found out about each of `subjects`, such as `MachineSet a`. None if there is nothing to
/// say: nothing is to be updated, or nobody could do it in place.
pub fn finding(subjects: &[(String, Found)]) -> Option<Finding> {
    if subjects.is_empty() {
        return None;
    }
    let lines: Vec<String> = subjects
        .iter()
        .map(|(subject, found)| match found {
            Found::Verdict(verdict) if verdict.fields.is_empty() => {
                format!("{subject} can be updated in place, no field of it changes")
            }
            Found::Verdict(verdict) if verdict.is_covered() => {
                format!("{subject} can be updated in place\n{verdict}")
            }
            Found::Verdict(verdict) => format!("{subject} cannot be updated in place\n{verdict}"),
            Found::Impossible(why) => format!("{subject} cannot be updated in place: {why}"),
            Found::NoAnswer(why) => format!("{subject}: {why}"),
        })
        .collect();
    let message = lines.join("\n");
    let unknown = subjects.iter().any(|(_, found)| matches!(found, Found::NoAnswer(_)));
    let covered =
        subjects.iter().all(|(_, found)| matches!(found, Found::Verdict(verdict) if verdict.is_covered()));
    Some(match (unknown, covered) {
        (true, _) => Finding::unknown(CAN_UPDATE_IN_PLACE, reason::NO_ANSWER).because(message),
        (false, true) => Finding::yes(CAN_UPDATE_IN_PLACE, reason::COVERED).because(message),
        (false, false) => Finding::no(CAN_UPDATE_IN_PLACE, reason::NOT_COVERED).because(message),
    })
}

/// What becomes of the condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// It stays: machines are being updated, or nobody got as far as asking.
    #[default]
    AsBefore,
    /// This was found out.
    Now(Finding),
    /// Nothing is to be updated.
    Nothing,
}

impl Said {
    /// Whether conditions say it already. What was found out is told before anything is done about it.
    pub fn is_told(&self, conditions: &[Condition]) -> bool {
        let Self::Now(finding) = self else { return true };
        condition::find(conditions, &finding.type_).is_some_and(|told| {
            condition::status_of(told) == finding.status
                && told.reason == finding.reason
                && told.message == finding.message
        })
    }

    /// Writes it into conditions, for the condition of a type; true if that changed anything.
    pub fn write(
        &self,
        type_: &str,
        conditions: &mut Vec<Condition>,
        generation: Option<i64>,
        now: Timestamp,
    ) -> bool {
        match self {
            Self::AsBefore => false,
            Self::Now(finding) => condition::set(conditions, finding.clone(), generation, now),
            Self::Nothing => condition::remove(conditions, type_),
        }
    }
}
