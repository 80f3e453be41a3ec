//! One CEL expression: parsed, checked against what can be evaluated, and made ready.

use std::collections::BTreeSet;

use kube_cel::cel;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::cel::parser::Parser;

use super::check::{Checker, Known};
use super::interpreter::Interpreter;
use super::meter::{Budget, Stopped};
use crate::schema::structural::Schema;

/// An expression that is known to use only what the evaluator has.
#[derive(Debug)]
pub(super) struct Expression {
    expression: IdedExpr,
    uses_old_self: bool,
    /// What an evaluation costs at most, for values that the schema allows.
    cost: u64,
}

/// The longest expression, in bytes. Bounds what the parser can be made to recurse over.
const MAX_LENGTH: usize = 10_000;

/// How deep brackets may nest. The generated parser needs 70 kB of stack for every level.
const MAX_NESTING: u16 = 32;

/// How deep an expression may be once parsed: `a + b + c` is 3 deep. The evaluator recurses over it
/// in the thread of the request, with up to 20 kB of stack for every level.
const MAX_LEVELS: usize = 48;

/// The stack that [`Expression::compile`] must be called with.
pub(super) const PARSER_STACK: usize = 64 << 20;

/// What `self` is in an expression.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) schema: &'a Schema,
    /// Whether `self` is a whole object, with a name and a kind.
    pub(super) is_resource: bool,
}

/// Why an expression cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpressionError {
    #[error("{0}")]
    Syntax(String),
    #[error("undeclared reference to '{0}'")]
    UnknownVariable(String),
    #[error("undeclared reference to '{0}': this server does not have the function")]
    UnknownFunction(String),
    #[error("undefined field '{0}'")]
    UnknownField(String),
    #[error("this server does not support {0}")]
    Unsupported(&'static str),
    #[error("the expression is too long or too deeply nested")]
    TooComplex,
}

impl Expression {
    /// Needs a stack of [`PARSER_STACK`] bytes.
    pub(super) fn compile(text: &str, scope: Scope<'_>) -> Result<Self, ExpressionError> {
        let root = Known { schema: scope.schema, is_resource: scope.is_resource };
        Self::with_variables(text, vec![("self".into(), Some(root)), ("oldSelf".into(), Some(root))])
    }

    /// The same for an expression about other things, of which nothing is known.
    pub(super) fn about(text: &str, variables: &[&str]) -> Result<Self, ExpressionError> {
        Self::with_variables(text, variables.iter().map(|name| ((*name).to_owned(), None)).collect())
    }

    fn with_variables(
        text: &str,
        variables: Vec<(String, Option<Known<'_>>)>,
    ) -> Result<Self, ExpressionError> {
        // The parser does not survive deeply nested conditionals, so those are counted beforehand.
        if text.len() > MAX_LENGTH || conditionals(text) >= usize::from(MAX_NESTING) {
            return Err(ExpressionError::TooComplex);
        }
        let parser = Parser::new().enable_optional_syntax(true).max_recursion_depth(MAX_NESTING);
        let mut expression =
            parser.parse(text.trim()).map_err(|errors| ExpressionError::Syntax(one_line(&errors)))?;
        if levels(&expression) > MAX_LEVELS {
            return Err(ExpressionError::TooComplex);
        }
        normalize(&mut expression);
        let mut checker = Checker::new(variables);
        let cost = checker.check(&expression)?.cost;
        Ok(Expression { expression, uses_old_self: checker.uses_old_self, cost })
    }

    /// What an evaluation costs at most. Kubernetes bounds it when a schema is created.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    pub(super) fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// Evaluates with the given `self` and, for transition rules, `oldSelf`.
    pub(super) fn evaluate(
        &self,
        this: &cel::Value,
        old: Option<&cel::Value>,
        budget: &mut Budget,
    ) -> Result<cel::ResolveResult, Stopped> {
        let old = old.map(|old| ("oldSelf", old.clone()));
        self.evaluate_with(std::iter::once(("self", this.clone())).chain(old), budget)
    }

    /// Evaluates with any variables.
    pub(super) fn evaluate_with<'v>(
        &self,
        variables: impl Iterator<Item = (&'v str, cel::Value)>,
        budget: &mut Budget,
    ) -> Result<cel::ResolveResult, Stopped> {
        let variables = variables.collect();
        budget.spend(|meter| Interpreter::new(meter, variables).evaluate(&self.expression))
    }
}

/// Rewrites what the evaluator gets wrong or lacks but has an equivalent for.
///
/// `a.?b` fails on a missing field instead of being empty, `a[?"b"]` does not; `dyn(x)` only means
/// something to a type checker, which we do not have.
fn normalize(expression: &mut IdedExpr) {
    if let Expr::Call(call) = &mut expression.expr {
        if call.func_name == "_?._" && call.args.len() == 2 {
            call.func_name = "_[?_]".into();
        } else if call.func_name == "dyn"
            && call.target.is_none()
            && call.args.len() == 1
            && let Some(argument) = call.args.pop()
        {
            *expression = argument;
            return normalize(expression);
        }
    }
    for child in children_mut(expression) {
        normalize(child);
    }
}

/// How many levels of subexpressions there are.
fn levels(expression: &IdedExpr) -> usize {
    1 + children(expression).into_iter().map(levels).max().unwrap_or(0)
}

/// How many `?` of `a ? b : c` a text has, not counting `.?` and `[?` and what is in strings.
fn conditionals(text: &str) -> usize {
    let mut count = 0;
    let mut quote = None;
    let mut previous = ' ';
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open && previous != '\\' => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '?') if previous != '.' && previous != '[' => count += 1,
            _ => {}
        }
        // Two backslashes are one escaped backslash, and escape nothing after them.
        previous = if previous == '\\' && c == '\\' { ' ' } else { c };
    }
    count
}

