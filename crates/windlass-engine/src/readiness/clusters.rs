//! The Clusters that would be taken over: what each is in the middle of, and what is wrong with it already.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::Cluster;
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, PENDING_HOOKS_ANNOTATION, REPLICAS_MANAGED_BY_ANNOTATION,
    UPDATE_IN_PROGRESS_ANNOTATION, UPGRADE_STEP_ANNOTATION,
};
use windlass_version::{Version, kubelet_skew};

use super::{Finding, Level, Objects};
use crate::pause::Pause;

/// A Cluster, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    /// Namespace and name.
    pub name: String,
    /// Its ClusterClass; empty if it has none.
    pub class: String,
    /// The version that its topology asks for.
    pub version: String,
    /// How many Machines it has.
    pub machines: usize,
    /// What it is in the middle of: `settled`, `upgrading`, `paused` or `being deleted`.
    pub state: &'static str,
}

pub(super) fn states(objects: &Objects) -> Vec<ClusterState> {
    let mut states: Vec<ClusterState> = objects
        .clusters
        .iter()
        .map(|cluster| {
            let topology = &cluster["spec"]["topology"];
            ClusterState {
                name: full_name(cluster),
                class: text(&topology["classRef"]["name"]),
                version: text(&topology["version"]),
                machines: machines_of(objects, cluster).count(),
                state: state(cluster, objects),
            }
        })
        .collect();
    states.sort_by(|a, b| a.name.cmp(&b.name));
    states
}

fn state(cluster: &Value, objects: &Objects) -> &'static str {
    if is_deleted(cluster) {
        return "being deleted";
    }
    if is_paused(cluster) {
        return "paused";
    }
    match upgrading(cluster, objects).is_some() {
        true => "upgrading",
        false => "settled",
    }
}

/// What says that an upgrade is under way.
fn upgrading(cluster: &Value, objects: &Objects) -> Option<String> {
    for mark in [UPGRADE_STEP_ANNOTATION, PENDING_HOOKS_ANNOTATION] {
        // Upstream leaves it empty when there is no step.
        if let Some(value) = annotation(cluster, mark).filter(|value| !value.is_empty()) {
            return Some(format!("annotation {mark} is {value:?}"));
        }
    }
    let wanted = cluster["spec"]["topology"]["version"].as_str()?;
    let other = machines_of(objects, cluster).find(|machine| {
        let version = machine["spec"]["version"].as_str();
        version.is_some_and(|version| version != wanted)
    })?;
    let version = text(&other["spec"]["version"]);
    Some(format!(
        "Machine {} is at {version}, the topology asks for {wanted}",
        text(&other["metadata"]["name"])
    ))
}

