//! What the first apply to an object would take away that another program has applied under the same name.
//!
//! Upstream's controllers and ours apply under the same field managers, so that nothing has two owners after a take-over. The
//! price is that a field which upstream applied, and which is not in our intent, is gone with our first apply. A topology drops
//! fields on purpose when it changes; the first time we apply to what upstream made, it has not changed.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;
use windlass_api::cluster::Cluster;
use windlass_api::names::TOPOLOGY_FIELD_MANAGER;

use crate::external_update::is_empty;

/// On a Cluster that upstream made: fields that upstream has applied, and that are not in the topology, may go.
pub const TAKE_OVER_ANNOTATION: &str = "upgrade.windlass.dev/take-over";

/// What upstream's controllers are called where they do not apply: the name of their binary.
const UPSTREAM: &str = "manager";

/// How many fields a message names.
const NAMED: usize = 5;

/// Whether fields that were applied before may go: upstream never wrote to this Cluster, we have applied its topology before, or
/// its owner has said so.
///
/// Upstream patches the status of Clusters; our topology controller applies its part of it, after everything else was applied.
pub fn is_taken_over(cluster: &Cluster) -> bool {
    let metadata = &cluster.metadata;
    let has = |is: &dyn Fn(&ManagedFieldsEntry) -> bool| metadata.managed_fields.iter().flatten().any(is);
    let is_upstreams = |entry: &ManagedFieldsEntry| entry.manager.as_deref() == Some(UPSTREAM);
    let is_ours = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(TOPOLOGY_FIELD_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref() == Some("status")
    };
    !has(&is_upstreams)
        || has(&is_ours)
        || metadata.annotations.iter().flatten().any(|(key, _)| key == TAKE_OVER_ANNOTATION)
}

/// Fields of an object that a take-over would take away or, in a template, change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Kind and name of the object.
    pub object: String,
    /// Paths of the fields.
    pub fields: Vec<String>,
    /// The Cluster, as arguments of kubectl.
    pub cluster: String,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.fields.len().min(NAMED);
        write!(f, "taking over {} would remove or change {}", self.object, self.fields[..named].join(", "))?;
        if self.fields.len() > named {
            write!(f, " and {} more fields", self.fields.len() - named)?;
        }
        write!(
            f,
            ", which Cluster API applied and the topology does not have: nothing is written to it. Add them to the class or \
             the topology, or let them go: kubectl annotate cluster {} {TAKE_OVER_ANNOTATION}=",
            self.cluster
        )
    }
}

/// Paths below `spec` that an object has before and not after.
pub fn lost_fields(before: &Value, after: &Value) -> Vec<String> {
    let mut lost = Vec::new();
    match (&before["spec"], &after["spec"]) {
        // A spec that says nothing any more has lost each of its fields.
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                missing(value, after.get(key), &format!("spec.{key}"), &mut lost);
            }
        }
        (before, _) => missing(before, after.get("spec"), "spec", &mut lost),
    }
    lost
}

/// Paths below `spec` in which two objects differ: one has what the other has not, or something else.
pub fn different_fields(before: &Value, after: &Value) -> Vec<String> {
    let mut found = BTreeMap::new();
    for (one, other) in [(before, after), (after, before)] {
        let mut paths = Vec::new();
        differing(&one["spec"], other.get("spec"), "spec", &mut paths);
        found.extend(paths.into_iter().map(|path| (path, ())));
    }
    found.into_keys().collect()
}

fn missing(before: &Value, after: Option<&Value>, path: &str, lost: &mut Vec<String>) {
    if is_empty(before) {
        return;
    }
    let Some(after) = after.filter(|after| !is_empty(after)) else {
        lost.push(path.to_owned());
        return;
    };
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                missing(value, after.get(key), &format!("{path}.{key}"), lost);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for item in before {
                match name_of(item) {
                    Some((key, name)) => {
                        let other = after.iter().find(|other| other.get(key) == item.get(key));
                        missing(item, other, &format!("{path}[{key}={name}]"), lost);
                    }
                    None if after.contains(item) => {}
                    None => lost.push(format!("{path}[{item}]")),
                }
            }
        }
        // Another value is no loss.
        _ => {}
    }
}

fn differing(one: &Value, other: Option<&Value>, path: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Some(Value::Object(other))) => {
            for (key, value) in one {
                differing(value, other.get(key), &format!("{path}.{key}"), found);
            }
        }
        (one, Some(other)) if one == other => {}
        (one, None) if is_empty(one) => {}
        (one, Some(other)) if is_empty(one) && is_empty(other) => {}
        _ => found.push(path.to_owned()),
    }
}

