//! Metadata and conditions of Kubernetes objects, as far as Windlass looks at them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hooks::wire::wire_struct;

wire_struct! {
    /// `metadata` of an object. What has no field here is kept and written back unchanged.
    #[derive(Default, Eq)]
    pub struct ObjectMeta {
        /// Name.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub name: String,
        /// Namespace; empty for objects of the whole cluster.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub namespace: String,
        /// Tells two objects of the same name, one after the other, apart.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub uid: String,
        /// Changes with every write. Opaque: equal or not, nothing else.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub resource_version: String,
        /// Changes with every write of `spec`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub generation: Option<i64>,
        /// When deletion was asked for; the object goes when its last finalizer does.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub deletion_timestamp: Option<String>,
        /// Labels.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub annotations: BTreeMap<String, String>,
        /// What must be done before the object goes.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub finalizers: Vec<String>,
    }
    flattened {
        /// Everything else.
        pub other: Map<String, Value>
    }
}

wire_struct! {
    /// One aspect of the state of an object.
    #[derive(Eq)]
    pub struct Condition {
        /// Which aspect.
        #[serde(rename = "type")]
        pub type_: String,
        /// Whether it holds.
        pub status: ConditionStatus,
        /// `metadata.generation` that was looked at. If the object has moved on, the condition is stale.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub observed_generation: Option<i64>,
        /// When `status` last changed, RFC 3339.
        pub last_transition_time: String,
        /// A word for programs.
        pub reason: String,
        /// A sentence for people.
        pub message: String,
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    #[default]
    Unknown,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_that_nobody_looks_at_survives() {
        let wire = json!({
            "name": "ext1",
            "generation": 3,
            "labels": {"a": "b"},
            "creationTimestamp": null,
            "managedFields": [{"manager": "kubectl"}],
        });
        let metadata: ObjectMeta = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(metadata.generation, Some(3));
        assert_eq!(serde_json::to_value(metadata).unwrap(), wire);
    }

    #[test]
    fn a_condition_is_read_and_written() {
        let wire = concat!(
            r#"{"type":"Discovered","status":"True","observedGeneration":2,"#,
            r#""lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Discovered","message":""}"#
        );
        let condition: Condition = serde_json::from_str(wire).unwrap();
        assert_eq!(condition.status, ConditionStatus::True);
        assert_eq!(serde_json::to_string(&condition).unwrap(), wire);
    }
}
