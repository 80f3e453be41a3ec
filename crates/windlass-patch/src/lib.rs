//! JSON Patch (RFC 6902), JSON merge patch (RFC 7386) and JSON pointers (RFC 6901).
//!
//! Every component of Windlass that applies or makes a patch uses this crate, so that an answer of an
//! extension means the same to the topology controller, to an update in place and to
//! `windlass extension test`.
//!
//! Implementations of JSON Patch differ in more than their messages. Users rely on two of them, which
//! are the two values of [`Dialect`]:
//!
//! ```
//! use serde_json::json;
//! use windlass_patch::{Dialect, JsonPatch};
//!
//! let patch = json!([{"op": "replace", "path": "/spec/paused", "value": true}]);
//! let document = json!({"spec": {}});
//!
//! let patched = JsonPatch::parse(Dialect::ApiServer, &patch)?.apply(&document)?;
//! assert_eq!(patched, json!({"spec": {"paused": true}}));
//!
//! let refused = JsonPatch::parse(Dialect::ClusterApi, &patch)?.apply(&document).unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "operation at index 0 (replace \"/spec/paused\"): there is no field \"paused\""
//! );
//! # Ok::<(), windlass_patch::JsonPatchError>(())
//! ```
//!
//! The functions are pure, and bounded on hostile patches and documents: see [`depth`] and
//! [`MAX_OPERATIONS`].

pub mod depth;
pub mod json_patch;
pub mod merge_patch;
pub mod pointer;

pub use json_patch::{
    Dialect, JsonPatch, JsonPatchError, MAX_COPIED_BYTES, MAX_OPERATIONS, Operation, Problem,
};
