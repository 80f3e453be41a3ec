//! `windlass check`: whether Windlass can run on a management cluster, before anything is changed there.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use serde::Serialize;
use windlass_engine::readiness::{Level, Report, assess};
use windlass_manager::{Selection, WouldWrite, read_management, would_write, write_findings};

use crate::exit::Failure;
use crate::kubeconfig::ApiArguments;
use crate::output::{self, Format};
use crate::table::{HEAD, Table};

/// Say whether Windlass can run on a management cluster, and what it would take over there
#[derive(Args)]
#[command(after_help = "\
Nothing is written. The user of the kubeconfig needs to get and list; what Windlass would write is found out by a dry
run on the server, which needs the rights of deploy/alone/rbac.yaml (leave it out with --without-dry-run).

Exit codes: 0 nothing stands in the way, 3 something does (or, with --fail-on warning, could).

Examples:
  windlass check
  windlass check --kubeconfig management.kubeconfig --without-dry-run
  windlass check --controllers topology,extensionconfig
  windlass check -o json | jq '.findings[] | select(.level == \"blocks\")'")]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    api: ApiArguments,
    /// Controllers that would run: names, or * and those to leave out with a minus
    #[arg(long, value_name = "LIST", default_value = "*", value_delimiter = ',', allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// Do not find out what would be written
    #[arg(long)]
    without_dry_run: bool,
    /// From which level on the exit code is 3
    #[arg(long, value_enum, default_value_t = FailOn::Blocks)]
    fail_on: FailOn,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Something will not work, or not as it did before
    Warning,
    /// Windlass must not run like this
    Blocks,
}

/// The report, and what would be written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckDocument {
    #[serde(flatten)]
    report: Report,
    /// Left out if it was not found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_write: Option<Vec<String>>,
    next: String,
}

pub(crate) async fn run(command: CheckCommand) -> Result<(), Failure> {
    let controllers =
        Selection::from_names(&command.controllers).map_err(|error| Failure::Invalid(error.to_string()))?;
    let (client, _) = command.api.connect().await?;
    let management = read_management(&client).await.map_err(|error| Failure::Failed(error.to_string()))?;
    let mut report = assess(&management, &controllers.names(), jiff::Timestamp::now());
    // Without the kinds there is nothing that controllers could look at.
    let can_try = !command.without_dry_run && !report.clusters.is_empty();
    let writes = match can_try {
        true => Some(
            would_write(client.clone(), &controllers)
                .await
                .map_err(|error| Failure::Failed(error.to_string()))?,
        ),
        false => None,
    };
    report.add(write_findings(&client, &management, writes.as_deref().unwrap_or_default()).await);
    let is_refused = match command.fail_on {
        FailOn::Warning => report.worst() >= Some(Level::Warning),
        FailOn::Blocks => report.worst() >= Some(Level::Blocks),
    };
    let document = CheckDocument {
        next: next(&report, &command.controllers.join(",")),
        would_write: writes
            .map(|writes| writes.iter().filter(|write| !write.is_status()).map(line).collect()),
        report,
    };
    match command.output {
        Format::Table => output::print(&render(&document))?,
        format => output::print_document(format, &document)?,
    }
    if is_refused { Err(Failure::Printed(3)) } else { Ok(()) }
}

fn line(write: &WouldWrite) -> String {
    format!("{} {}", write.verb, write.path)
}

/// The command that comes next.
fn next(report: &Report, controllers: &str) -> String {
    let blocking = report.findings.iter().find(|finding| finding.level == Level::Blocks);
    match blocking {
        Some(finding) if !finding.remedy.is_empty() => finding.remedy.clone(),
        Some(_) => "windlass check, when what blocks is out of the way".to_owned(),
        None if controllers == "*" => "windlass run --dry-run".to_owned(),
        None => format!("windlass run --controllers {controllers} --dry-run"),
    }
}

fn render(document: &CheckDocument) -> String {
    let report = &document.report;
    let mut text = String::new();
    let plain = |cell: &str| (cell.to_owned(), Style::new());
    if !report.kinds.is_empty() {
        let mut table = Table::new(["KIND", "SERVED", "STORED", "CONTRACT", "INSTALLED BY"]);
        for kind in &report.kinds {
            let or_dash = |value: &Option<String>| plain(value.as_deref().unwrap_or("-"));
            let name = format!("{}.{}", kind.kind, kind.group);
            let served = kind.served.join(",");
            table.row([
                plain(&name),
                plain(&served),
                plain(&kind.stored),
                or_dash(&kind.contract),
                or_dash(&kind.provider),
            ]);
        }
        let _ = writeln!(text, "{HEAD}Installed{HEAD:#}\n{}", table.render());
    }
    if !report.providers.is_empty() {
        let mut table = Table::new(["PROVIDER", "TYPE", "VERSION", "NAMESPACE"]);
        for provider in &report.providers {
            table.row([
                plain(&provider.name),
                plain(&provider.kind),
                plain(&provider.version),
                plain(&provider.namespace),
            ]);
        }
        let _ = writeln!(text, "{HEAD}Providers{HEAD:#} (on record with clusterctl)\n{}", table.render());
    }
    if !report.components.is_empty() {
        let mut table = Table::new(["PROGRAM", "LEASE", "HELD BY"]);
        for component in &report.components {
            let holder = component.holder.as_ref().map_or("none", |holder| &holder.identity);
            table.row([plain(&component.name), plain(&component.lease), plain(holder)]);
        }
        let _ = writeln!(text, "{HEAD}Running{HEAD:#}\n{}", table.render());
    }
    if !report.clusters.is_empty() {
        let mut table = Table::new(["CLUSTER", "CLASS", "VERSION", "MACHINES", "STATE", "LAST WRITTEN BY"]);
        for cluster in &report.clusters {
            let dash = |text: &str| plain(if text.is_empty() { "-" } else { text });
            let machines = cluster.machines.to_string();
            table.row([
                plain(&cluster.name),
                dash(&cluster.class),
                dash(&cluster.version),
                plain(&machines),
                plain(cluster.state),
                dash(&cluster.last_written_by),
            ]);
        }
        let _ = writeln!(text, "{HEAD}Clusters{HEAD:#}\n{}", table.render());
    }
    if let Some(writes) = &document.would_write {
        let count = writes.len();
        let _ = writeln!(text, "{HEAD}Would write at once{HEAD:#} ({count}, statuses and Events left out)");
        for line in writes.iter().take(SHOWN) {
            let _ = writeln!(text, "  {}", output::message(line));
        }
        if count > SHOWN {
            let _ = writeln!(
                text,
                "  and {} more: windlass run --dry-run shows all, with what is written",
                count - SHOWN
            );
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{HEAD}Findings{HEAD:#}");
    if report.findings.is_empty() {
        let _ = writeln!(text, "  none: nothing stands in the way");
    }
    for finding in &report.findings {
        let style = Style::new().bold().fg_color(match finding.level {
            Level::Blocks => Some(AnsiColor::Red.into()),
            Level::Warning => Some(AnsiColor::Yellow.into()),
            Level::Note => None,
        });
        let (about, what) = (output::message(&finding.about), output::message(&finding.what));
        let _ = writeln!(text, "  {style}{:<7}{style:#}  {about}: {what}", finding.level);
        if !finding.remedy.is_empty() {
            let _ = writeln!(text, "           {}", output::message(&finding.remedy));
        }
    }
    let _ = writeln!(text, "\nNext: {}", output::message(&document.next));
    text
}

/// How many writes are shown one by one.
const SHOWN: usize = 20;
