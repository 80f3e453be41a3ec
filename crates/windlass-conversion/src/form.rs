//! How single values change between the versions.
//!
//! A value that is not of the type that its field has goes through as it is: the schema of v1beta2 says then what is wrong
//! with it. Only where a value must be understood to be converted is that an error.

use serde_json::{Value, json};
use windlass_api::GoDuration;
use windlass_api::api_version;

use crate::error::ConvertError;
use crate::path::Fields;
use crate::rule::Form;
use crate::walk::Context;

/// A value of v1beta1 as v1beta2 has it, and what the conversion data have in its place.
pub(crate) fn up(
    value: Option<Value>,
    form: Form,
    data: Option<&Value>,
    context: &Context<'_>,
) -> Result<Option<Value>, ConvertError> {
    let explicit = |nothing: Value| data.filter(|data| **data == nothing).cloned();
    Ok(match form {
        Form::Flag => match value {
            None | Some(Value::Bool(false)) => explicit(json!(false)),
            value => value,
        },
        Form::Count => match value {
            Some(value) if value != 0 => Some(value),
            _ => explicit(json!(0)),
        },
        Form::NonZero => value.filter(|value| *value != 0),
        Form::Seconds => value.map(|value| to_seconds(&value, context)).transpose()?,
        Form::PlainSeconds => {
            let seconds = value.map(|value| to_seconds(&value, context)).transpose()?;
            seconds.filter(|seconds| *seconds != 0).or_else(|| explicit(json!(0)))
        }
        Form::ProviderRef => match value {
            Some(Value::Object(reference)) => Some(provider_ref_up(reference, context)?),
            value => value,
        },
        Form::TemplateRef => value.map(|value| only(value, &["apiVersion", "kind", "name"])),
        Form::NodeRef => value.map(|value| only(value, &["name"])),
        Form::Args => value.map(args_up),
        Form::NamedObjects => value.map(named_objects_up),
        // Only the conversion data know whether a Machine is being updated.
        Form::Phase => data.cloned().or(value),
        Form::Schema => value.map(|schema| schema_up(schema, data)),
        Form::Same | Form::Object(_) | Form::List(..) => value,
    })
}

/// A value of v1beta2 as v1beta1 has it.
pub(crate) fn down(value: Value, form: Form, context: &Context<'_>) -> Result<Option<Value>, ConvertError> {
    Ok(match form {
        Form::Flag => Some(value).filter(|value| *value != false),
        Form::Count => Some(value).filter(|value| *value != 0),
        Form::Seconds => Some(to_duration(&value, context)?),
        Form::PlainSeconds => match value == 0 {
            true => None,
            false => Some(to_duration(&value, context)?),
        },
        Form::ProviderRef => match value {
            Value::Object(reference) => Some(provider_ref_down(reference, context)?),
            value => Some(value),
        },
        Form::TemplateRef => Some(with_namespace(value, context)),
        Form::NodeRef => Some(match value {
            Value::Object(mut node) => {
                node.insert("apiVersion".to_owned(), "v1".into());
                node.insert("kind".to_owned(), "Node".into());
                Value::Object(node)
            }
            value => value,
        }),
        Form::Args => Some(args_down(value)),
        Form::NamedObjects => Some(named_objects_down(value)),
        Form::Phase => Some(if value == "Updating" { "Running".into() } else { value }),
        Form::Schema => Some(schema_down(value)),
        Form::NonZero | Form::Same | Form::Object(_) | Form::List(..) => Some(value),
    })
}

/// Whole seconds of a duration, as many as an int32 can say.
pub(crate) fn to_seconds(value: &Value, context: &Context<'_>) -> Result<Value, ConvertError> {
    let text = value.as_str().ok_or_else(|| wrong_type(value, "a duration such as 10m", context))?;
    let duration: GoDuration = text
        .parse()
        .map_err(|source| ConvertError::InvalidDuration { field: context.path.clone(), source })?;
    let seconds = duration.as_nanos() / NANOSECONDS;
    Ok(seconds.clamp(i64::from(i32::MIN), i64::from(i32::MAX)).into())
}

/// So many seconds as Go prints them.
pub(crate) fn to_duration(value: &Value, context: &Context<'_>) -> Result<Value, ConvertError> {
    let seconds = value.as_i64().ok_or_else(|| wrong_type(value, "a number of seconds", context))?;
    Ok(GoDuration::from_nanos(seconds.saturating_mul(NANOSECONDS)).to_string().into())
}

const NANOSECONDS: i64 = 1_000_000_000;

fn wrong_type(value: &Value, expected: &'static str, context: &Context<'_>) -> ConvertError {
    ConvertError::WrongType { field: context.path.clone(), expected, value: value.to_string() }
}

fn only(value: Value, names: &[&str]) -> Value {
    match value {
        Value::Object(mut fields) => {
            fields.retain(|name, _| names.contains(&name.as_str()));
            Value::Object(fields)
        }
        value => value,
    }
}

fn provider_ref_up(mut reference: Fields, context: &Context<'_>) -> Result<Value, ConvertError> {
    let mut made = Fields::new();
    if let Some(api_version) = reference.get("apiVersion").and_then(Value::as_str) {
        let (group, version) = api_version::split(api_version);
        if version.contains('/') {
            let (field, value) = (context.field("apiVersion"), api_version.to_owned());
            return Err(ConvertError::InvalidApiVersion { field, value });
        }
        if !group.is_empty() {
            made.insert("apiGroup".to_owned(), group.into());
        }
    }
    for name in ["kind", "name"] {
        if let Some(value) = reference.remove(name) {
            made.insert(name.to_owned(), value);
        }
    }
    Ok(Value::Object(made))
}

