//! The functions of Go and Sprig that depend on nothing but their arguments, and the names of those that are refused.

mod builtins;
mod case;
mod defaults;
mod dicts;
mod encoding;
mod kinds;
mod lists;
mod math;
mod paths;
mod regexes;
mod secrets;
mod strings;
mod times;
mod urls;
mod versions;

use std::rc::Rc;

use super::dates::Time;
use super::parse::Operand;
use super::value::{Element, Heap, Integer, List, MAX_STRING, MapId, Value};

/// A function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    parameters: &'static [Type],
    /// The type of any number of further arguments.
    rest: Option<Type>,
    pub(crate) body: Body,
}

/// How a function is called.
#[derive(Debug)]
pub(crate) enum Body {
    And,
    Or,
    Plain(fn(&mut Call<'_>) -> Result<Value, String>),
}

/// Types of parameters, as Go declares them upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Any,
    Bool,
    Float,
    Int,
    /// `map[string]interface {}`
    Map,
    Str,
    Time,
}

/// What is known of a name.
pub(crate) enum Lookup {
    Found(&'static Function),
    /// It exists upstream, and why it does not here.
    Refused(&'static str),
    Unknown,
}

const FAMILIES: &[&[Function]] = &[
    builtins::FUNCTIONS,
    case::FUNCTIONS,
    defaults::FUNCTIONS,
    dicts::FUNCTIONS,
    encoding::FUNCTIONS,
    kinds::FUNCTIONS,
    lists::FUNCTIONS,
    math::FUNCTIONS,
    paths::FUNCTIONS,
    regexes::FUNCTIONS,
    secrets::FUNCTIONS,
    strings::FUNCTIONS,
    times::FUNCTIONS,
    urls::FUNCTIONS,
    versions::FUNCTIONS,
];

const CLOCK: &str = "it depends on the time of day";
const ZONE: &str = "it depends on the time zone of the machine";
const RANDOM: &str = "it depends on chance";
const ENVIRONMENT: &str = "it depends on the environment of the controller";
const NETWORK: &str = "it asks the network";

/// Functions of Sprig that are refused, and why.
const REFUSED: &[(&str, &str)] = &[
    ("ago", CLOCK),
    ("bcrypt", RANDOM),
    ("date", ZONE),
    ("dateInZone", ZONE),
    ("dateModify", "mustDateModify does the same and says what is wrong"),
    ("date_in_zone", ZONE),
    ("date_modify", "must_date_modify does the same and says what is wrong"),
    ("encryptAES", RANDOM),
    ("env", ENVIRONMENT),
    ("expandenv", ENVIRONMENT),
    ("genCA", RANDOM),
    ("genCAWithKey", RANDOM),
    ("genPrivateKey", RANDOM),
    ("genSelfSignedCert", RANDOM),
    ("genSelfSignedCertWithKey", RANDOM),
    ("genSignedCert", RANDOM),
    ("genSignedCertWithKey", RANDOM),
    ("getHostByName", NETWORK),
    ("htmlDate", ZONE),
    ("htmlDateInZone", ZONE),
    ("htpasswd", RANDOM),
    ("now", CLOCK),
    ("randAlpha", RANDOM),
    ("randAlphaNum", RANDOM),
    ("randAscii", RANDOM),
    ("randBytes", RANDOM),
    ("randInt", RANDOM),
    ("randNumeric", RANDOM),
    ("shuffle", RANDOM),
    ("uuidv4", RANDOM),
];

/// Finds a function.
pub(crate) fn find(name: &str) -> Lookup {
    if let Some(function) = FAMILIES.iter().copied().flatten().find(|function| function.name == name) {
        return Lookup::Found(function);
    }
    match REFUSED.iter().find(|(refused, _)| *refused == name) {
        Some((_, reason)) => Lookup::Refused(reason),
        None => Lookup::Unknown,
    }
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().copied().flatten().map(|function| function.name)
}

/// The names of the functions that are refused, and why.
pub(crate) fn refused() -> impl Iterator<Item = (&'static str, &'static str)> {
    REFUSED.iter().copied()
}

const fn function(
    name: &'static str,
    parameters: &'static [Type],
    body: fn(&mut Call<'_>) -> Result<Value, String>,
) -> Function {
    Function { name, parameters, rest: None, body: Body::Plain(body) }
}

/// A function with any number of further arguments.
const fn variadic(
    name: &'static str,
    parameters: &'static [Type],
    rest: Type,
    body: fn(&mut Call<'_>) -> Result<Value, String>,
) -> Function {
    Function { name, parameters, rest: Some(rest), body: Body::Plain(body) }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Function {
    /// What is wrong with a number of arguments, if anything is.
    pub(crate) fn wrong_count(&self, given: usize) -> Option<String> {
        let needed = self.parameters.len();
        let right = if self.rest.is_some() { given >= needed } else { given == needed };
        if right {
            return None;
        }
        let least = if self.rest.is_some() { "at least " } else { "" };
        let plural = if needed == 1 { "" } else { "s" };
        Some(format!("{} takes {least}{needed} argument{plural}, {given} given", self.name))
    }

    /// Calls the function. The value of a pipeline is the last argument.
    pub(crate) fn call(&self, heap: &mut Heap, arguments: Arguments<'_>) -> Result<Value, String> {
        let named = |problem: String| format!("{}: {problem}", self.name);
        let Body::Plain(body) = self.body else { return Ok(Value::Missing) };
        let mut values = Vec::with_capacity(arguments.values.len());
        for (at, (value, constant)) in arguments.values.into_iter().enumerate() {
            let wanted = self.parameters.get(at).copied().or(self.rest).unwrap_or(Type::Any);
            let value = wanted
                .accept(heap, value, constant)
                .map_err(|problem| named(format!("argument {}: {problem}", at + 1)))?;
            // Most functions walk over what they are given.
            heap.spend(value.weight(heap) / 8).map_err(named)?;
            values.push(value);
        }
        let result = body(&mut Call { heap, values }).map_err(named)?;
        if matches!(&result, Value::String(string) if string.len() > MAX_STRING) {
            return Err(named(too_long()));
        }
        heap.spend(result.weight(heap)).map_err(named)?;
        Ok(result)
    }
}

/// What is said of a string that would get too long.
fn too_long() -> String {
    format!("the result is larger than {MAX_STRING} bytes")
}

/// Refuses what would get too long, before it is made.
fn check_length(length: usize) -> Result<(), String> {
    if length > MAX_STRING { Err(too_long()) } else { Ok(()) }
}

/// Arguments of a call, before their types are checked.
pub(crate) struct Arguments<'a> {
    function: &'a Function,
    values: Vec<(Value, Constant)>,
}

/// A number that is written in the template can be of several types.
#[derive(Clone, Copy)]
enum Constant {
    No,
    Nil,
    Number { integer: Option<i64>, float: f64 },
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(function: &'a Function) -> Self {
        Self { function, values: Vec::with_capacity(function.parameters.len()) }
    }

    pub(crate) fn push(&mut self, value: Value, operand: &Operand) {
        let constant = match operand {
            Operand::Nil => Constant::Nil,
            Operand::Number(number) => Constant::Number { integer: number.integer, float: number.float },
            _ => Constant::No,
        };
        self.values.push((value, constant));
    }

    pub(crate) fn push_value(&mut self, value: Value) {
        debug_assert!(self.values.len() < self.function.parameters.len() || self.function.rest.is_some());
        self.values.push((value, Constant::No));
    }
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Any => "any value",
            Self::Bool => "bool",
            Self::Float => "float64",
            Self::Int => "int",
            Self::Map => "map[string]interface {}",
            Self::Str => "string",
            Self::Time => "time.Time",
        }
    }

    fn accept(self, heap: &Heap, value: Value, constant: Constant) -> Result<Value, String> {
        Ok(match (self, value, constant) {
            (Self::Any, Value::Missing, _) => Value::Nil,
            (Self::Any, value, _) => value,
            (Self::Int, _, Constant::Number { integer: Some(integer), .. }) => Value::int(integer),
            (Self::Int, Value::Whole(value), _) => Value::int(value),
            (Self::Float, _, Constant::Number { float, .. }) => Value::Float(float),
            (Self::Float, Value::Whole(value), _) => Value::Float(value as f64),
            (Self::Map, Value::Missing, _) | (Self::Map, _, Constant::Nil) => Value::Missing,
            (Self::Map, value @ Value::Map(id), _) if !heap.map(id).of_strings => value,
            (Self::Bool, value @ Value::Bool(_), _)
            | (Self::Int, value @ Value::Integer(_, Integer::Int), _)
            | (Self::Float, value @ Value::Float(_), _)
            | (Self::Str, value @ Value::String(_), _)
            | (Self::Time, value @ Value::Time(_), _) => value,
            (wanted, value, _) => return Err(wanted.mismatch(heap, &value)),
        })
    }

    fn mismatch(self, heap: &Heap, value: &Value) -> String {
        let given = match value {
            Value::Missing => "nothing",
            Value::Nil => "null",
            value => value.go_type(heap),
        };
        format!("expected {}, got {given}", self.name())
    }
}

/// A call of a function whose arguments have the types that it declares.
pub(crate) struct Call<'a> {
    pub(crate) heap: &'a mut Heap,
    pub(crate) values: Vec<Value>,
}

impl Call<'_> {
    fn value(&self, at: usize) -> Result<&Value, String> {
        self.values.get(at).ok_or_else(|| format!("argument {} is missing", at + 1))
    }

