//! The API under concurrent clients, watches and `kill -9`: what happened is recorded, and the record is checked.
//!
//! Revisions give every acknowledged write its place in one order, so the record is linearizable if that order
//! agrees with what each client saw and when. A write whose answer never came may have happened or not; the
//! watches and the final state tell which, and all of them must tell the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::served::{CONFIG_MAPS, Connection, Server};

const CLIENTS: usize = 6;
const OBJECTS: usize = 3;
const KILLS: usize = 12;

/// What a client did to one object.
#[derive(Debug, Clone, PartialEq)]
enum Action {
    Read,
    Create {
        value: String,
    },
    /// Replaces the version that was read before.
    Replace {
        value: String,
        expected: u64,
    },
    Delete,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    /// What was read or written: value and revision. A deletion has no value, and its revision is not told.
    Seen {
        value: String,
        revision: u64,
    },
    Gone,
    /// Refused, so that nothing was written.
    Refused,
    /// The connection broke: it may have happened.
    Unknown,
}

/// One operation, with the moments at which it began and ended.
#[derive(Debug, Clone)]
struct Operation {
    object: usize,
    action: Action,
    outcome: Outcome,
    began: u64,
    ended: u64,
}

/// One event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    revision: u64,
    object: usize,
    /// Absent for a deletion.
    value: Option<String>,
}

/// What one watch told, from a revision on.
#[derive(Debug)]
struct Watched {
    after: u64,
    events: Vec<Event>,
}

enum Record {
    Operation(Operation),
    Watched(Watched),
}

/// Everything that is known of a run.
#[derive(Debug, Default)]
struct History {
    operations: Vec<Operation>,
    watches: Vec<Watched>,
    /// What was there in the end.
    last: BTreeMap<usize, (u64, String)>,
    last_revision: u64,
}

impl History {
    /// The first thing that no server that does one thing after another could have done.
    fn check(&self) -> Result<BTreeMap<u64, Event>, String> {
        let log = self.log()?;
        self.check_watches(&log)?;
        self.check_chains(&log)?;
        self.check_reads()?;
        self.check_end(&log)?;
        Ok(log)
    }

    /// All writes that are known to have happened, by revision: those that were acknowledged, that a watch told of,
    /// or that were read. Two accounts of one revision must agree.
    fn log(&self) -> Result<BTreeMap<u64, Event>, String> {
        let mut log: BTreeMap<u64, Event> = BTreeMap::new();
        let mut add = |event: &Event| match log.insert(event.revision, event.clone()) {
            Some(other) if other != *event => {
                Err(format!("two accounts of one revision: {other:?} and {event:?}"))
            }
            _ => Ok(()),
        };
        for watched in &self.watches {
            watched.events.iter().try_for_each(&mut add)?;
        }
        for Operation { object, outcome, .. } in &self.operations {
            if let Outcome::Seen { value, revision } = outcome {
                add(&Event { revision: *revision, object: *object, value: Some(value.clone()) })?;
            }
        }
        for (object, (revision, value)) in &self.last {
            add(&Event { revision: *revision, object: *object, value: Some(value.clone()) })?;
        }
        Ok(log)
    }

    /// Whether an object may have been deleted after a write: the revision of a deletion is known only from a watch,
    /// and the server may have been killed before a watch could tell.
    fn may_be_deleted_after(&self, object: usize, revision: u64) -> bool {
        let written = self.operations.iter().find(|operation| {
            let by = &operation.outcome;
            operation.action != Action::Read
                && matches!(by, Outcome::Seen { revision: at, .. } if *at == revision)
        });
        let since = written.map_or(0, |operation| operation.began);
        self.operations.iter().any(|operation| {
            operation.object == object
                && operation.action == Action::Delete
                && operation.outcome != Outcome::Refused
                && operation.ended > since
        })
    }

    /// Every watch tells in order, once, and all of what is known to have happened while it lasted.
    fn check_watches(&self, log: &BTreeMap<u64, Event>) -> Result<(), String> {
        for Watched { after, events } in &self.watches {
            let revisions: Vec<u64> = events.iter().map(|event| event.revision).collect();
            let Some(last) = revisions.last().copied() else { continue };
            if revisions.first().is_some_and(|first| first <= after) || !revisions.is_sorted_by(|a, b| a < b)
            {
                return Err(format!("a watch from {after} repeats or goes back: {revisions:?}"));
            }
            let known: Vec<u64> = log.range(after + 1..=last).map(|(revision, _)| *revision).collect();
            if known != revisions {
                return Err(format!("a watch from {after} has gaps: told {revisions:?} of {known:?}"));
            }
        }
        Ok(())
    }

