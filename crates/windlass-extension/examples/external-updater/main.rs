//! Takes over whole updates of strategy `External`: updates each machine by running a command, and writes to the objects
//! what the machine has become.
//!
//! ```text
//! cargo run -p windlass-extension --example external-updater -- \
//!     --kubeconfig ~/.kube/config --command '/usr/local/bin/update-node {node} {provider-id} {version}'
//! ```
//!
//! What an external updater has to keep, whatever it does to a machine:
//!
//! * **The Machine and its names.** The Machine, its infrastructure and its bootstrap config are the objects that they were,
//!   with their names, UIDs, owner references, labels and finalizers. An object that is deleted and made anew is another
//!   machine, and is replaced.
//! * **`providerID`.** It ties Machine, infrastructure and Node together, and must be the same after the update in all
//!   three. A host that is installed anew has to come back with the one it had.
//! * **The identity of the Node.** The same name, registered by the same machine. A Node that is there under another name
//!   is not the Node of the Machine, which then waits for its own.
//! * **The order of the writes.** The Machine comes last, when its objects are as desired and the Node runs the version: it
//!   says that the machine is done.
//! * **Nothing in memory.** A process can end at any time. This one answers with a time after which it wants to be asked
//!   again, and every request names the machines that are left: what was lost is begun once more, so the command must be
//!   able to run again for the same machine.

#[path = "../shared/serving.rs"]
mod serving;

mod objects;
mod updates;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use windlass_extension::hooks::{ExternalUpdate, ExternalUpdateRequest, ExternalUpdateResponse};
use windlass_extension::{Context, Extension, Handler};

use crate::serving::Serving;
use crate::updates::Updates;

/// Takes over updates of strategy External by running a command for each Machine.
///
/// Prints an ExtensionConfig for kubectl and serves until it is told to end.
#[derive(Parser)]
#[command(name = "external-updater")]
struct Arguments {
    /// Command that updates one machine; {namespace}, {name}, {node}, {provider-id} and {version} are filled in.
    /// Split at spaces and run without a shell
    #[arg(long, value_name = "COMMAND")]
    command: String,
    /// How the management cluster is reached; without it as kubectl does, or as a pod does
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Update control plane machines too
    #[arg(long)]
    control_planes: bool,
    /// Machines that are updated at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    max_parallel: usize,
    /// After how long the caller asks again
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    retry_after: i32,
    #[command(flatten)]
    serving: Serving,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let config = match &arguments.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await?,
    };
    let client = Client::try_from(config)?;
    let updates = Arc::new(Updates::new(client, &arguments.command, arguments.max_parallel.max(1))?);
    let (control_planes, retry_after) = (arguments.control_planes, arguments.retry_after.max(1));
    let take_over = move |_: Context, request: ExternalUpdateRequest| {
        let updates = Arc::clone(&updates);
        async move { answer(&updates, &request, control_planes, retry_after) }
    };
    let extension = Extension::new("external-updater")
        .on(ExternalUpdate, Handler::named("take-over").timeout_seconds(10), take_over)
        .build()?;
    arguments.serving.serve(extension).await
}

fn answer(
    updates: &Arc<Updates>,
    request: &ExternalUpdateRequest,
    control_planes: bool,
    retry_after: i32,
) -> Result<ExternalUpdateResponse, String> {
    if request.owner.kind != "MachineDeployment" && !control_planes {
        return Ok(ExternalUpdateResponse::refuse(format!(
            "{} is not updated by this updater",
            request.owner.kind
        )));
    }
    let progress = updates.begin(&request.machines, &request.desired)?;
    Ok(ExternalUpdateResponse::accept_for(progress.to_string(), retry_after))
}
