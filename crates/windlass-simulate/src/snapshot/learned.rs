//! How long machines of a cluster take, learned from the times in its own objects.

use std::collections::BTreeMap;
use std::fmt;

use kube::ResourceExt;
use windlass_api::cluster::Machine;
use windlass_engine::progress::{ENOUGH, seconds};
use windlass_inmemory::{Durations, EVERY_GROUP, group_of};

use super::Snapshot;

/// Where durations come from, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// From so many machines of the cluster.
    From(usize),
    /// The objects tell nothing.
    Nothing,
}

impl fmt::Display for Learned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(count) => write!(
                f,
                "machines take as long as {count} machines of this cluster took, from their bootstrap data to a ready Node"
            ),
            Self::Nothing => f.write_str(
                "machines are assumed to start at once: no machine of this cluster tells how long it took; give \
                 --machine-duration",
            ),
        }
    }
}

impl Snapshot {
    /// How long machines took to come, by group.
    pub fn durations(&self) -> (Durations, Learned) {
        let machines =
            self.of_kind("Machine").filter_map(|object| serde_json::from_value(object.clone()).ok());
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut all = Vec::new();
        for machine in machines {
            let machine: Machine = machine;
            let Some(seconds) = seconds(&machine).map(|seconds| seconds as f64) else { continue };
            all.push(seconds);
            if let Some(group) = group_of(machine.labels()) {
                groups.entry(group).or_default().push(seconds);
            }
        }
        if all.is_empty() {
            return (Durations::default(), Learned::Nothing);
        }
        groups.retain(|_, seconds| seconds.len() >= ENOUGH);
        let learned = Learned::From(all.len());
        groups.insert(EVERY_GROUP.to_owned(), all);
        for seconds in groups.values_mut() {
            seconds.sort_by(f64::total_cmp);
        }
        (Durations { create: groups, ..Durations::default() }, learned)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use windlass_api::conditions::{BOOTSTRAP_CONFIG_READY, NODE_READY};

    use super::super::Format;
    use super::*;

    fn machine(group: &str, minutes: [u32; 3]) -> Value {
        let at = |minute: u32| format!("2026-01-01T00:{minute:02}:00Z");
        let condition = |type_: &str, minute| json!({"type": type_, "status": "True", "reason": "x", "message": "", "lastTransitionTime": at(minute)});
        let [created, data, node] = minutes;
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": format!("{group}-{node}"), "namespace": "n", "creationTimestamp": at(created),
                "labels": {"topology.cluster.x-k8s.io/deployment-name": group}},
            "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {}},
            "status": {"conditions": [condition(BOOTSTRAP_CONFIG_READY, data), condition(NODE_READY, node)]}})
    }

    fn snapshot(objects: Vec<Value>) -> Snapshot {
        Snapshot {
            format: Format::First,
            taken: Timestamp::UNIX_EPOCH,
            namespace: "n".to_owned(),
            cluster: "c".to_owned(),
            served: String::new(),
            objects,
            unread: Vec::new(),
        }
    }

    #[test]
    fn groups_with_enough_machines_have_durations_of_their_own() {
        let machines = vec![
            machine("web", [0, 1, 9]),
            machine("web", [0, 1, 5]),
            machine("web", [0, 1, 7]),
            machine("db", [0, 0, 30]),
            machine("odd", [5, 1, 5]),
        ];
        let (durations, learned) = snapshot(machines).durations();
        assert_eq!(learned, Learned::From(4), "one that took no time tells nothing");
        assert_eq!(durations.create["MachineDeployment/web"], [240.0, 360.0, 480.0]);
        assert_eq!(durations.create[EVERY_GROUP], [240.0, 360.0, 480.0, 1800.0]);
        assert_eq!(durations.create.len(), 2);
        assert_eq!(snapshot(Vec::new()).durations(), (Durations::default(), Learned::Nothing));
    }
}
