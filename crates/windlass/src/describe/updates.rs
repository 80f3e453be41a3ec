//! Updates in place, as lines below the tree.

use jiff::Timestamp;
use windlass_api::printable;
use windlass_engine::describe::UpdatesDescription;

use super::table::{BUSY, DIM, age};
use crate::table::HEAD;

/// Who can update what, and what runs; nothing if there is nothing to say.
pub(super) fn render(updates: &[UpdatesDescription], now: Timestamp) -> String {
    if updates.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{HEAD}Updates in place{HEAD:#}\n");
    for owner in updates {
        text.push_str(&format!("  {}\n", printable(&format!("{}/{}", owner.kind, owner.name))));
        for verdict in &owner.verdicts {
            let since = verdict.since.as_ref().map(|since| format!(" for {}", age(since.0, now)));
            let since = since.unwrap_or_default();
            let said = format!("{}: {} ({}{since})", verdict.type_, verdict.status, verdict.reason);
            text.push_str(&format!("    {}\n", printable(&said)));
            for line in verdict.message.lines() {
                text.push_str(&format!("      {DIM}{}{DIM:#}\n", printable(line)));
            }
        }
        for machine in &owner.machines {
            let by =
                machine.extension.as_ref().map(|extension| format!(" by {extension}")).unwrap_or_default();
            let says = match machine.message.is_empty() {
                true => machine.reason.clone(),
                false => machine.message.lines().collect::<Vec<_>>().join("; "),
            };
            let age = age(machine.since.0, now);
            let said = format!("Machine/{}{by}, {age}: {says}", machine.name);
            text.push_str(&format!("    {BUSY}updating{BUSY:#} {}\n", printable(&said)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_engine::describe::{ClusterDescription, Described};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn verdicts_are_told_field_by_field_and_updates_with_who_makes_them() {
        let condition = |type_: &str, status: &str, reason: &str, message: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let cluster = read(json!({"metadata": {"name": "c1"},
            "spec": {"controlPlaneRef": {"apiGroup": "g", "kind": "KubeadmControlPlane", "name": "c1-cp"}}}));
        let covered = "Machine c1-cp-a cannot be updated in place\n* Machine spec.version: can.updater\n\
                       * KubeadmConfig spec.files[0]: no extension";
        let control_plane = json!({"status": {"conditions": [
            condition("CanUpdateInPlace", "False", "NotCovered", covered),
            condition("ExternalUpdate", "True", "Accepted", "x.night updates 1 Machine: soon\n* waiting for c1-cp-a"),
        ]}});
        let labels = json!({"group": "web"});
        let machine = |name: &str, annotations: Value, conditions: Value| {
            read(json!({"metadata": {"name": name, "labels": labels, "annotations": annotations},
                "spec": {"clusterName": "c1"}, "status": {"conditions": conditions}}))
        };
        let extensions = json!({"in-place-updates.internal.cluster.x-k8s.io/extensions": "updater,other"});
        let updating = condition("Updating", "True", "InPlaceUpdating", "updater: installing");
        let idle = condition("Updating", "False", "NotUpdating", "");
        let machines = [
            machine("c1-web-b", json!({}), json!([condition("Updating", "True", "InPlaceUpdating", "")])),
            machine("c1-web-a", extensions, json!([updating])),
            machine("c1-web-c", json!({}), json!([idle])),
        ];
        let group = |name: &str, labels: &Value| {
            read(json!({"metadata": {"name": name}, "spec": {"clusterName": "c1",
                "selector": {"matchLabels": labels}}}))
        };
        let objects = Described {
            cluster: &cluster,
            infrastructure: None,
            control_plane: Some(&control_plane),
            machine_deployments: &[group("c1-web", &labels), group("c1-idle", &json!({"group": "idle"}))],
            machine_pools: &[],
            machines: &machines,
            version_changes: &[],
        };
        let now: Timestamp = "2026-01-01T00:03:05Z".parse().unwrap();
        let described = ClusterDescription::of(objects, now);
        let text = anstream::adapter::strip_str(&render(&described.updates, now)).to_string();
        let expected = "
Updates in place
  KubeadmControlPlane/c1-cp
    CanUpdateInPlace: False (NotCovered for 3m5s)
      Machine c1-cp-a cannot be updated in place
      * Machine spec.version: can.updater
      * KubeadmConfig spec.files[0]: no extension
    ExternalUpdate: True (Accepted for 3m5s)
      x.night updates 1 Machine: soon
      * waiting for c1-cp-a
  MachineDeployment/c1-web
    updating Machine/c1-web-a by updater, 3m5s: updater: installing
    updating Machine/c1-web-b, 3m5s: InPlaceUpdating
";
        assert_eq!(text, expected);
        assert_eq!(render(&[], now), "");
    }
}
