//! A durable, ordered, watchable store of objects.
//!
//! It knows keys and bytes, and nothing of what the bytes mean: that is the API server's part.
//!
//! - **One revision.** Every change of any object takes the next number. A write may expect an object to
//!   be absent or to have a revision; several writes can be one [`Transaction`].
//! - **Acknowledged means synced.** Writes that arrive while the disk is busy share one commit. There is
//!   a [relaxed](Options::relaxed) mode, which says what it gives up, and a mode
//!   [without a disk](Store::in_memory).
//! - **Reads are of memory.** A [`Snapshot`] is a pointer copy, of one revision, and never waits.
//! - **Watches resume.** A [`Watcher`] sees every change after a revision once and in order, or is told
//!   that the history no longer reaches that far. All watchers share each event and its encoding.
//!
//! ```
//! use windlass_store::{Expect, History, Key, Resource, Scope, Store};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::in_memory(History::default());
//! let machines = Resource::new("cluster.x-k8s.io/machines")?;
//! let key = Key::new(&machines, "default", "worker-1")?;
//!
//! let mut watcher = store.watch(Scope::from(&machines), store.revision())?;
//! let created = store.put(key.clone(), Expect::Absent, r#"{"phase":"Pending"}"#).await?;
//! store.put(key.clone(), Expect::Revision(created.revision()), r#"{"phase":"Running"}"#).await?;
//!
//! assert!(store.put(key, Expect::Revision(created.revision()), "{}").await.is_err());
//! assert_eq!(watcher.next().await?.object().value(), r#"{"phase":"Pending"}"#);
//! assert_eq!(watcher.next().await?.object().value(), r#"{"phase":"Running"}"#);
//! # Ok(())
//! # }
//! ```
//!
//! # Growth of the file
//!
//! The file grows to a few times of what is in it, because a commit never overwrites what the one before
//! needs; space is reused after that. If at the start it is far larger than needed, it is written anew.

mod backend;
mod backup;
mod data_dir;
mod error;
mod event;
mod key;
mod log;
mod object;
mod pending;
mod published;
mod state;
mod stats;
mod store;
mod transaction;
mod watch;
mod writer;

pub use backup::{Backup, Existing, RESTORE_JUMP, Restored, restore};
pub use error::{
    BackupError, CommitError, Conflict, Expired, IoError, KeyError, OpenError, RestoreError, SnapshotError,
    WatchError,
};
pub use event::{Event, EventKind};
pub use key::{Key, Resource, Scope};
pub use log::History;
pub use object::{Object, Value};
pub use state::Snapshot;
pub use stats::Stats;
pub use store::{Durability, Options, Store};
pub use transaction::{Committed, Expect, MAX_OPERATIONS, Transaction};
pub use watch::Watcher;
