//! Validation rules: `x-kubernetes-validations`, compiled once and evaluated where they stand.
//!
//! Parser and functions are those of the `cel` crate and of `kube-cel`. The interpreter is ours, because it pays
//! for what it does, and so is the walk over the object: it visits only nodes that have rules below them, which is
//! what makes a schema with two rules cost two evaluations.
//!
//! Costs are bounded twice, with Kubernetes' limits: at most what a rule can cost by the bounds in its schema, when
//! the schema is created (`check`, `size`), and what it does cost, when it is evaluated (`meter`).

mod check;
mod condition;
mod convert;
mod evaluate;
mod expression;
mod functions;
mod interpreter;
mod meter;
mod size;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use self::condition::{Condition, ConditionError};
use self::expression::{Expression, Scope};
pub use self::meter::Budget as RuleBudget;
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
    /// does not declare, rules that may cost too much for what the schema allows. `path` is where the
    /// schema stands in its CRD.
    pub fn compile(schema: &Arc<Schema>, path: &str) -> Result<Rules, Vec<Cause>> {
        Self::compiled(schema, path, true)
    }

    /// Compiles the rules of a schema that was accepted before, maybe by a version that estimated no costs.
    pub fn compile_accepted(schema: &Arc<Schema>) -> Result<Rules, Vec<Cause>> {
        Self::compiled(schema, "", false)
    }

    fn compiled(schema: &Arc<Schema>, path: &str, estimate: bool) -> Result<Rules, Vec<Cause>> {
        if !has_rules(schema) {
            return Ok(Rules { schema: Arc::clone(schema), root: None });
        }
        let compile = || {
            let mut compiler = Compiler { path: FieldPath::new(path), causes: Vec::new(), costs: Vec::new() };
            let root = compiler.node(schema, true, Some(1));
            if estimate {
                compiler.check_costs(path);
            }
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
        self.evaluate_within(&mut RuleBudget::default(), object, old, found)
    }

    /// The same for one of several objects of one request, which share what rules may cost.
    pub fn evaluate_within(
        &self,
        budget: &mut RuleBudget,
        object: &Value,
        old: Option<&Value>,
        found: &[Cause],
    ) -> Vec<Cause> {
        let Some(root) = &self.root else { return Vec::new() };
        if found.iter().any(Cause::blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; correct \
                          the existing errors to complete validation";
            return vec![Cause::invalid(NO_FIELD, &Value::Null, detail)];
        }
        evaluate::evaluate(budget, root, &self.schema, object, old)
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
    /// Where the expressions are and what they cost at most in one request.
    costs: Vec<(String, u64)>,
}

impl Compiler {
    /// `count` is how many values of this schema there may be in an object, if the schemas around it say.
    fn node(&mut self, schema: &Schema, is_resource: bool, count: Option<u64>) -> Option<Node> {
        let mut node = Node::default();
        for (index, rule) in schema.rules.iter().enumerate() {
            let mark = self.path.push("x-kubernetes-validations");
            self.path.push_index(index);
            node.rules.extend(self.rule(rule, Scope { schema, is_resource }, count));
            self.path.pop(mark);
        }
        for (name, field) in &schema.properties {
            let mark = self.path.push("properties");
            self.path.push_key(name);
            let child = self.node(field, field.embedded_resource, count);
            self.path.pop(mark);
            node.properties.extend(child.map(|child| (name.clone(), child)));
        }
        if let Some(Additional::Schema(field)) = &schema.additional {
            let mark = self.path.push("additionalProperties");
            let count = times(count, schema.checks.max_properties);
            node.additional = self.node(field, field.embedded_resource, count).map(Box::new);
            self.path.pop(mark);
        }
        if let Some(items) = &schema.items {
            let mark = self.path.push("items");
            let count = times(count, schema.checks.max_items);
            node.items = self.node(items, items.embedded_resource, count).map(Box::new);
            self.path.pop(mark);
        }
        let has_rules = !node.rules.is_empty()
            || !node.properties.is_empty()
            || node.additional.is_some()
            || node.items.is_some();
        has_rules.then_some(node)
    }

    fn rule(&mut self, rule: &Rule, scope: Scope<'_>, count: Option<u64>) -> Option<Compiled> {
        let schema = scope.schema;
        let condition = self.expression("rule", &rule.rule, scope, count);
        let message = rule
            .message_expression
            .as_ref()
            .map(|text| self.expression("messageExpression", text, scope, count));
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
        scope: Scope<'_>,
        count: Option<u64>,
    ) -> Option<Expression> {
        let field = self.path.join(keyword);
        match Expression::compile(text, scope) {
            Ok(expression) => {
                let count = count.unwrap_or_else(|| size::most_in_a_request(scope.schema));
                let cost = expression.cost().saturating_mul(count);
                self.costs.push((field, cost));
                Some(expression)
            }
            Err(error) => {
                let detail = format!("compilation failed: {error}");
                self.causes.push(Cause::invalid(field, &Value::from(text), detail));
                None
            }
        }
    }

    /// Refuses rules that may cost too much, each or all together, naming those that cost most.
    fn check_costs(&mut self, path: &str) {
        for (field, cost) in self.costs.iter().filter(|(_, cost)| *cost > size::PER_RULE) {
            let what = if field.ends_with("messageExpression") { "messageExpression" } else { "rule" };
            let factor = factor(*cost, size::PER_RULE);
            let detail = format!("estimated {what} cost exceeds budget by factor of {factor} {HOW_TO_BOUND}");
            self.causes.push(Cause::forbidden(field.clone(), detail));
        }
        let total = self.costs.iter().fold(0_u64, |total, (_, cost)| total.saturating_add(*cost));
        if total <= size::PER_SCHEMA {
            return;
        }
        self.costs.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
        let most = self.costs.iter().take(4).filter(|(_, cost)| *cost > size::PER_SCHEMA / 100);
        let detail =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        self.causes.extend(most.map(|(field, _)| Cause::forbidden(field.clone(), detail)));
        let detail = format!(
            "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by \
             factor of {} {HOW_TO_BOUND}",
            factor(total, size::PER_SCHEMA)
        );
        self.causes.push(Cause::forbidden(path, detail));
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

const HOW_TO_BOUND: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, \
                            maps, and strings are declared)";

/// How many times a cost is above its limit.
fn factor(cost: u64, limit: u64) -> String {
    match cost / limit {
        0..100 => format!("{:.1}x", cost as f64 / limit as f64),
        _ => "more than 100x".to_owned(),
    }
}

/// How many values there may be inside of so many lists or maps.
fn times(count: Option<u64>, bound: Option<i64>) -> Option<u64> {
    Some(count?.saturating_mul(u64::try_from(bound?).unwrap_or(0)))
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
