//! The writer on a disk whose every commit the test decides about.

use std::io;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::task::{Context, Waker};

use super::*;
use crate::backend::BackendError;
use crate::key::{Key, Resource, Scope};
use crate::log::History;
use crate::state::State;
use crate::transaction::Expect;
use crate::watch::Watcher;

/// Reports each batch when its commit begins, and ends the commit as it is told to.
struct Disk {
    begun: mpsc::Sender<Begun>,
    verdicts: mpsc::Receiver<Verdict>,
    revision: u64,
    has_room: Arc<AtomicBool>,
    /// What is there cannot be told until it is written anew.
    is_unknown: bool,
    rewritten: mpsc::Sender<(u64, u64, usize)>,
}

enum Verdict {
    Done,
    NoSpace,
    /// As if the disk were full, but it was written.
    Doubtful,
    /// The sync failed.
    Unknown,
    /// What was acknowledged is not there any more.
    Back,
    Panic,
}

#[derive(Debug, PartialEq)]
struct Begun {
    revision: u64,
    lag: u64,
    keys: Vec<String>,
}

impl Backend for Disk {
    fn recover(&mut self) -> Result<u64, BackendError> {
        match self.has_room.load(Ordering::Acquire) {
            true if self.is_unknown => Err(BackendError::Damaged("a sync failed".to_owned())),
            true => Ok(self.revision),
            false => Err(no_space()),
        }
    }

    fn rewrite(&mut self, state: &State, lag: u64) -> Result<(), BackendError> {
        (self.revision, self.is_unknown) = (state.revision, false);
        let _ = self.rewritten.send((state.revision, lag, state.len()));
        Ok(())
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), BackendError> {
        let keys = batch.objects.keys().map(|key| key.name().to_owned()).collect();
        let begun = Begun { revision: batch.revision, lag: batch.lag, keys };
        self.begun.send(begun).map_err(io::Error::other)?;
        match self.verdicts.recv() {
            // A test that has ended lets everything through.
            Ok(Verdict::Done) | Err(_) => {
                self.revision = batch.revision;
                Ok(())
            }
            Ok(Verdict::NoSpace) => Err(no_space()),
            Ok(Verdict::Doubtful) => {
                self.revision = batch.revision;
                Err(no_space())
            }
            Ok(Verdict::Unknown) => {
                self.is_unknown = true;
                Err(no_space())
            }
            Ok(Verdict::Back) => {
                self.revision = 1;
                Err(no_space())
            }
            Ok(Verdict::Panic) => panic!("a bug in the engine"),
        }
    }
}

fn no_space() -> BackendError {
    io::Error::other("no space left").into()
}

struct Hands {
    begun: mpsc::Receiver<Begun>,
    verdicts: mpsc::Sender<Verdict>,
    has_room: Arc<AtomicBool>,
    rewritten: mpsc::Receiver<(u64, u64, usize)>,
}

impl Hands {
    fn begun(&self) -> (u64, Vec<String>) {
        let begun = self.begun.recv().unwrap();
        (begun.revision, begun.keys)
    }

    fn end(&self) {
        self.verdicts.send(Verdict::Done).unwrap();
    }

    fn fail(&self) {
        self.verdicts.send(Verdict::NoSpace).unwrap();
    }

    fn make_room(&self) {
        self.has_room.store(true, Ordering::Release);
    }

    fn panic(&self) {
        self.verdicts.send(Verdict::Panic).unwrap();
    }
}

fn disk() -> (Disk, Hands) {
    let (begun, seen) = mpsc::channel();
    let (say, verdicts) = mpsc::channel();
    let has_room = Arc::new(AtomicBool::new(false));
    let (tell, rewritten) = mpsc::channel();
    let (room, is_unknown) = (Arc::clone(&has_room), false);
    let disk = Disk { begun, verdicts, revision: 0, has_room: room, is_unknown, rewritten: tell };
    (disk, Hands { begun: seen, verdicts: say, has_room, rewritten })
}

fn published() -> Arc<Published> {
    Arc::new(Published::new(State::new(0), History::default()))
}

fn synced() -> (Writer, Arc<Published>, Hands) {
    let (disk, hands) = disk();
    let published = published();
    (Writer::synced(Arc::clone(&published), disk).unwrap(), published, hands)
}

