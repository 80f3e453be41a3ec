//! Owners in several versions of an API, time, and schemas that change.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_apimachinery::fieldmanager::{
    ApplyError, ConversionError, Endpoint, FieldManager, Shape, Timestamp, Versions,
};
use windlass_apimachinery::schema::Schema;

const OBJECT: Endpoint = Endpoint::Object { has_status: false };

fn shape(spec: &Value) -> Arc<Shape> {
    let root = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    Arc::new(Shape::of_resource(&Schema::from_crd(&root, "root").unwrap()))
}

/// `v1` calls `colour` what `v2` calls `color`.
struct Renamed {
    shapes: BTreeMap<String, Arc<Shape>>,
}

impl Renamed {
    fn new() -> Self {
        let size = json!({"type": "integer"});
        let shapes = [
            ("t/v1".to_owned(), shape(&json!({"colour": {"type": "string"}, "size": size}))),
            ("t/v2".to_owned(), shape(&json!({"color": {"type": "string"}, "size": size}))),
        ];
        Renamed { shapes: shapes.into() }
    }
}

impl Versions for Renamed {
    fn shape(&self, api_version: &str) -> Option<Arc<Shape>> {
        self.shapes.get(api_version).cloned()
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConversionError> {
        let (from, to) = if api_version == "t/v1" { ("color", "colour") } else { ("colour", "color") };
        let mut converted = object.clone();
        converted["apiVersion"] = api_version.into();
        if let Some(Value::Object(spec)) = converted.get_mut("spec") {
            if spec.get("size") == Some(&json!(-1)) {
                let problem = "no such size".to_owned();
                return Err(ConversionError { api_version: api_version.to_owned(), problem });
            }
            if let Some(value) = spec.remove(from) {
                spec.insert(to.to_owned(), value);
            }
        }
        Ok(converted)
    }
}

fn manager<'a>(versions: &'a dyn Versions, api_version: &'a str) -> FieldManager<'a> {
    FieldManager { versions, api_version, kind: "K", endpoint: OBJECT }
}

fn object(api_version: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": "K", "metadata": {"name": "n"}, "spec": spec})
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds)
}

/// The entries: manager, version, fields, time.
fn entries(object: &Value) -> Vec<(String, String, Value, String)> {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("").to_owned();
    let list = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let row = |e: &Value| (text(e, "manager"), text(e, "apiVersion"), e["fieldsV1"].clone(), text(e, "time"));
    list.iter().map(row).collect()
}

#[test]
fn a_conflict_is_found_in_the_version_of_the_owner() {
    let versions = Renamed::new();
    let blank = json!({"apiVersion": "t/v1", "kind": "K"});
    let v1 = manager(&versions, "t/v1");
    let red = v1.apply(&blank, &object("t/v1", json!({"colour": "red"})), "m1", false, at(1)).unwrap();
    let stored = versions.convert(&red, "t/v2").unwrap();
    let v2 = manager(&versions, "t/v2");
    let conflict =
        v2.apply(&stored, &object("t/v2", json!({"color": "blue"})), "m2", false, at(2)).unwrap_err();
    let text = "Apply failed with 1 conflict: conflict with \"m1\": .spec.colour";
    assert_eq!(conflict.to_string(), text);

    let agreed = v2.apply(&stored, &object("t/v2", json!({"color": "red"})), "m2", false, at(2)).unwrap();
    let owners: Vec<_> = entries(&agreed).into_iter().map(|(m, v, f, _)| (m, v, f)).collect();
    let expected = [
        ("m1".to_owned(), "t/v1".to_owned(), json!({"f:spec": {"f:colour": {}}})),
        ("m2".to_owned(), "t/v2".to_owned(), json!({"f:spec": {"f:color": {}}})),
    ];
    assert_eq!(owners, expected);
}

#[test]
fn an_applier_moves_to_a_new_version_and_takes_its_fields_along() {
    let versions = Renamed::new();
    let blank = json!({"apiVersion": "t/v1", "kind": "K"});
    let config = object("t/v1", json!({"colour": "red", "size": 1}));
    let red = manager(&versions, "t/v1").apply(&blank, &config, "m1", false, at(1)).unwrap();
    let stored = versions.convert(&red, "t/v2").unwrap();
    let v2 = manager(&versions, "t/v2");
    let moved = v2.apply(&stored, &object("t/v2", json!({"size": 1})), "m1", false, at(2)).unwrap();
    assert_eq!(moved["spec"], json!({"size": 1}), "the color of its last apply is gone");
    let owners = entries(&moved);
    let expected = ("m1".to_owned(), "t/v2".to_owned(), json!({"f:spec": {"f:size": {}}}), at(2).to_string());
    assert_eq!(owners, [expected]);
}

