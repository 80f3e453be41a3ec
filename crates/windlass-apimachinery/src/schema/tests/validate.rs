//! One row for every keyword: what it accepts, and what exactly it says otherwise.

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::schema::Schema;
use windlass_patch::depth;

fn under_spec(schema: &Value) -> Schema {
    Schema::parse(&json!({"type": "object", "properties": {"spec": schema}})).unwrap()
}

fn complaints(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
    let old = old.map(|old| json!({"spec": old}));
    let causes = under_spec(schema).validate(&json!({"spec": value}), old.as_ref());
    causes.iter().map(|cause| format!("{} {cause}", cause.reason.as_str())).collect()
}

#[test]
fn every_keyword_accepts_what_it_allows() {
    let cases = [
        (json!({"type": "object"}), vec![json!({}), json!({"a": 1})]),
        (json!({"type": "array", "items": {"type": "string"}}), vec![json!([]), json!(["a"])]),
        (json!({"type": "integer"}), vec![json!(1), json!(-1), json!(1.0), json!(u64::MAX)]),
        (json!({"type": "number"}), vec![json!(1), json!(1.5)]),
        (json!({"type": "boolean"}), vec![json!(true)]),
        (json!({"type": "string", "nullable": true}), vec![json!(null), json!("a")]),
        (json!({"x-kubernetes-int-or-string": true}), vec![json!(1), json!("50%")]),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), vec![json!(1), json!("x"), json!([{}])]),
        (json!({"type": "string", "enum": ["a", "b"]}), vec![json!("b")]),
        (json!({"type": "number", "enum": [1, 2]}), vec![json!(1.0)]),
        (json!({"type": "string", "nullable": true, "enum": ["a", null]}), vec![json!(null)]),
        (json!({"type": "integer", "maximum": 3, "minimum": 1}), vec![json!(1), json!(3)]),
        (json!({"type": "integer", "maximum": 3, "exclusiveMaximum": true}), vec![json!(2)]),
        (json!({"type": "number", "multipleOf": 0.01}), vec![json!(19.99), json!(0)]),
        (json!({"type": "integer", "multipleOf": 5}), vec![json!(-10)]),
        (json!({"type": "string", "maxLength": 2, "minLength": 1}), vec![json!("éé"), json!("a")]),
        (json!({"type": "string", "pattern": "^a"}), vec![json!("abc")]),
        (json!({"type": "string", "format": "date-time"}), vec![json!("2026-11-15T19:10:41Z")]),
        (json!({"type": "string", "format": "whatever"}), vec![json!("x")]),
        (json!({"type": "integer", "format": "int32"}), vec![json!(i32::MAX)]),
        (json!({"type": "integer", "format": "int64"}), vec![json!(i64::MAX)]),
        (
            json!({"type": "array", "items": {"type": "integer"}, "maxItems": 1, "minItems": 1}),
            vec![json!([1])],
        ),
        (json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true}), vec![json!([1, 2])]),
        (json!({"type": "object", "maxProperties": 1, "minProperties": 1}), vec![json!({"a": 1})]),
        (json!({"type": "object", "required": ["a"]}), vec![json!({"a": null})]),
        (json!({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}]}), vec![json!(2)]),
        (json!({"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 3}]}), vec![json!(2), json!(11)]),
        (json!({"type": "integer", "oneOf": [{"minimum": 10}, {"maximum": 3}]}), vec![json!(2)]),
        (json!({"type": "integer", "not": {"minimum": 10}}), vec![json!(2)]),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            vec![json!(["a", "b"])],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                   "items": {"type": "object"}}),
            vec![json!([{"k": 1}, {"k": 2}, {}])],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            vec![json!(1), json!("x")],
        ),
        (
            json!({"x-kubernetes-int-or-string": true,
                   "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "^.*%$"}]}),
            vec![json!(1), json!("5%")],
        ),
    ];
    for (schema, values) in cases {
        for value in values {
            assert_eq!(complaints(&schema, &value, None), Vec::<String>::new(), "{value} against {schema}");
        }
    }
}

