//! What clusterctl has on record: which provider it installed, in which release.

use serde::Serialize;
use serde_json::Value;

use super::object::{namespace, text};

/// The type of the provider that is Cluster API itself.
const CORE: &str = "CoreProvider";

/// A provider, as clusterctl installed it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledProvider {
    /// What clusterctl calls it, such as `cluster-api` or `kubeadm`.
    pub name: String,
    /// `CoreProvider`, `BootstrapProvider`, `ControlPlaneProvider`, `InfrastructureProvider` and others.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its release.
    pub version: String,
    /// Its namespace.
    pub namespace: String,
}

/// Every provider on record, by type and name. They have no spec: what they say stands beside their metadata.
pub(super) fn installed(records: &[Value]) -> Vec<InstalledProvider> {
    let mut found: Vec<InstalledProvider> = records
        .iter()
        .map(|record| InstalledProvider {
            name: text(&record["providerName"]),
            kind: text(&record["type"]),
            version: text(&record["version"]),
            namespace: namespace(record),
        })
        .collect();
    found.sort_by(|a, b| (&a.kind, &a.name, &a.namespace).cmp(&(&b.kind, &b.name, &b.namespace)));
    found
}

/// Who wrote an object last, and when, as its managed fields say.
pub(super) fn last_writer(object: &Value, providers: &[InstalledProvider]) -> String {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    // All times are in UTC and to the second: the order of the strings is that of the times.
    let Some(last) = entries.max_by_key(|entry| text(&entry["time"])) else { return String::new() };
    let manager = text(&last["manager"]);
    let program = match manager.as_str() {
        // The name of the binary of every program that is built as Cluster API's managers are.
        "manager" => {
            let release = providers.iter().find(|provider| provider.kind == CORE);
            match release {
                Some(release) => format!("Cluster API {}", release.version),
                None => "Cluster API".to_owned(),
            }
        }
        other => other.to_owned(),
    };
    format!("{program} at {}", text(&last["time"]))
}
