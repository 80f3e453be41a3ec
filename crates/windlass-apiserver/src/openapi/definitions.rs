//! The schemas of kinds and of everything in them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_api::api_version;

use super::downgrade::downgrade;
use crate::machinery::types::{Catalogue, Elements, Field, StructId, Type, catalogue};
use crate::registry::{Registry, Resource, Verbs};

/// The version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    V2,
    V3,
}

impl Flavour {
    /// A reference to a schema.
    pub(super) fn reference(self, name: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Self::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }
}

/// Schemas, each once.
pub(super) struct Definitions {
    flavour: Flavour,
    catalogue: &'static Catalogue,
    /// The kinds that a type is.
    kinds: BTreeMap<StructId, Vec<Value>>,
    schemas: Map<String, Value>,
}

/// Kinds without a resource of their own: group and version, kind.
const OTHER_KINDS: &[(&str, &str)] = &[
    ("v1", "Binding"),
    ("policy/v1", "Eviction"),
    ("autoscaling/v1", "Scale"),
    ("authentication.k8s.io/v1", "TokenRequest"),
];

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

impl Definitions {
    pub(super) fn new(registry: &Registry, flavour: Flavour) -> Self {
        let catalogue = catalogue();
        let mut kinds: BTreeMap<StructId, Vec<Value>> = BTreeMap::new();
        let built_in = registry.all().filter(|resource| !resource.strategy.custom);
        let resources = built_in.map(|resource| (resource.api_version(), resource.kind.clone()));
        let others = OTHER_KINDS.iter().map(|(version, kind)| ((*version).to_owned(), (*kind).to_owned()));
        for (api_version, name) in resources.chain(others) {
            if let Some(id) = catalogue.kind(&api_version, &name) {
                let (group, version) = api_version::split(&api_version);
                kinds.entry(id).or_default().push(kind(group, version, &name));
            }
        }
        for name in ["Status", "DeleteOptions"] {
            if let Some(id) = catalogue.find(META, name) {
                kinds.entry(id).or_default().push(kind("", "v1", name));
            }
        }
        Self { flavour, catalogue, kinds, schemas: Map::new() }
    }

    /// Adds a kind, its list and everything in it.
    pub(super) fn add(&mut self, resource: &Resource) {
        let name = schema_name(resource);
        match self.catalogue.kind(&resource.api_version(), &resource.kind) {
            Some(id) if !resource.strategy.custom => self.add_struct(id),
            _ => {
                let schema = self.custom(resource);
                self.schemas.insert(name.clone(), schema);
            }
        }
        if resource.verbs != Verbs::CreateOnly {
            let list = self.list(resource, &name);
            self.schemas.insert(format!("{name}List"), list);
            self.add_meta("DeleteOptions");
        }
        self.add_meta("Status");
    }

    pub(super) fn finish(self) -> Map<String, Value> {
        self.schemas
    }

    fn list(&mut self, resource: &Resource, name: &str) -> Value {
        self.add_meta("ListMeta");
        let text = || json!({"type": "string"});
        let metadata = self.struct_reference(&format!("{META}.ListMeta"), false);
        json!({
            "description": format!("A list of objects of kind {}.", resource.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": text(), "kind": text(), "metadata": metadata,
                "items": {"type": "array", "items": self.item_reference(name)},
            },
            "x-kubernetes-group-version-kind": [kind(&resource.group, &resource.version, &resource.list_kind)],
        })
    }

    /// What a CRD defines: its schema, with the fields that every object has.
    fn custom(&mut self, resource: &Resource) -> Value {
        let written = resource.openapi.clone().unwrap_or_else(|| json!({"type": "object"}));
        let mut schema = if self.flavour == Flavour::V2 { downgrade(&written) } else { written };
        self.add_meta("ObjectMeta");
        let metadata = self.struct_reference(&format!("{META}.ObjectMeta"), false);
        if let Value::Object(fields) = &mut schema {
            let opaque = fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
            if !(opaque && self.flavour == Flavour::V2) {
                let properties = fields.entry("properties").or_insert_with(|| json!({}));
                properties["apiVersion"] = json!({"type": "string", "description": "The group and version of this form of the object."});
                properties["kind"] = json!({"type": "string", "description": "The kind of the object."});
                properties["metadata"] = metadata;
            }
            let kinds = json!([kind(&resource.group, &resource.version, &resource.kind)]);
            fields.insert("x-kubernetes-group-version-kind".to_owned(), kinds);
        }
        schema
    }

    fn add_meta(&mut self, name: &str) {
        if let Some(id) = self.catalogue.find(META, name) {
            self.add_struct(id);
        }
    }

