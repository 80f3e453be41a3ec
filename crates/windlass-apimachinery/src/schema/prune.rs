//! Pruning: what the schema does not know is dropped, and can be reported.

use serde_json::Value;

use super::meta::prune_metadata;
use super::place::Place;
use super::structural::{Additional, Schema};
use windlass_patch::depth::{self, TooDeep};

impl Schema {
    /// Drops the fields of an object that this schema does not know, and returns their paths, sorted:
    /// `spec.ports[0].x`. They are the warnings, or the errors, of field validation.
    ///
    /// Keeps `apiVersion`, `kind` and `metadata`, the latter with the fields that metadata has and
    /// without its empty ones.
    pub fn prune(&self, object: &mut Value) -> Result<Vec<String>, TooDeep> {
        depth::check(object)?;
        Ok(self.prune_checked(object))
    }

    /// As [`prune`](Self::prune), for an object that [`depth::check`] accepts or that was just read.
    pub fn prune_checked(&self, object: &mut Value) -> Vec<String> {
        let mut walk = Walk::default();
        walk.prune(object, Place::Root, Some(self), true, false);
        walk.finish()
    }

    /// Drops what this schema does not know from a value that is not a whole object.
    pub(super) fn prune_value(&self, value: &mut Value) -> Vec<String> {
        let mut walk = Walk::default();
        walk.prune(value, Place::Root, Some(self), false, false);
        walk.finish()
    }
}

#[derive(Default)]
struct Walk {
    unknown: Vec<String>,
}

impl Walk {
    fn finish(mut self) -> Vec<String> {
        self.unknown.sort();
        self.unknown
    }

    /// `schema` is absent below `additionalProperties: true` and for arrays without items: what is
    /// there is not described, so nothing in it is known.
    /// `keep` is what an array that preserves unknown fields passes on to its items.
    fn prune(
        &mut self,
        value: &mut Value,
        place: Place<'_>,
        schema: Option<&Schema>,
        root: bool,
        keep: bool,
    ) {
        let keep_unknown = keep || schema.is_some_and(|schema| schema.preserve_unknown);
        match value {
            Value::Object(fields) => {
                let is_resource = root || schema.is_some_and(|schema| schema.embedded_resource);
                let is_built_in =
                    |name: &str| is_resource && matches!(name, "apiVersion" | "kind" | "metadata");
                let mut is_clean = true;
                for (name, field) in fields.iter_mut() {
                    let place = Place::Field(&place, name);
                    if is_built_in(name) {
                        if name == "metadata" {
                            prune_metadata(field, place, &mut self.unknown);
                        }
                        continue;
                    }
                    match known(schema, name) {
                        Known::As(schema) => self.prune(field, place, Some(schema), false, false),
                        Known::Undescribed => self.prune(field, place, None, false, false),
                        Known::No if keep_unknown => {}
                        Known::No => {
                            self.unknown.push(place.to_string());
                            is_clean = false;
                        }
                    }
                }
                // Seldom, and taking fields out of a map costs more than looking at them.
                if !is_clean {
                    fields.retain(|name, _| is_built_in(name) || !matches!(known(schema, name), Known::No));
                }
            }
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                if keep_unknown && schema.is_none() {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    self.prune(item, Place::Item(&place, index), schema, false, keep_unknown);
                }
            }
            _ => {}
        }
    }
}

enum Known<'a> {
    As(&'a Schema),
    Undescribed,
    No,
}

fn known<'a>(schema: Option<&'a Schema>, name: &str) -> Known<'a> {
    let Some(schema) = schema else { return Known::No };
    match (schema.properties.get(name), &schema.additional) {
        (Some(field), _) => Known::As(field),
        (None, Some(Additional::Schema(field))) => Known::As(field),
        (None, Some(Additional::Anything)) => Known::Undescribed,
        (None, None) => Known::No,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is left of `value` under `spec`, and what was reported.
    fn pruned(schema: Value, value: Value) -> (Value, Vec<String>) {
        let root = json!({"type": "object", "properties": {"spec": schema}});
        let schema = Schema::parse(&root).unwrap();
        let mut object = json!({"spec": value});
        let unknown = schema.prune(&mut object).unwrap();
        (object["spec"].take(), unknown)
    }

    #[test]
    fn each_way_of_knowing_a_field_keeps_it() {
        let number = json!({"type": "integer"});
        let cases = [
            (
                "a declared field",
                json!({"properties": {"a": number}}),
                json!({"a": 1, "b": 2}),
                json!({"a": 1}),
                vec!["spec.b"],
            ),
            (
                "any field",
                json!({"additionalProperties": number}),
                json!({"a": 1, "b": 2}),
                json!({"a": 1, "b": 2}),
                vec![],
            ),
            (
                "values of any field are described",
                json!({"additionalProperties": {"type": "object", "properties": {"x": number}}}),
                json!({"a": {"x": 1, "y": 2}}),
                json!({"a": {"x": 1}}),
                vec!["spec.a.y"],
            ),
            (
                "undescribed values lose their fields",
                json!({"additionalProperties": true}),
                json!({"a": {"x": 1}, "b": 1}),
                json!({"a": {}, "b": 1}),
                vec!["spec.a.x"],
            ),
            (
                "preserved",
                json!({"x-kubernetes-preserve-unknown-fields": true}),
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1}}),
                vec![],
            ),
            (
                "declared inside preserved",
                json!({"x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"properties": {"x": number}}}}),
                json!({"a": {"x": 1, "y": 2}, "b": 1}),
                json!({"a": {"x": 1}, "b": 1}),
                vec!["spec.a.y"],
            ),
            (
                "in a list",
                json!({"properties": {"l": {"items": {"properties": {"x": number}}}}}),
                json!({"l": [{"x": 1}, {"x": 1, "y": 1}]}),
                json!({"l": [{"x": 1}, {"x": 1}]}),
                vec!["spec.l[1].y"],
            ),
            (
                "a preserving list passes it on to its items",
                json!({"properties": {"l": {"x-kubernetes-preserve-unknown-fields": true, "items": {"properties": {}}}}}),
                json!({"l": [{"y": 1}]}),
                json!({"l": [{"y": 1}]}),
                vec![],
            ),
            (
                "an embedded resource",
                json!({"properties": {"t": {"x-kubernetes-embedded-resource": true, "properties": {"x": number}}}}),
                json!({"t": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "q": 1, "labels": null}, "x": 1, "y": 2}}),
                json!({"t": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "x": 1}}),
                vec!["spec.t.metadata.q", "spec.t.y"],
            ),
            (
                "scalars where an object should be",
                json!({"properties": {"a": number}}),
                json!("x"),
                json!("x"),
                vec![],
            ),
        ];
        for (name, schema, value, left, unknown) in cases {
            assert_eq!(
                pruned(schema, value),
                (left, unknown.iter().map(ToString::to_string).collect()),
                "{name}"
            );
        }
    }

    #[test]
    fn the_root_keeps_what_makes_it_an_object() {
        let schema = Schema::parse(&json!({"type": "object"})).unwrap();
        let mut object =
            json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "x": 1}, "data": 1});
        assert_eq!(schema.prune(&mut object).unwrap(), ["data", "metadata.x"]);
        assert_eq!(object, json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}}));
    }

    #[test]
    fn too_deep_a_document_is_refused() {
        let schema = Schema::parse(&json!({"type": "object"})).unwrap();
        let mut document = depth::hostile::nested(10_000);
        assert_eq!(schema.prune(&mut document), Err(TooDeep));
        depth::hostile::dismantle(document);
    }
}
