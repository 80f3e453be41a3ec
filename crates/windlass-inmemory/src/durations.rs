//! How long machines take that say nothing about it themselves: what is written on their DevCluster.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_api::names::{CONTROL_PLANE_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL};

use crate::startup::Draw;

/// Annotation of a DevCluster: how long the machines take whose spec has no in-memory backend. The value is [`Durations`]
/// as JSON.
pub const DURATIONS_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/durations";

/// The group whose durations count for all groups that have none of their own.
pub const EVERY_GROUP: &str = "*";

/// How long machines take to come and to go, in seconds, by the groups of [`group_of`]. A group has one duration or
/// several; each machine has one of them, which comes from the seed and its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Durations {
    /// From the bootstrap data to the Node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub create: BTreeMap<String, Vec<f64>>,
    /// From the deletion of the infrastructure to its end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub delete: BTreeMap<String, Vec<f64>>,
}

impl Durations {
    /// What the annotations of a DevCluster say. What cannot be read says nothing.
    pub fn of(annotations: &BTreeMap<String, String>) -> Self {
        let text = annotations.get(DURATIONS_ANNOTATION);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// How long a machine of a group takes to come.
    pub fn create(&self, group: Option<&str>, draw: Draw<'_>) -> Option<Duration> {
        drawn(&self.create, group, draw, "create")
    }

    /// How long a machine of a group takes to go.
    pub fn delete(&self, group: Option<&str>, draw: Draw<'_>) -> Option<Duration> {
        drawn(&self.delete, group, draw, "delete")
    }
}

fn drawn(
    groups: &BTreeMap<String, Vec<f64>>,
    group: Option<&str>,
    draw: Draw<'_>,
    purpose: &str,
) -> Option<Duration> {
    let values = group.and_then(|group| groups.get(group)).or_else(|| groups.get(EVERY_GROUP))?;
    draw.one_of(values, purpose).and_then(|seconds| Duration::try_from_secs_f64(*seconds).ok())
}

/// The group of a machine, by the labels of what it belongs to: `control-plane`, `MachineDeployment/NAME` or
/// `MachinePool/NAME` with the names of the topology.
pub fn group_of(labels: &BTreeMap<String, String>) -> Option<String> {
    if labels.contains_key(CONTROL_PLANE_LABEL) {
        return Some("control-plane".to_owned());
    }
    let deployment =
        labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).map(|name| format!("MachineDeployment/{name}"));
    deployment.or_else(|| labels.get(TOPOLOGY_POOL_NAME_LABEL).map(|name| format!("MachinePool/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_one_of_the_durations_of_its_group() {
        let text = r#"{"create": {"*": [60.0], "control-plane": [300.0, 400.0]}}"#;
        let annotations = BTreeMap::from([(DURATIONS_ANNOTATION.to_owned(), text.to_owned())]);
        let durations = Durations::of(&annotations);
        let seconds = |group: Option<&str>, name: &str| {
            durations.create(group, Draw { seed: 7, namespace: "default", name }).map(|time| time.as_secs())
        };
        assert_eq!(seconds(Some("MachineDeployment/a"), "m"), Some(60));
        assert_eq!(seconds(None, "m"), Some(60));
        let drawn: std::collections::BTreeSet<Option<u64>> =
            (0..50).map(|n| seconds(Some("control-plane"), &format!("m{n}"))).collect();
        assert_eq!(drawn, [Some(300), Some(400)].into());
        assert_eq!(seconds(Some("control-plane"), "m1"), seconds(Some("control-plane"), "m1"));
        assert_eq!(durations.delete(None, Draw { seed: 7, namespace: "default", name: "m" }), None);
        assert_eq!(Durations::of(&BTreeMap::new()), Durations::default());
    }

    #[test]
    fn groups_are_told_by_labels() {
        let of = |pairs: &[(&str, &str)]| {
            group_of(&pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
        };
        assert_eq!(of(&[(CONTROL_PLANE_LABEL, "")]).as_deref(), Some("control-plane"));
        assert_eq!(of(&[(TOPOLOGY_DEPLOYMENT_NAME_LABEL, "a")]).as_deref(), Some("MachineDeployment/a"));
        assert_eq!(of(&[(TOPOLOGY_POOL_NAME_LABEL, "a")]).as_deref(), Some("MachinePool/a"));
        assert_eq!(of(&[]), None);
    }
}
