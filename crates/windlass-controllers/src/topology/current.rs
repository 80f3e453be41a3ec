//! What there is of a topology.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use windlass_api::api_version;
use windlass_api::cluster::{
    Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachinePool, MachineTemplateSpec,
    TemplateReference,
};
use windlass_api::conditions::{CONTROL_PLANE_INITIALIZED, ROLLING_OUT};
use windlass_api::hooks::Hook;
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, TOPOLOGY_OWNED_LABEL, UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::topology::desired::{Blueprint, BuildError, CurrentNames, GroupNames};
use windlass_engine::topology::{
    ControlPlane, Entry, GroupObject, MachineVersions, Observed, PoolMembers, WorkerGroup, WorkerKind,
    are_missing,
};
use windlass_engine::{condition, contract, machine_pool, rollout};
use windlass_runtime::{Cache, Context, ObjectKey, namespace_of};
use windlass_version::{Comparison, Version};

use super::blueprint::object_kind;
use super::errors::TopologyError;
use crate::external::{External, Externals, resource};
use crate::worker_group::select;
use crate::workload_nodes::WorkloadNodes;

/// The caches that a topology is read from.
#[derive(Clone)]
pub(super) struct Caches {
    pub(super) machine_deployments: Cache<MachineDeployment>,
    pub(super) machine_pools: Cache<MachinePool>,
    pub(super) machines: Cache<Machine>,
    pub(super) externals: Externals,
    /// The Nodes of workload clusters, where they can be asked.
    pub(super) nodes: Option<WorkloadNodes>,
}

/// What there is of a topology.
pub(super) struct Current {
    pub(super) infrastructure: Option<Arc<DynamicObject>>,
    pub(super) control_plane: Option<External>,
    /// The template of the infrastructure of control plane machines, by reference.
    pub(super) control_plane_machines: Option<ContractVersionedObjectReference>,
    /// MachineDeployments by their name in the topology.
    pub(super) machine_deployments: BTreeMap<String, Arc<MachineDeployment>>,
    /// MachinePools by their name in the topology.
    pub(super) machine_pools: BTreeMap<String, Arc<MachinePool>>,
}

impl Current {
    pub(super) async fn load(
        context: &Context,
        caches: &Caches,
        cluster: &Cluster,
        blueprint: &Blueprint,
    ) -> Result<Self, TopologyError> {
        let namespace = ObjectKey::of(cluster).namespace;
        let class = &blueprint.class.spec;
        let owned: BTreeMap<String, String> = [
            (CLUSTER_NAME_LABEL.to_owned(), cluster.name_any()),
            (TOPOLOGY_OWNED_LABEL.to_owned(), String::new()),
        ]
        .into();

        let infrastructure = match &cluster.spec.infrastructure_ref {
            Some(reference) => {
                let template = &class.infrastructure.template_ref;
                let found = referenced(context, caches, &namespace, reference, template).await?;
                Some(checked("spec.infrastructureRef", reference, found)?.object)
            }
            None => {
                let template = &class.infrastructure.template_ref;
                unreferenced(context, &namespace, &template.api_version, &template.kind, &owned).await?
            }
        };
        let control_plane = match &cluster.spec.control_plane_ref {
            Some(reference) => {
                let template = &class.control_plane.template_ref;
                let found = referenced(context, caches, &namespace, reference, template).await?;
                Some(checked("spec.controlPlaneRef", reference, found)?)
            }
            None => {
                let template = &class.control_plane.template_ref;
                let found =
                    unreferenced(context, &namespace, &template.api_version, &template.kind, &owned).await?;
                match found {
                    Some(object) => {
                        let kind = object_kind(&template.kind);
                        let kind = caches.externals.kind_at(context, &template.api_version, kind).await?;
                        Some(External { kind, object })
                    }
                    None => None,
                }
            }
        };
        let control_plane_machines = control_plane.as_ref().and_then(machines_reference);
        let machine_deployments =
            by_entry(WorkerKind::MachineDeployment, caches.machine_deployments.labelled(&namespace, &owned))?;
        let mut machine_pools =
            by_entry(WorkerKind::MachinePool, caches.machine_pools.labelled(&namespace, &owned))?;
        for pool in machine_pools.values_mut() {
            complete(context, caches, cluster, pool).await;
        }
        Ok(Self { infrastructure, control_plane, control_plane_machines, machine_deployments, machine_pools })
    }

