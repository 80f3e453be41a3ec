//! Validation rules: `x-kubernetes-validations`, compiled once and evaluated where they stand.
//!
//! The evaluator is the `cel` crate with Kubernetes' functions from `kube-cel`. The walk over the
//! object is ours: it visits only nodes that have rules below them, which is what makes a schema
//! with two rules cost two evaluations.

mod condition;
mod convert;
mod cost;
mod evaluate;
mod expression;
mod functions;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use self::condition::{Condition, ConditionError};
use self::expression::{Expression, Scope};
use super::structural::{Additional, Rule, Schema};
use crate::cause::{Cause, FieldPath, NO_FIELD};

/// The compiled rules of a schema.
#[derive(Debug, Clone)]
pub struct Rules {
    schema: Arc<Schema>,
    root: Option<Arc<Node>>,
}

impl Rules {
    /// Compiles every rule of a schema.
    ///
    /// What cannot be evaluated here is refused now, with the place of the rule, and not when the
    /// first object arrives: syntax, unknown functions, unknown variables, fields that the schema
    /// does not declare. `path` is where the schema stands in its CRD.
    pub fn compile(schema: &Arc<Schema>, path: &str) -> Result<Rules, Vec<Cause>> {
        if !has_rules(schema) {
            return Ok(Rules { schema: Arc::clone(schema), root: None });
        }
        let compile = || {
            let mut compiler = Compiler { path: FieldPath::new(path), causes: Vec::new() };
            let root = compiler.node(schema, true);
            if compiler.causes.is_empty() { Ok(root) } else { Err(compiler.causes) }
        };
        let compiled = with_parser_stack(compile);
        let failed = || vec![Cause::invalid_unprinted(path, "the validation rules could not be compiled")];
        let root = compiled.unwrap_or_else(|| Err(failed()))?;
        Ok(Rules { schema: Arc::clone(schema), root: root.map(Arc::new) })
    }

    /// Whether the schema has no rules at all.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The rules that an object breaks, given what validation already found wrong with it.
    ///
    /// Rules may rely on what the schema promises. If `found` says that the promise is broken, no
    /// rule is evaluated, and the answer says that instead. With `old`, rules that mention `oldSelf`
    /// are evaluated as well, and values that the update leaves alone are not held against it.
    pub fn evaluate(&self, object: &Value, old: Option<&Value>, found: &[Cause]) -> Vec<Cause> {
        let Some(root) = &self.root else { return Vec::new() };
        if found.iter().any(Cause::blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; correct \
                          the existing errors to complete validation";
            return vec![Cause::invalid(NO_FIELD, &Value::Null, detail)];
        }
        evaluate::evaluate(root, &self.schema, object, old)
    }
}

/// Runs something that parses expressions.
///
/// The parser recurses deeper than the stack of a server thread allows, and overflowing it would end the
/// process. Definitions and webhooks are written rarely enough to afford a thread of its own.
fn with_parser_stack<T: Send>(parse: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(expression::PARSER_STACK);
        thread.spawn_scoped(scope, parse).ok().and_then(|thread| thread.join().ok())
    })
}

/// The rules at one node of the schema and below it.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<Compiled>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
}

/// One rule, ready to run.
#[derive(Debug)]
struct Compiled {
    source: Rule,
    condition: Expression,
    message: Option<Expression>,
    /// `fieldPath` in the form of a cause's field.
    blamed: Option<String>,
}

struct Compiler {
    path: FieldPath,
    causes: Vec<Cause>,
}

impl Compiler {
    fn node(&mut self, schema: &Schema, is_resource: bool) -> Option<Node> {
        let mut node = Node::default();
        for (index, rule) in schema.rules.iter().enumerate() {
            let mark = self.path.push("x-kubernetes-validations");
            self.path.push_index(index);
            node.rules.extend(self.rule(rule, schema, is_resource));
            self.path.pop(mark);
        }
        for (name, field) in &schema.properties {
            let mark = self.path.push("properties");
            self.path.push_key(name);
            let child = self.node(field, field.embedded_resource);
            self.path.pop(mark);
            node.properties.extend(child.map(|child| (name.clone(), child)));
        }
        if let Some(Additional::Schema(field)) = &schema.additional {
            let mark = self.path.push("additionalProperties");
            node.additional = self.node(field, field.embedded_resource).map(Box::new);
            self.path.pop(mark);
        }
        if let Some(items) = &schema.items {
            let mark = self.path.push("items");
            node.items = self.node(items, items.embedded_resource).map(Box::new);
            self.path.pop(mark);
        }
        let has_rules = !node.rules.is_empty()
            || !node.properties.is_empty()
            || node.additional.is_some()
            || node.items.is_some();
        has_rules.then_some(node)
    }

    fn rule(&mut self, rule: &Rule, schema: &Schema, is_resource: bool) -> Option<Compiled> {
        let condition = self.expression("rule", &rule.rule, schema, is_resource);
        let message = rule
            .message_expression
            .as_ref()
            .map(|text| self.expression("messageExpression", text, schema, is_resource));
        let blamed = rule.field_path.as_ref().map(|text| self.blamed(text, schema));
        if let (true, Some(condition)) = (rule.optional_old_self, &condition)
            && !condition.uses_old_self()
        {
            let detail = "may not be set if oldSelf is not used in rule";
            self.causes.push(Cause::invalid(self.path.join("optionalOldSelf"), &Value::Bool(true), detail));
        }
        Some(Compiled {
            source: rule.clone(),
            condition: condition?,
            message: match message {
                Some(message) => Some(message?),
                None => None,
            },
            blamed: match blamed {
                Some(blamed) => Some(blamed?),
                None => None,
            },
        })
    }

    fn expression(
        &mut self,
        keyword: &str,
        text: &str,
        schema: &Schema,
        is_resource: bool,
    ) -> Option<Expression> {
        match Expression::compile(text, Scope { schema, is_resource }) {
            Ok(expression) => Some(expression),
            Err(error) => {
                let detail = format!("compilation failed: {error}");
                self.causes.push(Cause::invalid(self.path.join(keyword), &Value::from(text), detail));
                None
            }
        }
    }

    /// `.spec['a.b']` as `spec.a.b`, if the schema has such a field.
    fn blamed(&mut self, text: &str, schema: &Schema) -> Option<String> {
        let resolved = resolve_field_path(text, schema);
        if let Err(problem) = &resolved {
            let detail = format!("fieldPath must be a valid path: {problem}");
            self.causes.push(Cause::invalid(self.path.join("fieldPath"), &Value::from(text), detail));
        }
        resolved.ok()
    }
}

fn has_rules(schema: &Schema) -> bool {
    let additional = match &schema.additional {
        Some(Additional::Schema(additional)) => Some(additional.as_ref()),
        _ => None,
    };
    !schema.rules.is_empty()
        || schema.properties.values().any(has_rules)
        || schema.items.as_deref().is_some_and(has_rules)
        || additional.is_some_and(has_rules)
}

fn resolve_field_path(text: &str, mut schema: &Schema) -> Result<String, String> {
    let mut path = FieldPath::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            quoted.split_once("']").ok_or("unexpected end of JSON path")?
        } else if let Some(plain) = rest.strip_prefix('.') {
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        };
        let declared = schema.properties.get(name);
        schema = declared.or_else(|| schema.field(name)).ok_or("does not refer to a valid field")?;
        if declared.is_some() {
            path.push(name);
        } else {
            path.push_key(name);
        }
        rest = after;
    }
    Ok(path.as_str().to_owned())
}