    /// A replacement follows the version that it was made from, and what ended before another began is before it.
    fn check_chains(&self, log: &BTreeMap<u64, Event>) -> Result<(), String> {
        for operation in &self.operations {
            let Outcome::Seen { revision, .. } = &operation.outcome else { continue };
            let before = log.range(..revision).rev().find(|(_, event)| event.object == operation.object);
            match (&operation.action, before) {
                (Action::Replace { expected, .. }, Some((found, _))) if found != expected => {
                    return Err(format!("{operation:?} overwrote revision {found}"));
                }
                (Action::Create { .. }, Some((found, event)))
                    if event.value.is_some() && !self.may_be_deleted_after(operation.object, *found) =>
                {
                    return Err(format!("{operation:?} created what was there at {found}"));
                }
                _ => {}
            }
        }
        let mut writes: Vec<(&Operation, u64)> = Vec::new();
        for operation in &self.operations {
            if let (true, Outcome::Seen { revision, .. }) =
                (operation.action != Action::Read, &operation.outcome)
            {
                writes.push((operation, *revision));
            }
        }
        writes.sort_by_key(|(_, revision)| *revision);
        // The latest beginning of all that have a smaller revision: none of them may begin after this one ended.
        let mut latest: Option<(&Operation, u64)> = None;
        for (operation, revision) in writes {
            if let Some((other, earlier)) = latest
                && operation.ended < other.began
            {
                return Err(format!(
                    "{operation:?} ended before {other:?} began, but {revision} > {earlier}"
                ));
            }
            if latest.is_none_or(|(other, _)| operation.began > other.began) {
                latest = Some((operation, revision));
            }
        }
        Ok(())
    }

    /// A read shows nothing older than what was acknowledged before it began. That it shows what was written, the log
    /// tells: it has both.
    fn check_reads(&self) -> Result<(), String> {
        let acknowledged = |object: usize, before: u64| {
            let writes = self.operations.iter().filter(|operation| {
                operation.object == object && operation.action != Action::Read && operation.ended < before
            });
            let revision = |operation: &Operation| match &operation.outcome {
                Outcome::Seen { revision, .. } => Some(*revision),
                _ => None,
            };
            writes.filter_map(revision).max().unwrap_or(0)
        };
        for read in self.operations.iter().filter(|operation| operation.action == Action::Read) {
            let known = acknowledged(read.object, read.began);
            match &read.outcome {
                Outcome::Seen { revision, .. } => {
                    if *revision < known {
                        return Err(format!("{read:?} is older than {known}, which was acknowledged before"));
                    }
                }
                Outcome::Gone => {
                    // Something must have deleted what was acknowledged, or nothing ever was.
                    let deletions = self.operations.iter().any(|operation| {
                        operation.object == read.object
                            && operation.action == Action::Delete
                            && operation.outcome != Outcome::Refused
                            && operation.began < read.ended
                    });
                    if known > 0 && !deletions {
                        return Err(format!("{read:?}: {known} was acknowledged and nothing deleted it"));
                    }
                }
                Outcome::Refused | Outcome::Unknown => {}
            }
        }
        Ok(())
    }

    /// What is there in the end is what was written last.
    fn check_end(&self, log: &BTreeMap<u64, Event>) -> Result<(), String> {
        if log.keys().last().is_some_and(|last| *last > self.last_revision) {
            return Err(format!("the revision went back to {}", self.last_revision));
        }
        for object in 0..OBJECTS {
            let last = log.values().rev().find(|event| event.object == object);
            let expected =
                last.and_then(|event| event.value.as_ref().map(|value| (event.revision, value.clone())));
            let found = self.last.get(&object);
            let is_deleted = |(revision, _): &(u64, String)| self.may_be_deleted_after(object, *revision);
            let in_doubt = found.is_none() && expected.as_ref().is_some_and(is_deleted);
            if expected.as_ref() != found && !in_doubt {
                return Err(format!("object {object} is {found:?} in the end, and not {expected:?}"));
            }
        }
        Ok(())
    }
}

fn name(object: usize) -> String {
    format!("h{object}")
}

