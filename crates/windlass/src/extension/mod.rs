//! `windlass extension`: tools for those who write and run runtime extensions.

mod openapi;

use clap::{Args, Subcommand};

use crate::exit::Failure;

/// Tools for runtime extensions: test one, check its registration, describe the hooks
#[derive(Args)]
pub(crate) struct ExtensionCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Openapi(openapi::OpenapiCommand),
}

pub(crate) fn run(command: ExtensionCommand) -> Result<(), Failure> {
    match command.action {
        Action::Openapi(command) => openapi::run(&command),
    }
}
