//! The embedded Kubernetes API: what makes a server a Kubernetes API server, apart from the server.
//!
//! This crate decides what a write makes of an object. It has no clock, no store and no network; time
//! comes in as a parameter, and every function is a function of its arguments.
//!
//! - [`schema`]: structural schemas of CRDs: pruning, defaulting, validation, validation rules.
//! - [`fieldmanager`]: server-side apply, and the field managers in `managedFields`.
//! - [`patch`]: strategic merge patch.
//! - [`selector`]: label and field selectors.
//! - [`builtin`]: what apply and patches must know about built-in kinds.
//! - [`types`]: the types of built-in kinds: fields, how they merge, their numbers in protobuf.
//! - [`cause`], [`json`]: refusals, JSON compared.
//!
//! # Example
//!
//! A widget is applied, and another field manager wants another color:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//!
//! use serde_json::json;
//! use windlass_apimachinery::fieldmanager::{ApplyError, Endpoint, FieldManager, Shape, Timestamp};
//! use windlass_apimachinery::schema::Schema;
//!
//! let schema = json!({
//!     "type": "object",
//!     "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}},
//! });
//! let schema = Schema::from_crd(&schema, "spec.versions[0].schema.openAPIV3Schema").unwrap();
//! let versions = BTreeMap::from([("demo.test/v1".to_owned(), Arc::new(Shape::of_resource(&schema)))]);
//! let widgets = FieldManager {
//!     versions: &versions,
//!     api_version: "demo.test/v1",
//!     kind: "Widget",
//!     endpoint: Endpoint::Object { has_status: true },
//! };
//! let widget = |color: &str| {
//!     json!({"apiVersion": "demo.test/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": color}})
//! };
//! let blank = json!({"apiVersion": "demo.test/v1", "kind": "Widget"});
//! let now = Timestamp::from_unix_seconds(0);
//!
//! let red = widgets.apply(&blank, &widget("red"), "alice", false, now).unwrap();
//! assert_eq!(red["metadata"]["managedFields"][0]["manager"], "alice");
//!
//! let conflict = widgets.apply(&red, &widget("blue"), "bob", false, now).unwrap_err();
//! assert_eq!(
//!     conflict.to_string(),
//!     "Apply failed with 1 conflict: conflict with \"alice\": .spec.color"
//! );
//! assert!(matches!(conflict, ApplyError::Conflicts(_)));
//! ```

pub mod builtin;
pub mod cause;
pub mod fieldmanager;
pub mod json;
pub mod names;
pub mod patch;
pub mod schema;
pub mod selector;
pub mod types;
