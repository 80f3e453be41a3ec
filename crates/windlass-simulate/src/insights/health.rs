//! What is wrong with machines, control planes and extensions before anything happens.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde_json::Value;
use windlass_api::cluster::Machine;
use windlass_api::conditions::{
    CONTROL_PLANE_COMPONENTS_HEALTHY, DELETING, ETCD_CLUSTER_HEALTHY, NODE_HEALTHY, NODE_READY,
};
use windlass_api::names::CONTROL_PLANE_LABEL;
use windlass_api::runtime::DISCOVERED_CONDITION;
use windlass_engine::condition;
use windlass_version::{Version, kubelet_skew};

use super::{Insight, Level};
use crate::snapshot::Snapshot;

/// Certificates that end within this time after an upgrade are worth a word.
const SOON_SECONDS: i64 = 30 * 24 * 3600;
/// A machine that goes for longer does not go by itself.
const STUCK_SECONDS: i64 = 3600;

fn parsed(snapshot: &Snapshot) -> Vec<Machine> {
    snapshot.of_kind("Machine").filter_map(|object| serde_json::from_value(object.clone()).ok()).collect()
}

fn first_line(found: &Condition) -> String {
    let line = found.message.lines().next().unwrap_or_default().trim_start_matches("* ");
    if line.is_empty() { found.reason.clone() } else { line.to_owned() }
}

/// Nodes that are not ready, and drains that do not end.
pub(super) fn machines(snapshot: &Snapshot, now: Timestamp) -> Vec<Insight> {
    let mut all = Vec::new();
    for machine in parsed(snapshot) {
        let object = format!("Machine {}", machine.name_any());
        let conditions = &machine.status.conditions;
        if let Some(deleted) = &machine.metadata.deletion_timestamp {
            let seconds = now.duration_since(deleted.0).as_secs();
            let told = condition::find(conditions, DELETING);
            let said = told.map(|told| told.message.clone()).unwrap_or_default();
            let is_blocked = said.contains("disruption budget") || said.contains("PodDisruptionBudget");
            if seconds > STUCK_SECONDS || is_blocked {
                let id = if is_blocked { "PdbBlocksDrain" } else { "MachineStuckDeleting" };
                let remedy = match is_blocked {
                    true => {
                        "let the PodDisruptionBudget be met: more replicas, or a lower minAvailable; every machine of the \
                             group is drained the same way"
                    }
                    false => "find out what holds it: its finalizers, its drain, its provider",
                };
                let what = told.map(first_line).unwrap_or_default();
                let evidence = format!("has been going for {} minutes: {what}", seconds / 60);
                all.push(Insight { id, level: Level::Warning, object, evidence, remedy: remedy.to_owned() });
            }
            continue;
        }
        let unmet = [NODE_HEALTHY, NODE_READY].into_iter().find_map(|type_| {
            condition::find(conditions, type_)
                .filter(|found| found.status != "True" && machine.status.node_ref.is_some())
        });
        if let Some(found) = unmet {
            let is_control_plane = machine.labels().contains_key(CONTROL_PLANE_LABEL);
            all.push(Insight {
                id: "NodeNotReady",
                level: if is_control_plane { Level::Error } else { Level::Warning },
                object,
                evidence: format!("{} is {}: {}", found.type_, found.status, first_line(found)),
                remedy: "repair or delete the machine before the upgrade: a rollout waits for the machines that there are"
                    .to_owned(),
            });
        }
    }
    all
}

/// Certificates of control planes that end before the upgrade does, or soon after.
pub(super) fn certificates(snapshot: &Snapshot, now: Timestamp, end: Timestamp) -> Vec<Insight> {
    let mut all = Vec::new();
    for machine in parsed(snapshot) {
        let Some(expiry) = machine.status.certificates_expiry_date.as_ref().map(|time| time.0) else {
            continue;
        };
        let after = expiry.as_second() - end.as_second();
        if after > SOON_SECONDS {
            continue;
        }
        let (level, when) = match () {
            () if expiry <= now => (Level::Error, "have ended"),
            () if after <= 0 => (Level::Error, "end before the upgrade does"),
            () => (Level::Warning, "end within 30 days"),
        };
        all.push(Insight {
            id: "CertificateExpires",
            level,
            object: format!("Machine {}", machine.name_any()),
            evidence: format!("its certificates {when}, at {expiry}"),
            remedy: "a machine that is replaced gets new ones: upgrade soon, or roll the control plane out (spec.rollout.before or \
                     spec.rollout.after)"
                .to_owned(),
        });
    }
    all
}

