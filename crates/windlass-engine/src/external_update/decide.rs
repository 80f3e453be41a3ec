//! Which external updater is asked next.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{Acceptance, Record, Refusal};

/// How long a refusal holds while the rollout stands still because of it: external updaters may learn, and nothing says when they
/// have.
pub const REFUSALS_HOLD: SignedDuration = SignedDuration::from_mins(10);

/// When one that has accepted and was not reached is asked again, if its failure policy says not to mind.
pub const UNREACHED_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// What is known when external updaters are asked.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// What external updaters said so far.
    pub record: Option<&'a Record>,
    /// The [fingerprint](super::fingerprint) of what is desired.
    pub desired: &'a str,
    /// The machines that are not as desired.
    pub machines: &'a BTreeSet<String>,
    /// The external updaters, in the order in which they are asked.
    pub updaters: &'a [ExternalUpdater],
    /// Whether machines are replaced if none of them accepts.
    pub fallback: bool,
    /// The time.
    pub now: Timestamp,
}

/// An extension that implements hook `ExternalUpdate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalUpdater {
    /// Full name of the handler.
    pub name: String,
    /// How it is registered, in short: where it is and with which settings.
    pub registration: String,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is to be updated. What was recorded can be forgotten.
    Nothing,
    /// This external updater is asked.
    Ask(ExternalUpdater),
    /// An external updater has accepted. Its machines are watched.
    Watch {
        /// Which one, and what it said.
        acceptance: Acceptance,
        /// When it is asked again.
        again: Option<Timestamp>,
    },
    /// None of them accepts.
    Refused {
        /// Which were asked and why they refuse; empty if there is none.
        refusals: Vec<Refusal>,
        /// When the first of them is asked again.
        again: Option<Timestamp>,
    },
}

/// What an external updater said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It accepts.
    Accepted {
        /// What it says.
        reason: String,
        /// When it wants to be asked again.
        retry_after: Option<SignedDuration>,
    },
    /// It does not, or no longer.
    Refused {
        /// What it says.
        reason: String,
    },
    /// It was not reached, and its failure policy says not to mind. Never an acceptance.
    NotReached,
}

impl Record {
    /// The one that has accepted, if it is still registered. No other is asked before it has withdrawn, whatever the change:
    /// two must not work on the same machines.
    pub fn holder(&self, updaters: &[ExternalUpdater]) -> Option<&Acceptance> {
        let known = |accepted: &&Acceptance| updaters.iter().any(|other| other.name == accepted.by);
        self.accepted.as_ref().filter(known)
    }
}

impl Observed<'_> {
    fn holder(&self) -> Option<&Acceptance> {
        self.record?.holder(self.updaters)
    }

    /// The refusals that still count.
    fn refusals(&self) -> Vec<Refusal> {
        let counts = |refusal: &&Refusal| {
            let same = |other: &ExternalUpdater| {
                other.name == refusal.by && other.registration == refusal.registration
            };
            // While machines are replaced none is asked again: it would meet half a rollout.
            let fresh = self.fallback || self.now.duration_since(refusal.at) < REFUSALS_HOLD;
            self.updaters.iter().any(same) && fresh
        };
        let record = self.record.filter(|record| record.desired == self.desired);
        record.into_iter().flat_map(|record| &record.refused).filter(counts).cloned().collect()
    }
}

/// Decides which external updater is asked next, if any.
pub fn decide(observed: &Observed<'_>) -> Step {
    if observed.machines.is_empty() {
        return Step::Nothing;
    }
    let is = |name: &str| observed.updaters.iter().find(|other| other.name == name).cloned();
    if let Some(acceptance) = observed.holder() {
        let same = observed.record.is_some_and(|record| record.desired == observed.desired)
            && observed.machines.is_subset(&acceptance.machines);
        let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= observed.now);
        let must_wait = acceptance.not_before.is_some() && !due(acceptance.not_before);
        if !must_wait
            && (!same || due(acceptance.ask_again) || due(acceptance.not_before))
            && let Some(holder) = is(&acceptance.by)
        {
            return Step::Ask(holder);
        }
        let again = acceptance.not_before.or(acceptance.ask_again);
        return Step::Watch { acceptance: acceptance.clone(), again };
    }
    let refusals = observed.refusals();
    let unasked = |other: &&ExternalUpdater| refusals.iter().all(|refusal| refusal.by != other.name);
    match observed.updaters.iter().find(unasked) {
        Some(next) => Step::Ask(next.clone()),
        None => {
            let first = refusals.iter().map(|refusal| refusal.at).min().filter(|_| !observed.fallback);
            let again = first.and_then(|at| at.checked_add(REFUSALS_HOLD).ok());
            Step::Refused { refusals, again }
        }
    }
}

