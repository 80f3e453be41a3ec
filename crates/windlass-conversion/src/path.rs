//! Fields of an object by their path, such as `topology.controlPlane`.

use serde_json::{Map, Value};

pub(crate) type Fields = Map<String, Value>;

/// The value at a path; null is no value.
pub(crate) fn get<'v>(fields: &'v Fields, path: &str) -> Option<&'v Value> {
    let (parents, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut fields = fields;
    for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
        fields = fields.get(parent)?.as_object()?;
    }
    fields.get(name).filter(|value| !value.is_null())
}

/// Takes the value at a path away, and with it the parents that have nothing left.
pub(crate) fn take(fields: &mut Fields, path: &str) -> Option<Value> {
    let taken = match path.split_once('.') {
        None => fields.remove(path),
        Some((parent, rest)) => {
            let inner = fields.get_mut(parent)?.as_object_mut()?;
            let taken = take(inner, rest);
            if taken.is_some() && inner.is_empty() {
                fields.remove(parent);
            }
            taken
        }
    };
    taken.filter(|value| !value.is_null())
}

/// Puts a value at a path. Objects grow together; otherwise what is there stays.
pub(crate) fn put(fields: &mut Fields, path: &str, value: Value) {
    match path.split_once('.') {
        None => merge_one(fields, path, value),
        Some((parent, rest)) => {
            let inner = fields.entry(parent).or_insert_with(|| Value::Object(Fields::new()));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// Adds fields to an object, below what it has already.
pub(crate) fn merge(fields: &mut Fields, more: Fields) {
    for (name, value) in more {
        merge_one(fields, &name, value);
    }
}

fn merge_one(fields: &mut Fields, name: &str, value: Value) {
    match (fields.get_mut(name), value) {
        (Some(Value::Object(there)), Value::Object(more)) => merge(there, more),
        (Some(_), _) => {}
        (None, value) => {
            fields.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn taking_the_last_field_takes_its_parents() {
        let mut object = fields(json!({"a": {"b": {"c": 1}, "d": null}, "e": {}}));
        assert_eq!(take(&mut object, "a.b.c"), Some(json!(1)));
        assert_eq!(Value::Object(object.clone()), json!({"a": {"d": null}, "e": {}}));
        assert_eq!(take(&mut object, "a.d"), None);
        assert_eq!(take(&mut object, "x.y"), None);
    }

    #[test]
    fn what_is_there_stays_when_more_is_put() {
        let mut object = fields(json!({"a": {"b": 1}}));
        put(&mut object, "a", json!({"b": 2, "c": 3}));
        put(&mut object, "a.d.e", json!(4));
        put(&mut object, "a.b.x", json!(5));
        assert_eq!(Value::Object(object), json!({"a": {"b": 1, "c": 3, "d": {"e": 4}}}));
    }
}
