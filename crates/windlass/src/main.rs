//! The `windlass` command: reads arguments, calls the libraries, prints.

mod exit;
mod extension;
mod output;
mod plan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Takes Kubernetes clusters through chained upgrades, version by version.
#[derive(Parser)]
#[command(version, max_term_width = 110, disable_help_subcommand = true)]
#[command(after_help = "\
Exit codes: 0 done, 1 failed, 2 wrong usage or invalid input, 3 refused (no valid plan, unsafe).
Colour is used on a terminal only; set NO_COLOR to turn it off.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Plan(Box<plan::PlanCommand>),
    Extension(extension::ExtensionCommand),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Plan(command) => plan::run(*command),
        Command::Extension(command) => extension::run(command),
    };
    exit::report(outcome)
}
