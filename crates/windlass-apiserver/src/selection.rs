//! Which objects a list, a watch or a deletion is about.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;
use windlass_api::label_selector::Selector;
use windlass_store as store;

use crate::api::{Failure, Query};
use crate::machinery::{FieldRequirement, FieldSelector};
use crate::registry::{Conversion, Resource, Selectable, text};
use crate::stored::{meta, parse};

/// A label selector and a field selector, checked against a resource.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    labels: Selector,
    fields: Vec<FieldTest>,
}

#[derive(Debug, Clone)]
struct FieldTest {
    field: Field,
    equal: bool,
    value: String,
}

#[derive(Debug, Clone)]
enum Field {
    Name,
    Namespace,
    Known(Selectable),
}

impl Selection {
    /// What a query selects. `name` is the object that the path names, if it names one.
    pub(crate) fn parse(resource: &Resource, query: &Query, name: Option<&str>) -> Result<Self, Failure> {
        let bad_request = |error: &dyn std::fmt::Display| Failure::bad_request(error.to_string());
        let labels = Selector::parse(&query.label_selector).map_err(|error| bad_request(&error))?;
        let find = |name: &str| match name {
            "metadata.name" => Some(Field::Name),
            "metadata.namespace" if resource.namespaced || !resource.strategy.custom => {
                Some(Field::Namespace)
            }
            name => {
                let known = resource.selectable.iter().find(|known| known.name == name);
                known.map(|known| Field::Known(known.clone()))
            }
        };
        let requirements = FieldSelector::parse(&query.field_selector, |name| find(name).is_some())
            .map_err(|error| bad_request(&error))?;
        let test = |requirement: &FieldRequirement| {
            let FieldRequirement { field, value, negated } = requirement;
            Some(FieldTest { field: find(field)?, equal: !negated, value: value.clone() })
        };
        let mut fields: Vec<FieldTest> = requirements.requirements().iter().filter_map(test).collect();
        if let Some(name) = name {
            fields.push(FieldTest { field: Field::Name, equal: true, value: name.to_owned() });
        }
        Ok(Self { labels, fields })
    }

    /// Whether everything is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty()
    }

    /// Whether an object is selected. One that cannot be read is not.
    pub(crate) fn contains(&self, resource: &Resource, object: &store::Object) -> bool {
        if !self.labels.is_everything() && !self.labels.matches(&meta(object).labels) {
            return false;
        }
        let mut body = None;
        self.fields.iter().all(|test| {
            let equal = match &test.field {
                Field::Name => object.key().name() == test.value,
                Field::Namespace => object.key().namespace() == test.value,
                Field::Known(field) => {
                    let body = body.get_or_insert_with(|| read(resource, object));
                    field.path.first(body).map_or_else(|| field.absent.to_owned(), text) == test.value
                }
            };
            equal == test.equal
        })
    }
}

fn read(resource: &Resource, object: &store::Object) -> Value {
    // Events of both groups are selected by the names that the core group has for fields.
    let read = match resource.conversion {
        Conversion::Events => parse(object),
        _ => resource.value(object),
    };
    read.unwrap_or_default()
}

/// Whether the selector of an object selects labels. An absent one selects everything, and so does one that is not valid:
/// it is safer to ask once too often.
pub(crate) fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let selector = LabelSelector::deserialize(selector).ok();
    selector
        .and_then(|selector| Selector::compile(Some(&selector)).ok())
        .is_none_or(|selector| selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_that_is_absent_or_not_valid_selects_everything() {
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        for (selector, expected) in [
            (Value::Null, true),
            (json!({}), true),
            (json!({"matchLabels": {"a": "b"}}), true),
            (json!({"matchLabels": {"a": "c"}}), false),
            (expression("In", json!(["b", "c"])), true),
            (expression("DoesNotExist", Value::Null), false),
            // An operator that does not exist, and values that no label has.
            (expression("Like", json!(["b"])), true),
            (expression("In", json!([])), true),
            (expression("In", json!(["c,d"])), true),
            (json!("a=c"), true),
        ] {
            assert_eq!(selects(&selector, &labels), expected, "{selector}");
        }
    }
}
