//! The init lock: of all control plane machines of a cluster, one initializes it.
//!
//! The lock is a ConfigMap, which the API server creates once. Age would not do: a machine that failed and is being replaced
//! is still the oldest.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};
use windlass_api::names::CLUSTER_NAME_LABEL;

/// Key of the ConfigMap with the holder, as JSON.
const HOLDER: &str = "lock-information";

/// Name of the ConfigMap.
pub fn name(cluster: &str) -> String {
    format!("{cluster}-lock")
}

/// The lock of a cluster, held by a Machine. It goes with the Cluster.
pub fn config_map(namespace: &str, cluster: &str, owner: OwnerReference, machine: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name(cluster)),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned())])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(HOLDER.to_owned(), json!({"machineName": machine}).to_string())])),
        ..ConfigMap::default()
    }
}

/// Whose the lock is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The Machine that asks has it.
    Held,
    /// No Machine has it: it may be taken.
    Free,
    /// Another Machine has it; its name if that can be read.
    Taken(Option<String>),
    /// A Machine has it that is gone: it is to be let go of, and taken afterwards.
    Abandoned {
        /// That Machine.
        holder: String,
    },
}

/// Whose the lock is that was found, as a Machine sees it.
pub fn claim(found: Option<&ConfigMap>, machine: &str, exists: impl Fn(&str) -> bool) -> Claim {
    let Some(found) = found else { return Claim::Free };
    let holder = found.data.as_ref().and_then(|data| data.get(HOLDER));
    let holder = holder.and_then(|holder| serde_json::from_str::<Value>(holder).ok());
    match holder.as_ref().and_then(|holder| holder["machineName"].as_str()) {
        Some(holder) if holder == machine => Claim::Held,
        Some(holder) if exists(holder) => Claim::Taken(Some(holder.to_owned())),
        Some(holder) => Claim::Abandoned { holder: holder.to_owned() },
        None => Claim::Taken(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_has_the_lock_until_it_is_gone() {
        let made = config_map("ns", "c1", OwnerReference::default(), "m1");
        assert_eq!(made.metadata.name.as_deref(), Some("c1-lock"));
        assert_eq!(made.data.as_ref().unwrap()["lock-information"], r#"{"machineName":"m1"}"#);
        for (found, machine, machines, expected) in [
            (None, "m1", &["m1"][..], Claim::Free),
            (Some(&made), "m1", &["m1", "m2"], Claim::Held),
            (Some(&made), "m2", &["m1", "m2"], Claim::Taken(Some("m1".to_owned()))),
            (Some(&made), "m2", &["m2"], Claim::Abandoned { holder: "m1".to_owned() }),
            (Some(&ConfigMap::default()), "m1", &["m1"], Claim::Taken(None)),
        ] {
            assert_eq!(claim(found, machine, |name| machines.contains(&name)), expected);
        }
    }
}
