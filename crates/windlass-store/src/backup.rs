//! Backup and restore: a store as one file that says what it is and whether it is whole.
//!
//! | part | what it is |
//! | --- | --- |
//! | text | `windlass-backup format 1` and a line break |
//! | head | revision and number of objects, eight bytes each |
//! | objects | per object: length of the key (4 bytes), revision (8), length of the value (8), key, value |
//! | end | SHA-256 of everything before |
//!
//! Numbers are little endian; a key is `resource NUL namespace NUL name`.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::data_dir::{DataDir, private_file, remove_if_there, sync_dir};
use crate::error::{BackupError, IoError, OpenError, RestoreError};
use crate::key::Key;
use crate::object::Object;
use crate::state::{Snapshot, State};

const FORMAT: u32 = 1;
const MAGIC: &str = "windlass-backup format ";
const DIGEST_LEN: u64 = 32;

/// How far a restore moves the revision. Clients may have seen any revision that the lost store reached
/// after the backup; a store that makes a thousand changes a second takes eleven days to make so many.
pub const RESTORE_JUMP: u64 = 1_000_000_000;

/// What is in a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backup {
    /// The revision of the store when it was made.
    pub revision: u64,
    /// How many objects it has.
    pub objects: u64,
    /// How many bytes the file has.
    pub bytes: u64,
}

/// What a restore did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// What was restored.
    pub backup: Backup,
    /// The revision from which the store goes on.
    pub revision: u64,
}

/// What a restore does with a store that is there already, and a backup with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is left alone, and the restore or the backup refused.
    Refuse,
    /// It is replaced. A store is kept in the directory as `objects.db.replaced`, in the place of what an
    /// earlier restore left there.
    Replace,
}

impl Snapshot {
    /// Writes a backup to wherever it is wanted. Prefer [`crate::Store::backup`] for a file: half a
    /// backup is not one, and only the caller knows whether `out` got all of it.
    pub fn write_backup(&self, out: impl Write) -> io::Result<Backup> {
        let mut out = Hashing { inner: out, hash: Sha256::new(), bytes: 0 };
        let objects = self.len() as u64;
        writeln!(out, "{MAGIC}{FORMAT}")?;
        out.write_all(&self.revision().to_le_bytes())?;
        out.write_all(&objects.to_le_bytes())?;
        for object in self.list(&crate::key::Scope::All) {
            let (key, value) = (object.key().encode(), object.value());
            let key_len = u32::try_from(key.len()).map_err(io::Error::other)?;
            out.write_all(&key_len.to_le_bytes())?;
            out.write_all(&object.revision().to_le_bytes())?;
            out.write_all(&(value.len() as u64).to_le_bytes())?;
            out.write_all(&key)?;
            out.write_all(value)?;
        }
        let Hashing { mut inner, hash, bytes } = out;
        inner.write_all(&hash.finalize())?;
        inner.flush()?;
        Ok(Backup { revision: self.revision(), objects, bytes: bytes + DIGEST_LEN })
    }
}

struct Hashing<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(data)?;
        self.hash.update(&data[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes a backup beside `file`, syncs it, and gives it its name.
pub(crate) fn write_file(
    snapshot: &Snapshot,
    file: &Path,
    existing: Existing,
) -> Result<Backup, BackupError> {
    // Said before anything is written; what comes in between is noticed in the end.
    if existing == Existing::Refuse && file.symlink_metadata().is_ok() {
        return Err(BackupError::Exists { file: file.to_owned() });
    }
    // Two backups to one file may be under way at the same time.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}.tmp", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    let temporary = file.with_file_name(name);
    let written = write_and_name(snapshot, &temporary, file, existing);
    // It is there after a failure, and if it was given its name beside its old one. The failure that is reported
    // is the first.
    let _ = remove_if_there(&temporary);
    written
}

fn write_and_name(
    snapshot: &Snapshot,
    temporary: &Path,
    file: &Path,
    existing: Existing,
) -> Result<Backup, BackupError> {
    let out = private_file().truncate(true).open(temporary).map_err(IoError::when("create", temporary))?;
    let mut out = BufWriter::new(out);
    let backup = snapshot.write_backup(&mut out).map_err(IoError::when("write", temporary))?;
    out.get_ref().sync_all().map_err(IoError::when("sync", temporary))?;
    match existing {
        Existing::Replace => fs::rename(temporary, file).map_err(IoError::when("rename", temporary))?,
        // Unlike a rename, a link never takes the place of a file.
        Existing::Refuse => fs::hard_link(temporary, file).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => BackupError::Exists { file: file.to_owned() },
            _ => IoError::when("name", temporary)(error).into(),
        })?,
    }
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_dir(parent.unwrap_or(Path::new(".")))?;
    Ok(backup)
}

