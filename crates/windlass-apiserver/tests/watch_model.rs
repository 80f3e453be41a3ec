//! Watches of the API, held against a model that remembers every change: random writes, watches that begin anywhere and
//! are read at any pace, and restarts. Every watcher sees every change of what it selects once and in order, or is told
//! that it comes too late, and only if it does.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Body, Options};
use windlass_store::{History, Store};

/// Short enough that slow readers fall off it all the time.
const HISTORY: History = History { events_per_resource: 6, bytes: usize::MAX };

const NAMESPACES: [&str; 2] = ["default", "kube-public"];

/// One state of an object.
#[derive(Debug, Clone, PartialEq)]
struct State {
    red: bool,
    count: usize,
}

/// One write that was acknowledged.
#[derive(Debug)]
struct Change {
    revision: u64,
    object: (usize, String),
    before: Option<State>,
    after: Option<State>,
}

/// What a watcher must be told.
#[derive(Debug, PartialEq)]
struct Told {
    revision: u64,
    kind: &'static str,
    object: (usize, String),
    /// Absent where the object left the selection.
    count: Option<usize>,
}

struct World {
    directory: tempfile::TempDir,
    server: Option<ApiServer>,
    changes: Vec<Change>,
    objects: BTreeMap<(usize, String), State>,
    /// The revision at the last start: what came before cannot be watched any more.
    start: u64,
    /// What the watchers went through, so that a run in which nothing happened fails.
    told: usize,
    too_late: usize,
}

impl World {
    async fn new() -> Self {
        let mut world = Self {
            directory: tempfile::tempdir().unwrap(),
            server: None,
            changes: Vec::new(),
            objects: BTreeMap::new(),
            start: 0,
            told: 0,
            too_late: 0,
        };
        world.restart().await;
        world
    }

