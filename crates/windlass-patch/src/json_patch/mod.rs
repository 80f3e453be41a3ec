//! JSON Patch, RFC 6902, in two dialects.

mod apply;
mod cost;
mod difference;
mod operation;

use serde_json::Value;

use crate::depth::{self, TooDeep};
use cost::Cost;
pub use cost::MAX_COPIED_BYTES;
pub use difference::between;
pub use operation::Operation;
use operation::Read;

/// The most operations of a patch: the API server's limit, which it answers with 413. Cluster API has
/// none; its controllers are given the same one here.
pub const MAX_OPERATIONS: usize = 10_000;

/// Whose rules a patch follows where they differ from the RFC and from each other.
///
/// In both, a negative index counts from the end, a missing parent is an error, a `test` for `null`
/// passes where the field is absent, and `1` is not `1.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The API server and its admission webhooks: evanphx/json-patch v4.
    ///
    /// `replace` and `copy` take an absent field for `null`, and so does an operation without `value`.
    /// The root can be replaced or tested, and nothing else.
    ApiServer,
    /// Cluster API, for answers of GeneratePatches and of the in-place hooks, and for the inline
    /// patches of a class: evanphx/json-patch v5 with its default options.
    ///
    /// `replace`, `copy` and `remove` need what they are about, and `add` and `replace` need a `value`.
    /// A value can be added at the root, which replaces it.
    ClusterApi,
}

/// A JSON Patch that has been read and not applied.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    dialect: Dialect,
    operations: Vec<Read>,
}

/// Why a patch is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    /// It is not a list of operations.
    #[error("a JSON Patch is a list of operations")]
    Malformed,
    /// It has too many operations.
    #[error("the allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation cannot be carried out.
    #[error("operation at index {index} ({operation} {path:?}): {problem}")]
    Rejected {
        /// The position of the operation in the patch; the first is 0.
        index: usize,
        /// Its `op`, or `?` where it has none.
        operation: String,
        /// Its `path`, or nothing where it has none.
        path: String,
        /// Why it cannot be carried out.
        problem: Problem,
    },
    /// The document or the patch nests too deep.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// Why an operation cannot be carried out. No value of a field is ever in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no such operation.
    #[error("unknown operation")]
    UnknownOperation,
    /// A member that it needs is missing, or is not a string where it should be one.
    #[error("the operation has no {0}")]
    Missing(&'static str),
    /// A path is not a JSON pointer.
    #[error("a path begins with /")]
    NotAPointer,
    /// The whole document cannot be the object of this operation.
    #[error("this cannot be done to the whole document")]
    WholeDocument,
    /// The root can only become an object or a list.
    #[error("the document must be an object or a list")]
    Root,
    /// An object on the way does not have the field.
    #[error("there is no field {0:?}")]
    NoField(String),
    /// Something on the way has neither fields nor items.
    #[error("{0:?} is looked for in a value that is neither an object nor a list")]
    NoContainer(String),
    /// A list is asked for something that is not an index.
    #[error("{0:?} is not an index of a list")]
    NotAnIndex(String),
    /// A list does not have the index.
    #[error("index {index} is out of range, the list has {length} items")]
    OutOfRange {
        /// The index, as it was given.
        index: String,
        /// How many items the list has.
        length: usize,
    },
    /// The problem is with where the value is taken from.
    #[error("from {from:?}: {problem}")]
    From {
        /// Where that is.
        from: String,
        /// What is wrong there.
        problem: Box<Problem>,
    },
    /// The value is not what the test expects.
    #[error("the test failed: the value is another one")]
    TestFailed,
    /// The patch copies too much.
    #[error("the patch copies more than {MAX_COPIED_BYTES} bytes")]
    CopiesTooMuch,
    /// The patch takes too long.
    #[error("the patch is too expensive to apply")]
    TooExpensive,
    /// The document would nest too deep.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

impl Problem {
    /// Whether the operation itself is wrong, whatever it is applied to.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::UnknownOperation | Self::Missing(_))
    }
}