/// Kubelets that an API server does not support already.
pub(super) fn skew(snapshot: &Snapshot) -> Vec<Insight> {
    let machines = parsed(snapshot);
    let version = |machine: &Machine| {
        let info = machine.status.node_info.as_ref()?;
        Version::parse(&info.kubelet_version).ok()
    };
    let is_control_plane = |machine: &&Machine| machine.labels().contains_key(CONTROL_PLANE_LABEL);
    let api_servers: Vec<Version> = machines.iter().filter(is_control_plane).filter_map(version).collect();
    let mut all = Vec::new();
    for machine in machines.iter().filter(|machine| !is_control_plane(machine)) {
        let Some(kubelet) = version(machine) else { continue };
        let broken = api_servers.iter().find_map(|api_server| kubelet_skew(api_server, &kubelet).err());
        if let Some(violation) = broken {
            all.push(Insight {
                id: "SkewViolated",
                level: Level::Error,
                object: format!("Machine {}", machine.name_any()),
                evidence: violation.to_string(),
                remedy: "bring its worker group to the version of the control plane before the control plane goes on".to_owned(),
            });
        }
    }
    all
}

/// Control planes whose etcd or components are not healthy, and those that cannot lose a machine.
pub(super) fn control_planes(snapshot: &Snapshot) -> Vec<Insight> {
    let mut all = Vec::new();
    let control_planes = snapshot.objects.iter().filter(|object| object["kind"] == "KubeadmControlPlane");
    for control_plane in control_planes {
        let object =
            format!("KubeadmControlPlane {}", control_plane["metadata"]["name"].as_str().unwrap_or_default());
        let conditions: Vec<Condition> =
            serde_json::from_value(control_plane["status"]["conditions"].clone()).unwrap_or_default();
        for (type_, id) in [
            (ETCD_CLUSTER_HEALTHY, "EtcdUnhealthy"),
            (CONTROL_PLANE_COMPONENTS_HEALTHY, "ControlPlaneUnhealthy"),
        ] {
            let Some(found) = condition::find(&conditions, type_).filter(|found| found.status != "True")
            else {
                continue;
            };
            all.push(Insight {
                id,
                level: if found.status == "False" { Level::Error } else { Level::Warning },
                object: object.clone(),
                evidence: format!("{type_} is {}: {}", found.status, first_line(found)),
                remedy: "repair it first: a control plane that is not healthy is not rolled out".to_owned(),
            });
        }
        let replicas = control_plane["spec"]["replicas"].as_i64().unwrap_or(1);
        if replicas == 2 {
            all.push(Insight {
                id: "EtcdEvenMembers",
                level: Level::Warning,
                object,
                evidence: "two members of etcd: with one of them gone there is no majority".to_owned(),
                remedy: "scale the control plane to three machines".to_owned(),
            });
        }
    }
    all
}

/// Extensions that cannot be called.
pub(super) fn extensions(snapshot: &Snapshot) -> Vec<Insight> {
    let configs = snapshot.objects.iter().filter(|object| object["kind"] == "ExtensionConfig");
    let mut all = Vec::new();
    for config in configs {
        let conditions: Vec<Condition> =
            serde_json::from_value(config["status"]["conditions"].clone()).unwrap_or_default();
        let found = condition::find(&conditions, DISCOVERED_CONDITION);
        if found.is_some_and(|found| found.status == "True") {
            continue;
        }
        all.push(Insight {
            id: "ExtensionNotReady",
            level: Level::Error,
            object: format!("ExtensionConfig {}", config["metadata"]["name"].as_str().unwrap_or_default()),
            evidence: found.map_or_else(
                || "was never discovered".to_owned(),
                |found| format!("{DISCOVERED_CONDITION} is {}: {}", found.status, first_line(found)),
            ),
            remedy:
                "windlass extension test says what is wrong with it; hooks that it handles hold the upgrade"
                    .to_owned(),
        });
    }
    all
}

/// Texts in an object, with where they are.
pub(super) fn texts<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let files = object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    files.iter().filter_map(|file| Some((file["path"].as_str()?, file["content"].as_str()?)))
}
