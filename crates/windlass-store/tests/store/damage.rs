//! A damaged store is refused as it is, or is a state that the store was in.

use std::fs;

use windlass_store::{Expect, OpenError, Options, Store, Transaction};

use crate::support::{Objects, Random, fast_dir, objects, open, pod, store_file};

/// A file, and the states the store was in when a write was acknowledged, oldest first.
struct Image {
    name: &'static str,
    bytes: Vec<u8>,
    states: Vec<(u64, Objects)>,
}

/// The file as a crash leaves it, and as a clean stop does.
async fn images() -> (Image, Image) {
    let dir = fast_dir();
    let store = open(dir.path());
    let mut states = Vec::new();
    for round in 0_usize..40 {
        let size = [10, 300, 2_600, 9_000][round % 4];
        let transaction = Transaction::new()
            .put(pod(&format!("a{}", round % 13)), Expect::Anything, vec![round as u8; size])
            .put(pod(&format!("b{}", round % 7)), Expect::Anything, vec![round as u8; 50])
            .delete(pod(&format!("a{}", (round + 5) % 13)), Expect::Anything);
        store.commit(transaction).await.unwrap();
        states.push((store.revision(), objects(&store.snapshot())));
    }
    let crashed = fs::read(store_file(dir.path())).unwrap();
    drop(store);
    let stopped = fs::read(store_file(dir.path())).unwrap();
    (
        Image { name: "after a crash", bytes: crashed, states: states.clone() },
        Image { name: "after a clean stop", bytes: stopped, states },
    )
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Refused,
    Newest,
    Older,
}

/// Opens a store whose file is `bytes`.
fn try_open(image: &Image, bytes: &[u8], what: &str) -> Outcome {
    let dir = fast_dir();
    let file = store_file(dir.path());
    fs::write(&file, bytes).unwrap();
    match Store::open(dir.path(), &Options::new()) {
        Ok(store) => {
            let state = (store.revision(), objects(&store.snapshot()));
            let at = image.states.iter().position(|known| *known == state);
            let at = at.unwrap_or_else(|| panic!("{}, {what}: opened as what it never was", image.name));
            if at + 1 == image.states.len() { Outcome::Newest } else { Outcome::Older }
        }
        // The number of the format may be what was hit.
        Err(OpenError::Damaged { file: named, .. } | OpenError::NewerFormat { file: named, .. }) => {
            assert_eq!(named, file);
            assert!(fs::read(&file).unwrap() == bytes, "{}, {what}: refused, but changed", image.name);
            Outcome::Refused
        }
        Err(other) => panic!("{}, {what}: {other}", image.name),
    }
}

/// Flips a bit in each of the bytes that describe the file, and in some of all others.
fn flips(image: &Image, random: &mut Random) -> Vec<(usize, Outcome)> {
    let used: Vec<usize> = (0..image.bytes.len()).filter(|at| image.bytes[*at] != 0).collect();
    let anywhere: Vec<usize> = (0..300).map(|_| used[random.below(used.len())]).collect();
    (0..32)
        .chain(4096..4096 + 320)
        .chain(anywhere)
        .map(|at| {
            let mut bytes = image.bytes.clone();
            bytes[at] ^= 1 << random.below(8);
            (at, try_open(image, &bytes, &format!("byte {at} flipped")))
        })
        .collect()
}

/// How often an outcome was seen.
fn count(outcomes: &[(usize, Outcome)], outcome: Outcome) -> usize {
    outcomes.iter().filter(|(_, seen)| *seen == outcome).count()
}

#[tokio::test]
async fn a_flipped_bit_after_a_clean_stop_is_refused_or_changes_nothing() {
    let (_, stopped) = images().await;
    let outcomes = flips(&stopped, &mut Random(1));
    assert!(count(&outcomes, Outcome::Refused) > 100, "the test does not reach what matters");
    // The byte with which redb says which of its last two commits is the last cannot be checked.
    let older: Vec<_> =
        outcomes.iter().filter(|(at, outcome)| *outcome == Outcome::Older && *at != 4096 + 9).collect();
    assert!(older.is_empty(), "opened as an older state: {older:?}");
}

#[tokio::test]
async fn a_flipped_bit_after_a_crash_is_refused_or_goes_back_to_what_was_acknowledged() {
    let (crashed, _) = images().await;
    let outcomes = flips(&crashed, &mut Random(2));
    assert!(count(&outcomes, Outcome::Refused) > 50, "the test does not reach what matters");
    assert!(count(&outcomes, Outcome::Newest) > 50, "the test damages what matters only");
}

#[tokio::test]
async fn a_truncated_file_is_refused() {
    let (crashed, stopped) = images().await;
    for image in [crashed, stopped] {
        let step = image.bytes.len() / 200;
        for len in
            (0..image.bytes.len()).step_by(step).chain([1, 4095, 4096, 4097, 4105, image.bytes.len() - 1])
        {
            let outcome = try_open(&image, &image.bytes[..len], &format!("cut to {len} bytes"));
            assert_eq!(outcome, Outcome::Refused, "{}, cut to {len} bytes", image.name);
        }
    }
}

#[tokio::test]
async fn an_undamaged_file_is_opened() {
    let (crashed, stopped) = images().await;
    for image in [crashed, stopped] {
        assert_eq!(try_open(&image, &image.bytes, "untouched"), Outcome::Newest, "{}", image.name);
    }
}