fn provider_ref_down(mut reference: Fields, context: &Context<'_>) -> Result<Value, ConvertError> {
    let group = reference.remove("apiGroup");
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, kind) = (text(group.as_ref()), text(reference.get("kind")));
    // An API server also asks for fragments, which have some of the fields.
    if !group.is_empty() && !kind.is_empty() {
        let Some(version) = context.contracts.newest_version(&group, &kind) else {
            return Err(ConvertError::NoContract { field: context.path.clone(), group, kind });
        };
        reference.insert("apiVersion".to_owned(), format!("{group}/{version}").into());
    }
    Ok(with_namespace(Value::Object(reference), context))
}

fn with_namespace(reference: Value, context: &Context<'_>) -> Value {
    match (reference, context.namespace) {
        (Value::Object(mut fields), Some(namespace)) if !fields.is_empty() => {
            fields.insert("namespace".to_owned(), namespace.into());
            Value::Object(fields)
        }
        (reference, _) => reference,
    }
}

fn args_up(value: Value) -> Value {
    match value {
        Value::Object(args) => {
            // A map of serde_json may keep the order of the file.
            let mut args: Vec<_> = args.into_iter().collect();
            args.sort_by(|(left, _), (right, _)| left.cmp(right));
            args.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
        }
        value => value,
    }
}

fn args_down(value: Value) -> Value {
    match value {
        Value::Array(args) => {
            let named = args.into_iter().filter_map(|arg| {
                let value = arg.get("value").cloned().unwrap_or_else(|| "".into());
                Some((arg.get("name")?.as_str()?.to_owned(), value))
            });
            // Of a name that is there twice, the last one.
            Value::Object(named.collect())
        }
        value => value,
    }
}

fn named_objects_up(value: Value) -> Value {
    match value {
        Value::Object(objects) => {
            let mut objects: Vec<_> = objects.into_iter().collect();
            objects.sort_by(|(left, _), (right, _)| left.cmp(right));
            let named = objects.into_iter().map(|(name, object)| {
                let mut fields = match object {
                    Value::Object(fields) => fields,
                    _ => Fields::new(),
                };
                fields.insert("name".to_owned(), name.into());
                Value::Object(fields)
            });
            named.collect()
        }
        value => value,
    }
}

fn named_objects_down(value: Value) -> Value {
    match value {
        Value::Array(objects) => {
            let named = objects.into_iter().filter_map(|object| {
                let Value::Object(mut fields) = object else { return None };
                let Some(Value::String(name)) = fields.remove("name") else { return None };
                Some((name, Value::Object(fields)))
            });
            Value::Object(named.collect())
        }
        value => value,
    }
}

/// The booleans of a schema that v1beta1 cannot tell from their absence.
const SCHEMA_FLAGS: [&str; 5] = [
    "uniqueItems",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
];
/// Where schemas are in a schema: one, a list, or a map.
const SCHEMAS: [&str; 3] = ["items", "additionalProperties", "not"];
const SCHEMA_LISTS: [&str; 3] = ["allOf", "oneOf", "anyOf"];
const SCHEMA_MAPS: [&str; 1] = ["properties"];

fn schema_up(schema: Value, data: Option<&Value>) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    for name in SCHEMA_FLAGS {
        if schema.get(name).is_none_or(|flag| flag.is_null() || *flag == false) {
            schema.remove(name);
            if data.is_some_and(|data| data.get(name) == Some(&json!(false))) {
                schema.insert(name.to_owned(), false.into());
            }
        }
    }
    let counterpart = |name: &str| data.and_then(|data| data.get(name));
    each_schema(&mut schema, |name, inner, place| {
        let data = counterpart(name).and_then(|data| match place {
            Place::Only => Some(data),
            Place::Index(index, count) => {
                data.as_array().filter(|list| list.len() == count).and_then(|list| list.get(index))
            }
            Place::Name(name) => data.get(name),
        });
        schema_up(inner, data)
    });
    Value::Object(schema)
}

fn schema_down(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    for name in SCHEMA_FLAGS {
        if schema.get(name) == Some(&json!(false)) {
            schema.remove(name);
        }
    }
    each_schema(&mut schema, |_, inner, _| schema_down(inner));
    Value::Object(schema)
}

/// Where a schema is in the field of another.
enum Place<'a> {
    Only,
    Index(usize, usize),
    Name(&'a str),
}

fn each_schema(schema: &mut Fields, mut change: impl FnMut(&str, Value, Place<'_>) -> Value) {
    for name in SCHEMAS {
        if let Some(inner) = schema.get_mut(name).filter(|inner| inner.is_object()) {
            *inner = change(name, inner.take(), Place::Only);
        }
    }
    for name in SCHEMA_LISTS {
        let Some(Value::Array(list)) = schema.get_mut(name) else { continue };
        let count = list.len();
        for (index, inner) in list.iter_mut().enumerate() {
            *inner = change(name, inner.take(), Place::Index(index, count));
        }
    }
    for name in SCHEMA_MAPS {
        let Some(Value::Object(map)) = schema.get_mut(name) else { continue };
        for (key, inner) in map.iter_mut() {
            *inner = change(name, inner.take(), Place::Name(key));
        }
    }
}