    /// The names to keep.
    pub(super) fn names(&self) -> CurrentNames {
        let name = |object: &DynamicObject| object.metadata.name.clone();
        let deployments = self.machine_deployments.iter().map(|(entry, group)| {
            let key = (WorkerKind::MachineDeployment, entry.clone());
            (key, group_names(group.name_any(), &group.spec.template))
        });
        let pools = self.machine_pools.iter().map(|(entry, group)| {
            let key = (WorkerKind::MachinePool, entry.clone());
            (key, group_names(group.name_any(), &group.spec.template))
        });
        CurrentNames {
            infrastructure: self.infrastructure.as_deref().and_then(name),
            control_plane: self.control_plane.as_ref().and_then(|found| name(&found.object)),
            control_plane_machines: self.control_plane_machines.as_ref().map(|found| found.name.clone()),
            control_plane_machines_api_version: self.control_plane.as_ref().and_then(|found| {
                let reference =
                    found.data().pointer(found.kind.contract.machine_template_infrastructure_ref())?;
                Some(reference.get("apiVersion")?.as_str()?.to_owned())
            }),
            workers: deployments.chain(pools).collect(),
        }
    }

    /// What upgrades are decided from. Where versions come from is not known yet.
    pub(super) fn observe(&self, caches: &Caches, cluster: &Cluster) -> Result<Observed, TopologyError> {
        let topology = cluster.spec.topology.as_ref().ok_or(BuildError::NoTopology)?;
        let version = parse("spec.topology.version", &topology.version)?;
        let mut observed = Observed::with_annotations(version, cluster);
        observed.created =
            cluster.spec.infrastructure_ref.is_some() || cluster.spec.control_plane_ref.is_some();
        observed.control_plane_initialized = cluster.status.initialization.control_plane_initialized
            == Some(true)
            || condition::is_true(&cluster.status.conditions, CONTROL_PLANE_INITIALIZED);
        let machines = |found| control_plane(found, caches, cluster);
        observed.control_plane = self.control_plane.as_ref().map(machines).transpose()?;
        let step = step_of_workers(&observed);
        for entry in Entry::all(topology) {
            let object = match entry.kind {
                WorkerKind::MachineDeployment => {
                    let object = self.machine_deployments.get(entry.name);
                    object.map(|object| deployment(object, step.as_ref(), caches)).transpose()?
                }
                WorkerKind::MachinePool => {
                    let object = self.machine_pools.get(entry.name);
                    object.map(|object| pool(object, step.as_ref())).transpose()?
                }
            };
            let pin = entry.pin().map_err(|error| TopologyError::Version {
                field: format!("{}.version", entry.field()),
                error,
            })?;
            observed.workers.push(WorkerGroup {
                defer: entry.defers(),
                hold: entry.holds(),
                pin,
                ..WorkerGroup::of(entry.kind, entry.name, object)
            });
        }
        self.leaving(caches, step.as_ref(), &mut observed)?;
        Ok(observed)
    }

    /// Groups that are no longer in the topology still count: their machines run.
    fn leaving(
        &self,
        caches: &Caches,
        step: Option<&Version>,
        observed: &mut Observed,
    ) -> Result<(), TopologyError> {
        let known = |kind: WorkerKind, observed: &Observed| -> BTreeSet<String> {
            let of_kind = observed.workers.iter().filter(|group| group.kind == kind);
            of_kind.map(|group| group.topology_name.clone()).collect()
        };
        let (deployments, pools) =
            (known(WorkerKind::MachineDeployment, observed), known(WorkerKind::MachinePool, observed));
        for (entry, object) in
            self.machine_deployments.iter().filter(|(entry, _)| !deployments.contains(*entry))
        {
            // It is deleted, not upgraded: no machine of it is to come.
            let object = Some(deployment(object, None, caches)?);
            let group = WorkerGroup::of(WorkerKind::MachineDeployment, entry, object);
            observed.workers.push(WorkerGroup { in_topology: false, ..group });
        }
        for (entry, object) in self.machine_pools.iter().filter(|(entry, _)| !pools.contains(*entry)) {
            let object = Some(pool(object, step)?);
            let group = WorkerGroup::of(WorkerKind::MachinePool, entry, object);
            observed.workers.push(WorkerGroup { in_topology: false, ..group });
        }
        Ok(())
    }
}

/// Completes a pool whose CRD has no `status.versions`, which came with Cluster API 1.14: its Nodes say which versions
/// there are. If they do not answer, nothing is known, and an upgrade waits.
async fn complete(context: &Context, caches: &Caches, cluster: &Cluster, pool: &mut Arc<MachinePool>) {
    let Some(nodes) = &caches.nodes else { return };
    if !pool.status.versions.is_empty() || pool.status.node_refs.is_empty() {
        return;
    }
    let Ok(found) = nodes.all(&ObjectKey::of(cluster)).await else { return };
    let found: Vec<&Node> = found.iter().map(AsRef::as_ref).collect();
    let ids = &pool.spec.provider_id_list;
    let counts = machine_pool::count(&found, ids, "", SignedDuration::ZERO, context.now());
    Arc::make_mut(pool).status.versions = counts.versions;
}

