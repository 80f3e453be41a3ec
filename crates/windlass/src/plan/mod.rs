//! `windlass plan`: compute, check and compare upgrade plans.

mod class;
mod cluster;
pub(crate) mod diff;
mod in_place;
mod input;
mod mermaid;
pub(crate) mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use windlass_plan::{
    PlanDocument, PlanRequest, Refusal, RefusalDocument, Step, UpgradePlan, ViolationDocument, plan,
};
use windlass_version::Version;

use crate::exit::Failure;
use crate::output::{self, Format};

/// Show how a cluster gets from one version to another: every step, in order, with the skew after it
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(override_usage = "\
windlass plan --from V [--workers V | --workers NAME=V,... [--pin NAME,...] | --no-workers] --to V
              [--versions V,... | --class FILE | --control-plane-upgrades V,... [--workers-upgrades V,...]]
              [-o table|json|yaml|mermaid]
       windlass plan check --from V [...] --to V --control-plane-upgrades V,... [--workers-upgrades V,...]
       windlass plan cluster NAME [--to V] [-n NS] [--kubeconfig FILE] [--context NAME]
       windlass plan cluster -f manifests.yaml [--from V] [--to V]
              [--versions V,... | --control-plane-upgrades V,... [--workers-upgrades V,...]] [-o table|json|yaml]
       windlass plan diff A.json B.json
       windlass plan --in-place -f manifests.yaml [-o table|json|yaml]")]
#[command(after_help = "\
Examples:
  A chained upgrade through the versions you have images for:
    windlass plan --from v1.29.0 --to v1.33.0 --versions v1.30.4,v1.31.2,v1.32.0,v1.33.0

  Worker groups at different versions, versions from a ClusterClass, for a script:
    windlass plan --from v1.30.0 --workers md-0=v1.30.0,md-1=v1.29.3 --to v1.33.0 --class class.yaml -o json

  A group that stays where it is:
    windlass plan --from v1.30.0 --workers md-0=v1.30.0,batch=v1.30.0 --pin batch --to v1.33.0 --class class.yaml

  A picture for a change request:
    windlass plan --from v1.29.0 --to v1.30.0 -o mermaid

  What an upgrade plan extension answered, checked:
    windlass plan check --from v1.29.0 --to v1.31.0 --control-plane-upgrades v1.30.4,v1.31.0

  A Cluster of your management cluster, from where it is; nothing is changed:
    windlass plan cluster prod --to v1.33.0

  The Cluster of a manifest, with where its holds and approvals stop the upgrade:
    windlass plan cluster -f cluster.yaml --to v1.33.0

  Which fields extensions would update on living machines; the ExtensionConfigs are among the manifests:
    windlass plan --in-place -f manifests.yaml")]
pub(crate) struct PlanCommand {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    ends: Option<input::Ends>,
    /// Ask extensions which machines they would update in place, and show it field by field; nothing is changed
    #[arg(long, conflicts_with_all = ["versions", "class", "control_plane_upgrades", "Ends"])]
    in_place: bool,
    /// With --in-place: MachineDeployments, MachineSets, control planes, Machines, templates and ExtensionConfigs
    #[arg(short, long, value_name = "FILE", requires = "in_place")]
    filename: Option<PathBuf>,
    /// Versions that may be used, old to new; each intermediate minor uses the last one listed
    #[arg(long, value_name = "V,...", conflicts_with_all = ["class", "control_plane_upgrades"])]
    versions: Option<String>,
    /// ClusterClass manifest whose spec.kubernetesVersions may be used
    #[arg(long, value_name = "FILE", conflicts_with = "control_plane_upgrades")]
    class: Option<PathBuf>,
    /// Control plane versions to go through, as an upgrade plan extension answers them
    #[arg(long, value_name = "V,...")]
    control_plane_upgrades: Option<String>,
    /// Worker versions to go through; left out, the fewest are chosen
    #[arg(long, value_name = "V,...", requires = "control_plane_upgrades")]
    workers_upgrades: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = PlanFormat::Table)]
    output: PlanFormat,
}

#[derive(Subcommand)]
enum Action {
    Check(CheckCommand),
    Cluster(cluster::ClusterCommand),
    Diff(diff::DiffCommand),
}

/// Check a plan that was made elsewhere, and fill in the workers plan if it is left out
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass plan check --from v1.29.0 --to v1.31.0 --control-plane-upgrades v1.30.4,v1.31.0
  windlass plan check --from v1.31.0 --workers v1.29.0 --to v1.31.0 --workers-upgrades v1.31.0 -o json")]
