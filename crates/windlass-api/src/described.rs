//! Schemas of what no code here looks at: any object in Rust, so that nothing is lost, and described to users all the same.
//!
//! A description is JSON, made of the few shapes below. Types would say the same with a derive for each of a hundred structs
//! that nothing decodes.

#![cfg_attr(
    not(feature = "resources"),
    expect(dead_code, reason = "most of them are for kinds of that feature")
)]

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// A string of 1 to `max` characters.
pub(crate) fn text(max: u32, description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": max, "description": description})
}

/// A string without limits.
pub(crate) fn any_text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// One of these words.
pub(crate) fn word(words: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": words, "description": description})
}

/// Yes or no.
pub(crate) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

/// A number of 32 bits.
pub(crate) fn number(description: &str) -> Value {
    json!({"type": "integer", "format": "int32", "description": description})
}

/// A number of 32 bits within limits.
pub(crate) fn number_within(min: i32, max: Option<i32>, description: &str) -> Value {
    let mut schema = number(description);
    schema["minimum"] = min.into();
    if let Some(max) = max {
        schema["maximum"] = max.into();
    }
    schema
}

/// A time.
pub(crate) fn time(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

/// A list that is replaced as a whole, with 1 to `max` items.
pub(crate) fn list(max: u32, items: Value, description: &str) -> Value {
    json!({
        "type": "array", "minItems": 1, "maxItems": max, "x-kubernetes-list-type": "atomic",
        "items": items, "description": description,
    })
}

/// A list that is replaced as a whole and may be empty.
pub(crate) fn free_list(items: Value, description: &str) -> Value {
    json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": items, "description": description})
}

/// A map from any key.
pub(crate) fn map(values: Value, description: &str) -> Value {
    json!({"type": "object", "additionalProperties": values, "description": description})
}

/// An object with these fields, of which some must be there.
pub(crate) fn object<const N: usize>(
    required: &[&str],
    fields: [(&str, Value); N],
    description: &str,
) -> Value {
    let fields: Map<String, Value> =
        fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
    let mut schema = json!({"type": "object", "properties": fields, "description": description});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// An object that must say something.
pub(crate) fn some<const N: usize>(fields: [(&str, Value); N], description: &str) -> Value {
    let mut schema = object(&[], fields, description);
    schema["minProperties"] = 1.into();
    schema
}

/// An object that two writers never share.
pub(crate) fn atomic(mut schema: Value) -> Value {
    schema["x-kubernetes-map-type"] = "atomic".into();
    schema
}

/// What the field's own documentation says goes first: the description of the whole is dropped.
pub(crate) fn schema(mut described: Value) -> Schema {
    if let Some(fields) = described.as_object_mut() {
        fields.remove("description");
    }
    Schema::try_from(described).unwrap_or_default()
}

/// Labels and annotations.
pub(crate) fn labels_and_annotations(_: &mut SchemaGenerator) -> Schema {
    schema(some(
        [
            ("labels", map(json!({"type": "string"}), "Labels, for tools.")),
            ("annotations", map(json!({"type": "string"}), "Annotations, for tools.")),
        ],
        "",
    ))
}

/// A quantity, such as `2Gi`.
pub(crate) fn quantity() -> Value {
    json!({
        "x-kubernetes-int-or-string": true,
        "pattern": concat!(
            r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
            r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
        ),
    })
}

/// What a Node says about its machine.
pub(crate) fn node_info(_: &mut SchemaGenerator) -> Schema {
    const TEXTS: [(&str, &str); 10] = [
        ("machineID", "Identity of the machine, from its operating system."),
        ("systemUUID", "Identity of the machine, from its firmware."),
        ("bootID", "Identity of this boot."),
        ("kernelVersion", "Version of the kernel."),
        ("osImage", "The operating system, for people."),
        ("containerRuntimeVersion", "The container runtime and its version."),
        ("kubeletVersion", "Version of the kubelet."),
        ("kubeProxyVersion", "Version of kube-proxy; no longer filled in."),
        ("operatingSystem", "The operating system, for programs."),
        ("architecture", "The processor architecture."),
    ];
    let mut described = json!({
        "type": "object",
        "required": TEXTS.map(|(name, _)| name),
        "properties": {
            "swap": object(
                &[],
                [("capacity", json!({"type": "integer", "format": "int64", "description": "Its size in bytes."}))],
                "Memory on disk.",
            ),
        },
    });
    for (name, description) in TEXTS {
        described["properties"][name] = any_text(description);
    }
    schema(described)
}

/// An OpenAPI schema in the dialect of CRDs. It contains itself, which a CRD cannot say: only its first level is described.
pub(crate) fn open_api_schema(_: &mut SchemaGenerator) -> Schema {
    let anything = |description: &str| json!({PRESERVE: true, "description": description});
    let count = |description: &str| json!({"type": "integer", "format": "int64", "description": description});
    let strings = || json!({"type": "string"});
    let mut rules = list(
        100,
        object(
            &["rule"],
            [
                ("rule", text(4096, "An expression that is true for valid values.")),
                ("message", text(512, "What is said when it is not.")),
                ("messageExpression", text(1024, "An expression that makes the message.")),
                ("reason", {
                    let reasons = [
                        "FieldValueInvalid",
                        "FieldValueForbidden",
                        "FieldValueRequired",
                        "FieldValueDuplicate",
                    ];
                    let mut reason = word(&reasons, "What kind of failure it is.");
                    reason["default"] = "FieldValueInvalid".into();
                    reason
                }),
                ("fieldPath", text(512, "Which field is to blame.")),
            ],
            "A rule in CEL.",
        ),
        "Rules in CEL.",
    );
    rules["x-kubernetes-list-type"] = "map".into();
    rules["x-kubernetes-list-map-keys"] = json!(["rule"]);
    let mut allowed = list(100, json!({PRESERVE: true}), "All valid values.");
    if let Some(allowed) = allowed.as_object_mut() {
        allowed.remove("minItems");
    }
    schema(some(
        [
            ("description", text(4096, "What the value is for.")),
            ("example", anything("A valid value.")),
            (
                "type",
                word(&["object", "array", "string", "integer", "number", "boolean"], "Type of the value."),
            ),
            ("properties", anything("Fields of an object.")),
            ("additionalProperties", anything("Values of a map.")),
            ("maxProperties", count("Most fields.")),
            ("minProperties", count("Fewest fields.")),
            ("required", list(1000, text(256, "A field."), "Fields that must be there.")),
            ("items", anything("Items of a list.")),
            ("maxItems", count("Most items.")),
            ("minItems", count("Fewest items.")),
            ("uniqueItems", flag("Whether items must differ.")),
            ("format", text(32, "Format of a string or a number.")),
            ("maxLength", count("Most characters.")),
            ("minLength", count("Fewest characters.")),
            ("pattern", text(512, "Regular expression that a string must match.")),
            ("maximum", count("Largest number.")),
            ("exclusiveMaximum", flag("Whether the largest number itself is too large.")),
            ("minimum", count("Smallest number.")),
            ("exclusiveMinimum", flag("Whether the smallest number itself is too small.")),
            (PRESERVE, flag("Whether unknown fields are kept.")),
            ("enum", allowed),
            ("default", anything("Value if there is none.")),
            ("x-kubernetes-validations", rules),
            (
                "x-metadata",
                some(
                    [
                        ("labels", map(strings(), "Labels, for tools.")),
                        ("annotations", map(strings(), "Annotations, for tools.")),
                    ],
                    "Labels and annotations for tools.",
                ),
            ),
            ("x-kubernetes-int-or-string", flag("Whether the value is a number or a string.")),
            ("allOf", anything("Schemas that must all fit.")),
            ("oneOf", anything("Schemas of which exactly one must fit.")),
            ("anyOf", anything("Schemas of which at least one must fit.")),
            ("not", anything("A schema that must not fit.")),
        ],
        "",
    ))
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Legacy status that only has conditions.
pub(crate) fn deprecated(_: &mut SchemaGenerator) -> Schema {
    legacy(None, &[])
}

/// Legacy status of Clusters and Machines.
pub(crate) fn deprecated_with_failure(_: &mut SchemaGenerator) -> Schema {
    legacy(Some(failure_reason()), &[])
}

/// Legacy status of a KubeadmConfig.
pub(crate) fn deprecated_of_kubeadm_config(_: &mut SchemaGenerator) -> Schema {
    legacy(Some(text(256, FAILURE_REASON)), &[])
}

/// Legacy status of a MachineSet.
pub(crate) fn deprecated_of_machine_set(_: &mut SchemaGenerator) -> Schema {
    legacy(Some(failure_reason()), &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"])
}

/// Legacy status of a MachineDeployment.
pub(crate) fn deprecated_of_machine_deployment(_: &mut SchemaGenerator) -> Schema {
    legacy(None, &["updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"])
}

/// Legacy status of a MachinePool.
pub(crate) fn deprecated_of_machine_pool(_: &mut SchemaGenerator) -> Schema {
    legacy(Some(failure_reason()), &["readyReplicas", "availableReplicas", "unavailableReplicas"])
}

/// Legacy status of a KubeadmControlPlane.
pub(crate) fn deprecated_of_control_plane(_: &mut SchemaGenerator) -> Schema {
    legacy(Some(failure_reason()), &["updatedReplicas", "readyReplicas", "unavailableReplicas"])
}

const FAILURE_REASON: &str = "A word for a failure that does not go away by itself.";

fn failure_reason() -> Value {
    any_text(FAILURE_REASON)
}

/// What v1beta1 had in a status: its conditions, perhaps a failure, and counts with their old meaning.
fn legacy(failure_reason: Option<Value>, counts: &[&str]) -> Schema {
    let condition = object(
        &["type", "status", "lastTransitionTime"],
        [
            ("type", text(256, "Which aspect.")),
            ("status", any_text("Whether it holds: True, False or Unknown.")),
            (
                "severity",
                json!({"type": "string", "maxLength": 32, "description": "How bad it is that it does not hold."}),
            ),
            ("lastTransitionTime", time("When the status last changed.")),
            ("reason", text(256, "A word for programs that says why.")),
            ("message", text(10240, "A sentence for people that says why.")),
        ],
        "A condition in the form it had before v1beta2.",
    );
    let mut v1beta1 = object(
        &[],
        [("conditions", free_list(condition, "Conditions in the form they had before v1beta2."))],
        "What v1beta1 had.",
    );
    if let Some(reason) = failure_reason {
        v1beta1["properties"]["failureReason"] = reason;
        v1beta1["properties"]["failureMessage"] =
            text(10240, "A sentence for a failure that does not go away by itself.");
    }
    for count in counts {
        v1beta1["properties"][*count] = number("A count with the meaning it had in v1beta1.");
    }
    json_schema!({"type": "object", "properties": {"v1beta1": v1beta1}})
}
