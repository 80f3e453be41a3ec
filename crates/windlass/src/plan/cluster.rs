//! `windlass plan cluster`: the plan for a live Cluster or that of a manifest, and where its annotations stop it.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::Cluster;
use windlass_engine::topology::{NoPath, Observed, Plan, PlanSource, stops};
use windlass_plan::{PlanDocument, Source};
use windlass_simulate::{UpgradeError, live_of};
use windlass_version::Version;

use super::{INVALID, class, input, refuse_plan, table};
use crate::exit::Failure;
use crate::live::LiveArguments;
use crate::manifests;
use crate::output::{self, Format};
use crate::stops::{self as shown, StopDocument};

/// Largest manifest file that is read. An API server takes no request above 3 MiB, so no object is larger.
const MAX_FILE: u64 = 3 * 1024 * 1024;

/// Plan the upgrade of a live Cluster, or of the Cluster in a manifest, and show where its annotations and pins stop it
#[derive(Args)]
#[command(after_help = "\
A live Cluster is read from its management cluster with get and list and nothing else, and planned from where its parts
are. The Cluster of a manifest is taken to be at the version of its manifest, or at --from; worker groups that are pinned are at their
pin. Holds, approvals, deferred and held entries are those of the manifest. The versions are those of the ClusterClass
among the manifests, if there is one. An upgrade plan extension is not called: pass what it answers with
--control-plane-upgrades.

Examples:
  windlass plan cluster prod --to v1.33.0
  windlass plan cluster prod -n team-a --kubeconfig management.kubeconfig --to v1.33.0 -o json
  windlass plan cluster -f cluster.yaml --to v1.33.0
  windlass plan cluster -f class.yaml -f cluster.yaml --to v1.33.0 -o json
  windlass plan cluster -f cluster.yaml --from v1.30.0 --versions v1.31.2,v1.32.0,v1.33.0
  windlass plan cluster -f cluster.yaml --from v1.29.0 --to v1.31.0 --control-plane-upgrades v1.30.4,v1.31.0")]
pub(super) struct ClusterCommand {
    /// Cluster of a management cluster, which is read and not changed: planned from where its parts are
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// File or directory with manifests, or - for the standard input; may be given more than once
    #[arg(short, long = "filename", value_name = "FILE")]
    #[arg(required_unless_present_any = ["name", "snapshot"], conflicts_with_all = ["name", "snapshot"])]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    live: LiveArguments,
    /// Version that everything in the manifest is at now; left out, spec.topology.version of the Cluster
    #[arg(long, value_name = "V", requires = "filename")]
    from: Option<String>,
    /// Version that everything shall reach; left out, spec.topology.version of the Cluster
    #[arg(long, value_name = "V")]
    #[arg(required_unless_present_any = ["from", "name", "snapshot"])]
    to: Option<String>,
    /// Versions that may be used, old to new; left out, those of the ClusterClass
    #[arg(long, value_name = "V,...", conflicts_with = "control_plane_upgrades")]
    versions: Option<String>,
    /// Control plane versions to go through, as an upgrade plan extension answers them
    #[arg(long, value_name = "V,...")]
    control_plane_upgrades: Option<String>,
    /// Worker versions to go through; left out, the fewest are chosen
    #[arg(long, value_name = "V,...", requires = "control_plane_upgrades")]
    workers_upgrades: Option<String>,
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

/// A Cluster, and what an upgrade of it is decided from.
struct Planned {
    cluster: Cluster,
    observed: Observed,
    from: Version,
    to: Version,
}

pub(super) fn run(command: &ClusterCommand) -> Result<(), Failure> {
    let is_live = command.name.is_some() || command.live.has_file();
    let planned = if is_live { of_live(command)? } else { of_manifest(command)? };
    let Planned { cluster, observed, from, to } = &planned;
    let plan = match Plan::compute(observed) {
        Plan::None(NoPath::Refused(refusal)) => {
            return refuse_plan(command.output.into(), from, to, &refusal);
        }
        Plan::None(no_path) => return Err(Failure::Refused(no_path.to_string())),
        Plan::Steps(plan) => Some(plan),
        Plan::NotNeeded => None,
    };
    let stops = StopDocument::all(&stops(observed), cluster);
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

/// The source of versions that the arguments give, if they do.
fn given_source(command: &ClusterCommand) -> Option<Source> {
    match (&command.versions, &command.control_plane_upgrades) {
        (Some(versions), _) => Some(input::listed(Some(versions))),
        (None, Some(control_plane)) => {
            Some(input::given(Some(control_plane), command.workers_upgrades.as_deref()))
        }
        (None, None) => None,
    }
}

/// A live Cluster, from where its parts are.
fn of_live(command: &ClusterCommand) -> Result<Planned, Failure> {
    let snapshot = command.live.read(command.name.as_deref())?;
    let live = live_of(&snapshot).map_err(|error| match error {
        UpgradeError::Snapshot(_) | UpgradeError::Manifests(_) => Failure::Invalid(error.to_string()),
        other => Failure::Failed(other.to_string()),
    })?;
    let written = live.cluster.spec.topology.as_ref().map(|topology| topology.version.as_str());
    let (name, text) = match &command.to {
        Some(to) => ("--to", to.as_str()),
        None => ("spec.topology.version", written.unwrap_or_default()),
    };
    let to = Version::parse(text).map_err(|error| Failure::Invalid(format!("{name}: {error}")))?;
    let source = match given_source(command) {
        Some(source) => source,
        None => {
            let class =
                serde_json::to_value(&live.class).map_err(|error| Failure::Failed(error.to_string()))?;
            class::of_documents(&[class]).map_err(Failure::Invalid)?
        }
    };
    let observed = live.observed(&to, source);
    let from = observed.control_plane.as_ref().map_or_else(|| to.clone(), |found| found.version.clone());
    Ok(Planned { cluster: live.cluster, observed, from, to })
}

/// The Cluster of a manifest, taken to be at a version.
fn of_manifest(command: &ClusterCommand) -> Result<Planned, Failure> {
    let manifests = manifests::read(&command.filename, MAX_FILE)?;
    let cluster = cluster(&manifests).map_err(Failure::Invalid)?;
    let source = match given_source(command) {
        Some(source) => source,
        None if manifests.iter().any(class::is_class) => {
            class::of_documents(&manifests).map_err(Failure::Invalid)?
        }
        None => Source::OneMinor,
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
    Ok(Planned { cluster, observed, from, to })
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
