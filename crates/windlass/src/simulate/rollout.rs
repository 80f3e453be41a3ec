//! `windlass simulate rollout`: what a change of worker machines does, machine by machine.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use windlass_simulate::{
    Amount, Change, ChangeKind, Progress, RolloutError, RolloutOptions, RolloutReport, Strategy, WorldError,
    rollout,
};

use crate::exit::Failure;
use crate::output::{self, Format};

/// How often a long run says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(20);

/// The most machines that fit in memory with everything around them.
const MOST_REPLICAS: u32 = 100_000;

/// Roll out a change of worker machines, and show every step.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass simulate rollout --replicas 3
  windlass simulate rollout --replicas 10 --max-surge 25% --max-unavailable 1
  windlass simulate rollout --replicas 5 --scale-to 8 --at-step 4 -o json")]
pub(crate) struct RolloutCommand {
    /// How many machines there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_REPLICAS)))]
    replicas: u32,
    /// How many more machines than wanted there may be: a number or a percentage
    #[arg(long, value_name = "X", default_value = "1")]
    max_surge: Amount,
    /// How many of the wanted machines may be unavailable: a number or a percentage
    #[arg(long, value_name = "Y", default_value = "0")]
    max_unavailable: Amount,
    /// How machines are replaced; with OnDelete, machines are deleted one after the other
    #[arg(long, value_enum, default_value = "RollingUpdate")]
    strategy: StrategyName,
    /// Let an extension update machines in place instead of replacing them; with OnDelete it is not asked
    #[arg(long)]
    in_place: bool,
    /// Want another number of machines in the middle of the rollout
    #[arg(long, value_name = "N", requires = "at_step",
        value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_REPLICAS)))]
    scale_to: Option<u32>,
    /// Change the machines once more in the middle of the rollout
    #[arg(long, requires = "at_step")]
    change_spec: bool,
    /// After which step --scale-to and --change-spec happen
    #[arg(long, value_name = "K")]
    at_step: Option<usize>,
    /// What all chance comes from
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StrategyName {
    #[value(name = "RollingUpdate")]
    RollingUpdate,
    #[value(name = "OnDelete")]
    OnDelete,
}

pub(crate) fn run(command: &RolloutCommand) -> Result<(), Failure> {
    let options = options(command)?;
    let mut last_said = Instant::now();
    let report = rollout(&options, |progress| {
        if last_said.elapsed() >= SAY_EVERY {
            last_said = Instant::now();
            say(progress);
        }
    });
    let report = report.map_err(|error| match error {
        RolloutError::World(WorldError::Violation(violation)) => {
            Failure::Failed(format!("a rule is broken: {violation}"))
        }
        other => Failure::Failed(other.to_string()),
    })?;
    match command.output {
        Format::Table => output::print(&table(&report)),
        format => output::print_document(format, &report),
    }
}

fn options(command: &RolloutCommand) -> Result<RolloutOptions, Failure> {
    let (max_surge, max_unavailable) = (command.max_surge, command.max_unavailable);
    if max_surge == Amount::Number(0) && max_unavailable == Amount::Number(0) {
        let reason =
            "--max-surge and --max-unavailable must not both be 0: no machine could ever be replaced";
        return Err(Failure::Invalid(reason.to_owned()));
    }
    let mut options = RolloutOptions::new(command.replicas);
    options.seed = command.seed;
    options.in_place = command.in_place;
    options.strategy = match command.strategy {
        StrategyName::RollingUpdate => Strategy::RollingUpdate { max_surge, max_unavailable },
        StrategyName::OnDelete => Strategy::OnDelete,
    };
    let at_step = command.at_step.unwrap_or_default();
    let scale = command.scale_to.map(ChangeKind::Scale);
    let spec = command.change_spec.then_some(ChangeKind::Spec);
    options.changes = scale.into_iter().chain(spec).map(|what| Change { at_step, what }).collect();
    if options.changes.is_empty() && command.at_step.is_some() {
        let reason = "--at-step says when, but neither --scale-to nor --change-spec says what";
        return Err(Failure::Invalid(reason.to_owned()));
    }
    Ok(options)
}

/// Tells on standard error how far it is, if that is a terminal: how much is told depends on the machine's speed, and a
/// file should have the same in it every time.
fn say(progress: Progress<'_>) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let line = match progress {
        Progress::Preparing(counts) => {
            format!("preparing: {} machines, {} available", counts.machines, counts.available)
        }
        Progress::Step(step) => format!(
            "step {}, {:.0} s: {} machines, {} available",
            step.step, step.seconds, step.counts.machines, step.counts.available
        ),
    };
    // Nothing depends on whether it is read.
    let _ = writeln!(anstream::stderr(), "{line}");
}

fn table(report: &RolloutReport) -> String {
    let width = report.steps.iter().map(|step| step.machine.len()).max().unwrap_or_default().max(7);
    let mut text = String::new();
    if !report.steps.is_empty() {
        let _ = writeln!(text, "STEP     TIME  EVENT           {:width$}  MACHINES  AVAILABLE", "MACHINE");
    }
    for step in &report.steps {
        let _ = writeln!(
            text,
            "{:>4} {:>6.0} s  {:<14}  {:width$}  {:>8}  {:>9}",
            step.step, step.seconds, step.event, step.machine, step.counts.machines, step.counts.available
        );
    }
    let in_place = match report.updated_in_place {
        0 => String::new(),
        updated => format!(", {updated} updated in place"),
    };
    let _ = writeln!(
        text,
        "\n{} created, {} deleted{in_place}; at most {} machines, at least {} available; {:.0} s",
        report.created, report.deleted, report.max_machines, report.min_available, report.virtual_seconds
    );
    text
}
