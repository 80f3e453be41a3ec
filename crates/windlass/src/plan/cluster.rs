//! `windlass plan cluster`: the plan for the Cluster of a manifest, and where its annotations stop it.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::Cluster;
use windlass_engine::topology::{NoPath, Observed, Plan, PlanSource, stops};
use windlass_plan::{PlanDocument, Source};
use windlass_version::Version;

use super::{INVALID, class, input, refuse_plan, table};
use crate::exit::Failure;
use crate::manifests;
use crate::output::{self, Format};
use crate::stops::{self as shown, StopDocument};

/// Largest manifest file that is read. An API server takes no request above 3 MiB, so no object is larger.
const MAX_FILE: u64 = 3 * 1024 * 1024;

/// Plan the upgrade of the Cluster in a manifest, and show where its annotations and pins stop it
#[derive(Args)]
#[command(after_help = "\
The Cluster is taken to be at the version of its manifest, or at --from; worker groups that are pinned are at their
pin. Holds, approvals, deferred and held entries are those of the manifest. The versions are those of the ClusterClass
among the manifests, if there is one.

Examples:
  windlass plan cluster -f cluster.yaml --to v1.33.0
  windlass plan cluster -f class.yaml -f cluster.yaml --to v1.33.0 -o json
  windlass plan cluster -f cluster.yaml --from v1.30.0 --versions v1.31.2,v1.32.0,v1.33.0")]
pub(super) struct ClusterCommand {
    /// File or directory with manifests, or - for the standard input; may be given more than once
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// Version that everything is at now; left out, spec.topology.version of the Cluster
    #[arg(long, value_name = "V")]
    from: Option<String>,
    /// Version that everything shall reach; left out, spec.topology.version of the Cluster
    #[arg(long, value_name = "V", required_unless_present = "from")]
    to: Option<String>,
    /// Versions that may be used, old to new; left out, those of the ClusterClass
    #[arg(long, value_name = "V,...")]
    versions: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// A plan, and where it stops.
#[derive(Serialize)]
struct SteeredPlan {
    #[serde(flatten)]
    plan: Option<PlanDocument>,
    stops: Vec<StopDocument>,
}

pub(super) fn run(command: &ClusterCommand) -> Result<(), Failure> {
    let manifests = manifests::read(&command.filename, MAX_FILE)?;
    let cluster = cluster(&manifests).map_err(Failure::Invalid)?;
    let source = match &command.versions {
        Some(versions) => input::listed(Some(versions)),
        None => match manifests.iter().any(class::is_class) {
            true => class::of_documents(&manifests).map_err(Failure::Invalid)?,
            false => Source::OneMinor,
        },
    };
    let written =
        cluster.spec.topology.as_ref().map(|topology| topology.version.as_str()).unwrap_or_default();
    let version = |flag: &str, text: &Option<String>| {
        let (name, text) = text.as_ref().map_or(("spec.topology.version", written), |text| (flag, text));
        Version::parse(text).map_err(|error| Failure::Invalid(format!("{name}: {error}")))
    };
    let (from, to) = (version("--from", &command.from)?, version("--to", &command.to)?);
    let observed = Observed::of_manifest(&cluster, &from, &to, PlanSource::Known(source));
    let observed = observed
        .map_err(|error| Failure::Invalid(format!("{INVALID}: version of a worker group: {error}")))?;
    let plan = match Plan::compute(&observed) {
        Plan::None(NoPath::Refused(refusal)) => {
            return refuse_plan(command.output.into(), &from, &to, &refusal);
        }
        Plan::None(no_path) => return Err(Failure::Refused(no_path.to_string())),
        Plan::Steps(plan) => Some(plan),
        Plan::NotNeeded => None,
    };
    let stops = StopDocument::all(&stops(&observed), &cluster);
    match command.output {
        Format::Table => {
            let nothing = || format!("Nothing to do: everything is at {to}.\n");
            let steps = plan.as_ref().map_or_else(nothing, |plan| table::render_steps(plan));
            output::print(&(steps + &shown::render(&stops)))
        }
        format => {
            let plan = plan.as_deref().map(PlanDocument::from);
            output::print_document(format, &SteeredPlan { plan, stops })
        }
    }
}

/// The one Cluster with a topology.
fn cluster(manifests: &[Value]) -> Result<Cluster, String> {
    let is_cluster = |object: &&Value| object["kind"] == "Cluster" && object["spec"]["topology"].is_object();
    let found: Vec<&Value> = manifests.iter().filter(is_cluster).collect();
    let [cluster] = found.as_slice() else {
        let count = found.len();
        return Err(format!("the manifests must have one Cluster with spec.topology, there are {count}"));
    };
    serde_json::from_value((*cluster).clone()).map_err(|error| format!("the Cluster: {error}"))
}