/// An object of this topology that the Cluster does not refer to yet, because the process ended in between.
async fn unreferenced(
    context: &Context,
    namespace: &str,
    api_version: &str,
    template_kind: &str,
    owned: &BTreeMap<String, String>,
) -> Result<Option<Arc<DynamicObject>>, TopologyError> {
    let cache = context.watch(&resource(api_version, object_kind(template_kind))).await?;
    let found = cache.labelled(namespace, owned);
    Ok(found.into_iter().find(|object| object.metadata.deletion_timestamp.is_none()))
}

/// The object that the Cluster refers to, at the version at which the class has its template: fields have other places at
/// another version, and what is applied is compared with what is there. If the class has another kind by now, at the newest.
async fn referenced(
    context: &Context,
    caches: &Caches,
    namespace: &str,
    reference: &ContractVersionedObjectReference,
    template: &TemplateReference,
) -> Result<Option<External>, TopologyError> {
    if template.group() != reference.api_group || object_kind(&template.kind) != reference.kind {
        return Ok(caches.externals.get(context, namespace, reference).await?);
    }
    let kind = caches.externals.kind_at(context, &template.api_version, &reference.kind).await?;
    let cache = context.watch(&kind.resource).await?;
    let object = cache.get(&ObjectKey::new(namespace, &reference.name));
    Ok(object.map(|object| External { kind, object }))
}

fn checked(
    field: &'static str,
    reference: &ContractVersionedObjectReference,
    found: Option<External>,
) -> Result<External, TopologyError> {
    let object = reference.to_string();
    let Some(found) = found else { return Err(TopologyError::NoObject { field, object }) };
    if !found.object.labels().contains_key(TOPOLOGY_OWNED_LABEL) {
        return Err(TopologyError::NotOwned { field, object });
    }
    Ok(found)
}

fn machines_reference(control_plane: &External) -> Option<ContractVersionedObjectReference> {
    let pointer = control_plane.kind.contract.machine_template_infrastructure_ref();
    let mut reference = control_plane.data().pointer(pointer)?.clone();
    // The older contract has the group with a version.
    if let Some(api_version) = reference.get("apiVersion").and_then(Value::as_str) {
        reference["apiGroup"] = json!(api_version::group(api_version));
    }
    serde_json::from_value(reference).ok()
}

fn by_entry<K: kube::Resource<DynamicType = ()>>(
    kind: WorkerKind,
    objects: Vec<Arc<K>>,
) -> Result<BTreeMap<String, Arc<K>>, TopologyError> {
    let mut groups: BTreeMap<String, Arc<K>> = BTreeMap::new();
    for object in objects {
        let Some(entry) = object.labels().get(kind.entry_label()).cloned() else { continue };
        if let Some(other) = groups.get(&entry) {
            return Err(TopologyError::Twice {
                entry: format!("{kind} {entry}"),
                one: other.name_any(),
                other: object.name_any(),
            });
        }
        groups.insert(entry, object);
    }
    Ok(groups)
}

fn group_names(name: String, template: &MachineTemplateSpec) -> GroupNames {
    GroupNames {
        object: Some(name),
        bootstrap: template.spec.bootstrap.config_ref.as_ref().map(|found| found.name.clone()),
        infrastructure: Some(template.spec.infrastructure_ref.name.clone()).filter(|name| !name.is_empty()),
    }
}

fn control_plane(
    found: &External,
    caches: &Caches,
    cluster: &Cluster,
) -> Result<ControlPlane, TopologyError> {
    let namespace = ObjectKey::of(cluster).namespace;
    let labels: BTreeMap<String, String> = [
        (CLUSTER_NAME_LABEL.to_owned(), cluster.name_any()),
        (CONTROL_PLANE_LABEL.to_owned(), String::new()),
    ]
    .into();
    let machines = caches.machines.labelled(&namespace, &labels);
    let is_updating =
        |machine: &Arc<Machine>| machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION);
    let conditions = found.data().pointer("/status/conditions").cloned();
    let conditions: Vec<Condition> =
        conditions.and_then(|conditions| serde_json::from_value(conditions).ok()).unwrap_or_default();
    let read = contract::control_plane(found.data(), found.kind.contract);
    let kind = found.kind.resource.kind.clone();
    let version = read.version.unwrap_or_default();
    let has_come_up = |machine: &Arc<Machine>| {
        let status = &machine.status;
        machine.spec.version == version && (status.node_ref.is_some() || status.node_info.is_some())
    };
    let running = read.observed_versions.iter().map(|version| parse("status.versions", version));
    let running: Vec<Version> = running.collect::<Result<_, _>>()?;
    let parsed = parse(&format!("spec.version of {kind} {}", found.object.name_any()), &version)?;
    Ok(ControlPlane {
        leaves_step: leaves_step(&machines, &running, &parsed),
        version: parsed,
        running,
        kind,
        name: found.object.name_any(),
        unborn: !machines.iter().any(has_come_up),
        updating_in_place: machines.iter().any(is_updating),
        blocked: rollout::blocked(&conditions),
    })
}

