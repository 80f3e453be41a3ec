//! The walk over an object that evaluates the rules it meets.

use std::cell::OnceCell;
use std::sync::Arc;

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{self, ExecutionError};
use serde_json::Value;

use super::convert::to_cel;
use super::meter::{Budget, Stopped};
use super::{Compiled, Node};
use crate::cause::{Cause, FieldPath, Reason};
use crate::json;
use crate::schema::ratchet;
use crate::schema::structural::{Additional, Schema, Type};

/// The longest message an expression may produce; longer ones fall back to the fixed message.
const MAX_MESSAGE: usize = 5 * 1024;

pub(super) fn evaluate(
    budget: &mut Budget,
    root: &Node,
    schema: &Schema,
    object: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let mut walk = Walk { path: FieldPath::default(), causes: Vec::new(), budget, stopped: false };
    walk.node(root, schema, Subject { value: object, old_self: old, replaces: old, unchanged_above: false });
    walk.causes
}

/// A value on the way, and what it was before.
#[derive(Clone, Copy)]
struct Subject<'a> {
    value: &'a Value,
    /// What `oldSelf` is.
    old_self: Option<&'a Value>,
    /// The old value to compare with. Differs from `old_self` in plain lists, whose elements have a
    /// position to compare by but no identity.
    replaces: Option<&'a Value>,
    /// Whether something that contains this value, and can be compared, did not change.
    unchanged_above: bool,
}

impl Subject<'_> {
    fn is_unchanged(&self) -> bool {
        self.replaces.map_or(self.unchanged_above, |old| json::equal(old, self.value))
    }
}