    async fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            let store = server.store().clone();
            server.stop();
            drop(server);
            store.close().await.unwrap();
        }
        let options = windlass_store::Options::new().history(HISTORY);
        let store = Store::open(self.directory.path().join("store"), &options).unwrap();
        let server = ApiServer::start(store.clone(), Options::new()).await.unwrap();
        self.start = store.revision();
        self.server = Some(server);
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> http::Response<Body> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let content =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        self.server.as_ref().unwrap().service().answer(request.body(Full::new(body)).unwrap()).await
    }

    async fn json(&self, method: Method, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body).await;
        let code = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap();
        assert!(code.is_success(), "{path}: {body}");
        body
    }

    /// Creates, changes or deletes one of a few objects, of a kind that no controller writes.
    async fn write(&mut self, random: &mut fastrand::Rng) {
        let object = (random.usize(..2), format!("m{}", random.usize(..4)));
        let collection = format!("/api/v1/namespaces/{}/limitranges", NAMESPACES[object.0]);
        let path = format!("{collection}/{}", object.1);
        let before = self.objects.get(&object).cloned();
        let state = State { red: random.usize(..2) == 0, count: self.changes.len() };
        let content = json!({
            "metadata": {
                "name": object.1,
                "labels": {"color": if state.red { "red" } else { "blue" }, "count": state.count.to_string()},
            },
        });
        let (revision, after) = match &before {
            None => (revision(&self.json(Method::POST, &collection, &content).await), Some(state)),
            Some(_) if random.usize(..4) == 0 => {
                self.json(Method::DELETE, &path, &Value::Null).await;
                // This is the only writer: the deletion is the last change.
                (self.server.as_ref().unwrap().store().revision(), None)
            }
            Some(_) => (revision(&self.json(Method::PATCH, &path, &content).await), Some(state)),
        };
        match &after {
            Some(state) => self.objects.insert(object.clone(), state.clone()),
            None => self.objects.remove(&object),
        };
        self.changes.push(Change { revision, object, before, after });
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// A client that watches a part of the objects, at its own pace.
struct Watcher {
    namespace: Option<usize>,
    only_red: bool,
    /// It has seen everything up to here.
    position: u64,
    stream: Option<Body>,
    unread: Vec<u8>,
}

impl Watcher {
    /// Starts at a revision in the past, or now with everything that is there.
    async fn start(world: &mut World, random: &mut fastrand::Rng) -> Self {
        let mut watcher = Self {
            namespace: [None, Some(0), Some(1)][random.usize(..3)],
            only_red: random.usize(..2) == 0,
            position: 0,
            stream: None,
            unread: Vec::new(),
        };
        if random.usize(..3) == 0 || world.changes.is_empty() {
            watcher.start_full(world).await;
        } else {
            let back = random.usize(..12).min(world.changes.len() - 1);
            watcher.position = world.changes[world.changes.len() - 1 - back].revision;
        }
        watcher
    }

    fn path(&self) -> String {
        let namespace = self.namespace.map_or(String::new(), |at| format!("/namespaces/{}", NAMESPACES[at]));
        let selector = if self.only_red { "&labelSelector=color%3Dred" } else { "" };
        format!("/api/v1{namespace}/limitranges?watch=true&allowWatchBookmarks=true{selector}")
    }

    fn selects(&self, object: &(usize, String), state: &State) -> bool {
        self.namespace.is_none_or(|namespace| namespace == object.0) && (state.red || !self.only_red)
    }

    /// What this watcher must be told of a change, if anything.
    fn view(&self, change: &Change) -> Option<Told> {
        let selected = |state: &Option<State>| {
            state.as_ref().filter(|state| self.selects(&change.object, state)).map(|state| state.count)
        };
        let (kind, count) = match (selected(&change.before), selected(&change.after)) {
            (None, None) => return None,
            (None, Some(count)) => ("ADDED", Some(count)),
            (Some(_), Some(count)) => ("MODIFIED", Some(count)),
            (Some(_), None) => ("DELETED", None),
        };
        Some(Told { revision: change.revision, kind, object: change.object.clone(), count })
    }

    /// A streaming list: everything that is there in any order, then a mark, then changes.
    async fn start_full(&mut self, world: &mut World) {
        let path = format!("{}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", self.path());
        self.stream = Some(world.ask(Method::GET, &path, &Value::Null).await.into_body());
        self.unread.clear();
        let mut missing: BTreeMap<_, _> =
            world.objects.iter().filter(|(object, state)| self.selects(object, state)).collect();
        loop {
            let event = self.next().await.expect("the list must be complete before the watch ends");
            if event["type"] == "BOOKMARK" {
                assert_eq!(event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
                self.position = revision(&event["object"]);
                break;
            }
            let told = told(&event);
            let state = missing.remove(&told.object).expect("an object that is not there, or twice");
            assert_eq!((told.kind, told.count), ("ADDED", Some(state.count)));
        }
        assert!(missing.is_empty(), "not told: {missing:?}");
    }

    /// The next event of the stream, or none if it has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.stream.as_mut()?.frame().await?.unwrap();
            self.unread.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// Reads up to so many of the events that must be there.
    async fn read(&mut self, world: &mut World, most: usize) {
        for _ in 0..most {
            let behind = world.changes.iter().filter(|change| change.revision > self.position);
            let due = behind.clone().find_map(|change| self.view(change));
            let behind = behind.count();
            let Some(due) = due else { return };
            if self.stream.is_none() {
                let path = format!("{}&resourceVersion={}", self.path(), self.position);
                self.stream = Some(world.ask(Method::GET, &path, &Value::Null).await.into_body());
                self.unread.clear();
            }
            let Some(event) = self.next().await else {
                // The server went away: go on from where we were.
                self.stream = None;
                continue;
            };
            match event["type"].as_str().unwrap() {
                "BOOKMARK" => {
                    let position = revision(&event["object"]);
                    assert!(position < due.revision, "a bookmark passes over {due:?}");
                    self.position = self.position.max(position);
                }
                "ERROR" => {
                    assert_eq!(event["object"]["code"], 410, "{event}");
                    assert!(
                        behind > HISTORY.events_per_resource || self.position < world.start,
                        "told too late, only {behind} changes behind: {event}"
                    );
                    assert!(self.next().await.is_none(), "nothing comes after an error");
                    world.too_late += 1;
                    self.start_full(world).await;
                }
                _ => {
                    assert_eq!(told(&event), due);
                    self.position = due.revision;
                    world.told += 1;
                }
            }
        }
    }
}

fn told(event: &Value) -> Told {
    let object = &event["object"];
    let kind = ["ADDED", "MODIFIED", "DELETED"].into_iter().find(|kind| event["type"] == *kind).unwrap();
    let namespace = NAMESPACES.iter().position(|name| object["metadata"]["namespace"] == *name).unwrap();
    Told {
        revision: revision(object),
        kind,
        object: (namespace, object["metadata"]["name"].as_str().unwrap().to_owned()),
        count: (kind != "DELETED")
            .then(|| object["metadata"]["labels"]["count"].as_str().unwrap().parse().unwrap()),
    }
}

#[tokio::test]
async fn every_watcher_sees_every_change_once_and_in_order_or_is_told_that_it_is_too_late() {
    let (mut told, mut too_late, mut restarts) = (0, 0, 0);
    for seed in 1..=8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::new().await;
        let mut watchers: Vec<Watcher> = Vec::new();
        for _ in 0..250 {
            match random.usize(..20) {
                0..9 => world.write(&mut random).await,
                9..11 if watchers.len() < 8 => watchers.push(Watcher::start(&mut world, &mut random).await),
                11 if !watchers.is_empty() => {
                    // A client that comes back, from where it was.
                    let at = random.usize(..watchers.len());
                    watchers[at].stream = None;
                }
                12 if random.usize(..3) == 0 && !watchers.is_empty() => {
                    let at = random.usize(..watchers.len());
                    watchers.swap_remove(at);
                }
                13 if random.usize(..6) == 0 => {
                    world.restart().await;
                    restarts += 1;
                }
                _ if !watchers.is_empty() => {
                    let (at, most) = (random.usize(..watchers.len()), 1 + random.usize(..6));
                    watchers[at].read(&mut world, most).await;
                }
                _ => {}
            }
        }
        for watcher in &mut watchers {
            watcher.read(&mut world, usize::MAX).await;
        }
        told += world.told;
        too_late += world.too_late;
    }
    assert!(
        told > 500 && too_late > 20 && restarts > 5,
        "{told} told, {too_late} too late, {restarts} restarts"
    );
}
