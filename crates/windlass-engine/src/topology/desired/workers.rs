//! MachineDeployments, MachinePools and what their machines are made from.
//!
//! What both kinds have is built once, from an [`Entry`]; what only one of them has is added to its spec.

use std::collections::BTreeMap;

use kube_core::ObjectMeta;
use serde_json::Value;
use windlass_api::cluster::{
    Bootstrap, ClusterVariable, DeletionOrderSpec, DeletionTimeouts, MachineDeployment,
    MachineDeploymentClass, MachineDeploymentRemediationSpec, MachineDeploymentRolloutSpec,
    MachineDeploymentSpec, MachineDeploymentTopology, MachinePool, MachinePoolSpec, MachinePoolTopology,
    MachineSpec, MachineTaint, MachineTemplateSpec, OrderedDeletionSpec, TemplateMeta, Topology,
};
use windlass_api::names::{DEFER_UPGRADE_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION, PIN_ANNOTATION};
use windlass_version::Version;

use super::clone::{self, Identity};
use super::control_plane::{first_of, timeouts};
use super::templates::{Asked, Part, Pass};
use super::{
    BuildError, DesiredGroup, DesiredWorkers, GroupNames, Inputs, health_check, match_labels, merged,
    reference,
};
use crate::topology::observed::WorkerKind;
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

/// The class of an entry of the topology, and what both kinds of workers have. Cluster API gives the fields the same
/// names in both kinds, and no type in common.
macro_rules! common {
    ($kind:expr, $entry:ident, $classes:ident, $timeouts:expr) => {{
        let class = $classes.iter().find(|class| class.class == $entry.class);
        let class = class.ok_or_else(|| unknown_class($kind, &$entry.name, &$entry.class))?;
        let common = Entry {
            kind: $kind,
            name: &$entry.name,
            class: &$entry.class,
            metadata: merged(&class.metadata, &$entry.metadata),
            naming: &class.naming.template,
            replicas: $entry.replicas,
            overrides: &$entry.variables.overrides,
            min_ready_seconds: $entry.min_ready_seconds.or(class.min_ready_seconds),
            taints: first_of(&$entry.taints, &class.taints),
            deletion: timeouts(&$timeouts(&$entry.deletion), &$timeouts(&class.deletion)),
        };
        (class, common)
    }};
}

fn machine_deployment(
    inputs: Inputs<'_>,
    entry: &MachineDeploymentTopology,
    pass: &mut Pass<'_>,
) -> Result<DesiredGroup, BuildError> {
    let classes = &inputs.blueprint.class.spec.workers.machine_deployments;
    let (class, common) = common!(WorkerKind::MachineDeployment, entry, classes, timeouts_of);
    let Parts { name, metadata, mut template, bootstrap, infrastructure } = common.build(inputs, pass)?;
    let domain = if entry.failure_domain.is_empty() { &class.failure_domain } else { &entry.failure_domain };
    template.spec.failure_domain.clone_from(domain);
    template.spec.readiness_gates = first_of(&entry.readiness_gates, &class.readiness_gates).to_vec();
    let health_check = health_check::of_machine_deployment(inputs, class, entry, &name)?;
    let max_in_flight = health_check::health_check(class, entry)
        .and_then(|(_, remediation)| remediation.max_in_flight.clone());
    let spec = MachineDeploymentSpec {
        cluster_name: inputs.cluster_name().to_owned(),
        replicas: entry.replicas,
        rollout: rollout(entry, class),
        selector: match_labels(common.system_labels(inputs)),
        template,
        remediation: MachineDeploymentRemediationSpec { max_in_flight },
        deletion: DeletionOrderSpec {
            order: entry.deletion.order.as_ref().or(class.deletion.order.as_ref()).cloned(),
        },
        ..MachineDeploymentSpec::default()
    };
    let object = Box::new(MachineDeployment { metadata, spec, ..MachineDeployment::default() });
    Ok(DesiredGroup {
        topology_name: entry.name.clone(),
        workers: DesiredWorkers::MachineDeployment { object, health_check },
        bootstrap,
        infrastructure,
    })
}