/// Makes a store in `data_dir` from a backup. Blocks, and needs the directory for itself.
///
/// The backup is checked from its first to its last byte before anything is written. After a crash at
/// any point the directory is as it was, or the restore is complete.
///
/// Objects come back with the revisions they had. The revision of the store does not: it goes on
/// [`RESTORE_JUMP`] after that of the backup, or of the store that is replaced if that is readable and
/// further. What clients remember from after the backup is then older than the history, and they list
/// again; no revision they know is ever given to something else.
pub fn restore(
    file: impl AsRef<Path>,
    data_dir: impl AsRef<Path>,
    existing: Existing,
) -> Result<Restored, RestoreError> {
    let (mut state, backup) = read(file.as_ref())?;
    let dir = DataDir::lock(data_dir.as_ref())?;
    let replaces = dir.has_store()?;
    if replaces {
        if existing == Existing::Refuse {
            return Err(RestoreError::NotEmpty { dir: dir.path().to_owned() });
        }
        match dir.read() {
            Ok(old) => state.revision = state.revision.max(old.state.revision.saturating_add(old.lag)),
            // What is damaged is why it is being replaced.
            Err(OpenError::Damaged { .. } | OpenError::NewerFormat { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        dir.keep_replaced()?;
    }
    state.revision = state.revision.saturating_add(RESTORE_JUMP);
    dir.create(&state, 0)?;
    Ok(Restored { backup, revision: state.revision })
}

/// Checks a whole backup, and reads it.
fn read(path: &Path) -> Result<(State, Backup), RestoreError> {
    let damaged = |reason: &str| RestoreError::Damaged { file: path.to_owned(), reason: reason.to_owned() };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it ends too early"),
        io::ErrorKind::InvalidData => damaged(&error.to_string()),
        _ => IoError::when("read", path)(error).into(),
    };
    let mut file = File::open(path).map_err(IoError::when("open", path))?;
    match read_format(&mut file).map_err(failed)? {
        Some(FORMAT) => {}
        Some(found) if found > FORMAT => {
            return Err(RestoreError::NewerFormat { file: path.to_owned(), found, supported: FORMAT });
        }
        _ => return Err(RestoreError::NotABackup { file: path.to_owned() }),
    }
    let bytes = file.metadata().map_err(failed)?.len();
    let hashed = bytes.checked_sub(DIGEST_LEN).ok_or_else(|| damaged("it ends too early"))?;
    if !is_whole(&mut file, hashed).map_err(failed)? {
        return Err(damaged("its checksum does not fit"));
    }
    let first_line = format!("{MAGIC}{FORMAT}\n").len() as u64;
    file.seek(SeekFrom::Start(first_line)).map_err(failed)?;
    let body = hashed.checked_sub(first_line).ok_or_else(|| damaged("it ends too early"))?;
    let state = read_objects(&mut BufReader::new(file.take(body))).map_err(failed)?;
    let backup = Backup { revision: state.revision, objects: state.len() as u64, bytes };
    Ok((state, backup))
}

/// The number in the first line, if it is the first line of a backup.
fn read_format(file: &mut File) -> io::Result<Option<u32>> {
    let mut start = Vec::new();
    (&*file).take(64).read_to_end(&mut start)?;
    let line = start.split(|byte| *byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok());
    Ok(line.and_then(|line| line.strip_prefix(MAGIC)).and_then(|number| number.parse().ok()))
}

/// Whether the first `hashed` bytes have the digest that follows them.
fn is_whole(file: &mut File, hashed: u64) -> io::Result<bool> {
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut body = (&*file).take(hashed);
    loop {
        match body.read(&mut buffer)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    let mut digest = [0; DIGEST_LEN as usize];
    file.read_exact(&mut digest)?;
    Ok(hash.finalize()[..] == digest)
}

fn read_objects(body: &mut impl Read) -> io::Result<State> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut state = State::new(read_u64(body)?);
    let mut resource = None;
    for _ in 0..read_u64(body)? {
        let mut key_len = [0; 4];
        body.read_exact(&mut key_len)?;
        let (revision, value_len) = (read_u64(body)?, read_u64(body)?);
        let key = read_bytes(body, u64::from(u32::from_le_bytes(key_len)))?;
        let value = read_bytes(body, value_len)?;
        let key = Key::decode(&key, resource.as_ref()).ok_or_else(|| invalid("a key is not one"))?;
        if revision > state.revision {
            return Err(invalid("an object is newer than the backup"));
        }
        resource = Some(key.resource().clone());
        state.insert(Arc::new(Object::new(key, revision, Bytes::from(value))));
    }
    match body.read(&mut [0])? {
        0 => Ok(state),
        _ => Err(invalid("it goes on after its last object")),
    }
}

fn read_u64(body: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    body.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads `len` bytes without taking the file's word for how much memory they need.
fn read_bytes(body: &mut impl Read, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    body.take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.shrink_to_fit();
    Ok(bytes)
}
