//! `infrastructure.cluster.x-k8s.io/v1beta2`: the provider for development.

mod described;
mod dev_cluster;
mod dev_machine;
mod dev_machine_pool;

pub use self::dev_cluster::*;
pub use self::dev_machine::*;
pub use self::dev_machine_pool::*;

use crate::kind::{GroupVersion, resource_struct};

pub(crate) const INFRASTRUCTURE: GroupVersion = GroupVersion {
    group: crate::names::INFRASTRUCTURE_GROUP,
    version: "v1beta2",
    api_version: crate::names::INFRASTRUCTURE_API_VERSION,
};

resource_struct! {
    /// How far provisioning of infrastructure has come. Never goes back.
    #[derive(Eq, Copy)]
    pub struct DevInitializationStatus {
        /// Whether it is there.
        pub provisioned: Option<bool>,
    }
}
