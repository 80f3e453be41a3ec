//! Whether a value has its shape at all.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::{Kind, element, kind, unnameable};
use crate::fieldmanager::path::{self, Path, PathElement};
use crate::fieldmanager::shape::{ListShape, ScalarType, Shape};
use crate::json::type_name;
use crate::schema::ListType;

/// A value that does not have its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotConforming {
    /// What is wrong where, in the order of the document.
    pub problems: Vec<(Path, Problem)>,
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The schema has no such field.
    #[error("field not declared in schema")]
    UnknownField,
    /// The value is of another type.
    #[error("expected {expected}, got {found}")]
    WrongType {
        /// The type of the shape.
        expected: &'static str,
        /// The type of the value.
        found: &'static str,
    },
    /// Two elements of a list have the same name.
    #[error("duplicate entries for key {0}")]
    Duplicate(PathElement),
    /// An element of a list with keys has not all of them.
    #[error(
        "associative list with keys has an element that omits key field {0:?} (and doesn't have default value)"
    )]
    MissingKey(String),
    /// An element of a list with keys is not an object.
    #[error("associative list with keys may not have non-map elements")]
    NotAMapElement,
    /// An element of a set is not a scalar.
    #[error("associative list without keys has an element that is not a scalar")]
    NotASetElement,
}

impl fmt::Display for NotConforming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |(path, problem): &(Path, Problem)| format!("{}: {problem}", path::display(path));
        match self.problems.as_slice() {
            [only] => write!(f, "{}", line(only)),
            all => {
                write!(f, "errors:")?;
                all.iter().try_for_each(|problem| write!(f, "\n  {}", line(problem)))
            }
        }
    }
}

impl std::error::Error for NotConforming {}

/// The most problems that are reported: a value can be wrong in a million places.
const MAX_PROBLEMS: usize = 100;

/// Refuses a value that does not have the shape: unknown fields, wrong types, elements of lists that
/// cannot be told apart. `null` has every shape.
///
/// Stored objects may have `duplicates`, from before their list became a map; applied ones may not.
pub fn conform(value: &Value, shape: &Shape, duplicates: bool) -> Result<(), NotConforming> {
    conform_except(value, shape, duplicates, None)
}

/// The same for a value without a part of it.
pub(in crate::fieldmanager) fn conform_except<'a>(
    value: &'a Value,
    shape: &'a Shape,
    duplicates: bool,
    except: Option<&'a Value>,
) -> Result<(), NotConforming> {
    let mut walk = Walk { path: Vec::new(), problems: Vec::new(), duplicates, except };
    walk.value(value, shape);
    if walk.problems.is_empty() { Ok(()) } else { Err(NotConforming { problems: walk.problems }) }
}

struct Walk<'a> {
    path: Vec<Step<'a>>,
    problems: Vec<(Path, Problem)>,
    duplicates: bool,
    except: Option<&'a Value>,
}

/// A step on the way to a value. Becomes a path element only when there is a problem to report.
#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item(&'a ListShape, &'a Value),
    Index(usize),
}

impl Step<'_> {
    fn to_element(self) -> PathElement {
        let index = |index| PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX));
        match self {
            Step::Field(name) => PathElement::field(name),
            Step::Item(shape, item) => element(shape, item).unwrap_or_else(|_| index(0)),
            Step::Index(position) => index(position),
        }
    }
}

impl<'a> Walk<'a> {
    fn refuse(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            let path = self.path.iter().map(|step| step.to_element()).collect();
            self.problems.push((path, problem));
        }
    }

    fn inside(&mut self, step: Step<'a>, value: &'a Value, shape: &'a Shape) {
        self.path.push(step);
        self.value(value, shape);
        self.path.pop();
    }

    fn value(&mut self, value: &'a Value, shape: &'a Shape) {
        if value.is_null() || self.except.is_some_and(|except| std::ptr::eq(except, value)) {
            return;
        }
        let kind = kind(shape, value);
        let expect = |holds: bool, expected: &'static str| {
            (!holds).then(|| Problem::WrongType { expected, found: type_name(value) })
        };
        let wrong = match (shape, kind) {
            (Shape::Scalar(ScalarType::Text), _) => expect(value.is_string(), "string"),
            (Shape::Scalar(ScalarType::Number), _) => expect(value.is_number(), "numeric (int or float)"),
            (Shape::Scalar(ScalarType::Flag), _) => expect(value.is_boolean(), "boolean"),
            (Shape::Scalar(ScalarType::Any), _) => expect(!value.is_array() && !value.is_object(), "scalar"),
            (_, Kind::List(_)) => expect(value.is_array(), "list"),
            (_, Kind::Map(_)) => expect(value.is_object(), "map"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            self.refuse(wrong);
            return;
        }
        match (value, kind) {
            (Value::Object(fields), Kind::Map(shapes)) => {
                for (name, field) in fields {
                    match shapes.shape(name) {
                        Some(shape) => self.inside(Step::Field(name), field, shape),
                        None => {
                            self.path.push(Step::Field(name));
                            self.refuse(Problem::UnknownField);
                            self.path.pop();
                        }
                    }
                }
            }
            (Value::Array(items), Kind::List(shape)) if shape.list_type == ListType::Atomic => {
                for (index, item) in items.iter().enumerate() {
                    self.inside(Step::Index(index), item, &shape.item);
                }
            }
            (Value::Array(items), Kind::List(shape)) => self.elements(items, shape),
            _ => {}
        }
    }

    fn elements(&mut self, items: &'a [Value], shape: &'a ListShape) {
        let mut seen = BTreeSet::new();
        for item in items {
            if self.duplicates {
                // The name itself is of no interest here, and takes a while to make.
                match unnameable(shape, item) {
                    Some(problem) => self.refuse(problem),
                    None => self.inside(Step::Item(shape, item), item, &shape.item),
                }
                continue;
            }
            match element(shape, item) {
                Err(problem) => self.refuse(problem),
                Ok(name) => {
                    if seen.contains(&name) {
                        self.refuse(Problem::Duplicate(name));
                    } else {
                        seen.insert(name);
                    }
                    self.inside(Step::Item(shape, item), item, &shape.item);
                }
            }
        }
    }
}
