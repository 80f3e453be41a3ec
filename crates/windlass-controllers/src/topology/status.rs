//! What the Cluster says about its topology: the plan that remains, and the condition.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Cluster, MachinesStatus, UpgradePlanVersion};
use windlass_api::conditions::{ConditionStatus, TOPOLOGY_RECONCILED};
use windlass_api::names::TOPOLOGY_FIELD_MANAGER;
use windlass_engine::condition::{self, Finding};
use windlass_engine::topology::{Outcome, Plan, TopologyReconciled, is_taken_over};
use windlass_engine::waiting::Wait;
use windlass_runtime::{Context, EventType, WriteError};
use windlass_version::Version;

use crate::waits;

/// Who says why nothing was applied to a Cluster that upstream made.
const UNDECIDED_FIELD_MANAGER: &str = "windlass-topology";

/// What API servers say to an apply with a field that the schema does not have.
const UNDECLARED: &str = "field not declared in schema";

/// Whether Clusters have a place for the plan. CRDs of Cluster API up to 1.13 do not, and where they are installed an apply with
/// it is refused as a whole. Found out by trying, once for each process.
#[derive(Debug, Default)]
pub(super) struct PlanShown {
    has_no_place: AtomicBool,
}

/// Writes the condition and, if it is known, the plan. Nothing is written that is there already.
pub(super) async fn write(
    context: &Context,
    cluster: &Cluster,
    shown: &PlanShown,
    outcome: &Outcome<'_>,
) -> Result<(), WriteError> {
    keep_wait(context, cluster, outcome).await?;
    let TopologyReconciled { status, reason, message } = TopologyReconciled::of(outcome);
    let status = if status { ConditionStatus::True } else { ConditionStatus::False };
    let finding = Finding::new(TOPOLOGY_RECONCILED, status, reason).because(message);
    let mut conditions = cluster.status.conditions.clone();
    let condition_changed =
        condition::set(&mut conditions, finding, cluster.metadata.generation, context.now());
    let (control_plane, workers) = match shown.has_no_place.load(Ordering::Relaxed) {
        true => (Vec::new(), Vec::new()),
        false => plans(cluster, outcome),
    };
    let plan_changed = control_plane != current_plan(cluster.status.control_plane.as_ref())
        || workers != current_plan(cluster.status.workers.as_ref());
    if !condition_changed && !plan_changed {
        return Ok(());
    }
    let own = condition::find(&conditions, TOPOLOGY_RECONCILED);
    let before = condition::find(&cluster.status.conditions, TOPOLOGY_RECONCILED);
    // Which generation was looked at is no news.
    if let Some(own) = own.filter(|own| before.map(in_one_line) != Some(in_one_line(own))) {
        let (namespace, name) = (cluster.namespace(), cluster.name_any());
        tracing::info!(namespace, name, reason = own.reason, "{}", in_one_line(own));
    }
    let mut status = json!({"conditions": [own]});
    let has_plan = !control_plane.is_empty() || !workers.is_empty();
    for (part, plan) in [("controlPlane", control_plane), ("workers", workers)] {
        if !plan.is_empty() {
            let steps = plan.into_iter().map(|version| UpgradePlanVersion { version });
            status[part] = json!({"upgradePlan": steps.collect::<Vec<_>>()});
        }
    }
    let intent = json!({
        "apiVersion": Cluster::API_VERSION,
        "kind": Cluster::KIND,
        "metadata": {"namespace": cluster.namespace(), "name": cluster.name_any(), "uid": cluster.uid()},
        "status": status,
    });
    // Under this name once everything was applied: it is how a Cluster is known that was taken over from upstream.
    let is_applied = matches!(outcome, Outcome::Decided { .. }) || is_taken_over(cluster);
    let manager = if is_applied { TOPOLOGY_FIELD_MANAGER } else { UNDECIDED_FIELD_MANAGER };
    let writer = context.writer::<Cluster>();
    match writer.apply_status(manager, &intent).await {
        Err(error) if has_plan && error.to_string().contains(UNDECLARED) => {
            tracing::warn!("the CRD of Clusters has no upgradePlan: the steps that are left are not shown");
            shown.has_no_place.store(true, Ordering::Relaxed);
            let mut intent = intent;
            intent["status"] = json!({"conditions": [own]});
            writer.apply_status(manager, &intent).await?;
        }
        written => drop(written?),
    }
    Ok(())
}

/// Keeps what the topology waits on, if that has changed, and tells when a new wait begins. It is written before the
/// condition: after a crash in between, the wait that the next reconcile finds has begun when it was kept.
async fn keep_wait(context: &Context, cluster: &Cluster, outcome: &Outcome<'_>) -> Result<(), WriteError> {
    if !outcome.tells_waiting() {
        return Ok(());
    }
    let annotations = cluster.metadata.annotations.as_ref();
    let (on, kept) = (outcome.waiting(), Wait::read(annotations));
    let wait = on.as_ref().map(|on| Wait::of(on, kept.as_ref(), context.now()));
    let Some(value) = Wait::change(wait.as_ref(), annotations) else { return Ok(()) };
    waits::write(context, cluster, value).await?;
    if let Some(on) = on.filter(|on| !kept.is_some_and(|kept| kept.is_on(on))) {
        let event = if on.is_failure() { EventType::Warning } else { EventType::Normal };
        context.event(cluster, event, on.reason(), on.sentence().to_string());
    }
    Ok(())
}

/// The condition for the log.
fn in_one_line(condition: &Condition) -> String {
    let lines: Vec<&str> =
        condition.message.lines().map(|line| line.trim().trim_start_matches("* ")).collect();
    match condition.status.as_str() {
        "True" => "the topology is as it should be".to_owned(),
        _ => lines.join("; "),
    }
}

/// The plan that is shown: the one that was computed, or what was shown before if none could be.
fn plans(cluster: &Cluster, outcome: &Outcome<'_>) -> (Vec<String>, Vec<String>) {
    let texts = |versions: &[Version]| versions.iter().map(Version::to_string).collect();
    match outcome {
        Outcome::Decided { decision, .. } if !matches!(decision.plan, Plan::None(_)) => {
            (texts(decision.plan.control_plane()), texts(&decision.plan.workers()))
        }
        _ => (
            current_plan(cluster.status.control_plane.as_ref()),
            current_plan(cluster.status.workers.as_ref()),
        ),
    }
}

fn current_plan(status: Option<&MachinesStatus>) -> Vec<String> {
    status.into_iter().flat_map(|status| &status.upgrade_plan).map(|step| step.version.clone()).collect()
}
