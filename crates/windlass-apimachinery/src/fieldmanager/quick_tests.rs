//! The short way comes to the same as the long way, and so do its parts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::entries::Entries;
use super::managed::{ManagedFields, Timestamp, same_apart_from_owners, settle_timestamps};
use super::manager::{Endpoint, FieldManager};
use super::set::Set;
use super::shape::Shape;
use super::typed::{self, compare_by_paths};
use crate::schema::Schema;

const VERSION: &str = "demo.test/v1";

fn shape() -> Shape {
    let list =
        |kind: &str, items: Value| json!({"type": "array", "x-kubernetes-list-type": kind, "items": items});
    let text = json!({"type": "string"});
    let mut ports = list(
        "map",
        json!({"type": "object", "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
            "name": {"type": "string"}, "tags": list("set", text.clone()),
        }}),
    );
    ports["x-kubernetes-list-map-keys"] = json!(["port", "protocol"]);
    let mut conditions = list("map", json!({"type": "object", "properties": {"type": text, "status": text}}));
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "color": text, "size": {"type": "number"}, "tags": list("set", text.clone()), "args": list("atomic", text.clone()),
            "labels": {"type": "object", "additionalProperties": text},
            "ref": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"name": text}},
            "ports": ports, "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
        "status": {"type": "object", "properties": {"phase": text, "conditions": conditions}},
    }});
    Shape::of_resource(&Schema::parse(&schema).unwrap())
}

fn text() -> impl Strategy<Value = Value> {
    prop::sample::select(vec!["a", "b", "quote\"d"]).prop_map(Value::from)
}

fn texts() -> impl Strategy<Value = Value> {
    prop::collection::btree_set("[abc]", 0..3).prop_map(|texts| texts.into_iter().collect())
}

fn map() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[xyz]", text(), 0..3).prop_map(|map| map.into_iter().collect())
}

fn object(fields: Vec<Option<(&'static str, Value)>>) -> Value {
    fields.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn maybe(
    name: &'static str,
    value: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Option<(&'static str, Value)>> {
    prop::option::weighted(0.7, value.prop_map(move |value| (name, value)))
}

fn keyed(items: Vec<Value>, key: &str) -> Value {
    let mut seen = BTreeSet::new();
    items.into_iter().filter(|item| seen.insert(item[key].to_string())).collect()
}

fn spec() -> impl Strategy<Value = Value> {
    let port =
        (80..82i64, maybe("protocol", Just("UDP".into())), maybe("name", text()), maybe("tags", texts()))
            .prop_map(|(port, protocol, name, tags)| {
                object(vec![Some(("port", port.into())), protocol, name, tags])
            });
    let raw = text().prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            prop::collection::btree_map("[xyz]", inner.clone(), 0..3)
                .prop_map(|map| map.into_iter().collect()),
            prop::collection::vec(inner, 0..3).prop_map(Value::Array),
        ]
    });
    (
        maybe("color", text()),
        maybe("size", prop::sample::select(vec![json!(1), json!(1.0), json!(2), json!(null)])),
        maybe("tags", texts()),
        maybe("args", texts()),
        maybe("labels", map()),
        maybe("ref", map().prop_map(|map| json!({"name": map.to_string()}))),
        maybe("ports", prop::collection::vec(port, 0..3).prop_map(|ports| keyed(ports, "port"))),
        maybe("raw", raw.prop_map(|raw| json!({"r": raw}))),
    )
        .prop_map(|(a, b, c, d, e, f, g, h)| object(vec![a, b, c, d, e, f, g, h]))
}

fn status() -> impl Strategy<Value = Value> {
    let condition = (text(), text()).prop_map(|(ty, status)| json!({"type": ty, "status": status}));
    let conditions = prop::collection::vec(condition, 0..3).prop_map(|items| keyed(items, "type"));
    (maybe("phase", text()), maybe("conditions", conditions)).prop_map(|(a, b)| object(vec![a, b]))
}

/// A write, and how it is made strange.
#[derive(Debug, Clone)]
struct Act {
    manager: &'static str,
    spec: Value,
    status: Option<Value>,
    labels: Value,
    on_status: bool,
    apply: Option<bool>,
    with_owners: bool,
    spoil: u8,
}

