//! MachineDeployments, MachinePools and what their machines are made from.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::cluster::{
    DeletionTimeouts, MachineDeployment, MachineDeploymentClass, MachineDeploymentTopology, MachinePool,
    MachinePoolClass, MachinePoolTopology, OrderedDeletionSpec, TemplateMeta, Topology,
};
use windlass_api::names::{
    DEFER_UPGRADE_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION, TOPOLOGY_DEPLOYMENT_NAME_LABEL,
    TOPOLOGY_POOL_NAME_LABEL,
};
use windlass_version::Version;

use super::clone::{self, Identity};
use super::control_plane::{first_of, object, set_machine_fields, set_timeouts};
use super::templates::{Asked, Part, Pass};
use super::{BuildError, DesiredGroup, GroupNames, Inputs, Names, health_check, merged, reference};
use crate::topology::observed::GroupKind;
use crate::topology::patches::{Builtins, GroupBuiltins};

pub(super) fn build(
    inputs: Inputs<'_>,
    topology: &Topology,
    pass: &mut Pass<'_>,
) -> Result<Vec<DesiredGroup>, BuildError> {
    let mut groups = Vec::new();
    for entry in &topology.workers.machine_deployments {
        groups.push(machine_deployment(inputs, entry, pass)?);
    }
    for entry in &topology.workers.machine_pools {
        groups.push(machine_pool(inputs, entry, pass)?);
    }
    Ok(groups)
}

fn machine_deployment(
    inputs: Inputs<'_>,
    entry: &MachineDeploymentTopology,
    pass: &mut Pass<'_>,
) -> Result<DesiredGroup, BuildError> {
    let class = &inputs.blueprint.class;
    let classes = &class.spec.workers.machine_deployments;
    let unknown = || unknown_class("machineDeployments", &entry.name, &entry.class);
    let entry_class = classes.iter().find(|class| class.class == entry.class).ok_or_else(unknown)?;
    let blueprint = inputs.blueprint.machine_deployments.get(&entry.class).ok_or_else(unknown)?;
    let metadata = without_markers(merged(&entry_class.metadata, &entry.metadata));
    let labels = labels(inputs, &metadata, TOPOLOGY_DEPLOYMENT_NAME_LABEL, &entry.name);
    let none = GroupNames::default();
    let current = inputs.current.machine_deployments.get(&entry.name).unwrap_or(&none);
    let group = GroupParts::named(
        current,
        &entry_class.naming.template,
        GroupKind::MachineDeployment,
        &entry.name,
        &mut pass.names,
    )?;
    let version = version_of(inputs, GroupKind::MachineDeployment, &entry.name);

    let builtin = Builtins::new(inputs.cluster).of_machine_deployment(
        group.builtins(version, entry.replicas, &metadata),
        &entry.name,
        &entry.class,
        &group.bootstrap,
    );
    let identity = |name: &str| Identity {
        namespace: inputs.namespace(),
        name: name.to_owned(),
        labels: system_labels(inputs, TOPOLOGY_DEPLOYMENT_NAME_LABEL, &entry.name),
        annotations: BTreeMap::new(),
        owner: Some(inputs.owner()),
    };
    let mut template = |template: &Value, field_path: &str| {
        pass.template(Asked {
            part: Part::MachineDeployment(entry.class.clone()),
            holder: inputs.holder(
                MachineDeployment::API_VERSION,
                MachineDeployment::KIND,
                &group.object,
                field_path,
            ),
            template,
            overrides: &entry.variables.overrides,
            builtin: &builtin,
        })
    };
    let bootstrap = template(&blueprint.bootstrap, "spec.template.spec.bootstrap.configRef");
    let infrastructure = template(&blueprint.infrastructure, "spec.template.spec.infrastructureRef");
    let bootstrap = clone::template(&bootstrap, identity(&group.bootstrap));
    let infrastructure = clone::template(&infrastructure, identity(&group.infrastructure));

    let mut spec = json!({
        "clusterName": inputs.cluster_name(),
        "selector": {"matchLabels": system_labels(inputs, TOPOLOGY_DEPLOYMENT_NAME_LABEL, &entry.name)},
        "template": machine_template(inputs, &metadata, &labels, version, &bootstrap, &infrastructure),
    });
    set_deployment_fields(&mut spec, entry, entry_class);
    let object = json!({
        "apiVersion": MachineDeployment::API_VERSION,
        "kind": MachineDeployment::KIND,
        "metadata": group_metadata(inputs, &group.object, &labels, &metadata),
        "spec": spec,
    });
    let health_check = health_check::of_machine_deployment(inputs, entry_class, entry, &object);
    Ok(DesiredGroup { topology_name: entry.name.clone(), object, bootstrap, infrastructure, health_check })
}