/// What an item of a list is known by.
fn name_of(item: &Value) -> Option<(&'static str, &str)> {
    ["name", "type", "key", "conditionType", "path"]
        .into_iter()
        .find_map(|key| Some((key, item.get(key)?.as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_there_any_more_is_lost_and_what_is_different_is_not() {
        let args = |args: Value| json!({"spec": {"extraArgs": args}});
        for (before, after, lost) in [
            (
                json!({"spec": {"a": 1, "b": {"c": 2}}}),
                json!({"spec": {"a": 2, "b": {"c": 2}, "d": 3}}),
                vec![],
            ),
            (json!({"spec": {"a": 1, "b": {"c": 2}}}), json!({"spec": {"b": {}}}), vec!["spec.a", "spec.b"]),
            (json!({"spec": {"b": {"c": 2, "d": 3}}}), json!({"spec": {"b": {"d": 3}}}), vec!["spec.b.c"]),
            (json!({"spec": {"b": {"c": {}, "d": []}}}), json!({"spec": {}}), vec![]),
            (json!({"spec": {"a": 1}}), json!({}), vec!["spec"]),
            (json!({"status": {"a": 1}, "metadata": {"labels": {"a": "1"}}}), json!({}), vec![]),
            (
                args(json!([{"name": "v", "value": "2"}, {"name": "w", "value": "1"}])),
                args(json!([{"name": "w", "value": "1"}, {"name": "x"}])),
                vec!["spec.extraArgs[name=v]"],
            ),
            (
                args(json!([{"name": "v", "value": "2"}])),
                args(json!([{"name": "v"}])),
                vec!["spec.extraArgs[name=v].value"],
            ),
            (args(json!(["a", "b"])), args(json!(["b"])), vec!["spec.extraArgs[\"a\"]"]),
        ] {
            assert_eq!(lost_fields(&before, &after), lost, "{before} -> {after}");
        }
    }

    #[test]
    fn templates_differ_in_either_direction() {
        let before = json!({"spec": {"template": {"spec": {"a": 1, "b": 2, "gone": true, "empty": {}}}}});
        let after = json!({"spec": {"template": {"spec": {"a": 1, "b": 3, "new": true}}}});
        let expected = ["spec.template.spec.b", "spec.template.spec.gone", "spec.template.spec.new"];
        assert_eq!(different_fields(&before, &after), expected);
        assert_eq!(different_fields(&before, &before), [""; 0]);
    }

    #[test]
    fn a_cluster_is_taken_over_when_we_have_applied_its_status_or_its_owner_says_so() {
        let cluster = |managers: Value, annotations: Value| -> Cluster {
            serde_json::from_value(
                json!({"metadata": {"name": "c", "managedFields": managers, "annotations": annotations}}),
            )
            .unwrap()
        };
        let upstream = json!({"manager": "manager", "operation": "Update", "subresource": "status"});
        let ours = json!({"manager": "capi-topology", "operation": "Apply", "subresource": "status"});
        let older = json!({"manager": "capi-topology", "operation": "Apply"});
        for (managers, annotations, is) in [
            (json!([]), json!({}), true),
            (json!([older]), json!({}), true),
            (json!([upstream]), json!({}), false),
            (json!([upstream, older]), json!({}), false),
            (json!([upstream, ours]), json!({}), true),
            (json!([upstream]), json!({TAKE_OVER_ANNOTATION: ""}), true),
        ] {
            let cluster = cluster(managers, annotations);
            assert_eq!(is_taken_over(&cluster), is, "{:?}", cluster.metadata);
        }
    }

    #[test]
    fn the_message_names_the_fields_and_the_way_out() {
        let lost = |count: usize| Lost {
            object: "MachineDeployment md".to_owned(),
            fields: (0..count).map(|number| format!("spec.f{number}")).collect(),
            cluster: "c -n default".to_owned(),
        };
        let text = lost(1).to_string();
        assert!(
            text.starts_with("taking over MachineDeployment md would remove or change spec.f0, which"),
            "{text}"
        );
        assert!(
            text.ends_with("kubectl annotate cluster c -n default upgrade.windlass.dev/take-over="),
            "{text}"
        );
        assert!(lost(7).to_string().contains("spec.f4 and 2 more fields"));
    }
}