    fn str(&self, at: usize) -> Result<Rc<str>, String> {
        match self.value(at)? {
            Value::String(string) => Ok(string.clone()),
            other => Err(Type::Str.mismatch(self.heap, other)),
        }
    }

    fn int(&self, at: usize) -> Result<i64, String> {
        match self.value(at)? {
            Value::Integer(value, _) => Ok(*value),
            other => Err(Type::Int.mismatch(self.heap, other)),
        }
    }

    fn bool(&self, at: usize) -> Result<bool, String> {
        match self.value(at)? {
            Value::Bool(value) => Ok(*value),
            other => Err(Type::Bool.mismatch(self.heap, other)),
        }
    }

    fn float(&self, at: usize) -> Result<f64, String> {
        match self.value(at)? {
            Value::Float(value) => Ok(*value),
            other => Err(Type::Float.mismatch(self.heap, other)),
        }
    }

    fn time(&self, at: usize) -> Result<Time, String> {
        match self.value(at)? {
            Value::Time(time) => Ok(*time),
            other => Err(Type::Time.mismatch(self.heap, other)),
        }
    }

    /// A map; none stands for an empty one that cannot be written to.
    fn map(&self, at: usize) -> Result<Option<MapId>, String> {
        match self.value(at)? {
            Value::Map(id) => Ok(Some(*id)),
            Value::Missing => Ok(None),
            other => Err(Type::Map.mismatch(self.heap, other)),
        }
    }

