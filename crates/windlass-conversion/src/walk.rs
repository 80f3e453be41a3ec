//! Follows the rules of a table through an object, up to v1beta2 or down to v1beta1.

use serde_json::Value;

use crate::convert::Contracts;
use crate::error::ConvertError;
use crate::form;
use crate::path::{Fields, get, merge, put, take};
use crate::rule::{Form, Pairing, Rule};

/// What conversions need to know beside the value.
pub(crate) struct Context<'a> {
    /// The path of the object that is being converted, for errors.
    pub(crate) path: String,
    /// The namespace of the whole object.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) contracts: &'a dyn Contracts,
}

impl Context<'_> {
    /// The same for a field.
    fn below_field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { path, ..*self }
    }

    fn below_element(&self, index: usize) -> Self {
        Self { path: format!("{}[{index}]", self.path), ..*self }
    }

    /// The whole path of a field.
    pub(crate) fn field(&self, name: &str) -> String {
        self.below_field(name).path
    }
}

/// From v1beta1 to v1beta2. `data` is what the conversion data have in the place of this object.
pub(crate) fn up(
    mut source: Fields,
    rules: &[Rule],
    data: Option<&Fields>,
    context: &Context<'_>,
) -> Result<Fields, ConvertError> {
    let mut made = Fields::new();
    follow_up(&mut source, &mut made, rules, data, context)?;
    merge(&mut made, source);
    Ok(made)
}

fn follow_up(
    source: &mut Fields,
    made: &mut Fields,
    rules: &[Rule],
    data: Option<&Fields>,
    context: &Context<'_>,
) -> Result<(), ConvertError> {
    for rule in rules {
        match *rule {
            Rule::Move { old, new, form } => {
                let value = take(source, old);
                let data = data.and_then(|data| get(data, new));
                if let Some(value) = up_value(value, form, data, &context.below_field(old))? {
                    put(made, new, value);
                }
            }
            Rule::Lost(old) => drop(take(source, old)),
            Rule::Kept(new) => {
                drop(take(source, new));
                if let Some(value) = data.and_then(|data| get(data, new)) {
                    put(made, new, value.clone());
                }
            }
            Rule::All(rules) => follow_up(source, made, rules, data, context)?,
            Rule::Code(code) => (code.up)(source, made, data, context)?,
        }
    }
    Ok(())
}

fn up_value(
    value: Option<Value>,
    form: Form,
    data: Option<&Value>,
    context: &Context<'_>,
) -> Result<Option<Value>, ConvertError> {
    match (form, value) {
        (Form::Object(rules), None) => {
            let Some(data) = data.and_then(Value::as_object) else { return Ok(None) };
            let made = up(Fields::new(), rules, Some(data), context)?;
            Ok((!made.is_empty()).then_some(Value::Object(made)))
        }
        (Form::Object(rules), Some(Value::Object(source))) => {
            up(source, rules, data.and_then(Value::as_object), context).map(|made| Some(Value::Object(made)))
        }
        (Form::List(rules, pairing), Some(Value::Array(elements))) => {
            let partners = data.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let count = elements.len();
            let made = elements.into_iter().enumerate().map(|(index, element)| match element {
                Value::Object(source) => {
                    let partner = match pairing {
                        Pairing::Place => partners.get(index).filter(|_| partners.len() == count),
                        Pairing::Key(key) => source
                            .get(key)
                            .and_then(|name| partners.iter().find(|partner| partner.get(key) == Some(name))),
                    };
                    let partner = partner.and_then(Value::as_object);
                    up(source, rules, partner, &context.below_element(index)).map(Value::Object)
                }
                other => Ok(other),
            });
            made.collect::<Result<Vec<_>, _>>().map(|made| Some(Value::Array(made)))
        }
        (form, value) => form::up(value, form, data, context),
    }
}

/// From v1beta2 to v1beta1.
pub(crate) fn down(
    mut source: Fields,
    rules: &[Rule],
    context: &Context<'_>,
) -> Result<Fields, ConvertError> {
    let mut made = Fields::new();
    follow_down(&mut source, &mut made, rules, context)?;
    merge(&mut made, source);
    Ok(made)
}

fn follow_down(
    source: &mut Fields,
    made: &mut Fields,
    rules: &[Rule],
    context: &Context<'_>,
) -> Result<(), ConvertError> {
    for rule in rules {
        match *rule {
            Rule::Move { old, new, form } => {
                let Some(value) = take(source, new) else { continue };
                if let Some(value) = down_value(value, form, &context.below_field(new))? {
                    put(made, old, value);
                }
            }
            Rule::Lost(_) => {}
            Rule::Kept(new) => drop(take(source, new)),
            Rule::All(rules) => follow_down(source, made, rules, context)?,
            Rule::Code(code) => (code.down)(source, made, context)?,
        }
    }
    Ok(())
}

fn down_value(value: Value, form: Form, context: &Context<'_>) -> Result<Option<Value>, ConvertError> {
    match (form, value) {
        (Form::Object(rules), Value::Object(source)) => {
            down(source, rules, context).map(|made| Some(Value::Object(made)))
        }
        (Form::List(rules, _), Value::Array(elements)) => {
            let made = elements.into_iter().enumerate().map(|(index, element)| match element {
                Value::Object(source) => {
                    down(source, rules, &context.below_element(index)).map(Value::Object)
                }
                other => Ok(other),
            });
            made.collect::<Result<Vec<_>, _>>().map(|made| Some(Value::Array(made)))
        }
        (form, value) => form::down(value, form, context),
    }
}