    fn add_struct(&mut self, id: StructId) {
        let known = self.catalogue.get(id);
        let name = known.full_name();
        if self.schemas.contains_key(&name) {
            return;
        }
        // Types may contain themselves: the name is taken before their fields are looked at.
        self.schemas.insert(name.clone(), Value::Null);
        let mut schema = Map::new();
        if !known.description.is_empty() {
            schema.insert("description".to_owned(), known.description.into());
        }
        schema.insert("type".to_owned(), "object".into());
        let kinds = self.kinds.get(&id).cloned();
        let fields = self.catalogue.fields(id);
        let required: Vec<&str> =
            fields.iter().filter(|(_, field)| field.required).map(|(name, _)| *name).collect();
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        let mut properties = Map::new();
        if kinds.is_some() {
            properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
            properties.insert("kind".to_owned(), json!({"type": "string"}));
        }
        for (name, field) in fields {
            properties.insert(name.to_owned(), self.property(field));
        }
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), properties.into());
        }
        if known.atomic {
            schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        if let Some(kinds) = kinds {
            schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds.into());
        }
        self.schemas.insert(name, schema.into());
    }

    fn property(&mut self, field: &Field) -> Value {
        let mut property = self.ty(&field.ty, field.pointer);
        let mut set = |name: &str, value: Value| property[name] = value;
        match &field.elements {
            Elements::Unsaid => {}
            Elements::Atomic if matches!(field.ty, Type::List(_)) => {
                set("x-kubernetes-list-type", "atomic".into())
            }
            Elements::Atomic => set("x-kubernetes-map-type", "atomic".into()),
            Elements::Set => set("x-kubernetes-list-type", "set".into()),
            Elements::Keyed(keys) => {
                set("x-kubernetes-list-type", "map".into());
                set("x-kubernetes-list-map-keys", keys.as_slice().into());
            }
        }
        let strategies =
            [field.patch.merge.is_some().then_some("merge"), field.patch.retain_keys.then_some("retainKeys")];
        let strategies: Vec<&str> = strategies.into_iter().flatten().collect();
        if !strategies.is_empty() {
            set("x-kubernetes-patch-strategy", strategies.join(",").into());
        }
        if let Some(Some(key)) = field.patch.merge {
            set("x-kubernetes-patch-merge-key", key.into());
        }
        if let Some(default) = field.default {
            set("default", default.into());
        }
        property
    }

    fn ty(&mut self, ty: &Type, pointer: bool) -> Value {
        match ty {
            Type::Text | Type::Duration => json!({"type": "string"}),
            Type::Int32 => json!({"type": "integer", "format": "int32"}),
            Type::Int64 => json!({"type": "integer", "format": "int64"}),
            Type::Float => json!({"type": "number", "format": "double"}),
            Type::Flag => json!({"type": "boolean"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Type::Time => {
                self.scalar(&format!("{META}.Time"), json!({"type": "string", "format": "date-time"}))
            }
            Type::MicroTime => {
                self.scalar(&format!("{META}.MicroTime"), json!({"type": "string", "format": "date-time"}))
            }
            Type::Fields => self.scalar(&format!("{META}.FieldsV1"), json!({"type": "object"})),
            Type::Raw => {
                self.scalar("io.k8s.apimachinery.pkg.runtime.RawExtension", json!({"type": "object"}))
            }
            Type::Quantity => {
                let schema = match self.flavour {
                    Flavour::V2 => json!({"type": "string"}),
                    Flavour::V3 => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
                };
                self.scalar("io.k8s.apimachinery.pkg.api.resource.Quantity", schema)
            }
            Type::IntOrString => {
                let schema = match self.flavour {
                    Flavour::V2 => json!({"type": "string", "format": "int-or-string"}),
                    Flavour::V3 => {
                        json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
                    }
                };
                self.scalar("io.k8s.apimachinery.pkg.util.intstr.IntOrString", schema)
            }
            Type::Any | Type::StructOrAny(_) => {
                self.scalar("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", json!({}))
            }
            Type::Struct(id) => {
                self.add_struct(*id);
                self.struct_reference(&self.catalogue.get(*id).full_name(), pointer)
            }
            Type::List(item) => json!({"type": "array", "items": self.ty(item, true)}),
            Type::Map(item) => json!({"type": "object", "additionalProperties": self.ty(item, true)}),
        }
    }

    /// A scalar that has a name of its own.
    fn scalar(&mut self, name: &str, schema: Value) -> Value {
        self.schemas.entry(name).or_insert(schema);
        self.item_reference(name)
    }

    /// In version 3 nothing may stand beside a reference.
    fn item_reference(&self, name: &str) -> Value {
        let reference = self.flavour.reference(name);
        if self.flavour == Flavour::V2 { reference } else { json!({"allOf": [reference]}) }
    }

    fn struct_reference(&self, name: &str, pointer: bool) -> Value {
        let mut reference = self.item_reference(name);
        if self.flavour == Flavour::V3 && !pointer {
            reference["default"] = json!({});
        }
        reference
    }
}

/// How schemas and operations name a kind.
pub(super) fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "kind": kind, "version": version})
}

/// `test.demo.v1.Widget` for what a CRD defines; the name that Kubernetes has for the rest.
pub(super) fn schema_name(resource: &Resource) -> String {
    let Resource { group, version, kind, .. } = resource;
    let known = catalogue().kind(&api_version::join(group, version), kind);
    match known.filter(|_| !resource.strategy.custom) {
        Some(id) => catalogue().get(id).full_name(),
        None => {
            let reversed: Vec<&str> = group.split('.').rev().collect();
            format!("{}.{version}.{kind}", reversed.join("."))
        }
    }
}
