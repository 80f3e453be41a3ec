//! KubeadmConfig and KubeadmConfigTemplate.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use super::{BOOTSTRAP, ClusterConfiguration, InitConfiguration, JoinConfiguration};
use crate::cluster::TemplateMeta;
use crate::kind::{AnyObject, choice, kind, resource_struct};

kind! {
    /// How a Machine becomes a Node.
    pub struct KubeadmConfig in BOOTSTRAP, "kubeadmconfigs" { #[optional] spec: KubeadmConfigSpec, status: KubeadmConfigStatus }
}

kind! {
    /// What KubeadmConfigs are made from.
    pub struct KubeadmConfigTemplate in BOOTSTRAP, "kubeadmconfigtemplates" { #[optional] spec: KubeadmConfigTemplateSpec }
}

resource_struct! {
    /// What KubeadmConfigs are made from.
    pub struct KubeadmConfigTemplateSpec {
        /// The template.
        pub template: KubeadmConfigTemplateResource,
    }
}

resource_struct! {
    /// A KubeadmConfig to be.
    pub struct KubeadmConfigTemplateResource {
        /// Labels and annotations.
        pub metadata: TemplateMeta,
        /// The desired state.
        pub spec: KubeadmConfigSpec,
    }
}

resource_struct! {
    /// How a Machine becomes a Node: kubeadm's configuration, and what happens on the host around it.
    pub struct KubeadmConfigSpec {
        /// The cluster as a whole.
        pub cluster_configuration: Option<ClusterConfiguration>,
        /// The first Machine of a control plane.
        pub init_configuration: Option<InitConfiguration>,
        /// All other Machines.
        pub join_configuration: Option<JoinConfiguration>,
        /// Files to write.
        #[schemars(length(min = 1, max = 200), extend("x-kubernetes-list-type" = "atomic"))]
        pub files: Vec<File>,
        /// Disks to partition and format. Kept as it came.
        #[schemars(schema_with = "super::described::disk_setup")]
        pub disk_setup: Option<AnyObject>,
        /// What to mount where, as lines of fstab.
        #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        pub mounts: Vec<Vec<String>>,
        /// Commands to run early in the boot.
        #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub boot_commands: Vec<String>,
        /// Commands to run before kubeadm.
        #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub pre_kubeadm_commands: Vec<String>,
        /// Commands to run after kubeadm.
        #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub post_kubeadm_commands: Vec<String>,
        /// Users to create. Kept as they came.
        #[schemars(schema_with = "super::described::users")]
        pub users: Vec<AnyObject>,
        /// Where the time comes from. Kept as it came.
        #[schemars(schema_with = "super::described::ntp")]
        pub ntp: Option<AnyObject>,
        /// Format of the bootstrap data.
        pub format: Option<BootstrapFormat>,
        /// How much kubeadm logs.
        pub verbosity: Option<i32>,
        /// Settings of the Ignition format. Kept as they came.
        #[schemars(schema_with = "super::described::ignition")]
        pub ignition: Option<AnyObject>,
    }
}

choice! {
    /// Format of bootstrap data.
    pub enum BootstrapFormat {
        /// cloud-init.
        CloudConfig = "cloud-config",
        /// Ignition.
        Ignition = "ignition",
    }
}

resource_struct! {
    /// A file to write.
    #[schemars(extend("required" = ["path"]))]
    pub struct File {
        /// Where it goes.
        #[schemars(length(min = 1, max = 512))]
        pub path: String,
        /// Whose it is, such as `root:root`.
        #[schemars(length(min = 1, max = 256))]
        pub owner: String,
        /// Its mode, such as `0640`.
        #[schemars(length(min = 1, max = 16))]
        pub permissions: String,
        /// How the content is encoded.
        pub encoding: Option<FileEncoding>,
        /// Whether it is added to what is there.
        pub append: Option<bool>,
        /// How the content is read. Kept as it came: the bootstrap provider reads it.
        pub content_format: Option<FileContentFormat>,
        /// What is in it.
        #[schemars(length(min = 1, max = 10240))]
        pub content: String,
        /// Where what is in it comes from, if it is not said here. Kept as it came.
        #[schemars(schema_with = "super::described::content_from")]
        pub content_from: Option<Value>,
    }
}

choice! {
    /// How the content of a file is read.
    pub enum FileContentFormat {
        /// As it is.
        Raw = "Raw",
        /// As a template, filled in when the bootstrap data are made.
        Template = "Template",
    }
}

choice! {
    /// How the content of a file is encoded.
    pub enum FileEncoding {
        /// Base64.
        Base64 = "base64",
        /// Compressed.
        Gzip = "gzip",
        /// Compressed, then base64.
        GzipBase64 = "gzip+base64",
    }
}

resource_struct! {
    /// The observed state of a KubeadmConfig.
    pub struct KubeadmConfigStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// How far it has come.
        pub initialization: KubeadmConfigInitializationStatus,
        /// The Secret with the bootstrap data.
        #[schemars(length(min = 1, max = 253))]
        pub data_secret_name: String,
        /// Generation that was looked at.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated_of_kubeadm_config")]
        pub deprecated: Option<AnyObject>,
    }
}

resource_struct! {
    /// How far a KubeadmConfig has come. Never goes back.
    #[derive(Eq, Copy)]
    pub struct KubeadmConfigInitializationStatus {
        /// Whether the Secret with the bootstrap data is there.
        pub data_secret_created: Option<bool>,
    }
}
