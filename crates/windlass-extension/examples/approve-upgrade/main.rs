//! Holds upgrades until an operator approves them: with a file, or with an annotation on the Cluster. With `--steps`, every
//! step of a chained upgrade is approved for itself: `control-plane/v1.31.2`, `workers/v1.32.0`, `cluster/v1.33.0`.
//!
//! ```text
//! cargo run -p windlass-extension --example approve-upgrade -- --approvals /tmp/approvals
//! touch /tmp/approvals/default_my-cluster             # everything
//! echo v1.33.1 > /tmp/approvals/default_my-cluster    # the upgrade to this version only
//! kubectl annotate cluster my-cluster windlass.dev/approve-upgrade=v1.33.1
//!
//! cargo run -p windlass-extension --example approve-upgrade -- --approvals /tmp/approvals \
//!     --steps cluster,control-plane,workers
//! mkdir -p /tmp/approvals/default_my-cluster/control-plane
//! touch /tmp/approvals/default_my-cluster/control-plane/v1.31.2    # one file per step
//! kubectl annotate cluster my-cluster windlass.dev/approve-upgrade=cluster/v1.33.0,workers/v1.32.0
//! ```

#[path = "../shared/object_file.rs"]
mod object_file;
#[path = "../shared/serving.rs"]
mod serving;

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use windlass_extension::hooks::{
    BeforeClusterUpgrade, BeforeControlPlaneUpgrade, BeforeWorkersUpgrade, RetryResponse,
};
use windlass_extension::{Extension, Handler, Object};

use crate::object_file::object_file;
use crate::serving::Serving;

/// Holds upgrades until an operator approves them.
///
/// Prints an ExtensionConfig for kubectl and serves until it is told to end. A step is approved by a file
/// <namespace>_<name> in the directory, empty or with the approved steps in it, by a file of its own
/// <namespace>_<name>/<step>, or by an annotation of the Cluster whose value are the approved steps.
#[derive(Parser)]
#[command(name = "approve-upgrade")]
struct Arguments {
    /// Directory with one file per approved Cluster
    #[arg(long, value_name = "DIR")]
    approvals: PathBuf,
    /// What needs an approval
    #[arg(long, value_name = "STEPS", value_enum, value_delimiter = ',', default_values_t = [Steps::Cluster])]
    steps: Vec<Steps>,
    /// Annotation of a Cluster that names the approved steps
    #[arg(long, value_name = "KEY", default_value = "windlass.dev/approve-upgrade")]
    annotation: String,
    /// How long the caller waits before it asks again
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    retry_after: u32,
    #[command(flatten)]
    serving: Serving,
}

/// The steps of an upgrade, as they are called in approvals.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Steps {
    /// The upgrade as a whole: `cluster/<target>`, or the target alone
    Cluster,
    /// Every version of the control plane: `control-plane/<version>`
    ControlPlane,
    /// Every version of the workers: `workers/<version>`
    Workers,
}

impl Steps {
    const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::ControlPlane => "control-plane",
            Self::Workers => "workers",
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { approvals, steps, annotation, retry_after, serving } = Arguments::parse();
    let gate = Arc::new(Gate { approvals, annotation, retry_after });
    let mut extension = Extension::new("approve-upgrade");
    /// Adds a handler for the hook before a step, if the step needs an approval.
    macro_rules! approve {
        ($hook:ident before $step:expr, as $name:literal) => {
            if steps.contains(&$step) {
                let gate = Arc::clone(&gate);
                extension =
                    extension.on($hook, Handler::named($name).timeout_seconds(5), move |_, request| {
                        let gate = Arc::clone(&gate);
                        async move { gate.decide($step, &request.cluster, &request.to_kubernetes_version) }
                    });
            }
        };
    }
    approve!(BeforeClusterUpgrade before Steps::Cluster, as "approve-upgrade");
    approve!(BeforeControlPlaneUpgrade before Steps::ControlPlane, as "approve-control-plane");
    approve!(BeforeWorkersUpgrade before Steps::Workers, as "approve-workers");
    serving.serve(extension.build()?).await
}

struct Gate {
    approvals: PathBuf,
    annotation: String,
    retry_after: u32,
}

impl Gate {
    fn decide<R: RetryResponse>(&self, step: Steps, cluster: &Object, version: &str) -> Result<R, String> {
        let file = object_file(cluster)?;
        let step = Step::new(step, version)?;
        let annotated = cluster.annotation(&self.annotation).is_some_and(|steps| step.is_among(steps));
        if annotated || step.is_approved_by(&self.approvals.join(&file))? {
            return Ok(R::success());
        }
        let message = format!(
            "upgrade to {version} waits for approval: annotation {}={} or file {file}",
            self.annotation,
            step.shortest()
        );
        let message = match step.of {
            Steps::Cluster => message,
            _ => format!("{message}/{}", step.name()),
        };
        Ok(R::blocking(message, self.retry_after))
    }
}

/// One step of an upgrade.
struct Step<'a> {
    of: Steps,
    version: &'a str,
}

impl<'a> Step<'a> {
    /// The version becomes a part of a path, so that it must be nothing else than a version.
    fn new(of: Steps, version: &'a str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        if version.starts_with('v') && version.chars().all(allowed) {
            Ok(Self { of, version })
        } else {
            Err(format!("{version:?} is not a Kubernetes version"))
        }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.of.name(), self.version)
    }

    /// What approves it with the fewest letters.
    fn shortest(&self) -> String {
        if self.of == Steps::Cluster { self.version.to_owned() } else { self.name() }
    }

    /// Whether a list has it. A version alone is the upgrade as a whole.
    fn is_among(&self, list: &str) -> bool {
        let mut listed = list.split(|c: char| c.is_whitespace() || c == ',');
        listed.any(|listed| listed == self.name() || listed == self.shortest())
    }

    /// An empty file approves every step, any other those that it lists. A directory has one file per step.
    fn is_approved_by(&self, path: &Path) -> Result<bool, String> {
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(text.trim().is_empty() || self.is_among(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                path.join(self.name()).try_exists().map_err(failed)
            }
            Err(error) => Err(failed(error)),
        }
    }
}
