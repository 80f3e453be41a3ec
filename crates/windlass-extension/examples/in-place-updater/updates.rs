//! What was done for which Machine, on disk.
//!
//! Every start of the command is an attempt with a number. Its files, for the Machine `ns_name`:
//!
//! - `ns_name.attempt.json`: the last attempt that was begun, and for what; written before it begins
//! - `ns_name.outcome.json`: how an attempt ended; written by the attempt itself, not by the extension
//! - `ns_name.N.lock`: locked as long as anything of attempt N runs, also when the extension does not
//! - `updater.lock`: locked as long as an updater uses the directory
//! - `ns_name.desired.json`, `ns_name.log`: what the command reads and what it printed
//!
//! An attempt without an outcome runs if its lock is held, and was interrupted if it is not.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_extension::hooks::MachineObjects;

use crate::attempt::{ATTEMPT, Outcome};
use crate::object_file::object_file;

/// One Machine and what it shall become.
pub(crate) struct Update {
    file: String,
    namespace: String,
    name: String,
    version: String,
    hash: String,
    desired: Value,
}

impl Update {
    /// `covered` is the part of the objects that the command brings about; updates that agree in it are one.
    pub(crate) fn new(objects: &MachineObjects, covered: &Value) -> Result<Self, String> {
        let machine = &objects.machine;
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let mut hash = Sha256::new();
        hash_value(covered, &mut hash);
        Ok(Self {
            file: object_file(machine)?,
            namespace: text(machine.namespace()),
            name: text(machine.name()),
            version: text(machine.pointer("/spec/version").and_then(Value::as_str)),
            hash: hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
            desired: serde_json::to_value(objects).map_err(|error| error.to_string())?,
        })
    }
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} to {}", self.namespace, self.name, self.version)
    }
}

/// Where an update is.
pub(crate) enum Progress {
    Done,
    Running,
    /// An update of the same Machine to something else has not ended yet.
    BehindAnother,
    /// As many Machines as allowed are being updated.
    BehindOthers,
    Failed {
        how: String,
        tail: String,
    },
}

/// The updates of all Machines.
pub(crate) struct Updates {
    directory: PathBuf,
    command: Vec<String>,
    max_parallel: usize,
    back_off: Duration,
    /// Callers repeat themselves, also at the same time.
    one_at_a_time: Mutex<()>,
    /// Locked as long as this process lives. Two updaters would each begin what the other has begun.
    _owned: File,
}

#[derive(Serialize, Deserialize)]
struct Begun {
    number: u64,
    hash: String,
}

impl Updates {
    pub(crate) fn open(
        directory: PathBuf,
        command: &str,
        max_parallel: usize,
        back_off: Duration,
    ) -> Result<Self, String> {
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if command.is_empty() {
            return Err("the command is empty".to_owned());
        }
        let unusable = |error: io::Error| format!("cannot use the state directory: {error}");
        std::fs::create_dir_all(&directory).map_err(unusable)?;
        let directory = directory.canonicalize().map_err(unusable)?;
        let owned = File::create(directory.join("updater.lock")).map_err(unusable)?;
        if owned.try_lock().is_err() {
            return Err("another updater uses the state directory".to_owned());
        }
        let one_at_a_time = Mutex::default();
        Ok(Self { directory, command, max_parallel, back_off, one_at_a_time, _owned: owned })
    }

    /// Begins the update if it is time for it, and tells where it is.
    pub(crate) fn advance(&self, update: &Update) -> io::Result<Progress> {
        let _one = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let begun: Option<Begun> = read(&self.path(&update.file, "attempt.json"))?;
        let number = match &begun {
            None => 0,
            Some(begun) => match self.outcome(&update.file, begun)? {
                None if self.is_running(&update.file, begun.number)? => {
                    let same = begun.hash == update.hash;
                    return Ok(if same { Progress::Running } else { Progress::BehindAnother });
                }
                Some(outcome) if begun.hash == update.hash => {
                    if outcome.succeeded {
                        return Ok(Progress::Done);
                    }
                    let since = SystemTime::UNIX_EPOCH + Duration::from_secs(outcome.at);
                    // A clock that was set back must not hold the update for ever.
                    if since.elapsed().is_ok_and(|elapsed| elapsed < self.back_off) {
                        return Ok(Progress::Failed { how: outcome.how, tail: outcome.tail });
                    }
                    begun.number
                }
                // Interrupted, or for something else: again.
                _ => begun.number,
            },
        };
        if self.running()? >= self.max_parallel {
            return Ok(Progress::BehindOthers);
        }
        self.begin(update, number)?;
        Ok(Progress::Running)
    }

