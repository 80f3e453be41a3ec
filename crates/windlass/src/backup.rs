//! `windlass backup` and `windlass restore`.

use std::path::PathBuf;

use clap::Args;
use windlass_apiserver::serve::{Home, HomeBackupError};
use windlass_store::{BackupError, Existing, restore};

use crate::exit::Failure;
use crate::output;
use crate::serve::data_dir;

/// Write a backup of a data directory, also while a server runs on it
#[derive(Args)]
#[command(after_help = "\
The file appears complete and synced, or not at all. It has the objects as they were at one moment, Secrets
included: keep it as safe as the data directory. Certificates and tokens are not in it.

Examples:
  windlass backup windlass-backup
  windlass backup --data-dir /var/lib/windlass /backups/windlass-$(date +%F)")]
pub(crate) struct BackupCommand {
    /// File to write
    file: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    overwrite: bool,
    /// Data directory; left out, windlass below the user's data directory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Restore a backup into a data directory
#[derive(Args)]
#[command(after_help = "\
The backup is checked before anything is written. Revisions go on far beyond those of the backup, so that every
client notices and lists again. A server must not run on the directory meanwhile; that is checked too.

Examples:
  windlass restore windlass-backup
  windlass restore --data-dir /var/lib/windlass --replace /backups/windlass-2026-11-15")]
pub(crate) struct RestoreCommand {
    /// File that windlass backup wrote
    file: PathBuf,
    /// Data directory; left out, windlass below the user's data directory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Replace what is there; it is kept beside the restored store
    #[arg(long)]
    replace: bool,
}

pub(crate) async fn backup(command: BackupCommand) -> Result<(), Failure> {
    let home = Home::new(data_dir(command.data_dir.as_deref())?);
    let existing = if command.overwrite { Existing::Replace } else { Existing::Refuse };
    let backup = home.backup(&command.file, existing).await;
    let backup = backup.map_err(|error| match error {
        HomeBackupError::Backup(BackupError::Exists { .. }) => {
            Failure::Refused(format!("{error}\n--overwrite replaces it"))
        }
        error => Failure::Failed(error.to_string()),
    })?;
    output::print(&format!(
        "Backed up {} objects at revision {} into {} ({} bytes).\n",
        backup.objects,
        backup.revision,
        command.file.display(),
        backup.bytes
    ))
}

pub(crate) fn restored(command: &RestoreCommand) -> Result<(), Failure> {
    let home = Home::new(data_dir(command.data_dir.as_deref())?);
    let existing = if command.replace { Existing::Replace } else { Existing::Refuse };
    let restored =
        restore(&command.file, home.store(), existing).map_err(|error| Failure::Failed(error.to_string()))?;
    output::print(&format!(
        "Restored {} objects of revision {} into {}; revisions go on from {}.\n",
        restored.backup.objects,
        restored.backup.revision,
        home.store().display(),
        restored.revision
    ))
}
