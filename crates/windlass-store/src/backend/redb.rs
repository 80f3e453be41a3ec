//! The durable backend: a redb database, one synced commit per batch.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, Durability, ReadableDatabase, StorageBackend, TableDefinition};

use super::{BackendError, Contents};
use crate::key::Key;
use crate::object::Object;
use crate::pending::Batch;
use crate::state::State;

/// Encoded key to revision (eight bytes, little endian) and value.
const OBJECTS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("objects");

/// One record, under the empty key: revision and lag.
const POSITION: TableDefinition<(), (u64, u64)> = TableDefinition::new("position");

const REVISION_LEN: usize = size_of::<u64>();

/// Objects are read from memory, never from here: the cache only has to hold the upper pages of the
/// tree and one batch.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// A bulk load is committed in pieces, so that memory is bounded however much is loaded.
const BULK_BYTES: usize = 8 * 1024 * 1024;

pub(crate) struct Redb {
    database: Database,
}

impl Redb {
    /// Opens what is in `storage`, after a repair if it was not closed, or starts a new database there.
    pub(crate) fn open(storage: impl StorageBackend) -> Result<Self, BackendError> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(storage)?;
        Ok(Self { database })
    }

    /// Checks every page that can be reached against its checksum.
    pub(crate) fn check(&mut self) -> Result<(), BackendError> {
        if self.database.check_integrity()? {
            Ok(())
        } else {
            Err(BackendError::Damaged("its pages do not fit together".to_owned()))
        }
    }

    /// Writes everything that is in `state` into a new database.
    pub(crate) fn fill(&mut self, state: &State, lag: u64) -> Result<(), BackendError> {
        let mut batch = Batch { revision: state.revision, lag, ..Batch::default() };
        let mut bytes = 0;
        for object in state.objects() {
            bytes += object.value().len();
            batch.objects.insert(object.key().clone(), Some(Arc::clone(object)));
            if bytes > BULK_BYTES {
                self.commit(&batch)?;
                batch.objects.clear();
                bytes = 0;
            }
        }
        self.commit(&batch)
    }
}

impl Redb {
    /// The revision and the lag that were committed last.
    pub(crate) fn position(&self) -> Result<(u64, u64), BackendError> {
        let transaction = self.database.begin_read()?;
        let position = transaction.open_table(POSITION)?.get(())?.map(|record| record.value());
        position.ok_or_else(|| BackendError::Damaged("it does not say its revision".to_owned()))
    }

    /// Everything that was committed.
    pub(crate) fn load(&self) -> Result<Contents, BackendError> {
        let (revision, lag) = self.position()?;
        let transaction = self.database.begin_read()?;
        let mut state = State::new(revision);
        let mut resource = None;
        for record in transaction.open_table(OBJECTS)?.range::<&[u8]>(..)? {
            let (key, value) = record?;
            let object = decode(key.value(), value.value(), resource.as_ref(), revision)?;
            resource = Some(object.key().resource().clone());
            state.insert(Arc::new(object));
        }
        Ok(Contents { state, lag })
    }

    /// Makes a batch durable.
    pub(crate) fn commit(&mut self, batch: &Batch) -> Result<(), BackendError> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate).map_err(io::Error::other)?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for (key, object) in &batch.objects {
                let key = key.encode();
                let Some(object) = object else {
                    objects.remove(key.as_slice())?;
                    continue;
                };
                let value = object.value();
                let mut record = objects.insert_reserve(key.as_slice(), REVISION_LEN + value.len())?;
                let (revision, rest) = record.as_mut().split_at_mut(REVISION_LEN);
                revision.copy_from_slice(&object.revision().to_le_bytes());
                rest.copy_from_slice(value);
            }
        }
        transaction.open_table(POSITION)?.insert((), (batch.revision, batch.lag))?;
        transaction.commit()?;
        Ok(())
    }
}

fn decode(
    key: &[u8],
    record: &[u8],
    resource: Option<&crate::key::Resource>,
    newest: u64,
) -> Result<Object, BackendError> {
    let damaged = |what: &str| {
        let key = String::from_utf8_lossy(key).replace('\0', "/");
        BackendError::Damaged(format!("the record {key:?} {what}"))
    };
    let key = Key::decode(key, resource).ok_or_else(|| damaged("is not named as an object is"))?;
    let (revision, value) = record.split_first_chunk().ok_or_else(|| damaged("has no revision"))?;
    let revision = u64::from_le_bytes(*revision);
    if revision > newest {
        return Err(damaged(&format!("has revision {revision}, the store only {newest}")));
    }
    Ok(Object::new(key, revision, Bytes::copy_from_slice(value)))
}

/// What redb says about damage becomes [`BackendError::Damaged`], all else what the system said.
fn translate(error: redb::Error) -> BackendError {
    match error {
        redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            BackendError::Damaged("it is shorter than it was".to_owned())
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            BackendError::Damaged(lower(&error.to_string()))
        }
        redb::Error::Io(error) => error.into(),
        redb::Error::Corrupted(reason) => BackendError::Damaged(lower(&reason)),
        redb::Error::TableDoesNotExist(table) => BackendError::Damaged(format!("it has no table {table:?}")),
        error @ (redb::Error::TableTypeMismatch { .. }
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::UpgradeRequired(_)) => BackendError::Damaged(lower(&error.to_string())),
        other => io::Error::other(other.to_string()).into(),
    }
}

fn lower(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

macro_rules! translated {
    ($($error:ty),*) => {
        $(impl From<$error> for BackendError {
            fn from(error: $error) -> Self {
                translate(error.into())
            }
        })*
    };
}

translated!(
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError
);