impl JsonPatch {
    /// Reads a patch. Whether its operations make sense shows when it is applied.
    ///
    /// # Errors
    ///
    /// When it is not a list of objects, or too large or too deep. `null` is a patch without operations.
    pub fn parse(dialect: Dialect, patch: &Value) -> Result<Self, JsonPatchError> {
        let operations = match patch {
            Value::Null => &[],
            Value::Array(operations) => operations.as_slice(),
            _ => return Err(JsonPatchError::Malformed),
        };
        if operations.len() > MAX_OPERATIONS {
            return Err(JsonPatchError::TooManyOperations(operations.len()));
        }
        depth::check(patch)?;
        let read = |operation| operation::read(dialect, operation).ok_or(JsonPatchError::Malformed);
        Ok(Self { dialect, operations: operations.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// A patch of these operations.
    pub fn new(dialect: Dialect, operations: impl IntoIterator<Item = Operation>) -> Self {
        Self { dialect, operations: operations.into_iter().map(Read::Valid).collect() }
    }

    /// The document with all operations applied in order.
    ///
    /// # Errors
    ///
    /// When an operation cannot be carried out. The patch is applied as a whole or not at all.
    pub fn apply(&self, document: &Value) -> Result<Value, JsonPatchError> {
        depth::check(document)?;
        let mut patched = document.clone();
        let mut cost = Cost::default();
        for (index, read) in self.operations.iter().enumerate() {
            let rejected = |operation: &str, path: &str, problem| JsonPatchError::Rejected {
                index,
                operation: operation.to_owned(),
                path: path.to_owned(),
                problem,
            };
            match read {
                Read::Valid(operation) => apply::apply(self.dialect, &mut patched, operation, &mut cost)
                    .map_err(|problem| rejected(operation.name(), operation.path(), problem))?,
                Read::Invalid { name, path, problem } => return Err(rejected(name, path, problem.clone())),
            }
        }
        Ok(patched)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::depth::hostile::{dismantle, nested};

    fn patched(document: Value, patch: Value) -> Result<Value, JsonPatchError> {
        JsonPatch::parse(Dialect::ApiServer, &patch)?.apply(&document)
    }

    #[test]
    fn errors_name_the_operation_its_path_and_what_is_wrong() {
        let cases = [
            (
                json!({"op": "test", "path": "/s", "value": "secret"}),
                r#"(test "/s"): the test failed: the value is another one"#,
            ),
            (json!({"op": "add", "path": "/x/y", "value": 1}), r#"(add "/x/y"): there is no field "x""#),
            (
                json!({"op": "add", "path": "/s/y", "value": 1}),
                r#"(add "/s/y"): "y" is looked for in a value that is neither an object nor a list"#,
            ),
            (
                json!({"op": "add", "path": "/s/y/z", "value": 1}),
                r#"(add "/s/y/z"): "y" is looked for in a value that is neither an object nor a list"#,
            ),
            (
                json!({"op": "add", "path": "/l/7", "value": 1}),
                r#"(add "/l/7"): index 7 is out of range, the list has 1 items"#,
            ),
            (
                json!({"op": "remove", "path": "/l/-2"}),
                r#"(remove "/l/-2"): index -2 is out of range, the list has 1 items"#,
            ),
            (json!({"op": "remove", "path": "/l/x"}), r#"(remove "/l/x"): "x" is not an index of a list"#),
            (json!({"op": "add", "path": "s", "value": 1}), r#"(add "s"): a path begins with /"#),
            (
                json!({"op": "remove", "path": ""}),
                r#"(remove ""): this cannot be done to the whole document"#,
            ),
            (
                json!({"op": "replace", "path": "", "value": 1}),
                r#"(replace ""): the document must be an object or a list"#,
            ),
            (
                json!({"op": "replace", "path": "/none", "value": 1}),
                r#"(replace "/none"): there is no field "none""#,
            ),
            (
                json!({"op": "move", "from": "/none", "path": "/to"}),
                r#"(move "/to"): from "/none": there is no field "none""#,
            ),
            (
                json!({"op": "copy", "from": "/s", "path": "/no/to"}),
                r#"(copy "/no/to"): there is no field "no""#,
            ),
            (json!({"op": "move", "path": "/to"}), r#"(move "/to"): the operation has no from"#),
            (json!({"op": "add", "path": "/to"}), r#"(add "/to"): the operation has no value"#),
            (json!({"op": "add", "value": 1}), r#"(add ""): the operation has no path"#),
            (json!({"op": "merge", "path": "/to"}), r#"(merge "/to"): unknown operation"#),
            (json!({"path": "/to"}), r#"(? "/to"): unknown operation"#),
        ];
        for (operation, expected) in cases {
            let patch = json!([{"op": "test", "path": "/s", "value": "text"}, operation]);
            let patch = JsonPatch::parse(Dialect::ClusterApi, &patch).unwrap();
            let error = patch.apply(&json!({"s": "text", "l": [1]})).unwrap_err();
            assert_eq!(error.to_string(), format!("operation at index 1 {expected}"));
        }
    }

    #[test]
    fn operations_that_are_made_here_are_applied_like_read_ones() {
        let operations = [
            Operation::Add { path: "/l/-1".to_owned(), value: json!(2) },
            Operation::Replace { path: "/l/0".to_owned(), value: json!(0) },
            Operation::Remove { path: "/a".to_owned() },
        ];
        let patch = JsonPatch::new(Dialect::ClusterApi, operations);
        assert_eq!(patch.apply(&json!({"a": 1, "l": [1]})), Ok(json!({"l": [0, 2]})));
    }

    #[test]
    fn what_is_not_a_patch_is_malformed() {
        for patch in [json!({}), json!("x"), json!([1]), json!([[]])] {
            assert_eq!(patched(json!({}), patch), Err(JsonPatchError::Malformed));
        }
    }

    #[test]
    fn hostile_patches_are_bounded() {
        let many = json!(vec![json!({"op": "test", "path": "/a"}); MAX_OPERATIONS + 1]);
        assert_eq!(patched(json!({}), many), Err(JsonPatchError::TooManyOperations(MAX_OPERATIONS + 1)));
        let rejected_for = |document, patch| match patched(document, patch) {
            Err(JsonPatchError::Rejected { index, problem, .. }) => (index, problem),
            other => panic!("not rejected: {other:?}"),
        };

        // Each copy doubles the field and nests it one deeper.
        let doubling = json!(vec![json!({"op": "copy", "from": "/a", "path": "/a/a"}); 5_000]);
        assert_eq!(rejected_for(json!({"a": {}}), doubling).1, Problem::TooDeep(TooDeep));

        // A large field moved to and fro, and a long list filled from its start.
        let large = json!({"a": {"l": vec![0; 100_000]}, "b": {}});
        let to_and_fro = [
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
            json!({"op": "move", "from": "/b/a", "path": "/a"}),
        ];
        let patch = json!(to_and_fro.iter().cycle().take(MAX_OPERATIONS).collect::<Vec<_>>());
        assert_eq!(rejected_for(large, patch).1, Problem::TooExpensive);
        let long = json!({"l": vec![0; 500_000]});
        let fill = json!(vec![json!({"op": "add", "path": "/l/0", "value": 0}); MAX_OPERATIONS]);
        assert_eq!(rejected_for(long, fill).1, Problem::TooExpensive);

        let wide = json!({"a": "x".repeat(1024 * 1024), "l": []});
        let copies = json!(vec![json!({"op": "copy", "from": "/a", "path": "/l/-"}); 5]);
        assert_eq!(rejected_for(wide, copies), (2, Problem::CopiesTooMuch));

        let deep = nested(10_000);
        assert_eq!(
            JsonPatch::parse(Dialect::ApiServer, &deep).map(|_| ()),
            Err(JsonPatchError::TooDeep(TooDeep))
        );
        let empty = JsonPatch::new(Dialect::ApiServer, []);
        assert_eq!(empty.apply(&deep), Err(JsonPatchError::TooDeep(TooDeep)));
        dismantle(deep);
    }
}
