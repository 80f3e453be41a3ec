//! Which element of the old list an element of the new list replaces.

use std::collections::BTreeMap;

use serde_json::Value;

use super::structural::{ListType, Schema};
use crate::json::Ordered;

/// The old list behind a new one.
pub(super) struct Items<'a> {
    old: &'a [Value],
    schema: &'a Schema,
    /// The old elements by their keys, if they have keys: lists may be too long to search.
    by_keys: BTreeMap<Keys<'a>, &'a Value>,
}

/// The values of the key fields, in the order of the fields.
type Keys<'a> = Vec<Option<Ordered<&'a Value>>>;

impl<'a> Items<'a> {
    pub(super) fn new(old: Option<&'a Value>, schema: &'a Schema) -> Self {
        let old = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut by_keys = BTreeMap::new();
        if let Some(ListType::Map(names)) = &schema.list_type {
            // The first of several with the same keys.
            for item in old.iter().rev() {
                by_keys.insert(keys(names, item, schema), item);
            }
        }
        Items { old, schema, by_keys }
    }

    /// For telling what an update leaves alone: by key in a map, by position in a plain list, not at
    /// all in sets and lists declared atomic.
    pub(super) fn for_validation(&self, index: usize, item: &Value) -> Option<&'a Value> {
        match &self.schema.list_type {
            Some(_) => self.for_rules(item),
            None => self.old.get(index),
        }
    }

    /// For `oldSelf` in rules: only elements of maps have an old self.
    pub(super) fn for_rules(&self, item: &Value) -> Option<&'a Value> {
        match &self.schema.list_type {
            Some(ListType::Map(names)) => self.by_keys.get(&keys(names, item, self.schema)).copied(),
            _ => None,
        }
    }
}

fn keys<'v>(names: &[String], item: &'v Value, schema: &'v Schema) -> Keys<'v> {
    let default = |name: &str| schema.items.as_ref()?.properties.get(name)?.default.as_ref();
    names.iter().map(|name| item.get(name).or_else(|| default(name)).map(Ordered)).collect()
}
