//! Watches, held against a model that remembers everything.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tempfile::TempDir;
use windlass_store::{
    Event, EventKind, Expect, Expired, History, Key, Options, Resource, Scope, SnapshotError, Store,
    Transaction, Watcher,
};

use crate::support::{Objects, fast_dir, objects, resource};

const RESOURCES: [&str; 3] = ["apps/deployments", "core/pods", "core/secrets"];
const NAMESPACES: [&str; 2] = ["a", "b"];

/// Small enough that random runs fall off it all the time.
const HISTORY: History = History { events_per_resource: 4, bytes: usize::MAX };

#[derive(Debug, Clone)]
enum Step {
    Put(usize),
    Delete(usize),
    /// Puts one object and deletes another, at once.
    Both(usize, usize),
    /// Starts a watch of a scope so many revisions back (or ahead, if negative).
    Watch {
        scope: usize,
        back: i64,
    },
    /// Reads up to so many events of one of the watchers.
    Read {
        watcher: usize,
        events: usize,
    },
    /// Drops one of the watchers, and resumes where it was.
    Resume {
        watcher: usize,
    },
    Drop {
        watcher: usize,
    },
    /// Looks at a scope as it was so many revisions back.
    LookBack {
        scope: usize,
        back: i64,
    },
    Restart,
}

fn step(restarts: bool) -> impl Strategy<Value = Step> {
    let key = 0..RESOURCES.len() * NAMESPACES.len() * 2;
    prop_oneof![
        8 => key.clone().prop_map(Step::Put),
        3 => key.clone().prop_map(Step::Delete),
        2 => (key.clone(), key).prop_map(|(put, delete)| Step::Both(put, delete)),
        3 => (0..scopes().len(), -2..12_i64).prop_map(|(scope, back)| Step::Watch { scope, back }),
        6 => (0..8_usize, 1..6_usize).prop_map(|(watcher, events)| Step::Read { watcher, events }),
        2 => (0..8_usize).prop_map(|watcher| Step::Resume { watcher }),
        1 => (0..8_usize).prop_map(|watcher| Step::Drop { watcher }),
        2 => (0..scopes().len(), -1..12_i64).prop_map(|(scope, back)| Step::LookBack { scope, back }),
        u32::from(restarts) => Just(Step::Restart),
    ]
}

fn scopes() -> Vec<Scope> {
    let mut scopes = vec![Scope::All];
    for resource in RESOURCES.map(resource) {
        scopes.push(Scope::from(&resource));
        scopes.push(Scope::namespace(&resource, NAMESPACES[0]));
    }
    scopes
}

fn key(number: usize) -> Key {
    let resource = resource(RESOURCES[number % RESOURCES.len()]);
    let rest = number / RESOURCES.len();
    Key::new(&resource, NAMESPACES[rest % NAMESPACES.len()], &format!("n{}", rest / NAMESPACES.len()))
        .unwrap()
}

/// What happened, as a watcher must see it.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    revision: u64,
    key: Key,
    kind: EventKind,
    value: Vec<u8>,
    previous: Option<(u64, Vec<u8>)>,
}

impl Seen {
    fn of(event: &Event) -> Self {
        Self {
            revision: event.revision(),
            key: event.key().clone(),
            kind: event.kind(),
            value: event.object().value().to_vec(),
            previous: event.previous().map(|object| (object.revision(), object.value().to_vec())),
        }
    }
}

/// Remembers every event and every state.
struct Model {
    events: Vec<Seen>,
    state: BTreeMap<Key, (u64, Vec<u8>)>,
    states: Vec<BTreeMap<Key, (u64, Vec<u8>)>>,
    /// The revision at the last start.
    start: u64,
}

impl Model {
    fn new() -> Self {
        Self { events: Vec::new(), state: BTreeMap::new(), states: vec![BTreeMap::new()], start: 0 }
    }

    fn revision(&self) -> u64 {
        self.events.len() as u64
    }

