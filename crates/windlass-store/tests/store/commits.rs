//! Writes: expectations, order, and many writers at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_store::{
    CommitError, Durability, EventKind, Expect, History, Key, MAX_OPERATIONS, Options, Scope, Store,
    Transaction, Value,
};

use crate::support::{objects, open, pod, pods, resource};

/// Runs `test` on a store of each kind.
async fn on_every_kind<F: Future<Output = ()>>(test: impl Fn(Store) -> F) {
    test(Store::in_memory(History::default())).await;
    for options in [Options::new(), Options::new().relaxed()] {
        let dir = tempfile::tempdir().unwrap();
        test(Store::open(dir.path(), &options).unwrap()).await;
    }
}

#[tokio::test]
async fn every_change_takes_the_next_revision_and_nothing_else_does() {
    on_every_kind(|store| async move {
        let (a, b) = (pod("a"), pod("b"));
        assert_eq!(store.revision(), 0);
        assert_eq!(store.put(a.clone(), Expect::Absent, "1").await.unwrap().revision(), 1);
        assert_eq!(store.put(b.clone(), Expect::Anything, "1").await.unwrap().revision(), 2);
        assert!(store.put(a.clone(), Expect::Absent, "2").await.is_err());
        assert!(store.delete(a.clone(), Expect::Revision(2)).await.is_err());
        assert!(store.delete(pod("c"), Expect::Anything).await.unwrap().is_none());
        let checks = Transaction::new().check(a.clone(), Expect::Present).check(pod("c"), Expect::Absent);
        assert_eq!(store.commit(checks).await.unwrap().revision, 2);
        assert_eq!(store.put(a.clone(), Expect::Revision(1), "2").await.unwrap().revision(), 3);
        assert_eq!(store.delete(a.clone(), Expect::Revision(3)).await.unwrap().unwrap().revision(), 4);
        assert_eq!(store.put(a, Expect::Absent, "3").await.unwrap().revision(), 5);
        assert_eq!(store.revision(), 5);
        let stats = store.stats();
        assert_eq!((stats.revision, stats.changes, stats.refused, stats.objects), (5, 5, 2, 2));
    })
    .await;
}

#[tokio::test]
async fn a_conflict_says_what_was_expected_and_what_is_there() {
    on_every_kind(|store| async move {
        store.put(pod("a"), Expect::Absent, "there").await.unwrap();
        let Err(CommitError::Conflict(conflict)) = store.put(pod("a"), Expect::Revision(7), "new").await
        else {
            panic!("it was written");
        };
        assert_eq!(conflict.to_string(), "core/pods default/a: expected revision 7, found revision 1");
        assert_eq!(conflict.found.unwrap().value(), "there");
    })
    .await;
}

#[tokio::test]
async fn a_transaction_that_cannot_be_meant_is_refused() {
    on_every_kind(|store| async move {
        let twice = Transaction::new().put(pod("b"), Expect::Absent, "1").delete(pod("b"), Expect::Anything);
        let refused = store.commit(twice).await.unwrap_err();
        assert_eq!(refused.to_string(), "core/pods default/b is twice in one transaction");

        let many = |count: usize| {
            (0..count).fold(Transaction::new(), |transaction, number| {
                transaction.put(pod(&number.to_string()), Expect::Anything, "x")
            })
        };
        for count in [MAX_OPERATIONS + 1, 5 * MAX_OPERATIONS] {
            let refused = store.commit(many(count)).await.unwrap_err();
            assert!(matches!(refused, CommitError::TooManyOperations { limit: MAX_OPERATIONS, .. }));
        }
        assert_eq!(store.revision(), 0);
        assert_eq!(store.commit(many(MAX_OPERATIONS)).await.unwrap().revision, MAX_OPERATIONS as u64);
    })
    .await;
}

#[tokio::test]
async fn a_stamped_value_is_stored_with_its_revision() {
    on_every_kind(|store| async move {
        store.put(pod("a"), Expect::Absent, "x").await.unwrap();
        let written = store.put(pod("b"), Expect::Absent, Value::stamped("rv=", ";")).await.unwrap();
        assert_eq!(written.value(), "rv=2;");
        assert_eq!(store.get(&pod("b")).unwrap().value(), "rv=2;");
    })
    .await;
}