struct CheckCommand {
    #[command(flatten)]
    ends: input::Ends,
    /// Control plane versions, the target included, the current one not; left out if it is at the target
    #[arg(long, value_name = "V,...")]
    control_plane_upgrades: Option<String>,
    /// Worker versions; left out, the fewest are chosen
    #[arg(long, value_name = "V,...")]
    workers_upgrades: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = PlanFormat::Table)]
    output: PlanFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// For people
    Table,
    /// For scripts; the fields are stable
    Json,
    /// The same as JSON, as YAML
    Yaml,
    /// A diagram for Markdown pages
    Mermaid,
}

impl From<Format> for PlanFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Table => Self::Table,
            Format::Json => Self::Json,
            Format::Yaml => Self::Yaml,
        }
    }
}

const INVALID: &str = "the input is not valid";

pub(crate) fn run(command: PlanCommand) -> Result<(), Failure> {
    match (command.in_place, &command.filename) {
        (true, Some(path)) => return in_place::run(path, command.output),
        // Said here, because the parser would name all that other uses of the command need too.
        (true, None) => {
            return Err(Failure::Invalid("--in-place needs --filename FILE with the manifests".to_owned()));
        }
        (false, _) => {}
    }
    let PlanCommand {
        action, ends, versions, class, control_plane_upgrades, workers_upgrades, output, ..
    } = command;
    match (action, ends) {
        (Some(Action::Check(check)), _) => {
            let source =
                input::given(check.control_plane_upgrades.as_deref(), check.workers_upgrades.as_deref());
            answer(check.output, check.ends.request(source))
        }
        (Some(Action::Cluster(command)), _) => cluster::run(&command),
        (Some(Action::Diff(command)), _) => diff::run(command),
        (None, Some(ends)) => {
            let source = if let Some(path) = class {
                match class::source(&path) {
                    Ok(source) => source,
                    Err(message) => {
                        return refuse(output, 2, INVALID, vec![input::wrong("ClassInvalid", message, None)]);
                    }
                }
            } else if let Some(control_plane) = control_plane_upgrades {
                input::given(Some(&control_plane), workers_upgrades.as_deref())
            } else {
                input::listed(versions.as_deref())
            };
            answer(output, ends.request(source))
        }
        (None, None) => {
            Err(Failure::Invalid("--from and --to are needed; see windlass plan --help".to_owned()))
        }
    }
}

/// Plans and prints, or prints everything that is wrong.
fn answer(format: PlanFormat, request: Result<PlanRequest, Vec<ViolationDocument>>) -> Result<(), Failure> {
    let request = match request {
        Ok(request) => request,
        Err(errors) => return refuse(format, 2, INVALID, errors),
    };
    match plan(&request) {
        Ok(plan) => print_plan(format, &plan),
        Err(refusal) => refuse_plan(format, &request.control_plane, &request.target, &refusal),
    }
}

/// Prints why there is no plan.
fn refuse_plan(format: PlanFormat, from: &Version, to: &Version, refusal: &Refusal) -> Result<(), Failure> {
    let invalid = refusal.violations.iter().any(|violation| violation.is_invalid_input());
    let (code, headline) =
        if invalid { (2, INVALID.to_owned()) } else { (3, format!("no safe plan from {from} to {to}")) };
    refuse(format, code, &headline, RefusalDocument::from(refusal).errors)
}

fn print_plan(format: PlanFormat, plan: &UpgradePlan) -> Result<(), Failure> {
    match format {
        PlanFormat::Table => output::print(&table::render(plan)),
        PlanFormat::Mermaid => output::print(&mermaid::render(plan)),
        PlanFormat::Json => output::print_document(Format::Json, &PlanDocument::from(plan)),
        PlanFormat::Yaml => output::print_document(Format::Yaml, &PlanDocument::from(plan)),
    }
}

/// What an operation is about, for people. The group that has its name from us is not worth repeating.
fn title(step: &Step) -> String {
    match step.group() {
        None => "control plane".to_owned(),
        Some(group) if group.as_str() == input::ONLY_GROUP => "workers".to_owned(),
        Some(group) => format!("workers {group}"),
    }
}

fn refuse(
    format: PlanFormat,
    code: u8,
    headline: &str,
    errors: Vec<ViolationDocument>,
) -> Result<(), Failure> {
    match format {
        PlanFormat::Json => output::print_document(Format::Json, &RefusalDocument { errors })?,
        PlanFormat::Yaml => output::print_document(Format::Yaml, &RefusalDocument { errors })?,
        PlanFormat::Table | PlanFormat::Mermaid => {
            let mut message = headline.to_owned();
            for error in &errors {
                message.push_str(&format!("\n  {}: {}", error.code, error.message));
            }
            return Err(if code == 2 { Failure::Invalid(message) } else { Failure::Refused(message) });
        }
    }
    Err(Failure::Printed(code))
}
