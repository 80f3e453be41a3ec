//! `windlass upgrade`: begins an upgrade and steers it while it runs. Each verb is one small patch of the Cluster.

mod abort;
mod progress;
mod show;

use std::io::{IsTerminal as _, Write as _};

use clap::{Args, Subcommand};
use kube::Client;
use windlass_controllers::steer::{Live, LivePlan, SteerError, steer, upstream_controllers};
use windlass_engine::steer::{Change, EntryName, NoChange, Verb};
use windlass_engine::topology::StepName;
use windlass_engine::waiting::Wait;
use windlass_version::Version;

use crate::exit::Failure;
use crate::kubeconfig::ClusterArguments;
use crate::output::{self, Format};
use crate::stops::StopDocument;
use show::Shown;

/// Begin an upgrade, and steer it while it runs: another target, hold, resume, approve, pin, cancel
#[derive(Args)]
#[command(after_help = "\
Every verb changes one field or annotation of the Cluster and prints the kubectl command that does the same.
Nothing that moves is interrupted: an upgrade stops between two steps.

Examples:
  windlass upgrade cluster prod --to v1.33.0 --dry-run
  windlass upgrade cluster prod --to v1.33.0 --yes --wait
  windlass upgrade retarget prod --to v1.34.0
  windlass upgrade hold prod --reason 'until Monday'
  windlass upgrade resume prod
  windlass upgrade approve prod
  windlass upgrade pin prod batch
  windlass upgrade unpin prod batch
  windlass upgrade cancel prod
  windlass upgrade abort prod --unborn --to v1.31.2")]
pub(crate) struct UpgradeCommand {
    #[command(subcommand)]
    verb: VerbCommand,
}

#[derive(Subcommand)]
enum VerbCommand {
    /// Upgrade a Cluster to a version: shows the plan from where it is, then changes spec.topology.version
    Cluster(ToVersion),
    /// Give an upgrade that runs another target: shows what it changes, then changes spec.topology.version
    Retarget(ToVersion),
    /// End an upgrade where the control plane is or is on its way to; workers come up to it
    Cancel(Cancel),
    /// Start nothing new of an upgrade; what moves is finished
    Hold(Hold),
    /// Take holds away
    Resume(Named),
    /// Let a step start that needs an approval
    Approve(Approve),
    /// Keep a worker group at a version: it takes no part in upgrades
    Pin(Pin),
    /// Let a worker group take part in upgrades again
    Unpin(Unpin),
    /// Go back from a step of the control plane that no machine came up with
    Abort(Abort),
}

#[derive(Args)]
struct Named {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Show what would be done, ask the API whether it would be accepted, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Args)]
struct Proceed {
    /// Do not ask before the Cluster is changed
    #[arg(short, long)]
    yes: bool,
    /// Wait for the end of the upgrade, and say what it waits on meanwhile
    #[arg(long)]
    wait: bool,
}

#[derive(Args)]
struct ToVersion {
    #[command(flatten)]
    named: Named,
    /// The version that everything shall reach
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: Version,
    #[command(flatten)]
    proceed: Proceed,
}

#[derive(Args)]
struct Cancel {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    proceed: Proceed,
}

#[derive(Args)]
struct Hold {
    #[command(flatten)]
    named: Named,
    /// Let the control plane go up to this version, and workers come up to it, and stop there
    #[arg(long, value_name = "VERSION", value_parser = version, conflicts_with = "reason")]
    at: Option<Version>,
    /// Why, for everybody who looks at the Cluster
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Args)]
struct Approve {
    #[command(flatten)]
    named: Named,
    /// The step, such as control-plane/v1.32.0; left out, the one that waits for an approval
    step: Option<StepName>,
}

#[derive(Args)]
struct Pin {
    #[command(flatten)]
    named: Named,
    /// The worker group, by its name in the topology; MachineDeployment/NAME or MachinePool/NAME if both kinds have it
    group: EntryName,
    /// The version to keep it at; left out, the one that it has
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: Option<Version>,
}

#[derive(Args)]
struct Unpin {
    #[command(flatten)]
    named: Named,
    /// The worker group, by its name in the topology; MachineDeployment/NAME or MachinePool/NAME if both kinds have it
    group: EntryName,
}

