//! Updates Machines in place: tells which changes it can make, and makes them by running a command.
//!
//! ```text
//! cargo run -p windlass-extension --example in-place-updater -- \
//!     --state /tmp/updates --command '/usr/local/bin/update-node {namespace} {name} {version}'
//! ```
//!
//! The command gets the desired objects as JSON in the file that `{desired}` or `$WINDLASS_DESIRED` names. It
//! must be able to run again for the same Machine: a machine can lose power at the worst of times.

#[path = "../shared/object_file.rs"]
mod object_file;
#[path = "../shared/serving.rs"]
mod serving;

mod attempt;
mod coverage;
mod updates;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use windlass_extension::hooks::{
    CanUpdateMachine, CanUpdateMachineSet, HookResponse, MachineObjects, RetryResponse, UpdateMachine,
    UpdateMachineResponse, requirement,
};
use windlass_extension::{Extension, Handler};

use crate::attempt::{ATTEMPT, Attempt};
use crate::coverage::{Coverage, Effect};
use crate::serving::Serving;
use crate::updates::{Progress, Update, Updates};

/// Updates Machines in place by running a command for each.
///
/// Prints an ExtensionConfig for kubectl and serves until it is told to end. Covers spec.version of Machines
/// and the given fields of their bootstrap configs.
#[derive(Parser)]
#[command(name = "in-place-updater")]
struct Arguments {
    /// Command that updates one Machine; {namespace}, {name}, {version} and {desired} are filled in. Split at
    /// spaces and run without a shell
    #[arg(long, value_name = "COMMAND")]
    command: String,
    /// Directory that remembers what was done; must survive a restart
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Field of the bootstrap config that the command can change, as a JSON pointer; may be repeated
    #[arg(long, value_name = "POINTER", default_values = ["/spec/files"])]
    bootstrap_field: Vec<String>,
    /// The Machine stays in service while the command runs, so that no other is added for it
    #[arg(long, conflicts_with = "require")]
    stays_available: bool,
    /// What is done to the Node before the command is run; may be repeated
    #[arg(long, value_name = "WHAT", value_parser = [requirement::DRAIN, requirement::VOLUME_DETACH])]
    require: Vec<String>,
    /// Machines that are updated at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    max_parallel: usize,
    /// How long the caller waits before it asks again
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    retry_after: u32,
    /// How long a failed update is left alone before it is tried again
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    back_off: u64,
    #[command(flatten)]
    serving: Serving,
}

fn main() -> Result<(), Box<dyn Error>> {
    // Not for people, so not in the help: the extension starts itself again for every run of the command.
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == ATTEMPT) {
        return Ok(Attempt::parse_from(arguments).run()?);
    }
    serve(Arguments::parse())
}

#[tokio::main]
async fn serve(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { command, state, bootstrap_field, max_parallel, retry_after, back_off, serving, .. } =
        arguments;
    let effect = Effect { affects_availability: !arguments.stays_available, requirements: arguments.require };
    let coverage = Arc::new(Coverage::new(bootstrap_field, effect)?);
    let back_off = Duration::from_secs(back_off);
    let updates = Arc::new(Updates::open(state, &command, max_parallel.max(1), back_off)?);

    let (machine, machine_set) = (Arc::clone(&coverage), Arc::clone(&coverage));
    let extension = Extension::new("in-place-updater")
        .on(CanUpdateMachine, "can-update-machine", move |_, request| {
            let response = machine.of_machine(&request);
            async { response }
        })
        .on(CanUpdateMachineSet, "can-update-machine-set", move |_, request| {
            let response = machine_set.of_machine_set(&request);
            async { response }
        })
        .on(UpdateMachine, Handler::named("update-machine").timeout_seconds(20), move |_, request| {
            let (coverage, updates) = (Arc::clone(&coverage), Arc::clone(&updates));
            let work = tokio::task::spawn_blocking(move || {
                update(&coverage, &updates, &request.desired, retry_after)
            });
            async { work.await.unwrap_or_else(|_| Err("the update could not be looked at".to_owned())) }
        })
        .build()?;
    serving.serve(extension).await
}

fn update(
    coverage: &Coverage,
    updates: &Updates,
    desired: &MachineObjects,
    retry_after: u32,
) -> Result<UpdateMachineResponse, String> {
    let update = Update::new(desired, &coverage.desired(desired))?;
    let progress =
        updates.advance(&update).map_err(|error| format!("cannot keep track of the update: {error}"))?;
    Ok(match progress {
        Progress::Done => UpdateMachineResponse::success(),
        Progress::Failed { how, tail } => {
            UpdateMachineResponse::failure(format!("updating {update} failed: {how}: {tail}"))
        }
        Progress::Running => UpdateMachineResponse::blocking(format!("updating {update}"), retry_after),
        Progress::BehindAnother => UpdateMachineResponse::blocking(
            format!("updating {update} waits for an earlier update of the Machine"),
            retry_after,
        ),
        Progress::BehindOthers => UpdateMachineResponse::blocking(
            format!("updating {update} waits for updates of other Machines"),
            retry_after,
        ),
    })
}
