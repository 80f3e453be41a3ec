//! The recent past: a bounded ring of events per resource, from which watchers read by revision.
//!
//! Each resource has its own ring and its own wake-up, so that a busy resource neither pushes a quiet
//! one out of the history nor wakes those who watch it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use crate::error::Expired;
use crate::event::Event;
use crate::key::{Resource, Scope};

/// How much of the past is kept for watchers that resume and for readers that are slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// How many events per resource.
    pub events_per_resource: usize,
    /// How many bytes of values over all resources. When there are more, the resource with the most
    /// bytes loses its oldest event. Encoded frames are not counted: each can take as much again.
    pub bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        // Above the 10 000 events per resource at which clients of a large Kubernetes API resume
        // without a new list, and 128 MiB because an upgrade that rewrites every machine's status
        // again and again should not fill a small management machine.
        Self { events_per_resource: 16 * 1024, bytes: 128 * 1024 * 1024 }
    }
}

/// What an event takes besides its value: itself, its object, its key, its place in the ring.
const EVENT_OVERHEAD: usize = 256;

pub(crate) struct Log {
    history: History,
    /// The history is empty at this revision: it is the oldest from which anything can resume.
    start: u64,
    /// Every event up to here has been appended.
    revision: u64,
    bytes: usize,
    events: usize,
    rings: BTreeMap<Resource, Ring>,
    everything: Arc<Bell>,
    closed: bool,
}

/// Rings whenever there is something new to read. Its value says whether the store was closed.
pub(crate) type Bell = watch::Sender<bool>;

struct Ring {
    /// Everything after this revision is in `events`.
    oldest: u64,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    bell: Arc<Bell>,
}

/// What [`Log::append`] leaves to be done once the log is unlocked.
#[must_use]
pub(crate) struct Appended {
    bells: Vec<Arc<Bell>>,
    /// Freeing what fell off the ring takes time that readers need not wait for.
    _evicted: Vec<Arc<Event>>,
}

impl Appended {
    pub(crate) fn wake(self) {
        for bell in &self.bells {
            // The value stays: the store may have been closed since the log was unlocked.
            bell.send_modify(|_closed| {});
        }
    }
}

