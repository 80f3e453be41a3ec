//! `controlplane.cluster.x-k8s.io/v1beta2`: control planes made with kubeadm.

mod kubeadm_control_plane;
mod kubeadm_control_plane_template;

pub use self::kubeadm_control_plane::*;
pub use self::kubeadm_control_plane_template::*;

use crate::kind::GroupVersion;

pub(crate) const CONTROL_PLANE: GroupVersion = GroupVersion {
    group: crate::names::CONTROL_PLANE_GROUP,
    version: "v1beta2",
    api_version: crate::names::CONTROL_PLANE_API_VERSION,
};
