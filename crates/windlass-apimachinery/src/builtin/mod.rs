//! What server-side apply and strategic merge patches must know about the built-in kinds.
//!
//! The built-in kinds have no schema here. They are structs all the way down, lists are replaced as a
//! whole, and `table.rs` names the exceptions: maps, lists that merge and by what, structs that are
//! owned as a whole.

mod table;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_api::api_version;

use crate::fieldmanager::{Deduced, Field, ListShape, MapShape, Shape, object_meta};
use crate::schema::ListType;

/// The exceptional fields of a struct.
pub(crate) type Fields = &'static [(&'static str, Special)];

/// What is special about a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Special {
    /// A struct that has exceptional fields itself.
    Struct(Fields),
    /// A struct or map that is owned as a whole. Patches still merge it field by field.
    Whole,
    /// A map: its keys are data.
    Map,
    /// A list of structs that are told apart by keys.
    List(ListRule),
    /// A list of scalars that are told apart by their value, and that patches merge.
    Set,
    /// A list that is owned as a whole, but that patches merge by a key.
    PatchedList(PatchRule),
}

/// How a list of structs merges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListRule {
    /// The fields that tell elements apart when applying, with their defaults.
    pub(crate) keys: &'static [(&'static str, Option<&'static str>)],
    /// How patches merge it; `None` if they replace it.
    pub(crate) patch: Option<PatchRule>,
    /// What is special about its elements.
    pub(crate) item: Fields,
    /// Whether an element is owned as a whole.
    pub(crate) whole_items: bool,
}

/// How a strategic merge patch merges a list of structs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PatchRule {
    /// The field that tells elements apart.
    pub(crate) key: &'static str,
    /// What is special about its elements.
    pub(crate) item: Fields,
}

/// The exceptional fields of a kind, `metadata` included. Kinds that are not in the table have
/// ordinary metadata and nothing else.
pub(crate) fn fields_of(api_version: &str, kind: &str) -> Fields {
    entry(api_version, kind).unwrap_or(table::PLAIN)
}

/// Whether the table has the kind.
pub(crate) fn is_known(api_version: &str, kind: &str) -> bool {
    entry(api_version, kind).is_some()
}

fn entry(api_version: &str, kind: &str) -> Option<Fields> {
    let group = api_version::group(api_version);
    let is_it =
        |(known_group, known_kind, _): &&(&str, &str, Fields)| *known_group == group && *known_kind == kind;
    table::KINDS.iter().find(is_it).map(|(_, _, fields)| *fields)
}

/// The shape of a built-in kind.
pub fn shape(api_version: &str, kind: &str) -> Shape {
    let mut map = struct_shape(fields_of(api_version, kind));
    map.fields.insert("metadata".into(), Field { shape: object_meta(), default: None });
    Shape::Map(map)
}

/// An object of a built-in kind with nothing in it: the `live` object of a create.
///
/// Not quite empty. The API server keeps built-in kinds in structs, which have their parts from the
/// start; so the field manager that creates a Pod owns what is in `spec`, but not `spec` itself.
pub fn blank(api_version: &str, kind: &str) -> Value {
    let pod = || json!({"containers": null});
    let template = || json!({"metadata": {}, "spec": pod()});
    let parts = match kind {
        "Pod" => json!({"spec": pod(), "status": {}}),
        "PodTemplate" => json!({"template": template()}),
        "Deployment" => {
            json!({"spec": {"selector": null, "template": template(), "strategy": {}}, "status": {}})
        }
        "ReplicaSet" => {
            json!({"spec": {"selector": null, "template": template()}, "status": {"replicas": 0}})
        }
        "StatefulSet" => json!({
            "spec": {"selector": null, "serviceName": "", "template": template(), "updateStrategy": {}},
            "status": {"replicas": 0},
        }),
        "DaemonSet" => {
            json!({"spec": {"selector": null, "template": template(), "updateStrategy": {}}, "status": {}})
        }
        "ReplicationController" => json!({"spec": {}, "status": {"replicas": 0}}),
        "Job" => json!({"spec": {"template": template()}, "status": {}}),
        "CronJob" => json!({
            "spec": {"schedule": "", "jobTemplate": {"metadata": {}, "spec": {"template": template()}}},
            "status": {},
        }),
        "CustomResourceDefinition" => json!({
            "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": null},
            "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null},
        }),
        "Service" => json!({"spec": {}, "status": {"loadBalancer": {}}}),
        "Event" => json!({"involvedObject": {}, "source": {}}),
        "Lease" | "SelfSubjectAccessReview" | "SubjectAccessReview" | "TokenReview" => json!({"spec": {}}),
        "ConfigMap"
        | "Secret"
        | "ServiceAccount"
        | "Endpoints"
        | "StorageClass"
        | "Role"
        | "ClusterRole"
        | "RoleBinding"
        | "ClusterRoleBinding"
        | "ControllerRevision"
        | "LimitRange"
        | "PriorityClass"
        | "ValidatingWebhookConfiguration"
        | "MutatingWebhookConfiguration"
        | "SelfSubjectReview"
        | "ComponentStatus" => json!({}),
        _ => json!({"spec": {}, "status": {}}),
    };
    let mut blank = Map::new();
    blank.insert("kind".into(), kind.into());
    blank.insert("apiVersion".into(), api_version.into());
    blank.insert("metadata".into(), json!({}));
    if let Value::Object(mut parts) = parts {
        blank.append(&mut parts);
    }
    Value::Object(blank)
}

