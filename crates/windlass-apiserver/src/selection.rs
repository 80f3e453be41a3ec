//! Which objects a list, a watch or a deletion is about.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_store as store;

use crate::api::{Failure, Query};
use crate::machinery::{FieldRequirement, FieldSelector, LabelSelector};
use crate::registry::{Conversion, Resource, Selectable, text};
use crate::stored::{meta, parse};

/// A label selector and a field selector, checked against a resource.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    labels: LabelSelector,
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
        let labels = LabelSelector::parse(&query.label_selector).map_err(|error| bad_request(&error))?;
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
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected. One that cannot be read is not.
    pub(crate) fn contains(&self, resource: &Resource, object: &store::Object) -> bool {
        if !self.labels.is_empty() {
            let meta = meta(object);
            if !self.labels.matches(|label| meta.labels.get(label).map(String::as_str)) {
                return false;
            }
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

/// Whether a selector in its object form selects labels. One that makes no sense selects everything: it is
/// safer to ask once too often.
pub(crate) fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut terms = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push(format!("{key}={}", text(value)));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let values: Vec<String> = expression["values"].as_array().into_iter().flatten().map(text).collect();
        let values = values.join(",");
        terms.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key,
            _ => format!("!{key}"),
        });
    }
    LabelSelector::parse(&terms.join(","))
        .map_or(true, |selector| selector.matches(|label| labels.get(label).map(String::as_str)))
}
