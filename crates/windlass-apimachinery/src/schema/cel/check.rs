//! What can be said about an expression before it is evaluated: whether it uses only what there is, and what it
//! costs at most. Costs are in Kubernetes' model, so that what its API server refuses is refused here too.

use std::sync::LazyLock;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::convert::escape;
use super::expression::ExpressionError;
use super::functions;
use super::meter::read;
use super::size;
use crate::schema::structural::{Additional, Schema, Type};

/// What is known about the value of a subexpression.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) schema: &'a Schema,
    /// Whether it is a whole object, with a name and a kind.
    pub(super) is_resource: bool,
}

/// What a subexpression is, and what it costs at most to get there.
#[derive(Clone, Copy)]
pub(super) struct Checked<'a> {
    known: Option<Known<'a>>,
    /// The most bytes of a string, or elements of a list or map.
    size: u64,
    /// The same of its elements, if it is a list that no schema describes.
    element: u64,
    pub(super) cost: u64,
}

impl<'a> Checked<'a> {
    fn of(known: Known<'a>, cost: u64) -> Self {
        Self { known: Some(known), size: size::largest(known.schema), element: size::REQUEST, cost }
    }

    /// A number, a flag, or anything else that takes one step to look at.
    fn scalar(cost: u64) -> Self {
        Self::sized(1, cost)
    }

    fn sized(size: u64, cost: u64) -> Self {
        Self { known: None, size, element: size, cost }
    }

    /// A value about which nothing is known.
    fn anything(cost: u64) -> Self {
        Self::sized(size::REQUEST, cost)
    }

    /// The same value, but it took more to get it.
    fn after(self, cost: u64) -> Self {
        Self { cost: self.cost.saturating_add(cost), ..self }
    }

    /// What one finds by iterating over it, or with an index.
    fn elements(self) -> Self {
        let inside = self.known.and_then(|known| match (&known.schema.items, &known.schema.additional) {
            (Some(items), _) => Some(describe(items)),
            (None, Some(Additional::Schema(field))) => Some(describe(field)),
            _ => None,
        });
        inside.map_or(Self::sized(self.element, 0), |inside| Self::of(inside, 0))
    }
}

pub(super) struct Checker<'a> {
    /// Variables in scope, innermost last.
    variables: Vec<(String, Checked<'a>)>,
    pub(super) uses_old_self: bool,
}

type Result<'a> = std::result::Result<Checked<'a>, ExpressionError>;

