//! The six operations, and how they are read.

use serde_json::{Map, Value};

use super::{Dialect, Problem};

/// One operation of a patch. Paths are JSON pointers.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds a field or an item of a list; a field that is there is replaced.
    Add {
        /// Where to.
        path: String,
        /// What is added.
        value: Value,
    },
    /// Removes what is there.
    Remove {
        /// Where it is.
        path: String,
    },
    /// Replaces what is there.
    Replace {
        /// Where it is.
        path: String,
        /// What takes its place.
        value: Value,
    },
    /// Removes a value from one place and adds it at another.
    Move {
        /// Where it is.
        from: String,
        /// Where to.
        path: String,
    },
    /// Adds a value at another place too.
    Copy {
        /// Where it is.
        from: String,
        /// Where to.
        path: String,
    },
    /// Fails the patch unless the value is the expected one.
    Test {
        /// Where it is.
        path: String,
        /// What it must be.
        value: Value,
    },
}

impl Operation {
    /// The name in `op`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Add { .. } => "add",
            Self::Remove { .. } => "remove",
            Self::Replace { .. } => "replace",
            Self::Move { .. } => "move",
            Self::Copy { .. } => "copy",
            Self::Test { .. } => "test",
        }
    }

    /// The `path`.
    pub fn path(&self) -> &str {
        match self {
            Self::Add { path, .. }
            | Self::Remove { path }
            | Self::Replace { path, .. }
            | Self::Move { path, .. }
            | Self::Copy { path, .. }
            | Self::Test { path, .. } => path,
        }
    }
}

/// An operation of a patch that was read. One that makes no sense is refused when its turn comes, as
/// both originals do or could do without a difference: a patch is applied as a whole.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Read {
    Valid(Operation),
    Invalid { name: String, path: String, problem: Problem },
}

/// Reads one operation; `None` if it is not an object.
pub(super) fn read(dialect: Dialect, operation: &Value) -> Option<Read> {
    let members = match operation {
        Value::Object(members) => members,
        Value::Null => &Map::new(),
        _ => return None,
    };
    Some(members_of(dialect, members).map_or_else(
        |problem| Read::Invalid {
            name: string(members, "op").unwrap_or("?").to_owned(),
            path: string(members, "path").unwrap_or_default().to_owned(),
            problem,
        },
        Read::Valid,
    ))
}

fn members_of(dialect: Dialect, members: &Map<String, Value>) -> Result<Operation, Problem> {
    let needed = |name| string(members, name).map(str::to_owned).ok_or(Problem::Missing(name));
    let path = || needed("path");
    let optional = || members.get("value").cloned().unwrap_or(Value::Null);
    let value = || match (dialect, members.get("value")) {
        (Dialect::ClusterApi, None) => Err(Problem::Missing("value")),
        _ => Ok(optional()),
    };
    Ok(match string(members, "op").ok_or(Problem::UnknownOperation)? {
        "add" => Operation::Add { value: value()?, path: path()? },
        "remove" => Operation::Remove { path: path()? },
        "replace" => Operation::Replace { value: value()?, path: path()? },
        "move" => Operation::Move { from: needed("from")?, path: path()? },
        "copy" => Operation::Copy { from: needed("from")?, path: path()? },
        "test" => Operation::Test { value: optional(), path: path()? },
        _ => return Err(Problem::UnknownOperation),
    })
}

fn string<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str)
}