fn act() -> impl Strategy<Value = Act> {
    let manager = prop::sample::select(vec!["m1", "m2", "m3"]);
    (
        manager,
        spec(),
        prop::option::of(status()),
        map(),
        any::<bool>(),
        prop::option::of(any::<bool>()),
        any::<bool>(),
        0..24u8,
    )
        .prop_map(|(manager, spec, status, labels, on_status, apply, with_owners, spoil)| Act {
            manager,
            spec,
            status,
            labels,
            on_status,
            apply,
            with_owners,
            spoil,
        })
}

impl Act {
    fn object(&self, live: &Value) -> Value {
        let mut object = json!({
            "apiVersion": VERSION, "kind": "Widget",
            "metadata": {"name": "w", "labels": self.labels}, "spec": self.spec,
        });
        if let Some(status) = &self.status {
            object["status"] = status.clone();
        }
        if self.apply.is_none() {
            object["metadata"]["uid"] = live["metadata"]["uid"].clone();
            if self.with_owners && !live["metadata"]["managedFields"].is_null() {
                object["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
            }
        }
        object
    }

    /// What others may have made of the owners of an object.
    fn spoil(&self, object: &mut Value) {
        let owners = &mut object["metadata"]["managedFields"];
        let Some(first) = owners.get_mut(0) else { return };
        match self.spoil {
            0 => first["time"] = json!("2026-11-15T20:10:41+01:00"),
            1 => first["apiVersion"] = json!("demo.test/v2"),
            2 => first["fieldsV1"]["f:spec"]["f:args"] = json!({"i:0": {}}),
            3 => first["fieldsV1"]["k:{ \"a\": 1}"] = json!({}),
            4 => first["fieldsV1"]["nope"] = json!({}),
            5 => *owners = json!([]),
            6 => *owners = json!([owners[0], owners[0]]),
            7 => first["fieldsV1"] = json!({}),
            8 => drop(first.as_object_mut().unwrap().remove("time")),
            9 => first["more"] = json!("x"),
            10 => first["fieldsV1"]["f:spec"] = json!({".": {}}),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_short_way_comes_to_the_same_as_the_long_way(acts in prop::collection::vec(act(), 1..8)) {
        let versions = BTreeMap::from([(VERSION.to_owned(), Arc::new(shape()))]);
        let mut live = json!({"apiVersion": VERSION, "kind": "Widget"});
        let mut taken = 0;
        for (time, act) in acts.iter().enumerate() {
            let now = Timestamp::from_unix_seconds(1_800_000_000 + time as i64);
            let endpoint = if act.on_status { Endpoint::Status } else { Endpoint::Object { has_status: true } };
            let fields = FieldManager { versions: &versions, api_version: VERSION, kind: "Widget", endpoint };
            let object = act.object(&live);
            let mut next = match act.apply {
                Some(force) => {
                    let full = fields.full_apply(&live, &object, act.manager, force, now);
                    if let Some(quick) = fields.quick_apply(&live, &object, act.manager, force, now) {
                        taken += 1;
                        prop_assert_eq!(&Ok(quick), &full);
                    }
                    full.unwrap_or_else(|_| live.clone())
                }
                None => {
                    let full = fields.full_update(&live, object.clone(), act.manager, now);
                    match fields.quick_update(&live, object.clone(), act.manager, now) {
                        Ok(quick) => {
                            taken += 1;
                            prop_assert_eq!(&quick, &full);
                        }
                        Err(given_back) => {
                            prop_assert_eq!(fields.full_update(&live, given_back, act.manager, now), full.clone());
                        }
                    }
                    full
                }
            };
            next["metadata"]["uid"] = json!("u");
            let mut settled = next.clone();
            let same = settle_timestamps(&live, &mut settled);
            prop_assert_eq!(same, unchanged(&live, &next));
            prop_assert_eq!(&settled, if same { &live } else { &next });
            act.spoil(&mut next);
            live = next;
        }
        // The first write meets nothing that is in its way.
        prop_assert!(taken > 0);
    }

    #[test]
    fn comparing_from_the_inside_out_gives_what_comparing_by_paths_gives(old in spec(), new in spec(), before in map(), after in map()) {
        let whole = |spec: Value, labels: Value| json!({"metadata": {"labels": labels}, "spec": spec});
        let (old, new, shape) = (whole(old, before), whole(new, after), shape());
        let found = typed::compare(&old, &new, &shape);
        prop_assert_eq!(found.changed(), found.added.union(&found.modified));
        prop_assert_eq!(&found, &compare_by_paths(&old, &new, &shape));
        let mut owned = old.clone();
        owned["metadata"]["managedFields"] = json!([{"manager": "m"}]);
        let owners = owned.pointer("/metadata/managedFields");
        prop_assert_eq!(&typed::compare_except(&owned, &new, &shape, owners), &found);
        prop_assert_eq!(typed::merge_except(&owned, &new, &shape, owners), typed::merge(&old, &new, &shape));
    }

    #[test]
    fn sets_changed_in_place_are_what_new_sets_would_be(a in spec(), b in spec()) {
        let whole = |spec: &Value| typed::fields(&json!({"spec": spec}), &shape());
        let (a, b) = (whole(&a), whole(&b));
        let changed = |change: &dyn Fn(&mut Set)| {
            let mut set = a.clone();
            change(&mut set);
            set
        };
        prop_assert_eq!(changed(&|set| set.subtract(&b)), a.difference(&b));
        prop_assert_eq!(changed(&|set| set.subtract_recursively(&b)), a.recursive_difference(&b));
        prop_assert_eq!(changed(&|set| set.absorb(b.clone())), a.union(&b));
    }

    #[test]
    fn entries_answer_without_being_read(a in spec(), b in spec(), json in any::<bool>()) {
        let whole = |spec: &Value| typed::fields(&json!({"spec": spec}), &shape());
        let (a, b) = (whole(&a), if json { whole(&a) } else { whole(&b) });
        prop_assume!(!a.is_empty());
        let entry = json!({"manager": "m", "operation": "Apply", "apiVersion": VERSION, "fieldsType": "FieldsV1", "fieldsV1": a.to_fields_v1()});
        let list = json!([entry]);
        prop_assert!(Entries::are_readable(Some(&list), VERSION, &shape()));
        let mut entries = Entries::take(Some(list));
        let entry = entries.iter_mut().next().unwrap();
        prop_assert_eq!(entry.is_within(&b), a.difference(&b).is_empty());
        prop_assert_eq!(entry.replace_fields(b.clone()), a != b);
        let mut entries = Entries::take(Some(json!([entry_of(&a)])));
        let entry = entries.iter_mut().next().unwrap();
        prop_assert_eq!(entry.lose(&b), !a.intersection(&b).is_empty());
        prop_assert_eq!(&*entry.fields_mut(), &a.difference(&b));
    }
}

fn entry_of(fields: &Set) -> Value {
    json!({"manager": "m", "operation": "Apply", "apiVersion": VERSION, "fieldsType": "FieldsV1", "fieldsV1": fields.to_fields_v1()})
}

/// Whether only timestamps differ, by reading everything.
fn unchanged(old: &Value, new: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        ManagedFields::default().store(&mut object);
        object
    };
    assert_eq!(same_apart_from_owners(old, new), without(old) == without(new));
    match (ManagedFields::of(old), ManagedFields::of(new)) {
        (Ok(before), Ok(after)) => before.owns_the_same(&after) && without(old) == without(new),
        _ => old == new,
    }
}

#[test]
fn usual_entries_are_readable() {
    let key = |json: &str| {
        let fields: Map<String, Value> = [(format!("k:{json}"), json!({}))].into_iter().collect();
        let entry = json!({"operation": "Update", "apiVersion": VERSION, "fieldsType": "FieldsV1", "time": "2026-11-15T19:10:41Z",
            "fieldsV1": {"f:spec": {"f:ports": fields}}});
        Entries::are_readable(Some(&json!([entry])), VERSION, &shape())
    };
    assert!(
        key(r#"{"type":"Ready"}"#) && key(r#"{"port":80,"protocol":"TCP"}"#) && key(r#"{"type":"a\"b"}"#)
    );
    assert!(
        !key(r#"{"type": "Ready"}"#)
            && !key(r#"{"b":1,"a":1}"#)
            && !key(r#"{"type":"\u0041"}"#)
            && !key("{}")
    );
}