#[test]
fn a_field_that_an_owner_of_another_version_has_survives() {
    let versions = Renamed::new();
    let blank = json!({"apiVersion": "t/v1", "kind": "K"});
    let one = manager(&versions, "t/v1")
        .apply(&blank, &object("t/v1", json!({"colour": "red"})), "m1", false, at(1))
        .unwrap();
    let v2 = manager(&versions, "t/v2");
    let both = object("t/v2", json!({"color": "red", "size": 1}));
    let two = v2.apply(&versions.convert(&one, "t/v2").unwrap(), &both, "m2", false, at(2)).unwrap();
    let left = v2.apply(&two, &object("t/v2", json!({"size": 1})), "m2", false, at(3)).unwrap();
    assert_eq!(left["spec"], json!({"color": "red", "size": 1}));
}

#[test]
fn owners_of_a_version_that_is_gone_are_forgotten() {
    let mut versions = Renamed::new();
    let blank = json!({"apiVersion": "t/v1", "kind": "K"});
    let one = manager(&versions, "t/v1")
        .apply(&blank, &object("t/v1", json!({"colour": "red"})), "m1", false, at(1))
        .unwrap();
    let stored = versions.convert(&one, "t/v2").unwrap();
    versions.shapes.remove("t/v1");
    let v2 = manager(&versions, "t/v2");
    let blue = v2.apply(&stored, &object("t/v2", json!({"color": "blue"})), "m2", false, at(2)).unwrap();
    assert_eq!(blue["spec"]["color"], "blue");
    let owners: Vec<String> = entries(&blue).into_iter().map(|(manager, ..)| manager).collect();
    assert_eq!(owners, ["m2"]);
    let gone = manager(&versions, "t/v1").apply(&blank, &object("t/v1", json!({})), "m1", false, at(3));
    assert_eq!(gone, Err(ApplyError::NotServed("t/v1".into())));
}

#[test]
fn a_failed_conversion_fails_the_apply_and_keeps_the_owners_on_update() {
    let versions = Renamed::new();
    let blank = json!({"apiVersion": "t/v1", "kind": "K"});
    let one = manager(&versions, "t/v1")
        .apply(&blank, &object("t/v1", json!({"colour": "red"})), "m1", false, at(1))
        .unwrap();
    let stored = versions.convert(&one, "t/v2").unwrap();
    let v2 = manager(&versions, "t/v2");
    let error = v2.apply(&stored, &object("t/v2", json!({"size": -1})), "m2", false, at(2)).unwrap_err();
    assert_eq!(error.to_string(), "the object cannot be converted to t/v1: no such size");
    let mut new = stored.clone();
    new["spec"]["size"] = json!(-1);
    let updated = v2.update(&stored, new, "u", at(3));
    assert_eq!(updated["metadata"]["managedFields"], stored["metadata"]["managedFields"]);
    assert_eq!(updated["spec"]["size"], -1);
}

#[test]
fn times_change_with_what_is_owned_and_with_nothing_else() {
    let versions = BTreeMap::from([(
        "t/v1".to_owned(),
        shape(&json!({"a": {"type": "string"}, "b": {"type": "string"}})),
    )]);
    let v1 = manager(&versions, "t/v1");
    let blank = json!({"apiVersion": "t/v1", "kind": "K"});
    let times = |object: &Value| -> Vec<(String, String)> {
        entries(object).into_iter().map(|(manager, _, _, time)| (manager, time)).collect()
    };
    let entry = |manager: &str, seconds: i64| (manager.to_owned(), at(seconds).to_string());
    let a = object("t/v1", json!({"a": "1"}));

    let first = v1.apply(&blank, &a, "m1", false, at(1)).unwrap();
    let again = v1.apply(&first, &a, "m1", false, at(2)).unwrap();
    assert_eq!(again, first, "a no-op is one, time included");

    let shared = v1.apply(&again, &a, "m2", false, at(3)).unwrap();
    assert_eq!(times(&shared), [entry("m1", 1), entry("m2", 3)], "a new owner is a change");
    let reapplied = v1.apply(&shared, &a, "m1", false, at(4)).unwrap();
    assert_eq!(reapplied, shared, "although the order of entries goes by time");

    let mut new = shared.clone();
    new["spec"]["b"] = "2".into();
    let updated = v1.update(&shared, new, "u", at(5));
    assert_eq!(times(&updated), [entry("m1", 1), entry("m2", 3), entry("u", 5)]);
    let mut new = updated.clone();
    new["spec"] = json!({"b": "2"});
    let removed = v1.update(&updated, new, "u", at(6));
    assert_eq!(times(&removed), [entry("u", 5)], "taking away from others is no gain");
}

