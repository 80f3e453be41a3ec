//! `windlass watch`: all clusters, and the lanes of one, live.

mod cluster;
mod fleet;
mod keys;
mod screen;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use windlass_api::printable;
use windlass_controllers::fleet::Fleet;

use crate::describe::line::line;
use crate::exit::Failure;
use crate::kubeconfig::ApiArguments;
use crate::output;
use crate::serve::termination;
use screen::Screen;
use state::State;

/// Watch clusters live: a table of all, and the lanes of one
///
/// Nothing is written. It works with the controllers of Cluster API as well as with those of Windlass, as far as their objects
/// tell. The user of the kubeconfig must be allowed to list and watch Clusters, MachineDeployments, MachinePools and Machines in
/// all namespaces; control planes and Events are shown where they can be read.
#[derive(Args)]
#[command(after_help = "\
Keys: up and down, enter for one cluster, / to filter by name, version or what is waited on, q to end, ? for all of them.
Without a terminal, a line is printed for everything that changes.

Examples:
  windlass watch
  windlass watch cluster prod -n team-a --kubeconfig management.kubeconfig
  windlass watch | tee upgrade.log")]
pub(crate) struct WatchCommand {
    #[command(subcommand)]
    what: Option<Watched>,
    #[command(flatten)]
    api: ApiArguments,
}

#[derive(Subcommand)]
enum Watched {
    /// Begin with one Cluster
    Cluster {
        /// Name of the Cluster
        name: String,
        /// Namespace of the Cluster; left out, that of the context
        #[arg(short, long, value_name = "NS")]
        namespace: Option<String>,
        #[command(flatten)]
        api: ApiArguments,
    },
}

/// How often clusters are looked at. Their objects are followed all the time.
const EVERY: Duration = Duration::from_millis(500);

pub(crate) async fn run(command: WatchCommand) -> Result<(), Failure> {
    let api = match &command.what {
        Some(Watched::Cluster { api, .. }) if !command.api.is_given() => api,
        _ => &command.api,
    };
    let (client, default_namespace) = api.connect().await?;
    let one = command
        .what
        .map(|Watched::Cluster { name, namespace, .. }| (namespace.unwrap_or(default_namespace), name));
    let fleet = Fleet::start(client);
    // A terminal that cannot move its cursor gets lines, as a file does.
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    match std::io::stdout().is_terminal() && !is_dumb {
        true => on_terminal(&fleet, one).await,
        false => as_lines(&fleet, one).await,
    }
}

async fn on_terminal(fleet: &Fleet, one: Option<(String, String)>) -> Result<(), Failure> {
    let mut screen = Screen::enter().map_err(|error| Failure::Failed(format!("cannot draw: {error}")))?;
    let mut keys = keys::pressed();
    let stop = termination()?;
    tokio::pin!(stop);
    let mut state = State::new(one);
    loop {
        let now = Timestamp::now();
        state.update(fleet.look(now).await, fleet.trouble().filter(|_| !fleet.is_synced()));
        screen.draw(&state, now)?;
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = &mut stop => return Ok(()),
            key = keys.recv() => match key {
                Some(key) if !state.press(key) => return Ok(()),
                Some(_) => {}
                // The terminal is gone.
                None => return Ok(()),
            },
        }
    }
}

async fn as_lines(fleet: &Fleet, one: Option<(String, String)>) -> Result<(), Failure> {
    let stop = termination()?;
    tokio::pin!(stop);
    let mut said: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut complained = None;
    loop {
        let now = Timestamp::now();
        for view in fleet.look(now).await {
            let described = &view.described;
            let key = (described.namespace.clone(), described.name.clone());
            if one.as_ref().is_some_and(|one| *one != key) {
                continue;
            }
            let line = line(described);
            if said.get(&key) != Some(&line) {
                let at = now.strftime("%H:%M:%S");
                output::print(&format!("{at} {}\n", printable(&format!("{}/{} {line}", key.0, key.1))))?;
                said.insert(key, line);
            }
        }
        let trouble = fleet.trouble();
        if trouble.is_some() && trouble != complained {
            output::note(trouble.as_deref().unwrap_or_default());
        }
        complained = trouble;
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = &mut stop => return Ok(()),
        }
    }
}
