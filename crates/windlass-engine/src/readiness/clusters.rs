//! The Clusters that would be taken over: what each is in the middle of, and what is wrong with it already.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::Cluster;
use windlass_api::conditions::ROLLING_OUT;
use windlass_api::names::{CONTROL_PLANE_LABEL, PENDING_HOOKS_ANNOTATION, UPGRADE_STEP_ANNOTATION};
use windlass_version::{Version, check_control_plane_step, kubelet_skew};

use super::object::{annotation, belongs, condition, full_name, machines_of, name, namespace, text};
use super::providers::last_writer;
use super::{Finding, InstalledProvider, Level, Objects};
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
    /// Who wrote it last, and when; empty if it does not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_written_by: String,
}

pub(super) fn states(objects: &Objects, providers: &[InstalledProvider]) -> Vec<ClusterState> {
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
                last_written_by: last_writer(cluster, providers),
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
    for (kind, found) in
        [("control plane", &objects.control_planes), ("MachineDeployment", &objects.machine_deployments)]
    {
        let is_rolling =
            |object: &&Value| belongs(object, cluster) && condition(object, ROLLING_OUT) == Some("True");
        if let Some(object) = found.iter().find(is_rolling) {
            return Some(format!("{kind} {} is rolling out", name(object)));
        }
    }
    let wanted = cluster["spec"]["topology"]["version"].as_str()?;
    let other = machines_of(objects, cluster).find(|machine| {
        let version = machine["spec"]["version"].as_str();
        version.is_some_and(|version| version != wanted)
    })?;
    let version = text(&other["spec"]["version"]);
    Some(format!("Machine {} is at {version}, the topology asks for {wanted}", name(other)))
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
                name(cluster),
                namespace(cluster)
            );
            findings.push(Finding::new(
                Level::Warning,
                &about,
                format!("an upgrade is under way: {evidence}"),
                remedy,
            ));
        }
        findings.extend(skew(cluster, objects, &about));
        findings.extend(no_next_version(cluster, objects, &about));
        if cluster["spec"]["topology"].is_null() {
            findings.push(Finding::new(
                Level::Note,
                &about,
                "has no topology: its objects are reconciled one by one, upgrades are not chained",
                "",
            ));
        }
    }
    for config in &objects.extension_configs {
        if condition(config, "Discovered").is_none_or(|status| status != "True") {
            findings.push(Finding::new(
                Level::Warning,
                format!("ExtensionConfig {}", name(config)),
                "is not discovered: hooks that it handles hold upgrades back",
                format!("kubectl describe extensionconfig {}", name(config)),
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
        by_version
            .iter()
            .filter(move |((is, _), _)| *is == control_plane)
            .filter_map(|((_, version), machine)| Some((Version::parse(version).ok()?, name(machine))))
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

/// A class that lists no version which the control plane could go to next, though it lists later ones.
fn no_next_version(cluster: &Value, objects: &Objects, about: &str) -> Option<Finding> {
    let class = &cluster["spec"]["topology"]["classRef"];
    let within = class["namespace"].as_str().or(cluster["metadata"]["namespace"].as_str());
    let class = objects.cluster_classes.iter().find(|found| {
        found["metadata"]["name"] == class["name"] && found["metadata"]["namespace"].as_str() == within
    })?;
    let control_plane = objects.control_planes.iter().find(|found| belongs(found, cluster))?;
    let current = Version::parse(control_plane["spec"]["version"].as_str()?).ok()?;
    let listed = class["spec"]["kubernetesVersions"].as_array()?.iter().filter_map(Value::as_str);
    // The list is in order: the first that is later is the next.
    let next = listed
        .filter_map(|version| Version::parse(version).ok())
        .find(|version| current.is_older_than(version))?;
    let violation = check_control_plane_step(&current, &next).err()?;
    let what = format!(
        "the control plane is at {current}, and the next version that ClusterClass {} lists is {next}: {violation}",
        name(class)
    );
    let remedy = "add a version of the minor in between to its spec.kubernetesVersions; upgrades are refused until then";
    Some(Finding::new(Level::Warning, about, what, remedy))
}

fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn is_paused(cluster: &Value) -> bool {
    let cluster: Option<Cluster> = serde_json::from_value(cluster.clone()).ok();
    cluster.is_some_and(|cluster| Pause::of(&cluster.metadata, Some(&cluster)).is_some())
}
