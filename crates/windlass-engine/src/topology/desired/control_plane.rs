//! The control plane and the template of its machines' infrastructure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_api::api_version;
use windlass_api::cluster::{
    ControlPlaneClass, ControlPlaneTopology, DeletionTimeouts, MachineHealthCheck, Topology,
};

use super::clone::{self, Identity};
use super::templates::{Asked, Part, Pass};
use super::{BuildError, Inputs, health_check, merged, reference};
use crate::contract::Contract;
use crate::topology::patches::{Builtins, GroupBuiltins};

pub(super) struct ControlPlaneParts {
    pub(super) machines: Option<Value>,
    pub(super) control_plane: Value,
    pub(super) health_check: Option<MachineHealthCheck>,
}

pub(super) fn build(
    inputs: Inputs<'_>,
    topology: &Topology,
    pass: &mut Pass<'_>,
) -> Result<ControlPlaneParts, BuildError> {
    let (class, current) = (&inputs.blueprint.class, inputs.current);
    let (part_class, part) = (&class.spec.control_plane, &topology.control_plane);
    let metadata = merged(&part_class.metadata, &part.metadata);
    let name = pass.names.of_cluster(current.control_plane.as_ref(), &part_class.naming.template)?;
    let machines_name = match &inputs.blueprint.control_plane_machines {
        Some(_) => Some(pass.names.of_cluster(current.control_plane_machines.as_ref(), "")?),
        None => None,
    };
    let builtin = Builtins::new(inputs.cluster).of_control_plane(GroupBuiltins {
        version: &inputs.decision.control_plane.version,
        name: &name,
        replicas: part.replicas,
        metadata: &metadata,
        infrastructure_name: machines_name.as_deref(),
    });
    let overrides = &part.variables.overrides;
    let template = pass.template(Asked {
        part: Part::ControlPlane,
        holder: inputs.cluster_holder("spec.controlPlaneRef"),
        template: &inputs.blueprint.control_plane,
        overrides,
        builtin: &builtin,
    });
    let machines = match (&inputs.blueprint.control_plane_machines, machines_name) {
        (Some(machines), Some(machines_name)) => {
            let text = |field: &str| template.get(field).and_then(Value::as_str).unwrap_or_default();
            let kind = text("kind");
            let kind = kind.strip_suffix("Template").unwrap_or(kind);
            let contract = inputs.blueprint.control_plane_contract;
            let field_path = contract.machine_template_infrastructure_ref()[1..].replace('/', ".");
            let machines = pass.template(Asked {
                part: Part::ControlPlane,
                holder: inputs.holder(text("apiVersion"), kind, &name, &field_path),
                template: machines,
                overrides,
                builtin: &builtin,
            });
            let identity = Identity {
                namespace: inputs.namespace(),
                name: machines_name,
                labels: inputs.labels(),
                annotations: BTreeMap::new(),
                owner: Some(inputs.owner()?),
            };
            Some(clone::template(&machines, identity))
        }
        _ => None,
    };
    let mut labels = metadata.labels.clone();
    labels.extend(inputs.labels());
    let identity = Identity {
        namespace: inputs.namespace(),
        name: name.clone(),
        labels: labels.clone(),
        annotations: metadata.annotations.clone(),
        owner: Some(inputs.controlling_owner()?),
    };
    let mut control_plane = clone::object(&template, identity);
    let spec = object(&mut control_plane, &["spec"]);
    spec.insert("version".to_owned(), json!(inputs.decision.control_plane.version.to_string()));
    if let Some(replicas) = part.replicas {
        spec.insert("replicas".to_owned(), json!(replicas));
    }
    if let Some(after) = &part.rollout.after {
        object(&mut control_plane, &["spec", "rollout"]).insert("after".to_owned(), json!(after));
    }
    if let Some(machines) = &machines {
        let template = object(&mut control_plane, &["spec", "machineTemplate", "metadata"]);
        extend(template, "labels", &labels);
        extend(template, "annotations", &metadata.annotations);
        match inputs.blueprint.control_plane_contract {
            Contract::V1Beta1 => {
                let kept = current.control_plane_machines_api_version.as_deref();
                set_machines_v1beta1(&mut control_plane, machines, kept, part_class, part);
            }
            Contract::V1Beta2 => set_machines(&mut control_plane, machines, part_class, part),
        }
    }
    let health_check = health_check::of_control_plane(inputs, part_class, part, &name)?;
    Ok(ControlPlaneParts { machines, control_plane, health_check })
}

