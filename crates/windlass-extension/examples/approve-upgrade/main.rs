//! Holds upgrades until an operator approves them: with a file, or with an annotation on the Cluster.
//!
//! ```text
//! cargo run -p windlass-extension --example approve-upgrade -- --approvals /tmp/approvals
//! touch /tmp/approvals/default_my-cluster             # any version
//! echo v1.33.1 > /tmp/approvals/default_my-cluster    # this version only
//! kubectl annotate cluster my-cluster windlass.dev/approve-upgrade=v1.33.1
//! ```

#[path = "../shared/object_file.rs"]
mod object_file;
#[path = "../shared/serving.rs"]
mod serving;

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use windlass_extension::hooks::{
    BeforeClusterUpgrade, BeforeClusterUpgradeRequest, BeforeClusterUpgradeResponse, HookResponse,
    RetryResponse,
};
use windlass_extension::{Extension, Handler};

use crate::object_file::object_file;
use crate::serving::Serving;

/// Holds upgrades until an operator approves them.
///
/// Prints an ExtensionConfig for kubectl and serves until it is told to end. An upgrade is approved by a file
/// <namespace>_<name> in the directory, empty or with the approved versions in it, or by an annotation of the
/// Cluster whose value is the approved version.
#[derive(Parser)]
#[command(name = "approve-upgrade")]
struct Arguments {
    /// Directory with one file per approved Cluster
    #[arg(long, value_name = "DIR")]
    approvals: PathBuf,
    /// Annotation of a Cluster that names the approved version
    #[arg(long, value_name = "KEY", default_value = "windlass.dev/approve-upgrade")]
    annotation: String,
    /// How long the caller waits before it asks again
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    retry_after: u32,
    #[command(flatten)]
    serving: Serving,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { approvals, annotation, retry_after, serving } = Arguments::parse();
    let gate = Arc::new(Gate { approvals, annotation, retry_after });
    let extension = Extension::new("approve-upgrade")
        .on(BeforeClusterUpgrade, Handler::named("approve-upgrade").timeout_seconds(5), move |_, request| {
            let gate = Arc::clone(&gate);
            async move { gate.decide(&request) }
        })
        .build()?;
    serving.serve(extension).await
}

struct Gate {
    approvals: PathBuf,
    annotation: String,
    retry_after: u32,
}

impl Gate {
    fn decide(&self, request: &BeforeClusterUpgradeRequest) -> Result<BeforeClusterUpgradeResponse, String> {
        let (cluster, version) = (&request.cluster, request.to_kubernetes_version.as_str());
        let file = object_file(cluster)?;
        let annotated = cluster.annotation(&self.annotation) == Some(version);
        if annotated || approved_by(&self.approvals.join(&file), version)? {
            return Ok(BeforeClusterUpgradeResponse::success());
        }
        let message = format!(
            "upgrade to {version} waits for approval: annotation {}={version} or file {file}",
            self.annotation
        );
        Ok(BeforeClusterUpgradeResponse::blocking(message, self.retry_after))
    }
}

/// An empty file approves every version, any other those that it lists.
fn approved_by(file: &Path, version: &str) -> Result<bool, String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.trim().is_empty() || text.split_whitespace().any(|listed| listed == version)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("cannot read {}: {error}", file.display())),
    }
}
