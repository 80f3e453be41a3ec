//! The data directory: who may use it, what is in it, and how a store gets there in one step.
//!
//! | file | what it is |
//! | --- | --- |
//! | `lock` | locked as long as a store is open, with the id of the process that has it |
//! | `objects.db` | the store: a header page, then a redb database |
//! | `objects.db.new` | a store that is being made; left behind by a crash, removed at the next start |
//! | `objects.db.replaced` | what a restore replaced |

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;

use crate::backend::redb::Redb;
use crate::backend::storage::{Body, FORMAT, HEADER_LEN, Header, Overlay, Syncing, header};
use crate::backend::{Backend, BackendError, Contents};
use crate::error::{IoError, OpenError};
use crate::pending::Batch;
use crate::state::State;

const LOCK: &str = "lock";
const STORE: &str = "objects.db";
const NEW: &str = "objects.db.new";
const REPLACED: &str = "objects.db.replaced";

/// A file this many times as large as what is in it is written anew at the start. Some of that is usual:
/// redb copies what it changes, rounds up large values, and keeps free pages for the next commit.
const WASTEFUL: u64 = 4;

/// Smaller files are never written anew: there is nothing to gain.
const WORTH_SHRINKING: u64 = 64 * 1024 * 1024;

/// What a record takes in the file besides its value, roughly.
const RECORD_OVERHEAD: u64 = 128;

/// A directory that no other process can open as long as this lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    lock: File,
}

