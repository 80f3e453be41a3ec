//! MachineSets as their MachineDeployment wants them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_api::cluster::{
    MachineDeployment, MachineSet, MachineSetSpec, MachineTemplateSpec, TemplateMeta,
};
use windlass_api::identity::{Incomplete, controller_reference, name_of};
use windlass_api::names::{
    ACKNOWLEDGED_MOVE_ANNOTATION, CLUSTER_NAME_LABEL, CONVERSION_DATA_ANNOTATION,
    DESIRED_REPLICAS_ANNOTATION, DISABLE_MACHINE_CREATE_ANNOTATION, EXTERNAL_UPDATE_ANNOTATION,
    HAND_OVER_UPDATED_MACHINES_ANNOTATION, IN_PLACE_EXTENSIONS_ANNOTATION,
    LAST_APPLIED_CONFIGURATION_ANNOTATION, MACHINE_DEPLOYMENT_NAME_LABEL, MACHINE_TEMPLATE_HASH_LABEL,
    MAX_REPLICAS_ANNOTATION, MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION, PAUSED_ANNOTATION,
    RECEIVE_MACHINES_FROM_MACHINE_SETS_ANNOTATION, REVISION_ANNOTATION, REVISION_HISTORY_ANNOTATION,
};

use super::{FreshSet, Limits, SetPlan};
use crate::in_place::Effect;

/// Annotations of a MachineDeployment that say something about it alone.
const NOT_COPIED: [&str; 8] = [
    EXTERNAL_UPDATE_ANNOTATION,
    LAST_APPLIED_CONFIGURATION_ANNOTATION,
    CONVERSION_DATA_ANNOTATION,
    REVISION_ANNOTATION,
    REVISION_HISTORY_ANNOTATION,
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
    // A pause of a MachineDeployment does not pause its MachineSets for ever.
    PAUSED_ANNOTATION,
];

/// The whole intent of a MachineDeployment for one of its MachineSets, to be applied. What of an existing MachineSet
/// never changes (name, label, template as far as it needs a rollout) is kept; all else comes from the MachineDeployment,
/// so that labels, annotations, timeouts and the like reach all MachineSets without a rollout.
///
/// Planner annotations that this plan does not set are not in the intent, and disappear when it is applied.
///
/// # Errors
///
/// The MachineDeployment does not say which one it is.
pub fn desired_set(
    deployment: &MachineDeployment,
    existing: Option<&MachineSet>,
    planned: &SetPlan,
    limits: Limits,
    fresh_hash: &str,
) -> Result<MachineSet, Incomplete> {
    let meta = &deployment.metadata;
    let hash = existing
        .and_then(|set| set.metadata.labels.as_ref()?.get(MACHINE_TEMPLATE_HASH_LABEL))
        .map_or(fresh_hash, String::as_str);
    let own = |labels: &BTreeMap<String, String>| {
        let mut labels = labels.clone();
        labels.insert(MACHINE_TEMPLATE_HASH_LABEL.to_owned(), hash.to_owned());
        labels.insert(CLUSTER_NAME_LABEL.to_owned(), deployment.spec.cluster_name.clone());
        labels
    };
    let template = &deployment.spec.template;
    let template_labels = own(&template.metadata.labels);
    // Machines have it too, from the MachineSet and not from its template: so it is with upstream, and MachineSets of upstream
    // need not be written for it.
    let mut labels = template_labels.clone();
    labels.insert(MACHINE_DEPLOYMENT_NAME_LABEL.to_owned(), name_of(deployment)?.to_owned());
    let mut selector = deployment.spec.selector.clone();
    let selected = selector.match_labels.get_or_insert_default();
    selected.insert(MACHINE_TEMPLATE_HASH_LABEL.to_owned(), hash.to_owned());

    Ok(MachineSet {
        metadata: ObjectMeta {
            name: Some(planned.name.clone()),
            namespace: meta.namespace.clone(),
            // With the uid an apply can never bring back one that was deleted.
            uid: existing.and_then(|set| set.metadata.uid.clone()),
            labels: Some(labels),
            annotations: Some(annotations(deployment, existing, planned, limits)),
            owner_references: Some(vec![controller_reference(deployment)?]),
            ..ObjectMeta::default()
        },
        spec: MachineSetSpec {
            cluster_name: deployment.spec.cluster_name.clone(),
            replicas: Some(i32::try_from(planned.replicas).unwrap_or(i32::MAX)),
            selector,
            template: MachineTemplateSpec {
                metadata: TemplateMeta {
                    labels: template_labels,
                    annotations: template.metadata.annotations.clone(),
                },
                spec: template_spec(deployment, existing),
            },
            machine_naming: deployment.spec.machine_naming.clone(),
            deletion: deployment.spec.deletion.clone(),
        },
        ..MachineSet::default()
    })
}

