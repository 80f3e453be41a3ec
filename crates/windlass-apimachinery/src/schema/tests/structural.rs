//! What a CRD's schema may say.

use serde_json::{Value, json};

use crate::schema::{ListType, Schema, Type};
use windlass_patch::depth;

fn refused(schema: Value) -> Vec<String> {
    match Schema::from_crd(&schema, "root") {
        Ok(_) => Vec::new(),
        Err(causes) => causes.iter().map(ToString::to_string).collect(),
    }
}

fn field(schema: Value) -> Value {
    json!({"type": "object", "properties": {"f": schema}})
}

#[test]
fn the_schema_of_the_transcripts_is_accepted_and_understood() {
    let schema = field(json!({
        "type": "object", "required": ["color"],
        "properties": {
            "color": {"type": "string", "enum": ["red", "green"]},
            "size": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {
                    "type": "object", "required": ["port"],
                    "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
                },
            },
            "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "ios": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "nul": {"type": "string", "nullable": true, "default": "dflt"},
        },
    }));
    let schema = Schema::from_crd(&schema, "root").unwrap();
    let spec = schema.properties.get("f").unwrap();
    assert_eq!(
        spec.properties.get("ports").unwrap().list_type,
        Some(ListType::Map(vec!["port".into(), "protocol".into()]))
    );
    assert_eq!(spec.properties.get("size").unwrap().default, Some(json!(10)));
    assert_eq!(spec.properties.get("size").unwrap().ty, Some(Type::Integer));
    assert_eq!(spec.checks.required, ["color"]);
    assert!(spec.properties.get("raw").unwrap().preserve_unknown);
    assert!(spec.properties.get("ios").unwrap().int_or_string);
    assert!(spec.properties.get("nul").unwrap().nullable);
}