/// What the topology says about rollouts replaces all that the class says.
fn rollout(
    entry: &MachineDeploymentTopology,
    class: &MachineDeploymentClass,
) -> MachineDeploymentRolloutSpec {
    let (after, strategy) = if entry.rollout == Default::default() {
        (None, &class.rollout.strategy)
    } else {
        (entry.rollout.after.clone(), &entry.rollout.strategy)
    };
    MachineDeploymentRolloutSpec { after, strategy: strategy.clone().unwrap_or_default() }
}

fn machine_pool(
    inputs: Inputs<'_>,
    entry: &MachinePoolTopology,
    pass: &mut Pass<'_>,
) -> Result<DesiredGroup, BuildError> {
    let classes = &inputs.blueprint.class.spec.workers.machine_pools;
    let (class, common) = common!(WorkerKind::MachinePool, entry, classes, Clone::clone);
    let Parts { metadata, template, bootstrap, infrastructure, .. } = common.build(inputs, pass)?;
    // Where the provider decides how many instances there are, the topology does not.
    let is_managed = MachinePool { metadata: metadata.clone(), ..MachinePool::default() }
        .are_replicas_managed_externally();
    let spec = MachinePoolSpec {
        cluster_name: inputs.cluster_name().to_owned(),
        replicas: entry.replicas.filter(|_| !is_managed),
        template,
        failure_domains: first_of(&entry.failure_domains, &class.failure_domains).to_vec(),
        ..MachinePoolSpec::default()
    };
    let object = Box::new(MachinePool { metadata, spec, ..MachinePool::default() });
    Ok(DesiredGroup {
        topology_name: entry.name.clone(),
        workers: DesiredWorkers::MachinePool(object),
        bootstrap,
        infrastructure,
    })
}

/// What an entry of the topology says that both kinds of workers have, with what its class says where it is silent.
struct Entry<'a> {
    kind: WorkerKind,
    name: &'a str,
    class: &'a str,
    metadata: TemplateMeta,
    naming: &'a str,
    replicas: Option<i32>,
    overrides: &'a [ClusterVariable],
    min_ready_seconds: Option<i32>,
    taints: &'a [MachineTaint],
    deletion: DeletionTimeouts,
}

/// What is made of an entry of either kind.
struct Parts {
    name: String,
    metadata: ObjectMeta,
    template: MachineTemplateSpec,
    bootstrap: Value,
    infrastructure: Value,
}

