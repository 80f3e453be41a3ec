//! `windlass extension`: tools for those who write and run runtime extensions.

mod call;
mod lint;
mod manifest;
mod openapi;
mod test;

use clap::{Args, Subcommand};

use crate::exit::Failure;
use crate::runtime::on_one_thread;

/// Tools for runtime extensions: test one, check its registration, describe the hooks
#[derive(Args)]
pub(crate) struct ExtensionCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Test(Box<test::TestCommand>),
    Lint(lint::LintCommand),
    Call(Box<call::CallCommand>),
    Openapi(openapi::OpenapiCommand),
}

pub(crate) fn run(command: ExtensionCommand) -> Result<(), Failure> {
    match command.action {
        Action::Test(command) => on_one_thread(test::run(*command)),
        Action::Lint(command) => lint::run(&command),
        Action::Call(command) => on_one_thread(call::run(*command)),
        Action::Openapi(command) => openapi::run(&command),
    }
}