pub(super) fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(part) => {
            vec![&part.iter_range, &part.accu_init, &part.loop_cond, &part.loop_step, &part.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Struct(literal) => literal.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

pub(super) fn children_mut(expression: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expression.expr {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(part) => {
            let part = part.as_mut();
            vec![
                &mut part.iter_range,
                &mut part.accu_init,
                &mut part.loop_cond,
                &mut part.loop_step,
                &mut part.result,
            ]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map
            .entries
            .iter_mut()
            .filter_map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => Some([&mut entry.key, &mut entry.value]),
                EntryExpr::StructField(_) => None,
            })
            .flatten()
            .collect(),
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Vec::new(),
    }
}

fn one_line(errors: &cel::ParseErrors) -> String {
    let messages: BTreeSet<String> = errors.errors.iter().map(|error| error.msg.clone()).collect();
    messages.into_iter().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(text: String) -> Result<Expression, ExpressionError> {
        let thread = std::thread::Builder::new().stack_size(PARSER_STACK).spawn(move || {
            let schema = Schema::default();
            Expression::compile(&text, Scope { schema: &schema, is_resource: false })
        });
        thread.unwrap().join().unwrap()
    }

    #[test]
    fn what_would_exhaust_the_stack_is_refused() {
        let around =
            |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
        for count in [40, 1_000, 4_000] {
            for (open, close) in [("(", ")"), ("[", "]"), ("{1:", "}"), ("!(", ")"), ("size(", ")")] {
                assert!(compiled(around(open, close, count)).is_err(), "{count} times {open}");
            }
            for chain in ["+1", "<1", "[0]", ".a", "?1:1", "-1"] {
                let text = format!("self{}", chain.repeat(count.max(50)));
                assert!(compiled(text).is_err(), "{count} times {chain}");
            }
            assert!(compiled("true?1:".repeat(count) + "1").is_err());
        }
        assert_eq!(compiled("a".repeat(MAX_LENGTH + 1)).unwrap_err(), ExpressionError::TooComplex);
    }

    #[test]
    fn what_is_accepted_can_be_evaluated_on_an_ordinary_stack() {
        let sum = compiled("1".to_owned() + &"+1".repeat(MAX_LEVELS - 1)).unwrap();
        let mut budget = Budget::default();
        let value = sum.evaluate(&cel::Value::Null, None, &mut budget).unwrap();
        assert_eq!(value, Ok(cel::Value::Int(MAX_LEVELS as i64)));
        assert!(compiled("1".to_owned() + &"+1".repeat(MAX_LEVELS)).is_err());
        let nested = compiled(format!("{}self{}", "(".repeat(30), ")".repeat(30))).unwrap();
        let value = nested.evaluate(&cel::Value::Int(1), None, &mut budget).unwrap();
        assert_eq!(value, Ok(cel::Value::Int(1)));
    }

    #[test]
    fn conditionals_are_counted_outside_of_strings() {
        let cases = [
            ("a ? b : c ? d : e", 2),
            ("a.?b", 0),
            ("a[?0]", 0),
            (r#"'?' + "?" + '\'?'"#, 0),
            (r"'\\' ? 1 : 2", 1),
        ];
        for (text, count) in cases {
            assert_eq!(conditionals(text), count, "{text}");
        }
    }
}