    fn put(&mut self, key: &Key) -> Vec<u8> {
        let revision = self.revision() + 1;
        let value = format!("value {revision}").into_bytes();
        let previous = self.state.insert(key.clone(), (revision, value.clone()));
        let kind = if previous.is_some() { EventKind::Updated } else { EventKind::Created };
        self.remember(Seen { revision, key: key.clone(), kind, value: value.clone(), previous });
        value
    }

    fn delete(&mut self, key: &Key) {
        if let Some(previous) = self.state.remove(key) {
            let (revision, value) = (self.revision() + 1, previous.1.clone());
            let kind = EventKind::Deleted;
            self.remember(Seen { revision, key: key.clone(), kind, value, previous: Some(previous) });
        }
    }

    fn remember(&mut self, seen: Seen) {
        self.events.push(seen);
        self.states.push(self.state.clone());
    }

    fn next(&self, scope: &Scope, after: u64) -> Option<&Seen> {
        self.events.iter().find(|seen| seen.revision > after && scope.contains(&seen.key))
    }

    /// The oldest revision from which `scope` can be watched.
    fn oldest(&self, scope: &Scope) -> u64 {
        let oldest_of = |resource: &Resource| {
            let of_resource = |seen: &&Seen| seen.key.resource() == resource && seen.revision > self.start;
            let revisions: Vec<u64> =
                self.events.iter().filter(of_resource).map(|seen| seen.revision).collect();
            match revisions.len().checked_sub(HISTORY.events_per_resource + 1) {
                Some(last_gone) => revisions[last_gone],
                None => self.start,
            }
        };
        match scope {
            Scope::All => RESOURCES.map(|name| oldest_of(&resource(name))).into_iter().max().unwrap(),
            Scope::Resource(resource) | Scope::Namespace(resource, _) => oldest_of(resource),
        }
    }

    /// `Expired` must say the truth, and must not be said without need.
    fn check_expired(&self, scope: &Scope, expired: Expired) {
        let oldest = self.oldest(scope);
        assert_eq!((expired.oldest, expired.current), (oldest, self.revision()), "{scope:?} {expired}");
        assert!(expired.requested < oldest, "{scope:?} {expired}");
    }
}

/// A watcher, and up to where it has seen everything.
struct Reader {
    watcher: Watcher,
    seen: u64,
}

/// Reads up to `events` events, and returns whether the watch goes on.
fn read(model: &Model, reader: &mut Reader, events: usize) -> bool {
    let scope = reader.watcher.scope().clone();
    for _ in 0..events {
        match reader.watcher.try_next() {
            Ok(Some(event)) => {
                assert_eq!(Some(&Seen::of(&event)), model.next(&scope, reader.seen), "{scope:?}");
                reader.seen = event.revision();
            }
            Ok(None) => {
                assert_eq!(None, model.next(&scope, reader.seen), "{scope:?} missed it");
                reader.seen = reader.seen.max(model.revision());
            }
            Err(expired) => {
                model.check_expired(&scope, expired);
                return false;
            }
        }
        assert_eq!(reader.watcher.position(), reader.seen, "{scope:?}");
    }
    true
}

struct Run {
    store: Store,
    dir: Option<TempDir>,
    model: Model,
    readers: Vec<Reader>,
}

impl Run {
    fn new(dir: Option<TempDir>) -> Self {
        let store = Self::open(dir.as_ref());
        Self { store, dir, model: Model::new(), readers: Vec::new() }
    }

    fn open(dir: Option<&TempDir>) -> Store {
        match dir {
            Some(dir) => Store::open(dir.path(), &Options::new().history(HISTORY)).unwrap(),
            None => Store::in_memory(HISTORY),
        }
    }

    fn watch(&mut self, scope: Scope, after: u64) {
        match self.store.watch(scope.clone(), after) {
            Ok(watcher) => {
                assert!(after >= self.model.oldest(&scope), "{scope:?} from {after} cannot see everything");
                self.readers.push(Reader { watcher, seen: after });
            }
            Err(expired) => {
                assert_eq!(expired.requested, after);
                self.model.check_expired(&scope, expired);
            }
        }
    }

