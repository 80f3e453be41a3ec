//! How objects of this group point to others.

use crate::api_version;
use crate::kind::resource_struct;

resource_struct! {
    /// An object in the same namespace. Its version follows from the contract of its kind.
    #[derive(Eq, PartialOrd, Ord, Hash)]
    #[schemars(extend("required" = ["kind", "name", "apiGroup"]))]
    pub struct ContractVersionedObjectReference {
        /// Group of the object.
        #[schemars(length(min = 1, max = 253), regex(pattern = crate::crds::DNS_SUBDOMAIN))]
        pub api_group: String,
        /// Kind of the object.
        #[schemars(length(min = 1, max = 63), regex(pattern = crate::crds::KIND))]
        pub kind: String,
        /// Name of the object.
        #[schemars(length(min = 1, max = 253), regex(pattern = crate::crds::DNS_SUBDOMAIN))]
        pub name: String,
    }
}

impl ContractVersionedObjectReference {
    /// `<kind>.<group>`, as `cluster.x-k8s.io/cloned-from-groupkind` says it.
    pub fn group_kind(&self) -> String {
        format!("{}.{}", self.kind, self.api_group)
    }
}

/// Says what is meant in messages: kind and name.
impl std::fmt::Display for ContractVersionedObjectReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

resource_struct! {
    /// A template in the same namespace, in a given version.
    #[derive(Eq, PartialOrd, Ord, Hash)]
    #[schemars(extend("required" = ["kind", "name", "apiVersion"]))]
    pub struct TemplateReference {
        /// Group and version of the template.
        #[schemars(length(min = 1, max = 317))]
        pub api_version: String,
        /// Kind of the template.
        #[schemars(length(min = 1, max = 63), regex(pattern = crate::crds::KIND))]
        pub kind: String,
        /// Name of the template.
        #[schemars(length(min = 1, max = 253), regex(pattern = crate::crds::DNS_SUBDOMAIN))]
        pub name: String,
    }
}

/// From what the object is made that remediates a Machine.
pub type MachineHealthCheckRemediationTemplateReference = TemplateReference;
/// A template that a ClusterClass names.
pub type ClusterClassTemplateReference = TemplateReference;

impl TemplateReference {
    /// The group, without the version.
    pub fn group(&self) -> &str {
        api_version::group(&self.api_version)
    }
}

impl std::fmt::Display for TemplateReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
