//! `windlass simulate upgrade`: what an upgrade of your cluster does, machine by machine and hook by hook.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;
use windlass_api::hooks::Hook;
use windlass_api::{GoDuration, GoDurationError};
use windlass_conversion::manifest::as_written;
use windlass_simulate::script::spoken;
use windlass_simulate::{
    Amount, Durations, EVERY_GROUP, EstimateRecord, Failing, Fate, Insight, Level, OperationRecord,
    PreviewOptions, RebuildOptions, Retarget, StopRecord, UpgradeError, UpgradeReport, UpgradeRequest,
    UpgradeSteering, WhatIf, estimate_preview, simulate_preview, simulate_upgrade,
};
use windlass_web::{Ticket, heading};

use crate::exit::Failure;
use crate::live::LiveArguments;
use crate::manifests;
use crate::output::{self, Format};

/// The most that is read of a file of manifests.
const MANIFEST_LIMIT: u64 = 16 * 1024 * 1024;

/// Upgrade a live cluster, or the cluster of your manifests, in virtual time, and show what happens.
///
/// A live cluster is read from its management cluster, whose controllers may be Windlass's or Cluster API's, with get and
/// list and nothing else. It is rebuilt in memory and upgraded there from exactly where it is, in the middle of another
/// upgrade too. The manifests have one Cluster with a topology, its ClusterClass and the templates that it refers to. The cluster is
/// created with the version it has there, then upgraded. Infrastructure of real providers is replaced by machines in
/// memory; nothing outside is touched.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass simulate upgrade --cluster prod --to v1.33.0
  windlass simulate upgrade --cluster prod -n team-a --kubeconfig management.kubeconfig --to v1.33.0 --save prod.json
  windlass simulate upgrade --snapshot prod.json --to v1.33.0 --machine-duration 8m -o html > ticket.html
  windlass simulate upgrade --cluster prod --to v1.33.0 --fail web=provisioning --hook-blocks BeforeWorkersUpgrade=2h
  windlass simulate upgrade -f cluster.yaml --to v1.33.0
  windlass simulate upgrade -f class.yaml -f cluster.yaml --to v1.33.0 -o json
  windlass simulate upgrade -f cluster.yaml -f extension-config.yaml --to v1.33.0 --live-extensions
  windlass simulate upgrade -f cluster.yaml --to v1.33.0 --retarget v1.34.0@control-plane/v1.31.2
  windlass simulate upgrade -f cluster.yaml --to v1.33.0 --retarget v1.32.0@10m --approve-after 30m

An upgrade that an annotation of the Cluster holds, or that needs an approval, ends where it stops, with exit code 1.

Extensions that the manifests name are replaced by one that lets every hook pass, unless they are to be called
(--live-extensions): then over HTTPS, and time in the simulation stands still until they answer.")]
pub(crate) struct UpgradeCommand {
    /// File or directory with manifests, or - for the standard input; may be given more than once
    #[arg(short, long = "filename", value_name = "FILE")]
    #[arg(required_unless_present_any = ["cluster", "snapshot"], conflicts_with_all = ["cluster", "snapshot"])]
    filename: Vec<PathBuf>,
    /// Cluster of a management cluster, which is read and not changed: simulated from exactly where it is
    #[arg(long, value_name = "NAME", conflicts_with = "snapshot")]
    cluster: Option<String>,
    #[command(flatten)]
    live: LiveArguments,
    /// How long a machine of a provider takes to come, as 8m; left out, as long as machines of the cluster took
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "filename")]
    machine_duration: Option<Duration>,
    #[command(flatten)]
    what_if: WhatIfArguments,
    /// The version to upgrade to
    #[arg(long, value_name = "V")]
    to: String,
    /// What all chance comes from: the same seed, the same story
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Call the extensions that the manifests name (ExtensionConfig), instead of letting every hook pass
    #[arg(long)]
    live_extensions: bool,
    /// Give the upgrade another target when a step begins, or after a time; may be given more than once
    #[arg(long, value_name = "V@STEP|V@TIME")]
    retarget: Vec<Retarget>,
    /// Approve every step that needs it, so long after it begins to wait; 0s approves at once
    #[arg(long, value_name = "TIME", value_parser = time)]
    approve_after: Option<Duration>,
    /// How long it takes at other draws: so many runs with seeds of their own, of which P50 and P95 are told
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1000), conflicts_with = "filename")]
    runs: Option<u64>,
    /// End with exit code 3 if an insight is at least so bad: note, warning or error
    #[arg(long, value_name = "LEVEL", value_enum, conflicts_with = "filename")]
    fail_on: Option<FailOn>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = UpgradeFormat::Table)]
    output: UpgradeFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Anything
    Note,
    /// What may stop the upgrade
    Warning,
    /// What stops it
    Error,
}

impl From<FailOn> for Level {
    fn from(level: FailOn) -> Self {
        match level {
            FailOn::Note => Self::Note,
            FailOn::Warning => Self::Warning,
            FailOn::Error => Self::Error,
        }
    }
}

