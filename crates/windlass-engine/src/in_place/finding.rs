//! The verdict as a condition of whoever owns the machines.

use super::Verdict;
use crate::condition::Finding;

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