impl<'a> Checker<'a> {
    /// A checker of expressions over these variables, with what is known of them.
    pub(super) fn new(variables: Vec<(String, Option<Known<'a>>)>) -> Self {
        let variable = |(name, known): (String, Option<Known<'a>>)| {
            (name, known.map_or(Checked::anything(0), |known| Checked::of(known, 0)))
        };
        Self { variables: variables.into_iter().map(variable).collect(), uses_old_self: false }
    }

    pub(super) fn check(&mut self, expression: &IdedExpr) -> Result<'a> {
        match &expression.expr {
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(loop_) => self.comprehension(loop_),
            Expr::List(list) => {
                let mut made = Checked::sized(list.elements.len() as u64, 10);
                made.element = 0;
                for element in &list.elements {
                    let element = self.check(element)?;
                    made = made.after(element.cost);
                    made.element = made.element.max(element.size);
                }
                Ok(made)
            }
            Expr::Map(map) => {
                let mut made = Checked::sized(map.entries.len() as u64, 30);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(ExpressionError::Unsupported("message literals"));
                    };
                    made = made.after(self.check(&entry.key)?.cost);
                    made = made.after(self.check(&entry.value)?.cost);
                }
                Ok(made)
            }
            Expr::Literal(LiteralValue::String(text)) => Ok(Checked::sized(text.inner().len() as u64, 0)),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Ok(Checked::sized(bytes.inner().len() as u64, 0)),
            Expr::Literal(_) => Ok(Checked::scalar(0)),
            Expr::Struct(_) => Err(ExpressionError::Unsupported("message literals")),
            Expr::Unspecified => Err(ExpressionError::Unsupported("an empty expression")),
        }
    }

    fn variable(&mut self, name: &str) -> Result<'a> {
        let (_, checked) = self
            .variables
            .iter()
            .rev()
            .find(|(variable, _)| variable == name)
            .ok_or_else(|| ExpressionError::UnknownVariable(name.to_owned()))?;
        self.uses_old_self |= name == "oldSelf";
        Ok(Checked { cost: 1, ..*checked })
    }

    fn select(&mut self, select: &SelectExpr) -> Result<'a> {
        let operand = self.check(&select.operand)?;
        let cost = operand.cost.saturating_add(1);
        let Some(Known { schema, is_resource }) = operand.known else { return Ok(Checked::anything(cost)) };
        if is_resource {
            match select.field.as_str() {
                "apiVersion" | "kind" => return Ok(Checked::sized(size::NAME, cost)),
                "metadata" => return Ok(Checked::of(Known { schema: &NAMES, is_resource: false }, cost)),
                _ => {}
            }
        }
        let declared = schema.properties.iter().find(|(name, _)| escape(name) == select.field);
        match (declared, &schema.additional) {
            (Some((_, field)), _) => Ok(Checked::of(describe(field), cost)),
            (None, Some(Additional::Schema(field))) => Ok(Checked::of(describe(field), cost)),
            (None, Some(Additional::Anything)) => Ok(Checked::anything(cost)),
            // Only a closed object is known not to have a field.
            (None, None) if schema.ty != Some(Type::Object) || schema.preserve_unknown => {
                Ok(Checked::anything(cost))
            }
            (None, None) => Err(ExpressionError::UnknownField(select.field.clone())),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Result<'a> {
        let namespace = call.target.as_ref().and_then(|target| match &target.expr {
            Expr::Ident(name) if !self.variables.iter().any(|(variable, _)| variable == name) => Some(name),
            _ => None,
        });
        let name = match namespace {
            Some(namespace) => format!("{namespace}.{}", call.func_name),
            None => call.func_name.clone(),
        };
        if !is_operator(&name) && !functions::is_supported(&name) {
            return Err(ExpressionError::UnknownFunction(name));
        }
        let target = call.target.as_ref().filter(|_| namespace.is_none());
        let mut arguments = Vec::with_capacity(call.args.len() + 1);
        for argument in target.map(AsRef::as_ref).into_iter().chain(&call.args) {
            arguments.push(self.check(argument)?);
        }
        let result = result_of(&name, &arguments);
        // `a.?b` and `a['b']` are a field of `a` where the schema has one.
        Ok(match (field_of(&name, call, &arguments), result) {
            (Some(field), result) => Checked::of(describe(field), result.cost),
            (None, result) => result,
        })
    }

    fn comprehension(&mut self, loop_: &ComprehensionExpr) -> Result<'a> {
        if loop_.iter_var2.is_some() {
            return Err(ExpressionError::Unsupported("macros with two variables"));
        }
        let range = self.check(&loop_.iter_range)?;
        let init = self.check(&loop_.accu_init)?;
        let is_map = range.known.is_some_and(|known| known.schema.ty == Some(Type::Object));
        // Iterating over a map yields its keys, which are strings.
        let element = if is_map { Checked::sized(size::NAME, 0) } else { range.elements() };
        let outside = self.variables.len();
        self.variables.push((loop_.accu_var.clone(), Checked::scalar(0)));
        self.variables.push((loop_.iter_var.clone(), element));
        let parts = (|| {
            Ok((self.check(&loop_.loop_cond)?, self.check(&loop_.loop_step)?, self.check(&loop_.result)?))
        })();
        self.variables.truncate(outside);
        let (condition, step, result) = parts?;
        let every = condition.cost.saturating_add(step.cost);
        let cost = [range.cost, init.cost, range.size.saturating_mul(every), result.cost];
        let cost = cost.into_iter().fold(0, u64::saturating_add);
        // Only `map` and `filter` begin with a list; their step adds one element to it.
        let makes_list = matches!(loop_.accu_init.expr, Expr::List(_));
        let made = Checked::sized(if makes_list { range.size } else { 1 }, cost);
        Ok(Checked { element: step.element, ..made })
    }
}

/// The field that an index with a constant stands for.
fn field_of<'a>(name: &str, call: &CallExpr, arguments: &[Checked<'a>]) -> Option<&'a Schema> {
    let ([container, _], [_, key]) = (arguments, call.args.as_slice()) else { return None };
    match &key.expr {
        Expr::Literal(LiteralValue::String(key))
            if [operators::INDEX, operators::OPT_INDEX].contains(&name) =>
        {
            let fields = &container.known?.schema.properties;
            fields.iter().find(|(name, _)| escape(name) == key.inner()).map(|(_, field)| field)
        }
        _ => None,
    }
}