/// What is assumed to be otherwise than in the live cluster.
#[derive(Args)]
#[group(conflicts_with = "filename")]
struct WhatIfArguments {
    /// What if machines of a part fail: control-plane, a worker group or a machine; HOW is provisioning, never-ready or drain
    #[arg(long, value_name = "PART=HOW", help_heading = "What if")]
    fail: Vec<Failing>,
    /// What if a hook asks to wait, once, as BeforeWorkersUpgrade=2h
    #[arg(long, value_name = "HOOK=TIME", value_parser = hook_blocks, help_heading = "What if")]
    hook_blocks: Vec<(Hook, Duration)>,
    /// What if there is no machine image of a version
    #[arg(long, value_name = "V", help_heading = "What if")]
    image_missing: Vec<String>,
    /// What if a PodDisruptionBudget does not let the machines of a worker group be drained
    #[arg(long, value_name = "GROUP", help_heading = "What if")]
    pdb_blocks: Vec<String>,
    /// What if all MachineDeployments may have so many machines more: a number or a percentage
    #[arg(long, value_name = "X", help_heading = "What if")]
    max_surge: Option<Amount>,
    /// What if so many worker groups are upgraded at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What if")]
    concurrency: Option<u32>,
    /// What if an extension updates machines in place, and covers every change
    #[arg(long, conflicts_with = "live_extensions", help_heading = "What if")]
    in_place: bool,
}

impl WhatIfArguments {
    fn what_if(&self) -> WhatIf {
        let blocked = self.pdb_blocks.iter().map(|part| Failing { part: part.clone(), how: Fate::Drain });
        WhatIf {
            fail: self.fail.iter().cloned().chain(blocked).collect(),
            hook_blocks: self.hook_blocks.clone(),
            missing_images: self.image_missing.clone(),
            max_surge: self.max_surge,
            concurrency: self.concurrency,
            in_place: self.in_place,
        }
    }
}

