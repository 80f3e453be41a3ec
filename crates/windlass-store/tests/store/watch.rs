//! Watches: waiting, waking, sharing, and keeping up under load.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use windlass_store::{EventKind, Expect, Expired, History, Key, Options, Scope, Store, WatchError};

use crate::support::{Objects, fast_dir, objects, pod, pods, resource};

/// A watcher that lists again whenever it is told to, as clients do.
async fn follow(store: Store, scope: Scope, until: u64, lazy: bool) -> (Objects, usize) {
    let mut state = Objects::new();
    let mut relists = 0;
    loop {
        let snapshot = store.snapshot();
        state.clear();
        for object in snapshot.list(&scope) {
            state.insert(object.key().to_string(), (object.revision(), object.value().to_vec()));
        }
        let Ok(mut watcher) = store.watch(scope.clone(), snapshot.revision()) else {
            relists += 1;
            continue;
        };
        let mut last = snapshot.revision();
        loop {
            if last >= until {
                return (state, relists);
            }
            match watcher.next().await {
                Ok(event) => {
                    assert!(event.revision() > last, "in order and once");
                    assert!(scope != Scope::All || event.revision() == last + 1, "without a gap");
                    last = event.revision();
                    match event.kind() {
                        EventKind::Deleted => drop(state.remove(&event.key().to_string())),
                        _ => {
                            let value = (event.revision(), event.object().value().to_vec());
                            state.insert(event.key().to_string(), value);
                        }
                    }
                    if lazy {
                        tokio::task::yield_now().await;
                    }
                }
                Err(WatchError::Expired(_)) => {
                    relists += 1;
                    break;
                }
                Err(WatchError::Closed) => panic!("nobody closed the store"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watchers_of_a_store_under_load_end_up_with_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let history = History { events_per_resource: 30, bytes: usize::MAX };
    let stores =
        [Store::in_memory(history), Store::open(dir.path(), &Options::new().history(history)).unwrap()];
    for (store, rounds) in stores.into_iter().zip([2000, 200]) {
        let writers = 8;
        // Every write is a change, because each writer writes its own objects.
        let until = writers * rounds;
        let followers: Vec<_> = [(Scope::All, false), (Scope::All, true), (Scope::from(&pods()), false)]
            .into_iter()
            .map(|(scope, lazy)| tokio::spawn(follow(store.clone(), scope, until, lazy)))
            .collect();
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    for round in 0..rounds {
                        let key = pod(&format!("{writer}-{}", round % 7));
                        if round % 5 == 4 && store.get(&key).is_some() {
                            store.delete(key, Expect::Present).await.unwrap();
                        } else {
                            store.put(key, Expect::Anything, round.to_string()).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(store.revision(), until);
        for follower in followers {
            let followed = tokio::time::timeout(Duration::from_secs(60), follower).await;
            let (state, _) = followed.expect("a watcher was not woken").unwrap();
            assert_eq!(state, objects(&store.snapshot()));
        }
    }
}

/// Counts how often a future asked to be polled again.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_watcher_of_a_quiet_resource_is_not_woken_by_a_busy_one_but_knows_how_far_it_is() {
    let store = Store::in_memory(History::default());
    let secrets = resource("core/secrets");
    let mut watcher = store.watch(Scope::from(&secrets), 0).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    {
        let mut next = pin!(watcher.next());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        for _ in 0..100 {
            store.put(pod("busy"), Expect::Anything, "x").await.unwrap();
        }
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "woken for somebody else's event");
    }
    assert!(watcher.try_next().unwrap().is_none());
    assert_eq!(watcher.position(), 100, "what a bookmark says");

    let mut next = pin!(watcher.next());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    store.put(Key::new(&secrets, "a", "s").unwrap(), Expect::Absent, "x").await.unwrap();
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    let Poll::Ready(Ok(event)) = next.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("it was woken for nothing");
    };
    assert_eq!(event.revision(), 101);
}

#[tokio::test]
async fn a_watch_of_the_future_waits_for_it_and_skips_what_comes_before() {
    let store = Store::in_memory(History::default());
    let mut watcher = store.watch(Scope::from(&pods()), 3).unwrap();
    for _ in 0..3 {
        store.put(pod("a"), Expect::Anything, "early").await.unwrap();
        assert!(watcher.try_next().unwrap().is_none());
        assert_eq!(watcher.position(), 3);
    }
    store.put(pod("a"), Expect::Anything, "on time").await.unwrap();
    assert_eq!(watcher.next().await.unwrap().object().value(), "on time");
}

#[tokio::test]
async fn a_dropped_wait_loses_no_event() {
    let store = Store::in_memory(History::default());
    let mut watcher = store.watch(Scope::All, 0).unwrap();
    for round in 1..=50 {
        let waiting = async {
            tokio::select! {
                biased;
                _ = watcher.next() => panic!("there is nothing yet"),
                () = std::future::ready(()) => {}
            }
        };
        waiting.await;
        store.put(pod("a"), Expect::Anything, "x").await.unwrap();
        assert_eq!(watcher.next().await.unwrap().revision(), round);
    }
}

#[tokio::test]
async fn all_watchers_share_one_event_and_one_frame() {
    let store = Store::in_memory(History::default());
    let mut watchers: Vec<_> = (0..20).map(|_| store.watch(Scope::from(&pods()), 0).unwrap()).collect();
    store.put(pod("a"), Expect::Absent, "x").await.unwrap();
    let mut encoded = 0;
    let mut events = Vec::new();
    for watcher in &mut watchers {
        let event = watcher.next().await.unwrap();
        event.frame(0, |event| {
            encoded += 1;
            event.object().value().clone()
        });
        events.push(event);
    }
    assert_eq!(encoded, 1);
    assert!(events.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1])));
}

