//! The control plane and the template of its machines' infrastructure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_api::cluster::{
    ControlPlaneClass, ControlPlaneTopology, DeletionTimeouts, MachineHealthCheck, Topology,
};

use super::clone::{self, Identity};
use super::templates::{Asked, Part, Pass};
use super::{BuildError, Inputs, health_check, merged, reference};
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
            let field_path = "spec.machineTemplate.spec.infrastructureRef";
            let machines = pass.template(Asked {
                part: Part::ControlPlane,
                holder: inputs.holder(text("apiVersion"), kind, &name, field_path),
                template: machines,
                overrides,
                builtin: &builtin,
            });
            let identity = Identity {
                namespace: inputs.namespace(),
                name: machines_name,
                labels: inputs.labels(),
                annotations: BTreeMap::new(),
                owner: Some(inputs.owner()),
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
        owner: Some(inputs.controlling_owner()),
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
        set_machine_template(&mut control_plane, machines, &labels, &metadata.annotations, part_class, part);
    }
    let health_check = health_check::of_control_plane(inputs, part_class, part, &name);
    Ok(ControlPlaneParts { machines, control_plane, health_check })
}

fn set_machine_template(
    control_plane: &mut Value,
    machines: &Value,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    class: &ControlPlaneClass,
    part: &ControlPlaneTopology,
) {
    let metadata = object(control_plane, &["spec", "machineTemplate", "metadata"]);
    extend(metadata, "labels", labels);
    extend(metadata, "annotations", annotations);
    let spec = object(control_plane, &["spec", "machineTemplate", "spec"]);
    spec.insert("infrastructureRef".to_owned(), json!(reference(machines)));
    let gates = first_of(&part.readiness_gates, &class.readiness_gates);
    if !gates.is_empty() {
        spec.insert("readinessGates".to_owned(), json!(gates));
    }
    let taints = first_of(&part.taints, &class.taints);
    if !taints.is_empty() {
        spec.insert("taints".to_owned(), json!(taints));
    }
    if let Value::Object(timeouts) = json!(timeouts(&part.deletion, &class.deletion))
        && !timeouts.is_empty()
    {
        object(control_plane, &["spec", "machineTemplate", "spec", "deletion"]).extend(timeouts);
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
