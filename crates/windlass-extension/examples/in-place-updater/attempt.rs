//! One run of the command, in a process of its own: it goes on when the extension is restarted.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::updates::write_atomically;

/// As much of the end of the output as fits into a message that a person reads.
const TAIL_BYTES: i64 = 1024;

/// The word that makes this program run an attempt instead of the extension.
pub(crate) const ATTEMPT: &str = "attempt";

/// What to run and where to write down how it ended.
#[derive(clap::Parser)]
pub(crate) struct Attempt {
    #[arg(long)]
    number: u64,
    #[arg(long)]
    outcome: PathBuf,
    #[arg(long)]
    log: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// How an attempt ended.
#[derive(Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) number: u64,
    pub(crate) succeeded: bool,
    pub(crate) how: String,
    pub(crate) tail: String,
    /// Seconds since 1970.
    pub(crate) at: u64,
}

impl Attempt {
    pub(crate) fn run(self) -> io::Result<()> {
        let log = File::create(&self.log)?;
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| io::Error::other("the command is empty"))?;
        // Standard input is the lock, an empty file. The command inherits it: should this process be killed,
        // the lock is held until the command has ended as well, and no second one is begun beside it.
        let status = Command::new(program)
            .args(arguments)
            .stdin(Stdio::inherit())
            .stdout(log.try_clone()?)
            .stderr(log)
            .status();
        let (succeeded, how) = match status {
            Ok(status) => (status.success(), status.to_string()),
            Err(error) => (false, format!("cannot run {program}: {error}")),
        };
        let at = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let outcome = Outcome { number: self.number, succeeded, how, tail: tail(&self.log)?, at };
        write_atomically(&self.outcome, &serde_json::to_vec(&outcome)?)
    }
}

fn tail(log: &Path) -> io::Result<String> {
    let mut log = File::open(log)?;
    let length = i64::try_from(log.metadata()?.len()).unwrap_or(i64::MAX);
    log.seek(SeekFrom::End(-length.min(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
