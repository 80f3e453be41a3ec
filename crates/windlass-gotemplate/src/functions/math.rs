//! Numbers. Functions that take any value read it as a number, and what is none counts as zero.

use std::rc::Rc;

use super::Type::{Any, Float, Int, Str};
use super::{Call, Function, check_length, function, variadic};
use crate::decimal::Decimal;
use crate::lex::parse_int;
use crate::print::print;
use crate::value::{Element, List, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("add", &[], Any, |c| Ok(whole(c, 0, i64::wrapping_add))),
    function("add1", &[Any], |c| Ok(Value::int64(to_int(c.value(0)?).wrapping_add(1)))),
    function("add1f", &[Any], |c| decimal(to_float(c.value(0)?), &[Value::int(1)], Decimal::add)),
    variadic("addf", &[], Any, |c| decimal(0.0, &c.values, Decimal::add)),
    function("atoi", &[Str], |c| Ok(Value::int(c.str(0)?.parse().unwrap_or(0)))),
    variadic("biggest", &[Any], Any, |c| Ok(fold(c, i64::max))),
    function("ceil", &[Any], |c| Ok(to_float(c.value(0)?).ceil().into())),
    function("div", &[Any, Any], |c| divided(c, i64::wrapping_div)),
    variadic("divf", &[Any], Any, |c| decimal(to_float(c.value(0)?), c.rest(1), Decimal::divide)),
    function("float64", &[Any], |c| Ok(to_float(c.value(0)?).into())),
    function("floor", &[Any], |c| Ok(to_float(c.value(0)?).floor().into())),
    function("int", &[Any], |c| Ok(Value::int(to_int(c.value(0)?)))),
    function("int64", &[Any], |c| Ok(Value::int64(to_int(c.value(0)?)))),
    variadic("max", &[Any], Any, |c| Ok(fold(c, i64::max))),
    variadic("maxf", &[Any], Any, |c| Ok(fold_floats(c, |a, b| if a.is_nan() || a > b { a } else { b }))),
    variadic("min", &[Any], Any, |c| Ok(fold(c, i64::min))),
    variadic("minf", &[Any], Any, |c| Ok(fold_floats(c, |a, b| if a.is_nan() || a < b { a } else { b }))),
    function("mod", &[Any, Any], |c| divided(c, i64::wrapping_rem)),
    variadic("mul", &[Any], Any, |c| Ok(fold(c, i64::wrapping_mul))),
    variadic("mulf", &[Any], Any, |c| decimal(to_float(c.value(0)?), c.rest(1), Decimal::multiply)),
    variadic("round", &[Any, Int], Float, round),
    variadic("seq", &[], Int, seq),
    function("sub", &[Any, Any], |c| Ok(Value::int64(to_int(c.value(0)?).wrapping_sub(to_int(c.value(1)?))))),
    variadic("subf", &[Any], Any, |c| decimal(to_float(c.value(0)?), c.rest(1), Decimal::subtract)),
    function("toDecimal", &[Any], |c| {
        let value = c.value(0)?.clone();
        let octal = print(c.heap, &value)?;
        Ok(Value::int64(i64::from_str_radix(&octal, 8).unwrap_or(0)))
    }),
    function("until", &[Int], |c| {
        let count = c.int(0)?;
        numbers(c, 0, count, if count < 0 { -1 } else { 1 })
    }),
    function("untilStep", &[Int, Int, Int], |c| numbers(c, c.int(0)?, c.int(1)?, c.int(2)?)),
];

/// Any value as an integer, as Sprig reads it: `0x10`, `010` and `1.0` are integers, other strings are 0.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Integer(value, _) | Value::Whole(value) => *value,
        // Beyond the range, Go on amd64 gives the smallest integer.
        Value::Float(float) if float.is_nan() || float.abs() >= 9_223_372_036_854_775_808.0 => i64::MIN,
        Value::Float(float) => *float as i64,
        Value::String(string) => {
            let parsed = parse_int(without_zero_decimals(string));
            parsed.and_then(|integer| i64::try_from(integer).ok()).unwrap_or(0)
        }
        Value::Bool(value) => i64::from(*value),
        _ => 0,
    }
}

