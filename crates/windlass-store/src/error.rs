//! What can go wrong, each with what is needed to say so.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::key::Key;
use crate::object::Object;
use crate::transaction::Expect;

/// A resource, namespace or name that cannot be part of a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// A part that must not be empty is.
    #[error("the {part} of a key is empty")]
    Empty {
        /// Which part.
        part: &'static str,
    },
    /// A part contains the character that separates parts.
    #[error("the {part} of a key has a NUL character at byte {at}")]
    Nul {
        /// Which part.
        part: &'static str,
        /// Where in it.
        at: usize,
    },
}

/// A file or directory operation that failed.
#[derive(Debug, Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct IoError {
    /// What was tried, in the infinitive.
    pub action: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl IoError {
    /// For `map_err`: the same failure with what was tried, and on what.
    pub(crate) fn when(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { action, path: path.to_owned(), source }
    }
}

/// Why a data directory was not opened. Nothing in it was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another store has it open.
    #[error("data directory {} is in use by {}", dir.display(), owner(*.pid))]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process that has it, if it said so.
        pid: Option<u32>,
    },
    /// It has files in it, but not a store: nothing is initialised among the files of others.
    #[error("directory {} has no store in it but is not empty: it contains {found:?}", dir.display())]
    NotAStore {
        /// The directory.
        dir: PathBuf,
        /// One of the files that are in the way.
        found: String,
    },
    /// The file is not what was written. Restore a backup.
    #[error("store {} is damaged: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// The file was written by a newer Windlass.
    #[error("store {} has format {found}, this version reads up to format {supported}", file.display())]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that can be read.
        supported: u32,
    },
    /// The system refused.
    #[error(transparent)]
    Io(#[from] IoError),
}

fn owner(pid: Option<u32>) -> String {
    match pid {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

/// An expectation that did not hold. Nothing of its transaction was written.
#[derive(Debug, Clone, Error)]
#[error("{key}: expected {expected}, found {}", version(.found.as_deref()))]
pub struct Conflict {
    /// The object.
    pub key: Key,
    /// What the caller expected of it.
    pub expected: Expect,
    /// What is there.
    pub found: Option<Arc<Object>>,
}

fn version(object: Option<&Object>) -> String {
    match object {
        Some(object) => format!("revision {}", object.revision()),
        None => "nothing".to_owned(),
    }
}

/// Why a transaction was not committed.
#[derive(Debug, Clone, Error)]
pub enum CommitError {
    /// An expectation did not hold.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// Two operations on one key: they could not both mean the state before the transaction.
    #[error("{key} is twice in one transaction")]
    DuplicateKey {
        /// The key.
        key: Key,
    },
    /// More operations than one transaction may have.
    #[error("a transaction has {operations} operations, at most {limit} are allowed")]
    TooManyOperations {
        /// How many it has.
        operations: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The store was closed before the transaction had its turn. Nothing was written.
    #[error("the store is closed")]
    Closed,
    /// The disk failed. Whether this transaction was or will be committed is not known; what was acknowledged
    /// before it was. The store takes writes again when the disk does, except after a failed sync or a bug: then
    /// it has to be opened again.
    #[error("the store cannot write: {reason}")]
    Failed {
        /// What the disk said.
        reason: Arc<str>,
    },
}

/// A revision from which the events are no longer all there. List again, and watch from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("revision {requested} is too old: history starts after revision {oldest}, current is {current}")]
pub struct Expired {
    /// The revision that was asked for.
    pub requested: u64,
    /// The oldest revision that can be asked for.
    pub oldest: u64,
    /// The revision of the store.
    pub current: u64,
}

/// Why a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WatchError {
    /// The reader fell so far behind that events it has not read are gone.
    #[error(transparent)]
    Expired(#[from] Expired),
    /// The store was closed. Every event before that was delivered.
    #[error("the store is closed")]
    Closed,
}

/// Why there is no snapshot at a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// The events that lead back to it are gone.
    #[error(transparent)]
    Expired(#[from] Expired),
    /// It has not happened yet.
    #[error("revision {requested} is in the future: current is {current}")]
    Future {
        /// The revision that was asked for.
        requested: u64,
        /// The revision of the store.
        current: u64,
    },
}

/// Why there is no backup.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] IoError),
    /// There is a file of this name, and the caller did not ask to replace it.
    #[error("{} exists already", file.display())]
    Exists {
        /// The file.
        file: PathBuf,
    },
    /// The runtime stopped while the backup was being written.
    #[error("the backup was interrupted by the end of the process")]
    Interrupted,
}

/// Why a backup was not restored. The data directory is as it was.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The file is not a backup.
    #[error("{} is not a backup of a store", file.display())]
    NotABackup {
        /// The file.
        file: PathBuf,
    },
    /// The backup was made by a newer Windlass.
    #[error("backup {} has format {found}, this version reads up to format {supported}", file.display())]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that can be read.
        supported: u32,
    },
    /// The backup is not what was written.
    #[error("backup {} is damaged: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// There is a store in the data directory, and the caller did not ask to replace it.
    #[error("data directory {} has a store in it already", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] OpenError),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] IoError),
}
