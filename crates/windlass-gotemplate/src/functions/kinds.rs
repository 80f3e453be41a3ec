//! What a value is.

use super::Type::{Any, Str};
use super::{Function, function};
use crate::value::{Value, deep_equal};

pub(super) const FUNCTIONS: &[Function] = &[
    function("deepEqual", &[Any, Any], |c| {
        let (left, right) = (c.value(0)?.clone(), c.value(1)?.clone());
        Ok(deep_equal(c.heap, &left, &right, 0)?.into())
    }),
    function("kindIs", &[Str, Any], |c| Ok((*c.str(0)? == *c.value(1)?.go_kind()).into())),
    function("kindOf", &[Any], |c| Ok(c.value(0)?.go_kind().into())),
    function("typeIs", &[Str, Any], |c| Ok((*c.str(0)? == *c.value(1)?.go_type(c.heap)).into())),
    function("typeIsLike", &[Str, Any], |c| {
        let (wanted, found) = (c.str(0)?, c.value(1)?.go_type(c.heap));
        Ok(Value::Bool(*wanted == *found || found.strip_prefix('*') == Some(&wanted)))
    }),
    function("typeOf", &[Any], |c| Ok(c.value(0)?.go_type(c.heap).into())),
];
