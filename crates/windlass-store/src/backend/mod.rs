//! Where batches are made to last.
//!
//! All objects live in memory, so a backend is only asked for everything at the start, and then to make
//! one batch after the other durable. Backups are written from memory too. That is all there is to
//! replacing one engine by another.

#[cfg(test)]
mod crash_tests;
pub(crate) mod redb;
pub(crate) mod storage;

use std::io;

use thiserror::Error;

use crate::pending::Batch;
use crate::state::State;

/// A durable home for objects, used by one thread at a time.
pub(crate) trait Backend: Send {
    /// Everything that was committed.
    fn load(&self) -> Result<Contents, BackendError>;

    /// Makes a batch durable: when this returns, the batch outlives the power supply; if the process
    /// ends before, all of the batch is there at the next start or none of it.
    fn commit(&mut self, batch: &Batch) -> Result<(), BackendError>;
}

/// What a backend holds.
pub(crate) struct Contents {
    pub(crate) state: State,
    /// How many revisions after that of the state may have been acknowledged and lost: see
    /// [`Batch::lag`].
    pub(crate) lag: u64,
}

/// Why a backend failed.
#[derive(Debug, Error)]
pub(crate) enum BackendError {
    #[error("{0}")]
    Damaged(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}
