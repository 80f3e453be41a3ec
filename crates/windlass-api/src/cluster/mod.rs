//! `cluster.x-k8s.io/v1beta2`: clusters, classes, machines and their groups.
//!
//! ```
//! use windlass_api::cluster::Cluster;
//!
//! let cluster: Cluster = serde_json::from_str(
//!     r#"{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c1"},
//!         "spec": {"topology": {"classRef": {"name": "quick-start"}, "version": "v1.33.0"}}}"#,
//! )?;
//! assert_eq!(cluster.spec.topology.as_ref().map(|topology| topology.version.as_str()), Some("v1.33.0"));
//! assert!(cluster.status.conditions.is_empty());
//! # Ok::<(), serde_json::Error>(())
//! ```

mod class;
mod class_patch;
#[expect(clippy::module_inception, reason = "the kind and the group have the same name")]
mod cluster;
mod machine;
mod machine_deployment;
mod machine_drain_rule;
mod machine_health_check;
mod machine_pool;
mod machine_set;
mod reference;
mod replicas;
mod template;
mod topology;

pub use self::class::*;
pub use self::class_patch::*;
pub use self::cluster::*;
pub use self::machine::*;
pub use self::machine_deployment::*;
pub use self::machine_drain_rule::*;
pub use self::machine_health_check::*;
pub use self::machine_pool::*;
pub use self::machine_set::*;
pub use self::reference::*;
pub use self::replicas::*;
pub use self::template::*;
pub use self::topology::*;

use crate::kind::GroupVersion;

pub(crate) const CLUSTER: GroupVersion = GroupVersion {
    group: crate::names::CLUSTER_GROUP,
    version: "v1beta2",
    api_version: crate::names::CLUSTER_API_VERSION,
};