/// What the control plane wants of its Machines, where the contract has it.
fn set_machines(
    control_plane: &mut Value,
    machines: &Value,
    class: &ControlPlaneClass,
    part: &ControlPlaneTopology,
) {
    let spec = object(control_plane, &["spec", "machineTemplate", "spec"]);
    spec.insert("infrastructureRef".to_owned(), json!(reference(machines)));
    set_gates_and_taints(spec, class, part);
    if let Value::Object(timeouts) = json!(timeouts(&part.deletion, &class.deletion))
        && !timeouts.is_empty()
    {
        object(control_plane, &["spec", "machineTemplate", "spec", "deletion"]).extend(timeouts);
    }
}

/// The same for the contract before: a reference with a version, timeouts as texts.
fn set_machines_v1beta1(
    control_plane: &mut Value,
    machines: &Value,
    kept_api_version: Option<&str>,
    class: &ControlPlaneClass,
    part: &ControlPlaneTopology,
) {
    let wanted = machines["apiVersion"].as_str().unwrap_or_default();
    let api_version = kept_api_version
        .filter(|kept| api_version::group(kept) == api_version::group(wanted))
        .unwrap_or(wanted);
    let spec = object(control_plane, &["spec", "machineTemplate"]);
    spec.insert(
        "infrastructureRef".to_owned(),
        json!({"apiVersion": api_version, "kind": machines["kind"],
            "namespace": machines["metadata"]["namespace"], "name": machines["metadata"]["name"]}),
    );
    set_gates_and_taints(spec, class, part);
    let timeouts = timeouts(&part.deletion, &class.deletion);
    for (field, seconds) in [
        ("nodeDrainTimeout", timeouts.node_drain_timeout_seconds),
        ("nodeVolumeDetachTimeout", timeouts.node_volume_detach_timeout_seconds),
        ("nodeDeletionTimeout", timeouts.node_deletion_timeout_seconds),
    ] {
        if let Some(seconds) = seconds {
            spec.insert(field.to_owned(), json!(go_duration(seconds.unsigned_abs())));
        }
    }
}

fn set_gates_and_taints(
    machines: &mut Map<String, Value>,
    class: &ControlPlaneClass,
    part: &ControlPlaneTopology,
) {
    let gates = first_of(&part.readiness_gates, &class.readiness_gates);
    if !gates.is_empty() {
        machines.insert("readinessGates".to_owned(), json!(gates));
    }
    let taints = first_of(&part.taints, &class.taints);
    if !taints.is_empty() {
        machines.insert("taints".to_owned(), json!(taints));
    }
}

/// Seconds as Go prints a duration: `1h0m5s`. Providers compare texts.
fn go_duration(seconds: u32) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// The timeouts of the topology, those of the class where it says nothing.
pub(super) fn timeouts(topology: &DeletionTimeouts, class: &DeletionTimeouts) -> DeletionTimeouts {
    DeletionTimeouts {
        node_drain_timeout_seconds: topology.node_drain_timeout_seconds.or(class.node_drain_timeout_seconds),
        node_volume_detach_timeout_seconds: topology
            .node_volume_detach_timeout_seconds
            .or(class.node_volume_detach_timeout_seconds),
        node_deletion_timeout_seconds: topology
            .node_deletion_timeout_seconds
            .or(class.node_deletion_timeout_seconds),
    }
}

/// The list of the topology, or that of the class if it has none.
pub(super) fn first_of<'a, T>(topology: &'a [T], class: &'a [T]) -> &'a [T] {
    if topology.is_empty() { class } else { topology }
}

fn extend(metadata: &mut Map<String, Value>, field: &str, entries: &BTreeMap<String, String>) {
    if entries.is_empty() {
        return;
    }
    let target = metadata.entry(field.to_owned()).or_insert_with(|| json!({}));
    if let Some(target) = target.as_object_mut() {
        target.extend(entries.iter().map(|(key, value)| (key.clone(), json!(value))));
    }
}

/// The object at a path, made if it is not there. What is there and is no object is replaced: a template of a class
/// may say anything, and the fields of the topology win.
fn object<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { unreachable!("it was made an object above") };
    match path {
        [] => map,
        [first, rest @ ..] => object(map.entry((*first).to_owned()).or_insert(Value::Null), rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_go_prints_them() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (600, "10m0s"), (3605, "1h0m5s")] {
            assert_eq!(go_duration(seconds), text);
        }
    }
}
