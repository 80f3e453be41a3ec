//! `windlass describe`: what is, what comes next, what it waits on.

pub(crate) mod table;
mod updates;

use std::io::IsTerminal as _;

use clap::{Args, Subcommand};
use windlass_controllers::describe::{DescribeError, describe_cluster};

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
Examples:
  windlass describe cluster c1
  windlass describe cluster c1 -n team-a --kubeconfig management.kubeconfig
  windlass describe cluster c1 -o json | jq .waitingOn.what")]
struct ClusterCommand {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Show every machine, also if many are alike
    #[arg(long)]
    all: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub(crate) async fn run(command: DescribeCommand) -> Result<(), Failure> {
    let Described::Cluster(command) = command.command;
    let (client, namespace) = command.cluster.connect().await?;
    let described =
        describe_cluster(&client, &namespace, &command.cluster.name).await.map_err(|error| match error {
            DescribeError::NotFound { .. } => Failure::Invalid(error.to_string()),
            other => Failure::Failed(other.to_string()),
        })?;
    match command.output {
        Format::Table => {
            let now = jiff::Timestamp::now();
            let terminal = std::io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
            let width = terminal.map(|(terminal_size::Width(width), _)| usize::from(width));
            output::print(&table::render(&described, now, command.all, width))
        }
        format => output::print_document(format, &described),
    }
}
