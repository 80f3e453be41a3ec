//! Clusters with a managed topology.

use std::collections::BTreeSet;

use windlass_api::cluster::{Cluster, ClusterClass, TemplateMeta, TemplateReference, Topology};
use windlass_api::dns_label::is_rfc1123_subdomain;
use windlass_api::names::{
    AUTOSCALER_MAX_ANNOTATION, AUTOSCALER_MIN_ANNOTATION, DISABLE_UPDATE_CLASS_NAME_CHECK_ANNOTATION,
    DISABLE_UPDATE_VERSION_CHECK_ANNOTATION, UPGRADE_CONCURRENCY_ANNOTATION,
};
use windlass_version::Version;

use super::machines::{
    check_annotated_strategy, check_health_check, check_metadata, check_replicas, check_strategy,
    check_taints,
};
use super::names::check_cluster_name;
use super::version_change::{self, UpgradeState};
use super::{Verdict, accepted, pins, strict_version};
use crate::features::Features;
use crate::topology::{Steering, SteeringProblem, pin};

/// What is known besides the Cluster itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterContext<'a> {
    /// The Cluster as it is stored; nothing if it is created.
    pub old: Option<&'a Cluster>,
    /// Its class, if that exists.
    pub class: Option<&'a ClusterClass>,
    /// The class that the stored Cluster has, if it is another.
    pub old_class: Option<&'a ClusterClass>,
    /// Its parts, for changes of the version.
    pub state: Option<&'a UpgradeState>,
    /// Which features are on.
    pub features: Features,
}

/// Fills in what may be left out: the `v` in front of versions.
pub fn default_cluster(cluster: &mut Cluster) {
    let Some(topology) = &mut cluster.spec.topology else { return };
    let pins = topology.workers.machine_deployments.iter_mut().map(|entry| &mut entry.version);
    let pins = pins.chain(topology.workers.machine_pools.iter_mut().map(|entry| &mut entry.version));
    for version in std::iter::once(&mut topology.version).chain(pins) {
        if !version.is_empty() && !version.starts_with('v') {
            version.insert(0, 'v');
        }
    }
}

