//! What people are told about it.

use std::collections::BTreeSet;

use super::Refusal;
use crate::condition::Finding;

/// Condition of a MachineDeployment or a control plane: whether somebody else has taken over the update of its machines.
pub const EXTERNAL_UPDATE: &str = "ExternalUpdate";

/// Reasons of [`EXTERNAL_UPDATE`].
pub mod reason {
    /// An implementer has taken over.
    pub const ACCEPTED: &str = "Accepted";
    /// All of them refuse.
    pub const REFUSED: &str = "Refused";
    /// An implementer could not be asked.
    pub const NO_ANSWER: &str = "NoUsableAnswer";
}

/// What came of asking implementers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TakeOver {
    /// Nobody was asked yet.
    #[default]
    NotAsked,
    /// Somebody has taken over.
    By {
        /// Full name of the handler.
        handler: String,
        /// What it says.
        reason: String,
    },
    /// All refuse; none of them if there is nobody.
    Refused(Vec<Refusal>),
    /// Somebody could not be asked, and nothing is done before it can.
    NoAnswer(String),
}

/// At most this many machines are named; a message must stay readable in a table.
const NAMED: usize = 5;

/// The condition. None if there is nothing to say: nobody is there who could be asked, or nobody was.
pub fn finding(outcome: &TakeOver, machines: &BTreeSet<String>) -> Option<Finding> {
    match outcome {
        TakeOver::By { handler, reason: said } => {
            let count = machines.len();
            let s = if count == 1 { "" } else { "s" };
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            let named: Vec<&str> = machines.iter().take(NAMED).map(String::as_str).collect();
            let more = match count.saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let message = format!(
                "{handler} updates {count} Machine{s}{said}\n* waiting for {}{more}",
                named.join(", ")
            );
            Some(Finding::yes(EXTERNAL_UPDATE, reason::ACCEPTED).because(message))
        }
        TakeOver::Refused(refusals) if !refusals.is_empty() => {
            let lines: Vec<String> = refusals.iter().map(|refusal| format!("* {refusal}")).collect();
            let message = format!("Nobody takes over the update\n{}", lines.join("\n"));
            Some(Finding::no(EXTERNAL_UPDATE, reason::REFUSED).because(message))
        }
        TakeOver::NoAnswer(why) => {
            Some(Finding::unknown(EXTERNAL_UPDATE, reason::NO_ANSWER).because(why.clone()))
        }
        TakeOver::NotAsked | TakeOver::Refused(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn people_are_told_who_and_why() {
        let machines: BTreeSet<String> = (1..8).map(|number| format!("m{number}")).collect();
        let told = |outcome| finding(&outcome, &machines).map(|finding| (finding.reason, finding.message));
        let by = |reason: &str| TakeOver::By { handler: "a.x".to_owned(), reason: reason.to_owned() };
        assert_eq!(
            told(by("by night")).unwrap().1,
            "a.x updates 7 Machines: by night\n* waiting for m1, m2, m3, m4, m5 and 2 more"
        );
        assert!(told(by("")).unwrap().1.starts_with("a.x updates 7 Machines\n"));
        let refusal = Refusal {
            by: "a.x".to_owned(),
            reason: "not mine".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            registration: String::new(),
        };
        let (reason, message) = told(TakeOver::Refused(vec![refusal])).unwrap();
        assert_eq!(reason, "Refused");
        assert_eq!(message, "Nobody takes over the update\n* a.x refuses: not mine");
        assert_eq!(told(TakeOver::NoAnswer("down".to_owned())).unwrap().0, "NoUsableAnswer");
        assert_eq!(told(TakeOver::Refused(Vec::new())), None);
        assert_eq!(told(TakeOver::NotAsked), None);
    }
}
