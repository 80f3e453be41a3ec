//! Defaults and conditions.

use super::Type::{Any, Bool, Str};
use super::{Call, Function, function, variadic};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("all", &[], Any, |c| Ok(c.values.iter().all(|value| value.is_true(c.heap)).into())),
    variadic("any", &[], Any, |c| Ok(c.values.iter().any(|value| value.is_true(c.heap)).into())),
    variadic("coalesce", &[], Any, |c| {
        Ok(c.values.iter().find(|value| value.is_true(c.heap)).cloned().unwrap_or(Value::Nil))
    }),
    variadic("default", &[Any], Any, default),
    function("empty", &[Any], |c| Ok((!c.value(0)?.is_true(c.heap)).into())),
    function("fail", &[Str], |c| Err(c.str(0)?.to_string())),
    function("hello", &[], |_| Ok("Hello!".into())),
    function("ternary", &[Any, Any, Bool], |c| c.value(usize::from(!c.bool(2)?)).cloned()),
];

fn default(c: &mut Call<'_>) -> Result<Value, String> {
    match c.values.get(1) {
        Some(given) if given.is_true(c.heap) => Ok(given.clone()),
        _ => c.value(0).cloned(),
    }
}
