//! `windlass extension`: tools for those who write and run runtime extensions.

mod call;
mod lint;
mod manifest;
mod openapi;
mod test;

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
    Test(Box<test::TestCommand>),
    Lint(lint::LintCommand),
    Call(Box<call::CallCommand>),
    Openapi(openapi::OpenapiCommand),
}

pub(crate) fn run(command: ExtensionCommand) -> Result<(), Failure> {
    match command.action {
        Action::Test(command) => wait_for(test::run(*command)),
        Action::Lint(command) => lint::run(&command),
        Action::Call(command) => wait_for(call::run(*command)),
        Action::Openapi(command) => openapi::run(&command),
    }
}

/// Runs an asynchronous command. One thread is enough: these commands wait for others most of the time.
fn wait_for(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(command)
}