#[tokio::test]
async fn a_reader_far_behind_is_told_and_costs_the_writers_nothing() {
    let store = Store::in_memory(History { events_per_resource: 4, bytes: usize::MAX });
    let mut slow = store.watch(Scope::All, 0).unwrap();
    for _ in 0..1000 {
        store.put(pod("a"), Expect::Anything, "x").await.unwrap();
    }
    let expired = Expired { requested: 0, oldest: 996, current: 1000 };
    assert_eq!(slow.next().await.unwrap_err(), WatchError::Expired(expired));
    assert_eq!(store.stats().events, 4);
    assert_eq!(
        expired.to_string(),
        "revision 0 is too old: history starts after revision 996, current is 1000"
    );
}

#[tokio::test]
async fn history_starts_empty_after_a_restart() {
    let dir = fast_dir();
    let store = Store::open(dir.path(), &Options::new()).unwrap();
    for _ in 0..5 {
        store.put(pod("a"), Expect::Anything, "x").await.unwrap();
    }
    drop(store);
    let store = Store::open(dir.path(), &Options::new()).unwrap();
    let expired = store.watch(Scope::All, 4).unwrap_err();
    assert_eq!(expired, Expired { requested: 4, oldest: 5, current: 5 });
    let mut at_the_tip = store.watch(Scope::All, 5).unwrap();
    store.put(pod("a"), Expect::Anything, "y").await.unwrap();
    assert_eq!(at_the_tip.next().await.unwrap().revision(), 6);
}

#[tokio::test]
async fn a_store_that_reaches_a_revision_says_so() {
    let store = Store::in_memory(History::default());
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { (store.reached(3).await, store.revision()) }
    });
    for _ in 0..3 {
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        store.put(pod("a"), Expect::Anything, "x").await.unwrap();
    }
    assert_eq!(waiting.await.unwrap(), (true, 3));
}

/// Two tasks that write, wait and watch, in virtual time; returns what they did in which order.
async fn simulate() -> Vec<String> {
    let store = Store::in_memory(History::default());
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let started = tokio::time::Instant::now();
    let writers = (1..=3).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..20_u64 {
                tokio::time::sleep(Duration::from_secs(writer * 60 + round)).await;
                store.put(pod(&format!("{writer}")), Expect::Anything, round.to_string()).await.unwrap();
            }
        })
    });
    let watcher = tokio::spawn({
        let mut watcher = store.watch(Scope::All, 0).unwrap();
        let log = Arc::clone(&log);
        async move {
            for _ in 0..60 {
                let event = watcher.next().await.unwrap();
                log.lock().unwrap().push(format!("{:?} {event:?}", started.elapsed()));
            }
        }
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    watcher.await.unwrap();
    let log = log.lock().unwrap();
    log.clone()
}

#[tokio::test(start_paused = true)]
async fn a_store_in_memory_is_deterministic_under_a_paused_clock() {
    let first = simulate().await;
    assert_eq!(first.len(), 60);
    for _ in 0..5 {
        assert_eq!(simulate().await, first);
    }
}
