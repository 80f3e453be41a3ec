//! MachineDeployments.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use windlass_api::cluster::{MachineDeployment, RolloutStrategy, RolloutStrategyType};
use windlass_api::names::{CLUSTER_NAME_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL};

use super::machines::{
    check_annotated_strategy, check_metadata, check_replicas, check_strategy, check_taints,
};
use super::names::check_machine_deployment_name;
use super::replicas::default_replicas;
use super::{FieldProblem, Verdict, strict_version};
use crate::machine_set::{NamedOwner, check_machine_naming};

/// Fills in what may be left out: the size, the strategy, a selector, the labels it selects by, and the `v` of the version.
/// `old` is how the MachineDeployment is stored.
///
/// # Errors
///
/// A limit of the autoscaler is no number.
pub fn default_machine_deployment(
    deployment: &mut MachineDeployment,
    old: Option<&MachineDeployment>,
) -> Result<(), FieldProblem> {
    let before = old.and_then(|old| old.spec.replicas);
    let spec = &mut deployment.spec;
    spec.replicas = Some(default_replicas(spec.replicas, before, &deployment.metadata)?);
    default_strategy(&mut spec.rollout.strategy);
    let name = deployment.metadata.name.clone().unwrap_or_default();
    let cluster = deployment.spec.cluster_name.clone();
    let version = &mut deployment.spec.template.spec.version;
    if !version.is_empty() && !version.starts_with('v') {
        version.insert(0, 'v');
    }
    let selector = deployment.spec.selector.match_labels.get_or_insert_default();
    selector.entry(CLUSTER_NAME_LABEL.to_owned()).or_insert_with(|| cluster.clone());
    if selector.len() == 1 && deployment.spec.selector.match_expressions.is_none() {
        selector.insert(MACHINE_DEPLOYMENT_NAME_LABEL.to_owned(), name.clone());
    }
    let labels = &mut deployment.spec.template.metadata.labels;
    for key in [CLUSTER_NAME_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL] {
        let selector = deployment.spec.selector.match_labels.as_ref();
        if let Some(value) = selector.and_then(|selector| selector.get(key)) {
            labels.entry(key.to_owned()).or_insert_with(|| value.clone());
        }
    }
    if deployment.spec.template.spec.cluster_name.is_empty() {
        deployment.spec.template.spec.cluster_name = cluster;
    }
    Ok(())
}

/// A strategy that says nothing replaces machines one by one, and adds the new one first.
fn default_strategy(strategy: &mut RolloutStrategy) {
    if strategy.type_ == RolloutStrategyType::default() {
        strategy.type_ = RolloutStrategyType::RollingUpdate;
    }
    if strategy.type_ == RolloutStrategyType::RollingUpdate {
        let limits = strategy.rolling_update.get_or_insert_default();
        limits.max_surge.get_or_insert(IntOrString::Int(1));
        limits.max_unavailable.get_or_insert(IntOrString::Int(0));
    }
}

/// Checks a MachineDeployment.
pub fn validate_machine_deployment(
    deployment: &MachineDeployment,
    old: Option<&MachineDeployment>,
) -> Verdict {
    let mut verdict = Verdict::default();
    let spec = &deployment.spec;
    if old.is_none() {
        check_machine_deployment_name(deployment.metadata.name.as_deref().unwrap_or_default(), &mut verdict);
    }
    check_replicas("spec.replicas", spec.replicas, &mut verdict);
    let version = &spec.template.spec.version;
    if !version.is_empty()
        && let Err(error) = strict_version(version)
    {
        verdict
            .refuse("spec.template.spec.version", format!("{error}; a version such as v1.33.0 is accepted"));
    }
    if spec.cluster_name.is_empty() {
        verdict.refuse("spec.clusterName", "is empty, the name of a Cluster is accepted");
    }
    if spec.template.spec.cluster_name != spec.cluster_name {
        verdict.refuse(
            "spec.template.spec.clusterName",
            format!("{:?} is accepted, as in spec.clusterName", spec.cluster_name),
        );
    }
    let labels = &spec.template.metadata.labels;
    for (key, value) in spec.selector.match_labels.iter().flatten() {
        if labels.get(key) != Some(value) {
            verdict.refuse(
                "spec.template.metadata.labels",
                format!("{key}={value} is missing, labels that spec.selector matches are accepted"),
            );
        }
    }
    if let Err(error) = check_machine_naming(&spec.machine_naming.template, NamedOwner::MachineSet("set")) {
        verdict.refuse(
            "spec.machineNaming.template",
            format!("{error}; a template such as {{{{ .machineSet.name }}}}-{{{{ .random }}}} is accepted"),
        );
    }
    check_strategy("spec.rollout.strategy", &spec.rollout.strategy, &mut verdict);
    let annotations = deployment.metadata.annotations.as_ref();
    check_annotated_strategy("metadata", annotations, Some(&spec.rollout.strategy), &mut verdict);
    check_metadata("spec.template.metadata", &spec.template.metadata, &mut verdict);
    check_taints("spec.template.spec.taints", &spec.template.spec.taints, &mut verdict);
    if let Some(old) = old {
        if old.spec.cluster_name != spec.cluster_name {
            verdict.refuse(
                "spec.clusterName",
                format!("cannot be changed, {:?} is accepted", old.spec.cluster_name),
            );
        }
        if old.spec.selector != spec.selector {
            verdict.refuse(
                "spec.selector",
                "cannot be changed, only the selector it was created with is accepted",
            );
        }
    }
    verdict
}