#[derive(Args)]
struct Abort {
    #[command(flatten)]
    named: Named,
    /// Only if no machine came up with the version: none has a Node, and the control plane reports none
    #[arg(long, required = true)]
    unborn: bool,
    /// The version to go to instead: a lower patch, or the one that the machines run; left out, the latter
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: Option<Version>,
    #[command(flatten)]
    proceed: Proceed,
}

fn version(text: &str) -> Result<Version, String> {
    Version::parse_strict(text.strip_prefix('v').unwrap_or(text)).map_err(|error| error.to_string())
}

pub(crate) async fn run(command: UpgradeCommand) -> Result<(), Failure> {
    match command.verb {
        VerbCommand::Cluster(ToVersion { named, to, proceed })
        | VerbCommand::Retarget(ToVersion { named, to, proceed }) => target(named, Some(to), &proceed).await,
        VerbCommand::Cancel(Cancel { named, proceed }) => target(named, None, &proceed).await,
        VerbCommand::Hold(Hold { named, at, reason }) => {
            annotate(named, |_| Ok(at.map_or(Verb::Hold { reason }, Verb::HoldAt))).await
        }
        VerbCommand::Resume(named) => annotate(named, |_| Ok(Verb::Resume)).await,
        VerbCommand::Approve(Approve { named, step }) => {
            annotate(named, |live| step.map_or_else(|| waiting_step(live), Ok).map(Verb::Approve)).await
        }
        VerbCommand::Pin(Pin { named, group, to }) => pin(named, group, to).await,
        VerbCommand::Unpin(Unpin { named, group }) => annotate(named, |_| Ok(Verb::Unpin { group })).await,
        VerbCommand::Abort(Abort { named, unborn: _, to, proceed }) => abort::run(named, to, &proceed).await,
    }
}

/// The step that the Cluster says it needs an approval for.
fn waiting_step(live: &Live) -> Result<StepName, Failure> {
    let wait = Wait::of_cluster(&live.cluster);
    let step = wait.as_ref().and_then(|wait| wait.step.as_deref()).and_then(|step| step.parse().ok());
    step.ok_or_else(|| {
        let waits = wait.map(|wait| format!("it waits on {wait}"));
        let waits = waits.unwrap_or_else(|| "it waits on nothing".to_owned());
        Failure::Invalid(format!(
            "no step needs an approval now: {waits}; name the step to approve it beforehand"
        ))
    })
}

/// A verb that changes annotations.
async fn annotate(named: Named, verb: impl FnOnce(&Live) -> Result<Verb, Failure>) -> Result<(), Failure> {
    let (client, live) = read(&named).await?;
    let change = change(&verb(&live)?, &live)?;
    warn_of_upstream(&client).await;
    steer(&client, &live.cluster, &change, named.dry_run).await.map_err(failure)?;
    Shown::of_change(&change, !named.dry_run).print(named.output)
}

/// Pins a worker group with the field, or with the annotation where the CRD does not have the field.
async fn pin(named: Named, group: EntryName, to: Option<Version>) -> Result<(), Failure> {
    let (client, live) = read(&named).await?;
    let to = match to {
        Some(to) => to,
        None => version_of(&live, &group)?,
    };
    let verb = |as_annotation| Verb::Pin { group: group.clone(), to: to.clone(), as_annotation };
    let mut change = change(&verb(false), &live)?;
    warn_of_upstream(&client).await;
    let answer = steer(&client, &live.cluster, &change, true).await.map_err(failure)?;
    let topology = answer.spec.topology.as_ref();
    let entry = topology.and_then(|topology| group.find(topology).ok());
    if !entry.is_some_and(|entry| entry.pin().is_ok_and(|pin| pin.as_ref() == Some(&to))) {
        change = self::change(&verb(true), &live)?;
        steer(&client, &live.cluster, &change, true).await.map_err(failure)?;
    }
    if !named.dry_run {
        steer(&client, &live.cluster, &change, false).await.map_err(failure)?;
    }
    Shown::of_change(&change, !named.dry_run).print(named.output)
}

/// The version that a worker group has.
fn version_of(live: &Live, name: &EntryName) -> Result<Version, Failure> {
    let topology = live.cluster.spec.topology.as_ref();
    let entry = topology.map(|topology| name.find(topology)).transpose();
    let entry = entry.map_err(|error| Failure::Invalid(error.to_string()))?;
    let group = live.state.workers.iter().find(|group| {
        entry.is_some_and(|entry| (entry.kind, entry.name) == (group.kind, group.topology_name.as_str()))
    });
    let at = group.and_then(|group| group.version().cloned());
    at.ok_or_else(|| Failure::Invalid(format!("worker group {name} has no version yet: give one with --to")))
}

