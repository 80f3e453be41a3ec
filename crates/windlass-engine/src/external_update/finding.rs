//! What people are told about it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Refusal;
use crate::condition::Finding;

/// Condition of a MachineDeployment or a control plane: whether an external updater has accepted the update of its machines.
pub const EXTERNAL_UPDATE: &str = "ExternalUpdate";

/// Reasons of [`EXTERNAL_UPDATE`].
pub mod reason {
    /// An external updater has accepted.
    pub const ACCEPTED: &str = "Accepted";
    /// All of them refuse.
    pub const REFUSED: &str = "Refused";
    /// An external updater could not be asked.
    pub const NO_ANSWER: &str = "NoUsableAnswer";
}

/// What came of asking external updaters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExternalUpdate {
    /// None was asked yet.
    #[default]
    NotAsked,
    /// This one has accepted.
    Accepted {
        /// Full name of the handler.
        handler: String,
        /// What it says.
        reason: String,
    },
    /// All refuse; empty if there is none.
    Refused(Vec<Refusal>),
    /// One of them could not be asked, and nothing is done before it can.
    NoAnswer(String),
}

/// At most this many machines are named; a message must stay readable in a table.
const NAMED: usize = 5;

/// The condition. None if there is nothing to say: there is no external updater, or none was asked. `again` is when the one
/// that has accepted, or the first that refuses, is asked again.
pub fn finding(
    outcome: &ExternalUpdate,
    machines: &BTreeSet<String>,
    again: Option<Timestamp>,
) -> Option<Finding> {
    // Conditions have whole seconds, and so have their messages.
    let again = again.map(|at| format!("; asked again at {at:.0}")).unwrap_or_default();
    match outcome {
        ExternalUpdate::Accepted { handler, reason: said } => {
            let count = machines.len();
            let s = if count == 1 { "" } else { "s" };
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            let named: Vec<&str> = machines.iter().take(NAMED).map(String::as_str).collect();
            let more = match count.saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let message = format!(
                "{handler} updates {count} Machine{s}{said}{again}\n* waiting for {}{more}",
                named.join(", ")
            );
            Some(Finding::yes(EXTERNAL_UPDATE, reason::ACCEPTED).because(message))
        }
        ExternalUpdate::Refused(refusals) if !refusals.is_empty() => {
            let lines: Vec<String> = refusals.iter().map(|refusal| format!("* {refusal}")).collect();
            let message = format!("No external updater accepts the update{again}\n{}", lines.join("\n"));
            Some(Finding::no(EXTERNAL_UPDATE, reason::REFUSED).because(message))
        }
        ExternalUpdate::NoAnswer(why) => {
            Some(Finding::unknown(EXTERNAL_UPDATE, reason::NO_ANSWER).because(why.clone()))
        }
        ExternalUpdate::NotAsked | ExternalUpdate::Refused(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_who_and_why_and_when_it_is_asked_again() {
        let machines: BTreeSet<String> = (1..8).map(|number| format!("m{number}")).collect();
        let said = |outcome, again| {
            finding(&outcome, &machines, again).map(|finding| (finding.reason, finding.message))
        };
        let told = |outcome| said(outcome, None);
        let by =
            |reason: &str| ExternalUpdate::Accepted { handler: "a.x".to_owned(), reason: reason.to_owned() };
        assert_eq!(
            told(by("by night")).unwrap().1,
            "a.x updates 7 Machines: by night\n* waiting for m1, m2, m3, m4, m5 and 2 more"
        );
        assert!(told(by("")).unwrap().1.starts_with("a.x updates 7 Machines\n"));
        let later = Some(Timestamp::from_millisecond(600_900).unwrap());
        let (_, message) = said(by("by night"), later).unwrap();
        assert!(
            message.starts_with("a.x updates 7 Machines: by night; asked again at 1970-01-01T00:10:00Z\n"),
            "{message}"
        );
        let refusal = Refusal {
            by: "a.x".to_owned(),
            reason: "not mine".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            registration: String::new(),
        };
        let refused = || ExternalUpdate::Refused(vec![refusal.clone()]);
        let (_, message) = said(refused(), later).unwrap();
        assert!(
            message
                .starts_with("No external updater accepts the update; asked again at 1970-01-01T00:10:00Z\n")
        );
        let (reason, message) = told(refused()).unwrap();
        assert_eq!(reason, "Refused");
        assert_eq!(message, "No external updater accepts the update\n* a.x refuses: not mine");
        assert_eq!(told(ExternalUpdate::NoAnswer("down".to_owned())).unwrap().0, "NoUsableAnswer");
        assert_eq!(told(ExternalUpdate::Refused(Vec::new())), None);
        assert_eq!(told(ExternalUpdate::NotAsked), None);
    }
}