/// Checks a Cluster. Variables are not looked at here: they need schemas.
pub fn validate_cluster(cluster: &Cluster, context: ClusterContext<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let annotations = cluster.metadata.annotations.clone().unwrap_or_default();
    if context.old.is_none() {
        check_cluster_name(cluster.metadata.name.as_deref().unwrap_or_default(), &mut verdict);
    }
    if let Some(old) = context.old {
        if old.spec.infrastructure_ref.is_some() && cluster.spec.infrastructure_ref.is_none() {
            verdict.refuse("spec.infrastructureRef", "cannot be removed, only what it refers to is accepted");
        }
        if old.spec.control_plane_ref.is_some() && cluster.spec.control_plane_ref.is_none() {
            verdict.refuse("spec.controlPlaneRef", "cannot be removed, only what it refers to is accepted");
        }
        if old.spec.topology.is_some() && cluster.spec.topology.is_none() {
            verdict.refuse(
                "spec.topology",
                "cannot be removed from a Cluster that has it; to delete the Cluster is accepted",
            );
        }
        if old.spec.topology.is_none() && cluster.spec.topology.is_some() {
            if annotations.contains_key(DISABLE_UPDATE_CLASS_NAME_CHECK_ANNOTATION) {
                verdict.warn("the topology of an existing Cluster is taken over without further checks");
                return verdict;
            }
            verdict.refuse(
                "spec.topology",
                format!(
                    "cannot be added to a Cluster that was created without it; for migrations, it is accepted with \
                     annotation {DISABLE_UPDATE_CLASS_NAME_CHECK_ANNOTATION}"
                ),
            );
        }
    }
    let Some(topology) = &cluster.spec.topology else { return verdict };
    let version = check_version(topology, &mut verdict);
    if topology.class_ref.name.is_empty() {
        verdict.refuse("spec.topology.classRef.name", "is empty, the name of a ClusterClass is accepted");
    }
    if let Some(value) = annotations.get(UPGRADE_CONCURRENCY_ANNOTATION)
        && value.parse::<usize>().map_or(true, |count| count == 0)
    {
        verdict.refuse(
            format!("metadata.annotations[{UPGRADE_CONCURRENCY_ANNOTATION}]"),
            format!("{value:?} is not accepted, a whole number of at least 1 is"),
        );
    }
    check_workers(topology, &mut verdict);
    let old_topology = context.old.and_then(|old| old.spec.topology.as_ref());
    check_steering(cluster, &mut verdict);
    if context.features.worker_version_pinning {
        pins::check(topology, old_topology, context.class, context.state, &mut verdict);
    } else {
        pins::refuse_changes(topology, old_topology, &mut verdict);
    }
    match context.class {
        Some(class) => {
            check_against_class(topology, class, &mut verdict);
            let is_new = context.old.is_none();
            if is_new && class.status.observed_generation != class.metadata.generation {
                verdict.warn(format!(
                    "ClusterClass {} was not reconciled yet: variables of extensions are checked when it is",
                    topology.class_ref.name
                ));
            }
        }
        None if context.old.is_none() => verdict.warn(format!(
            "ClusterClass {} does not exist yet: the Cluster is checked and built when it does",
            topology.class_ref.name
        )),
        None => verdict.refuse(
            "spec.topology.classRef",
            format!(
                "ClusterClass {} does not exist, the name of one that does is accepted",
                topology.class_ref.name
            ),
        ),
    }
    if let (Some(old_class), Some(class)) = (context.old_class, context.class) {
        check_compatible(old_class, class, &mut verdict);
    }
    let old_version = context.old.and_then(|old| old.spec.topology.as_ref()).map(|old| &old.version);
    if let (Some(new), Some(old), Some(state)) =
        (version, old_version.and_then(|old| Version::parse(old).ok()), context.state)
    {
        if annotations.contains_key(DISABLE_UPDATE_VERSION_CHECK_ANNOTATION) {
            verdict.warn(format!(
                "the change of spec.topology.version is not checked, as annotation \
                 {DISABLE_UPDATE_VERSION_CHECK_ANNOTATION} asks for: neither that nothing goes back, nor that there is a \
                 path, nor that AfterClusterUpgrade has passed"
            ));
        } else {
            let mut topology = topology.clone();
            if !context.features.worker_version_pinning {
                pin::clear(&mut topology);
            }
            let state = state.clone().with_entries(&topology);
            version_change::check(&old, &new, context.class, &state, &mut verdict);
        }
    }
    verdict
}

/// What the annotations ask of an upgrade must be understood, or they would ask for something else.
fn check_steering(cluster: &Cluster, verdict: &mut Verdict) {
    let (_, problems) = Steering::read(cluster.metadata.annotations.as_ref());
    for SteeringProblem { key, problem } in problems {
        verdict.refuse(format!("metadata.annotations[{key}]"), problem);
    }
}

fn check_version(topology: &Topology, verdict: &mut Verdict) -> Option<Version> {
    let field = "spec.topology.version";
    let text = topology.version.as_str();
    if !text.starts_with('v') {
        verdict
            .refuse(field, format!("{text:?} does not begin with v, a version such as v1.33.0 is accepted"));
        return None;
    }
    match strict_version(text) {
        Ok(version) => Some(version),
        Err(error) => {
            verdict.refuse(field, format!("{error}; a version such as v1.33.0 is accepted"));
            None
        }
    }
}

fn check_workers(topology: &Topology, verdict: &mut Verdict) {
    check_machines(topology, verdict);
    let workers = &topology.workers;
    let deployments =
        workers.machine_deployments.iter().map(|entry| (&entry.name, entry.replicas, &entry.metadata));
    check_entries("machineDeployments", deployments, verdict);
    let pools = workers.machine_pools.iter().map(|entry| (&entry.name, entry.replicas, &entry.metadata));
    check_entries("machinePools", pools, verdict);
    check_replicas("spec.topology.controlPlane.replicas", topology.control_plane.replicas, verdict);
}