fn hook_blocks(text: &str) -> Result<(Hook, Duration), String> {
    let (name, length) = text.split_once('=').ok_or("expected HOOK=TIME, as BeforeWorkersUpgrade=2h")?;
    let hook = Hook::ALL.into_iter().find(|hook| hook.name() == name);
    Ok((hook.ok_or_else(|| format!("there is no hook {name:?}"))?, time(length)?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UpgradeFormat {
    /// For people
    Table,
    /// For scripts; the fields are stable
    Json,
    /// The same as JSON, as YAML
    Yaml,
    /// One page for a change ticket, which loads nothing
    Html,
}

fn time(text: &str) -> Result<Duration, String> {
    let time: GoDuration = text.parse().map_err(|error: GoDurationError| error.to_string())?;
    time.to_std().ok_or_else(|| "a time cannot be negative".to_owned())
}

pub(crate) fn run(command: &UpgradeCommand) -> Result<(), Failure> {
    let is_live = command.cluster.is_some() || command.live.has_file();
    let (cluster, report) = if is_live { previewed(command)? } else { of_manifests(command)? };
    let report = report.map_err(|error| match error {
        UpgradeError::Manifests(_)
        | UpgradeError::Target(_)
        | UpgradeError::Create(_)
        | UpgradeError::Part(_)
        | UpgradeError::Snapshot(_) => Failure::Invalid(error.to_string()),
        UpgradeError::Refused(_) | UpgradeError::Below { .. } => Failure::Refused(error.to_string()),
        other => Failure::Failed(other.to_string()),
    })?;
    match command.output {
        UpgradeFormat::Table => output::print(&table(&report))?,
        UpgradeFormat::Json => output::print_document(Format::Json, &report)?,
        UpgradeFormat::Yaml => output::print_document(Format::Yaml, &report)?,
        UpgradeFormat::Html => {
            output::print(&Ticket { cluster: &cluster, to: &command.to, report: &report }.render())?;
        }
    }
    let worst = report.insights.iter().map(|insight| insight.level).max();
    let is_refused =
        command.fail_on.is_some_and(|least| worst.is_some_and(|worst| worst >= Level::from(least)));
    match report.stopped {
        _ if is_refused => Err(Failure::Printed(3)),
        Some(_) => Err(Failure::Printed(1)),
        None => Ok(()),
    }
}

fn steering(command: &UpgradeCommand) -> UpgradeSteering {
    UpgradeSteering { retargets: command.retarget.clone(), approve_after: command.approve_after }
}

/// The name of a cluster, and what became of its upgrade.
type Simulated = (String, Result<UpgradeReport, UpgradeError>);

/// The cluster of the manifests is created, and upgraded.
fn of_manifests(command: &UpgradeCommand) -> Result<Simulated, Failure> {
    let manifests: Vec<Value> =
        manifests::read(&command.filename, MANIFEST_LIMIT)?.into_iter().map(as_written).collect();
    let cluster = manifests.iter().find(|object| object["kind"] == "Cluster");
    let name =
        cluster.and_then(|cluster| cluster["metadata"]["name"].as_str()).unwrap_or_default().to_owned();
    let report = simulate_upgrade(&UpgradeRequest {
        manifests,
        to: command.to.clone(),
        seed: command.seed,
        live_extensions: command.live_extensions,
        steering: steering(command),
    });
    Ok((name, report))
}

/// A live cluster is read, and upgraded in memory from where it is.
fn previewed(command: &UpgradeCommand) -> Result<Simulated, Failure> {
    let snapshot = command.live.read(command.cluster.as_deref())?;
    let (durations, assumption) = match command.machine_duration {
        Some(time) => {
            let create = [(EVERY_GROUP.to_owned(), vec![time.as_secs_f64()])].into();
            let assumption = format!("machines take {}, as --machine-duration says", spoken(time));
            (Durations { create, ..Durations::default() }, assumption)
        }
        None => {
            let (durations, learned) = snapshot.durations();
            (durations, learned.to_string())
        }
    };
    let options = || {
        let rebuild =
            RebuildOptions { live_extensions: command.live_extensions, durations: durations.clone() };
        let options = PreviewOptions::new(rebuild, command.to.clone(), command.seed, steering(command))?;
        Ok(PreviewOptions { what_if: command.what_if.what_if(), ..options })
    };
    let report = options().and_then(|options| simulate_preview(&snapshot, &options));
    let report = report.and_then(|mut report| {
        if let Some(runs) = command.runs.filter(|_| report.stopped.is_none()) {
            report.estimate = Some(estimate_preview(&snapshot, runs, options)?);
        }
        report.warnings.push(format!("where their provider does not say it, {assumption}"));
        Ok(report)
    });
    Ok((snapshot.cluster, report))
}

fn table(report: &UpgradeReport) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let mut line = |row: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{row}");
    };
    let (start, what) = ("START", "WHAT");
    line(format_args!("{start:>8}  {:>8}  {what}", "END"));
    for operation in &report.operations {
        let OperationRecord { start_seconds, end_seconds, .. } = operation;
        let (start, end) = (clock(*start_seconds), clock(*end_seconds));
        line(format_args!("{start:>8}  {end:>8}  {}", heading(operation)));
        for machine in &operation.machines {
            let (start, end) = (clock(machine.start_seconds), clock(machine.end_seconds));
            line(format_args!("{start:>8}  {end:>8}    {} {}", machine.action, machine.name));
        }
    }
    if !report.hooks.is_empty() {
        line(format_args!("\n{:>8}  HOOK", "AT"));
        for call in &report.hooks {
            let versions = match (&call.from, &call.to) {
                (Some(from), Some(to)) => format!(" {from} -> {to}"),
                (None, Some(to)) => format!(" {to}"),
                _ => String::new(),
            };
            let wait = match call.retry_after_seconds {
                0 => String::new(),
                seconds => format!(", asks to wait {seconds} s"),
            };
            line(format_args!("{:>8}  {}{versions}{wait}", clock(call.at_seconds), call.hook));
        }
    }
    if !report.retargets.is_empty() || !report.approvals.is_empty() {
        line(format_args!("\n{:>8}  STEERING", "AT"));
        let retargets = report.retargets.iter().map(|set| (set.at_seconds, format!("target {}", set.to)));
        let approvals =
            report.approvals.iter().map(|given| (given.at_seconds, format!("approval of {}", given.step)));
        let mut all: Vec<(u64, String)> = retargets.chain(approvals).collect();
        all.sort_by_key(|(at, _)| *at);
        for (at, what) in all {
            line(format_args!("{:>8}  {what}", clock(at)));
        }
    }
    if let Some(StopRecord { at_seconds, reason, waits_for }) = &report.stopped {
        let waits_for = waits_for.replace('\n', "\n  ");
        line(format_args!("\nStopped after {}: {reason}, waiting for {waits_for}", clock(*at_seconds)));
    }
    let machines = report.machines;
    line(format_args!(
        "\n{} in all: {} machines created, {} deleted, {} updated in place; kubelets at most {} minors behind",
        clock(report.virtual_seconds),
        machines.created,
        machines.deleted,
        machines.updated_in_place,
        report.worst_skew,
    ));
    if let Some(EstimateRecord { runs, p50_seconds, p95_seconds }) = report.estimate {
        let (p50, p95) = (clock(p50_seconds), clock(p95_seconds));
        line(format_args!("Over {runs} runs: half take at most {p50}, 19 of 20 at most {p95}"));
    }
    for Insight { id, level, object, evidence, remedy } in &report.insights {
        line(format_args!("{level}: {id}: {object}: {evidence}\n  {remedy}"));
    }
    for warning in &report.warnings {
        line(format_args!("note: {warning}"));
    }
    text
}

/// Seconds as people read them.
fn clock(seconds: u64) -> String {
    spoken(Duration::from_secs(seconds))
}
