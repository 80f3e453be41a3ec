//! `windlass simulate upgrade`: what an upgrade of your cluster does, machine by machine and hook by hook.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use windlass_api::{GoDuration, GoDurationError};
use windlass_conversion::manifest::as_written;
use windlass_simulate::script::spoken;
use windlass_simulate::{
    OperationRecord, Retarget, StopRecord, UpgradeError, UpgradeReport, UpgradeRequest, UpgradeSteering,
    simulate_upgrade,
};

use crate::exit::Failure;
use crate::manifests;
use crate::output::{self, Format};

/// The most that is read of a file of manifests.
const MANIFEST_LIMIT: u64 = 16 * 1024 * 1024;

/// Upgrade the cluster of your manifests in virtual time, and show what happens.
///
/// The manifests have one Cluster with a topology, its ClusterClass and the templates that it refers to. The cluster is
/// created with the version it has there, then upgraded. Infrastructure of real providers is replaced by machines in
/// memory; nothing outside is touched.
#[derive(Args)]
#[command(after_help = "\
Examples:
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
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
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
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

fn time(text: &str) -> Result<Duration, String> {
    let time: GoDuration = text.parse().map_err(|error: GoDurationError| error.to_string())?;
    time.to_std().ok_or_else(|| "a time cannot be negative".to_owned())
}

pub(crate) fn run(command: &UpgradeCommand) -> Result<(), Failure> {
    let manifests = manifests::read(&command.filename, MANIFEST_LIMIT)?.into_iter().map(as_written).collect();
    let request = UpgradeRequest {
        manifests,
        to: command.to.clone(),
        seed: command.seed,
        live_extensions: command.live_extensions,
        steering: UpgradeSteering {
            retargets: command.retarget.clone(),
            approve_after: command.approve_after,
        },
    };
    let report = simulate_upgrade(&request).map_err(|error| match error {
        UpgradeError::Manifests(_) | UpgradeError::Target(_) | UpgradeError::Create(_) => {
            Failure::Invalid(error.to_string())
        }
        UpgradeError::Refused(_) => Failure::Refused(error.to_string()),
        other => Failure::Failed(other.to_string()),
    })?;
    match command.output {
        Format::Table => output::print(&table(&report))?,
        format => output::print_document(format, &report)?,
    }
    if report.stopped.is_some() { Err(Failure::Printed(1)) } else { Ok(()) }
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
        let OperationRecord { start_seconds, end_seconds, from, to, .. } = operation;
        let title = match &operation.group {
            None => "control plane".to_owned(),
            Some(group) => format!("workers {group}"),
        };
        line(format_args!(
            "{:>8}  {:>8}  {title} {from} -> {to}",
            clock(*start_seconds),
            clock(*end_seconds)
        ));
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
    for warning in &report.warnings {
        line(format_args!("note: {warning}"));
    }
    text
}

/// Seconds as people read them.
fn clock(seconds: u64) -> String {
    spoken(Duration::from_secs(seconds))
}
