//! The data directory: made, locked, or refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_store::{Expect, OpenError, Options, Store};

use crate::support::{fast_dir, objects, open, pod, store_file};

#[tokio::test]
async fn a_missing_directory_is_made_for_its_owner_only() {
    let dir = fast_dir();
    let data = dir.path().join("not/there/yet");
    let store = open(&data);
    store.put(pod("a"), Expect::Absent, "secret").await.unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&store_file(&data)), 0o600);
}

#[test]
fn an_empty_directory_becomes_an_empty_store() {
    let dir = fast_dir();
    let store = open(dir.path());
    assert_eq!((store.revision(), store.snapshot().len()), (0, 0));
    assert!(store.snapshot().is_empty());
}

#[test]
fn a_directory_that_is_in_use_is_refused_with_its_name_and_its_user() {
    let dir = fast_dir();
    let store = open(dir.path());
    let refused = Store::open(dir.path(), &Options::new()).unwrap_err();
    let message =
        format!("data directory {} is in use by process {}", dir.path().display(), std::process::id());
    assert_eq!(refused.to_string(), message);
    drop(store);
    open(dir.path());
}

#[tokio::test]
async fn a_closed_store_lets_go_of_its_directory_although_it_is_still_held() {
    let dir = fast_dir();
    let closed = open(dir.path());
    closed.put(pod("a"), Expect::Absent, "x").await.unwrap();
    closed.close().await.unwrap();
    let store = open(dir.path());
    assert_eq!(objects(&store.snapshot()), objects(&closed.snapshot()));
}

#[tokio::test]
async fn a_watcher_does_not_keep_the_directory() {
    let dir = fast_dir();
    let store = open(dir.path());
    let mut watcher = store.watch(windlass_store::Scope::All, 0).unwrap();
    drop(store);
    open(dir.path());
    assert_eq!(watcher.next().await.unwrap_err().to_string(), "the store is closed");
}

#[test]
fn a_process_that_is_started_while_a_store_is_closed_does_not_keep_the_directory() {
    let dir = fast_dir();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Between fork and exec each of these has all files of this process open.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::process::Command::new("true").status().unwrap();
            }
        });
        let opened = (0..150).find_map(|_| Store::open(dir.path(), &Options::new()).err());
        done.store(true, Ordering::Relaxed);
        assert!(opened.is_none(), "{}", opened.unwrap());
    });
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let dir = fast_dir();
    fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
    fs::write(dir.path().join("notes.txt"), "more").unwrap();
    let refused = Store::open(dir.path(), &Options::new()).unwrap_err();
    assert!(matches!(&refused, OpenError::NotAStore { found, .. } if found == "notes.txt"), "{refused}");
    assert!(!store_file(dir.path()).exists());
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let dir = fast_dir();
    drop(open(dir.path()));
    let mut bytes = fs::read(store_file(dir.path())).unwrap();
    let line = b"windlass-store format 12\n";
    bytes[..line.len()].copy_from_slice(line);
    fs::write(store_file(dir.path()), &bytes).unwrap();
    let refused = Store::open(dir.path(), &Options::new()).unwrap_err();
    assert!(matches!(refused, OpenError::NewerFormat { found: 12, supported: 1, .. }));
    let message = format!(
        "store {} has format 12, this version reads up to format 1",
        store_file(dir.path()).display()
    );
    assert_eq!(refused.to_string(), message);
    assert_eq!(fs::read(store_file(dir.path())).unwrap(), bytes);
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    for bytes in [&b""[..], b"redb", &[0; 10_000]] {
        let dir = fast_dir();
        fs::write(store_file(dir.path()), bytes).unwrap();
        let refused = Store::open(dir.path(), &Options::new()).unwrap_err();
        assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
        assert_eq!(fs::read(store_file(dir.path())).unwrap(), bytes);
    }
}

#[tokio::test]
async fn what_a_crash_left_of_a_new_store_is_removed() {
    let dir = fast_dir();
    let half_made = dir.path().join("objects.db.new");
    fs::write(&half_made, "half a store").unwrap();
    let store = open(dir.path());
    store.put(pod("a"), Expect::Absent, "x").await.unwrap();
    drop(store);
    fs::write(&half_made, "half a store").unwrap();
    assert_eq!(open(dir.path()).revision(), 1);
    assert!(!half_made.exists());
}

#[tokio::test]
async fn a_file_far_larger_than_its_contents_is_written_anew_at_the_start() {
    let dir = fast_dir();
    let store = open(dir.path());
    let keys: Vec<_> = (0..100).map(|number| pod(&format!("{number}"))).collect();
    for key in &keys {
        store.put(key.clone(), Expect::Absent, vec![b'x'; 1024 * 1024]).await.unwrap();
    }
    for key in &keys[1..] {
        store.delete(key.clone(), Expect::Present).await.unwrap();
    }
    let state = (store.revision(), objects(&store.snapshot()));
    // The file of a store that is open is what a crash leaves. A clean stop would have made it smaller.
    let crashed = fast_dir();
    fs::copy(store_file(dir.path()), store_file(crashed.path())).unwrap();
    let size = || fs::metadata(store_file(crashed.path())).unwrap().len();
    assert!(size() > 64 * 1024 * 1024, "{} bytes are not worth it", size());
    let store = open(crashed.path());
    assert!(size() < 8 * 1024 * 1024, "{} bytes are left", size());
    assert_eq!((store.revision(), objects(&store.snapshot())), state);
}

#[tokio::test]
async fn a_relaxed_store_that_crashed_goes_on_beyond_what_may_have_been_seen() {
    let dir = fast_dir();
    let relaxed = Options::new().relaxed();
    let store = Store::open(dir.path(), &relaxed).unwrap();
    store.put(pod("a"), Expect::Absent, "x").await.unwrap();
    store.close().await.unwrap();
    let store = Store::open(dir.path(), &relaxed).unwrap();
    // The file of a store that is open is what a crash leaves.
    let crashed = fast_dir();
    fs::copy(store_file(dir.path()), store_file(crashed.path())).unwrap();
    let seen = store.put(pod("b"), Expect::Absent, "lost").await.unwrap().revision();
    drop(store);

    for options in [Options::new(), relaxed] {
        let copy = fast_dir();
        fs::copy(store_file(crashed.path()), store_file(copy.path())).unwrap();
        let store = Store::open(copy.path(), &options).unwrap();
        assert!(store.get(&pod("b")).is_none());
        assert_eq!(store.revision(), 1 + 4096);
        let expired = store.watch(windlass_store::Scope::All, seen).unwrap_err();
        assert_eq!(expired.oldest, store.revision(), "who has seen what was lost is told to list again");
        let next = store.put(pod("b"), Expect::Absent, "new").await.unwrap().revision();
        store.close().await.unwrap();
        let store = Store::open(copy.path(), &options).unwrap();
        assert_eq!(store.revision(), next, "a clean stop skips nothing");
    }
}
