//! Where an upgrade will stop, for people and for scripts.

use anstyle::Style;
use serde::Serialize;
use windlass_api::cluster::Cluster;
use windlass_engine::topology::Stop;
use windlass_engine::waiting::WaitingOn;

use crate::table::{HEAD, Table};

/// A place where an upgrade stops. The fields are a contract with scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StopDocument {
    /// The step that does not start.
    before: String,
    /// Why, in one word.
    reason: &'static str,
    /// What has to happen.
    waits_for: String,
    /// The command that lets it go on, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

impl StopDocument {
    /// The stops of a Cluster, in their order.
    pub(crate) fn all(stops: &[Stop], cluster: &Cluster) -> Vec<Self> {
        let documents = stops.iter().map(|stop| Self {
            before: stop.before.to_string(),
            reason: stop.waiting.reason(),
            waits_for: stop.waiting.to_string(),
            command: command(&stop.waiting, cluster),
        });
        documents.collect()
    }
}

/// What its owner types to let an upgrade go on. Annotations of entries of the topology are removed where the entries
/// are written.
fn command(waiting: &WaitingOn, cluster: &Cluster) -> Option<String> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let namespace = cluster.metadata.namespace.as_deref();
    let of = namespace.map_or_else(|| name.to_owned(), |namespace| format!("-n {namespace} {name}"));
    match waiting {
        WaitingOn::Held { .. } | WaitingOn::HeldAt { .. } => Some(format!("windlass upgrade resume {of}")),
        WaitingOn::Approval { step } => Some(format!("windlass upgrade approve {of} {step}")),
        WaitingOn::UpgradeHolds { keys } => {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key}-")).collect();
            Some(format!("kubectl annotate cluster {of} {}", keys.join(" ")))
        }
        _ => None,
    }
}

/// A table of the stops; nothing if there are none.
pub(crate) fn render(stops: &[StopDocument]) -> String {
    if stops.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["STOPS BEFORE", "UNTIL", "GOES ON WITH"]);
    for stop in stops {
        let command = stop.command.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            (stop.before.clone(), HEAD),
            (stop.waits_for.clone(), Style::new()),
            (command, Style::new()),
        ]);
    }
    format!("\n{}", table.render())
}