struct Walk<'b> {
    path: FieldPath,
    causes: Vec<Cause>,
    budget: &'b mut Budget,
    /// Whether a rule cost too much, so that no other is evaluated.
    stopped: bool,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, schema: &Schema, subject: Subject<'_>) {
        // A rule on a nullable value is about the value, not about its absence.
        if subject.value.is_null() || self.stopped {
            return;
        }
        self.rules(node, schema, subject);
        match subject.value {
            Value::Object(fields) => {
                let additional = match (&node.additional, &schema.additional) {
                    (Some(node), Some(Additional::Schema(schema))) => Some((node.as_ref(), schema.as_ref())),
                    _ => None,
                };
                let unchanged_above = subject.is_unchanged();
                for (name, value) in fields {
                    let (child, child_schema, mark) = match schema.properties.get(name) {
                        Some(schema) => match node.properties.get(name) {
                            Some(node) => (node, schema, self.path.push(name)),
                            None => continue,
                        },
                        None => match additional {
                            Some((node, schema)) => (node, schema, self.path.push_key(name)),
                            None => continue,
                        },
                    };
                    let old_self =
                        subject.old_self.filter(|_| !schema.atomic_map).and_then(|old| old.get(name));
                    let replaces = subject.replaces.and_then(|old| old.get(name));
                    self.node(child, child_schema, Subject { value, old_self, replaces, unchanged_above });
                    self.path.pop(mark);
                }
            }
            Value::Array(items) => {
                let (Some(child), Some(child_schema)) = (&node.items, &schema.items) else { return };
                let identified = ratchet::Items::new(subject.old_self, schema);
                let compared = ratchet::Items::new(subject.replaces, schema);
                let unchanged_above = subject.is_unchanged();
                for (index, value) in items.iter().enumerate() {
                    let mark = self.path.push_index(index);
                    let old_self = identified.for_rules(value);
                    let replaces = compared.for_validation(index, value);
                    self.node(child, child_schema, Subject { value, old_self, replaces, unchanged_above });
                    self.path.pop(mark);
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, node: &Node, schema: &Schema, subject: Subject<'_>) {
        let this = OnceCell::new();
        let old = OnceCell::new();
        for rule in &node.rules {
            let transition = rule.condition.uses_old_self();
            if transition && subject.old_self.is_none() && !rule.source.optional_old_self {
                continue;
            }
            let this = this.get_or_init(|| to_cel(subject.value, Some(schema)));
            let old = if transition {
                let old = old.get_or_init(|| subject.old_self.map(|old| to_cel(old, Some(schema))));
                if rule.source.optional_old_self { Some(optional(old.clone())) } else { old.clone() }
            } else {
                None
            };
            let result = match rule.condition.evaluate(this, old.as_ref(), self.budget) {
                Ok(result) => result,
                Err(why) => return self.stop(why, rule, schema),
            };
            match result {
                Ok(cel::Value::Bool(true)) => {}
                Ok(cel::Value::Bool(false)) => {
                    if transition || !subject.is_unchanged() {
                        let cause = self.broken(rule, schema, subject.value, this, old.as_ref());
                        self.causes.push(cause);
                    }
                }
                Ok(_) => self.failed(schema, &format!("rule is not a condition: {}", rule.said())),
                Err(ExecutionError::NoSuchOverload) => self.failed(
                    schema,
                    &format!(
                        "'no such overload': call arguments did not match a supported operator, function or \
                         macro signature for rule: {}",
                        rule.said()
                    ),
                ),
                Err(error) => {
                    self.failed(schema, &format!("{} evaluating rule: {}", describe(&error), rule.said()))
                }
            }
        }
    }

    fn failed(&mut self, schema: &Schema, detail: &str) {
        let ty = schema.ty.map_or("", Type::as_str);
        self.causes.push(Cause::invalid(self.path.field(), &Value::from(ty), detail));
    }

    /// Says that a rule cost too much. No other rule is evaluated after it.
    fn stop(&mut self, why: Stopped, rule: &Compiled, schema: &Schema) {
        self.stopped = true;
        let detail = match why {
            Stopped::PerCall => format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due \
                 to call cost exceeds limit for rule: {}",
                rule.said()
            ),
            Stopped::PerRequest => {
                "validation failed due to running out of cost budget, no further validation \
                                    rules will be run"
                    .to_owned()
            }
        };
        self.failed(schema, &detail);
    }

    fn broken(
        &mut self,
        rule: &Compiled,
        schema: &Schema,
        value: &Value,
        this: &cel::Value,
        old: Option<&cel::Value>,
    ) -> Cause {
        let field = match &rule.blamed {
            Some(blamed) if blamed.starts_with('[') => format!("{}{blamed}", self.path.as_str()),
            Some(blamed) => self.path.join(blamed),
            None => self.path.field(),
        };
        let detail = rule.message(this, old, self.budget);
        let composite = matches!(schema.ty, Some(Type::Object | Type::Array));
        match rule.source.reason.as_deref() {
            Some("FieldValueForbidden") => Cause::forbidden(field, detail),
            Some("FieldValueRequired") => Cause::required(field, detail),
            Some("FieldValueDuplicate") if composite => {
                Cause { reason: Reason::Duplicate, field, message: "Duplicate value".into() }
            }
            Some("FieldValueDuplicate") => Cause::duplicate(field, value),
            _ if composite => Cause::invalid_unprinted(field, detail),
            _ => Cause::invalid(field, value, detail),
        }
    }
}

impl Compiled {
    /// The rule in an error: its message if it has one, or else its text.
    fn said(&self) -> &str {
        self.source.message.as_deref().unwrap_or(&self.source.rule).trim()
    }

    /// What to say about a broken rule. A message expression that fails or produces something
    /// unprintable is no reason to say nothing.
    fn message(&self, this: &cel::Value, old: Option<&cel::Value>, budget: &mut Budget) -> String {
        let computed = self.message.as_ref().and_then(|message| match message.evaluate(this, old, budget) {
            Ok(Ok(cel::Value::String(text))) => Some(text.trim().to_owned()),
            _ => None,
        });
        let printable = |text: &String| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        computed.filter(printable).unwrap_or_else(|| match &self.source.message {
            Some(message) => message.trim().to_owned(),
            None => format!("failed rule: {}", self.source.rule.trim()),
        })
    }
}

fn optional(value: Option<cel::Value>) -> cel::Value {
    let optional = value.map_or_else(OptionalValue::none, OptionalValue::of);
    cel::Value::Opaque(Arc::new(optional))
}

/// Errors in CEL's own words; the evaluator capitalises its messages.
fn describe(error: &ExecutionError) -> String {
    let text = error.to_string();
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}
