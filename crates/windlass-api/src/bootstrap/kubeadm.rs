//! kubeadm's own configuration, as far as Windlass looks at it. The rest is kept as it came.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;

use crate::kind::{AnyObject, resource_struct};

resource_struct! {
    /// The cluster as a whole.
    pub struct ClusterConfiguration {
        /// Where the control plane is reached.
        #[schemars(length(min = 1, max = 512))]
        pub control_plane_endpoint: String,
        /// etcd.
        pub etcd: Option<Etcd>,
        /// The API server. Kept as it came.
        pub api_server: Option<AnyObject>,
        /// The controller manager. Kept as it came.
        pub controller_manager: Option<AnyObject>,
        /// The scheduler. Kept as it came.
        pub scheduler: Option<AnyObject>,
        /// The DNS add-on.
        pub dns: Option<Image>,
        /// Where images come from.
        #[schemars(length(min = 1, max = 512))]
        pub image_repository: String,
        /// Features of kubeadm.
        pub feature_gates: BTreeMap<String, bool>,
        /// Everything else.
        #[serde(flatten)]
        pub other: BTreeMap<String, Value>,
    }
}

resource_struct! {
    /// An image.
    pub struct Image {
        /// Where it comes from.
        #[schemars(length(min = 1, max = 512))]
        pub image_repository: String,
        /// Its tag.
        #[schemars(length(min = 1, max = 256))]
        pub image_tag: String,
        /// Everything else.
        #[serde(flatten)]
        pub other: BTreeMap<String, Value>,
    }
}

resource_struct! {
    /// etcd: on the Machines of the control plane, or elsewhere.
    pub struct Etcd {
        /// On the Machines of the control plane; the default.
        pub local: Option<Image>,
        /// Elsewhere: nothing here looks after it.
        pub external: Option<ExternalEtcd>,
    }
}

resource_struct! {
    /// An etcd that nothing here looks after.
    pub struct ExternalEtcd {
        /// Where it is.
        #[schemars(length(min = 1, max = 50), extend("x-kubernetes-list-type" = "atomic"))]
        pub endpoints: Vec<String>,
        /// Everything else.
        #[serde(flatten)]
        pub other: BTreeMap<String, Value>,
    }
}

resource_struct! {
    /// The first Machine of a control plane.
    pub struct InitConfiguration {
        /// How the Node registers.
        pub node_registration: Option<NodeRegistrationOptions>,
        /// Where this API server listens. Kept as it came.
        #[serde(rename = "localAPIEndpoint")]
        pub local_api_endpoint: Option<AnyObject>,
        /// Phases of kubeadm to leave out.
        #[schemars(length(min = 1, max = 50), extend("x-kubernetes-list-type" = "atomic"))]
        pub skip_phases: Vec<String>,
        /// Patches of kubeadm. Kept as they came.
        pub patches: Option<AnyObject>,
        /// How long steps may take, in seconds.
        pub timeouts: BTreeMap<String, i32>,
        /// Everything else.
        #[serde(flatten)]
        pub other: BTreeMap<String, Value>,
    }
}

resource_struct! {
    /// A Machine that joins.
    pub struct JoinConfiguration {
        /// How the Node registers.
        pub node_registration: Option<NodeRegistrationOptions>,
        /// Where the certificate of the authority lies on the host.
        #[schemars(length(min = 1, max = 512))]
        pub ca_cert_path: String,
        /// How the control plane is found; has a secret token in it. Kept as it came.
        pub discovery: Option<AnyObject>,
        /// Present if the Machine becomes part of the control plane. Kept as it came.
        pub control_plane: Option<AnyObject>,
        /// Phases of kubeadm to leave out.
        #[schemars(length(min = 1, max = 50), extend("x-kubernetes-list-type" = "atomic"))]
        pub skip_phases: Vec<String>,
        /// Patches of kubeadm. Kept as they came.
        pub patches: Option<AnyObject>,
        /// How long steps may take, in seconds.
        pub timeouts: BTreeMap<String, i32>,
        /// Everything else.
        #[serde(flatten)]
        pub other: BTreeMap<String, Value>,
    }
}

resource_struct! {
    /// How a Node registers.
    pub struct NodeRegistrationOptions {
        /// Name of the Node.
        #[schemars(length(min = 1, max = 253))]
        pub name: String,
        /// Where the container runtime listens.
        #[schemars(length(min = 1, max = 512))]
        pub cri_socket: String,
        /// Taints of the Node. An empty list is not the same as none: none are those of the control plane.
        #[schemars(schema_with = "crate::crds::taints")]
        pub taints: Option<Vec<Taint>>,
        /// Arguments of the kubelet. Kept as they came.
        #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        pub kubelet_extra_args: Vec<AnyObject>,
        /// Everything else.
        #[serde(flatten)]
        pub other: BTreeMap<String, Value>,
    }
}
