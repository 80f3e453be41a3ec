//! Types that requests and responses carry as any object, and that only the document describes.

#![expect(dead_code, reason = "only their schemas are used")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde_json::Value;

/// Declares a type of which only the schema is used. What must be there is listed, as in resources.
macro_rules! described {
    (
        $(#[$meta:meta])*
        struct $Name:ident requires $required:tt { $( $(#[$field_meta:meta])* $field:ident: $Type:ty, )* }
    ) => {
        $(#[$meta])*
        #[derive(JsonSchema)]
        #[schemars(rename_all = "camelCase", extend("required" = $required))]
        pub(super) struct $Name { $( $(#[$field_meta])* $field: $Type, )* }
    };
}

described! {
    /// An OpenAPI v3 schema in the dialect of CRDs.
    struct JSONSchemaProps requires [] {
        /// What the value is for.
        description: String,
        /// A valid value.
        example: Option<Value>,
        /// Type of the value.
        #[schemars(rename = "type")]
        type_: String,
        /// Fields of an object.
        properties: BTreeMap<String, JSONSchemaProps>,
        /// Values of a map.
        additional_properties: Option<Box<JSONSchemaProps>>,
        /// Most fields.
        max_properties: Option<i64>,
        /// Fewest fields.
        min_properties: Option<i64>,
        /// Fields that must be there.
        required: Vec<String>,
        /// Items of a list.
        items: Option<Box<JSONSchemaProps>>,
        /// Most items.
        max_items: Option<i64>,
        /// Fewest items.
        min_items: Option<i64>,
        /// Whether items must differ.
        unique_items: bool,
        /// Format of a string or a number.
        format: String,
        /// Most characters.
        max_length: Option<i64>,
        /// Fewest characters.
        min_length: Option<i64>,
        /// Regular expression that a string must match.
        pattern: String,
        /// Largest number.
        maximum: Option<i64>,
        /// Whether the largest number itself is too large.
        exclusive_maximum: bool,
        /// Smallest number.
        minimum: Option<i64>,
        /// Whether the smallest number itself is too small.
        exclusive_minimum: bool,
        /// Whether unknown fields are kept.
        #[schemars(rename = "x-kubernetes-preserve-unknown-fields")]
        preserve_unknown_fields: bool,
        /// All valid values.
        #[schemars(rename = "enum")]
        enum_: Vec<Value>,
        /// Value if there is none.
        default: Option<Value>,
        /// Rules in CEL.
        #[schemars(rename = "x-kubernetes-validations")]
        validations: Vec<ValidationRule>,
        /// Labels and annotations for tools.
        #[schemars(rename = "x-metadata")]
        metadata: VariableSchemaMetadata,
        /// Whether the value is a number or a string.
        #[schemars(rename = "x-kubernetes-int-or-string")]
        int_or_string: bool,
        /// Schemas that must all fit.
        all_of: Vec<JSONSchemaProps>,
        /// Schemas of which exactly one must fit.
        one_of: Vec<JSONSchemaProps>,
        /// Schemas of which at least one must fit.
        any_of: Vec<JSONSchemaProps>,
        /// A schema that must not fit.
        not: Option<Box<JSONSchemaProps>>,
    }
}

described! {
    /// Labels and annotations of a variable or of a part of it.
    struct VariableSchemaMetadata requires [] {
        /// Labels, for tools.
        labels: BTreeMap<String, String>,
        /// Annotations, for tools.
        annotations: BTreeMap<String, String>,
    }
}

described! {
    /// A rule in CEL.
    struct ValidationRule requires ["rule"] {
        /// An expression that is true for valid values.
        rule: String,
        /// What is said when it is not.
        message: String,
        /// An expression that makes the message.
        message_expression: String,
        /// What kind of failure it is.
        reason: String,
        /// Which field is to blame.
        field_path: String,
    }
}

described! {
    /// What a later version removes from the status of a Cluster.
    struct ClusterDeprecatedStatus requires [] {
        /// What v1beta1 had.
        v1beta1: Option<ClusterV1Beta1DeprecatedStatus>,
    }
}

described! {
    /// What v1beta1 had in the status of a Cluster.
    struct ClusterV1Beta1DeprecatedStatus requires [] {
        /// Conditions in the form they had before v1beta2.
        conditions: Vec<Condition>,
        /// A word for a failure that does not go away by itself.
        failure_reason: Option<String>,
        /// A sentence for a failure that does not go away by itself.
        failure_message: Option<String>,
    }
}

described! {
    /// What a later version removes from the status of a Machine.
    struct MachineDeprecatedStatus requires [] {
        /// What v1beta1 had.
        v1beta1: Option<MachineV1Beta1DeprecatedStatus>,
    }
}

described! {
    /// What v1beta1 had in the status of a Machine.
    struct MachineV1Beta1DeprecatedStatus requires [] {
        /// Conditions in the form they had before v1beta2.
        conditions: Vec<Condition>,
        /// A word for a failure that does not go away by itself.
        failure_reason: Option<String>,
        /// A sentence for a failure that does not go away by itself.
        failure_message: Option<String>,
    }
}

described! {
    /// What a later version removes from the status of a MachineSet.
    struct MachineSetDeprecatedStatus requires [] {
        /// What v1beta1 had.
        v1beta1: Option<MachineSetV1Beta1DeprecatedStatus>,
    }
}

described! {
    /// What v1beta1 had in the status of a MachineSet.
    struct MachineSetV1Beta1DeprecatedStatus requires [] {
        /// Conditions in the form they had before v1beta2.
        conditions: Vec<Condition>,
        /// A word for a failure that does not go away by itself.
        failure_reason: Option<String>,
        /// A sentence for a failure that does not go away by itself.
        failure_message: Option<String>,
        /// How many Machines have all labels of the template.
        fully_labeled_replicas: i32,
        /// How many Machines have a Node that is ready.
        ready_replicas: i32,
        /// How many Machines have been ready for long enough.
        available_replicas: i32,
    }
}

described! {
    /// A condition in the form it had before v1beta2.
    struct Condition requires ["type", "status"] {
        /// Which aspect.
        #[schemars(rename = "type", extend("default" = ""))]
        type_: String,
        /// Whether it holds: True, False or Unknown.
        #[schemars(extend("default" = ""))]
        status: String,
        /// How bad it is that it does not hold: Error, Warning or Info.
        severity: String,
        /// When the status last changed.
        last_transition_time: Time,
        /// A word for programs that says why.
        reason: String,
        /// A sentence for people that says why.
        message: String,
    }
}