fn relaxed() -> (Writer, Arc<Published>, Hands) {
    let (disk, hands) = disk();
    let published = published();
    (Writer::relaxed(Arc::clone(&published), disk).unwrap(), published, hands)
}

fn key(name: &str) -> Key {
    Key::new(&Resource::new("core/pods").unwrap(), "default", name).unwrap()
}

fn put(name: &str, expect: Expect) -> Transaction {
    Transaction::new().put(key(name), expect, "value")
}

/// Polls a future once, which is all it takes to put a transaction into the queue.
macro_rules! begin {
    ($future:expr) => {{
        let mut future = Box::pin($future);
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        future
    }};
}

#[tokio::test]
async fn what_comes_in_while_the_disk_is_busy_is_one_batch() {
    let (writer, published, hands) = synced();
    let first = begin!(writer.commit(put("first", Expect::Absent)));
    assert_eq!(hands.begun(), (1, vec!["first".to_owned()]));
    let others: Vec<_> =
        ["a", "b", "c"].iter().map(|name| begin!(writer.commit(put(name, Expect::Absent)))).collect();
    hands.end();
    assert_eq!(first.await.unwrap().revision, 1);
    assert_eq!(hands.begun(), (4, ["a", "b", "c"].map(str::to_owned).to_vec()));
    hands.end();
    for (other, revision) in others.into_iter().zip(2..) {
        assert_eq!(other.await.unwrap().revision, revision);
    }
    let stats = crate::stats::Stats::of(&published);
    assert_eq!((stats.batches, stats.largest_batch, stats.transactions), (2, 3, 4));
}

#[tokio::test]
async fn nobody_sees_or_hears_of_a_write_before_it_is_on_the_disk() {
    let (writer, published, hands) = synced();
    let mut watcher = Watcher::new(Arc::clone(&published), Scope::All, 0).unwrap();
    let mut write = begin!(writer.commit(put("a", Expect::Absent)));
    hands.begun();
    assert!(published.state().get(&key("a")).is_none());
    assert_eq!((published.state().revision, published.log().revision()), (0, 0));
    assert!(watcher.try_next().unwrap().is_none());
    assert!(
        write.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(),
        "acknowledged too early"
    );
    hands.end();
    write.await.unwrap();
    assert!(published.state().get(&key("a")).is_some());
    assert_eq!(watcher.next().await.unwrap().revision(), 1);
}

