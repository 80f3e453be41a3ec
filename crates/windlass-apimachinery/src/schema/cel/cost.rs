//! What rules may cost. Rules come with CRDs, and objects from any client: together they must not be able
//! to keep the server busy.
//!
//! The evaluator cannot be stopped from outside. So expressions are rewritten before they run: a loop says
//! first how much it is going to do, and a function that reads a whole text or list says how long that is. What
//! does not fit into the budget fails there. A loop is charged for its whole range, even if it ends early.

use std::cell::Cell;

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::expression::{children, children_mut};

/// What one evaluation of one expression may cost: Kubernetes' own limit.
const PER_CALL: u64 = 1_000_000;

/// What all rules together may cost in one request: Kubernetes' own limit.
const PER_REQUEST: u64 = 10_000_000;

/// What is left to spend in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Budget {
    left: u64,
}

/// Why an evaluation was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// This one cost too much.
    PerCall,
    /// All of the request together.
    PerRequest,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: PER_REQUEST }
    }
}

impl Budget {
    /// Runs an evaluation that costs `base` and whatever it says while it runs.
    pub(super) fn spend<T>(&mut self, base: u64, evaluate: impl FnOnce() -> T) -> Result<T, Stopped> {
        let allowed = self.left.min(PER_CALL);
        METER.set(Meter { left: allowed.saturating_sub(base), overrun: base > allowed });
        let result = evaluate();
        let meter = METER.get();
        self.left -= allowed - meter.left;
        match meter.overrun {
            false => Ok(result),
            true if allowed < PER_CALL => {
                self.left = 0;
                Err(Stopped::PerRequest)
            }
            true => Err(Stopped::PerCall),
        }
    }
}

#[derive(Clone, Copy)]
struct Meter {
    left: u64,
    overrun: bool,
}

thread_local! {
    /// Functions of the evaluator have no state of their own, and an evaluation stays on its thread.
    static METER: Cell<Meter> = const { Cell::new(Meter { left: 0, overrun: false }) };
}

fn charge(cost: u64) -> Result<(), ExecutionError> {
    let meter = METER.get();
    let left = meter.left.checked_sub(cost).filter(|_| !meter.overrun);
    METER.set(Meter { left: left.unwrap_or(0), overrun: left.is_none() });
    match left {
        Some(_) => Ok(()),
        None => Err(ExecutionError::function_error(LOOP, "the cost limit is exceeded")),
    }
}

/// The names cannot be written in an expression.
const LOOP: &str = "@loop";
const READ: &str = "@read";

/// Adds the functions that keep the account.
pub(super) fn add_functions(context: &mut Context<'_>) {
    context.add_function(LOOP, |range: Value, body: i64, growth: i64| -> Result<Value, ExecutionError> {
        let (length, body, growth) = (length(&range), body.unsigned_abs(), growth.unsigned_abs());
        // Building a list copies what is there already in every step.
        let copies = length.saturating_mul(length) / 8;
        charge(length.saturating_mul(body).saturating_add(growth.saturating_mul(copies)))?;
        Ok(range)
    });
    context.add_function(READ, |value: Value, factor: i64| -> Result<Value, ExecutionError> {
        let length = length(&value).saturating_mul(factor.unsigned_abs());
        // Reading ten characters costs as much as one operation.
        charge(if matches!(value, Value::List(_) | Value::Map(_)) { length } else { length.div_ceil(10) })?;
        Ok(value)
    });
}

fn length(value: &Value) -> u64 {
    let length = match value {
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 1,
    };
    length as u64
}

/// Makes an expression keep the account, and tells what it costs besides.
pub(super) fn instrument(expression: &mut IdedExpr) -> u64 {
    let cost = operations(expression);
    rewrite(expression);
    cost
}

/// The number of operations, those in loops not counted: they are charged when their range is known.
fn operations(expression: &IdedExpr) -> u64 {
    let own = u64::from(!matches!(expression.expr, Expr::Literal(_)));
    match &expression.expr {
        Expr::Comprehension(part) => own + operations(&part.iter_range) + operations(&part.result),
        _ => own + children(expression).into_iter().map(operations).sum::<u64>(),
    }
}

/// Functions that read all of what they are called on, and how much more than once.
const READERS: &[(&str, i64)] = &[
    ("matches", 4),
    ("find", 4),
    ("findAll", 4),
    ("contains", 1),
    ("split", 1),
    ("join", 1),
    ("replace", 1),
    ("indexOf", 1),
    ("lastIndexOf", 1),
    ("lowerAscii", 1),
    ("upperAscii", 1),
    ("format", 1),
    ("distinct", 8),
    ("flatten", 1),
    ("sort", 4),
    ("isSorted", 1),
    ("reverse", 1),
    ("sum", 1),
    ("min", 1),
    ("max", 1),
];

/// What may stand before a function without being a value.
const NAMESPACES: [&str; 9] =
    ["base64", "format", "ip", "jsonpatch", "lists", "math", "optional", "sets", "strings"];

fn rewrite(expression: &mut IdedExpr) {
    let body = match &expression.expr {
        Expr::Comprehension(part) => operations(&part.loop_step) + operations(&part.loop_cond),
        _ => 0,
    };
    for child in children_mut(expression) {
        rewrite(child);
    }
    match &mut expression.expr {
        Expr::Comprehension(part) => {
            let grows = matches!(part.accu_init.expr, Expr::List(_));
            let body = i64::try_from(body).unwrap_or(i64::MAX);
            wrap(&mut part.iter_range, LOOP, &[body, i64::from(grows)]);
        }
        Expr::Call(call) if call.func_name == "@in" => {
            if let Some(container) = call.args.get_mut(1) {
                wrap(container, READ, &[1]);
            }
        }
        Expr::Call(call) => {
            let reader = READERS.iter().find(|(name, _)| *name == call.func_name);
            if let (Some((_, factor)), Some(target)) = (reader, &mut call.target)
                && !matches!(&target.expr, Expr::Ident(name) if NAMESPACES.contains(&name.as_str()))
            {
                wrap(target, READ, &[*factor]);
            }
        }
        _ => {}
    }
}

fn wrap(expression: &mut IdedExpr, function: &str, numbers: &[i64]) {
    let id = expression.id;
    let inner = std::mem::take(expression);
    let numbers = numbers
        .iter()
        .map(|number| IdedExpr { id, expr: Expr::Literal(LiteralValue::Int((*number).into())) });
    let args = std::iter::once(inner).chain(numbers).collect();
    let call = CallExpr { func_name: function.to_owned(), target: None, args };
    *expression = IdedExpr { id, expr: Expr::Call(call) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_and_a_request_have_their_limits() {
        let mut budget = Budget::default();
        assert_eq!(budget.spend(5, || charge(10).is_ok()), Ok(true));
        assert_eq!(budget.left, PER_REQUEST - 15);
        assert_eq!(budget.spend(1, || charge(PER_CALL).is_ok()), Err(Stopped::PerCall));
        // A handler that overruns has spent everything that the call was allowed.
        assert_eq!(budget.left, PER_REQUEST - 15 - PER_CALL);
        for _ in 0..8 {
            assert_eq!(budget.spend(PER_CALL, || true), Ok(true));
        }
        assert_eq!(budget.spend(PER_CALL, || true), Err(Stopped::PerRequest));
        assert_eq!(budget.spend(1, || true), Err(Stopped::PerRequest));
    }
}
