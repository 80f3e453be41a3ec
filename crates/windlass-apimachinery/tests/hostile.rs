//! Whatever a client sends: no panic, no exhausted stack, and an answer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_api::label_selector::Selector;
use windlass_apimachinery::builtin;
use windlass_apimachinery::fieldmanager::{
    ApplyError, Endpoint, FieldManager, ManagedFields, Set, Shape, Timestamp, settle_timestamps,
};
use windlass_apimachinery::patch::strategic_merge_patch;
use windlass_apimachinery::schema::{Pattern, Rules, Schema, check_metadata};
use windlass_apimachinery::selector::FieldSelector;
use windlass_patch::depth::MAX_DEPTH;
use windlass_patch::{Dialect, JsonPatch, merge_patch};

/// A schema of everything, with the keywords that matter in each kind of place.
fn schema() -> Arc<Schema> {
    let text = json!({"type": "string"});
    let root = json!({
        "type": "object",
        "properties": {"spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{"rule": "!has(self.a) || self.a != 'x' || size(self.l) < 3"}],
            "properties": {
                "a": {"type": "string", "minLength": 1, "pattern": "^[a-z]+$", "default": "a"},
                "n": {"type": "integer", "nullable": true, "minimum": 1},
                "l": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
                "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                      "items": {"type": "object", "required": ["k"], "properties": {"k": text, "v": text}}},
            },
        }},
    });
    Arc::new(Schema::from_crd(&root, "root").unwrap())
}