#[tokio::test]
async fn a_conflict_with_a_write_of_the_same_batch_is_answered_after_it() {
    let (writer, _published, hands) = synced();
    let busy = begin!(writer.commit(put("busy", Expect::Absent)));
    hands.begun();
    let winner = begin!(writer.commit(put("a", Expect::Absent)));
    let mut loser = begin!(writer.commit(put("a", Expect::Absent)));
    hands.end();
    busy.await.unwrap();
    assert_eq!(hands.begun(), (2, vec!["a".to_owned()]));
    assert!(loser.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    hands.end();
    assert_eq!(winner.await.unwrap().revision, 2);
    let lost = loser.await.unwrap_err();
    assert_eq!(lost.to_string(), "core/pods default/a: expected nothing, found revision 2");
}

#[tokio::test]
async fn a_batch_that_changes_nothing_does_not_go_to_the_disk() {
    let (writer, published, _hands) = synced();
    let refused = writer.commit(put("a", Expect::Present)).await;
    assert!(matches!(refused, Err(CommitError::Conflict(_))));
    writer.commit(Transaction::new().check(key("a"), Expect::Absent)).await.unwrap();
    assert_eq!(crate::stats::Stats::of(&published).batches, 0);
}

#[tokio::test]
async fn after_a_failure_of_the_disk_nothing_is_written_and_everything_can_be_read() {
    let (writer, published, hands) = synced();
    let first = begin!(writer.commit(put("first", Expect::Absent)));
    hands.begun();
    hands.end();
    first.await.unwrap();
    let failed = begin!(writer.commit(put("a", Expect::Absent)));
    hands.begun();
    let behind = begin!(writer.commit(put("b", Expect::Absent)));
    hands.fail();
    for refused in [failed.await, behind.await, writer.commit(put("first", Expect::Absent)).await] {
        assert_eq!(refused.unwrap_err().to_string(), "the store cannot write: no space left");
    }
    assert_eq!((published.state().revision, published.state().len()), (1, 1));
    assert!(matches!(writer.close().await, Err(CommitError::Failed { .. })));
}

/// Waits for what the thread of the writer does by itself.
fn until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn when_there_is_room_again_it_is_written_again() {
    let (writer, published, hands) = synced();
    let failed = begin!(writer.commit(put("a", Expect::Absent)));
    hands.begun();
    hands.fail();
    assert_eq!(failed.await.unwrap_err().to_string(), "the store cannot write: no space left");
    assert_eq!(published.failure().as_deref(), Some("no space left"));
    hands.make_room();
    until(|| published.failure().is_none());
    assert_eq!(published.state().len(), 0, "what failed was not written");
    let again = begin!(writer.commit(put("a", Expect::Absent)));
    assert_eq!(hands.begun(), (1, vec!["a".to_owned()]));
    hands.end();
    assert_eq!(again.await.unwrap().revision, 1);
    writer.close().await.unwrap();
}

#[tokio::test]
async fn what_was_written_although_it_failed_is_published_once_that_is_known() {
    let (writer, published, hands) = synced();
    let mut watcher = Watcher::new(Arc::clone(&published), Scope::All, 0).unwrap();
    let failed = begin!(writer.commit(put("a", Expect::Absent)));
    hands.begun();
    hands.verdicts.send(Verdict::Doubtful).unwrap();
    assert!(matches!(failed.await, Err(CommitError::Failed { .. })));
    assert!(published.state().get(&key("a")).is_none());
    hands.make_room();
    until(|| published.failure().is_none());
    assert!(published.state().get(&key("a")).is_some());
    assert_eq!(watcher.next().await.unwrap().revision(), 1);
    let next = begin!(writer.commit(put("b", Expect::Absent)));
    assert_eq!(hands.begun(), (2, vec!["b".to_owned()]));
    hands.end();
    assert_eq!(next.await.unwrap().revision, 2);
}

#[tokio::test]
async fn after_a_failed_sync_what_was_acknowledged_is_written_anew_and_nothing_else() {
    let (writer, published, hands) = synced();
    let first = begin!(writer.commit(put("first", Expect::Absent)));
    hands.begun();
    hands.end();
    first.await.unwrap();
    let failed = begin!(writer.commit(put("a", Expect::Absent)));
    hands.begun();
    hands.verdicts.send(Verdict::Unknown).unwrap();
    assert!(matches!(failed.await, Err(CommitError::Failed { .. })));
    hands.make_room();
    assert_eq!(hands.rewritten.recv().unwrap(), (1, 0, 1), "without what failed");
    until(|| published.failure().is_none());
    let again = begin!(writer.commit(put("a", Expect::Absent)));
    assert_eq!(hands.begun(), (2, vec!["a".to_owned()]));
    hands.end();
    assert_eq!(again.await.unwrap().revision, 2);
    writer.close().await.unwrap();
}

#[tokio::test]
async fn a_disk_that_went_back_is_written_anew() {
    let (writer, published, hands) = synced();
    for name in ["a", "b"] {
        let written = begin!(writer.commit(put(name, Expect::Absent)));
        hands.begun();
        hands.end();
        written.await.unwrap();
    }
    // What was the third is said to be the first: none that was acknowledged, and none in doubt.
    let failed = begin!(writer.commit(put("c", Expect::Absent)));
    hands.begun();
    hands.verdicts.send(Verdict::Back).unwrap();
    assert!(failed.await.is_err());
    hands.make_room();
    assert_eq!(hands.rewritten.recv().unwrap(), (2, 0, 2));
    until(|| published.failure().is_none());
    writer.close().await.unwrap();
}

#[tokio::test]
async fn a_relaxed_writer_writes_nothing_over_what_was_written_anew() {
    let (writer, published, hands) = relaxed();
    writer.commit(put("a", Expect::Anything)).await.unwrap();
    assert_eq!(hands.begun().0, 1);
    // These wait behind the one that fails.
    writer.commit(put("b", Expect::Anything)).await.unwrap();
    writer.commit(put("c", Expect::Anything)).await.unwrap();
    hands.verdicts.send(Verdict::Unknown).unwrap();
    until(|| published.failure().is_some());
    hands.make_room();
    assert_eq!(hands.rewritten.recv().unwrap(), (3, u64::from(RELAXED_LAG), 3));
    until(|| published.failure().is_none());
    writer.commit(put("d", Expect::Anything)).await.unwrap();
    assert_eq!(hands.begun(), (4, vec!["d".to_owned()]), "those before it are there");
    hands.end();
    hands.end();
    writer.close().await.unwrap();
}

#[tokio::test]
async fn a_relaxed_writer_keeps_what_it_acknowledged_until_there_is_room() {
    let (writer, published, hands) = relaxed();
    writer.commit(put("a", Expect::Absent)).await.unwrap();
    hands.begun();
    hands.fail();
    until(|| published.failure().is_some());
    let refused = writer.commit(put("b", Expect::Absent)).await;
    assert!(matches!(refused, Err(CommitError::Failed { .. })), "no more is acknowledged meanwhile");
    hands.make_room();
    assert_eq!(hands.begun(), (1, vec!["a".to_owned()]));
    hands.end();
    until(|| published.failure().is_none());
    writer.commit(put("b", Expect::Absent)).await.unwrap();
    hands.end();
    hands.end();
    writer.close().await.unwrap();
}

#[tokio::test]
async fn a_dropped_future_does_not_take_its_transaction_back() {
    let (writer, published, hands) = synced();
    drop(begin!(writer.commit(put("a", Expect::Absent))));
    hands.begun();
    hands.end();
    writer.close().await.unwrap();
    assert!(published.state().get(&key("a")).is_some());
}

#[tokio::test]
async fn closing_answers_what_was_asked_and_refuses_what_comes_later() {
    let (writer, _published, hands) = synced();
    let asked = begin!(writer.commit(put("a", Expect::Absent)));
    hands.begun();
    let queued = begin!(writer.commit(put("b", Expect::Absent)));
    let closing = begin!(writer.close());
    assert!(matches!(writer.commit(put("c", Expect::Absent)).await, Err(CommitError::Closed)));
    hands.end();
    hands.end();
    closing.await.unwrap();
    assert_eq!((asked.await.unwrap().revision, queued.await.unwrap().revision), (1, 2));
}

#[tokio::test]
async fn a_relaxed_writer_does_not_wait_for_the_disk() {
    let (writer, published, hands) = relaxed();
    assert_eq!(writer.commit(put("a", Expect::Absent)).await.unwrap().revision, 1);
    assert_eq!(hands.begun.recv().unwrap(), Begun { revision: 1, lag: 4096, keys: vec!["a".to_owned()] });
    assert_eq!(writer.commit(put("b", Expect::Absent)).await.unwrap().revision, 2);
    assert_eq!(writer.commit(put("c", Expect::Absent)).await.unwrap().revision, 3);
    assert_eq!(crate::stats::Stats::of(&published).unsynced, 3);
    hands.end();
    assert_eq!(hands.begun(), (3, vec!["b".to_owned(), "c".to_owned()]));
    hands.end();
    let closing = begin!(writer.close());
    // With no lag left, the next start skips nothing.
    assert_eq!(hands.begun.recv().unwrap(), Begun { revision: 3, lag: 0, keys: vec![] });
    hands.end();
    closing.await.unwrap();
    assert_eq!(crate::stats::Stats::of(&published).unsynced, 0);
}

#[tokio::test]
async fn a_relaxed_writer_gets_no_further_ahead_of_the_disk_than_it_says() {
    let (writer, published, hands) = relaxed();
    for _ in 0..RELAXED_LAG {
        writer.commit(put("a", Expect::Anything)).await.unwrap();
    }
    hands.begun();
    let mut waiting = pin!(writer.commit(put("b", Expect::Absent)));
    // More than once, for one of these is only the runtime's turn to let others run.
    for _ in 0..3 {
        tokio::task::yield_now().await;
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(published.state().revision, u64::from(RELAXED_LAG));
    hands.end();
    assert_eq!(waiting.await.unwrap().revision, u64::from(RELAXED_LAG) + 1);
}

#[tokio::test]
async fn a_relaxed_writer_whose_disk_failed_takes_no_more() {
    let (writer, published, hands) = relaxed();
    writer.commit(put("a", Expect::Absent)).await.unwrap();
    hands.begun();
    // As many as there is room for: the next one waits, and must not wait for ever.
    for _ in 1..RELAXED_LAG {
        writer.commit(put("b", Expect::Anything)).await.unwrap();
    }
    let waiting = writer.commit(put("c", Expect::Absent));
    hands.fail();
    let refused = waiting.await.unwrap_err();
    assert_eq!(refused.to_string(), "the store cannot write: no space left");
    assert!(published.state().get(&key("b")).is_some() && published.state().get(&key("c")).is_none());
    assert!(matches!(writer.close().await, Err(CommitError::Failed { .. })), "what was acknowledged is lost");
}

#[tokio::test]
async fn a_panic_of_the_engine_is_a_failure_and_not_a_wait_without_end() {
    for (writer, published, hands) in [synced(), relaxed()] {
        let mut watcher = Watcher::new(Arc::clone(&published), Scope::All, 0).unwrap();
        let first = writer.commit(put("a", Expect::Absent));
        hands.panic();
        // A relaxed writer acknowledges this one, and those that come before it is noticed.
        let mut outcome = first.await;
        while outcome.is_ok() {
            outcome = writer.commit(put("b", Expect::Anything)).await;
        }
        assert_eq!(outcome.unwrap_err().to_string(), "the store cannot write: the storage engine panicked");
        assert!(writer.close().await.is_err());
        while watcher.next().await.is_ok() {}
    }
}

#[tokio::test]
async fn a_dropped_relaxed_writer_has_written_everything() {
    let (writer, _published, hands) = relaxed();
    writer.commit(put("a", Expect::Absent)).await.unwrap();
    writer.commit(put("b", Expect::Absent)).await.unwrap();
    for _ in 0..3 {
        hands.end();
    }
    drop(writer);
    let written: Vec<String> = hands.begun.iter().flat_map(|begun| begun.keys).collect();
    assert_eq!(written, ["a", "b"]);
}

#[test]
fn a_batch_waits_only_on_a_slow_disk_and_only_for_those_who_were_just_answered() {
    let ms = Duration::from_millis;
    let waits = |wait, expected| Patience { wait, expected };
    let cases = [
        (ms(1), 32, 32, Patience::default()),
        (ms(20), 64, 0, Patience::default()),
        (ms(20), 32, 32, waits(ms(5), 64)),
        (ms(4000), 1, 1, waits(ms(25), 2)),
    ];
    for (took, answered, queued, expected) in cases {
        assert_eq!(Patience::after(took, answered, queued), expected, "{took:?} {answered} {queued}");
    }
}

#[test]
fn a_batch_is_complete_when_all_who_are_expected_have_come_or_time_is_up() {
    let request = || {
        let (answer, _) = oneshot::channel();
        Request { transaction: Transaction::new(), answer }
    };
    let (queue, requests) = mpsc::channel();
    (0..3).for_each(|_| queue.send(request()).unwrap());
    // If it waited for more than it expects, it would wait for a day.
    let day = Duration::from_secs(86_400);
    let batch = gather(vec![request()], &requests, Patience { wait: day, expected: 4 }, None).unwrap();
    assert_eq!(batch.len(), 4);
    let batch =
        gather(vec![request()], &requests, Patience { wait: Duration::ZERO, expected: 9 }, None).unwrap();
    assert_eq!(batch.len(), 1);
    drop(queue);
    assert!(gather(Vec::new(), &requests, Patience { wait: day, expected: 9 }, None).is_none());
    assert_eq!(
        gather(vec![request()], &requests, Patience { wait: day, expected: 9 }, None).unwrap().len(),
        1
    );
}

#[test]
fn a_batch_that_waited_in_vain_is_followed_by_some_that_do_not_wait() {
    let patience = Patience { wait: Duration::from_millis(5), expected: 64 };
    let mut trust = Trust::default();
    trust.learn(patience, 32, 60);
    assert_eq!(trust.grant(patience), patience, "most of them came");
    trust.learn(patience, 32, 40);
    for _ in 0..Trust::PAUSE {
        assert_eq!(trust.grant(patience), Patience::default());
        trust.learn(Patience::default(), 32, 32);
    }
    assert_eq!(trust.grant(patience), patience, "it is tried again");
}
