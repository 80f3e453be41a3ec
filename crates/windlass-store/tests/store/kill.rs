//! What a store has acknowledged is there after `kill -9`, whenever it comes.
//!
//! The test starts itself again as a process that writes as fast as it can and says what was
//! acknowledged, kills it, and looks.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use windlass_store::{Expect, Key, OpenError, Options, Store, Transaction};

use crate::support::{Random, pod};

const DIR: &str = "WINDLASS_STORE_KILL_DIR";
const RELAXED: &str = "WINDLASS_STORE_KILL_RELAXED";
const WRITERS: usize = 8;

fn options(relaxed: bool) -> Options {
    if relaxed { Options::new().relaxed() } else { Options::new() }
}

/// The objects of one writer: two that are always written together, and one that is only there after
/// every other write.
fn keys(writer: usize) -> [Key; 3] {
    ["left", "right", "even"].map(|name| pod(&format!("{writer}-{name}")))
}

fn value(count: u64) -> String {
    format!("{count:020}").repeat(130)
}

/// How often a writer has written. Panics if its objects are not of one transaction.
fn count(store: &Store, writer: usize) -> u64 {
    let snapshot = store.snapshot();
    let [left, right, even] = keys(writer).map(|key| snapshot.get(&key).cloned());
    let Some(left) = left else {
        assert!(right.is_none() && even.is_none(), "half a transaction of writer {writer}");
        return 0;
    };
    let text = std::str::from_utf8(left.value()).unwrap();
    let count: u64 = text[..20].parse().unwrap();
    assert_eq!(text, value(count), "writer {writer}");
    assert_eq!(right.expect("half a transaction").value(), left.value(), "writer {writer}");
    assert_eq!(even.is_some(), count.is_multiple_of(2), "writer {writer} at {count}");
    count
}

/// One write of a writer, for the `count`th time.
async fn write(store: &Store, writer: usize, count: u64) -> u64 {
    let [left, right, even] = keys(writer);
    let both = Transaction::new().put(left, Expect::Anything, value(count)).put(
        right,
        Expect::Anything,
        value(count),
    );
    let all = if count.is_multiple_of(2) {
        both.put(even, Expect::Absent, value(count))
    } else {
        both.delete(even, Expect::Anything)
    };
    store.commit(all).await.unwrap().revision
}

/// Does nothing unless it was started by one of the tests below.
#[test]
fn the_process_that_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    // A line is written at once, so that half of one can only be the last.
    let say = |line: String| {
        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
            std::process::exit(0);
        }
    };
    say("\nopening\n".to_owned());
    let store = Store::open(dir, &options(std::env::var_os(RELAXED).is_some())).unwrap();
    say("ready\n".to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            runtime.spawn(async move {
                for count in count(&store, writer) + 1.. {
                    let revision = write(&store, writer, count).await;
                    say(format!("ack {writer} {count} {revision}\n"));
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

/// When to kill.
#[derive(Debug)]
enum Moment {
    Started,
    Opening,
    Ready,
    Acknowledged(usize),
}

impl Moment {
    fn random(random: &mut Random) -> Self {
        match random.below(10) {
            0 => Self::Started,
            1 => Self::Opening,
            2 => Self::Ready,
            _ => Self::Acknowledged(1 + random.below(80)),
        }
    }
}

/// What is known to have been acknowledged: per writer its count, and the revision.
#[derive(Default)]
struct Acknowledged {
    counts: BTreeMap<usize, u64>,
    revision: u64,
}

impl Acknowledged {
    fn read(&mut self, line: &str) -> bool {
        let Some(acknowledged) = line.strip_prefix("ack ").and_then(|rest| rest.strip_suffix('\n')) else {
            return false;
        };
        let numbers: Vec<u64> = acknowledged.split(' ').map(|number| number.parse().unwrap()).collect();
        self.counts.insert(numbers[0] as usize, numbers[1]);
        self.revision = self.revision.max(numbers[2]);
        true
    }
}

fn start(dir: &Path, relaxed: bool) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::the_process_that_is_killed", "--nocapture", "--test-threads=1"]);
    command.env(DIR, dir).stdout(Stdio::piped()).stderr(Stdio::inherit());
    if relaxed {
        command.env(RELAXED, "1");
    }
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Starts the process, kills it at `moment`, and reads what it had acknowledged until then.
fn kill_at(moment: &Moment, dir: &Path, relaxed: bool, acknowledged: &mut Acknowledged) {
    let (mut child, mut output) = start(dir, relaxed);
    let mut line = String::new();
    let mut count = 0;
    loop {
        let now = match moment {
            Moment::Started => true,
            Moment::Opening => line == "opening\n",
            Moment::Ready => line == "ready\n",
            Moment::Acknowledged(acknowledgements) => count >= *acknowledgements,
        };
        if now {
            break;
        }
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended by itself");
        count += usize::from(acknowledged.read(&line));
    }
    child.kill().unwrap();
    line.clear();
    while output.read_line(&mut line).unwrap() > 0 {
        acknowledged.read(&line);
        line.clear();
    }
    child.wait().unwrap();
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_there_after_200_kills() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("store");
    let mut random = Random(4);
    let mut acknowledged = Acknowledged::default();
    for round in 0..200 {
        let moment = Moment::random(&mut random);
        kill_at(&moment, &data, false, &mut acknowledged);
        let store = Store::open(&data, &Options::new()).unwrap();
        for writer in 0..WRITERS {
            let (found, known) =
                (count(&store, writer), acknowledged.counts.get(&writer).copied().unwrap_or(0));
            assert!(found >= known, "round {round}, {moment:?}: writer {writer} lost {found} < {known}");
            assert!(
                found <= known + 1,
                "round {round}, {moment:?}: writer {writer} wrote what it did not ask for"
            );
            acknowledged.counts.insert(writer, found);
        }
        assert!(store.revision() >= acknowledged.revision, "round {round}, {moment:?}");
        acknowledged.revision = store.revision();
    }
    assert!(acknowledged.revision > 5_000, "it hardly wrote: {}", acknowledged.revision);
}

#[test]
fn a_relaxed_store_goes_back_to_a_state_it_was_in_and_gives_no_revision_twice() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("store");
    let mut random = Random(5);
    let mut highest = 0;
    for round in 0..20 {
        let moment = Moment::random(&mut random);
        let mut acknowledged = Acknowledged::default();
        kill_at(&moment, &data, true, &mut acknowledged);
        let store = Store::open(&data, &Options::new()).unwrap();
        for writer in 0..WRITERS {
            let known = acknowledged.counts.get(&writer).copied();
            let found = count(&store, writer);
            assert!(
                known.is_none_or(|known| found <= known + 1),
                "round {round}, {moment:?}: writer {writer}"
            );
        }
        highest = acknowledged.revision.max(highest);
        assert!(store.revision() >= highest, "round {round}, {moment:?}: {} < {highest}", store.revision());
        highest = store.revision();
    }
}

#[test]
fn a_store_in_another_process_is_in_use_until_that_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, mut output) = start(dir.path(), false);
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended by itself");
    }
    let refused = Store::open(dir.path(), &Options::new()).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { pid: Some(pid), .. } if pid == child.id()), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
    Store::open(dir.path(), &Options::new()).unwrap();
}