    fn begin(&self, update: &Update, previous: u64) -> io::Result<()> {
        let number = previous + 1;
        let file = |what: &str| self.path(&update.file, what);
        let lock = File::create(self.lock(&update.file, number))?;
        lock.try_lock()?;
        write_atomically(&file("desired.json"), &serde_json::to_vec_pretty(&update.desired)?)?;
        let begun = Begun { number, hash: update.hash.clone() };
        write_atomically(&file("attempt.json"), &serde_json::to_vec(&begun)?)?;

        let desired = file("desired.json");
        let command = self.command.iter().map(|word| {
            word.replace("{namespace}", &update.namespace)
                .replace("{name}", &update.name)
                .replace("{version}", &update.version)
                .replace("{desired}", &desired.display().to_string())
        });
        let mut attempt = Command::new(std::env::current_exe()?);
        attempt
            .arg(ATTEMPT)
            .args(["--number", &number.to_string()])
            .arg("--outcome")
            .arg(file("outcome.json"))
            .arg("--log")
            .arg(file("log"))
            .arg("--")
            .args(command)
            .env("WINDLASS_DESIRED", &desired)
            // The attempt inherits the lock with the open file, so it is held without a gap until the end.
            .stdin(Stdio::from(lock))
            .stdout(Stdio::null());
        // A group of its own: Ctrl-C for the extension is not meant for the Machine.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut attempt, 0);
        let mut child = attempt.spawn()?;
        // It must be waited for, or it stays in the process table.
        std::thread::spawn(move || child.wait());
        // Not worth an error: an old lock file says nothing any more.
        let _ = std::fs::remove_file(self.lock(&update.file, previous));
        Ok(())
    }

    fn outcome(&self, file: &str, begun: &Begun) -> io::Result<Option<Outcome>> {
        let outcome: Option<Outcome> = read(&self.path(file, "outcome.json"))?;
        Ok(outcome.filter(|outcome| outcome.number == begun.number))
    }

    /// How many Machines are being updated, also by attempts that an earlier process began.
    fn running(&self) -> io::Result<usize> {
        let mut count = 0;
        for entry in std::fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let Some(file) = name.to_str().and_then(|name| name.strip_suffix(".attempt.json")) else {
                continue;
            };
            let Some(begun) = read::<Begun>(&self.path(file, "attempt.json"))? else { continue };
            if self.outcome(file, &begun)?.is_none() && self.is_running(file, begun.number)? {
                count += 1;
            }
        }
        Ok(count)
    }

    fn is_running(&self, file: &str, number: u64) -> io::Result<bool> {
        match File::open(self.lock(file, number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
            Ok(lock) => match lock.try_lock() {
                Ok(()) => Ok(false),
                Err(TryLockError::WouldBlock) => Ok(true),
                Err(TryLockError::Error(error)) => Err(error),
            },
        }
    }

    fn lock(&self, file: &str, number: u64) -> PathBuf {
        self.path(file, &format!("{number}.lock"))
    }

    fn path(&self, file: &str, what: &str) -> PathBuf {
        self.directory.join(format!("{file}.{what}"))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A reader sees the old content or the new, also after a crash.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::create(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    // The new name is on disk only when the directory is.
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// Hashes by content: the order of fields is not part of it.
fn hash_value(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            hash.update(format!("{{{}", fields.len()));
            for (key, value) in fields {
                hash_value(&Value::from(key.as_str()), hash);
                hash_value(value, hash);
            }
        }
        Value::Array(items) => {
            hash.update(format!("[{}", items.len()));
            items.iter().for_each(|item| hash_value(item, hash));
        }
        scalar => hash.update(format!("{scalar},")),
    }
}
