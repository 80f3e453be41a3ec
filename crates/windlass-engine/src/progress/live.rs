//! A record of a live Cluster, as long as something looks at it. What was before comes from events and timestamps.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;
use serde::Serialize;
use windlass_api::conditions::AVAILABLE;

use super::lanes::seen;
use super::machines::Part;
use super::passed;
use super::record::Record;
use super::records::{LaneRecord, MachineCounts, OperationRecord, SkewRecord};
use crate::condition;
use crate::contract::{self, Contract};
use crate::describe::{ClusterDescription, Described};

/// What happened to a live Cluster since its upgrade began.
#[derive(Clone, Debug)]
pub struct LiveRecord {
    began: Timestamp,
    target: Option<String>,
    record: Record,
}

/// A record at a moment. The fields are a contract with scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordDescription {
    /// When it began: times count from there.
    pub began: Time,
    /// Now, in seconds after that.
    pub now_seconds: u64,
    /// What was done, in the order in which it began.
    pub operations: Vec<OperationRecord>,
    /// Which versions ran in the control plane and in every worker group.
    pub lanes: Vec<LaneRecord>,
    /// How many minors the slowest kubelet was behind.
    pub skew: Vec<SkewRecord>,
    /// How many machines came, went and were changed.
    pub machines: MachineCounts,
}

impl LiveRecord {
    /// Begins at the first look, with what events and timestamps tell of the time before.
    pub fn begin(objects: Described<'_>, described: &ClusterDescription, now: Timestamp) -> Self {
        let began = described.upgrade.as_ref().and_then(|upgrade| upgrade.began.as_ref());
        let began = began.map_or(now, |began| began.0.min(now));
        let at = |time: Timestamp| passed(began, time);
        let mut record = Record::begin(versions(objects), seen(objects));
        let mut changes: BTreeMap<Part, Vec<(u64, String, String)>> = BTreeMap::new();
        for change in objects.history() {
            let Some(part) = objects.part_of(&change.kind, &change.name) else { continue };
            changes.entry(part).or_default().push((at(change.at), change.from.clone(), change.to.clone()));
        }
        for (part, changes) in &changes {
            record.recall(part, changes, at(now));
        }
        for machine in objects.my_machines() {
            let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let Some((created, part)) = created.zip(Part::of(machine.labels())) else { continue };
            if created >= began {
                let available = condition::find(&machine.status.conditions, AVAILABLE)
                    .filter(|found| found.status == "True")
                    .map(|found| at(found.last_transition_time.0));
                record.recall_machine(&part, &machine.name_any(), at(created), available);
            }
        }
        Self { began, target: target(described), record }
    }

    /// Looks again. A new upgrade begins a new record.
    pub fn look(&mut self, objects: Described<'_>, described: &ClusterDescription, now: Timestamp) {
        let target = target(described);
        if self.target.is_none() && target.is_some() {
            *self = Self::begin(objects, described, now);
            return;
        }
        self.target = target;
        self.record.look_at(versions(objects), seen(objects), passed(self.began, now));
    }

    /// The worst skew that was seen.
    pub fn worst_skew(&self) -> u64 {
        self.record.worst_skew()
    }

    /// The record at a moment.
    pub fn describe(&self, now: Timestamp) -> RecordDescription {
        let now_seconds = passed(self.began, now);
        RecordDescription {
            began: Time(self.began),
            now_seconds,
            operations: self.record.operations_until(now_seconds),
            lanes: self.record.lanes(),
            skew: self.record.skew().to_vec(),
            machines: self.record.counts(),
        }
    }
}

fn target(described: &ClusterDescription) -> Option<String> {
    described.upgrade.as_ref().map(|upgrade| upgrade.to.clone())
}

/// The version that each part shall have.
fn versions(objects: Described<'_>) -> BTreeMap<Part, String> {
    let control_plane = objects.control_plane.map(|found| contract::control_plane(found, Contract::V1Beta2));
    let control_plane = control_plane.and_then(|read| read.version);
    let mut versions: BTreeMap<Part, String> =
        control_plane.map(|version| (Part::ControlPlane, version)).into_iter().collect();
    let mut add = |kind: &str, name: String, version: &str| {
        if let Some(part) = objects.part_of(kind, &name).filter(|_| !version.is_empty()) {
            versions.insert(part, version.to_owned());
        }
    };
    for group in objects.my_deployments() {
        add("MachineDeployment", group.name_any(), &group.spec.template.spec.version);
    }
    for pool in objects.my_pools() {
        add("MachinePool", pool.name_any(), &pool.spec.template.spec.version);
    }
    versions
}
