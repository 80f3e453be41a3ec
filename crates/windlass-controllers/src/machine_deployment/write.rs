//! MachineSets written as planned.

use serde_json::json;
use windlass_api::cluster::{MachineDeployment, MachineSet};
use windlass_api::names::{MACHINE_DEPLOYMENT_FIELD_MANAGER, REVISION_ANNOTATION};
use windlass_engine::machine_set::annotation;
use windlass_engine::rollout::{FreshSet, Plan, SetPlan, desired_set};
use windlass_runtime::{Applied, Context, EventType, ObjectKey};

use crate::worker_group::WorkerError;

/// Writes the MachineSets that are not as planned, the new one first; true if there were any.
pub(super) async fn sets(
    context: &Context,
    deployment: &MachineDeployment,
    sets: &[&MachineSet],
    plan: &Plan,
    fresh: &FreshSet,
) -> Result<bool, WorkerError> {
    let mut wrote = false;
    for planned in plan.new.iter().chain(&plan.old) {
        let existing = sets.iter().copied().find(|set| set.metadata.name.as_ref() == Some(&planned.name));
        let desired = desired_set(deployment, existing, planned, plan.limits, &fresh.hash)?;
        match existing {
            None => {
                create(context, deployment, &desired, plan).await?;
                wrote = true;
            }
            Some(existing) if existing.metadata.deletion_timestamp.is_some() => {}
            Some(existing) => {
                wrote |= apply(context, deployment, existing, &desired, planned).await?.is_written();
            }
        }
    }
    if let Some(revision) = plan.new.as_ref().and_then(|new| new.revision) {
        let revision = revision.to_string();
        if annotation(&deployment.metadata, REVISION_ANNOTATION) != Some(&revision) {
            let patch = json!({"metadata": {"annotations": {REVISION_ANNOTATION: revision}}});
            let key = ObjectKey::of(deployment);
            context.writer::<MachineDeployment>().patch_unconditionally(&key, patch).await?;
        }
    }
    Ok(wrote)
}

async fn create(
    context: &Context,
    deployment: &MachineDeployment,
    desired: &MachineSet,
    plan: &Plan,
) -> Result<(), WorkerError> {
    let key = ObjectKey::of(desired);
    // Its name follows from the facts. If it is there already, those in the cache are old: applying would take back what
    // was decided since.
    let there = context.get::<MachineSet>(&key).await;
    if there.map_err(|error| WorkerError::read(format!("MachineSet {key}"), &error))?.is_some() {
        return Err(WorkerError::Read {
            what: format!("MachineSet {key}"),
            why: "it was created, and its event has not arrived yet".to_owned(),
        });
    }
    let created: Result<MachineSet, _> =
        context.writer().apply(MACHINE_DEPLOYMENT_FIELD_MANAGER, desired).await;
    if let Err(error) = created {
        let message = format!("Could not create MachineSet {}: {error}", key.name);
        context.event(deployment, EventType::Warning, "FailedCreate", message);
        return Err(error.into());
    }
    let replicas = desired.replicas().unwrap_or(0);
    let message = match &plan.create {
        Some(why) => format!("Created MachineSet {} with {replicas} replicas: {why}", key.name),
        None => format!("Created MachineSet {} with {replicas} replicas", key.name),
    };
    context.event(deployment, EventType::Normal, "SuccessfulCreate", message);
    Ok(())
}

async fn apply(
    context: &Context,
    deployment: &MachineDeployment,
    existing: &MachineSet,
    desired: &MachineSet,
    planned: &SetPlan,
) -> Result<Applied<MachineSet>, WorkerError> {
    let SetPlan { name, from, replicas, notes, .. } = planned;
    let writer = context.writer::<MachineSet>();
    let applied = match writer.ensure_applied(MACHINE_DEPLOYMENT_FIELD_MANAGER, existing, desired).await {
        Ok(applied) => applied,
        Err(error) => {
            if !error.is_conflict() {
                let message = format!("Could not update MachineSet {name}: {error}");
                context.event(deployment, EventType::Warning, "FailedUpdate", message);
            }
            return Err(error.into());
        }
    };
    if applied.is_written() && from != replicas {
        let direction = if from < replicas { "up" } else { "down" };
        let why = notes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let message =
            format!("Scaled {direction} MachineSet {name} from {from} to {replicas} replicas: {why}");
        context.event(deployment, EventType::Normal, "SuccessfulScale", message);
    }
    Ok(applied)
}