#[test]
fn every_keyword_refuses_in_the_api_servers_words() {
    let list_map = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object"},
    });
    let cases: Vec<(Value, Value, &[&str])> = vec![
        (
            json!({"type": "object"}),
            json!("x"),
            &[
                "FieldValueTypeInvalid spec: Invalid value: \"string\": spec in body must be of type object: \"string\"",
            ],
        ),
        (
            json!({"type": "array", "items": {}}),
            json!({}),
            &[
                "FieldValueTypeInvalid spec: Invalid value: \"object\": spec in body must be of type array: \"object\"",
            ],
        ),
        (
            json!({"type": "string"}),
            json!(1),
            &[
                "FieldValueTypeInvalid spec: Invalid value: \"integer\": spec in body must be of type string: \"integer\"",
            ],
        ),
        (
            json!({"type": "integer"}),
            json!("x"),
            &[
                "FieldValueTypeInvalid spec: Invalid value: \"string\": spec in body must be of type integer: \"string\"",
            ],
        ),
        (
            json!({"type": "integer"}),
            json!(1.5),
            &[
                "FieldValueTypeInvalid spec: Invalid value: \"number\": spec in body must be of type integer: \"number\"",
            ],
        ),
        (
            json!({"type": "boolean"}),
            json!("true"),
            &[
                "FieldValueTypeInvalid spec: Invalid value: \"string\": spec in body must be of type boolean: \"string\"",
            ],
        ),
        (
            json!({"type": "string"}),
            json!(null),
            &[
                "FieldValueTypeInvalid spec: Invalid value: \"null\": spec in body must be of type string: \"null\"",
            ],
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            &[
                "FieldValueTypeInvalid spec: Invalid value: \"boolean\": spec in body must be of type integer,string: \"boolean\"",
            ],
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            &["FieldValueNotSupported spec: Unsupported value: \"c\": supported values: \"a\", \"b\""],
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            &["FieldValueNotSupported spec: Unsupported value: 3: supported values: \"1\", \"2\""],
        ),
        (
            json!({"type": "integer", "maximum": 100}),
            json!(1000),
            &[
                "FieldValueInvalid spec: Invalid value: 1000: spec in body should be less than or equal to 100",
            ],
        ),
        (
            json!({"type": "integer", "maximum": 100, "exclusiveMaximum": true}),
            json!(100),
            &["FieldValueInvalid spec: Invalid value: 100: spec in body should be less than 100"],
        ),
        (
            json!({"type": "number", "minimum": 0.5}),
            json!(0.25),
            &[
                "FieldValueInvalid spec: Invalid value: 0.25: spec in body should be greater than or equal to 0.5",
            ],
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            json!(1),
            &["FieldValueInvalid spec: Invalid value: 1: spec in body should be greater than 1"],
        ),
        (
            json!({"type": "integer", "multipleOf": 5}),
            json!(7),
            &["FieldValueInvalid spec: Invalid value: 7: spec in body should be a multiple of 5"],
        ),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("abc"),
            &["FieldValueTooLong spec: Too long: may not be more than 2 bytes"],
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("a"),
            &["FieldValueInvalid spec: Invalid value: \"a\": spec in body should be at least 2 chars long"],
        ),
        (
            json!({"type": "string", "pattern": "^[a-z]+$"}),
            json!("A"),
            &["FieldValueInvalid spec: Invalid value: \"A\": spec in body should match '^[a-z]+$'"],
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("today"),
            &[
                "FieldValueTypeInvalid spec: Invalid value: \"today\": spec in body must be of type date-time: \"today\"",
            ],
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(i64::MAX),
            &[
                "FieldValueInvalid <nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec",
            ],
        ),
        (
            json!({"type": "array", "items": {}, "maxItems": 1}),
            json!([1, 2]),
            &["FieldValueTooMany spec: Too many: 2: must have at most 1 item"],
        ),
        (
            json!({"type": "array", "items": {}, "minItems": 1}),
            json!([]),
            &["FieldValueInvalid spec: Invalid value: 0: spec in body should have at least 1 items"],
        ),
        (
            json!({"type": "array", "items": {}, "uniqueItems": true}),
            json!([1, 1.0]),
            &["FieldValueInvalid spec: Invalid value: \"\": spec in body shouldn't contain duplicates"],
        ),
        (
            json!({"type": "object", "maxProperties": 1}),
            json!({"a": 1, "b": 2}),
            &["FieldValueTooMany spec: Too many: 2: must have at most 1 item"],
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            &["FieldValueInvalid spec: Invalid value: 1: spec in body should have at least 1 properties"],
        ),
        (
            json!({"type": "object", "required": ["a", "b"]}),
            json!({"a": 1}),
            &["FieldValueRequired spec.b: Required value"],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": 1}),
            &[
                "FieldValueTypeInvalid spec.k: Invalid value: \"integer\": spec.k in body must be of type string: \"integer\"",
            ],
        ),
        (
            json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "object", "required": ["n"]}}}}),
            json!({"l": [{"n": 1}, {}]}),
            &["FieldValueRequired spec.l[1].n: Required value"],
        ),
        (
            json!({"type": "integer", "allOf": [{"minimum": 10}, {"maximum": 3}]}),
            json!(5),
            &[
                "FieldValueInvalid spec: Invalid value: 5: spec in body should be greater than or equal to 10",
                "FieldValueInvalid spec: Invalid value: 5: spec in body should be less than or equal to 3",
                "FieldValueInvalid <nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf). None validated",
            ],
        ),
        (
            json!({"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 3}]}),
            json!(5),
            &[
                "FieldValueInvalid <nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf)",
                "FieldValueInvalid spec: Invalid value: 5: spec in body should be greater than or equal to 10",
            ],
        ),
        (
            json!({"type": "integer", "oneOf": [{"minimum": 1}, {"maximum": 10}]}),
            json!(5),
            &[
                "FieldValueInvalid <nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
        (
            json!({"type": "integer", "oneOf": [{"minimum": 10}]}),
            json!(5),
            &[
                "FieldValueInvalid <nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid",
                "FieldValueInvalid spec: Invalid value: 5: spec in body should be greater than or equal to 10",
            ],
        ),
        (
            json!({"type": "integer", "not": {"minimum": 1}}),
            json!(5),
            &["FieldValueInvalid <nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)"],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {}}),
            json!(["a", "b", "a", "a"]),
            &["FieldValueDuplicate spec[2]: Duplicate value: \"a\""],
        ),
        (
            list_map.clone(),
            json!([{"port": 80, "protocol": "TCP"}, {"port": 80}, {"protocol": "TCP", "port": 80, "n": 1}]),
            &["FieldValueDuplicate spec[2]: Duplicate value: {\"port\":80,\"protocol\":\"TCP\"}"],
        ),
        (
            list_map,
            json!(["x"]),
            &[
                "FieldValueTypeInvalid spec[0]: Invalid value: \"string\": spec[0] in body must be of type object: \"string\"",
                "FieldValueInvalid spec[0]: Invalid value: \"x\": must be an object for an array of list-type map",
            ],
        ),
        (
            json!({"type": "string", "minLength": 5, "enum": ["aaaaa"]}),
            json!("b"),
            &[
                "FieldValueInvalid spec: Invalid value: \"b\": spec in body should be at least 5 chars long",
                "FieldValueNotSupported spec: Unsupported value: \"b\": supported values: \"aaaaa\"",
            ],
        ),
    ];
    for (schema, value, expected) in cases {
        assert_eq!(complaints(&schema, &value, None), expected, "{value} against {schema}");
    }
}

