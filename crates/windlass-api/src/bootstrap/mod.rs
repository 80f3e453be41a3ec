//! `bootstrap.cluster.x-k8s.io/v1beta2`: how machines become nodes with kubeadm.

mod described;
mod kubeadm;
mod kubeadm_config;

pub use self::kubeadm::*;
pub use self::kubeadm_config::*;

use crate::kind::GroupVersion;

pub(crate) const BOOTSTRAP: GroupVersion = GroupVersion {
    group: crate::names::BOOTSTRAP_GROUP,
    version: "v1beta2",
    api_version: crate::names::BOOTSTRAP_API_VERSION,
};