/// The record after an answer. It is written before anything is done about it.
pub fn after(observed: &Observed<'_>, asked: &ExternalUpdater, answer: Answer) -> Record {
    let later = |duration: SignedDuration| observed.now.checked_add(duration).ok();
    let mut refused = observed.refusals();
    refused.retain(|refusal| refusal.by != asked.name);
    let refusal = |reason: String| Refusal {
        by: asked.name.clone(),
        reason,
        at: observed.now,
        registration: asked.registration.clone(),
    };
    let desired = observed.desired.to_owned();
    match answer {
        Answer::Accepted { reason, retry_after } => {
            let accepted = Acceptance {
                by: asked.name.clone(),
                reason,
                machines: observed.machines.clone(),
                ask_again: retry_after.and_then(later),
                not_before: None,
            };
            Record { desired, accepted: Some(accepted), refused: Vec::new() }
        }
        Answer::Refused { reason } => {
            refused.push(refusal(reason));
            Record { desired, accepted: None, refused }
        }
        Answer::NotReached => match (observed.record, observed.holder()) {
            // What it accepted stands: silence is no withdrawal, and nothing new is accepted by it.
            (Some(record), Some(acceptance)) if acceptance.by == asked.name => Record {
                accepted: Some(Acceptance { not_before: later(UNREACHED_AGAIN), ..acceptance.clone() }),
                ..record.clone()
            },
            _ => {
                refused.push(refusal("it was not reached, which its failure policy ignores".to_owned()));
                Record { desired, accepted: None, refused }
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn updaters(names: &[&str]) -> Vec<ExternalUpdater> {
        names
            .iter()
            .map(|&name| ExternalUpdater { name: name.to_owned(), registration: "r".to_owned() })
            .collect()
    }

    fn accepted(retry: Option<i64>) -> Answer {
        Answer::Accepted { reason: "on it".to_owned(), retry_after: retry.map(SignedDuration::from_secs) }
    }

    fn refused() -> Answer {
        Answer::Refused { reason: "not mine".to_owned() }
    }

    /// An owner that asks until there is none left to be asked.
    struct Owner {
        record: Option<Record>,
        desired: &'static str,
        machines: BTreeSet<String>,
        updaters: Vec<ExternalUpdater>,
        fallback: bool,
    }

    impl Owner {
        fn new(updaters: &[&str]) -> Self {
            Self {
                record: None,
                desired: "d1",
                machines: names(&["m1", "m2"]),
                updaters: self::updaters(updaters),
                fallback: false,
            }
        }

        fn step(&self, now: i64) -> Step {
            decide(&self.observed(now))
        }

        fn observed(&self, now: i64) -> Observed<'_> {
            Observed {
                record: self.record.as_ref(),
                desired: self.desired,
                machines: &self.machines,
                updaters: &self.updaters,
                fallback: self.fallback,
                now: at(now),
            }
        }

        /// Asks the updater that is next, which must be `who`, through what is written down.
        fn ask(&mut self, now: i64, who: &str, answer: Answer) {
            let Step::Ask(next) = self.step(now) else { panic!("none is asked: {:?}", self.step(now)) };
            assert_eq!(next.name, who);
            let record = after(&self.observed(now), &next, answer);
            self.record = Record::from_annotation(&record.to_annotation());
            assert_eq!(self.record, Some(record));
        }

        fn watched(&self, now: i64) -> (String, Option<Timestamp>) {
            match self.step(now) {
                Step::Watch { acceptance, again } => (acceptance.by, again),
                other => panic!("none has accepted: {other:?}"),
            }
        }

        fn refusals(&self, now: i64) -> (Vec<String>, Option<Timestamp>) {
            match self.step(now) {
                Step::Refused { refusals, again } => {
                    (refusals.iter().map(ToString::to_string).collect(), again)
                }
                other => panic!("not refused: {other:?}"),
            }
        }
    }

    #[test]
    fn external_updaters_are_asked_in_order_until_one_accepts() {
        let mut owner = Owner::new(&["a", "b", "c"]);
        owner.ask(0, "a", refused());
        owner.ask(1, "b", accepted(None));
        assert_eq!(owner.watched(2), ("b".to_owned(), None));
        assert_eq!(owner.watched(1_000_000), ("b".to_owned(), None), "it is never asked again by itself");
        // Machines that are done are fewer of the same.
        owner.machines = names(&["m2"]);
        assert_eq!(owner.watched(3).0, "b");
        owner.machines = names(&[]);
        assert_eq!(owner.step(4), Step::Nothing);
    }

    #[test]
    fn who_asked_for_it_is_asked_again_and_may_withdraw() {
        let mut owner = Owner::new(&["a", "b"]);
        owner.ask(0, "a", accepted(Some(30)));
        assert_eq!(owner.watched(29), ("a".to_owned(), Some(at(30))));
        owner.ask(30, "a", accepted(Some(30)));
        assert_eq!(owner.watched(31), ("a".to_owned(), Some(at(60))));
        owner.ask(60, "a", refused());
        owner.ask(60, "b", refused());
        let (refusals, again) = owner.refusals(61);
        assert_eq!(refusals, ["a refuses: not mine", "b refuses: not mine"]);
        assert_eq!(again, Some(at(660)));
        // It is unknown when external updaters change their answer.
        owner.ask(660, "a", accepted(None));
        assert_eq!(owner.watched(661).0, "a");
    }

    #[test]
    fn refusals_hold_for_as_long_as_machines_are_replaced_because_of_them() {
        let mut owner = Owner::new(&["a"]);
        owner.fallback = true;
        owner.ask(0, "a", refused());
        owner.machines = names(&["m2"]);
        assert_eq!(owner.refusals(1_000_000), (vec!["a refuses: not mine".to_owned()], None));
        // Another change, or an external updater that was registered anew, is another question.
        owner.desired = "d2";
        owner.ask(2, "a", refused());
        owner.updaters[0].registration = "other".to_owned();
        owner.ask(3, "a", accepted(None));
    }

    #[test]
    fn nobody_is_nobody() {
        assert_eq!(Owner::new(&[]).refusals(0), (Vec::new(), None));
    }

    #[test]
    fn the_one_who_has_accepted_is_asked_first_when_something_changes() {
        let mut owner = Owner::new(&["a", "b"]);
        owner.ask(0, "a", refused());
        owner.ask(0, "b", accepted(Some(3600)));
        // A machine that it does not know of.
        owner.machines = names(&["m1", "m3"]);
        owner.ask(1, "b", accepted(Some(3600)));
        assert_eq!(owner.watched(2).0, "b");
        // Another template: it is at work on these machines, whatever others could do.
        owner.desired = "d2";
        owner.ask(3, "b", refused());
        owner.ask(3, "a", accepted(None));
        // It is not registered any more, so it does not work on it.
        owner.updaters.remove(0);
        owner.ask(4, "b", accepted(None));
    }

    #[test]
    fn silence_is_neither_acceptance_nor_withdrawal() {
        let mut owner = Owner::new(&["a", "b"]);
        owner.ask(0, "a", Answer::NotReached);
        owner.ask(0, "b", Answer::NotReached);
        let (refusals, _) = owner.refusals(1);
        assert!(refusals.iter().all(|refusal| refusal.contains("was not reached")), "{refusals:?}");

        let mut owner = Owner::new(&["a", "b"]);
        owner.ask(0, "a", accepted(Some(30)));
        owner.ask(30, "a", Answer::NotReached);
        assert_eq!(owner.watched(31), ("a".to_owned(), Some(at(90))), "asked again, not in a loop");
        owner.desired = "d2";
        assert_eq!(owner.watched(89).0, "a", "what is new was not accepted, and it is not asked in a loop");
        owner.ask(90, "a", Answer::NotReached);
        assert_eq!(owner.record.as_ref().unwrap().desired, "d1");
        owner.ask(150, "a", accepted(None));
        assert_eq!(owner.record.as_ref().unwrap().desired, "d2");
        assert_eq!(owner.watched(151), ("a".to_owned(), None));
    }
}
