//! The store: what everything else in this crate is for.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::Backend;
use crate::backup::{self, Backup, Existing};
use crate::data_dir::{DataDir, Disk};
use crate::error::{BackupError, CommitError, Expired, OpenError, SnapshotError};
use crate::key::{Key, Scope};
use crate::log::History;
use crate::object::{Object, Value};
use crate::pending::Batch;
use crate::published::Published;
use crate::state::{Snapshot, State};
use crate::stats::Stats;
use crate::transaction::{Committed, Expect, Transaction};
use crate::watch::Watcher;
use crate::writer::{RELAXED_LAG, Writer};

/// What an acknowledged write has survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is on the disk: it survives the end of the process, of the system and of the power supply.
    Synced,
    /// It is in memory and on its way to the disk: the last moments before a crash may be lost.
    Relaxed,
    /// It is in memory only.
    InMemory,
}

/// How to open a store.
#[derive(Debug, Clone, Default)]
pub struct Options {
    relaxed: bool,
    history: History,
}

impl Options {
    /// Every acknowledged write is on the disk, and the history is as [`History::default`] says.
    pub fn new() -> Self {
        Self::default()
    }

    /// Acknowledges writes before they are on the disk. **A crash of the process or of the machine loses
    /// the writes of its last moments, although they were acknowledged and watchers have seen them**: up
    /// to 4096 changes, usually those of a few milliseconds. What is left is a state the store was in,
    /// never half a transaction. Closing or dropping the store loses nothing.
    ///
    /// For clusters that can be made again. After a crash, revisions continue beyond all that may have
    /// been lost, so that every client notices and lists again.
    #[must_use]
    pub fn relaxed(mut self) -> Self {
        self.relaxed = true;
        self
    }

    /// How much of the past is kept for watchers.
    #[must_use]
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }
}

/// A durable, ordered, watchable store of objects. Cheap to clone; all clones are the same store.
///
/// Reads are of memory: they never wait and see only what is committed. Writes are put into one
/// order by one writer. When the last clone is dropped the store is closed, which may wait for the disk;
/// [`Store::close`] does so without blocking a thread.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    published: Arc<Published>,
    writer: Writer,
    durability: Durability,
    dir: Option<PathBuf>,
}

impl Store {
    /// Opens the store in `dir`, and makes a new one if the directory is missing or empty.
    ///
    /// The directory is for the store alone: it is refused if it has other files and no store. Everything
    /// in it is read and checked against its checksums, which blocks for some milliseconds per megabyte.
    ///
    /// Watchers cannot resume from before this moment: the history starts empty.
    pub fn open(dir: impl AsRef<Path>, options: &Options) -> Result<Self, OpenError> {
        let (mut disk, contents) = DataDir::lock(dir.as_ref())?.open()?;
        let mut state = contents.state;
        state.revision = state.revision.saturating_add(contents.lag);
        let lag = if options.relaxed { u64::from(RELAXED_LAG) } else { 0 };
        if lag != 0 || contents.lag != 0 {
            let position = Batch { revision: state.revision, lag, ..Batch::default() };
            disk.commit(&position).map_err(|error| disk.refused(error))?;
        }
        Self::on_disk(disk, state, options, Some(dir.as_ref().to_owned()))
    }

    fn on_disk(disk: Disk, state: State, options: &Options, dir: Option<PathBuf>) -> Result<Self, OpenError> {
        let published = Arc::new(Published::new(state, options.history));
        let (writer, durability) = if options.relaxed {
            (Writer::relaxed(Arc::clone(&published), disk)?, Durability::Relaxed)
        } else {
            (Writer::synced(Arc::clone(&published), disk)?, Durability::Synced)
        };
        Ok(Self { inner: Arc::new(Inner { published, writer, durability, dir }) })
    }

    /// A store without a disk and without threads, for tests and simulation. A write is committed by the
    /// time its future is first ready, in the order in which the futures were polled.
    pub fn in_memory(history: History) -> Self {
        let published = Arc::new(Published::new(State::new(0), history));
        let writer = Writer::in_memory(Arc::clone(&published));
        Self { inner: Arc::new(Inner { published, writer, durability: Durability::InMemory, dir: None }) }
    }