impl Log {
    pub(crate) fn new(history: History, start: u64) -> Self {
        let everything = Arc::new(watch::channel(false).0);
        let rings = BTreeMap::new();
        Self { history, start, revision: start, bytes: 0, events: 0, rings, everything, closed: false }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn events(&self) -> usize {
        self.events
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds events in the order of their revisions.
    pub(crate) fn append(&mut self, events: Vec<Arc<Event>>) -> Appended {
        let mut touched: BTreeMap<Resource, Arc<Bell>> = BTreeMap::new();
        let mut evicted = Vec::new();
        for event in events {
            let resource = event.key().resource();
            self.revision = event.revision();
            self.bytes += cost(&event);
            self.events += 1;
            let limit = self.history.events_per_resource;
            let ring = self.ring(resource);
            if !touched.contains_key(resource) {
                touched.insert(resource.clone(), Arc::clone(&ring.bell));
            }
            ring.bytes += cost(&event);
            ring.events.push_back(event);
            let gone = if ring.events.len() > limit { ring.pop() } else { None };
            self.forget(gone, &mut evicted);
            while self.bytes > self.history.bytes {
                let largest = self.rings.values_mut().max_by_key(|ring| ring.bytes);
                let gone = largest.and_then(Ring::pop);
                self.forget(gone, &mut evicted);
            }
        }
        let mut bells: Vec<_> = touched.into_values().collect();
        bells.push(Arc::clone(&self.everything));
        Appended { bells, _evicted: evicted }
    }

    fn forget(&mut self, gone: Option<Arc<Event>>, evicted: &mut Vec<Arc<Event>>) {
        if let Some(gone) = gone {
            self.bytes -= cost(&gone);
            self.events -= 1;
            evicted.push(gone);
        }
    }

    /// Moves up to `limit` events of `scope` after revision `after` into `into`, and says up to which
    /// revision nothing is missing from them.
    pub(crate) fn read(
        &self,
        scope: &Scope,
        after: u64,
        limit: usize,
        into: &mut VecDeque<Arc<Event>>,
    ) -> Result<u64, Expired> {
        self.check(scope, after)?;
        match scope.resource() {
            Some(resource) => {
                let ring = self.rings.get(resource);
                let newer = ring.into_iter().flat_map(|ring| ring.after(after));
                into.extend(newer.filter(|event| scope.contains(event.key())).take(limit).cloned());
            }
            None => {
                // Each ring has at most `limit` of the first `limit` events.
                let rings = self.rings.values();
                let mut newer: Vec<_> = rings.flat_map(|ring| ring.after(after).take(limit)).collect();
                newer.sort_unstable_by_key(|event| event.revision());
                into.extend(newer.into_iter().take(limit).cloned());
            }
        }
        match into.back() {
            Some(last) if into.len() >= limit => Ok(last.revision()),
            // A reader may be ahead of the store and wait for it.
            _ => Ok(self.revision.max(after)),
        }
    }

    /// All events of the resources of `scope` after revision `after`, newest first.
    pub(crate) fn backwards(&self, scope: &Scope, after: u64) -> Result<Vec<Arc<Event>>, Expired> {
        self.check(scope, after)?;
        let rings = self.rings.iter().filter(|(resource, _)| scope.resource().is_none_or(|r| r == *resource));
        let mut newer: Vec<_> = rings.flat_map(|(_, ring)| ring.after(after)).cloned().collect();
        newer.sort_unstable_by_key(|event| std::cmp::Reverse(event.revision()));
        Ok(newer)
    }

    /// Whether every event of `scope` after revision `after` is still here.
    pub(crate) fn check(&self, scope: &Scope, after: u64) -> Result<(), Expired> {
        let oldest = match scope.resource() {
            Some(resource) => self.rings.get(resource).map(|ring| ring.oldest),
            None => self.rings.values().map(|ring| ring.oldest).max(),
        };
        let oldest = oldest.unwrap_or(self.start);
        if after < oldest {
            return Err(Expired { requested: after, oldest, current: self.revision });
        }
        Ok(())
    }

    /// What rings when there is something new in `scope`.
    pub(crate) fn bell(&mut self, scope: &Scope) -> watch::Receiver<bool> {
        match scope.resource() {
            Some(resource) => self.ring(resource).bell.subscribe(),
            None => self.everything.subscribe(),
        }
    }

    /// Tells all watchers that there will be no more events.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        for bell in self.rings.values().map(|ring| &ring.bell).chain([&self.everything]) {
            bell.send_replace(true);
        }
    }

    fn ring(&mut self, resource: &Resource) -> &mut Ring {
        if !self.rings.contains_key(resource) {
            let bell = Arc::new(watch::channel(self.closed).0);
            let ring = Ring { oldest: self.start, events: VecDeque::new(), bytes: 0, bell };
            self.rings.insert(resource.clone(), ring);
        }
        match self.rings.get_mut(resource) {
            Some(ring) => ring,
            None => unreachable!("it was inserted above"),
        }
    }
}

impl Ring {
    fn after(&self, revision: u64) -> impl Iterator<Item = &Arc<Event>> {
        /// How far from the end most readers are at most: they are woken for each commit.
        const NEAR: usize = 4;
        let near = self.events.len().saturating_sub(NEAR);
        let from = match self.events.get(near) {
            Some(event) if event.revision() <= revision => {
                near + self.events.range(near..).take_while(|event| event.revision() <= revision).count()
            }
            _ => self.events.partition_point(|event| event.revision() <= revision),
        };
        self.events.range(from..)
    }

    fn pop(&mut self) -> Option<Arc<Event>> {
        let gone = self.events.pop_front()?;
        self.oldest = gone.revision();
        self.bytes -= cost(&gone);
        Some(gone)
    }
}

