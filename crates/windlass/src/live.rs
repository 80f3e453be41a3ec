//! Clusters of a management cluster that are read and not changed, or files that were saved of them.

use std::path::{Path, PathBuf};

use clap::Args;
use windlass_simulate::{Snapshot, SnapshotError};

use crate::exit::Failure;
use crate::kubeconfig::ApiArguments;
use crate::output;
use crate::runtime;

/// The most that is read of a saved snapshot: a cluster with some thousand machines.
const LARGEST: u64 = 512 * 1024 * 1024;

/// Where a live Cluster is read from.
#[derive(Args)]
pub(crate) struct LiveArguments {
    /// Namespace of the Cluster; left out, that of the context
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    #[command(flatten)]
    api: ApiArguments,
    /// Save what was read of the Cluster in a file, for --snapshot
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// File that --save wrote, instead of a management cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["save", "namespace", "kubeconfig", "context"])]
    snapshot: Option<PathBuf>,
}

impl LiveArguments {
    /// Whether there is a file to read instead of a management cluster.
    pub(crate) fn has_file(&self) -> bool {
        self.snapshot.is_some()
    }

    /// The snapshot of a Cluster, from the management cluster or from a file.
    pub(crate) fn read(&self, name: Option<&str>) -> Result<Snapshot, Failure> {
        match (&self.snapshot, name) {
            (Some(file), _) => saved(file),
            (None, Some(name)) => {
                let snapshot = runtime::on_one_thread(self.read_live(name))?;
                if let Some(file) = &self.save {
                    save(&snapshot, file)?;
                }
                Ok(snapshot)
            }
            (None, None) => Err(Failure::Invalid("name a Cluster, or a file with --snapshot".to_owned())),
        }
    }

    async fn read_live(&self, name: &str) -> Result<Snapshot, Failure> {
        let (client, default_namespace) = self.api.connect().await?;
        let namespace = self.namespace.as_deref().unwrap_or(&default_namespace);
        let read = Snapshot::read(&client, namespace, name, jiff::Timestamp::now()).await;
        read.map_err(|error| match error {
            SnapshotError::NotFound { .. } => Failure::Invalid(error.to_string()),
            other => Failure::Failed(other.to_string()),
        })
    }
}

fn saved(file: &Path) -> Result<Snapshot, Failure> {
    let text = output::read_file(file, LARGEST).map_err(Failure::Invalid)?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::Invalid(format!("{} is no snapshot that this program saved: {error}", file.display()))
    })
}

fn save(snapshot: &Snapshot, file: &Path) -> Result<(), Failure> {
    let cannot =
        |error: &dyn std::fmt::Display| Failure::Failed(format!("cannot write {}: {error}", file.display()));
    let text = serde_json::to_string_pretty(snapshot).map_err(|error| cannot(&error))?;
    std::fs::write(file, text + "\n").map_err(|error| cannot(&error))
}