/// What a function or operator gives for its arguments, the value it is called on first.
fn result_of<'a>(name: &str, arguments: &[Checked<'a>]) -> Checked<'a> {
    let paid = arguments.iter().fold(1, |cost: u64, argument| cost.saturating_add(argument.cost));
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(Checked::scalar(0));
    let (first, second) = (argument(0), argument(1));
    let product = read(first.size).saturating_mul(read(second.size));
    let own = match name {
        operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS => match first.size.min(second.size) {
            0 | 1 => 0,
            size => read(size),
        },
        operators::IN => second.size,
        operators::ADD => read(first.size.saturating_add(second.size)),
        "startsWith" | "endsWith" => read(second.size),
        "matches" | "find" | "findAll" => {
            read(first.size.saturating_add(1)).saturating_mul(second.size.div_ceil(4))
        }
        "contains" | "indexOf" | "lastIndexOf" | "replace" | "split" => product,
        "sets.contains" | "sets.intersects" | "sets.equivalent" => first.size.saturating_mul(second.size),
        "isSorted" | "sum" | "min" | "max" | "sort" | "distinct" | "reverse" | "flatten" => first.size,
        "lowerAscii" | "upperAscii" | "substring" | "trim" | "join" | "string" | "bytes" | "quantity"
        | "isQuantity" | "url" | "isURL" | "ip" | "isIP" | "cidr" | "isCIDR" | "semver" | "isSemver"
        | "base64.encode" | "base64.decode" | "strings.quote" => read(first.size),
        _ => 0,
    };
    let cost = match name {
        // The operands are what these cost.
        operators::LOGICAL_AND | operators::LOGICAL_OR => paid - 1,
        operators::CONDITIONAL => first.cost.saturating_add(second.cost.max(argument(2).cost)),
        _ => paid.saturating_add(own),
    };
    let like_first = Checked { cost, ..first };
    match name {
        operators::INDEX | operators::OPT_INDEX => first.elements().after(cost),
        operators::CONDITIONAL if argument(1).size >= argument(2).size => Checked { cost, ..argument(1) },
        operators::CONDITIONAL => Checked { cost, ..argument(2) },
        operators::ADD => Checked {
            known: None,
            size: first.size.saturating_add(second.size),
            element: first.element_size().max(second.element_size()),
            cost,
        },
        "orValue" | "or" if second.size > first.size => Checked { cost, ..second },
        "orValue"
        | "or"
        | "value"
        | "optional.of"
        | "optional.ofNonZeroValue"
        | "sort"
        | "distinct"
        | "reverse"
        | "slice"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "string"
        | "bytes"
        | "find" => like_first,
        "findAll" | "split" => Checked { known: None, element: first.size, ..like_first },
        "strings.quote" | "base64.encode" | "base64.decode" => {
            Checked::sized(first.size.saturating_mul(2), cost)
        }
        "join" => {
            let every = first.element_size().saturating_add(second.size);
            Checked::sized(first.size.saturating_mul(every).min(size::REQUEST), cost)
        }
        "replace" => Checked::sized(first.size.saturating_add(product.saturating_mul(100)), cost),
        "first" | "last" | "min" | "max" => first.elements().after(cost),
        "flatten" | "lists.range" | "format" => Checked::anything(cost),
        _ => Checked::scalar(cost),
    }
}

impl Checked<'_> {
    fn element_size(self) -> u64 {
        self.elements().size
    }
}

/// Operators as the parser names them, such as `_&&_` and `@in`.
fn is_operator(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn describe(schema: &Schema) -> Known<'_> {
    Known { schema, is_resource: schema.embedded_resource }
}

/// What rules may know of an object's metadata: its name.
static NAMES: LazyLock<Schema> = LazyLock::new(|| {
    let mut text = Schema { ty: Some(Type::String), ..Schema::default() };
    text.checks.max_length = i64::try_from(size::NAME / 4).ok();
    Schema {
        ty: Some(Type::Object),
        properties: [("name".to_owned(), text.clone()), ("generateName".to_owned(), text)].into(),
        ..Schema::default()
    }
});