/// An old MachineSet and the new one as extensions get to see them: what needs no rollout is the same in both.
///
/// # Errors
///
/// The MachineDeployment does not say which one it is.
pub fn compared_sets(
    deployment: &MachineDeployment,
    old: &MachineSet,
    new: Option<&MachineSet>,
    fresh: &FreshSet,
) -> Result<(MachineSet, MachineSet), Incomplete> {
    let wanted = |existing: Option<&MachineSet>| {
        let name = existing.and_then(|set| set.metadata.name.clone());
        let replicas = existing.and_then(MachineSet::replicas).unwrap_or(0);
        let planned = SetPlan::unchanged(&name.unwrap_or_else(|| fresh.name.clone()), replicas);
        desired_set(deployment, existing, &planned, Limits { surge: 0, unavailable: 0 }, &fresh.hash)
    };
    Ok((wanted(Some(old))?, wanted(new)?))
}

/// What needs a rollout is that of the MachineSet, what does not is that of the MachineDeployment.
fn template_spec(
    deployment: &MachineDeployment,
    existing: Option<&MachineSet>,
) -> windlass_api::cluster::MachineSpec {
    let wanted = deployment.spec.template.spec.clone();
    match existing {
        None => wanted,
        Some(set) => {
            let kept = set.spec.template.spec.clone();
            windlass_api::cluster::MachineSpec {
                min_ready_seconds: wanted.min_ready_seconds,
                readiness_gates: wanted.readiness_gates,
                deletion: wanted.deletion,
                taints: wanted.taints,
                ..kept
            }
        }
    }
}

fn annotations(
    deployment: &MachineDeployment,
    existing: Option<&MachineSet>,
    planned: &SetPlan,
    limits: Limits,
) -> BTreeMap<String, String> {
    let copied = deployment.metadata.annotations.iter().flatten();
    let copied = copied.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    let mut annotations: BTreeMap<String, String> =
        copied.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut set = |key: &str, value: String| annotations.insert(key.to_owned(), value);
    let replicas = u32::try_from(deployment.replicas().unwrap_or(0)).unwrap_or(0);
    set(DESIRED_REPLICAS_ANNOTATION, replicas.to_string());
    set(MAX_REPLICAS_ANNOTATION, replicas.saturating_add(limits.surge).to_string());
    set(DISABLE_MACHINE_CREATE_ANNOTATION, planned.create_disabled.to_string());

    let before = |key: &str| existing.and_then(|set| set.metadata.annotations.as_ref()?.get(key).cloned());
    let (former, history) = (before(REVISION_ANNOTATION), before(REVISION_HISTORY_ANNOTATION));
    let revision = planned.revision.map(|revision| revision.to_string()).or_else(|| former.clone());
    let history = match (&former, history) {
        (Some(former), history) if revision.as_ref() != Some(former) => {
            Some(history.into_iter().chain([former.clone()]).collect::<Vec<_>>().join(","))
        }
        (_, history) => history,
    };
    revision.and_then(|revision| set(REVISION_ANNOTATION, revision));
    history.and_then(|history| set(REVISION_HISTORY_ANNOTATION, history));

    let joined = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(",");
    if let Some(target) = &planned.moves_to {
        set(MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION, target.clone());
        // While paused no extension is asked, and what was agreed on stays.
        let extensions = match planned.extensions.is_empty() {
            true => before(IN_PLACE_EXTENSIONS_ANNOTATION),
            false => Some(planned.extensions.join(",")),
        };
        extensions.and_then(|extensions| set(IN_PLACE_EXTENSIONS_ANNOTATION, extensions));
        let effect = planned.effect.clone().unwrap_or_else(|| {
            Effect::written_in(existing.and_then(|set| set.metadata.annotations.as_ref()))
        });
        for (key, value) in effect.annotations() {
            set(key, value.to_owned());
        }
        if let Some(updated) = &planned.updated {
            set(HAND_OVER_UPDATED_MACHINES_ANNOTATION, joined(updated));
        }
    }
    if !planned.receives_from.is_empty() {
        set(RECEIVE_MACHINES_FROM_MACHINE_SETS_ANNOTATION, joined(&planned.receives_from));
    }
    if !planned.acknowledged.is_empty() {
        set(ACKNOWLEDGED_MOVE_ANNOTATION, joined(&planned.acknowledged));
    }
    annotations
}