fn set_deployment_fields(
    spec: &mut Value,
    entry: &MachineDeploymentTopology,
    class: &MachineDeploymentClass,
) {
    if let Some(replicas) = entry.replicas {
        spec["replicas"] = json!(replicas);
    }
    // What the topology says about rollouts replaces all that the class says.
    if entry.rollout != Default::default() {
        spec["rollout"] = json!(entry.rollout);
    } else if class.rollout != Default::default() {
        spec["rollout"] = json!(class.rollout);
    }
    if let Some(order) = entry.deletion.order.as_ref().or(class.deletion.order.as_ref()) {
        spec["deletion"] = json!({"order": order});
    }
    if let Some((_, remediation)) = health_check::definition(class, entry)
        && let Some(limit) = &remediation.max_in_flight
    {
        spec["remediation"] = json!({"maxInFlight": limit});
    }
    let machine = object(spec, &["template", "spec"]);
    let domain = if entry.failure_domain.is_empty() { &class.failure_domain } else { &entry.failure_domain };
    if !domain.is_empty() {
        machine.insert("failureDomain".to_owned(), json!(domain));
    }
    if let Some(seconds) = entry.min_ready_seconds.or(class.min_ready_seconds) {
        machine.insert("minReadySeconds".to_owned(), json!(seconds));
    }
    let gates = first_of(&entry.readiness_gates, &class.readiness_gates);
    set_machine_fields(machine, gates, first_of(&entry.taints, &class.taints));
    let path = ["template", "spec", "deletion"];
    set_timeouts(spec, &path, &timeouts(&entry.deletion), &timeouts(&class.deletion));
}

fn timeouts(deletion: &OrderedDeletionSpec) -> DeletionTimeouts {
    DeletionTimeouts {
        node_drain_timeout_seconds: deletion.node_drain_timeout_seconds,
        node_volume_detach_timeout_seconds: deletion.node_volume_detach_timeout_seconds,
        node_deletion_timeout_seconds: deletion.node_deletion_timeout_seconds,
    }
}

fn machine_pool(
    inputs: Inputs<'_>,
    entry: &MachinePoolTopology,
    pass: &mut Pass<'_>,
) -> Result<DesiredGroup, BuildError> {
    let class = &inputs.blueprint.class;
    let classes = &class.spec.workers.machine_pools;
    let unknown = || unknown_class("machinePools", &entry.name, &entry.class);
    let entry_class = classes.iter().find(|class| class.class == entry.class).ok_or_else(unknown)?;
    let blueprint = inputs.blueprint.machine_pools.get(&entry.class).ok_or_else(unknown)?;
    let metadata = without_markers(merged(&entry_class.metadata, &entry.metadata));
    let labels = labels(inputs, &metadata, TOPOLOGY_POOL_NAME_LABEL, &entry.name);
    let none = GroupNames::default();
    let current = inputs.current.machine_pools.get(&entry.name).unwrap_or(&none);
    let group = GroupParts::named(
        current,
        &entry_class.naming.template,
        GroupKind::MachinePool,
        &entry.name,
        &mut pass.names,
    )?;
    let version = version_of(inputs, GroupKind::MachinePool, &entry.name);

    let builtin = Builtins::new(inputs.cluster).of_machine_pool(
        group.builtins(version, entry.replicas, &metadata),
        &entry.name,
        &entry.class,
        &group.bootstrap,
    );
    // A pool has objects, not templates: they are changed in place, never replaced.
    let identity = |name: &str| Identity {
        namespace: inputs.namespace(),
        name: name.to_owned(),
        labels: labels.clone(),
        annotations: BTreeMap::new(),
        owner: Some(inputs.owner()),
    };
    let mut template = |template: &Value, field_path: &str| {
        pass.template(Asked {
            part: Part::MachinePool(entry.class.clone()),
            holder: inputs.holder(MachinePool::API_VERSION, MachinePool::KIND, &group.object, field_path),
            template,
            overrides: &entry.variables.overrides,
            builtin: &builtin,
        })
    };
    let bootstrap = template(&blueprint.bootstrap, "spec.template.spec.bootstrap.configRef");
    let infrastructure = template(&blueprint.infrastructure, "spec.template.spec.infrastructureRef");
    let bootstrap = clone::object(&bootstrap, identity(&group.bootstrap));
    let infrastructure = clone::object(&infrastructure, identity(&group.infrastructure));

    let mut spec = json!({
        "clusterName": inputs.cluster_name(),
        "template": machine_template(inputs, &metadata, &labels, version, &bootstrap, &infrastructure),
    });
    set_pool_fields(&mut spec, entry, entry_class);
    let object = json!({
        "apiVersion": MachinePool::API_VERSION,
        "kind": MachinePool::KIND,
        "metadata": group_metadata(inputs, &group.object, &labels, &metadata),
        "spec": spec,
    });
    Ok(DesiredGroup {
        topology_name: entry.name.clone(),
        object,
        bootstrap,
        infrastructure,
        health_check: None,
    })
}

