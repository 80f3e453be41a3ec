//! Where an upgrade will stop, for people and for scripts.

use anstyle::Style;
use jiff::Timestamp;
use serde::Serialize;
use windlass_api::cluster::Cluster;
use windlass_engine::topology::Stop;
use windlass_engine::waiting::Wait;

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
            // When it will begin does not matter to the command.
            command: Wait::since(&stop.waiting, Timestamp::UNIX_EPOCH).command(cluster),
        });
        documents.collect()
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
