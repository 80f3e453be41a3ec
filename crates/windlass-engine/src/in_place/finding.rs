//! The answers as a condition of the owner of the machines.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{InPlaceAnswer, WhyNotInPlace};
use crate::condition::{self, Finding};

/// Condition of a MachineDeployment or a control plane that has machines to update: whether that is possible in place.
pub const CAN_UPDATE_IN_PLACE: &str = "CanUpdateInPlace";

/// Reasons of [`CAN_UPDATE_IN_PLACE`].
pub mod reason {
    /// Extensions cover every field.
    pub const COVERED: &str = "Covered";
    /// Some fields are covered by no extension.
    pub const NOT_COVERED: &str = "NotCovered";
    /// An extension could not be asked, or its answer cannot be used.
    pub const NO_ANSWER: &str = "NoUsableAnswer";
}

/// The condition, from the answers about each of `subjects`, such as `MachineSet a`. None if there is nothing to say: nothing
/// is to be updated, or no extension updates machines in place.
pub fn finding(subjects: &[(String, InPlaceAnswer)]) -> Option<Finding> {
    if subjects.is_empty() {
        return None;
    }
    let lines: Vec<String> = subjects
        .iter()
        .map(|(subject, answer)| match answer {
            Ok(verdict) if verdict.fields.is_empty() => {
                format!("{subject} can be updated in place, no field of it changes")
            }
            Ok(verdict) => format!("{subject} can be updated in place\n{verdict}"),
            Err(WhyNotInPlace::NotCovered(verdict)) => {
                format!("{subject} cannot be updated in place\n{verdict}")
            }
            Err(WhyNotInPlace::NoAnswer(why)) => format!("{subject}: {why}"),
            Err(why) => format!("{subject} cannot be updated in place: {why}"),
        })
        .collect();
    let message = lines.join("\n");
    let unknown = subjects.iter().any(|(_, answer)| matches!(answer, Err(WhyNotInPlace::NoAnswer(_))));
    let covered = subjects.iter().all(|(_, answer)| answer.is_ok());
    Some(match (unknown, covered) {
        (true, _) => Finding::unknown(CAN_UPDATE_IN_PLACE, reason::NO_ANSWER).because(message),
        (false, true) => Finding::yes(CAN_UPDATE_IN_PLACE, reason::COVERED).because(message),
        (false, false) => Finding::no(CAN_UPDATE_IN_PLACE, reason::NOT_COVERED).because(message),
    })
}

/// What becomes of the condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// It stays: machines are being updated, or extensions were not asked yet.
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