/// Whether a machine is left that was made for a later version than the control plane has now, or is still counted by it.
/// A control plane without machines may be ahead of its specification for reasons of its own.
fn leaves_step(machines: &[Arc<Machine>], running: &[Version], version: &Version) -> bool {
    let is_ahead = |other: &Version| other.compare(version) == Comparison::Greater;
    let mut made_for = machines.iter().filter_map(|machine| Version::parse(&machine.spec.version).ok());
    !machines.is_empty() && (running.iter().any(is_ahead) || made_for.any(|version| is_ahead(&version)))
}

fn deployment(
    object: &MachineDeployment,
    step: Option<&Version>,
    caches: &Caches,
) -> Result<GroupObject, TopologyError> {
    let version = group_version(WorkerKind::MachineDeployment, &object.name_any(), &object.spec.template)?;
    let machines = select(&caches.machines, namespace_of(object)?, &object.spec.selector)
        .map_err(|error| TopologyError::Selector { name: object.name_any(), error })?;
    let written = &object.spec.template.spec.version;
    // Without a surge, the last old machine goes before the machine that stands in for it has a Node, or is there at all.
    let running = machines.iter().filter(|machine| machine.status.node_info.is_some()).count();
    let wanted = object.spec.replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or(1);
    let upgrading = version.as_ref().is_some_and(|version| {
        are_missing(running, wanted, version, step)
            || machines.iter().any(|machine| {
                let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
                // Most machines of a big group are where they should be.
                if machine.spec.version == *written && kubelet == Some(written) {
                    return false;
                }
                let versions = MachineVersions {
                    desired: Version::parse(&machine.spec.version).ok(),
                    kubelet: kubelet.and_then(|version| Version::parse(version).ok()),
                };
                !versions.have(version)
            })
    });
    // What was written last may not have been looked at: then it is not known that nothing is rolled out. One that was
    // never looked at is new.
    let observed = object.status.observed_generation;
    let unseen =
        observed.is_some_and(|observed| object.metadata.generation.is_some_and(|latest| observed < latest));
    Ok(GroupObject {
        name: object.name_any(),
        version,
        upgrading,
        rolling_out: unseen || condition::is_true(&object.status.conditions, ROLLING_OUT),
        blocked: rollout::blocked(&object.status.conditions),
    })
}

/// The version that workers are on their way to, while they are.
fn step_of_workers(observed: &Observed) -> Option<Version> {
    let is_step = observed.pending_hooks.contains(Hook::AfterWorkersUpgrade);
    observed.control_plane.as_ref().filter(|_| is_step).map(|control_plane| control_plane.version.clone())
}

fn pool(object: &MachinePool, step: Option<&Version>) -> Result<GroupObject, TopologyError> {
    let version = group_version(WorkerKind::MachinePool, &object.name_any(), &object.spec.template)?;
    let count = |replicas: Option<i32>| replicas.and_then(|replicas| usize::try_from(replicas).ok());
    let running = object.status.versions.iter().filter_map(|running| {
        Some((Version::parse(&running.version).ok()?, count(running.replicas).unwrap_or_default()))
    });
    let running: Vec<(Version, usize)> = running.collect();
    let members = PoolMembers { wanted: count(object.replicas()).unwrap_or(1), running: &running };
    let upgrading = version.as_ref().is_some_and(|version| members.are_upgrading(version, step));
    Ok(GroupObject { name: object.name_any(), version, upgrading, rolling_out: false, blocked: None })
}

fn group_version(
    kind: WorkerKind,
    name: &str,
    template: &MachineTemplateSpec,
) -> Result<Option<Version>, TopologyError> {
    match template.spec.version.as_str() {
        "" => Ok(None),
        version => parse(&format!("spec.template.spec.version of {kind} {name}"), version).map(Some),
    }
}

fn parse(field: &str, version: &str) -> Result<Version, TopologyError> {
    Version::parse(version).map_err(|error| TopologyError::Version { field: field.to_owned(), error })
}
