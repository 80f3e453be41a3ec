//! `windlass simulate`: runs the real controllers in virtual time.

mod rollout;
mod script;
mod upgrade;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// Run the real controllers in virtual time: hours pass in seconds, and nothing outside is touched.
///
/// The controllers, the API and the in-memory provider are those that everything else uses. The same seed tells the
/// same story.
#[derive(Args)]
pub(crate) struct SimulateCommand {
    #[command(subcommand)]
    command: Simulation,
}

#[derive(Subcommand)]
enum Simulation {
    Rollout(rollout::RolloutCommand),
    Script(script::ScriptCommand),
    Upgrade(Box<upgrade::UpgradeCommand>),
}

pub(crate) fn run(command: SimulateCommand) -> Result<(), Failure> {
    match command.command {
        Simulation::Rollout(command) => rollout::run(&command),
        Simulation::Script(command) => script::run(&command),
        Simulation::Upgrade(command) => upgrade::run(&command),
    }
}
