//! Evaluates expressions, and pays for every step of it.
//!
//! The evaluator of the `cel` crate copies every value that it touches and cannot be stopped, so that no account
//! kept beside it is true. This one shares values and pays before it makes one. Functions are those of `cel` and
//! `kube-cel`: each is called alone, on arguments whose copies are paid for.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, SelectExpr, operators,
};
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{ExecutionError, Value};

use super::functions;
use super::meter::{Meter, optional, read};
use crate::schema::pattern::Pattern;

type Evaluated = Result<Value, ExecutionError>;

/// What compiling a regular expression costs, however short it is.
const COMPILE_PATTERN: u64 = 1_000;

/// One evaluation.
pub(super) struct Interpreter<'a> {
    meter: &'a mut Meter,
    /// Variables in scope, innermost last.
    variables: Vec<(&'a str, Value)>,
    /// The regular expressions that were compiled in this evaluation.
    patterns: BTreeMap<String, Pattern>,
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(meter: &'a mut Meter, variables: Vec<(&'a str, Value)>) -> Self {
        Self { meter, variables, patterns: BTreeMap::new() }
    }

    pub(super) fn evaluate(&mut self, expression: &'a IdedExpr) -> Evaluated {
        match &expression.expr {
            // A literal is made once, when the expression is compiled; a copy of it is still a copy.
            Expr::Literal(literal) => {
                let value = literal.to_val().as_ref().try_into()?;
                self.meter.pay_for_copy(&value)?;
                Ok(value)
            }
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(part) => self.comprehension(part),
            Expr::List(list) => {
                self.meter.pay_for_elements(list.elements.len() as u64)?;
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, element) in list.elements.iter().enumerate() {
                    let value = self.evaluate(element)?;
                    let is_optional = list.optional_indices.contains(&index);
                    items.extend(if is_optional { present(value) } else { Some(value) });
                }
                Ok(Value::List(Arc::new(items)))
            }
            Expr::Map(map) => {
                self.meter.pay_for_elements(map.entries.len() as u64)?;
                let mut entries = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return no_overload() };
                    let key = key(self.evaluate(&entry.key)?)?;
                    let value = self.evaluate(&entry.value)?;
                    let value = if entry.optional { present(value) } else { Some(value) };
                    entries.extend(value.map(|value| (key, value)));
                }
                Ok(Value::Map(Map { map: Arc::new(entries.into_iter().collect()) }))
            }
            Expr::Struct(_) | Expr::Unspecified => no_overload(),
        }
    }

    fn variable(&mut self, name: &str) -> Evaluated {
        self.meter.pay(1)?;
        let found = self.variables.iter().rev().find(|(variable, _)| *variable == name);
        let unknown = || ExecutionError::UndeclaredReference(Arc::new(name.to_owned()));
        found.map(|(_, value)| value.clone()).ok_or_else(unknown)
    }

    fn select(&mut self, select: &'a SelectExpr) -> Evaluated {
        let operand = self.evaluate(&select.operand)?;
        self.meter.pay(1)?;
        let Value::Map(map) = &operand else {
            return if select.test { Ok(Value::Bool(false)) } else { no_overload() };
        };
        let field = map.map.get(&Key::String(Arc::new(select.field.clone())));
        match field {
            _ if select.test => Ok(Value::Bool(field.is_some())),
            Some(field) => Ok(field.clone()),
            None => Err(ExecutionError::NoSuchKey(Arc::new(select.field.clone()))),
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> Evaluated {
        self.meter.pay(1)?;
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, then, otherwise]) => {
                let branch = if self.condition(condition)? { then } else { otherwise };
                self.evaluate(branch)
            }
            (operators::LOGICAL_OR, [left, right]) => self.either(left, right, true),
            (operators::LOGICAL_AND, [left, right]) => self.either(left, right, false),
            (operators::LOGICAL_NOT, [operand]) => Ok(Value::Bool(!self.condition(operand)?)),
            (operators::NOT_STRICTLY_FALSE, [operand]) => {
                Ok(Value::Bool(self.condition(operand).unwrap_or(true)))
            }
            (name, [left, right]) if call.target.is_none() && is_binary(name) => {
                let left = self.evaluate(left)?;
                let right = self.evaluate(right)?;
                self.binary(name, left, right)
            }
            (name, _) => {
                let target = match &call.target {
                    Some(target) if !self.is_namespace(target) => Some(self.evaluate(target)?),
                    _ => None,
                };
                let arguments = call.args.iter().map(|argument| self.evaluate(argument));
                let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                match (name, target.as_ref().into_iter().chain(&arguments).collect::<Vec<_>>().as_slice()) {
                    ("size", [value]) => self.size(value),
                    ("matches", [Value::String(text), Value::String(pattern)]) => self.matches(text, pattern),
                    _ => self.function(call, target, arguments),
                }
            }
        }
    }

    /// Whether something before a function is the namespace of the function and not a value.
    fn is_namespace(&self, target: &IdedExpr) -> bool {
        let Expr::Ident(name) = &target.expr else { return false };
        !self.variables.iter().any(|(variable, _)| variable == name)
    }

    fn condition(&mut self, expression: &'a IdedExpr) -> Result<bool, ExecutionError> {
        match self.evaluate(expression)? {
            Value::Bool(flag) => Ok(flag),
            _ => Err(ExecutionError::NoSuchOverload),
        }
    }

    /// `||` and `&&`: the operand that settles it does so even if the other one fails.
    fn either(&mut self, left: &'a IdedExpr, right: &'a IdedExpr, settles: bool) -> Evaluated {
        let left = self.condition(left);
        if left == Ok(settles) {
            return Ok(Value::Bool(settles));
        }
        let right = self.condition(right)?;
        if right == settles { Ok(Value::Bool(settles)) } else { left.map(Value::Bool) }
    }

    fn binary(&mut self, operator: &str, left: Value, right: Value) -> Evaluated {
        match operator {
            operators::EQUALS => Ok(Value::Bool(self.equal(&left, &right)?)),
            operators::NOT_EQUALS => Ok(Value::Bool(!self.equal(&left, &right)?)),
            operators::ADD => self.add(left, right),
            operators::SUBSTRACT => left - right,
            operators::MULTIPLY => left * right,
            operators::DIVIDE => left / right,
            operators::MODULO => left % right,
            operators::IN => self.contains(&left, &right),
            operators::INDEX | operators::OPT_INDEX => self.index(operator, &left, &right),
            _ => {
                if let (Value::String(left), Value::String(right)) = (&left, &right) {
                    self.meter.pay(read(left.len().min(right.len()) as u64))?;
                }
                let order = left.partial_cmp(&right).ok_or(ExecutionError::NoSuchOverload)?;
                Ok(Value::Bool(match operator {
                    operators::LESS => order.is_lt(),
                    operators::LESS_EQUALS => order.is_le(),
                    operators::GREATER => order.is_gt(),
                    _ => order.is_ge(),
                }))
            }
        }
    }

    fn add(&mut self, left: Value, right: Value) -> Evaluated {
        match (left, right) {
            (Value::String(left), Value::String(right)) => {
                self.meter.pay_for_string((left.len() + right.len()) as u64)?;
                Ok(Value::String(Arc::new([left.as_str(), right.as_str()].concat())))
            }
            (Value::Bytes(left), Value::Bytes(right)) => {
                self.meter.pay_for_string((left.len() + right.len()) as u64)?;
                Ok(Value::Bytes(Arc::new([left.as_slice(), right.as_slice()].concat())))
            }
            (Value::List(left), Value::List(right)) => {
                self.meter.pay_for_elements((left.len() + right.len()) as u64)?;
                Ok(Value::List(Arc::new([left.as_slice(), right.as_slice()].concat())))
            }
            (Value::List(_) | Value::Map(_), _) | (_, Value::List(_) | Value::Map(_)) => no_overload(),
            (left, right) => left + right,
        }
    }

    /// Equality that is paid for while it goes through both.
    fn equal(&mut self, left: &Value, right: &Value) -> Result<bool, ExecutionError> {
        match (left, right) {
            (Value::String(left), Value::String(right)) if left.len() == right.len() => {
                self.meter.pay(read(left.len() as u64))?;
                Ok(left == right)
            }
            (Value::Bytes(left), Value::Bytes(right)) if left.len() == right.len() => {
                self.meter.pay(read(left.len() as u64))?;
                Ok(left == right)
            }
            (Value::String(_), Value::String(_)) | (Value::Bytes(_), Value::Bytes(_)) => Ok(false),
            (Value::List(left), Value::List(right)) => {
                if left.len() != right.len() {
                    return Ok(false);
                }
                for (left, right) in left.iter().zip(right.iter()) {
                    self.meter.pay(1)?;
                    if !self.equal(left, right)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Map(left), Value::Map(right)) => {
                if left.map.len() != right.map.len() {
                    return Ok(false);
                }
                for (key, left) in left.map.iter() {
                    self.meter.pay(1)?;
                    match right.get(key) {
                        Some(right) if self.equal(left, right)? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
            (left, right) => match (optional(left), optional(right)) {
                (Some(left), Some(right)) => match (left.value(), right.value()) {
                    (Some(left), Some(right)) => self.equal(left, right),
                    (left, right) => Ok(left.is_none() && right.is_none()),
                },
                _ => Ok(left == right),
            },
        }
    }

    fn contains(&mut self, value: &Value, container: &Value) -> Evaluated {
        match container {
            Value::List(items) => {
                for item in items.iter() {
                    self.meter.pay(1)?;
                    if self.equal(item, value)? {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            Value::Map(map) => Ok(Value::Bool(map.get(&key(value.clone())?).is_some())),
            _ => no_overload(),
        }
    }

    /// `a[b]` and `a[?b]`. What is in an optional is an optional.
    fn index(&mut self, operator: &str, container: &Value, index: &Value) -> Evaluated {
        let (container, is_optional) = match optional(container) {
            Some(wrapped) => match wrapped.value() {
                Some(value) => (value, true),
                None => return Ok(container.clone()),
            },
            None => (container, operator == operators::OPT_INDEX),
        };
        let found = match (container, index) {
            (Value::List(items), Value::Int(_) | Value::UInt(_)) => {
                let position = match index {
                    Value::Int(position) => usize::try_from(*position).ok(),
                    Value::UInt(position) => usize::try_from(*position).ok(),
                    _ => None,
                };
                let item = position.and_then(|position| items.get(position));
                item.cloned().ok_or_else(|| ExecutionError::IndexOutOfBounds(index.clone()))
            }
            (Value::Map(map), _) => {
                let key = key(index.clone())?;
                map.get(&key).cloned().ok_or_else(|| ExecutionError::NoSuchKey(Arc::new(key.to_string())))
            }
            _ => return no_overload(),
        };
        if is_optional {
            let found = found.map_or_else(|_| OptionalValue::none(), OptionalValue::of);
            return Ok(Value::Opaque(Arc::new(found)));
        }
        found
    }

    fn comprehension(&mut self, part: &'a ComprehensionExpr) -> Evaluated {
        let range = self.evaluate(&part.iter_range)?;
        let items: Vec<Value> = match &range {
            Value::List(items) => items.to_vec(),
            // In order, so that the same object gets the same answer.
            Value::Map(map) => {
                let mut keys: Vec<&Key> = map.map.keys().collect();
                keys.sort();
                keys.into_iter().map(Value::from).collect()
            }
            _ => return no_overload(),
        };
        self.meter.pay_for_elements(items.len() as u64)?;
        let outside = self.variables.len();
        let result = match Appends::of(part) {
            Some(appends) => self.collect(part, &appends, items),
            None => self.fold(part, items),
        };
        self.variables.truncate(outside);
        result
    }

    /// `all`, `exists` and `exists_one`: what is kept from step to step is a scalar.
    fn fold(&mut self, part: &'a ComprehensionExpr, items: Vec<Value>) -> Evaluated {
        let kept = self.evaluate(&part.accu_init)?;
        let at = self.variables.len();
        self.variables.push((&part.accu_var, kept));
        self.variables.push((&part.iter_var, Value::Null));
        for item in items {
            if !self.condition(&part.loop_cond)? {
                break;
            }
            self.variables[at + 1].1 = item;
            self.variables[at].1 = self.evaluate(&part.loop_step)?;
        }
        self.evaluate(&part.result)
    }

    /// `map` and `filter`: the list that they make grows in place.
    fn collect(
        &mut self,
        part: &'a ComprehensionExpr,
        appends: &Appends<'a>,
        items: Vec<Value>,
    ) -> Evaluated {
        let at = self.variables.len();
        self.variables.push((&part.iter_var, Value::Null));
        let mut made = Vec::new();
        for item in items {
            self.meter.pay(1)?;
            self.variables[at].1 = item;
            if let Some(filter) = appends.filter
                && !self.condition(filter)?
            {
                continue;
            }
            self.meter.pay_for_elements(1)?;
            made.push(self.evaluate(appends.element)?);
        }
        Ok(Value::List(Arc::new(made)))
    }

    /// The length of strings is in characters, as in Kubernetes.
    fn size(&mut self, value: &Value) -> Evaluated {
        let size = match value {
            Value::List(items) => items.len(),
            Value::Map(map) => map.map.len(),
            Value::String(text) => {
                self.meter.pay(read(text.len() as u64))?;
                text.chars().count()
            }
            Value::Bytes(bytes) => bytes.len(),
            _ => return no_overload(),
        };
        Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
    }

    fn matches(&mut self, text: &str, pattern: &str) -> Evaluated {
        if !self.patterns.contains_key(pattern) {
            self.meter.pay(COMPILE_PATTERN.saturating_add(pattern.len() as u64))?;
            let invalid = |error| ExecutionError::function_error("matches", format!("{pattern}: {error}"));
            self.patterns.insert(pattern.to_owned(), Pattern::new(pattern).map_err(invalid)?);
        }
        self.meter.pay(search(text.len(), pattern.len()))?;
        Ok(Value::Bool(self.patterns.get(pattern).is_some_and(|pattern| pattern.is_match(text))))
    }

    /// Calls a function of the libraries, which gets copies of its arguments and makes a new value.
    fn function(&mut self, call: &CallExpr, target: Option<Value>, arguments: Vec<Value>) -> Evaluated {
        let mut sizes = Vec::with_capacity(arguments.len() + 1);
        for value in target.iter().chain(&arguments) {
            sizes.push(self.meter.pay_for_copy(value)?);
        }
        let all: Vec<&Value> = target.iter().chain(&arguments).collect();
        self.pay_for_function(&call.func_name, &all, &sizes)?;
        let mut context = functions::context();
        let mut bind = |name: String, value: Value| {
            context.add_variable_from_value(name.clone(), value);
            IdedExpr { id: 0, expr: Expr::Ident(name) }
        };
        let target = match target {
            Some(target) => Some(Box::new(bind("@this".to_owned(), target))),
            None => call.target.clone(),
        };
        let bound = |(index, value)| bind(format!("@{index}"), value);
        let args = arguments.into_iter().enumerate().map(bound).collect();
        let call = CallExpr { func_name: call.func_name.clone(), target, args };
        let failed = format!("{} cannot be computed", call.func_name);
        let call = IdedExpr { id: 0, expr: Expr::Call(call) };
        // Some functions of the libraries do not check for overflow.
        let made = catch_unwind(AssertUnwindSafe(|| Value::resolve(&call, &context)))
            .unwrap_or_else(|_| Err(ExecutionError::function_error("call", failed)))?;
        self.meter.pay_for_copy(&made)?;
        Ok(made)
    }

    /// Pays for functions that do more than go through their arguments once, or make more than they get.
    fn pay_for_function(
        &mut self,
        name: &str,
        values: &[&Value],
        sizes: &[u64],
    ) -> Result<(), ExecutionError> {
        let length = |index: usize| values.get(index).map_or(0, |value| bytes(value));
        let product = || sizes.iter().fold(1_u64, |product, size| product.saturating_mul(*size));
        match name {
            "find" | "findAll" => {
                self.meter.pay(COMPILE_PATTERN.saturating_add(search(length(0) as usize, length(1) as usize)))
            }
            "contains" | "indexOf" | "lastIndexOf" | "split" | "intersects" | "equivalent" => {
                self.meter.pay(product())
            }
            // Every element is compared with all before it.
            "distinct" => self.meter.pay(sizes.first().map_or(0, |size| size.saturating_mul(*size) / 8)),
            "sort" => self.meter.pay(sizes.first().map_or(0, |size| size.saturating_mul(16))),
            "replace" => {
                let places = match length(1) {
                    0 => length(0) + 1,
                    from => length(0) / from,
                };
                self.meter.pay_for_string(places.saturating_mul(length(2)).saturating_add(length(0)))
            }
            "join" => {
                let items =
                    if let Some(Value::List(items)) = values.first() { items.len() as u64 } else { 0 };
                self.meter.pay_for_string(items.saturating_mul(length(1)))
            }
            "format" => match values.first() {
                Some(Value::String(text)) => self.meter.pay_for_string(numbers_in(text)),
                _ => Ok(()),
            },
            "range" => match values.first() {
                Some(Value::Int(count)) => self.meter.pay_for_elements(u64::try_from(*count).unwrap_or(0)),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The parts of a comprehension that makes a list. Only the macros `map` and `filter` are written as these.
struct Appends<'a> {
    filter: Option<&'a IdedExpr>,
    element: &'a IdedExpr,
}

impl<'a> Appends<'a> {
    fn of(part: &'a ComprehensionExpr) -> Option<Self> {
        let accumulated =
            |expression: &IdedExpr| matches!(&expression.expr, Expr::Ident(name) if *name == part.accu_var);
        let appended = |step: &'a IdedExpr| match &step.expr {
            Expr::Call(call) if call.func_name == operators::ADD => match call.args.as_slice() {
                [kept, IdedExpr { expr: Expr::List(list), .. }]
                    if accumulated(kept) && list.elements.len() == 1 && list.optional_indices.is_empty() =>
                {
                    list.elements.first()
                }
                _ => None,
            },
            _ => None,
        };
        if !accumulated(&part.result)
            || !matches!(&part.accu_init.expr, Expr::List(list) if list.elements.is_empty())
        {
            return None;
        }
        match &part.loop_step.expr {
            Expr::Call(call) if call.func_name == operators::CONDITIONAL => match call.args.as_slice() {
                [filter, then, otherwise] if accumulated(otherwise) => {
                    Some(Self { filter: Some(filter), element: appended(then)? })
                }
                _ => None,
            },
            _ => Some(Self { filter: None, element: appended(&part.loop_step)? }),
        }
    }
}

fn is_binary(name: &str) -> bool {
    [
        operators::EQUALS,
        operators::NOT_EQUALS,
        operators::ADD,
        operators::SUBSTRACT,
        operators::MULTIPLY,
        operators::DIVIDE,
        operators::MODULO,
        operators::IN,
        operators::INDEX,
        operators::OPT_INDEX,
        operators::LESS,
        operators::LESS_EQUALS,
        operators::GREATER,
        operators::GREATER_EQUALS,
    ]
    .contains(&name)
}

/// What searching a string for a regular expression costs, in Kubernetes' model; short expressions cost no less
/// than some work for every character.
fn search(text: usize, pattern: usize) -> u64 {
    read(text as u64 + 1).saturating_mul((pattern as u64).div_ceil(4).max(4))
}

fn bytes(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    }
}

/// All numbers in a format added up: `%.9f` makes nine digits.
fn numbers_in(format: &str) -> u64 {
    let numbers = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    numbers.map(|digits| digits.parse().unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
}

fn key(value: Value) -> Result<Key, ExecutionError> {
    value.try_into().map_err(|_| ExecutionError::NoSuchOverload)
}

/// What an optional holds; anything else is there.
fn present(value: Value) -> Option<Value> {
    match optional(&value) {
        Some(inner) => inner.value().cloned(),
        None => Some(value),
    }
}

fn no_overload() -> Evaluated {
    Err(ExecutionError::NoSuchOverload)
}