pub(super) fn findings(objects: &Objects) -> Vec<Finding> {
    let mut findings = Vec::new();
    for cluster in &objects.clusters {
        let about = format!("Cluster {}", full_name(cluster));
        if is_paused(cluster) {
            findings.push(Finding::new(Level::Note, &about, "is paused and stays untouched", ""));
        } else if let Some(evidence) = upgrading(cluster, objects) {
            let remedy = format!(
                "wait for its end, or look at what comes next: windlass describe cluster {} -n {}",
                text(&cluster["metadata"]["name"]),
                text(&cluster["metadata"]["namespace"])
            );
            findings.push(Finding::new(
                Level::Warning,
                &about,
                format!("an upgrade is under way: {evidence}"),
                remedy,
            ));
        }
        findings.extend(skew(cluster, objects, &about));
        if cluster["spec"]["topology"].is_null() {
            findings.push(Finding::new(
                Level::Note,
                &about,
                "has no topology: its objects are reconciled one by one, upgrades are not chained",
                "",
            ));
        }
    }
    for machine in &objects.machines {
        let about = format!("Machine {}", full_name(machine));
        if annotation(machine, UPDATE_IN_PROGRESS_ANNOTATION).is_some() {
            findings.push(Finding::new(
                Level::Note,
                &about,
                "is being updated in place: the update is finished",
                "",
            ));
        }
        if condition(machine, "OwnerRemediated").is_some_and(|status| status == "False") {
            let what = "is marked as unhealthy: it is replaced in the first minute";
            let remedy = format!(
                "kubectl annotate machine {} -n {} cluster.x-k8s.io/skip-remediation= to keep it",
                text(&machine["metadata"]["name"]),
                text(&machine["metadata"]["namespace"])
            );
            findings.push(Finding::new(Level::Warning, &about, what, remedy));
        }
        let has_cluster = objects.clusters.iter().any(|cluster| belongs(machine, cluster));
        if !has_cluster {
            let name = text(&machine["spec"]["clusterName"]);
            findings.push(Finding::new(
                Level::Warning,
                &about,
                format!("its Cluster {name:?} does not exist"),
                "",
            ));
        }
    }
    for pool in &objects.machine_pools {
        if let Some(manager) = annotation(pool, REPLICAS_MANAGED_BY_ANNOTATION) {
            let what = format!("its replicas are managed by {manager:?} and are not written");
            findings.push(Finding::new(Level::Note, format!("MachinePool {}", full_name(pool)), what, ""));
        }
    }
    for config in &objects.extension_configs {
        if condition(config, "Discovered").is_none_or(|status| status != "True") {
            findings.push(Finding::new(
                Level::Warning,
                format!("ExtensionConfig {}", text(&config["metadata"]["name"])),
                "is not discovered: hooks that it handles hold upgrades back",
                format!("kubectl describe extensionconfig {}", text(&config["metadata"]["name"])),
            ));
        }
    }
    findings
}

/// Workers that the version skew policy does not allow beside their control plane.
fn skew(cluster: &Value, objects: &Objects, about: &str) -> Vec<Finding> {
    let mut by_version: BTreeMap<(bool, String), &Value> = BTreeMap::new();
    for machine in machines_of(objects, cluster) {
        let is_control_plane = machine["metadata"]["labels"].get(CONTROL_PLANE_LABEL).is_some();
        by_version.insert((is_control_plane, text(&machine["spec"]["version"])), machine);
    }
    let versions = |control_plane: bool| {
        by_version.iter().filter(move |((is, _), _)| *is == control_plane).filter_map(
            |((_, version), machine)| {
                Some((Version::parse(version).ok()?, text(&machine["metadata"]["name"])))
            },
        )
    };
    let mut findings = Vec::new();
    for (worker, machine) in versions(false) {
        let violation =
            versions(true).find_map(|(control_plane, _)| kubelet_skew(&control_plane, &worker).err());
        if let Some(violation) = violation {
            let what = format!("the version skew is broken already: {violation} (Machine {machine})");
            let remedy = "upgrade these workers first; Windlass reconciles the Cluster and refuses to upgrade it further";
            findings.push(Finding::new(Level::Warning, about, what, remedy));
        }
    }
    findings
}

fn machines_of<'a>(objects: &'a Objects, cluster: &'a Value) -> impl Iterator<Item = &'a Value> {
    objects.machines.iter().filter(move |machine| belongs(machine, cluster))
}

fn belongs(machine: &Value, cluster: &Value) -> bool {
    machine["metadata"]["namespace"] == cluster["metadata"]["namespace"]
        && [&machine["spec"]["clusterName"], &machine["metadata"]["labels"][CLUSTER_NAME_LABEL]]
            .contains(&&cluster["metadata"]["name"])
}

fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn is_paused(cluster: &Value) -> bool {
    let cluster: Option<Cluster> = serde_json::from_value(cluster.clone()).ok();
    cluster.is_some_and(|cluster| Pause::of(&cluster.metadata, Some(&cluster)).is_some())
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(name)?.as_str()
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

fn full_name(object: &Value) -> String {
    format!("{}/{}", text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