    fn reader(&mut self, number: usize) -> Option<usize> {
        if self.readers.is_empty() { None } else { Some(number % self.readers.len()) }
    }

    fn back(&self, back: i64) -> u64 {
        self.model.revision().saturating_add_signed(-back)
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Put(number) => {
                let value = self.model.put(&key(number));
                self.store.put(key(number), Expect::Anything, value).await.unwrap();
            }
            Step::Delete(number) => {
                self.model.delete(&key(number));
                self.store.delete(key(number), Expect::Anything).await.unwrap();
            }
            Step::Both(put, delete) if put == delete => {}
            Step::Both(put, delete) => {
                let transaction = Transaction::new()
                    .put(key(put), Expect::Anything, self.model.put(&key(put)))
                    .delete(key(delete), Expect::Anything);
                self.model.delete(&key(delete));
                self.store.commit(transaction).await.unwrap();
            }
            Step::Watch { scope, back } => self.watch(scopes()[scope].clone(), self.back(back)),
            Step::Read { watcher, events } => {
                if let Some(at) = self.reader(watcher)
                    && !read(&self.model, &mut self.readers[at], events)
                {
                    self.readers.swap_remove(at);
                }
            }
            Step::Resume { watcher } => {
                if let Some(at) = self.reader(watcher) {
                    let reader = self.readers.swap_remove(at);
                    self.watch(reader.watcher.scope().clone(), reader.seen);
                }
            }
            Step::Drop { watcher } => {
                if let Some(at) = self.reader(watcher) {
                    self.readers.swap_remove(at);
                }
            }
            Step::LookBack { scope, back } => self.look_back(&scopes()[scope], self.back(back)),
            Step::Restart => self.restart(),
        }
        assert_eq!(self.store.revision(), self.model.revision());
        assert_eq!(self.store.stats().watchers, self.readers.len());
    }

    fn look_back(&self, scope: &Scope, revision: u64) {
        match self.store.snapshot_at(scope, revision) {
            Ok(snapshot) => {
                assert_eq!(snapshot.revision(), revision);
                let seen: Vec<_> = snapshot
                    .list(scope)
                    .map(|object| (object.key().clone(), (object.revision(), object.value().to_vec())))
                    .collect();
                let state = self.model.states[revision as usize].clone();
                let expected: Vec<_> = state.into_iter().filter(|(key, _)| scope.contains(key)).collect();
                assert_eq!(seen, expected, "{scope:?} at {revision}");
            }
            Err(SnapshotError::Expired(expired)) => self.model.check_expired(scope, expired),
            Err(SnapshotError::Future { requested, current }) => {
                assert!(requested == revision && current == self.model.revision() && requested > current);
            }
        }
    }

    /// The watchers live on: they can read what happened before, and then are told.
    fn restart(&mut self) {
        for mut reader in std::mem::take(&mut self.readers) {
            while read(&self.model, &mut reader, 1) && reader.seen < self.model.revision() {}
        }
        self.store = Store::in_memory(HISTORY);
        self.store = Self::open(self.dir.as_ref());
        self.model.start = self.model.revision();
    }

    /// In the end every watcher that is left sees all there is.
    fn finish(mut self) {
        for mut reader in std::mem::take(&mut self.readers) {
            while read(&self.model, &mut reader, 1) && reader.seen < self.model.revision() {}
        }
        let seen: Objects = objects(&self.store.snapshot());
        let expected: Objects =
            self.model.state.iter().map(|(key, object)| (key.to_string(), object.clone())).collect();
        assert_eq!(seen, expected);
    }
}

fn run(steps: Vec<Step>, dir: Option<TempDir>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut run = Run::new(dir);
        for step in steps {
            run.step(step).await;
        }
        run.finish();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_watcher_sees_every_change_once_and_in_order_or_is_told(
        steps in proptest::collection::vec(step(false), 1..120),
    ) {
        run(steps, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_watcher_sees_every_change_once_and_in_order_or_is_told_over_restarts(
        steps in proptest::collection::vec(step(true), 1..80),
    ) {
        run(steps, Some(fast_dir()));
    }
}
