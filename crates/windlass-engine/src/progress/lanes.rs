//! The control plane and the worker groups, each with its machines and their versions.

use std::collections::BTreeMap;

use kube_core::ResourceExt;
use serde::Serialize;
use windlass_api::cluster::MachinePool;
use windlass_version::Version;

use super::machines::{MachineState, Machines, Part, Seen};
use crate::contract::{self, Contract};
use crate::describe::Described;
use crate::topology::{Entry, WorkerKind};

/// The control plane, or a worker group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// What it is called: `control plane`, or the name of a worker group.
    pub name: String,
    /// Its machines, oldest first.
    pub machines: Vec<Mark>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Its name; of an instance of a pool that has no Machines, one that is made up.
    pub name: String,
    /// The version that it runs, or will.
    pub version: String,
    /// How it is.
    pub state: MachineState,
}

/// What the lane of the control plane is called.
const CONTROL_PLANE: &str = "control plane";

/// The lanes of a Cluster: the control plane, the worker groups in the order of the topology, then others by their names.
pub fn lanes(objects: Described<'_>) -> Vec<Lane> {
    let ages: BTreeMap<String, _> = objects
        .my_machines()
        .map(|machine| (machine.name_any(), machine.metadata.creation_timestamp.clone()))
        .collect();
    let mut all: Vec<(String, Seen)> = seen(objects).into_iter().collect();
    all.sort_by(|(a, _), (b, _)| (ages.get(a), a).cmp(&(ages.get(b), b)));
    let mut marks: BTreeMap<Part, Vec<Mark>> = BTreeMap::new();
    for (name, seen) in all {
        let running = seen.running.as_ref().map(ToString::to_string);
        let version = running.unwrap_or_else(|| seen.version.clone());
        marks.entry(seen.part.clone()).or_default().push(Mark { name, version, state: seen.state() });
    }
    let mut parts = vec![Part::ControlPlane];
    let topology = objects.cluster.spec.topology.as_ref();
    for entry in topology.map(Entry::all).unwrap_or_default() {
        parts.push(match entry.kind {
            WorkerKind::MachineDeployment => Part::MachineDeployment(entry.name.to_owned()),
            WorkerKind::MachinePool => Part::MachinePool(entry.name.to_owned()),
        });
    }
    let others: Vec<Part> = marks.keys().filter(|part| !parts.contains(part)).cloned().collect();
    let lane = |part: Part| {
        let name = part.group().map_or(CONTROL_PLANE, String::as_str).to_owned();
        Lane { name, machines: marks.remove(&part).unwrap_or_default() }
    };
    parts.into_iter().chain(others).map(lane).collect()
}

/// Machines by their names, and instances of pools whose providers make no Machines.
pub(super) fn seen(objects: Described<'_>) -> BTreeMap<String, Seen> {
    let machines = objects.my_machines().filter_map(|machine| Some((machine.name_any(), Seen::of(machine)?)));
    let mut seen: BTreeMap<String, Seen> = machines.collect();
    for pool in objects.my_pools() {
        let name = pool.name_any();
        let Some(part) = objects.part_of(MachinePool::KIND, &name) else { continue };
        if !seen.values().any(|machine| machine.part == part) {
            seen.extend(instances(pool, &name, &part));
        }
    }
    seen
}

fn instances(pool: &MachinePool, name: &str, part: &Part) -> Vec<(String, Seen)> {
    let mut ready = pool.status.ready_replicas.unwrap_or_default();
    let mut instances = Vec::new();
    for running in &pool.status.versions {
        for _ in 0..running.replicas.unwrap_or_default() {
            let seen = Seen {
                part: part.clone(),
                version: running.version.clone(),
                running: Version::parse(&running.version).ok(),
                available: ready > 0,
                deleting: false,
                updating: false,
                outdated: None,
            };
            ready -= 1;
            instances.push((format!("{name} #{}", instances.len() + 1), seen));
        }
    }
    instances
}

/// The largest skew between a kubelet of a worker and an API server.
pub fn skew(objects: Described<'_>) -> u64 {
    let mut machines = Machines::default();
    for (name, seen) in seen(objects) {
        machines.insert(name, seen);
    }
    machines.shown_skew()
}

/// How many machines have a version and are available, and how many there shall be.
pub(super) fn counted(objects: Described<'_>, lanes: &[Lane], target: Option<&str>) -> (usize, usize) {
    let marks = || lanes.iter().flat_map(|lane| &lane.machines);
    let desired = desired(objects).unwrap_or_else(|| marks().count());
    let is_done = |mark: &&Mark| {
        mark.state == MachineState::Available && target.is_none_or(|target| mark.version == target)
    };
    (marks().filter(is_done).count().min(desired), desired)
}

/// How many machines there shall be, if all parts say so.
fn desired(objects: Described<'_>) -> Option<usize> {
    let control_plane = objects.control_plane.map(|found| contract::control_plane(found, Contract::V1Beta2));
    let mut all = i64::from(control_plane?.replicas?);
    for group in objects.my_deployments() {
        all += i64::from(group.replicas()?);
    }
    for pool in objects.my_pools() {
        all += i64::from(pool.replicas()?);
    }
    usize::try_from(all).ok()
}
