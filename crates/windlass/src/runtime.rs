//! Runs asynchronous commands.

use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// Runs a command that waits for others most of the time.
pub(crate) fn on_one_thread<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    block_on(Builder::new_current_thread().enable_all().build(), command)
}

/// Runs a command that serves.
pub(crate) fn on_all_cores(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    block_on(Builder::new_multi_thread().enable_all().build(), command)
}

fn block_on<T>(
    runtime: io::Result<Runtime>,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?.block_on(command)
}