/// A verb that changes the target. Without a version, it is the lowest that may be the target.
async fn target(named: Named, to: Option<Version>, proceed: &Proceed) -> Result<(), Failure> {
    let (client, live) = read(&named).await?;
    let to = match to {
        Some(to) => to,
        None => lowest(&live, &named.cluster.name)?,
    };
    let change = change(&Verb::Target(to.clone()), &live)?;
    let plan = live.plan(&to);
    let running = live.state.is_running();
    let target =
        live.cluster.spec.topology.as_ref().and_then(|topology| Version::parse(&topology.version).ok());
    let before = target.filter(|_| running).map(|target| live.plan(&target));
    if running {
        warn_of_upstream(&client).await;
    }
    let refused = steer(&client, &live.cluster, &change, true).await;
    let stops = StopDocument::all(&live.stops(&to), &live.cluster);
    let shown = |is_done| Shown {
        change: &change,
        plan: Some(&plan),
        before: before.as_ref(),
        then: None,
        stops: stops.clone(),
        is_done,
    };
    if named.dry_run || refused.is_err() {
        shown(false).print(named.output)?;
        return refused.map(|_| ()).map_err(failure);
    }
    if !proceed.yes {
        shown(false).print(Format::Table)?;
        confirm(&named.cluster.name, &to)?;
    }
    steer(&client, &live.cluster, &change, false).await.map_err(failure)?;
    if proceed.yes || named.output != Format::Table {
        shown(true).print(named.output)?;
    }
    if proceed.wait {
        let namespace = live.cluster.metadata.namespace.clone().unwrap_or_default();
        progress::follow(&client, &namespace, &named.cluster.name, &to).await?;
    }
    if let LivePlan::OfExtension(handler) = &plan {
        output::note(&format!(
            "the plan comes from {handler}: windlass describe cluster {} shows it",
            named.cluster.name
        ));
    }
    Ok(())
}

/// Where an upgrade that runs can end soonest.
fn lowest(live: &Live, name: &str) -> Result<Version, Failure> {
    if !live.state.is_running() {
        return Err(Failure::Invalid(format!("Cluster {name} is not upgrading: there is nothing to cancel")));
    }
    let lowest = live.state.lowest_target();
    let (floor, why) =
        lowest.ok_or_else(|| Failure::Invalid(format!("Cluster {name} has no control plane yet")))?;
    output::note(&format!("{why}: the upgrade ends there"));
    Ok(floor)
}

async fn read(named: &Named) -> Result<(Client, Live), Failure> {
    let (client, namespace) = named.cluster.connect().await?;
    let live = Live::read(&client, &namespace, &named.cluster.name).await.map_err(failure)?;
    Ok((client, live))
}

fn change(verb: &Verb, live: &Live) -> Result<Change, Failure> {
    Change::of(verb, &live.cluster).map_err(|error| match error {
        NoChange::Already(_) => Failure::Invalid(format!("nothing to do: {error}")),
        other => Failure::Invalid(other.to_string()),
    })
}

fn failure(error: SteerError) -> Failure {
    match error {
        SteerError::Invalid(message) => Failure::Invalid(message),
        SteerError::Refused(message) => Failure::Refused(message),
        SteerError::Failed(message) => Failure::Failed(message),
    }
}

async fn warn_of_upstream(client: &Client) {
    if let Some(namespace) = upstream_controllers(client).await {
        output::note(&format!(
            "upstream's controllers hold their Lease in namespace {namespace}: where they manage topologies, holds and \
             approvals have no effect, and a running upgrade keeps its target"
        ));
    }
}

/// Asks on a terminal; elsewhere `--yes` is needed.
fn confirm(name: &str, to: &Version) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Invalid(
            "standard input is not a terminal: --yes changes the Cluster without asking".to_owned(),
        ));
    }
    let mut err = anstream::stderr().lock();
    write!(err, "Change the target of Cluster {name} to {to}? [y/N] ").and_then(|()| err.flush())?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Refused("nothing was changed".to_owned())),
    }
}
