//! Schemas as tables, and how a table becomes JSON.

use serde_json::{Map, Value, json};

/// A named schema.
pub(super) struct Component {
    pub(super) package: Package,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) shape: Shape,
}

/// Where a type lives in Go; component names start with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Package {
    Hooks,
    Cluster,
    Core,
    ApiExtensions,
    Meta,
    Runtime,
    IntOrString,
}

pub(super) enum Shape {
    /// An object with these fields. Several groups, so that requests can share their beginning.
    Fields(&'static [&'static [Field]]),
    /// An object with any fields.
    AnyObject,
    /// Anything at all.
    Anything,
    /// A point in time.
    Time,
    /// A number, or a percentage.
    IntOrString,
}

pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) type_: Type,
    pub(super) presence: Presence,
    pub(super) description: &'static str,
}

/// Whether a field must be there, and whether Go writes it when it is empty. The latter decides about the
/// default: what is always written has one, and so has every object that is not a pointer and may be empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    RequiredAlways,
    RequiredNonEmpty,
    Optional,
    Pointer,
}

#[derive(Clone, Copy)]
pub(super) enum Type {
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    Bytes,
    Bool,
    Int32,
    Int64,
    Ref(Package, &'static str),
    List(&'static Type),
    /// A list with at most one item for each value of the keys.
    ListMap(&'static Type, &'static [&'static str]),
    ListSet(&'static Type),
    ListAtomic(&'static Type),
    Map(&'static Type),
    /// An object that has no name in Go.
    Inline(&'static [Field]),
}

pub(super) const TEXTS: Type = Type::Map(&Type::Text);

pub(super) const fn always(name: &'static str, type_: Type, description: &'static str) -> Field {
    Field { name, type_, presence: Presence::RequiredAlways, description }
}

pub(super) const fn required(name: &'static str, type_: Type, description: &'static str) -> Field {
    Field { name, type_, presence: Presence::RequiredNonEmpty, description }
}

pub(super) const fn optional(name: &'static str, type_: Type, description: &'static str) -> Field {
    Field { name, type_, presence: Presence::Optional, description }
}

pub(super) const fn pointer(name: &'static str, type_: Type, description: &'static str) -> Field {
    Field { name, type_, presence: Presence::Pointer, description }
}

/// The name of a component: the Go import path with dots for slashes, then the name of the type.
pub(super) fn component_name(package: Package, name: &str) -> String {
    let path = match package {
        Package::Hooks => "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1",
        Package::Cluster => "sigs.k8s.io/cluster-api/api/core/v1beta2",
        Package::Core => "k8s.io/api/core/v1",
        Package::ApiExtensions => "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
        Package::Meta => "k8s.io/apimachinery/pkg/apis/meta/v1",
        Package::Runtime => "k8s.io/apimachinery/pkg/runtime",
        Package::IntOrString => "k8s.io/apimachinery/pkg/util/intstr",
    };
    format!("{}.{name}", path.replace('/', "."))
}

pub(super) fn reference(package: Package, name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{}", component_name(package, name))})
}

impl Component {
    pub(super) fn is(&self, package: Package, name: &str) -> bool {
        self.package == package && self.name == name
    }

    pub(super) fn to_json(&self) -> Value {
        let mut schema = match self.shape {
            Shape::Fields(groups) => object(groups.iter().copied().flatten()),
            Shape::AnyObject => json!({"type": "object"}),
            Shape::Anything => json!({}),
            Shape::Time => json!({"type": "string", "format": "date-time"}),
            Shape::IntOrString => json!({"oneOf": [{"type": "integer"}, {"type": "string"}]}),
        };
        schema["description"] = self.description.into();
        schema
    }

    /// Whether `{}` is a valid value. If not, it cannot be a default either, although generated schemas of Go
    /// types say so.
    fn may_be_empty(&self) -> bool {
        match self.shape {
            Shape::Fields(groups) => !groups.iter().copied().flatten().any(Field::is_required),
            Shape::AnyObject | Shape::Anything | Shape::Time | Shape::IntOrString => false,
        }
    }

    /// The components that this one refers to.
    pub(super) fn references(&self) -> Vec<(Package, &'static str)> {
        let mut found = Vec::new();
        if let Shape::Fields(groups) = self.shape {
            for field in groups.iter().copied().flatten() {
                field.type_.references(&mut found);
            }
        }
        found
    }
}

fn object<'a>(fields: impl Iterator<Item = &'a Field>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        properties.insert(field.name.to_owned(), field.to_json());
        if field.is_required() {
            required.push(Value::from(field.name));
        }
    }
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    // An empty list is not allowed in OpenAPI 3.0.
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

impl Field {
    fn is_required(&self) -> bool {
        matches!(self.presence, Presence::RequiredAlways | Presence::RequiredNonEmpty)
    }

    fn to_json(&self) -> Value {
        let mut schema = self.type_.to_json();
        let default = match (self.presence, self.type_) {
            (Presence::RequiredAlways, type_) => type_.default(),
            (Presence::RequiredNonEmpty | Presence::Optional, type_ @ Type::Ref(..)) => type_.default(),
            _ => None,
        };
        if let Some(default) = default {
            schema["default"] = default;
        }
        // Siblings of `$ref` are ignored in OpenAPI 3.0; inside `allOf` it has none.
        if let Some(reference) = schema.as_object_mut().and_then(|fields| fields.remove("$ref")) {
            schema["allOf"] = json!([{"$ref": reference}]);
        }
        schema["description"] = self.description.into();
        schema
    }
}

impl Type {
    fn to_json(self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::OneOf(values) => json!({"type": "string", "enum": values}),
            Self::Bytes => json!({"type": "string", "format": "byte"}),
            Self::Bool => json!({"type": "boolean"}),
            Self::Int32 => json!({"type": "integer", "format": "int32"}),
            Self::Int64 => json!({"type": "integer", "format": "int64"}),
            Self::Ref(package, name) => reference(package, name),
            Self::List(item) => json!({"type": "array", "items": item.element()}),
            Self::ListMap(item, keys) => json!({
                "type": "array",
                "items": item.element(),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": keys,
            }),
            Self::ListSet(item) => {
                json!({"type": "array", "items": item.element(), "x-kubernetes-list-type": "set"})
            }
            Self::ListAtomic(item) => {
                json!({"type": "array", "items": item.element(), "x-kubernetes-list-type": "atomic"})
            }
            Self::Map(item) => json!({"type": "object", "additionalProperties": item.element()}),
            Self::Inline(fields) => object(fields.iter()),
        }
    }

    /// The schema of what a list or a map holds, which always has a value and so has a default.
    fn element(self) -> Value {
        let mut schema = self.to_json();
        if let Some(default) = self.default() {
            if let Some(reference) = schema.as_object_mut().and_then(|fields| fields.remove("$ref")) {
                schema["allOf"] = json!([{"$ref": reference}]);
            }
            schema["default"] = default;
        }
        schema
    }

    fn default(self) -> Option<Value> {
        match self {
            Self::Ref(package, name) => {
                super::find(package, name).filter(|component| component.may_be_empty()).map(|_| json!({}))
            }
            Self::Text => Some("".into()),
            Self::Bool => Some(false.into()),
            Self::Int32 | Self::Int64 => Some(0.into()),
            Self::OneOf(_)
            | Self::Bytes
            | Self::List(_)
            | Self::ListMap(..)
            | Self::ListSet(_)
            | Self::ListAtomic(_)
            | Self::Map(_)
            | Self::Inline(_) => None,
        }
    }

    fn references(self, found: &mut Vec<(Package, &'static str)>) {
        match self {
            Self::Ref(package, name) => found.push((package, name)),
            Self::List(item)
            | Self::ListMap(item, _)
            | Self::ListSet(item)
            | Self::ListAtomic(item)
            | Self::Map(item) => item.references(found),
            Self::Inline(fields) => fields.iter().for_each(|field| field.type_.references(found)),
            Self::Text | Self::OneOf(_) | Self::Bytes | Self::Bool | Self::Int32 | Self::Int64 => {}
        }
    }
}