#[test]
fn everything_the_api_server_refuses_is_refused_at_its_place() {
    let f = "root.properties[f]";
    let cases: Vec<(Value, Vec<String>)> = vec![
        (json!({"properties": {}}), vec!["root.type: Required value: must not be empty at the root".into()]),
        (json!({"type": "string"}), vec!["root.type: Invalid value: \"string\": must be object at the root".into()]),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), vec!["root.additionalProperties: Forbidden: must not be used at the root".into()]),
        (field(json!({})), vec![format!("{f}.type: Required value: must not be empty for specified object fields")]),
        (field(json!({"type": "array"})), vec![format!("{f}.items: Required value: must be specified")]),
        (field(json!({"type": "array", "items": {}})), vec![format!("{f}.items.type: Required value: must not be empty for specified array items")]),
        (field(json!({"type": "array", "items": [{"type": "string"}]})), vec![format!("{f}.items: Forbidden: items must be a schema object and not an array")]),
        (field(json!({"type": "map"})), vec![format!("{f}.type: Unsupported value: \"map\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"")]),
        (field(json!({"type": "null"})), vec![format!("{f}.type: Forbidden: type cannot be set to null, use nullable as an alternative")]),
        (field(json!({"type": "integer", "minimum": "1"})), vec![format!("{f}.minimum: Invalid value: \"1\": must be of type number")]),
        (field(json!("x")), vec![format!("{f}: Invalid value: \"x\": must be a schema object")]),
        (field(json!({"type": "object", "additionalProperties": false})), vec![format!("{f}.additionalProperties: Forbidden: additionalProperties cannot be set to false")]),
        (field(json!({"type": "object", "properties": {}, "additionalProperties": true})), vec![format!("{f}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive")]),
        (field(json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})), vec![format!("{f}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic")]),
        (field(json!({"type": "object", "patternProperties": {}, "$ref": "#/x"})), vec![format!("{f}.$ref: Forbidden: $ref is not supported"), format!("{f}.patternProperties: Forbidden: patternProperties is not supported")]),
        (field(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})), vec![format!("{f}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined")]),
        (field(json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true})), vec![format!("{f}.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true")]),
        (field(json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})), vec![format!("{f}.type: Invalid value: \"string\": must be object if x-kubernetes-embedded-resource is true")]),
        (field(json!({"type": "object", "x-kubernetes-embedded-resource": true})), vec![format!("{f}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields")]),
        (field(json!({"type": "string", "x-kubernetes-list-type": "set"})), vec![format!("{f}.type: Invalid value: \"string\": must be array if x-kubernetes-list-type is set")]),
        (field(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"})), vec![format!("{f}.x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\"")]),
        (field(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"})), vec![format!("{f}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set")]),
        (field(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})), vec![format!("{f}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map")]),
        (
            field(json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}}}})),
            vec![format!("{f}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property")],
        ),
        (
            field(json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object"}})),
            vec![format!("{f}.x-kubernetes-list-map-keys: Invalid value: [\"k\"]: entries must all be names of item properties")],
        ),
        (
            field(json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-map-keys": ["k"]})),
            vec![format!("{f}.x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty")],
        ),
        (field(json!({"type": "object", "x-kubernetes-map-type": "loose"})), vec![format!("{f}.x-kubernetes-map-type: Unsupported value: \"loose\": supported values: \"granular\", \"atomic\"")]),
        (field(json!({"type": "string", "pattern": "("})), vec![format!("{f}.pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: regex parse error: ( ^ error: unclosed group")]),
        (json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}), vec!["root.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified".into()]),
        (json!({"type": "object", "properties": {"kind": {"type": "integer"}}}), vec!["root.properties[kind].type: Invalid value: \"integer\": must be string".into()]),
        (
            field(json!({"type": "integer", "anyOf": [{"type": "integer", "default": 1}, {"x-kubernetes-int-or-string": true}]})),
            vec![
                format!("{f}.anyOf[0].default: Forbidden: must be undefined to be structural"),
                format!("{f}.anyOf[0].type: Forbidden: must be empty to be structural"),
                format!("{f}.anyOf[1].x-kubernetes-int-or-string: Forbidden: must be false to be structural"),
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "not": {"properties": {"b": {"enum": ["x"]}}}}),
            vec!["root.properties[b]: Required value: because it is defined in root.not.properties[b]".into()],
        ),
        (
            json!({"type": "object", "allOf": [{"properties": {"metadata": {}}}]}),
            vec![
                "root.allOf[0].properties[metadata]: Forbidden: must not be specified in a nested context".into(),
                "root.properties[metadata]: Required value: because it is defined in root.allOf[0].properties[metadata]".into(),
            ],
        ),
        (field(json!({"type": "integer", "default": "x"})), vec![format!("{f}.default: Invalid value: \"string\": {f}.default in body must be of type integer: \"string\"")]),
        (field(json!({"type": "object", "default": {"x": 1}})), vec![format!("{f}.default: Invalid value: {{\"x\":1}}: must not have unknown fields")]),
        (
            field(json!({"type": "string", "x-kubernetes-validations": [{"rule": " "}, {"rule": "true", "message": "a\nb", "reason": "Because"}]})),
            vec![
                format!("{f}.x-kubernetes-validations[0].rule: Required value: rule is not specified"),
                format!("{f}.x-kubernetes-validations[1].message: Invalid value: \"a\\nb\": message must not contain line breaks"),
                format!("{f}.x-kubernetes-validations[1].reason: Unsupported value: \"Because\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\""),
            ],
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(refused(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn unusual_but_structural_schemas_are_accepted() {
    let cases = [
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}}}),
        field(json!({"x-kubernetes-preserve-unknown-fields": true})),
        field(
            json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "x"}]}),
        ),
        field(
            json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}),
        ),
        field(
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"not": {"required": ["a"]}}]}),
        ),
        field(
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "x-kubernetes-map-type": "atomic"}}),
        ),
    ];
    for schema in cases {
        assert_eq!(refused(schema.clone()), Vec::<String>::new(), "{schema}");
    }
}

#[test]
fn too_deep_a_schema_is_refused() {
    let document = depth::hostile::nested(10_000);
    assert_eq!(refused_text(&document), ["root: Invalid value: the document nests deeper than 100 levels"]);
    depth::hostile::dismantle(document);
}

fn refused_text(schema: &Value) -> Vec<String> {
    Schema::from_crd(schema, "root").unwrap_err().iter().map(ToString::to_string).collect()
}