fn struct_shape(fields: Fields) -> MapShape {
    let fields =
        fields.iter().map(|(name, special)| ((*name).to_owned(), Field::new(special_shape(*special))));
    MapShape {
        fields: fields.collect(),
        others: Some(Arc::new(Shape::Deduced(Deduced::Struct))),
        atomic: false,
        others_are_fields: true,
    }
}

fn special_shape(special: Special) -> Shape {
    let anything = || Arc::new(Shape::Deduced(Deduced::Map));
    match special {
        Special::Struct(fields) => Shape::Map(struct_shape(fields)),
        Special::Whole => {
            Shape::Map(MapShape { others: Some(anything()), atomic: true, ..MapShape::default() })
        }
        Special::Map => Shape::Map(MapShape { others: Some(anything()), ..MapShape::default() }),
        Special::Set => Shape::List(ListShape { item: anything(), list_type: ListType::Set }),
        Special::PatchedList(_) => Shape::List(ListShape { item: anything(), list_type: ListType::Atomic }),
        Special::List(rule) => {
            let mut item = struct_shape(rule.item);
            item.atomic = rule.whole_items;
            for (key, default) in rule.keys {
                if !item.fields.contains_key(key) {
                    item.fields.insert((*key).to_owned(), Field::new(Shape::Deduced(Deduced::Struct)));
                }
                if let Some(field) = item.fields.get_mut(key) {
                    field.default = default.map(Value::from);
                }
            }
            let keys = rule.keys.iter().map(|(key, _)| (*key).to_owned()).collect();
            Shape::List(ListShape { item: Arc::new(Shape::Map(item)), list_type: ListType::Map(keys) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fieldmanager::typed;

    #[test]
    fn a_pod_is_owned_piece_by_piece() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {
                "nodeSelector": {"x": "y"}, "hostNetwork": true, "tolerations": [{"key": "k"}],
                "containers": [{
                    "name": "c", "args": ["1"], "ports": [{"containerPort": 80}],
                    "env": [{"name": "E", "value": "1"}], "resources": {"limits": {"cpu": "1"}},
                }],
            },
        });
        let owned = typed::fields(&pod, &shape("v1", "Pod")).to_fields_v1();
        let container = json!({
            ".": {}, "f:name": {}, "f:args": {},
            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
            "f:env": {"k:{\"name\":\"E\"}": {".": {}, "f:name": {}, "f:value": {}}},
            "f:resources": {"f:limits": {"f:cpu": {}}},
        });
        let expected = json!({
            "f:apiVersion": {}, "f:kind": {}, "f:metadata": {"f:name": {}, "f:labels": {"f:a": {}}},
            "f:spec": {
                "f:nodeSelector": {}, "f:hostNetwork": {}, "f:tolerations": {},
                "f:containers": {"k:{\"name\":\"c\"}": container},
            },
        });
        assert_eq!(owned, expected);
    }

    #[test]
    fn every_blank_object_has_the_shape_of_its_kind() {
        for (group, kind, _) in table::KINDS {
            let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
            let blank = blank(&api_version, kind);
            assert_eq!(typed::conform(&blank, &shape(&api_version, kind), false), Ok(()), "{kind}");
            assert_eq!(blank["kind"], *kind);
        }
    }

    #[test]
    fn kinds_that_are_not_in_the_table_have_metadata() {
        let object = json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["f"]}, "spec": {"list": [1]}});
        let owned = typed::fields(&object, &shape("example.test/v1", "Whatever")).to_fields_v1();
        let expected = json!({
            "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"f\"": {}}}, "f:spec": {"f:list": {}},
        });
        assert_eq!(owned, expected);
    }
}