/// What is said about machines, wherever it stands.
fn check_machines(topology: &Topology, verdict: &mut Verdict) {
    let control_plane = &topology.control_plane;
    check_metadata("spec.topology.controlPlane.metadata", &control_plane.metadata, verdict);
    check_taints("spec.topology.controlPlane.taints", &control_plane.taints, verdict);
    let annotations = Some(&control_plane.metadata.annotations);
    check_annotated_strategy("spec.topology.controlPlane.metadata", annotations, None, verdict);
    if let Some(check) = &control_plane.health_check {
        let (trigger_if, template) = (&check.remediation.trigger_if, check.remediation.template_ref.as_ref());
        let field = "spec.topology.controlPlane.healthCheck";
        check_health_check(field, &check.checks, trigger_if, template, verdict);
    }
    for (index, entry) in topology.workers.machine_deployments.iter().enumerate() {
        let field = format!("spec.topology.workers.machineDeployments[{index}]");
        check_metadata(&format!("{field}.metadata"), &entry.metadata, verdict);
        check_taints(&format!("{field}.taints"), &entry.taints, verdict);
        let annotations = Some(&entry.metadata.annotations);
        let strategy = entry.rollout.strategy.as_ref();
        check_annotated_strategy(&format!("{field}.metadata"), annotations, strategy, verdict);
        if let Some(strategy) = strategy {
            check_strategy(&format!("{field}.rollout.strategy"), strategy, verdict);
        }
        if let Some(check) = &entry.health_check {
            let (trigger_if, template) =
                (&check.remediation.trigger_if, check.remediation.template_ref.as_ref());
            check_health_check(&format!("{field}.healthCheck"), &check.checks, trigger_if, template, verdict);
        }
    }
    for (index, entry) in topology.workers.machine_pools.iter().enumerate() {
        let field = format!("spec.topology.workers.machinePools[{index}]");
        check_metadata(&format!("{field}.metadata"), &entry.metadata, verdict);
        check_taints(&format!("{field}.taints"), &entry.taints, verdict);
    }
}

fn check_entries<'a>(
    list: &str,
    entries: impl Iterator<Item = (&'a String, Option<i32>, &'a TemplateMeta)>,
    verdict: &mut Verdict,
) {
    let mut seen = BTreeSet::new();
    for (index, (name, replicas, metadata)) in entries.enumerate() {
        let field = format!("spec.topology.workers.{list}[{index}]");
        if !is_rfc1123_subdomain(name) || name.len() > 63 {
            verdict.refuse(
                format!("{field}.name"),
                format!("{name:?} is not accepted, lower case letters, digits and dashes, at most 63, are"),
            );
        }
        if !seen.insert(name) {
            verdict.refuse(
                format!("{field}.name"),
                format!("{name:?} is used twice, a name that no other group has is accepted"),
            );
        }
        check_replicas(&format!("{field}.replicas"), replicas, verdict);
        let is_scaled = [AUTOSCALER_MIN_ANNOTATION, AUTOSCALER_MAX_ANNOTATION]
            .iter()
            .all(|key| metadata.annotations.contains_key(*key));
        if is_scaled && replicas.is_some() {
            verdict.refuse(
                format!("{field}.replicas"),
                "must not be set where an autoscaler decides; one of replicas and its annotations is accepted",
            );
        }
    }
}