#[tokio::test]
async fn a_transaction_is_visible_as_a_whole() {
    on_every_kind(|store| async move {
        // A reader on another thread looks as fast as it can while pairs are written.
        let reader = {
            let store = store.clone();
            std::thread::spawn(move || {
                let mut seen = 0;
                while seen < 200 {
                    let snapshot = store.snapshot();
                    let value = |name: &str| snapshot.get(&pod(name)).map(|object| object.value().clone());
                    assert_eq!(value("left"), value("right"), "at revision {}", snapshot.revision());
                    seen = snapshot.revision();
                }
            })
        };
        for round in 0..100 {
            let value = round.to_string();
            let pair = Transaction::new().put(pod("left"), Expect::Anything, value.clone()).put(
                pod("right"),
                Expect::Anything,
                value,
            );
            store.commit(pair).await.unwrap();
        }
        reader.join().unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_writers_that_expect_the_same_revision_one_wins() {
    on_every_kind(|store| async move {
        store.put(pod("counter"), Expect::Absent, "0").await.unwrap();
        let writers = 16_u64;
        let rounds = 20_u64;
        let tasks: Vec<_> = (0..writers)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut done = 0;
                    while done < rounds {
                        let current = store.get(&pod("counter")).unwrap();
                        let count: u64 = std::str::from_utf8(current.value()).unwrap().parse().unwrap();
                        let next = (count + 1).to_string();
                        match store.put(pod("counter"), Expect::Revision(current.revision()), next).await {
                            Ok(_) => done += 1,
                            Err(CommitError::Conflict(conflict)) => {
                                assert!(conflict.found.unwrap().revision() > current.revision());
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(store.get(&pod("counter")).unwrap().value(), &(writers * rounds).to_string());
        assert_eq!(store.revision(), 1 + writers * rounds);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_acknowledged_write_of_many_writers_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let tasks: Vec<_> = (0..32)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut acknowledged = BTreeMap::new();
                for round in 0..20 {
                    let key = pod(&format!("{writer}-{}", round % 5));
                    let value = format!("{writer} {round}");
                    let written = store.put(key.clone(), Expect::Anything, value.clone()).await.unwrap();
                    acknowledged.insert(key.to_string(), (written.revision(), value.into_bytes()));
                }
                acknowledged
            })
        })
        .collect();
    let mut acknowledged = BTreeMap::new();
    for task in tasks {
        acknowledged.extend(task.await.unwrap());
    }
    let stats = store.stats();
    assert_eq!((stats.revision, stats.changes), (640, 640));
    assert!(stats.batches < 640, "no two writes shared a commit");
    assert!(stats.largest_batch > 1 && stats.largest_batch <= 32);
    assert_eq!(objects(&store.snapshot()), acknowledged);
    drop(store);
    let store = open(dir.path());
    assert_eq!((store.revision(), objects(&store.snapshot())), (640, acknowledged));
}

#[tokio::test]
async fn revisions_go_on_after_a_restart_and_deletions_stay() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.put(pod("a"), Expect::Absent, "1").await.unwrap();
    store.put(pod("b"), Expect::Absent, "1").await.unwrap();
    store.delete(pod("b"), Expect::Revision(2)).await.unwrap();
    store.close().await.unwrap();

    let store = open(dir.path());
    assert_eq!(store.revision(), 3, "a deletion was the last change");
    assert!(store.get(&pod("b")).is_none());
    assert_eq!(store.put(pod("a"), Expect::Revision(1), "2").await.unwrap().revision(), 4);
}

#[tokio::test]
async fn lists_are_in_order_by_scope_and_by_page() {
    let store = Store::in_memory(History::default());
    let nodes = resource("core/nodes");
    for (namespace, name) in [("b", "x"), ("a", "z"), ("a", "y"), ("a-b", "w"), ("", "v")] {
        let key = Key::new(&pods(), namespace, name).unwrap();
        store.put(key, Expect::Absent, "").await.unwrap();
    }
    store.put(Key::new(&nodes, "", "n").unwrap(), Expect::Absent, "").await.unwrap();
    let snapshot = store.snapshot();
    let names = |scope: &Scope, after: Option<(&str, &str)>| -> String {
        let name = |object: &Arc<windlass_store::Object>| object.key().name().to_owned();
        match after {
            None => snapshot.list(scope).map(name).collect(),
            Some((namespace, after)) => {
                let after = Key::new(&pods(), namespace, after).unwrap();
                snapshot.list_after(scope, &after).map(name).collect()
            }
        }
    };
    let all_pods = Scope::from(&pods());
    let in_a = Scope::namespace(&pods(), "a");
    let cases = [
        (&Scope::All, None, "nvyzwx"),
        (&Scope::All, Some(("a", "y")), "zwx"),
        (&all_pods, None, "vyzwx"),
        (&all_pods, Some(("a", "z")), "wx"),
        (&all_pods, Some(("a", "yy")), "zwx"),
        (&all_pods, Some(("z", "z")), ""),
        (&in_a, None, "yz"),
        (&in_a, Some(("a", "y")), "z"),
        (&in_a, Some(("a", "z")), ""),
        (&in_a, Some(("", "z")), "yz"),
        (&in_a, Some(("b", "a")), ""),
        (&Scope::from(&nodes), None, "n"),
        (&Scope::from(&nodes), Some(("a", "a")), ""),
        (&Scope::from(&resource("core/none")), None, ""),
    ];
    for (scope, after, expected) in cases {
        assert_eq!(names(scope, after), expected, "{scope:?} after {after:?}");
    }
    let counts = (snapshot.len(), snapshot.count(&pods()), snapshot.count(&nodes));
    assert_eq!(counts, (6, 5, 1));
    assert_eq!(
        snapshot.resources().map(|resource| resource.as_str()).collect::<Vec<_>>(),
        ["core/nodes", "core/pods"]
    );
}

#[tokio::test]
async fn a_snapshot_does_not_change() {
    on_every_kind(|store| async move {
        store.put(pod("a"), Expect::Absent, "1").await.unwrap();
        let snapshot = store.snapshot();
        store.put(pod("a"), Expect::Anything, "2").await.unwrap();
        store.put(pod("b"), Expect::Absent, "2").await.unwrap();
        assert_eq!((snapshot.revision(), snapshot.len()), (1, 1));
        assert_eq!(snapshot.get(&pod("a")).unwrap().value(), "1");
    })
    .await;
}

#[tokio::test]
async fn a_closed_store_refuses_writes_ends_watches_and_can_still_be_read() {
    on_every_kind(|store| async move {
        let mut watcher = store.watch(Scope::All, 0).unwrap();
        store.put(pod("a"), Expect::Absent, "1").await.unwrap();
        store.close().await.unwrap();
        store.close().await.unwrap();
        assert!(matches!(store.put(pod("b"), Expect::Absent, "1").await, Err(CommitError::Closed)));
        assert_eq!(store.get(&pod("a")).unwrap().value(), "1");
        assert_eq!(watcher.next().await.unwrap().kind(), EventKind::Created);
        assert_eq!(watcher.next().await.unwrap_err().to_string(), "the store is closed");
        let mut late = store.watch(Scope::from(&resource("core/never")), 1).unwrap();
        assert_eq!(late.next().await.unwrap_err().to_string(), "the store is closed");
        assert!(!store.reached(2).await);
    })
    .await;
}

#[tokio::test]
async fn a_store_says_how_durable_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::in_memory(History::default());
    assert_eq!((store.durability(), store.dir()), (Durability::InMemory, None));
    let store = Store::open(dir.path().join("synced"), &Options::new()).unwrap();
    assert_eq!((store.durability(), store.dir()), (Durability::Synced, Some(&*dir.path().join("synced"))));
    let store = Store::open(dir.path().join("relaxed"), &Options::new().relaxed()).unwrap();
    assert_eq!(store.durability(), Durability::Relaxed);
}

#[tokio::test]
async fn a_relaxed_store_that_was_closed_or_dropped_has_lost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = BTreeMap::new();
    for round in 1..=4_u64 {
        let store = Store::open(dir.path(), &Options::new().relaxed()).unwrap();
        assert_eq!((store.revision(), objects(&store.snapshot())), ((round - 1) * 500, expected));
        for number in 0..500 {
            store.put(pod(&format!("{}", number % 50)), Expect::Anything, vec![0; 2600]).await.unwrap();
        }
        expected = objects(&store.snapshot());
        if round % 2 == 0 {
            store.close().await.unwrap();
        }
    }
    let store = open(dir.path());
    assert_eq!((store.revision(), objects(&store.snapshot())), (2000, expected));
}