/// Any JSON, with names that mean something to the code more often than not.
fn any_json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        4 => prop::sample::select(vec![
            "spec", "metadata", "status", "a", "n", "l", "m", "k", "v", "type", "properties", "items", "allOf",
            "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "default", "required", "enum", "op", "path",
            "from", "value", "$patch", "$retainKeys", "$setElementOrder/containers", "containers", "name",
            "managedFields", "f:spec", "v:1", "k:{\"a\":1}", ".", "finalizers", "ownerReferences", "uid", "labels",
            "apiVersion", "kind", "operation", "fieldsType", "fieldsV1", "manager", "additionalProperties",
            "x-kubernetes-validations", "rule", "pattern", "$deleteFromPrimitiveList/finalizers",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        any::<String>().prop_map(Value::from),
        prop::sample::select(vec![
            "object",
            "array",
            "string",
            "map",
            "set",
            "add",
            "copy",
            "/a",
            "/spec/l/-",
            "replace",
            "delete",
            "merge",
            "Apply",
            "Update",
            "FieldsV1",
            "v1",
            "Pod",
            "a",
            "(",
            "self.a"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(name.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "t/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec})
}

fn versions(schema: &Schema) -> BTreeMap<String, Arc<Shape>> {
    BTreeMap::from([("t/v1".to_owned(), Arc::new(Shape::of_resource(schema)))])
}

fn manager(versions: &BTreeMap<String, Arc<Shape>>) -> FieldManager<'_> {
    FieldManager { versions, api_version: "t/v1", kind: "K", endpoint: Endpoint::Object { has_status: true } }
}

const NOW: i64 = 1_794_769_841;

proptest! {
    #[test]
    fn objects_are_pruned_defaulted_and_validated(spec in any_json(), whole in any_json()) {
        let schema = schema();
        let rules = Rules::compile(&schema, "root").unwrap();
        for mut object in [widget(spec.clone()), whole.clone()] {
            schema.prune(&mut object).unwrap();
            let mut again = object.clone();
            prop_assert_eq!(schema.prune(&mut again).unwrap(), Vec::<String>::new(), "pruning twice finds nothing");
            prop_assert_eq!(&again, &object);
            schema.apply_defaults(&mut object).unwrap();
            let causes = schema.validate(&object, None);
            rules.evaluate(&object, Some(&again), &causes);
            prop_assert!(schema.validate(&object, Some(&object)).is_empty(), "an unchanged object is not refused");
            let _ = check_metadata(&object["metadata"]);
        }
    }

    #[test]
    fn any_schema_gets_an_answer(schema in any_json()) {
        if let Ok(parsed) = Schema::from_crd(&schema, "root") {
            let parsed = Arc::new(parsed);
            let _ = Rules::compile(&parsed, "root");
            let _ = Shape::of_resource(&parsed);
        }
    }

    #[test]
    fn any_apply_and_update_get_an_answer(live in any_json(), config in any_json(), whole in any_json()) {
        let schema = schema();
        let versions = versions(&schema);
        let now = Timestamp::from_unix_seconds(NOW);
        for (live, config) in [(widget(live.clone()), widget(config.clone())), (whole.clone(), widget(config.clone())), (widget(live), whole)] {
            if let Ok(applied) = manager(&versions).apply(&live, &config, "m", true, now) {
                let again = manager(&versions).apply(&applied, &config, "m", false, now).unwrap();
                prop_assert_eq!(again, applied);
            }
            let mut updated = manager(&versions).update(&live, config, "u", now);
            settle_timestamps(&live, &mut updated);
        }
    }

    #[test]
    fn any_patch_gets_an_answer(object in any_json(), patch in any_json(), operations in prop::collection::vec(any_json(), 0..5)) {
        let merged = merge_patch::apply(&object, &patch).unwrap();
        prop_assert_eq!(merge_patch::apply(&merged, &patch).unwrap(), merged, "merging twice is merging once");
        let _ = strategic_merge_patch("v1", "Pod", &object, &patch);
        for patch in [patch, Value::Array(operations)] {
            for dialect in [Dialect::ApiServer, Dialect::ClusterApi] {
                let _ = JsonPatch::parse(dialect, &patch).and_then(|patch| patch.apply(&object));
            }
        }
    }

    #[test]
    fn any_owners_get_an_answer(entries in any_json(), fields in any_json()) {
        if let Ok(managed) = ManagedFields::decode(&entries) {
            prop_assert_eq!(ManagedFields::decode(&managed.encode()), Ok(managed));
        }
        if let Ok(set) = Set::from_fields_v1(&fields) {
            prop_assert_eq!(Set::from_fields_v1(&set.to_fields_v1()), Ok(set));
        }
    }

    #[test]
    fn any_text_is_a_selector_or_not(text in any::<String>(), like in "[a-c!=<>(), \\\\.inot]{0,24}") {
        for text in [text, like] {
            if let Ok(selector) = Selector::parse(&text) {
                selector.matches_object(&json!({"metadata": {"labels": {"a": "b"}}}));
            } else if let Err(error) = Selector::parse(&text) {
                prop_assert!(error.position <= text.len());
            }
            let _ = FieldSelector::parse(&text, |_| true).map(|selector| selector.matches_object(&json!({})));
            let _ = Pattern::new(&text).map(|pattern| pattern.is_match("a"));
            let _ = Timestamp::parse(&text);
        }
    }
}

/// As deep as accepted, through everything that recurses, on the stack of an ordinary thread.
#[test]
fn what_is_just_shallow_enough_fits_an_ordinary_stack() {
    let nest = |levels: usize| (1..levels).fold(json!({"x": 1}), |inner, _| json!({"x": inner, "y": [1]}));
    let object = |levels: usize| widget(json!({"raw": nest(levels - 2)}));
    let schema = schema();
    let versions = versions(&schema);
    let rules = Rules::compile(&schema, "root").unwrap();
    let now = Timestamp::from_unix_seconds(NOW);
    let error =
        manager(&versions).apply(&widget(json!({})), &object(MAX_DEPTH + 1), "m", false, now).unwrap_err();
    assert!(matches!(error, ApplyError::TooDeep(_)), "{error}");

    let mut deepest = object(MAX_DEPTH);
    schema.prune(&mut deepest).unwrap();
    schema.apply_defaults(&mut deepest).unwrap();
    assert_eq!(schema.validate(&deepest, None), []);
    assert_eq!(rules.evaluate(&deepest, Some(&deepest), &[]), []);

    let applied = manager(&versions).apply(&widget(json!({})), &deepest, "m", false, now).unwrap();
    let read: Value = serde_json::from_str(&applied.to_string()).unwrap();
    let again = manager(&versions).apply(&read, &deepest, "m", false, now).unwrap();
    assert_eq!(again, applied, "the owners of what is deep can be read again");
    let dropped = manager(&versions).apply(&applied, &widget(json!({"a": "b"})), "m", false, now).unwrap();
    assert_eq!(dropped["spec"], json!({"a": "b"}));
    let updated = manager(&versions).update(&applied, widget(json!({"a": "b"})), "u", now);
    assert_eq!(updated["spec"], json!({"a": "b"}));

    assert_eq!(merge_patch::apply(&json!({}), &deepest).unwrap(), deepest);
    assert_eq!(strategic_merge_patch("v1", "Pod", &json!({}), &deepest).unwrap(), deepest);
    let patch = json!([{"op": "add", "path": "/a", "value": nest(MAX_DEPTH - 3)}, {"op": "copy", "from": "/a", "path": "/b"}]);
    JsonPatch::parse(Dialect::ApiServer, &patch).unwrap().apply(&json!({})).unwrap();
    let versions = BTreeMap::from([("t/v1".to_owned(), Arc::new(builtin::shape("v1", "Pod")))]);
    manager(&versions).apply(&widget(json!({})), &deepest, "m", false, now).unwrap();
}