fn index(object: &Value) -> Option<usize> {
    object["metadata"]["name"].as_str()?.strip_prefix('h')?.parse().ok()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn seen(object: &Value) -> Outcome {
    Outcome::Seen { value: object["data"]["value"].as_str().unwrap().to_owned(), revision: revision(object) }
}

/// Does one thing, and tells what came of it.
async fn act(connection: &mut Connection, object: usize, action: &Action) -> Outcome {
    let path = format!("{CONFIG_MAPS}/{}", name(object));
    let content = |value: &str, expected: Option<u64>| {
        let mut body = json!({"metadata": {"name": name(object)}, "data": {"value": value}});
        if let Some(expected) = expected {
            body["metadata"]["resourceVersion"] = expected.to_string().into();
        }
        body
    };
    let answer = match action {
        Action::Read => connection.ask("GET", &path, &Value::Null).await,
        Action::Create { value } => connection.ask("POST", CONFIG_MAPS, &content(value, None)).await,
        Action::Replace { value, expected } => {
            connection.ask("PUT", &path, &content(value, Some(*expected))).await
        }
        Action::Delete => connection.ask("DELETE", &path, &json!({})).await,
    };
    match (answer, action) {
        (None, _) => Outcome::Unknown,
        (Some((200 | 201, _)), Action::Delete) => Outcome::Gone,
        (Some((200 | 201, body)), _) => seen(&body),
        (Some((404, _)), Action::Read) => Outcome::Gone,
        (Some((404 | 409, _)), _) => Outcome::Refused,
        (Some((code, body)), action) => panic!("{action:?}: {code} {body}"),
    }
}

/// Writes and reads until the server is gone.
async fn client(
    mut connection: Connection,
    number: usize,
    moments: Arc<AtomicU64>,
    record: mpsc::UnboundedSender<Record>,
) {
    let mut random = fastrand::Rng::with_seed(moments.load(Ordering::SeqCst) * 31 + number as u64);
    let mut known: BTreeMap<usize, u64> = BTreeMap::new();
    loop {
        let object = random.usize(..OBJECTS);
        let began = moments.fetch_add(1, Ordering::SeqCst);
        // No two writes have the same value.
        let value = format!("{number}-{began}");
        let action = match (random.u8(..10), known.get(&object)) {
            (0..3, _) => Action::Read,
            (3, Some(_)) => Action::Delete,
            (_, Some(expected)) => Action::Replace { value, expected: *expected },
            (_, None) => Action::Create { value },
        };
        let outcome = act(&mut connection, object, &action).await;
        let ended = moments.fetch_add(1, Ordering::SeqCst);
        match &outcome {
            Outcome::Seen { revision, .. } => drop(known.insert(object, *revision)),
            Outcome::Gone => drop(known.remove(&object)),
            // Somebody else was faster: what is there now is read next.
            Outcome::Refused => drop(known.remove(&object)),
            Outcome::Unknown => {}
        }
        if outcome == Outcome::Refused {
            let began = moments.fetch_add(1, Ordering::SeqCst);
            let outcome = act(&mut connection, object, &Action::Read).await;
            let ended = moments.fetch_add(1, Ordering::SeqCst);
            if let Outcome::Seen { revision, .. } = &outcome {
                known.insert(object, *revision);
            }
            let _ = record.send(Record::Operation(Operation {
                object,
                action: Action::Read,
                outcome,
                began,
                ended,
            }));
        }
        let broken = outcome == Outcome::Unknown;
        let _ = record.send(Record::Operation(Operation { object, action, outcome, began, ended }));
        if broken {
            return;
        }
    }
}

/// Watches from a revision until the server is gone.
async fn watch(mut connection: Connection, after: u64, record: mpsc::UnboundedSender<Record>) {
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={after}");
    let request = Request::get(path).header("host", "localhost").body(Full::new(Bytes::new())).unwrap();
    let mut watched = Watched { after, events: Vec::new() };
    if let Ok(answer) = connection.0.send_request(request).await {
        let mut body = answer.into_body();
        let mut unread = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            unread.extend_from_slice(&frame.into_data().unwrap());
            while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = unread.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                let object = &event["object"];
                let value = object["data"]["value"].as_str().map(str::to_owned);
                let value = value.filter(|_| event["type"] != "DELETED");
                assert_ne!(event["type"], "ERROR", "{event}");
                if let Some(index) = index(object) {
                    watched.events.push(Event { revision: revision(object), object: index, value });
                }
            }
        }
    }
    let _ = record.send(Record::Watched(watched));
}