fn set_pool_fields(spec: &mut Value, entry: &MachinePoolTopology, class: &MachinePoolClass) {
    if let Some(replicas) = entry.replicas {
        spec["replicas"] = json!(replicas);
    }
    let domains = first_of(&entry.failure_domains, &class.failure_domains);
    if !domains.is_empty() {
        spec["failureDomains"] = json!(domains);
    }
    let machine = object(spec, &["template", "spec"]);
    if let Some(seconds) = entry.min_ready_seconds.or(class.min_ready_seconds) {
        machine.insert("minReadySeconds".to_owned(), json!(seconds));
    }
    set_machine_fields(machine, &[], first_of(&entry.taints, &class.taints));
    set_timeouts(spec, &["template", "spec", "deletion"], &entry.deletion, &class.deletion);
}

/// The names of a group's objects.
struct GroupParts {
    object: String,
    bootstrap: String,
    infrastructure: String,
}

impl GroupParts {
    fn named(
        current: &GroupNames,
        template: &str,
        kind: GroupKind,
        topology_name: &str,
        names: &mut Names<'_>,
    ) -> Result<Self, BuildError> {
        let key = match kind {
            GroupKind::MachineDeployment => "machineDeployment",
            GroupKind::MachinePool => "machinePool",
        };
        Ok(Self {
            object: names.of_group(current.object.as_ref(), template, key, topology_name)?,
            bootstrap: names.of_group(current.bootstrap.as_ref(), "", key, topology_name)?,
            infrastructure: names.of_group(current.infrastructure.as_ref(), "", key, topology_name)?,
        })
    }

    fn builtins<'a>(
        &'a self,
        version: &'a Version,
        replicas: Option<i32>,
        metadata: &'a TemplateMeta,
    ) -> GroupBuiltins<'a> {
        GroupBuiltins {
            version,
            name: &self.object,
            replicas,
            metadata,
            infrastructure_name: Some(&self.infrastructure),
        }
    }
}

fn machine_template(
    inputs: Inputs<'_>,
    metadata: &TemplateMeta,
    labels: &BTreeMap<String, String>,
    version: &Version,
    bootstrap: &Value,
    infrastructure: &Value,
) -> Value {
    let mut template = json!({
        "metadata": {"labels": labels},
        "spec": {
            "clusterName": inputs.cluster_name(),
            "version": version.to_string(),
            "bootstrap": {"configRef": reference(bootstrap)},
            "infrastructureRef": reference(infrastructure),
        },
    });
    if !metadata.annotations.is_empty() {
        template["metadata"]["annotations"] = json!(metadata.annotations);
    }
    template
}

fn group_metadata(
    inputs: Inputs<'_>,
    name: &str,
    labels: &BTreeMap<String, String>,
    metadata: &TemplateMeta,
) -> Value {
    let mut object = json!({
        "namespace": inputs.namespace(),
        "name": name,
        "labels": labels,
        "ownerReferences": [inputs.owner()],
    });
    if !metadata.annotations.is_empty() {
        object["annotations"] = json!(metadata.annotations);
    }
    object
}

/// The version that was decided for a group. The decision covers every entry of the topology.
fn version_of<'a>(inputs: Inputs<'a>, kind: GroupKind, topology_name: &str) -> &'a Version {
    let decisions = &inputs.decision.workers;
    let decided =
        decisions.iter().find(|group| group.id.kind == kind && group.topology_name == topology_name);
    decided.map_or(&inputs.decision.control_plane.version, |group| &group.version)
}

fn labels(inputs: Inputs<'_>, metadata: &TemplateMeta, key: &str, name: &str) -> BTreeMap<String, String> {
    let mut labels = metadata.labels.clone();
    labels.extend(system_labels(inputs, key, name));
    labels
}

fn system_labels(inputs: Inputs<'_>, key: &str, name: &str) -> BTreeMap<String, String> {
    let mut labels = inputs.labels();
    labels.insert(key.to_owned(), name.to_owned());
    labels
}

/// What an entry says about the order of upgrades is for the topology alone.
fn without_markers(mut metadata: TemplateMeta) -> TemplateMeta {
    metadata.annotations.remove(DEFER_UPGRADE_ANNOTATION);
    metadata.annotations.remove(HOLD_UPGRADE_SEQUENCE_ANNOTATION);
    metadata
}

fn unknown_class(list: &str, name: &str, class: &str) -> BuildError {
    BuildError::UnknownClass {
        field: format!("spec.topology.workers.{list}[{name}].class"),
        class: class.to_owned(),
    }
}
