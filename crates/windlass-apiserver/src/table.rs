//! Tables and bare metadata: objects as people and as controllers with little memory see them.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_store as store;

use crate::api::Failure;
use crate::registry::{Cell, Column, JsonPath, Resource, text};
use crate::time;

/// How much of each object a row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(name: &str) -> Result<Self, Failure> {
        match name {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::Nothing),
            "Object" => Ok(Self::Object),
            _ => Err(Failure::bad_request(format!("unrecognized includeObject value: {name:?}"))),
        }
    }
}

const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, \
    although some resources may allow a client to request the generation of an appropriate name automatically. \
    Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More \
    info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// A table of objects.
pub(crate) struct Table<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) include: Include,
    pub(crate) now: Timestamp,
}

impl Table<'_> {
    /// How the columns are described.
    pub(crate) fn columns(&self) -> Value {
        let name = json!({"name": "Name", "type": "string", "format": "name", "description": NAME_DESCRIPTION,
            "priority": 0});
        let column = |column: &Column| {
            json!({"name": column.name, "type": column.ty, "format": column.format,
                "description": column.description, "priority": column.priority})
        };
        let columns = self.resource.columns.iter().map(column);
        Some(name).filter(|_| self.starts_with_name()).into_iter().chain(columns).collect()
    }

    /// Events have their name at the end, where people need not see it.
    fn starts_with_name(&self) -> bool {
        self.resource.strategy.custom || !self.resource.columns.iter().any(|column| column.name == "Name")
    }

    /// The row of an object.
    pub(crate) fn row(&self, object: &store::Object) -> Result<Value, Failure> {
        let value = self.resource.value(object)?;
        self.row_of(value)
    }

    /// The row of an object that is not in the store.
    pub(crate) fn row_of(&self, value: Value) -> Result<Value, Failure> {
        let name = value["metadata"]["name"].clone();
        let cells = self.resource.columns.iter().map(|column| self.cell(column, &value));
        let name = Some(name).filter(|_| self.starts_with_name());
        let cells: Vec<Value> = name.into_iter().chain(cells).collect();
        let object = match self.include {
            Include::Nothing => Value::Null,
            Include::Object => value,
            Include::Metadata => partial(&value),
        };
        Ok(json!({"cells": cells, "object": object}))
    }

    fn cell(&self, column: &Column, object: &Value) -> Value {
        let count = |path: &JsonPath| match path.first(object) {
            Some(Value::Object(fields)) => fields.len(),
            Some(Value::Array(items)) => items.len(),
            _ => 0,
        };
        match &column.cell {
            Cell::Count(path) => count(path).into(),
            Cell::Number(path) => path.first(object).and_then(Value::as_i64).unwrap_or_default().into(),
            Cell::Made(make) => make(object, self.now),
            Cell::Age(path) => match path.first(object).and_then(Value::as_str).map(time::parse) {
                Some(Some(since)) => time::age(since, self.now).into(),
                Some(None) => "<invalid>".into(),
                // A column of a CRD stays empty; those of built-in kinds say that they do not know.
                None if column.ty == "date" => Value::Null,
                None => "<unknown>".into(),
            },
            Cell::Path(path) => match (column.ty.as_str(), path.first(object)) {
                ("string", None) if !self.resource.strategy.custom => "".into(),
                (_, None | Some(Value::Null)) => Value::Null,
                ("string", Some(value)) => text(value).into(),
                ("integer", Some(value)) => whole(value),
                ("number", Some(value)) if value.is_number() => value.clone(),
                ("boolean", Some(value)) if value.is_boolean() => value.clone(),
                ("date", Some(value)) if value.is_string() => value.clone(),
                // A value of another type than its column is not shown.
                _ => Value::Null,
            },
        }
    }

    /// What is before and after the rows of the table.
    pub(crate) fn around_rows(&self, list_meta: &Value) -> (String, String) {
        around_rows(list_meta, &self.columns())
    }

    /// The whole table.
    pub(crate) fn document(&self, list_meta: Value, rows: Vec<Value>) -> Bytes {
        document(list_meta, Some(self.columns()), rows)
    }

    /// One row as a table of its own, as watches have it. Only the first one names the columns.
    pub(crate) fn event(&self, revision: u64, row: Value, first: bool) -> Bytes {
        let columns = if first { self.columns() } else { Value::Null };
        document(json!({"resourceVersion": revision.to_string()}), Some(columns), vec![row])
    }
}

fn whole(value: &Value) -> Value {
    match value.as_i64() {
        Some(number) => number.into(),
        None => value.as_f64().map_or(Value::Null, |number| (number as i64).into()),
    }
}

fn document(list_meta: Value, columns: Option<Value>, rows: Vec<Value>) -> Bytes {
    let (head, tail) = around_rows(&list_meta, &columns.unwrap_or_default());
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    [head, rows.join(","), tail].concat().into()
}

fn around_rows(list_meta: &Value, columns: &Value) -> (String, String) {
    let head = format!(
        r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{list_meta},"columnDefinitions":{columns},"rows":["#
    );
    (head, "]}".to_owned())
}

/// Only the metadata of an object.
pub(crate) fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// Only the metadata of an object, without taking the rest of it apart.
pub(crate) fn partial_bytes(object: &[u8]) -> Result<Bytes, Failure> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let envelope: Envelope<'_> = serde_json::from_slice(object).map_err(Failure::internal)?;
    let metadata = envelope.metadata.get();
    let text =
        format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#);
    Ok(text.into())
}
