//! Semantic versions.

use std::rc::Rc;

use super::Type::Str;
use super::{Function, function};
use crate::semver::{Constraints, Version};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("semver", &[Str], |c| Ok(Value::Version(Rc::new(Version::parse(&c.str(0)?)?)))),
    function("semverCompare", &[Str, Str], |c| {
        let (constraints, version) = (Constraints::parse(&c.str(0)?)?, Version::parse(&c.str(1)?)?);
        Ok(constraints.are_met_by(&version).into())
    }),
];
