//! `addons.cluster.x-k8s.io/v1beta2`: what is applied to clusters once they are there.

mod cluster_resource_set;
mod cluster_resource_set_binding;

pub use self::cluster_resource_set::*;
pub use self::cluster_resource_set_binding::*;

use crate::kind::GroupVersion;

pub(crate) const ADDONS: GroupVersion = GroupVersion {
    group: crate::names::ADDONS_GROUP,
    version: "v1beta2",
    api_version: crate::names::ADDONS_API_VERSION,
};
