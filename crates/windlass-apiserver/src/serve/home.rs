//! The data directory of a server, and how another process asks the running server for a backup.
//!
//! ```text
//! <data dir>/store/         the objects
//! <data dir>/pki/           certificates, keys and tokens made at the first start
//! <data dir>/control.sock   while a server runs
//! ```

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use windlass_store::{Backup, BackupError, Existing, OpenError, Store};

/// Longest request on the control socket: a path.
const MAX_REQUEST: u64 = 64 * 1024;

/// A data directory.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

impl Home {
    /// The data directory at this path, which need not exist yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// Makes the directory if it is missing, for its owner only: everything in it is secret.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn create(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    /// Where the objects are.
    pub fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    /// Where the credentials are.
    pub fn pki(&self) -> PathBuf {
        self.0.join("pki")
    }

    fn socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// Answers requests for backups of `store` until the guard is dropped. Only for the process that has the
    /// store open: the socket of a server that is gone is replaced.
    ///
    /// # Errors
    ///
    /// When the socket cannot be made, for example because the path of the directory is too long for one.
    pub fn control(&self, store: Store) -> io::Result<Control> {
        let path = self.socket();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let store = store.clone();
                tokio::spawn(async move {
                    // The caller may have gone away.
                    let _ = answer(stream, &store).await;
                });
            }
        });
        Ok(Control { task, path })
    }

    /// Writes a backup of this data directory to `file`, whether a server runs on it or not.
    ///
    /// # Errors
    ///
    /// When there is no store, it cannot be read, or the file cannot be written.
    pub async fn backup(&self, file: &Path, existing: Existing) -> Result<Backup, HomeBackupError> {
        // The server has a working directory of its own.
        let file = std::path::absolute(file).map_err(HomeBackupError::Path)?;
        if !self.store().is_dir() {
            return Err(HomeBackupError::NoStore { directory: self.0.clone() });
        }
        if existing == Existing::Refuse && file.symlink_metadata().is_ok() {
            return Err(BackupError::Exists { file }.into());
        }
        match Store::open(self.store(), &windlass_store::Options::new()) {
            Ok(store) => Ok(store.backup_unless(&file, existing).await?),
            Err(OpenError::InUse { .. }) => self.ask_server(&file, existing).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn ask_server(&self, file: &Path, existing: Existing) -> Result<Backup, HomeBackupError> {
        let silent = |source| HomeBackupError::Silent { directory: self.0.clone(), source };
        let mut stream = UnixStream::connect(self.socket()).await.map_err(silent)?;
        let request = Request { backup: file.to_owned(), overwrite: existing == Existing::Replace };
        let line = serde_json::to_string(&request).map_err(|error| silent(error.into()))?;
        stream.write_all(format!("{line}\n").as_bytes()).await.map_err(silent)?;
        let mut text = String::new();
        stream.take(MAX_REQUEST).read_to_string(&mut text).await.map_err(silent)?;
        match serde_json::from_str(&text).map_err(|error| silent(error.into()))? {
            Answer::Written { revision, objects, bytes } => Ok(Backup { revision, objects, bytes }),
            Answer::Error(message) => Err(HomeBackupError::Server(message)),
        }
    }
}

/// Answers on the control socket as long as it lives.
#[derive(Debug)]
pub struct Control {
    task: JoinHandle<()>,
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
        // The next server replaces it if it stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeBackupError {
    /// The directory has no store.
    #[error("{} is not a data directory: it has no store", directory.display())]
    NoStore {
        /// The directory.
        directory: PathBuf,
    },
    /// The name of the file cannot be resolved.
    #[error("cannot resolve the name of the backup: {0}")]
    Path(io::Error),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The backup cannot be written.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// Another process has the store open and does not answer.
    #[error("data directory {} is in use, and who uses it does not answer: {source}", directory.display())]
    Silent {
        /// The directory.
        directory: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The server could not write it.
    #[error("{0}")]
    Server(String),
}

#[derive(Serialize, Deserialize)]
struct Request {
    backup: PathBuf,
    #[serde(default)]
    overwrite: bool,
}

impl Request {
    fn existing(&self) -> Existing {
        if self.overwrite { Existing::Replace } else { Existing::Refuse }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Written { revision: u64, objects: u64, bytes: u64 },
    Error(String),
}

async fn answer(stream: UnixStream, store: &Store) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(MAX_REQUEST)).read_line(&mut line).await?;
    let answer = match serde_json::from_str::<Request>(&line) {
        Err(error) => Answer::Error(format!("not a request: {error}")),
        Ok(request) => match store.backup_unless(&request.backup, request.existing()).await {
            Ok(Backup { revision, objects, bytes }) => Answer::Written { revision, objects, bytes },
            Err(error) => Answer::Error(error.to_string()),
        },
    };
    write.write_all(serde_json::to_string(&answer)?.as_bytes()).await?;
    write.shutdown().await
}

#[cfg(test)]
mod tests {
    use windlass_store::{Expect, Key, Options, Resource, restore};

    use super::*;

    fn key() -> Key {
        Key::new(&Resource::new("core/configmaps").unwrap(), "default", "c1").unwrap()
    }

    #[tokio::test]
    async fn a_backup_is_the_same_whether_a_server_runs_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("data"));
        let (running, stopped) = (directory.path().join("running"), directory.path().join("stopped"));
        let store = Store::open(home.store(), &Options::new()).unwrap();
        store.put(key(), Expect::Absent, "{}").await.unwrap();
        let control = home.control(store.clone()).unwrap();
        let first = home.backup(&running, Existing::Refuse).await.unwrap();
        drop(control);
        store.close().await.unwrap();
        drop(store);
        let second = home.backup(&stopped, Existing::Refuse).await.unwrap();
        assert_eq!((first.revision, first.objects), (1, 1));
        assert_eq!(first, second);
        assert_eq!(std::fs::read(running).unwrap(), std::fs::read(&stopped).unwrap());
        let again = home.backup(&stopped, Existing::Refuse).await.unwrap_err();
        assert!(again.to_string().ends_with("exists already"), "{again}");
        assert_eq!(home.backup(&stopped, Existing::Replace).await.unwrap(), second);

        let other = Home::new(directory.path().join("other"));
        restore(&stopped, other.store(), Existing::Refuse).unwrap();
        let restored = Store::open(other.store(), &Options::new()).unwrap();
        assert_eq!(restored.get(&key()).unwrap().value(), "{}");
    }

    #[tokio::test]
    async fn what_stands_in_the_way_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("data"));
        let missing = home.backup(&directory.path().join("b"), Existing::Refuse).await.unwrap_err();
        assert!(missing.to_string().contains("is not a data directory"), "{missing}");
        let store = Store::open(home.store(), &Options::new()).unwrap();
        let silent = home.backup(&directory.path().join("b"), Existing::Refuse).await.unwrap_err();
        assert!(silent.to_string().contains("does not answer"), "{silent}");
        let _control = home.control(store).unwrap();
        let unwritable =
            home.backup(&directory.path().join("no/such/dir/b"), Existing::Refuse).await.unwrap_err();
        assert!(matches!(unwritable, HomeBackupError::Server(_)), "{unwritable}");
    }
}