#[test]
fn an_update_answers_only_for_what_it_changes() {
    let number = json!({"type": "object", "properties": {"a": {"maximum": 1}, "b": {"maximum": 1}}});
    let plain_list = json!({"type": "array", "items": {"maximum": 1}});
    let atomic_list = json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": {"maximum": 1}});
    let map_list = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string", "default": "d"}, "v": {"maximum": 1}}},
    });
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {}});
    let cases = [
        ("the same value", &number, json!({"a": 5}), json!({"a": 5}), 0),
        ("a changed sibling", &number, json!({"a": 5, "b": 0}), json!({"a": 5, "b": 1}), 0),
        ("a changed value", &number, json!({"a": 5}), json!({"a": 6}), 1),
        ("a position", &plain_list, json!([5, 0]), json!([5, 1]), 0),
        ("another position", &plain_list, json!([0, 5]), json!([5, 0]), 1),
        ("an atomic list is one value", &atomic_list, json!([5, 0]), json!([5, 1]), 1),
        ("a key", &map_list, json!([{"k": "x", "v": 5}]), json!([{"k": "y", "v": 0}, {"k": "x", "v": 5}]), 0),
        ("a key by default", &map_list, json!([{"v": 5}]), json!([{"k": "d", "v": 5}]), 0),
        ("old duplicates", &set, json!(["a", "a"]), json!(["a", "a", "b", "b"]), 0),
        ("new duplicates", &set, json!(["a"]), json!(["a", "a"]), 1),
    ];
    for (name, schema, old, new, expected) in cases {
        assert_eq!(complaints(schema, &new, Some(&old)).len(), expected, "{name}");
    }
}

#[test]
fn several_errors_are_all_reported_duplicates_last() {
    let schema = under_spec(&json!({
        "type": "object", "required": ["c"],
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "x-kubernetes-list-type": "set", "items": {}}},
    }));
    let causes = schema.validate(&json!({"spec": {"a": 1, "b": [1, 1]}}), None);
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["spec.a", "spec.c", "spec.b[1]"]);
}

#[test]
fn a_million_items_are_checked_for_duplicates_in_time() {
    let schema =
        under_spec(&json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}));
    let mut items: Vec<Value> = (0..1_000_000).map(Value::from).collect();
    items.push(json!(7));
    let causes = schema.validate(&json!({"spec": items}), None);
    assert_eq!(causes, [Cause::duplicate("spec[1000000]", &json!(7))]);
}

#[test]
fn an_object_that_is_wrong_everywhere_gets_an_answer_of_bearable_length() {
    let schema =
        under_spec(&json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}));
    let items: Vec<Value> = (0..20_000).map(|n| json!(n / 2)).collect();
    assert_eq!(schema.validate(&json!({"spec": items}), None).len(), 2_000);
}

#[test]
fn too_deep_a_document_is_refused() {
    let document = depth::hostile::nested(10_000);
    let causes = Schema::default().validate(&document, None);
    assert_eq!(causes[0].message, "Invalid value: the document nests deeper than 100 levels");
    depth::hostile::dismantle(document);
}
