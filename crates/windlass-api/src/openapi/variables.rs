//! Schemas of variable definitions, `cluster.x-k8s.io/v1beta2`.

use super::kubernetes::JSON;
use super::schema::Type::{Bool, Int64, List, Map, Ref, Text};
use super::schema::{Component, Field, Package, Shape, TEXTS, Type, optional, pointer, required};

const fn named(name: &'static str) -> Type {
    Ref(Package::Cluster, name)
}

const SCHEMA: Type = named("JSONSchemaProps");

pub(super) const COMPONENTS: &[Component] = &[
    Component {
        package: Package::Cluster,
        name: "ClusterClassVariable",
        description: "Definition of a variable.",
        shape: Shape::Fields(&[&[
            required("name", Text, "Name of the variable."),
            required("required", Bool, "Whether a Cluster must set it."),
            optional(
                "deprecatedV1Beta1Metadata",
                named("ClusterClassVariableMetadata"),
                "Labels and annotations that v1beta1 had here.",
            ),
            required("schema", named("VariableSchema"), "Which values are valid."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterClassVariableMetadata",
        description: "Labels and annotations of a variable.",
        shape: Shape::Fields(&[LABELS_AND_ANNOTATIONS]),
    },
    Component {
        package: Package::Cluster,
        name: "VariableSchema",
        description: "Which values of a variable are valid.",
        shape: Shape::Fields(&[&[required("openAPIV3Schema", SCHEMA, "An OpenAPI v3 schema.")]]),
    },
    Component {
        package: Package::Cluster,
        name: "VariableSchemaMetadata",
        description: "Labels and annotations of a variable or of a part of it.",
        shape: Shape::Fields(&[LABELS_AND_ANNOTATIONS]),
    },
    Component {
        package: Package::Cluster,
        name: "ValidationRule",
        description: "A rule in CEL.",
        shape: Shape::Fields(&[&[
            required("rule", Text, "An expression that is true for valid values."),
            optional("message", Text, "What is said when it is not."),
            optional("messageExpression", Text, "An expression that makes the message."),
            optional("reason", Text, "What kind of failure it is."),
            optional("fieldPath", Text, "Which field is to blame."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "JSONSchemaProps",
        description: "An OpenAPI v3 schema in the dialect of CustomResourceDefinitions.",
        shape: Shape::Fields(&[&[
            optional("description", Text, "What the value is for."),
            pointer("example", JSON, "A valid value."),
            optional("type", Text, "Type of the value."),
            optional("properties", Map(&SCHEMA), "Fields of an object."),
            pointer("additionalProperties", SCHEMA, "Values of a map."),
            pointer("maxProperties", Int64, "Most fields."),
            pointer("minProperties", Int64, "Fewest fields."),
            optional("required", List(&Text), "Fields that must be there."),
            pointer("items", SCHEMA, "Items of a list."),
            pointer("maxItems", Int64, "Most items."),
            pointer("minItems", Int64, "Fewest items."),
            optional("uniqueItems", Bool, "Whether items must differ."),
            optional("format", Text, "Format of a text or a number."),
            pointer("maxLength", Int64, "Most characters."),
            pointer("minLength", Int64, "Fewest characters."),
            optional("pattern", Text, "Regular expression that a text must match."),
            pointer("maximum", Int64, "Largest number."),
            optional("exclusiveMaximum", Bool, "Whether the largest number itself is too large."),
            pointer("minimum", Int64, "Smallest number."),
            optional("exclusiveMinimum", Bool, "Whether the smallest number itself is too small."),
            optional("x-kubernetes-preserve-unknown-fields", Bool, "Whether unknown fields are kept."),
            optional("enum", List(&JSON), "All valid values."),
            pointer("default", JSON, "Value if there is none."),
            optional("x-kubernetes-validations", List(&named("ValidationRule")), "Rules in CEL."),
            optional("x-metadata", named("VariableSchemaMetadata"), "Labels and annotations for tools."),
            optional("x-kubernetes-int-or-string", Bool, "Whether the value is a number or a text."),
            optional("allOf", List(&SCHEMA), "Schemas that must all fit."),
            optional("oneOf", List(&SCHEMA), "Schemas of which exactly one must fit."),
            optional("anyOf", List(&SCHEMA), "Schemas of which at least one must fit."),
            pointer("not", SCHEMA, "A schema that must not fit."),
        ]]),
    },
];

const LABELS_AND_ANNOTATIONS: &[Field] =
    &[optional("labels", TEXTS, "Labels."), optional("annotations", TEXTS, "Annotations.")];
