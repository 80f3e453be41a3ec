//! The language of the tables: what happens to a field between v1beta1 and v1beta2.

use crate::error::ConvertError;
use crate::path::Fields;
use crate::walk::Context;

/// What happens to a field, or to some. Rules are followed in order, and each takes its fields away from those that follow.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// From a path in v1beta1 to one in v1beta2 and back.
    Move { old: &'static str, new: &'static str, form: Form },
    /// Only v1beta1 has it; v1beta2 does not remember it.
    Lost(&'static str),
    /// Only v1beta2 has it; it survives v1beta1 in the conversion data.
    Kept(&'static str),
    /// The rules of another table, at the same place.
    All(&'static [Rule]),
    /// What a row of a table cannot say.
    Code(Code),
}

/// How the value of a field changes.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// Not at all.
    Same,
    /// A bool in v1beta1, where false is absence. v1beta2 can tell the two apart: false comes from the conversion data.
    Flag,
    /// A number in v1beta1, where 0 is absence, as above.
    Count,
    /// A number whose 0 means absence in both.
    NonZero,
    /// `10m` and 600.
    Seconds,
    /// `10m` and 600, where v1beta1 cannot tell 0 from absence.
    PlainSeconds,
    /// A reference to a provider's object, which has a version in v1beta1 only.
    ProviderRef,
    /// A reference to a template, which has a namespace in v1beta1 only.
    TemplateRef,
    /// A reference to a Node.
    NodeRef,
    /// Arguments: a map from names to values, and a list of both.
    Args,
    /// A map from names to objects, and a list of objects with names.
    NamedObjects,
    /// The phase of a Machine: v1beta1 has no `Updating`.
    Phase,
    /// An OpenAPI schema, in which booleans are flags at any depth.
    Schema,
    /// An object with rules of its own.
    Object(&'static [Rule]),
    /// A list of objects with rules of their own.
    List(&'static [Rule], Pairing),
}

/// Which element of the conversion data an element of a list is compared with.
#[derive(Clone, Copy)]
pub(crate) enum Pairing {
    /// The one at the same place, if both lists are as long.
    Place,
    /// The one with the same value of a field.
    Key(&'static str),
}

/// A conversion in code: the fields that are left of the source, what has been made, and the conversion data on the way up.
#[derive(Clone, Copy)]
pub(crate) struct Code {
    pub(crate) up: Up,
    pub(crate) down: Down,
}

pub(crate) type Up = fn(&mut Fields, &mut Fields, Option<&Fields>, &Context<'_>) -> Result<(), ConvertError>;
pub(crate) type Down = fn(&mut Fields, &mut Fields, &Context<'_>) -> Result<(), ConvertError>;

pub(crate) const fn moved(old: &'static str, new: &'static str, form: Form) -> Rule {
    Rule::Move { old, new, form }
}

/// The same value, elsewhere.
pub(crate) const fn renamed(old: &'static str, new: &'static str) -> Rule {
    moved(old, new, Form::Same)
}

/// Another value at the same place.
pub(crate) const fn at(path: &'static str, form: Form) -> Rule {
    moved(path, path, form)
}

/// An object at the same place with rules of its own.
pub(crate) const fn within(path: &'static str, rules: &'static [Rule]) -> Rule {
    at(path, Form::Object(rules))
}

/// A list at the same place, of objects with rules of their own.
pub(crate) const fn each(path: &'static str, pairing: Pairing, rules: &'static [Rule]) -> Rule {
    at(path, Form::List(rules, pairing))
}

/// A flag of v1beta1 at another place.
pub(crate) const fn flag(old: &'static str, new: &'static str) -> Rule {
    moved(old, new, Form::Flag)
}

/// A duration that becomes seconds.
pub(crate) const fn seconds(old: &'static str, new: &'static str) -> Rule {
    moved(old, new, Form::Seconds)
}
