//! Where batches are made to last.
//!
//! All objects live in memory, so what a backend has is read once, at the start; then it is asked to make
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
    /// Makes a batch durable: when this returns, the batch outlives the power supply; if the process
    /// ends before, all of the batch is there at the next start or none of it.
    fn commit(&mut self, batch: &Batch) -> Result<(), BackendError>;

    /// Gets back to work after a commit that failed, and tells the revision that is there: the batch was committed
    /// or it was not. Fails as long as the disk does, and with [`BackendError::Damaged`] if what is there cannot be told: then
    /// it has to be [written anew](Self::rewrite).
    fn recover(&mut self) -> Result<u64, BackendError>;

    /// Replaces everything that is there by `state`, in one step, and goes on from it.
    fn rewrite(&mut self, state: &State, lag: u64) -> Result<(), BackendError>;
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