fn cost(event: &Event) -> usize {
    event.object().value().len() + EVENT_OVERHEAD
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::key::Key;
    use crate::object::Object;

    const SMALL: History = History { events_per_resource: 3, bytes: usize::MAX };

    fn event(resource: &str, revision: u64, size: usize) -> Arc<Event> {
        let key = Key::new(&Resource::new(resource).unwrap(), "ns", "name").unwrap();
        Arc::new(Event::put(Arc::new(Object::new(key, revision, Bytes::from(vec![0; size]))), None))
    }

    fn scope(resource: &str) -> Scope {
        Scope::Resource(Resource::new(resource).unwrap())
    }

    fn revisions(log: &Log, scope: &Scope, after: u64, limit: usize) -> Result<(Vec<u64>, u64), Expired> {
        let mut into = VecDeque::new();
        let position = log.read(scope, after, limit, &mut into)?;
        Ok((into.iter().map(|event| event.revision()).collect(), position))
    }

    fn filled(history: History, events: &[(&str, usize)]) -> Log {
        let mut log = Log::new(history, 100);
        for (at, (resource, size)) in events.iter().enumerate() {
            log.append(vec![event(resource, 101 + at as u64, *size)]).wake();
        }
        log
    }

    #[test]
    fn a_read_gives_what_comes_after_a_revision_and_how_far_it_reaches() {
        let log = filled(SMALL, &[("a", 1), ("b", 1), ("a", 1), ("b", 1), ("a", 1)]);
        let cases = [
            (scope("a"), 100, 9, vec![101, 103, 105], 105),
            (scope("a"), 101, 9, vec![103, 105], 105),
            (scope("a"), 102, 1, vec![103], 103),
            (scope("b"), 102, 9, vec![104], 105),
            (scope("b"), 104, 9, vec![], 105),
            (scope("c"), 100, 9, vec![], 105),
            (Scope::All, 100, 9, vec![101, 102, 103, 104, 105], 105),
            (Scope::All, 102, 2, vec![103, 104], 104),
            (scope("a"), 200, 9, vec![], 200),
        ];
        for (scope, after, limit, expected, position) in cases {
            let read = revisions(&log, &scope, after, limit);
            assert_eq!(read, Ok((expected, position)), "{scope:?} after {after}, at most {limit}");
        }
    }

    #[test]
    fn a_busy_resource_does_not_push_a_quiet_one_out() {
        let log = filled(SMALL, &[("quiet", 1), ("busy", 1), ("busy", 1), ("busy", 1), ("busy", 1)]);
        assert_eq!(revisions(&log, &scope("quiet"), 100, 9), Ok((vec![101], 105)));
        let expired = Expired { requested: 101, oldest: 102, current: 105 };
        assert_eq!(revisions(&log, &scope("busy"), 101, 9), Err(expired));
        assert_eq!(revisions(&log, &scope("busy"), 102, 9), Ok((vec![103, 104, 105], 105)));
        assert_eq!(revisions(&log, &Scope::All, 101, 9), Err(expired));
    }

    #[test]
    fn history_before_the_start_is_expired_for_every_scope() {
        let log = filled(SMALL, &[("a", 1)]);
        let expired = Expired { requested: 99, oldest: 100, current: 101 };
        for scope in [scope("a"), scope("never-written"), Scope::All] {
            assert_eq!(revisions(&log, &scope, 99, 9), Err(expired), "{scope:?}");
        }
    }

    #[test]
    fn too_many_bytes_cost_the_resource_with_the_most() {
        let history = History { events_per_resource: 100, bytes: 5000 };
        let log = filled(history, &[("small", 10), ("large", 2000), ("large", 2000), ("small", 10)]);
        assert_eq!(revisions(&log, &scope("small"), 100, 9), Ok((vec![101, 104], 104)));
        assert_eq!(revisions(&log, &scope("large"), 102, 9), Ok((vec![103], 104)));
        assert!(revisions(&log, &scope("large"), 101, 9).is_err());
        assert_eq!((log.events(), log.bytes()), (3, 2020 + 3 * EVENT_OVERHEAD));
    }

    #[test]
    fn an_event_larger_than_the_history_expires_its_readers_and_nobody_else() {
        let history = History { events_per_resource: 100, bytes: 5000 };
        let log = filled(history, &[("small", 10), ("huge", 6000)]);
        assert_eq!(revisions(&log, &scope("small"), 100, 9), Ok((vec![101], 102)));
        assert_eq!(
            revisions(&log, &scope("huge"), 100, 9),
            Err(Expired { requested: 100, oldest: 102, current: 102 })
        );
    }

    #[test]
    fn only_the_bells_of_written_resources_ring() {
        let mut log = Log::new(SMALL, 0);
        let (mut busy, mut quiet) = (log.bell(&scope("busy")), log.bell(&scope("quiet")));
        let mut all = log.bell(&Scope::All);
        for bell in [&mut busy, &mut quiet, &mut all] {
            bell.borrow_and_update();
        }
        log.append(vec![event("busy", 1, 1)]).wake();
        let rung = [busy, quiet, all].map(|bell| bell.has_changed().unwrap());
        assert_eq!(rung, [true, false, true]);
    }
}
