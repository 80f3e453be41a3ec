//! Types that go over the wire between Windlass, runtime extensions and the Kubernetes API.
//!
//! Names, fields and tolerance are those of Cluster API, so that existing extensions and manifests work.
//! There is no I/O in this crate, no async and no clock: a client or a server is built on top of it.
//!
//! - [`hooks`]: the hooks of the Runtime SDK, `hooks.runtime.cluster.x-k8s.io/v1alpha1`
//! - [`runtime`]: how extensions are registered, `runtime.cluster.x-k8s.io/v1beta2`
//! - [`api_version`]: groups and versions
//! - [`label_selector`]: which labels an object must have
//! - [`go_duration`]: durations as Go reads and writes them
//! - [`names`]: groups, annotations, labels
//! - [`object`]: Kubernetes objects of any kind
//!
//! With the feature `resources`, also the kinds that Windlass manages (`cluster`, `control_plane`, `bootstrap`,
//! `infrastructure`, `addons`, `ipam`), their CRDs (`crds`), how they are read (`read`) and the hooks as an OpenAPI
//! document (`openapi`).
//!
//! ```
//! use windlass_api::hooks::{BeforeClusterUpgradeRequest, BeforeClusterUpgradeResponse, RetryResponse};
//!
//! let request: BeforeClusterUpgradeRequest = serde_json::from_str(
//!     r#"{"cluster": {"metadata": {"name": "c1"}}, "fromKubernetesVersion": "v1.32.0",
//!         "toKubernetesVersion": "v1.33.0", "controlPlaneUpgrades": [{"version": "v1.33.0"}]}"#,
//! )?;
//! assert_eq!(request.cluster.name(), Some("c1"));
//! assert_eq!(request.upgrade_plan.control_plane, ["v1.33.0"]);
//!
//! let response = BeforeClusterUpgradeResponse::blocking("waiting for the backup of c1", 30);
//! assert_eq!(serde_json::to_value(&response)?["retryAfterSeconds"], 30);
//! # Ok::<(), serde_json::Error>(())
//! ```

#[cfg(feature = "resources")]
pub mod addons;
pub mod api_version;
#[cfg(feature = "resources")]
pub mod bootstrap;
#[cfg(feature = "resources")]
pub mod cluster;
pub mod conditions;
#[cfg(feature = "resources")]
pub mod control_plane;
#[cfg(feature = "resources")]
pub mod crds;
mod described;
pub mod dns_label;
pub mod go;
pub mod go_duration;
pub mod handler_name;
pub mod hooks;
pub mod identity;
#[cfg(feature = "resources")]
pub mod infrastructure;
#[cfg(feature = "resources")]
pub mod ipam;
mod kind;
mod kubernetes;
pub mod label_selector;
pub mod names;
pub mod object;
#[cfg(feature = "resources")]
pub mod openapi;
mod printable;
// Compiled a second time for unit tests, it would cost more than all of them.
#[cfg(all(feature = "resources", not(test)))]
pub mod read;
pub mod runtime;

pub use crate::go_duration::{GoDuration, GoDurationError};
pub use crate::handler_name::{HandlerName, RegisteredName};
pub use crate::hooks::{Hook, HookRequest, HookResponse, HookType};
pub use crate::kind::AnyObject;
pub use crate::object::Object;
pub use crate::printable::{is_unprintable, printable};
