//! `windlass describe`: what is, what comes next, what it waits on.

pub(crate) mod line;
pub(crate) mod table;
mod updates;

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use kube::Client;
use windlass_api::printable;
use windlass_controllers::describe::{DescribeError, describe_cluster};
use windlass_engine::describe::ClusterDescription;
use windlass_engine::progress::Verdict;

use crate::exit::Failure;
use crate::kubeconfig::ClusterArguments;
use crate::output::{self, Format};

/// Show what a cluster is made of, how far its upgrade is, and what it waits on
#[derive(Args)]
pub(crate) struct DescribeCommand {
    #[command(subcommand)]
    command: Described,
}

#[derive(Subcommand)]
enum Described {
    Cluster(ClusterCommand),
}

/// Describe a Cluster of a management cluster: a tree of its objects, its upgrade plan, what it waits on.
///
/// Nothing is written, and reading is all that the user of the kubeconfig needs to be allowed. It works with the
/// controllers of Cluster API as well as with those of Windlass.
#[derive(Args)]
#[command(after_help = "\
With --exit-code, scripts learn how it goes: 0 up to date, 10 progressing, 11 waiting on something else than machines (a
hook, an approval, a path), 12 stalled: nothing has happened for longer than 19 of 20 machines of the cluster take.

Examples:
  windlass describe cluster c1
  windlass describe cluster c1 --watch
  windlass describe cluster c1 --exit-code > /dev/null || echo $?
  windlass describe cluster c1 -n team-a --kubeconfig management.kubeconfig
  windlass describe cluster c1 -o json | jq .waitingOn.what")]
struct ClusterCommand {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Show every machine, also if many are alike
    #[arg(long)]
    all: bool,
    /// Describe it again and again until it is up to date; without a terminal, a line for everything that changes
    #[arg(short, long, conflicts_with = "output")]
    watch: bool,
    /// End with a code that says how it goes: 0 up to date, 10 progressing, 11 waiting, 12 stalled
    #[arg(long)]
    exit_code: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// How often a Cluster is described that is watched.
const EVERY: Duration = Duration::from_secs(2);

pub(crate) async fn run(command: DescribeCommand) -> Result<(), Failure> {
    let Described::Cluster(command) = command.command;
    let (client, namespace) = command.cluster.connect().await?;
    let verdict = match command.watch {
        true => watch(&command, &client, &namespace).await?,
        false => {
            let described = described(&command, &client, &namespace).await?;
            match command.output {
                Format::Table => output::print(&table(&command, &described))?,
                format => output::print_document(format, &described)?,
            }
            described.progress.verdict
        }
    };
    match verdict.exit_code() {
        code @ 1.. if command.exit_code => Err(Failure::Printed(code)),
        _ => Ok(()),
    }
}

async fn described(
    command: &ClusterCommand,
    client: &Client,
    namespace: &str,
) -> Result<ClusterDescription, Failure> {
    let described = describe_cluster(client, namespace, &command.cluster.name, jiff::Timestamp::now()).await;
    described.map_err(|error| match error {
        DescribeError::NotFound { .. } => Failure::Invalid(error.to_string()),
        other => Failure::Failed(other.to_string()),
    })
}

fn table(command: &ClusterCommand, described: &ClusterDescription) -> String {
    let terminal = std::io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    let width = terminal.map(|(terminal_size::Width(width), _)| usize::from(width));
    table::render(described, jiff::Timestamp::now(), command.all, width)
}

/// Describes until the Cluster is up to date.
async fn watch(command: &ClusterCommand, client: &Client, namespace: &str) -> Result<Verdict, Failure> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut said = String::new();
    loop {
        let described = described(command, client, namespace).await?;
        if is_terminal {
            output::redraw(&table(command, &described))?;
        } else {
            let line = line::line(&described);
            if line != said {
                output::print(&format!("{}\n", printable(&line)))?;
                said = line;
            }
        }
        if described.progress.verdict == Verdict::UpToDate {
            return Ok(Verdict::UpToDate);
        }
        tokio::time::sleep(EVERY).await;
    }
}