#[test]
fn more_than_ten_updaters_become_ancient_changes() {
    let names: Vec<String> = (0..13).map(|number| format!("f{number:02}")).collect();
    let fields: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    let versions = BTreeMap::from([("t/v1".to_owned(), shape(&Value::Object(fields)))]);
    let v1 = manager(&versions, "t/v1");
    let mut stored = json!({"apiVersion": "t/v1", "kind": "K"});
    for (seconds, name) in names.iter().enumerate() {
        let mut new = stored.clone();
        new["metadata"]["name"] = "n".into();
        new["metadata"]["uid"] = "u".into();
        new["spec"][name] = "x".into();
        stored = v1.update(&stored, new, &format!("m-{name}"), at(seconds as i64));
    }
    let owners = entries(&stored);
    assert_eq!(owners.len(), 10);
    let (manager, _, fields, _) = &owners[0];
    assert_eq!(manager, "ancient-changes");
    assert_eq!(
        fields["f:spec"].as_object().map(serde_json::Map::len),
        Some(5),
        "`.` and four fields: {fields}"
    );
}

#[test]
fn who_owned_the_parts_owns_the_whole_when_it_becomes_atomic() {
    let list = |list_type: &str| {
        shape(
            &json!({"l": {"type": "array", "x-kubernetes-list-type": list_type, "items": {"type": "string"}}}),
        )
    };
    let blank = json!({"apiVersion": "t/v1", "kind": "K"});
    let config = |items: Value| object("t/v1", json!({"l": items}));
    let granular = BTreeMap::from([("t/v1".to_owned(), list("set"))]);
    let stored = manager(&granular, "t/v1").apply(&blank, &config(json!(["a"])), "m1", false, at(1)).unwrap();
    let atomic = BTreeMap::from([("t/v1".to_owned(), list("atomic"))]);
    let v1 = manager(&atomic, "t/v1");
    let conflict = v1.apply(&stored, &config(json!(["b"])), "m2", false, at(2)).unwrap_err();
    assert_eq!(conflict.to_string(), "Apply failed with 1 conflict: conflict with \"m1\": .spec.l");
    let own = v1.apply(&stored, &config(json!(["b"])), "m1", false, at(2)).unwrap();
    assert_eq!(own["spec"], json!({"l": ["b"]}));
}

#[test]
fn what_is_applied_must_be_of_the_kind_of_the_request() {
    let versions = BTreeMap::from([("t/v1".to_owned(), shape(&json!({})))]);
    let v1 = manager(&versions, "t/v1");
    let blank = json!({"apiVersion": "t/v1", "kind": "K"});
    let cases = [
        (json!({}), "invalid object type: /, Kind="),
        (json!({"apiVersion": "v1", "kind": "K"}), "invalid object type: /v1, Kind=K"),
        (json!({"apiVersion": "t/v2", "kind": "K"}), "invalid object type: t/v2, Kind=K"),
        (json!({"apiVersion": "t/v1", "kind": "L"}), "invalid object type: t/v1, Kind=L"),
    ];
    for (config, message) in cases {
        assert_eq!(v1.apply(&blank, &config, "m", false, at(1)).unwrap_err().to_string(), message);
    }
    let broken =
        json!({"apiVersion": "t/v1", "kind": "K", "metadata": {"managedFields": [{"operation": "x"}]}});
    let error = v1.apply(&broken, &object("t/v1", json!({})), "m", false, at(1)).unwrap_err();
    assert!(matches!(error, ApplyError::ManagedFields(_)), "{error}");
    let malformed = object("t/v1", json!({"x": 1}));
    let live = json!({"apiVersion": "t/v1", "kind": "K", "metadata": {"name": 1}});
    let error = v1.apply(&live, &object("t/v1", json!({})), "m", false, at(1)).unwrap_err();
    assert!(error.to_string().starts_with("failed to create typed live object"), "{error}");
    assert!(v1.apply(&blank, &malformed, "m", false, at(1)).is_ok(), "a spec without fields takes anything");
}
