//! Since when a Machine waits, and when that is written down.
//!
//! A wait begins when a reconcile first decides on it, as everywhere. But there are many Machines, most of their waits last for
//! seconds, and an annotation is a write of its own: a wait is written down when it has lasted for [`KEPT_AFTER`], and the
//! controller remembers it until then. What is lost by a restart is therefore less than that.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Observed;
use crate::waiting::{Wait, WaitingOn};

/// How long a wait lasts before it is written down. A machine comes up in a few minutes, so its owner does not ask since
/// when it waits before that.
pub(super) const KEPT_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// A wait of a Machine, and what has to be done about its annotation.
pub(super) struct Kept {
    pub(super) wait: Option<Wait>,
    /// As [`Wait::change`] says it.
    pub(super) change: Option<Option<String>>,
    /// When it is to be written, unless it ends before that.
    pub(super) again: Option<Duration>,
}

/// The wait that was decided on. It goes on if the controller remembers it, or the Machine keeps it.
pub(super) fn keep(on: Option<&WaitingOn>, observed: &Observed<'_>, now: Timestamp) -> Kept {
    let annotations = observed.machine.metadata.annotations.as_ref();
    let written = Wait::read(annotations);
    let wait = on.map(|on| {
        let before = [observed.waited, written.as_ref()].into_iter().flatten().find(|wait| wait.is_on(on));
        Wait::of(on, before, now)
    });
    // This one says what is left of it instead, and ends with that.
    let is_timed = matches!(on, Some(WaitingOn::MinReady { .. }));
    let lasting = wait.as_ref().filter(|_| !is_timed);
    let left = lasting.map(|wait| KEPT_AFTER - now.duration_since(wait.since.0));
    let left = left.filter(|left| *left > SignedDuration::ZERO);
    let change = Wait::change(lasting.filter(|_| left.is_none()), annotations);
    Kept { change, again: left.map(SignedDuration::unsigned_abs), wait }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_api::cluster::Machine;
    use windlass_api::names::WAITING_ON_ANNOTATION;

    use super::*;
    use crate::machine::NodeSeen;
    use crate::referenced::Referenced;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn node(provider_id: &str) -> WaitingOn {
        WaitingOn::Node { provider_id: provider_id.to_owned() }
    }

    fn healthy(says: &str) -> WaitingOn {
        WaitingOn::NodeHealthy { name: "n1".to_owned(), says: says.to_owned() }
    }

    /// What is decided about a Machine that waits, with what the controller remembers.
    fn kept(on: Option<&WaitingOn>, machine: &Machine, waited: Option<&Wait>, second: i64) -> Kept {
        let observed = Observed {
            machine,
            bootstrap: Referenced::None,
            infrastructure: Referenced::None,
            node: NodeSeen::Absent,
            up_to_date: None,
            updating: None,
            deletion: None,
            waited,
        };
        keep(on, &observed, at(second))
    }

    /// A Machine whose conditions are older and younger than every wait: they say nothing about one.
    fn machine(wait: Option<&Wait>) -> Machine {
        let condition = |type_: &str, second: i64| {
            json!({"type": type_, "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": at(second).to_string()})
        };
        let mut machine: Machine = serde_json::from_value(json!({
            "metadata": {"name": "m1", "creationTimestamp": at(1).to_string()},
            "status": {"conditions": [condition("InfrastructureReady", 5), condition("NodeReady", 99)]},
        }))
        .unwrap();
        let value = wait.and_then(|wait| Wait::change(Some(wait), None)).flatten();
        machine.metadata.annotations = value.map(|value| [(WAITING_ON_ANNOTATION.to_owned(), value)].into());
        machine
    }

    #[test]
    fn a_wait_begins_when_it_is_decided_on_and_is_written_when_it_lasts() {
        let (on, bare) = (node("p://1"), machine(None));
        let first = kept(Some(&on), &bare, None, 100);
        let wait = first.wait.unwrap();
        assert_eq!(wait.since.0, at(100), "not when a condition changed");
        assert_eq!((first.change, first.again), (None, Some(Duration::from_secs(60))));

        let later = kept(Some(&on), &bare, Some(&wait), 130);
        assert_eq!((later.change, later.again), (None, Some(Duration::from_secs(30))), "it is remembered");
        let due = kept(Some(&on), &bare, Some(&wait), 160);
        assert_eq!((due.change, due.again), (Wait::change(Some(&wait), None), None));

        // A new process reads it from the Machine, and writes nothing while it goes on.
        let written = machine(Some(&wait));
        let goes_on = kept(Some(&on), &written, None, 500);
        assert_eq!(goes_on.wait.as_ref(), Some(&wait));
        assert_eq!((goes_on.change, goes_on.again), (None, None));
        // One that restarts before it was written counts from its own beginning.
        assert_eq!(kept(Some(&on), &bare, None, 500).wait.unwrap().since.0, at(500));
    }

    #[test]
    fn another_wait_begins_anew_and_takes_the_one_before_away() {
        let before = Wait::since(&node("p://1"), at(100));
        let written = machine(Some(&before));
        let next = kept(Some(&healthy("booting")), &written, Some(&before), 200);
        assert_eq!(next.wait.as_ref().unwrap().since.0, at(200));
        assert_eq!((next.change, next.again), (Some(None), Some(Duration::from_secs(60))));
        assert_eq!(kept(None, &written, Some(&before), 200).change, Some(None), "nothing is waited on");

        // Other words for the same wait are written, with the same beginning.
        let (says, now_says) = (healthy("booting"), healthy("no network"));
        let wait = Wait::since(&says, at(100));
        let said = kept(Some(&now_says), &machine(Some(&wait)), Some(&wait), 300);
        assert_eq!(said.wait.as_ref().unwrap().since.0, at(100));
        assert_eq!(said.change, Wait::change(Some(&Wait::since(&now_says, at(100))), None));
    }

    #[test]
    fn evidence_with_a_beginning_of_its_own_and_waits_that_a_timer_ends() {
        let silent = WaitingOn::Workload { why: "refused".to_owned(), since: at(10) };
        let due = kept(Some(&silent), &machine(None), None, 100);
        assert_eq!(due.wait.as_ref().unwrap().since.0, at(10));
        assert!(matches!(due.change, Some(Some(_))), "it has lasted for longer");
        // What is left of it changes with every second: it is not written.
        let timed = WaitingOn::MinReady { left: SignedDuration::from_secs(500) };
        let wait = Wait::since(&timed, at(10));
        let told = kept(Some(&timed), &machine(None), Some(&wait), 100);
        assert_eq!((told.change, told.again), (None, None));
        assert_eq!(told.wait.unwrap().since.0, at(10));
    }
}