    fn list(&self, at: usize) -> Result<List, String> {
        match self.value(at)? {
            Value::List(list) => Ok(list.clone()),
            other => Err(format!("expected a list, got {}", other.go_type(self.heap))),
        }
    }

    /// The values of a parameter that takes any number of them.
    fn rest(&self, from: usize) -> &[Value] {
        self.values.get(from..).unwrap_or_default()
    }

    /// A list as strings, as Sprig makes them: nulls are left out, and what is no list is a list of one.
    fn string_list(&mut self, at: usize) -> Result<Vec<Rc<str>>, String> {
        let value = self.value(at)?.clone();
        let items = match value {
            Value::List(list) => list.items,
            value => Rc::from([value]),
        };
        let mut strings = Vec::with_capacity(items.len());
        for item in items.iter().filter(|item| !item.is_nil()) {
            strings.push(self.as_string(item)?);
        }
        Ok(strings)
    }

    /// Any value as a string, as it is printed.
    fn as_string(&mut self, value: &Value) -> Result<Rc<str>, String> {
        match value {
            Value::String(string) => Ok(string.clone()),
            value => Ok(super::print::print(self.heap, value)?.into()),
        }
    }

    /// A part of a string. Cutting through a character gives no string.
    fn part(string: &str, from: usize, to: usize) -> Result<Value, String> {
        match string.get(from..to) {
            Some(part) => Ok(Value::from(part)),
            None if from > to || to > string.len() => {
                Err(format!("bytes {from} to {to} of a string of {} do not exist", string.len()))
            }
            None => Err(format!("bytes {from} to {to} of the string cut through a character")),
        }
    }
}

/// A list with elements of the given type that is nil when it is empty.
fn list_or_nil(items: Vec<Value>, element: Element) -> Result<Value, String> {
    if items.is_empty() {
        return Ok(Value::List(List::nil(element)));
    }
    Ok(Value::List(List::new(items, element)?))
}
