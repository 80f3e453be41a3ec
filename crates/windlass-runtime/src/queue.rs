//! The queue of one controller. Pure: the time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::cause::{Cause, OwnWrites};
use crate::expectation::Expectation;
use crate::key::ObjectKey;

/// How long a key waits after its reconcile failed: `base`, then twice as long each time, up to `cap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub base: Duration,
    /// At most.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        // The first retry is soon, because most failures are conflicts with a write that has just happened; the last
        // is rare enough that a thousand broken objects do not keep the API busy.
        Self { base: Duration::from_millis(50), cap: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// How long to wait after so many failures in a row.
    pub fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.cap)
    }

    /// How long to wait after so many failures in a row if something was edited meanwhile, and not by the key's own
    /// reconcile. An eighth: a user who repairs an object sees it tried within seconds.
    fn hurried(&self, failures: u32) -> Duration {
        self.after(failures) / 8
    }

    /// The same if another controller reported something. Twice as long for every try that came of it in vain: controllers
    /// that answer each other's failures without end do not hurry each other any more.
    fn nudged(&self, failures: u32, in_vain: u32) -> Duration {
        self.hurried(failures).saturating_mul(1 << in_vain.min(3))
    }
}

/// How many events are remembered while a reconcile runs, to tell afterwards whether all of them were of its own writes.
/// Where there are more, others have written, too.
const HEARD: usize = 256;

/// What one queue may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) concurrency: usize,
    pub(crate) pace: Duration,
    pub(crate) backoff: Backoff,
}

/// What came of a reconcile, as far as the queue is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    Done,
    After(Duration),
    /// As `After`, but nothing is expected to come of it.
    Routinely(Duration),
    Failed,
}

/// Where a key stands among those that are ready.
pub(crate) type Place = (Instant, u64);

/// Keys to be reconciled, each at most once, and none twice at the same time.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: Limits,
    keys: BTreeMap<ObjectKey, Entry>,
    ready: BTreeSet<(Place, ObjectKey)>,
    /// Keys that become ready by themselves.
    timers: BTreeSet<(Instant, ObjectKey)>,
    parked: BTreeSet<ObjectKey>,
    running: usize,
    /// Those of them that wait for something outside, and take no place meanwhile.
    away: usize,
    /// Keys that are ready but too early after their last reconcile.
    paced: usize,
    finished: u64,
}

#[derive(Debug, Default)]
struct Entry {
    state: State,
    timer: Option<Instant>,
    failures: u32,
    started: Option<Instant>,
    /// What the last reconcile wants to be between two starts, if it is more than the pace.
    rest: Duration,
    expected: Vec<Expectation>,
    /// Whether the timer is one of routine.
    is_routine: bool,
    /// What the reconcile that runs has written, or the last one that failed.
    own: OwnWrites,
    /// What the one before it had written: its last events may come late.
    earlier: OwnWrites,
    /// The events since the reconcile that runs has started.
    heard: Vec<Cause>,
    /// When a key that fails may be tried early, because something was edited.
    hurried: Option<Instant>,
    /// When it may be tried early, because something was reported.
    nudged: Option<Instant>,
    /// Whether the next try is one of those.
    is_nudged: bool,
    /// How many of those failed in a row.
    in_vain: u32,
}

impl Entry {
    /// The earliest that it may be started again for the sake of its pace.
    fn paced(&self, pace: Duration) -> Option<Instant> {
        self.started.map(|started| started + pace.max(self.rest))
    }