/// Any value as a float; what is none is 0.
fn to_float(value: &Value) -> f64 {
    match value {
        Value::Integer(value, _) | Value::Whole(value) => *value as f64,
        Value::Float(float) => *float,
        Value::String(string) => string.parse().unwrap_or(0.0),
        Value::Bool(value) => f64::from(u8::from(*value)),
        _ => 0.0,
    }
}

fn without_zero_decimals(string: &str) -> &str {
    match string.rsplit_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => whole,
        _ => string,
    }
}

fn whole(c: &Call<'_>, start: i64, step: fn(i64, i64) -> i64) -> Value {
    Value::int64(c.values.iter().fold(start, |result, value| step(result, to_int(value))))
}

fn fold(c: &Call<'_>, step: fn(i64, i64) -> i64) -> Value {
    Value::int64(c.values.iter().map(to_int).reduce(step).unwrap_or(0))
}

fn fold_floats(c: &Call<'_>, step: fn(f64, f64) -> f64) -> Value {
    Value::Float(c.values.iter().map(to_float).reduce(step).unwrap_or(0.0))
}

fn divided(c: &Call<'_>, step: fn(i64, i64) -> i64) -> Result<Value, String> {
    match to_int(c.value(1)?) {
        0 => Err("division by zero".to_owned()),
        divisor => Ok(Value::int64(step(to_int(c.value(0)?), divisor))),
    }
}

fn decimal(
    first: f64,
    rest: &[Value],
    step: fn(Decimal, Decimal) -> Result<Decimal, String>,
) -> Result<Value, String> {
    let mut result = Decimal::from_float(first)?;
    for value in rest {
        result = step(result, Decimal::from_float(to_float(value))?)?;
    }
    Ok(result.to_float().into())
}

fn round(c: &mut Call<'_>) -> Result<Value, String> {
    let (value, places) = (to_float(c.value(0)?), c.int(1)?);
    let limit = if c.values.len() > 2 { c.float(2)? } else { 0.5 };
    let power = 10_f64.powi(i32::try_from(places).unwrap_or(if places < 0 { i32::MIN } else { i32::MAX }));
    let digits = power * value;
    let rounded = if digits.fract() >= limit { digits.ceil() } else { digits.floor() };
    Ok((rounded / power).into())
}

/// The numbers from `start` up or down to `stop`, without it.
fn counted(start: i64, stop: i64, step: i64) -> impl Iterator<Item = i64> + Clone {
    let goes = if stop < start { step < 0 } else { step > 0 };
    let next = move |at: &i64| at.checked_add(step);
    std::iter::successors(goes.then_some(start), next)
        .take_while(move |at| if stop < start { *at > stop } else { *at < stop })
}

fn numbers(c: &mut Call<'_>, start: i64, stop: i64, step: i64) -> Result<Value, String> {
    let mut items = Vec::new();
    for number in counted(start, stop, step) {
        c.heap.spend(1)?;
        items.push(Value::int(number));
    }
    Ok(Value::List(List::new(items, Element::Int)?))
}

fn seq(c: &mut Call<'_>) -> Result<Value, String> {
    let given: Result<Vec<i64>, String> = (0..c.values.len()).map(|at| c.int(at)).collect();
    let (start, stop, step) = match *given?.as_slice() {
        [end] => (1, end, if end < 1 { -1 } else { 1 }),
        [start, end] => (start, end, if end < start { -1 } else { 1 }),
        [start, step, end] if end >= start || step <= 0 => (start, end, step),
        _ => return Ok("".into()),
    };
    let direction = if stop < start { -1 } else { 1 };
    let mut out = String::new();
    for number in counted(start, stop.saturating_add(direction), step) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&number.to_string());
        check_length(out.len())?;
        c.heap.spend(1)?;
    }
    Ok(Value::String(Rc::from(out)))
}
