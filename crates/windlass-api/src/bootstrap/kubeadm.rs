//! kubeadm's own configuration, as far as Windlass looks at it. The rest is kept as it came, and described to users.

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
        #[schemars(schema_with = "super::described::api_server")]
        pub api_server: Option<AnyObject>,
        /// The controller manager. Kept as it came.
        #[schemars(schema_with = "super::described::control_plane_component")]
        pub controller_manager: Option<AnyObject>,
        /// The scheduler. Kept as it came.
        #[schemars(schema_with = "super::described::control_plane_component")]
        pub scheduler: Option<AnyObject>,
        /// The DNS add-on.
        #[schemars(schema_with = "super::described::image")]
        pub dns: Option<Image>,
        /// Where images come from.
        #[schemars(length(min = 1, max = 512))]
        pub image_repository: String,
        /// Features of kubeadm.
        pub feature_gates: BTreeMap<String, bool>,
        /// Everything else.
        #[schemars(schema_with = "super::described::more_of_the_cluster")]
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
        #[schemars(schema_with = "super::described::nothing_more")]
        #[serde(flatten)]
        pub other: BTreeMap<String, Value>,
    }
}

resource_struct! {
    /// etcd: on the Machines of the control plane, or elsewhere.
    pub struct Etcd {
        /// On the Machines of the control plane; the default.
        #[schemars(schema_with = "super::described::local_etcd")]
        pub local: Option<Image>,
        /// Elsewhere: nothing here looks after it.
        pub external: Option<ExternalEtcd>,
    }
}

resource_struct! {
    /// An etcd that nothing here looks after.
    #[schemars(extend("required" = ["caFile", "certFile", "endpoints", "keyFile"]))]
    pub struct ExternalEtcd {
        /// Where it is.
        #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 512)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub endpoints: Vec<String>,
        /// Everything else.
        #[schemars(schema_with = "super::described::more_of_external_etcd")]
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
        #[schemars(schema_with = "super::described::local_api_endpoint")]
        pub local_api_endpoint: Option<AnyObject>,
        /// Phases of kubeadm to leave out.
        #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 256)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub skip_phases: Vec<String>,
        /// Patches of kubeadm. Kept as they came.
        #[schemars(schema_with = "super::described::patches")]
        pub patches: Option<AnyObject>,
        /// How long steps may take, in seconds.
        #[schemars(schema_with = "super::described::timeouts")]
        pub timeouts: BTreeMap<String, i32>,
        /// Everything else.
        #[schemars(schema_with = "super::described::more_of_init")]
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
        #[schemars(schema_with = "super::described::discovery")]
        pub discovery: Option<AnyObject>,
        /// Present if the Machine becomes part of the control plane. Kept as it came.
        #[schemars(schema_with = "super::described::join_control_plane")]
        pub control_plane: Option<AnyObject>,
        /// Phases of kubeadm to leave out.
        #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 256)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub skip_phases: Vec<String>,
        /// Patches of kubeadm. Kept as they came.
        #[schemars(schema_with = "super::described::patches")]
        pub patches: Option<AnyObject>,
        /// How long steps may take, in seconds.
        #[schemars(schema_with = "super::described::timeouts")]
        pub timeouts: BTreeMap<String, i32>,
        /// Everything else.
        #[schemars(schema_with = "super::described::nothing_more")]
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
        #[schemars(schema_with = "super::described::kubelet_extra_args")]
        pub kubelet_extra_args: Vec<AnyObject>,
        /// Everything else.
        #[schemars(schema_with = "super::described::more_of_registration")]
        #[serde(flatten)]
        pub other: BTreeMap<String, Value>,
    }
}