    /// What an acknowledged write has survived.
    pub fn durability(&self) -> Durability {
        self.inner.durability
    }

    /// Where the store is, unless it is in memory.
    pub fn dir(&self) -> Option<&Path> {
        self.inner.dir.as_deref()
    }

    /// The revision of the last committed change.
    pub fn revision(&self) -> u64 {
        self.inner.published.state().revision
    }

    /// All objects as they are now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.inner.published.state())
    }

    /// The objects of a scope as they were at an earlier revision, as long as the history reaches back
    /// to it: what the second page of a list needs to be of the same moment as the first. Objects of
    /// other resources are not in it.
    pub fn snapshot_at(&self, scope: &Scope, revision: u64) -> Result<Snapshot, SnapshotError> {
        self.inner.published.snapshot_at(scope, revision)
    }

    /// One object as it is now.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.inner.published.state().get(key).cloned()
    }

    /// Commits a transaction, or refuses all of it.
    ///
    /// Dropping the future does not take the transaction back: it may be committed all the same.
    pub async fn commit(&self, transaction: Transaction) -> Result<Committed, CommitError> {
        self.inner.writer.commit(transaction).await
    }

    /// Creates or replaces one object.
    pub async fn put(
        &self,
        key: Key,
        expect: Expect,
        value: impl Into<Value>,
    ) -> Result<Arc<Object>, CommitError> {
        let mut committed = self.commit(Transaction::new().put(key, expect, value)).await?;
        match committed.objects.pop() {
            Some(Some(object)) => Ok(object),
            _ => unreachable!("a put that was committed has an object"),
        }
    }

    /// Removes one object, and returns it with the revision of the deletion, or `None` if it was not
    /// there and `expect` allowed for that.
    pub async fn delete(&self, key: Key, expect: Expect) -> Result<Option<Arc<Object>>, CommitError> {
        let mut committed = self.commit(Transaction::new().delete(key, expect)).await?;
        Ok(committed.objects.pop().flatten())
    }

    /// Watches a scope from just after a revision: that of a snapshot, of the last event that was read,
    /// or of [`Watcher::position`]. A revision of the future is waited for.
    pub fn watch(&self, scope: Scope, after: u64) -> Result<Watcher, Expired> {
        Watcher::new(Arc::clone(&self.inner.published), scope, after)
    }

    /// Waits until the store has reached a revision, and says whether it did: it does not if it is closed
    /// before that.
    pub async fn reached(&self, revision: u64) -> bool {
        let mut bell = self.inner.published.log_mut().bell(&Scope::All);
        loop {
            let closed = *bell.borrow_and_update();
            if self.revision() >= revision {
                return true;
            }
            if closed || bell.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Writes a backup of the store as it is now to `file`, in the place of what is there, while the
    /// store goes on. The file appears complete and synced, or not at all.
    pub async fn backup(&self, file: impl AsRef<Path>) -> Result<Backup, BackupError> {
        self.backup_unless(file, Existing::Replace).await
    }

    /// The same, and says what becomes of a file that is there.
    pub async fn backup_unless(
        &self,
        file: impl AsRef<Path>,
        existing: Existing,
    ) -> Result<Backup, BackupError> {
        let (snapshot, file) = (self.snapshot(), file.as_ref().to_owned());
        let write = move || backup::write_file(&snapshot, &file, existing);
        let written = tokio::task::spawn_blocking(write).await;
        written.map_err(|_| BackupError::Interrupted)?
    }

    /// Figures, for metrics.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.inner.published)
    }

    /// Closes the store: waits until every write that was asked for is answered and on the disk, then
    /// lets go of the data directory and ends all watches. Reads go on to work; writes are refused.
    ///
    /// Fails with [`CommitError::Failed`] if the disk has failed, now or before: a relaxed store may then
    /// have lost what it acknowledged.
    pub async fn close(&self) -> Result<(), CommitError> {
        self.inner.writer.close().await
    }

    /// Why the store cannot write at the moment, if the disk has failed.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.inner.published.failure()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("dir", &self.inner.dir)
            .field("durability", &self.inner.durability)
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}
