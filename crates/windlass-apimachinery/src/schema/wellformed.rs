//! What makes a schema structural, and what a CRD may not say. Every refusal names its place.

use serde_json::{Map, Value};

use super::structural::{ListType, Schema, Type, is_integer_or_string};
use crate::cause::{Cause, FieldPath};

/// Adds a cause for everything the API server refuses in a CRD's schema.
///
/// `raw` and `parsed` are the same schema: absence and emptiness can be told apart only in the text.
pub(super) fn check(raw: &Value, parsed: &Schema, path: &str, causes: &mut Vec<Cause>) {
    let mut walk = Walk { path: FieldPath::new(path), causes };
    walk.node(raw, parsed, Level::Root);
    walk.complete(parsed, parsed, &FieldPath::new(path), &FieldPath::new(path));
    walk.defaults(parsed, true);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

struct Walk<'a> {
    path: FieldPath,
    causes: &'a mut Vec<Cause>,
}

/// Keywords of JSON Schema that CRDs do not have.
const UNSUPPORTED: [&str; 6] =
    ["$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties"];

impl Walk<'_> {
    fn forbid(&mut self, keyword: &str, detail: &str) {
        self.causes.push(Cause::forbidden(self.path.join(keyword), detail));
    }

    fn require(&mut self, keyword: &str, detail: &str) {
        self.causes.push(Cause::required(self.path.join(keyword), detail));
    }

    fn refuse(&mut self, keyword: &str, value: impl Into<Value>, detail: &str) {
        self.causes.push(Cause::invalid(self.path.join(keyword), &value.into(), detail));
    }

    fn within(&mut self, keyword: &str, visit: impl FnOnce(&mut Self)) {
        let mark = self.path.push(keyword);
        visit(self);
        self.path.pop(mark);
    }

    /// A node on the spine of the schema: outside of `allOf`, `anyOf`, `oneOf` and `not`.
    fn node(&mut self, raw: &Value, schema: &Schema, level: Level) {
        let Value::Object(keywords) = raw else { return };
        self.keywords(keywords);
        self.types(schema, level);
        self.lists(schema);
        self.maps(keywords, schema);
        self.metadata(schema, level);
        self.rules(schema);
        let spelled_out = is_integer_or_string_text(keywords.get("anyOf"));
        let first_spelled_out = keywords
            .get("allOf")
            .and_then(|branches| branches.get(0))
            .is_some_and(|first| is_integer_or_string_text(first.get("anyOf")));
        self.branches(keywords, spelled_out, first_spelled_out);

        if let (Some(items), Some(raw)) = (&schema.items, keywords.get("items")) {
            self.within("items", |walk| walk.node(raw, items, Level::Item));
        }
        for (name, field) in &schema.properties {
            let raw = keywords.get("properties").and_then(|fields| fields.get(name));
            let mark = self.path.push("properties");
            self.path.push_key(name);
            self.node(raw.unwrap_or(&Value::Null), field, Level::Field);
            self.path.pop(mark);
        }
        if let Some(super::Additional::Schema(additional)) = &schema.additional {
            let raw = keywords.get("additionalProperties").unwrap_or(&Value::Null);
            self.within("additionalProperties", |walk| walk.node(raw, additional, Level::Field));
        }
        if schema.additional.is_some() && level == Level::Root {
            self.forbid("additionalProperties", "must not be used at the root");
        }
    }

    fn keywords(&mut self, keywords: &Map<String, Value>) {
        for keyword in UNSUPPORTED {
            if keywords.get(keyword).is_some_and(|value| !value.is_null()) {
                self.forbid(keyword, &format!("{keyword} is not supported"));
            }
        }
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid("uniqueItems", detail);
        }
        let given = |keyword: &str| keywords.get(keyword).is_some_and(|value| !value.is_null());
        if given("additionalProperties") && given("properties") {
            self.forbid("additionalProperties", "additionalProperties and properties are mutual exclusive");
        }
        if keywords.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            self.refuse("x-kubernetes-preserve-unknown-fields", false, "must be true or undefined");
        }
    }

    fn types(&mut self, schema: &Schema, level: Level) {
        if schema.int_or_string && schema.preserve_unknown {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            self.refuse("x-kubernetes-preserve-unknown-fields", true, detail);
        }
        if schema.int_or_string && schema.embedded_resource {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            self.refuse("x-kubernetes-embedded-resource", true, detail);
        }
        if schema.embedded_resource && schema.ty != Some(Type::Object) {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            match schema.ty {
                None => self.require("type", detail),
                Some(ty) => self.refuse("type", ty.as_str(), detail),
            }
        } else if schema.ty.is_none() && !schema.int_or_string && !schema.preserve_unknown {
            let detail = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.require("type", detail);
        }
        if let (Level::Root, Some(ty)) = (level, schema.ty)
            && ty != Type::Object
        {
            self.refuse("type", ty.as_str(), "must be object at the root");
        }
        if schema.ty == Some(Type::Array) && schema.items.is_none() {
            self.require("items", "must be specified");
        }
        if schema.embedded_resource && schema.additional.is_some() {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbid("additionalProperties", detail);
        }
        if schema.embedded_resource && !schema.preserve_unknown && schema.properties.is_empty() {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                          x-kubernetes-preserve-unknown-fields";
            self.require("properties", detail);
        }
    }

    fn lists(&mut self, schema: &Schema) {
        let Some(list_type) = &schema.list_type else { return };
        if schema.ty != Some(Type::Array) {
            let detail = "must be array if x-kubernetes-list-type is set";
            match schema.ty {
                None => self.require("type", detail),
                Some(ty) => self.refuse("type", ty.as_str(), detail),
            }
        }
        match list_type {
            ListType::Atomic => {}
            ListType::Set => {
                let items = schema.items.as_deref();
                if items.is_some_and(|items| items.nullable) {
                    let detail = "cannot be nullable when x-kubernetes-list-type is set";
                    self.causes.push(Cause::forbidden(self.path.join("items.nullable"), detail));
                }
                if items.is_some_and(|items| items.ty == Some(Type::Object) && !items.atomic_map) {
                    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
                    let field = self.path.join("items.x-kubernetes-map-type");
                    self.causes.push(Cause::invalid(field, &Value::Null, detail));
                }
            }
            ListType::Map(keys) => self.list_keys(keys, schema),
        }
    }

    fn list_keys(&mut self, keys: &[String], schema: &Schema) {
        let keyword = "x-kubernetes-list-map-keys";
        if keys.is_empty() {
            self.require(keyword, "must not be empty if x-kubernetes-list-type is map");
        }
        let Some(items) = schema.items.as_deref() else {
            self.require("items", "must have a schema if x-kubernetes-list-type is map");
            return;
        };
        if items.ty != Some(Type::Object) {
            let ty = items.ty.map_or("", Type::as_str);
            self.refuse("items.type", ty, "must be object if parent array's x-kubernetes-list-type is map");
        }
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].contains(key) {
                self.refuse(keyword, keys.to_vec(), "must not contain duplicate entries");
            }
            let at = format!("items.properties[{key}]");
            let Some(field) = items.properties.get(key) else {
                self.refuse(keyword, keys.to_vec(), "entries must all be names of item properties");
                continue;
            };
            if matches!(field.ty, Some(Type::Object | Type::Array)) {
                let ty = field.ty.map_or("", Type::as_str);
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                self.refuse(&format!("{at}.type"), ty, detail);
            }
            if field.default.is_none() && !items.checks.required.contains(key) {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default \
                              or be a required property";
                self.require(&format!("{at}.default"), detail);
            }
            if field.nullable {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbid(&format!("{at}.nullable"), detail);
            }
        }
    }

    fn maps(&mut self, keywords: &Map<String, Value>, schema: &Schema) {
        let keys = keywords.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        if keys.is_some_and(|keys| !keys.is_empty()) && !matches!(schema.list_type, Some(ListType::Map(_))) {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            match keywords.get("x-kubernetes-list-type") {
                None => self.require("x-kubernetes-list-type", detail),
                Some(other) => self.refuse("x-kubernetes-list-type", other.clone(), detail),
            }
        }
        let Some(map_type) = keywords.get("x-kubernetes-map-type").filter(|value| !value.is_null()) else {
            return;
        };
        if !matches!(map_type.as_str(), Some("atomic" | "granular")) {
            let field = self.path.join("x-kubernetes-map-type");
            self.causes.push(Cause::not_supported(field, map_type, &["granular", "atomic"]));
        }
        if schema.ty != Some(Type::Object) {
            let detail = "must be object if x-kubernetes-map-type is set";
            match schema.ty {
                None => self.require("type", detail),
                Some(ty) => self.refuse("type", ty.as_str(), detail),
            }
        }
    }

    /// The metadata of an object is not the CRD's to describe, except for the name.
    fn metadata(&mut self, schema: &Schema, level: Level) {
        if level != Level::Root && !schema.embedded_resource {
            return;
        }
        for name in ["kind", "apiVersion"] {
            if let Some(field) = schema.properties.get(name)
                && field.ty != Some(Type::String)
            {
                let ty = field.ty.map_or("", Type::as_str);
                self.refuse(&format!("properties[{name}].type"), ty, "must be string");
            }
        }
        let Some(metadata) = schema.properties.get("metadata") else { return };
        if metadata.ty != Some(Type::Object) {
            let ty = metadata.ty.map_or("", Type::as_str);
            self.refuse("properties[metadata].type", ty, "must be object");
        }
        let only_names = metadata.properties.keys().all(|name| name == "name" || name == "generateName");
        let plain = metadata.additional.is_none()
            && !metadata.preserve_unknown
            && !metadata.nullable
            && metadata.default.is_none()
            && metadata.rules.is_empty();
        if level == Level::Root && !(only_names && plain) {
            let detail = "must not specify anything other than name and generateName, but metadata is \
                          implicitly specified";
            self.forbid("properties[metadata]", detail);
        }
    }

    fn rules(&mut self, schema: &Schema) {
        for (index, rule) in schema.rules.iter().enumerate() {
            let at = |keyword: &str| format!("x-kubernetes-validations[{index}].{keyword}");
            if rule.rule.trim().is_empty() {
                self.require(&at("rule"), "rule is not specified");
            }
            if let Some(message) = &rule.message {
                if message.trim().contains('\n') {
                    self.refuse(&at("message"), message.as_str(), "message must not contain line breaks");
                } else if message.trim().is_empty() {
                    let detail = "message must be non-empty if specified";
                    self.refuse(&at("message"), message.as_str(), detail);
                }
            } else if rule.rule.trim().contains('\n') && rule.message_expression.is_none() {
                self.require(&at("message"), "message must be specified if rule contains line breaks");
            }
            let reasons =
                ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
            if let Some(reason) = rule.reason.as_deref().filter(|reason| !reasons.contains(reason)) {
                let field = self.path.join(&at("reason"));
                self.causes.push(Cause::not_supported(field, &Value::from(reason), &reasons));
            }
        }
    }

    /// Inside `allOf`, `anyOf`, `oneOf` and `not` a schema may restrict values, not add structure.
    fn branches(&mut self, keywords: &Map<String, Value>, skip_any_of: bool, skip_first_any_of: bool) {
        for junctor in ["allOf", "anyOf", "oneOf"] {
            let branches = keywords.get(junctor).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            if junctor == "anyOf" && skip_any_of {
                continue;
            }
            for (index, branch) in branches.iter().enumerate() {
                let mark = self.path.push(junctor);
                self.path.push_index(index);
                self.nested(branch, junctor == "allOf" && index == 0 && skip_first_any_of);
                self.path.pop(mark);
            }
        }
        if let Some(not) = keywords.get("not").filter(|value| !value.is_null()) {
            self.within("not", |walk| walk.nested(not, false));
        }
    }

    fn nested(&mut self, raw: &Value, skip_any_of: bool) {
        let Value::Object(keywords) = raw else { return };
        self.keywords(keywords);
        let must_be = [
            ("type", "must be empty to be structural"),
            ("additionalProperties", "must be undefined to be structural"),
            ("default", "must be undefined to be structural"),
            ("title", "must be empty to be structural"),
            ("description", "must be empty to be structural"),
            ("nullable", "must be false to be structural"),
            ("externalDocs", "must be undefined to be structural"),
            ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
            ("x-kubernetes-embedded-resource", "must be false to be structural"),
            ("x-kubernetes-int-or-string", "must be false to be structural"),
            ("x-kubernetes-list-map-keys", "must be empty to be structural"),
            ("x-kubernetes-list-type", "must be undefined to be structural"),
            ("x-kubernetes-map-type", "must be undefined to be structural"),
            ("x-kubernetes-validations", "must be empty to be structural"),
        ];
        for (keyword, detail) in must_be {
            let empty = |value: &Value| match value {
                Value::Null | Value::Bool(false) => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            if keywords.get(keyword).is_some_and(|value| !empty(value)) {
                self.forbid(keyword, detail);
            }
        }
        if keywords.get("properties").is_some_and(|fields| fields.get("metadata").is_some()) {
            self.forbid("properties[metadata]", "must not be specified in a nested context");
        }
        self.branches(keywords, skip_any_of, false);
        if let Some(items) = keywords.get("items").filter(|value| !value.is_null()) {
            self.within("items", |walk| walk.nested(items, false));
        }
        for (name, field) in keywords.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let mark = self.path.push("properties");
            self.path.push_key(name);
            self.nested(field, false);
            self.path.pop(mark);
        }
    }

    /// Every field that a restriction mentions must exist on the spine.
    fn complete(&mut self, restriction: &Schema, spine: &Schema, spine_at: &FieldPath, at: &FieldPath) {
        let junctors = [
            ("allOf", &restriction.checks.all_of),
            ("anyOf", &restriction.checks.any_of),
            ("oneOf", &restriction.checks.one_of),
        ];
        for (junctor, branches) in junctors {
            for (index, branch) in branches.iter().enumerate() {
                let mut branch_at = at.clone();
                branch_at.push(junctor);
                branch_at.push_index(index);
                self.complete_branch(branch, spine, spine_at, &branch_at);
            }
        }
        if let Some(not) = &restriction.checks.not {
            let mut branch_at = at.clone();
            branch_at.push("not");
            self.complete_branch(not, spine, spine_at, &branch_at);
        }
    }

    fn complete_branch(&mut self, branch: &Schema, spine: &Schema, spine_at: &FieldPath, at: &FieldPath) {
        self.complete(branch, spine, spine_at, at);
        let mut visit = |keyword: &str, key: Option<&str>, branch: &Schema, spine: Option<&Schema>| {
            let (mut spine_at, mut at) = (spine_at.clone(), at.clone());
            for path in [&mut spine_at, &mut at] {
                path.push(keyword);
                if let Some(key) = key {
                    path.push_key(key);
                }
            }
            match spine {
                Some(spine) => self.complete_branch(branch, spine, &spine_at, &at),
                None => {
                    let detail = format!("because it is defined in {}", at.as_str());
                    self.causes.push(Cause::required(spine_at.field(), detail));
                }
            }
        };
        for (name, field) in &branch.properties {
            visit("properties", Some(name), field, spine.properties.get(name));
        }
        if let Some(items) = &branch.items {
            visit("items", None, items, spine.items.as_deref());
        }
    }

    /// A default must itself be a value that the schema accepts.
    fn defaults(&mut self, schema: &Schema, root: bool) {
        if let Some(default) = schema.default.as_ref().filter(|default| !default.is_null()) {
            let mut pruned = default.clone();
            if !schema.prune_value(&mut pruned).is_empty() {
                self.refuse("default", default.clone(), "must not have unknown fields");
            }
            self.causes.extend(schema.validate_at(default, &self.path.join("default")));
        }
        for (name, field) in &schema.properties {
            if root && name == "metadata" {
                continue;
            }
            let mark = self.path.push("properties");
            self.path.push_key(name);
            self.defaults(field, false);
            self.path.pop(mark);
        }
        if let Some(items) = &schema.items {
            self.within("items", |walk| walk.defaults(items, false));
        }
        if let Some(super::Additional::Schema(additional)) = &schema.additional {
            self.within("additionalProperties", |walk| walk.defaults(additional, false));
        }
    }
}

/// The parsed schema no longer has the alternatives that spell out int-or-string; the text does.
fn is_integer_or_string_text(branches: Option<&Value>) -> bool {
    let branches = branches.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let plain = branches.iter().all(|branch| branch.as_object().is_some_and(|keywords| keywords.len() == 1));
    let parsed: Vec<Schema> = branches.iter().filter_map(|branch| Schema::parse(branch).ok()).collect();
    plain && parsed.len() == branches.len() && is_integer_or_string(&parsed)
}
