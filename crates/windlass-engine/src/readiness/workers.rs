//! Worker groups and control planes whose progress or strategy is not what one would think.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::names::{REPLICAS_MANAGED_BY_ANNOTATION, ROLLOUT_STRATEGY_ANNOTATION};

use super::object::{annotation, full_name, name, text};
use super::{Finding, Level, Objects};
use crate::annotated_strategy::Annotated;

pub(super) fn findings(objects: &Objects) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pool in &objects.machine_pools {
        let about = format!("MachinePool {}", full_name(pool));
        if let Some(manager) = annotation(pool, REPLICAS_MANAGED_BY_ANNOTATION) {
            let what = format!("its replicas are managed by {manager:?} and are not written");
            findings.push(Finding::new(Level::Note, &about, what, ""));
        }
        findings.extend(progress(pool, &about));
    }
    for (kind, objects) in
        [("MachineDeployment", &objects.machine_deployments), ("control plane", &objects.control_planes)]
    {
        for object in objects {
            findings.extend(external(&object["metadata"], &format!("{kind} {}", full_name(object))));
        }
    }
    for cluster in &objects.clusters {
        let topology = &cluster["spec"]["topology"];
        let about = |entry: &str| format!("Cluster {}, {entry}", full_name(cluster));
        let control_plane = &topology["controlPlane"]["metadata"];
        findings.extend(external(control_plane, &about("topology.controlPlane")));
        for entry in topology["workers"]["machineDeployments"].as_array().into_iter().flatten() {
            let about = about(&format!("topology entry {}", text(&entry["name"])));
            findings.extend(external(&entry["metadata"], &about));
        }
    }
    findings
}

/// Whether one can see which versions a pool runs.
fn progress(pool: &Value, about: &str) -> Option<Finding> {
    let has = |field: &str| pool["status"][field].as_array().is_some_and(|items| !items.is_empty());
    let replicas = pool["status"]["replicas"].as_i64().unwrap_or_default();
    if has("versions") || replicas == 0 {
        return None;
    }
    Some(match has("nodeRefs") {
        true => Finding::new(
            Level::Note,
            about,
            "does not say which versions it runs: upgrades ask its Nodes instead",
            "",
        ),
        false => Finding::new(
            Level::Warning,
            about,
            "says neither which versions it runs nor which Nodes it has: its progress cannot be seen, and the next step of an \
             upgrade waits for its Nodes",
            format!(
                "kubectl describe machinepool {}: its provider has to set spec.providerIDList",
                name(pool)
            ),
        ),
    })
}

/// Strategy `External` by annotation: Cluster API reads the field.
fn external(metadata: &Value, about: &str) -> Option<Finding> {
    let annotations: Option<BTreeMap<String, String>> =
        serde_json::from_value(metadata["annotations"].clone()).ok();
    let is_external = Annotated::of(annotations.as_ref()).external;
    is_external.then(|| {
        let what = format!(
            "has {ROLLOUT_STRATEGY_ANNOTATION}: External. Windlass follows it; for Cluster API, whose webhook keeps the field at \
             RollingUpdate, machines are replaced"
        );
        Finding::new(Level::Note, about, what, "")
    })
}
