//! What objects say they wait on: what they keep, and their conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_engine::waiting::Wait;

use crate::world::{World, name_of};

/// How many lines are shown. What hinders one machine hinders its neighbours in the same words.
const MOST: usize = 12;

/// What is not as it should be, from the top down.
pub(crate) fn lines(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for cluster in world.list::<Cluster>() {
        let name = name_of(&cluster);
        lines.extend(Wait::of_cluster(&cluster).map(|wait| kept("Cluster", &name, &wait)));
        say(&mut lines, "Cluster", &name, &cluster.status.conditions);
    }
    for control_plane in world.list::<KubeadmControlPlane>() {
        let wait = Wait::read(control_plane.metadata.annotations.as_ref());
        let name = name_of(&control_plane);
        lines.extend(wait.map(|wait| kept("KubeadmControlPlane", &name, &wait)));
    }
    for deployment in world.list::<MachineDeployment>() {
        say(&mut lines, "MachineDeployment", &name_of(&deployment), &deployment.status.conditions);
    }
    for set in world.list::<MachineSet>() {
        say(&mut lines, "MachineSet", &name_of(&set), &set.status.conditions);
    }
    for machine in world.list::<Machine>() {
        match Wait::read(machine.metadata.annotations.as_ref()) {
            Some(wait) => lines.push(kept("Machine", &name_of(&machine), &wait)),
            None => say(&mut lines, "Machine", &name_of(&machine), &machine.status.conditions),
        }
    }
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

fn kept(kind: &str, name: &str, wait: &Wait) -> String {
    format!("{kind} {name}: {} since {}: {}", wait.reason, wait.since.0, wait.what.replace('\n', " "))
}

/// Conditions of which `False` is bad news. Summaries of others are left out: what they sum up is there.
const GOOD: &[&str] = &[
    "InfrastructureReady",
    "BootstrapConfigReady",
    "NodeHealthy",
    "HealthCheckSucceeded",
    "ControlPlaneAvailable",
];

/// Conditions of which `True` tells that something goes on.
const GOING_ON: &[&str] = &["ScalingUp", "ScalingDown", "RollingOut", "Deleting", "Updating", "Remediating"];

fn say(lines: &mut Vec<String>, kind: &str, name: &str, conditions: &[Condition]) {
    let telling = conditions.iter().filter(|condition| {
        let is = |status: &str| condition.status == status;
        (GOOD.contains(&condition.type_.as_str()) && !is("True"))
            // With a message, it also tells what would be in the way.
            || (GOING_ON.contains(&condition.type_.as_str()) && (is("True") || !condition.message.is_empty()))
    });
    for condition in telling {
        let message = condition.message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let colon = if message.is_empty() { "" } else { ": " };
        lines.push(format!("{kind} {name}: {} ({}){colon}{message}", condition.type_, condition.reason));
    }
}
