//! The operations one by one; how they work together is told in `tests/apply`.

use serde_json::{Value, json};

use super::*;
use crate::fieldmanager::set::Set;
use crate::schema::Schema;

fn shape() -> Shape {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": text,
        "m": {"type": "object", "additionalProperties": text},
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
              "items": {"type": "object", "required": ["k"], "properties": {"k": text, "v": text}}},
        "atomic": {"type": "array", "items": {"type": "object", "properties": {"x": text}}},
        "r": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    Shape::of_resource(&Schema::from_crd(&schema, "root").unwrap_or_else(|causes| panic!("{causes:?}")))
}

fn object(spec: Value) -> Value {
    json!({"spec": spec})
}

fn set(fields: Value) -> Set {
    Set::from_fields_v1(&fields).unwrap()
}

#[test]
fn comparing_sorts_fields_by_what_happened_to_them() {
    let cases = [
        ("nothing", json!({"a": "1"}), json!({"a": "1"}), json!({}), json!({}), json!({})),
        (
            "a value",
            json!({"a": "1"}),
            json!({"a": "2"}),
            json!({}),
            json!({"f:spec": {"f:a": {}}}),
            json!({}),
        ),
        (
            "a new map",
            json!({}),
            json!({"m": {"x": "1"}}),
            json!({"f:spec": {"f:m": {".": {}, "f:x": {}}}}),
            json!({}),
            json!({}),
        ),
        (
            "an old map",
            json!({"m": {"x": "1"}}),
            json!({}),
            json!({}),
            json!({}),
            json!({"f:spec": {"f:m": {".": {}, "f:x": {}}}}),
        ),
        (
            "an emptied map",
            json!({"m": {"x": "1"}}),
            json!({"m": {}}),
            json!({}),
            json!({}),
            json!({"f:spec": {"f:m": {"f:x": {}}}}),
        ),
        (
            "null and empty differ",
            json!({"m": null}),
            json!({"m": {}}),
            json!({}),
            json!({"f:spec": {"f:m": {}}}),
            json!({}),
        ),
        (
            "a filled null",
            json!({"m": null}),
            json!({"m": {"x": "1"}}),
            json!({"f:spec": {"f:m": {"f:x": {}}}}),
            json!({}),
            json!({}),
        ),
        (
            "an element",
            json!({"s": ["x"]}),
            json!({"s": ["x", "y"]}),
            json!({"f:spec": {"f:s": {"v:\"y\"": {}}}}),
            json!({}),
            json!({}),
        ),
        (
            "a field of an element",
            json!({"l": [{"k": "1", "v": "x"}]}),
            json!({"l": [{"k": "1", "v": "y"}]}),
            json!({}),
            json!({"f:spec": {"f:l": {"k:{\"k\":\"1\"}": {"f:v": {}}}}}),
            json!({}),
        ),
        (
            "an atomic list",
            json!({"atomic": [{"x": "1"}]}),
            json!({"atomic": []}),
            json!({}),
            json!({"f:spec": {"f:atomic": {}}}),
            json!({}),
        ),
        (
            "a map that becomes a scalar",
            json!({"r": {"x": {"y": 1}}}),
            json!({"r": {"x": 1}}),
            json!({}),
            json!({"f:spec": {"f:r": {"f:x": {}}}}),
            json!({"f:spec": {"f:r": {"f:x": {"f:y": {}}}}}),
        ),
        (
            "twins that change",
            json!({"s": ["x", "x"]}),
            json!({"s": ["x", "x", "x"]}),
            json!({}),
            json!({"f:spec": {"f:s": {"v:\"x\"": {}}}}),
            json!({}),
        ),
        (
            "twins that stay",
            json!({"s": ["x", "x"]}),
            json!({"s": ["x", "x"]}),
            json!({}),
            json!({}),
            json!({}),
        ),
        (
            "new twins",
            json!({"s": ["x"]}),
            json!({"s": ["x", "x"]}),
            json!({"f:spec": {"f:s": {"v:\"x\"": {}}}}),
            json!({}),
            json!({"f:spec": {"f:s": {"v:\"x\"": {}}}}),
        ),
    ];
    for (name, old, new, added, modified, removed) in cases {
        // Not the spec itself, which is there before and after.
        let found = compare(&object(old), &object(new), &shape());
        let found = (found.added.to_fields_v1(), found.modified.to_fields_v1(), found.removed.to_fields_v1());
        assert_eq!(found, (added, modified, removed), "{name}");
    }
}

#[test]
fn every_problem_of_a_value_is_named() {
    let value = object(json!({
        "a": 1, "nope": 1, "m": {"x": true}, "s": ["x", "x"], "l": [{"v": "1"}, "x"], "atomic": [{"y": 1}],
    }));
    let problems = conform(&value, &shape(), false).unwrap_err();
    let expected = "errors:\n  .spec.a: expected string, got integer\n  .spec.atomic[0].y: field not declared in \
                    schema\n  .spec.l: associative list with keys has an element that omits key field \"k\" (and \
                    doesn't have default value)\n  .spec.l: associative list with keys may not have non-map \
                    elements\n  .spec.m.x: expected string, got boolean\n  .spec.nope: field not declared in \
                    schema\n  .spec.s: duplicate entries for key [=\"x\"]";
    assert_eq!(problems.to_string(), expected);
    assert_eq!(conform(&object(json!({"s": ["x", "x"], "m": null})), &shape(), true), Ok(()));
    let list = conform(&object(json!({"s": "x"})), &shape(), true).unwrap_err().to_string();
    assert_eq!(list, ".spec.s: expected list, got string");
}

#[test]
fn structs_are_named_and_maps_are_not() {
    let fields = set(json!({"f:spec": {"f:a": {}, "f:m": {"f:x": {}}, "f:r": {"f:y": {"f:z": {}}}}}));
    let named = name_containers(&fields, &shape()).to_fields_v1();
    let expected = json!({"f:spec": {
        ".": {}, "f:a": {}, "f:m": {".": {}, "f:x": {}}, "f:r": {".": {}, "f:y": {"f:z": {}}},
    }});
    assert_eq!(named, expected);
}

#[test]
fn removing_leaves_what_is_kept() {
    let value = object(json!({"a": "1", "m": {"x": "1"}, "l": [{"k": "1", "v": "x"}, {"k": "2"}]}));
    let doomed = set(json!({"f:spec": {"f:m": {"f:x": {}}, "f:l": {"k:{\"k\":\"1\"}": {}}}}));
    let without = remove(&value, &doomed, &Set::default(), &shape());
    assert_eq!(without, object(json!({"a": "1", "l": [{"k": "2"}]})));
    let kept = remove(&value, &doomed, &set(json!({"f:spec": {"f:m": {}}})), &shape());
    assert_eq!(kept, object(json!({"a": "1", "m": {}, "l": [{"k": "2"}]})));
}

#[test]
fn long_lists_merge_in_time() {
    // In the worst order: the shared elements reversed, behind as many new ones.
    let live: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let new = (0..20_000).map(|n| format!("new-{n}"));
    let config: Vec<String> = new.chain(live.iter().rev().cloned()).collect();
    let merged = merge(&object(json!({"s": live})), &object(json!({"s": config})), &shape());
    assert_eq!(merged["spec"]["s"], json!(config));
}
