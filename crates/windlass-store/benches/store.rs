//! How fast the store is, and what it takes: `cargo bench -p windlass-store`.

// A benchmark that cannot go on has nothing better to do than to say so.
#![allow(clippy::expect_used)]

use std::time::Instant;

use bytes::Bytes;
use divan::Bencher;
use divan::counter::ItemsCount;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use windlass_store::{Expect, History, Key, Options, Resource, Scope, Store, Value};

/// A Machine with its status and managed fields.
const OBJECT_BYTES: usize = 2600;
const OBJECTS: usize = 10_000;

fn main() {
    memory_and_opening();
    divan::main();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime")
}

fn resource() -> Resource {
    Resource::new("cluster.x-k8s.io/machines").expect("a resource")
}

fn key(number: usize) -> Key {
    Key::new(&resource(), "default", &format!("machine-{number:06}")).expect("a key")
}

/// Bytes that differ from object to object, in memory of their own.
fn value(number: usize) -> Bytes {
    let line = format!("{{\"name\":\"machine-{number:06}\"}},").into_bytes();
    let mut value = line.repeat(OBJECT_BYTES.div_ceil(line.len()));
    value.truncate(OBJECT_BYTES);
    value.into_boxed_slice().into()
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Synced,
    Relaxed,
    InMemory,
}

fn store(kind: Kind) -> (Store, Option<TempDir>) {
    let on_disk = |options: Options| {
        let dir = TempDir::new().expect("a directory");
        (Store::open(dir.path().join("store"), &options).expect("a store"), Some(dir))
    };
    match kind {
        Kind::Synced => on_disk(Options::new()),
        Kind::Relaxed => on_disk(Options::new().relaxed()),
        Kind::InMemory => (Store::in_memory(History::default()), None),
    }
}

/// `changes` updates of 1 000 objects by `writers` tasks, each waiting for one before the next.
async fn update(store: &Store, writers: usize, changes: usize) {
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for change in (writer..changes).step_by(writers) {
                    let number = change % 1000;
                    let value = Value::new(value(number));
                    store.put(key(number), Expect::Anything, value).await.expect("a commit");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
}

fn commits(bencher: Bencher<'_, '_>, kind: Kind, writers: usize, changes: usize) {
    let runtime = runtime();
    bencher
        .counter(ItemsCount::new(changes))
        .with_inputs(|| store(kind))
        .bench_local_refs(|(store, _dir)| runtime.block_on(update(store, writers, changes)));
}

#[divan::bench(args = [1, 16, 64], sample_count = 5, sample_size = 1)]
fn commits_synced(bencher: Bencher<'_, '_>, writers: usize) {
    commits(bencher, Kind::Synced, writers, if writers == 1 { 2_000 } else { 10_000 });
}

#[divan::bench(args = [1, 16, 64], sample_count = 5, sample_size = 1)]
fn commits_relaxed(bencher: Bencher<'_, '_>, writers: usize) {
    commits(bencher, Kind::Relaxed, writers, 10_000);
}

#[divan::bench(args = [1, 16, 64], sample_count = 5, sample_size = 1)]
fn commits_in_memory(bencher: Bencher<'_, '_>, writers: usize) {
    commits(bencher, Kind::InMemory, writers, 50_000);
}

/// Events delivered: each change is read, with its frame, by 20 watchers while 64 writers write.
#[divan::bench(args = [Kind::Synced, Kind::InMemory], sample_count = 5, sample_size = 1)]
fn watched_by_20(bencher: Bencher<'_, '_>, kind: Kind) {
    const WATCHERS: usize = 20;
    const CHANGES: usize = 10_000;
    let runtime = runtime();
    bencher.counter(ItemsCount::new(WATCHERS * CHANGES)).with_inputs(|| store(kind)).bench_local_refs(
        |(store, _dir)| {
            runtime.block_on(async {
                let watchers: Vec<_> = (0..WATCHERS)
                    .map(|_| {
                        let mut watcher =
                            store.watch(Scope::from(&resource()), store.revision()).expect("a watcher");
                        tokio::spawn(async move {
                            for _ in 0..CHANGES {
                                let event = watcher.next().await.expect("an event");
                                let frame = event.frame(0, |event| {
                                    let value = event.object().value();
                                    [br#"{"type":"MODIFIED","object":"#, value.as_ref(), b"}\n"]
                                        .concat()
                                        .into()
                                });
                                divan::black_box(frame);
                            }
                        })
                    })
                    .collect();
                update(store, 64, CHANGES).await;
                for watcher in watchers {
                    watcher.await.expect("a watcher");
                }
            });
        },
    );
}

#[divan::bench]
fn list_10_000(bencher: Bencher<'_, '_>) {
    let (store, _dir) = store(Kind::InMemory);
    runtime().block_on(fill(&store));
    let scope = Scope::from(&resource());
    bencher.bench(|| store.snapshot().list(&scope).map(|object| object.value().len()).sum::<usize>());
}

#[divan::bench]
fn get_one_of_10_000(bencher: Bencher<'_, '_>) {
    let (store, _dir) = store(Kind::InMemory);
    runtime().block_on(fill(&store));
    let key = key(OBJECTS / 2);
    bencher.bench(|| store.get(divan::black_box(&key)));
}

async fn fill(store: &Store) {
    let tasks: Vec<_> = (0..64)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in (writer..OBJECTS).step_by(64) {
                    store.put(key(number), Expect::Absent, value(number)).await.expect("a commit");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
}

/// Measured once, before anything else has used memory.
fn memory_and_opening() {
    let runtime = runtime();
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("store");
    let before = resident_kib();
    let store = Store::open(&path, &Options::new()).expect("a store");
    eprintln!("resident memory of an empty store: {} KiB", resident_kib() - before);
    runtime.block_on(fill(&store));
    let stats = store.stats();
    eprintln!("{OBJECTS} objects of {OBJECT_BYTES} bytes, {} bytes of values:", stats.value_bytes);
    eprintln!("  resident memory after writing them: {} KiB more", resident_kib() - before);
    eprintln!("  file: {} KiB", file_kib(&path));
    drop(store);
    timed("opening after a clean stop", || Store::open(&path, &Options::new()).expect("a store"));
    eprintln!("  file after a clean stop: {} KiB", file_kib(&path));

    // A copy of an open store's file is what a crash leaves behind.
    let store = Store::open(&path, &Options::new()).expect("a store");
    runtime.block_on(update(&store, 64, 2 * OBJECTS));
    let crashed = dir.path().join("crashed");
    std::fs::create_dir(&crashed).expect("a directory");
    std::fs::copy(path.join("objects.db"), crashed.join("objects.db")).expect("a copy");
    eprintln!("  file after {} more updates: {} KiB", 2 * OBJECTS, file_kib(&path));
    drop(store);
    let store = timed("opening after a crash", || Store::open(&crashed, &Options::new()).expect("a store"));
    assert_eq!(store.stats().objects, OBJECTS);
    let backup =
        timed("a backup", || runtime.block_on(store.backup(dir.path().join("backup"))).expect("a backup"));
    eprintln!("  backup: {} KiB", backup.bytes / 1024);
}

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    eprintln!("  {what}: {:.0?}", start.elapsed());
    result
}

fn file_kib(dir: &std::path::Path) -> u64 {
    std::fs::metadata(dir.join("objects.db")).expect("a file").len() / 1024
}

/// Resident memory as Linux counts it; nothing elsewhere.
fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