fn check_against_class(topology: &Topology, class: &ClusterClass, verdict: &mut Verdict) {
    let versions = &class.spec.kubernetes_versions;
    if !versions.is_empty() && !versions.contains(&topology.version) {
        verdict.refuse(
            "spec.topology.version",
            format!(
                "{} is not in spec.kubernetesVersions of the ClusterClass, {}",
                topology.version,
                accepted(versions)
            ),
        );
    }
    check_control_plane_health(topology, class, verdict);
    let deployment_classes = &class.spec.workers.machine_deployments;
    for (index, entry) in topology.workers.machine_deployments.iter().enumerate() {
        let field = format!("spec.topology.workers.machineDeployments[{index}]");
        let Some(entry_class) = deployment_classes.iter().find(|class| class.class == entry.class) else {
            let names = deployment_classes.iter().map(|class| &class.class);
            verdict.refuse(
                format!("{field}.class"),
                format!("{:?} does not exist in the ClusterClass, {}", entry.class, accepted(names)),
            );
            continue;
        };
        let wants = entry.health_check.as_ref().is_some_and(|check| {
            check.enabled == Some(true)
                && check.checks == Default::default()
                && check.remediation == Default::default()
        });
        if wants && entry_class.health_check.is_none() {
            verdict.refuse(
                format!("{field}.healthCheck.enabled"),
                "true is accepted only with checks, here or in the ClusterClass",
            );
        }
    }
    let pool_classes = &class.spec.workers.machine_pools;
    for (index, entry) in topology.workers.machine_pools.iter().enumerate() {
        if !pool_classes.iter().any(|class| class.class == entry.class) {
            let names = pool_classes.iter().map(|class| &class.class);
            verdict.refuse(
                format!("spec.topology.workers.machinePools[{index}].class"),
                format!("{:?} does not exist in the ClusterClass, {}", entry.class, accepted(names)),
            );
        }
    }
}

fn check_control_plane_health(topology: &Topology, class: &ClusterClass, verdict: &mut Verdict) {
    let Some(check) = &topology.control_plane.health_check else { return };
    let says_nothing = check.checks == Default::default() && check.remediation == Default::default();
    if class.spec.control_plane.machine_infrastructure.is_none() && check.enabled != Some(false) {
        verdict.refuse(
            "spec.topology.controlPlane.healthCheck",
            "is accepted only where the control plane of the ClusterClass has machineInfrastructure",
        );
    } else if check.enabled == Some(true) && says_nothing && class.spec.control_plane.health_check.is_none() {
        verdict.refuse(
            "spec.topology.controlPlane.healthCheck.enabled",
            "true is accepted only with checks, here or in the ClusterClass",
        );
    }
}

/// A Cluster can change to a class whose parts are of the same kinds. Bootstrap may change.
fn check_compatible(old: &ClusterClass, new: &ClusterClass, verdict: &mut Verdict) {
    let mut same = |what: &str, old: &TemplateReference, new: &TemplateReference| {
        if (old.group(), &old.kind) != (new.group(), &new.kind) {
            verdict.refuse(
                "spec.topology.classRef",
                format!(
                    "{what} of the new class is a {} of {}, a {} of {} is accepted",
                    new.kind,
                    new.group(),
                    old.kind,
                    old.group()
                ),
            );
        }
    };
    same("the infrastructure", &old.spec.infrastructure.template_ref, &new.spec.infrastructure.template_ref);
    same("the control plane", &old.spec.control_plane.template_ref, &new.spec.control_plane.template_ref);
    if let (Some(old), Some(new)) =
        (&old.spec.control_plane.machine_infrastructure, &new.spec.control_plane.machine_infrastructure)
    {
        same("the infrastructure of control plane machines", &old.template_ref, &new.template_ref);
    }
    for old in &old.spec.workers.machine_deployments {
        let class = new.spec.workers.machine_deployments.iter().find(|class| class.class == old.class);
        if let Some(class) = class {
            let what = format!("the infrastructure of machineDeployments {:?}", old.class);
            same(&what, &old.infrastructure.template_ref, &class.infrastructure.template_ref);
        }
    }
    for old in &old.spec.workers.machine_pools {
        let class = new.spec.workers.machine_pools.iter().find(|class| class.class == old.class);
        if let Some(class) = class {
            let what = format!("the infrastructure of machinePools {:?}", old.class);
            same(&what, &old.infrastructure.template_ref, &class.infrastructure.template_ref);
        }
    }
}