impl Entry<'_> {
    fn build(&self, inputs: Inputs<'_>, pass: &mut Pass<'_>) -> Result<Parts, BuildError> {
        let key = (self.kind, self.class.to_owned());
        let unknown = || unknown_class(self.kind, self.name, self.class);
        let blueprint = inputs.blueprint.workers.get(&key).ok_or_else(unknown)?;
        let metadata = without_markers(&self.metadata);
        let labels: BTreeMap<String, String> =
            metadata.labels.clone().into_iter().chain(self.system_labels(inputs)).collect();

        let none = GroupNames::default();
        let current = inputs.current.workers.get(&(self.kind, self.name.to_owned())).unwrap_or(&none);
        let mut named = |current: &Option<String>, template: &str| {
            pass.names.of_group(current.as_ref(), template, self.kind, self.name)
        };
        let name = named(&current.object, self.naming)?;
        let bootstrap_name = named(&current.bootstrap, "")?;
        let infrastructure_name = named(&current.infrastructure, "")?;

        let version = self.version(inputs);
        let builtin = Builtins::new(inputs.cluster).of_workers(
            self.kind,
            GroupBuiltins {
                version,
                name: &name,
                replicas: self.replicas,
                metadata: &metadata,
                infrastructure_name: Some(&infrastructure_name),
            },
            self.name,
            self.class,
            &bootstrap_name,
        );
        let owner = inputs.owner()?;
        let mut cloned = |template: &Value, field: &str, object_name: String| {
            let template = pass.template(Asked {
                part: Part::Workers(self.kind, self.class.to_owned()),
                // Both kinds are of one group and version.
                holder: inputs.holder(
                    MachineDeployment::API_VERSION,
                    self.kind.name(),
                    &name,
                    &format!("spec.template.spec.{field}"),
                ),
                template,
                overrides: self.overrides,
                builtin: &builtin,
            });
            let identity = |labels| Identity {
                namespace: inputs.namespace(),
                name: object_name,
                labels,
                annotations: BTreeMap::new(),
                owner: Some(owner.clone()),
            };
            match self.kind {
                WorkerKind::MachineDeployment => {
                    clone::template(&template, identity(self.system_labels(inputs)))
                }
                // A pool has objects, not templates: they are changed in place, never replaced.
                WorkerKind::MachinePool => clone::object(&template, identity(labels.clone())),
            }
        };
        let bootstrap = cloned(&blueprint.bootstrap, "bootstrap.configRef", bootstrap_name);
        let infrastructure = cloned(&blueprint.infrastructure, "infrastructureRef", infrastructure_name);

        let spec = MachineSpec {
            cluster_name: inputs.cluster_name().to_owned(),
            bootstrap: Bootstrap { config_ref: Some(reference(&bootstrap)), ..Bootstrap::default() },
            infrastructure_ref: reference(&infrastructure),
            version: version.to_string(),
            min_ready_seconds: self.min_ready_seconds,
            deletion: self.deletion,
            taints: self.taints.to_vec(),
            ..MachineSpec::default()
        };
        let template = MachineTemplateSpec {
            metadata: TemplateMeta { labels: labels.clone(), annotations: metadata.annotations.clone() },
            spec,
        };
        let metadata = ObjectMeta {
            labels: Some(labels),
            annotations: Some(metadata.annotations).filter(|annotations| !annotations.is_empty()),
            ..inputs.metadata(name.clone())?
        };
        Ok(Parts { name, metadata, template, bootstrap, infrastructure })
    }

    /// The labels by which the objects of the entry are found.
    fn system_labels(&self, inputs: Inputs<'_>) -> BTreeMap<String, String> {
        let mut labels = inputs.labels();
        labels.insert(self.kind.entry_label().to_owned(), self.name.to_owned());
        labels
    }

    /// The version that was decided for the entry. The decision covers every entry of the topology.
    fn version<'a>(&self, inputs: Inputs<'a>) -> &'a Version {
        let decisions = &inputs.decision.workers;
        let decided =
            decisions.iter().find(|group| group.id.kind == self.kind && group.topology_name == self.name);
        decided.map_or(&inputs.decision.control_plane.version, |group| &group.version)
    }
}

fn timeouts_of(deletion: &OrderedDeletionSpec) -> DeletionTimeouts {
    DeletionTimeouts {
        node_drain_timeout_seconds: deletion.node_drain_timeout_seconds,
        node_volume_detach_timeout_seconds: deletion.node_volume_detach_timeout_seconds,
        node_deletion_timeout_seconds: deletion.node_deletion_timeout_seconds,
    }
}

/// What an entry says about the order of upgrades is for the topology alone.
fn without_markers(metadata: &TemplateMeta) -> TemplateMeta {
    let mut metadata = metadata.clone();
    metadata.annotations.remove(DEFER_UPGRADE_ANNOTATION);
    metadata.annotations.remove(HOLD_UPGRADE_SEQUENCE_ANNOTATION);
    metadata.annotations.remove(PIN_ANNOTATION);
    metadata
}

fn unknown_class(kind: WorkerKind, name: &str, class: &str) -> BuildError {
    BuildError::UnknownClass {
        field: format!("spec.topology.workers.{}s[{name}].class", kind.field()),
        class: class.to_owned(),
    }
}