/// Everything that is there, and the revision.
async fn list(server: &Server) -> (BTreeMap<usize, (u64, String)>, u64) {
    let mut connection = Server::connect(&server.address, Arc::clone(&server.tls)).await.unwrap();
    let (code, list) = connection.ask("GET", CONFIG_MAPS, &Value::Null).await.unwrap();
    assert_eq!(code, 200, "{list}");
    let there = list["items"].as_array().unwrap().iter().filter_map(|object| {
        let value = object["data"]["value"].as_str().map(str::to_owned)?;
        Some((index(object)?, (revision(object), value)))
    });
    (there.collect(), revision(&list))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_and_watches_saw_is_one_history_in_one_order() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let moments = Arc::new(AtomicU64::new(1));
    let mut history = History::default();
    for _ in 0..KILLS {
        let mut server = Server::start(directory.path());
        let (_, from) = list(&server).await;
        let (record, mut recorded) = mpsc::unbounded_channel();
        let connect = || Server::connect(&server.address, Arc::clone(&server.tls));
        for _ in 0..2 {
            tokio::spawn(watch(connect().await.unwrap(), from, record.clone()));
        }
        for number in 0..CLIENTS {
            tokio::spawn(client(connect().await.unwrap(), number, Arc::clone(&moments), record.clone()));
        }
        drop(record);
        let mut left = 60 + random.usize(..120);
        while let Some(entry) = recorded.recv().await {
            match entry {
                Record::Operation(operation) => history.operations.push(operation),
                Record::Watched(watched) => history.watches.push(watched),
            }
            left = left.saturating_sub(1);
            if left == 0 {
                server.kill();
                left = usize::MAX;
            }
        }
    }
    let server = Server::start(directory.path());
    (history.last, history.last_revision) = list(&server).await;
    let log = history.check().unwrap_or_else(|problem| panic!("{problem}"));
    let objects: BTreeSet<usize> = log.values().map(|event| event.object).collect();
    let unknown = history.operations.iter().filter(|operation| operation.outcome == Outcome::Unknown).count();
    assert!(log.len() > 150 && objects.len() == OBJECTS && unknown >= KILLS, "{} {unknown}", log.len());
}

/// A checker that finds nothing is not one.
#[test]
fn every_kind_of_anomaly_is_found() {
    let write = |began: u64, ended: u64, revision: u64, expected: Option<u64>| Operation {
        object: 0,
        action: match expected {
            Some(expected) => Action::Replace { value: format!("v{revision}"), expected },
            None => Action::Create { value: format!("v{revision}") },
        },
        outcome: Outcome::Seen { value: format!("v{revision}"), revision },
        began,
        ended,
    };
    let read = |began: u64, ended: u64, value: &str, revision: u64| Operation {
        object: 0,
        action: Action::Read,
        outcome: Outcome::Seen { value: value.to_owned(), revision },
        began,
        ended,
    };
    let event = |revision: u64| Event { revision, object: 0, value: Some(format!("v{revision}")) };
    let good = || History {
        operations: vec![write(1, 2, 5, None), write(3, 6, 7, Some(5)), read(4, 5, "v5", 5)],
        watches: vec![Watched { after: 3, events: vec![event(5), event(7)] }],
        last: BTreeMap::from([(0, (7, "v7".to_owned()))]),
        last_revision: 7,
    };
    good().check().unwrap();
    let broken = |change: &dyn Fn(&mut History), expected: &str| {
        let mut history = good();
        change(&mut history);
        let problem = history.check().expect_err(expected);
        assert!(problem.contains(expected), "{problem}");
    };
    broken(&|history| history.watches[0].events.push(event(7)), "repeats");
    broken(&|history| drop(history.watches[0].events.remove(0)), "has gaps");
    broken(&|history| history.watches[0].events.swap(0, 1), "goes back");
    broken(&|history| history.watches[0].events[1].value = Some("other".to_owned()), "two accounts");
    broken(&|history| history.operations.push(write(7, 8, 9, Some(5))), "overwrote");
    broken(&|history| history.operations.push(write(7, 8, 9, None)), "created what was there");
    broken(&|history| history.operations.push(read(7, 8, "v5", 5)), "older than");
    broken(&|history| history.operations.push(read(7, 8, "v6", 7)), "two accounts");
    broken(&|history| drop(history.last.remove(&0)), "in the end");
    broken(&|history| history.last_revision = 6, "went back");
    broken(
        &|history| {
            history.operations[0].began = 10;
            history.operations[0].ended = 11;
        },
        "ended before",
    );
}