impl DataDir {
    /// Makes the directory if it is missing, and locks it.
    pub(crate) fn lock(path: &Path) -> Result<Self, OpenError> {
        create_private_dir(path)?;
        let lock_path = path.join(LOCK);
        let mut lock =
            private_file().truncate(false).open(&lock_path).map_err(IoError::when("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message. The owner may not have written it yet.
                let _ = lock.read_to_string(&mut pid);
                return Err(OpenError::InUse { dir: path.to_owned(), pid: pid.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(IoError::when("lock", &lock_path)(error).into()),
        }
        lock.set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(IoError::when("write", &lock_path))?;
        Ok(Self { path: path.to_owned(), lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file the store is in, whether or not it is there.
    fn file(&self) -> PathBuf {
        self.path.join(STORE)
    }

    /// Whether there is a store. Fails if there is none but something else is.
    pub(crate) fn has_store(&self) -> Result<bool, OpenError> {
        let mut found = None;
        for entry in fs::read_dir(&self.path).map_err(IoError::when("list", &self.path))? {
            let name = entry.map_err(IoError::when("list", &self.path))?.file_name();
            if name == OsStr::new(STORE) {
                return Ok(true);
            }
            if name != OsStr::new(LOCK) && name != OsStr::new(NEW) {
                let name = name.to_string_lossy().into_owned();
                found = Some(found.map_or(name.clone(), |other: String| other.min(name)));
            }
        }
        match found {
            Some(found) => Err(OpenError::NotAStore { dir: self.path.clone(), found }),
            None => Ok(false),
        }
    }

    /// Reads everything, checks everything, and changes nothing.
    pub(crate) fn read(&self) -> Result<Contents, OpenError> {
        let path = self.file();
        let file = File::open(&path).map_err(IoError::when("open", &path))?;
        let mut page = Vec::with_capacity(HEADER_LEN);
        (&file).take(HEADER_LEN as u64).read_to_end(&mut page).map_err(IoError::when("read", &path))?;
        match Header::read(&page) {
            Header::Ours => {}
            Header::Newer(found) => {
                return Err(OpenError::NewerFormat { file: path, found, supported: FORMAT });
            }
            Header::Damaged => {
                return Err(OpenError::Damaged {
                    file: path,
                    reason: "it does not start as a store does".into(),
                });
            }
        }
        let read = || -> Result<Contents, BackendError> {
            let below = FileBackend::new(file)?;
            let mut redb = Redb::open(Overlay::new(Body(below))?)?;
            redb.check()?;
            redb.load()
        };
        // After a clean stop redb believes its own records before it has compared any checksum, and
        // panics where they make no sense. Nothing that it leaves behind is used after that.
        let read = std::panic::catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(|_| Err(BackendError::Damaged("its pages make no sense".to_owned())));
        read.map_err(|error| refused(&path, error))
    }

    /// Puts a store that holds `state` into the directory in one step: after a crash at any point there
    /// is what was there before, or the new store, complete.
    pub(crate) fn create(&self, state: &State, lag: u64) -> Result<(), OpenError> {
        let new = self.path.join(NEW);
        remove_if_there(&new)?;
        let mut file = private_file().create_new(true).open(&new).map_err(IoError::when("create", &new))?;
        file.write_all(&header()).map_err(IoError::when("write", &new))?;
        let for_redb = file.try_clone().map_err(IoError::when("open", &new))?;
        let fill = || Redb::open(Body(FileBackend::new(for_redb)?))?.fill(state, lag);
        fill().map_err(|error| refused(&new, error))?;
        file.sync_all().map_err(IoError::when("sync", &new))?;
        fs::rename(&new, self.file()).map_err(IoError::when("rename", &new))?;
        sync_dir(&self.path)?;
        Ok(())
    }

    /// Keeps what [`DataDir::create`] is about to replace under another name.
    pub(crate) fn keep_replaced(&self) -> Result<(), OpenError> {
        let replaced = self.path.join(REPLACED);
        remove_if_there(&replaced)?;
        fs::hard_link(self.file(), &replaced).map_err(IoError::when("link", &replaced))?;
        Ok(())
    }

    /// Opens the store for writing, makes it if there is none, and returns what is in it.
    pub(crate) fn open(self) -> Result<(Disk, Contents), OpenError> {
        if !self.has_store()? {
            self.create(&State::new(0), 0)?;
        }
        let contents = self.read()?;
        remove_if_there(&self.path.join(NEW))?;
        if self.is_wasteful(&contents.state)? {
            self.create(&contents.state, contents.lag)?;
        }
        let mut disk = Disk { redb: None, dir: self, sync_failed: Arc::default() };
        if let Err(error) = disk.reopen() {
            return Err(disk.refused(error));
        }
        Ok((disk, contents))
    }

    fn is_wasteful(&self, state: &State) -> Result<bool, OpenError> {
        let path = self.file();
        let len = fs::metadata(&path).map_err(IoError::when("read", &path))?.len();
        let needed = state.value_bytes + state.len() as u64 * RECORD_OVERHEAD;
        Ok(len > WORTH_SHRINKING && len / WASTEFUL > needed)
    }
}

impl Drop for DataDir {
    /// Closing the file is not enough: a process that was forked at this moment has it open too, and with
    /// it the lock, until it becomes another program.
    fn drop(&mut self) {
        // If this fails, closing the file does it.
        let _ = self.lock.unlock();
    }
}

/// The store file of a data directory.
pub(crate) struct Disk {
    /// Absent only while it is opened again.
    redb: Option<Redb>,
    dir: DataDir,
    /// Whether a sync has failed: what is on the disk is not known then.
    sync_failed: Arc<AtomicBool>,
}

impl Disk {
    /// The failure of a commit, with the file it happened to.
    pub(crate) fn refused(&self, error: BackendError) -> OpenError {
        refused(&self.dir.file(), error)
    }

    /// Opens the file, after closing it if it is open: redb does not go on after a failure.
    fn reopen(&mut self) -> Result<&mut Redb, BackendError> {
        self.redb = None;
        let file = private_file().create(false).open(self.dir.file())?;
        let failed = Arc::clone(&self.sync_failed);
        let storage = Syncing { inner: FileBackend::new(file)?, failed };
        Ok(self.redb.insert(Redb::open(Body(storage))?))
    }

    fn redb(&mut self) -> Result<&mut Redb, BackendError> {
        match self.redb.is_some() {
            true => self.redb.as_mut().ok_or_else(|| io::Error::other("the file is not open").into()),
            false => self.reopen(),
        }
    }
}

impl Backend for Disk {
    fn commit(&mut self, batch: &Batch) -> Result<(), BackendError> {
        self.redb()?.commit(batch)
    }

    fn recover(&mut self) -> Result<u64, BackendError> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(BackendError::Damaged(
                "a sync failed, so what is on the disk is not known".to_owned(),
            ));
        }
        Ok(self.reopen()?.position()?.0)
    }

    fn rewrite(&mut self, state: &State, lag: u64) -> Result<(), BackendError> {
        self.redb = None;
        if let Err(error) = self.dir.create(state, lag) {
            // On a full disk it would take the room that the next attempt needs. What is reported is why it failed.
            let _ = remove_if_there(&self.dir.path.join(NEW));
            return Err(io::Error::other(error.to_string()).into());
        }
        // Another file, of which no sync has failed.
        self.sync_failed = Arc::default();
        self.reopen().map(drop)
    }
}

fn refused(path: &Path, error: BackendError) -> OpenError {
    match error {
        BackendError::Damaged(reason) => OpenError::Damaged { file: path.to_owned(), reason },
        BackendError::Io(error) => IoError::when("open", path)(error).into(),
    }
}

/// Options for a file that only its owner may read: objects contain secrets.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a directory that only its owner may enter, and makes sure that it stays made.
fn create_private_dir(path: &Path) -> Result<(), IoError> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(IoError::when("create", parent))?;
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Ok(()) => sync_dir(parent),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(IoError::when("create", path)(error)),
    }
}

/// Makes what was created, renamed or removed in a directory outlive the power supply.
pub(crate) fn sync_dir(path: &Path) -> Result<(), IoError> {
    // Elsewhere a directory cannot be opened as a file, and need not be.
    if cfg!(unix) {
        File::open(path).and_then(|dir| dir.sync_all()).map_err(IoError::when("sync", path))?;
    }
    Ok(())
}

pub(crate) fn remove_if_there(path: &Path) -> Result<(), IoError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(IoError::when("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Key, Resource};
    use crate::pending::Pending;
    use crate::transaction::{Expect, Transaction};

    fn put(disk: &mut Disk, state: State, name: &str) -> State {
        let key = Key::new(&Resource::new("core/pods").unwrap(), "default", name).unwrap();
        let mut pending = Pending::after(state);
        pending.apply(Transaction::new().put(key, Expect::Anything, vec![7; 5_000])).unwrap();
        disk.commit(&pending.batch).unwrap();
        pending.state
    }

    /// After a failed sync the file has anything: here nothing that makes sense. What is in memory is written anew.
    #[test]
    fn after_a_failed_sync_the_store_is_written_anew_from_memory_and_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let (mut disk, contents) = DataDir::lock(directory.path()).unwrap().open().unwrap();
        let state = put(&mut disk, contents.state, "a");
        disk.sync_failed.store(true, Ordering::Release);
        assert!(matches!(disk.recover(), Err(BackendError::Damaged(_))));
        fs::write(directory.path().join(STORE), vec![0; 50_000]).unwrap();
        disk.rewrite(&state, 0).unwrap();
        assert_eq!(disk.recover().unwrap(), 1, "the next sync is one of another file");
        let state = put(&mut disk, state, "b");
        drop(disk);
        let (_, contents) = DataDir::lock(directory.path()).unwrap().open().unwrap();
        assert_eq!((contents.state.revision, contents.state.len()), (2, state.len()));
        assert!(!directory.path().join(NEW).exists());
    }
}
