//! Conversion of Cluster API's kinds between the versions of their API.
//!
//! Every kind is kept as v1beta2; v1beta1 (v1alpha1 for ExtensionConfig) is another view of the same object. Windlass's
//! embedded API, the conversion webhook and everything that reads manifests use [`convert`].
//!
//! What changes between the versions of a kind is a table (`tables`) of rules that are read in both directions; a field
//! without a rule keeps its name and place. What v1beta1 cannot say travels in the annotation
//! `cluster.x-k8s.io/conversion-data`.
//!
//! ```
//! use serde_json::json;
//! use windlass_conversion::convert;
//!
//! let contracts = |group: &str, _kind: &str| (group == "infrastructure.cluster.x-k8s.io").then(|| "v1beta2".to_owned());
//! let cluster = json!({
//!     "apiVersion": "cluster.x-k8s.io/v1beta1",
//!     "kind": "Cluster",
//!     "metadata": {"name": "c1", "namespace": "default"},
//!     "spec": {"topology": {"class": "quick-start", "version": "v1.33.0", "controlPlane": {"nodeDrainTimeout": "10m"}}},
//! });
//! let converted = convert(cluster, "cluster.x-k8s.io/v1beta2", &contracts)?;
//! assert_eq!(converted["spec"]["topology"], json!({
//!     "classRef": {"name": "quick-start"},
//!     "version": "v1.33.0",
//!     "controlPlane": {"deletion": {"nodeDrainTimeoutSeconds": 600}},
//! }));
//! # Ok::<(), windlass_conversion::ConvertError>(())
//! ```

mod convert;
mod data;
mod emission;
mod error;
mod form;
pub mod manifest;
mod path;
mod review;
mod rule;
mod tables;
mod walk;

pub use crate::convert::{Contracts, convert, is_older, kinds, newest, versions};
pub use crate::error::ConvertError;
pub use crate::review::{Malformed, review};