    fn is_own(&self, cause: &Cause) -> bool {
        self.own.caused(cause) || self.earlier.caused(cause)
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing to do before its timer, if it has one.
    #[default]
    Resting,
    /// Something to do, but not yet: its timer says when.
    Paced,
    Ready(Place),
    /// Waits until the caches have what it wrote.
    Parked,
    Running,
    /// Running, and there is something new since it began.
    RunningAgain,
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            keys: BTreeMap::new(),
            ready: BTreeSet::new(),
            timers: BTreeSet::new(),
            parked: BTreeSet::new(),
            running: 0,
            away: 0,
            paced: 0,
            finished: 0,
        }
    }

    /// Something about a key may have changed. One whose last reconcile failed is tried earlier than its back-off says,
    /// unless it was that reconcile which made the change: what a controller writes about a failure would otherwise make
    /// it fail in a loop. See [`Backoff::hurried`] and [`Backoff::nudged`].
    pub(crate) fn add(&mut self, key: ObjectKey, cause: Cause, now: Instant, place: Place) {
        let pace = self.limits.pace;
        let entry = self.keys.entry(key.clone()).or_default();
        match entry.state {
            State::Running | State::RunningAgain => {
                entry.state = State::RunningAgain;
                if entry.heard.len() < HEARD {
                    entry.heard.push(cause);
                }
            }
            State::Resting | State::Paced if entry.failures > 0 && entry.is_own(&cause) => {}
            State::Paced if entry.is_nudged && cause.is_edit() => {
                entry.is_nudged = false;
                let at = entry.hurried.max(entry.paced(pace)).unwrap_or(now);
                if let Some(timer) = entry.timer.filter(|timer| *timer > at) {
                    self.timers.remove(&(timer, key.clone()));
                    entry.timer = Some(at);
                    self.timers.insert((at, key));
                }
            }
            State::Resting => {
                entry.is_nudged = entry.failures > 0 && !cause.is_edit();
                let early = if entry.is_nudged { entry.nudged } else { entry.hurried };
                let earliest = entry.paced(pace).max(early).filter(|at| *at > now);
                if let Some(timer) = entry.timer.take() {
                    self.timers.remove(&(timer, key.clone()));
                }
                match earliest {
                    Some(at) => {
                        entry.state = State::Paced;
                        entry.timer = Some(at);
                        self.paced += 1;
                        self.timers.insert((at, key));
                    }
                    None => {
                        entry.state = State::Ready(place);
                        self.ready.insert((place, key));
                    }
                }
            }
            State::Paced | State::Ready(_) | State::Parked => {}
        }
    }

    /// Makes those keys ready whose time has come. `place` says where they stand.
    pub(crate) fn release(&mut self, now: Instant, mut place: impl FnMut(&ObjectKey) -> Place) {
        while let Some((at, key)) = self.timers.first().cloned().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, key.clone()));
            let Some(entry) = self.keys.get_mut(&key) else { continue };
            entry.timer = None;
            if entry.state == State::Paced {
                self.paced -= 1;
            }
            let place = place(&key);
            entry.state = State::Ready(place);
            self.ready.insert((place, key));
        }
    }

    /// Makes those keys ready again whose writes the caches have seen by now.
    pub(crate) fn unpark(&mut self, mut place: impl FnMut(&ObjectKey) -> Place) {
        let met: Vec<ObjectKey> = self.parked.iter().filter(|key| self.is_met(key)).cloned().collect();
        for key in met {
            self.parked.remove(&key);
            let place = place(&key);
            if let Some(entry) = self.keys.get_mut(&key) {
                entry.state = State::Ready(place);
                self.ready.insert((place, key));
            }
        }
    }

    fn is_met(&self, key: &ObjectKey) -> bool {
        self.keys.get(key).is_none_or(|entry| entry.expected.iter().all(Expectation::is_met))
    }

    /// The place of the key that is next, if one may be started now.
    pub(crate) fn front(&self) -> Option<Place> {
        if self.running.saturating_sub(self.away) >= self.limits.concurrency {
            return None;
        }
        self.ready.first().map(|(place, _)| *place)
    }

    /// Starts the key that is next. `None` if there is none, or if it has to wait for the caches: then it is parked,
    /// and there may be another.
    pub(crate) fn start(&mut self, now: Instant) -> Option<ObjectKey> {
        self.front()?;
        let (_, key) = self.ready.pop_first()?;
        let met = self.is_met(&key);
        let entry = self.keys.entry(key.clone()).or_default();
        if !met {
            entry.state = State::Parked;
            self.parked.insert(key);
            return None;
        }
        entry.expected.clear();
        entry.earlier = std::mem::take(&mut entry.own);
        entry.heard.clear();
        (entry.hurried, entry.nudged) = (None, None);
        entry.state = State::Running;
        entry.started = Some(now);
        self.running += 1;
        Some(key)
    }

    /// The next reconcile of a key waits for this.
    pub(crate) fn expect(&mut self, key: &ObjectKey, expectation: Expectation) {
        let expected = &mut self.keys.entry(key.clone()).or_default().expected;
        // Who writes thousands of objects waits for the last of them.
        if !expected.iter_mut().any(|known| known.absorb(&expectation)) {
            expected.push(expectation);
        }
    }

    /// The writes of the reconcile of a key that runs.
    pub(crate) fn own_writes(&mut self, key: &ObjectKey) -> &mut OwnWrites {
        &mut self.keys.entry(key.clone()).or_default().own
    }

    /// The time between two starts of a key is at least this from now on, and at least the pace.
    pub(crate) fn rest(&mut self, key: &ObjectKey, rest: Duration) {
        if let Some(entry) = self.keys.get_mut(key) {
            entry.rest = rest;
        }
    }

    /// A reconcile that runs waits for something outside: another may take its place.
    pub(crate) fn leave(&mut self) {
        self.away += 1;
    }

    /// It goes on, whether there is a place for it or not: those that took it end soon.
    pub(crate) fn come_back(&mut self) {
        self.away = self.away.saturating_sub(1);
    }

    /// A reconcile has ended. Says after how many failures in a row, and when the key is next, if at a known time.
    pub(crate) fn finish(
        &mut self,
        key: &ObjectKey,
        finished: Finished,
        now: Instant,
        place: Place,
    ) -> (u32, Option<Duration>) {
        let Some(entry) = self.keys.get_mut(key) else { return (0, None) };
        let again = entry.state == State::RunningAgain;
        entry.state = State::Resting;
        self.running -= 1;
        self.finished += 1;
        let wait = match finished {
            Finished::Failed => {
                entry.failures += 1;
                Some(self.limits.backoff.after(entry.failures))
            }
            Finished::After(wait) | Finished::Routinely(wait) => {
                entry.failures = 0;
                Some(wait)
            }
            Finished::Done => {
                entry.failures = 0;
                None
            }
        };
        entry.is_routine = matches!(finished, Finished::Routinely(_));
        let failures = entry.failures;
        let mut heard = std::mem::take(&mut entry.heard);
        let again = if finished == Finished::Failed {
            entry.in_vain += u32::from(std::mem::take(&mut entry.is_nudged));
            entry.hurried = Some(now + self.limits.backoff.hurried(failures));
            entry.nudged = Some(now + self.limits.backoff.nudged(failures, entry.in_vain));
            if heard.len() < HEARD {
                heard.retain(|cause| !entry.is_own(cause));
            }
            // What may be worth a try counts, if there is any of it.
            heard.iter().find(|cause| cause.is_edit()).or(heard.first()).cloned()
        } else {
            (entry.own, entry.earlier) = (OwnWrites::default(), OwnWrites::default());
            (entry.is_nudged, entry.in_vain) = (false, 0);
            again.then_some(Cause::Other)
        };
        match again {
            Some(cause) => self.add(key.clone(), cause, now, place),
            None => {
                if let Some(at) = wait.and_then(|wait| now.checked_add(wait)) {
                    entry.timer = Some(at);
                    self.timers.insert((at, key.clone()));
                }
            }
        }
        self.tidy(key, now);
        (failures, wait)
    }

    /// Forgets keys of which nothing needs to be remembered.
    fn tidy(&mut self, key: &ObjectKey, now: Instant) {
        /// How often all keys are looked at: those that are remembered for the sake of their pace only.
        const EVERY: u64 = 4096;
        let pace = self.limits.pace;
        let is_idle = |entry: &Entry| {
            entry.state == State::Resting
                && entry.timer.is_none()
                && entry.failures == 0
                && entry.expected.is_empty()
                && entry.started.is_none_or(|started| started + pace.max(entry.rest) <= now)
        };
        if self.keys.get(key).is_some_and(is_idle) {
            self.keys.remove(key);
        }
        if self.finished.is_multiple_of(EVERY) {
            self.keys.retain(|_, entry| !is_idle(entry));
        }
    }

    /// When something becomes ready by itself.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// When something becomes ready that is no matter of routine.
    pub(crate) fn next_expected(&self) -> Option<Instant> {
        let is_routine = |key: &ObjectKey| self.keys.get(key).is_some_and(|entry| entry.is_routine);
        self.timers.iter().find(|(_, key)| !is_routine(key)).map(|(at, _)| *at)
    }

    /// Whether there is nothing to do before the next timer.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ready.is_empty() && self.running == 0 && self.parked.is_empty() && self.paced == 0
    }

    /// How many keys wait for their turn, those not counted that wait for a time.
    pub(crate) fn depth(&self) -> usize {
        self.ready.len() + self.parked.len() + self.paced
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// The keys whose last reconcile failed, with how often in a row.
    pub(crate) fn failing(&self) -> impl Iterator<Item = (&ObjectKey, u32)> {
        self.keys.iter().filter(|(_, entry)| entry.failures > 0).map(|(key, entry)| (key, entry.failures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(concurrency: usize, pace: Duration) -> Queue {
        Queue::new(Limits { concurrency, pace, backoff: Backoff::default() })
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("n", name)
    }

    fn add(queue: &mut Queue, name: &str, now: Instant) {
        queue.add(key(name), Cause::Other, now, (now, 0));
    }

    fn hear(queue: &mut Queue, name: &str, cause: Cause, now: Instant) {
        queue.add(key(name), cause, now, (now, 0));
    }

    /// Lets a key fail so often, each time when its back-off is over, and says when it failed last.
    fn failing(queue: &mut Queue, name: &str, times: u32) -> Instant {
        let mut now = Instant::now();
        add(queue, name, now);
        for round in 0..times {
            assert!(start(queue, now).is_some());
            let (_, wait) = queue.finish(&key(name), Finished::Failed, now, (now, 0));
            if round + 1 < times {
                now += wait.unwrap();
            }
        }
        now
    }

    fn start(queue: &mut Queue, now: Instant) -> Option<String> {
        queue.release(now, |_| (now, 0));
        queue.start(now).map(|key| key.name)
    }

    #[test]
    fn a_key_is_queued_once_and_runs_alone() {
        let (mut queue, now) = (queue(2, Duration::ZERO), Instant::now());
        add(&mut queue, "a", now);
        add(&mut queue, "a", now);
        assert_eq!(start(&mut queue, now).as_deref(), Some("a"));
        add(&mut queue, "a", now);
        assert_eq!(start(&mut queue, now), None, "it is running");
        queue.finish(&key("a"), Finished::Done, now, (now, 0));
        assert_eq!(start(&mut queue, now).as_deref(), Some("a"), "there was something new");
        queue.finish(&key("a"), Finished::Done, now, (now, 0));
        assert!(queue.is_quiet() && queue.keys.is_empty());
    }

    #[test]
    fn no_more_run_than_allowed() {
        let (mut queue, now) = (queue(1, Duration::ZERO), Instant::now());
        add(&mut queue, "a", now);
        add(&mut queue, "b", now);
        assert!(start(&mut queue, now).is_some());
        assert!(start(&mut queue, now).is_none());
        assert_eq!((queue.depth(), queue.running()), (1, 1));
        queue.finish(&key("a"), Finished::Done, now, (now, 0));
        assert_eq!(start(&mut queue, now).as_deref(), Some("b"));
    }

    #[test]
    fn one_that_waits_outside_leaves_its_place_to_another() {
        let (mut queue, now) = (queue(1, Duration::ZERO), Instant::now());
        for name in ["a", "b", "c"] {
            add(&mut queue, name, now);
        }
        assert!(start(&mut queue, now).is_some());
        queue.leave();
        assert!(start(&mut queue, now).is_some(), "the first one is away");
        assert!(start(&mut queue, now).is_none(), "the second one is not");
        queue.come_back();
        queue.finish(&key("a"), Finished::Done, now, (now, 0));
        assert!(start(&mut queue, now).is_none(), "the second one runs");
        queue.finish(&key("b"), Finished::Done, now, (now, 0));
        assert_eq!(start(&mut queue, now).as_deref(), Some("c"));
    }

    #[test]
    fn failures_back_off_and_success_forgets_them() {
        let (mut queue, mut now) = (queue(1, Duration::ZERO), Instant::now());
        add(&mut queue, "a", now);
        let mut waits = Vec::new();
        for _ in 0..13 {
            assert!(start(&mut queue, now).is_some());
            let (_, wait) = queue.finish(&key("a"), Finished::Failed, now, (now, 0));
            waits.push(wait.unwrap().as_millis());
            assert!(start(&mut queue, now).is_none() && queue.is_quiet());
            now += wait.unwrap();
        }
        assert_eq!(waits[..4], [50, 100, 200, 400]);
        assert_eq!(waits[11..], [60_000, 60_000]);
        assert!(start(&mut queue, now).is_some());
        queue.finish(&key("a"), Finished::Done, now, (now, 0));
        add(&mut queue, "a", now);
        start(&mut queue, now);
        assert_eq!(queue.finish(&key("a"), Finished::Failed, now, (now, 0)).0, 1);
    }

    #[test]
    fn what_a_failing_reconcile_wrote_does_not_hurry_it() {
        let mut queue = queue(1, Duration::ZERO);
        let now = failing(&mut queue, "a", 12) + Duration::from_secs(60);
        assert!(start(&mut queue, now).is_some());
        // One event comes before the answer to the write, one after the end of the reconcile.
        hear(&mut queue, "a", Cause::Reported(7), now);
        let own = queue.own_writes(&key("a"));
        own.note_written(7);
        own.note_written(8);
        own.note_deleted("u".to_owned());
        queue.finish(&key("a"), Finished::Failed, now, (now, 0));
        hear(&mut queue, "a", Cause::Edited(8), now);
        hear(&mut queue, "a", Cause::Gone("u".to_owned()), now);
        assert_eq!(queue.next_timer(), Some(now + Duration::from_secs(60)));
        assert!(queue.is_quiet());
    }

    #[test]
    fn what_others_edit_makes_a_failing_key_be_tried_soon() {
        for during in [true, false] {
            let mut queue = queue(1, Duration::ZERO);
            let mut now = failing(&mut queue, "a", 12);
            if during {
                now += Duration::from_secs(60);
                assert!(start(&mut queue, now).is_some());
            }
            queue.own_writes(&key("a")).note_written(7);
            hear(&mut queue, "a", Cause::Edited(9), now);
            if during {
                queue.finish(&key("a"), Finished::Failed, now, (now, 0));
            }
            let soon = now + Duration::from_millis(7500);
            assert_eq!(queue.next_timer(), Some(soon), "during: {during}");
            assert!(start(&mut queue, soon).is_some());
        }
    }

    #[test]
    fn what_others_report_hurries_a_failing_key_ever_less_and_an_edit_does_all_the_same() {
        let mut queue = queue(1, Duration::ZERO);
        let mut now = failing(&mut queue, "a", 12);
        let mut waits = Vec::new();
        for revision in 10..15 {
            hear(&mut queue, "a", Cause::Reported(revision), now);
            let next = queue.next_timer().unwrap();
            waits.push(next.duration_since(now).as_millis());
            now = next;
            assert!(start(&mut queue, now).is_some());
            queue.finish(&key("a"), Finished::Failed, now, (now, 0));
        }
        assert_eq!(waits, [7500, 15_000, 30_000, 60_000, 60_000]);
        hear(&mut queue, "a", Cause::Reported(20), now);
        hear(&mut queue, "a", Cause::Edited(21), now);
        let soon = now + Duration::from_millis(7500);
        assert_eq!(queue.next_timer(), Some(soon));
        assert!(start(&mut queue, soon).is_some());
        queue.finish(&key("a"), Finished::Done, soon, (soon, 0));
        assert!(queue.is_quiet() && queue.keys.is_empty());
    }

    #[test]
    fn what_a_reconcile_wrote_that_succeeded_is_looked_at_again() {
        let (mut queue, now) = (queue(1, Duration::ZERO), Instant::now());
        add(&mut queue, "a", now);
        start(&mut queue, now);
        queue.own_writes(&key("a")).note_written(7);
        queue.finish(&key("a"), Finished::Done, now, (now, 0));
        hear(&mut queue, "a", Cause::Reported(7), now);
        assert!(start(&mut queue, now).is_some());
    }

    #[test]
    fn an_event_comes_before_the_timer_and_replaces_it() {
        let (mut queue, now) = (queue(1, Duration::ZERO), Instant::now());
        add(&mut queue, "a", now);
        start(&mut queue, now);
        queue.finish(&key("a"), Finished::After(Duration::from_secs(9)), now, (now, 0));
        assert_eq!(queue.next_timer(), Some(now + Duration::from_secs(9)));
        add(&mut queue, "a", now);
        assert_eq!(queue.next_timer(), None, "the reconcile says anew when it wants to be called");
        assert!(start(&mut queue, now).is_some());
    }

    #[test]
    fn a_timer_of_routine_rings_and_is_not_expected() {
        let (mut queue, now) = (queue(1, Duration::ZERO), Instant::now());
        let (soon, later) = (Duration::from_secs(3), Duration::from_secs(9));
        for (name, finished) in [("a", Finished::Routinely(soon)), ("b", Finished::After(later))] {
            add(&mut queue, name, now);
            start(&mut queue, now);
            queue.finish(&key(name), finished, now, (now, 0));
        }
        assert_eq!((queue.next_timer(), queue.next_expected()), (Some(now + soon), Some(now + later)));
        assert_eq!(start(&mut queue, now + soon).as_deref(), Some("a"));
        queue.finish(&key("a"), Finished::After(soon), now + soon, (now, 0));
        assert_eq!(queue.next_expected(), Some(now + soon + soon), "what follows it may be expected");
    }

    #[test]
    fn events_of_a_paced_key_are_gathered() {
        let (mut queue, now) = (queue(1, Duration::from_secs(1)), Instant::now());
        add(&mut queue, "a", now);
        start(&mut queue, now);
        add(&mut queue, "a", now);
        queue.finish(&key("a"), Finished::Done, now, (now, 0));
        add(&mut queue, "a", now);
        assert!(start(&mut queue, now).is_none());
        assert!(!queue.is_quiet(), "there is something to do, only not yet");
        let later = now + Duration::from_secs(1);
        assert!(start(&mut queue, later).is_some());
        queue.finish(&key("a"), Finished::Done, later, (later, 0));
        assert!(queue.is_quiet());
    }
    #[test]
    fn a_key_that_is_more_work_rests_longer_and_no_other_does() {
        let (mut queue, now) = (queue(2, Duration::from_secs(1)), Instant::now());
        for name in ["big", "small"] {
            add(&mut queue, name, now);
            start(&mut queue, now);
        }
        queue.rest(&key("big"), Duration::from_secs(3));
        for name in ["big", "small"] {
            queue.finish(&key(name), Finished::Done, now, (now, 0));
            add(&mut queue, name, now);
        }
        assert_eq!(start(&mut queue, now + Duration::from_secs(1)).as_deref(), Some("small"));
        assert_eq!(start(&mut queue, now + Duration::from_secs(2)), None);
        assert_eq!(start(&mut queue, now + Duration::from_secs(3)).as_deref(), Some("big"));
    }
}
