//! What a power failure leaves of the disk: everything that was synced, and of what was written since,
//! any part.
//!
//! A killed process does not show this: the system writes for it what it did not sync itself. So the
//! storage is one that remembers each write, from which the disk of any moment can be made.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

use super::Contents;
use super::redb::Redb;
use crate::key::{Key, Resource};
use crate::pending::Pending;
use crate::state::State;
use crate::transaction::{Expect, Transaction};

/// The unit in which a disk writes all or nothing.
const SECTOR: usize = 512;

#[derive(Debug, Clone)]
enum Step {
    Resize(u64),
    Write(u64, Vec<u8>),
    Sync,
}

/// Storage in memory that remembers how it came to be.
#[derive(Debug, Clone, Default)]
struct Recorder {
    image: Arc<Mutex<Vec<u8>>>,
    steps: Arc<Mutex<Vec<Step>>>,
    /// How many more writes there is room for.
    room: Arc<Mutex<Option<usize>>>,
}

impl StorageBackend for Recorder {
    fn len(&self) -> io::Result<u64> {
        Ok(self.image.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let image = self.image.lock().unwrap();
        let from = image.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.take_room()?;
        self.record(Step::Resize(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.record(Step::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.take_room()?;
        self.record(Step::Write(offset, data.to_vec()));
        Ok(())
    }
}

impl Recorder {
    fn of(image: Vec<u8>) -> Self {
        Self { image: Arc::new(Mutex::new(image)), ..Self::default() }
    }

    fn full_after(&self, writes: usize) {
        *self.room.lock().unwrap() = Some(writes);
    }

    fn has_room(&self) {
        *self.room.lock().unwrap() = None;
    }

    fn take_room(&self) -> io::Result<()> {
        match self.room.lock().unwrap().as_mut() {
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            Some(room) => {
                *room -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn record(&self, step: Step) {
        apply(&mut self.image.lock().unwrap(), &step);
        self.steps.lock().unwrap().push(step);
    }

    fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap().clone()
    }
}

fn apply(image: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Resize(len) => image.resize(*len as usize, 0),
        Step::Write(offset, data) => {
            let end = *offset as usize + data.len();
            // A write that reached the disk although the resize before it did not.
            if image.len() < end {
                image.resize(end, 0);
            }
            image[*offset as usize..end].copy_from_slice(data);
        }
        Step::Sync => {}
    }
}

/// How much of what was not synced reached the disk.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Nothing,
    Everything,
    /// Every write, resize or sector of a write by the toss of a coin.
    Some(u64),
}

/// The disk after a power failure just before the step `at`.
fn disk(steps: &[Step], at: usize, fate: Fate) -> Vec<u8> {
    let synced = steps[..at].iter().rposition(|step| matches!(step, Step::Sync)).unwrap_or(0);
    let mut image = Vec::new();
    for step in &steps[..synced] {
        apply(&mut image, step);
    }
    let mut coin = match fate {
        Fate::Some(seed) => seed | 1,
        Fate::Nothing | Fate::Everything => 0,
    };
    let mut reaches = || match fate {
        Fate::Nothing => false,
        Fate::Everything => true,
        Fate::Some(_) => {
            coin ^= coin << 13;
            coin ^= coin >> 7;
            coin ^= coin << 17;
            coin & 64 == 0
        }
    };
    for step in &steps[synced..at] {
        let Step::Write(offset, data) = step else {
            if reaches() {
                apply(&mut image, step);
            }
            continue;
        };
        for (number, sector) in data.chunks(SECTOR).enumerate() {
            if reaches() {
                apply(&mut image, &Step::Write(offset + (number * SECTOR) as u64, sector.to_vec()));
            }
        }
    }
    image
}

type Known = (u64, BTreeMap<String, (u64, Vec<u8>)>);

fn known(state: &State) -> Known {
    let object = |object: &Arc<crate::object::Object>| {
        (object.key().to_string(), (object.revision(), object.value().to_vec()))
    };
    (state.revision, state.objects().map(object).collect())
}

fn key(number: usize) -> Key {
    Key::new(&Resource::new("core/pods").unwrap(), "default", &format!("{number}")).unwrap()
}

/// Commits `rounds` transactions, and returns after how many steps each was durable, and what was then.
fn write(storage: &Recorder, state: State, rounds: usize) -> Vec<(usize, Known)> {
    let mut backend = Redb::open(storage.clone()).unwrap();
    let mut state = state;
    backend.fill(&state, 0).unwrap();
    let mut acknowledged = vec![(storage.steps().len(), known(&state))];
    for round in 0..rounds {
        let mut pending = Pending::after(state);
        let size = [20, 700, 2_600, 9_000][round % 4];
        let transaction = Transaction::new()
            .put(key(round % 9), Expect::Anything, vec![round as u8; size])
            .put(key(100 + round % 4), Expect::Anything, vec![round as u8; 100])
            .delete(key((round + 4) % 9), Expect::Anything);
        pending.apply(transaction).unwrap();
        backend.commit(&pending.batch).unwrap();
        state = pending.state;
        acknowledged.push((storage.steps().len(), known(&state)));
    }
    acknowledged
}

fn read(image: Vec<u8>) -> Result<Contents, super::BackendError> {
    let mut backend = Redb::open(Recorder::of(image))?;
    backend.check()?;
    backend.load()
}

#[test]
fn after_a_power_failure_at_any_write_all_acknowledged_and_no_half_transaction_is_there() {
    let storage = Recorder::default();
    let acknowledged = write(&storage, State::new(0), 16);
    let steps = storage.steps();
    let first = acknowledged[0].0;
    let mut unacknowledged = 0;
    for at in first..=acknowledged[acknowledged.len() - 1].0 {
        for fate in
            [Fate::Nothing, Fate::Everything, Fate::Some(at as u64 * 2 + 1), Fate::Some(at as u64 * 7919)]
        {
            let contents =
                read(disk(&steps, at, fate)).unwrap_or_else(|error| panic!("{at}, {fate:?}: {error}"));
            let found = known(&contents.state);
            let known_at = acknowledged.iter().rposition(|(steps, _)| *steps <= at).unwrap();
            let next = acknowledged.get(known_at + 1).map(|(_, state)| state);
            assert!(
                found == acknowledged[known_at].1 || Some(&found) == next,
                "{at}, {fate:?}: revision {} after {}",
                found.0,
                acknowledged[known_at].1.0
            );
            unacknowledged += usize::from(Some(&found) == next);
        }
    }
    assert!(unacknowledged > 0, "no failure came between a commit and its acknowledgement");
}

#[test]
fn a_recorder_that_loses_what_was_synced_is_caught() {
    let storage = Recorder::default();
    let acknowledged = write(&storage, State::new(0), 5);
    let (at, last) = acknowledged.last().unwrap();
    let steps: Vec<_> =
        storage.steps()[..*at].iter().filter(|step| !matches!(step, Step::Sync)).cloned().collect();
    let contents = read(disk(&steps, steps.len(), Fate::Some(99)));
    assert!(contents.is_err() || known(&contents.unwrap().state) != *last);
}

/// A disk that is full for a while: the database that failed is closed, and another opened on what is there.
#[test]
fn after_a_full_disk_the_database_goes_on_where_it_was() {
    let storage = Recorder::default();
    let mut backend = Redb::open(storage.clone()).unwrap();
    backend.fill(&State::new(0), 0).unwrap();
    let mut pending = Pending::after(State::new(0));
    pending.apply(Transaction::new().put(key(1), Expect::Absent, vec![1; 9_000])).unwrap();
    for room in 0..6 {
        storage.full_after(room);
        let failed = backend.commit(&pending.batch);
        storage.has_room();
        drop(backend);
        backend = Redb::open(storage.clone()).unwrap();
        let (revision, _) = backend.position().unwrap();
        match failed {
            // It may have been written although it was not acknowledged.
            Err(_) => assert!(revision <= 1, "{room}"),
            Ok(()) => assert_eq!(revision, 1, "{room}"),
        }
    }
    backend.commit(&pending.batch).unwrap();
    assert_eq!(known(&backend.load().unwrap().state), known(&pending.state));
}
