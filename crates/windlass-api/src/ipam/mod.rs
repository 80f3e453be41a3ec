//! `ipam.cluster.x-k8s.io/v1beta2`: addresses that providers of infrastructure ask of providers of addresses.
//!
//! Nothing here acts on them: they are taken so that both sides find each other.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::cluster::ContractVersionedObjectReference;
use crate::kind::{AnyObject, GroupVersion, kind, resource_struct};

pub(crate) const IPAM: GroupVersion = GroupVersion {
    group: crate::names::IPAM_GROUP,
    version: "v1beta2",
    api_version: crate::names::IPAM_API_VERSION,
};

kind! {
    /// An address that was given out.
    pub struct IPAddress in IPAM, "ipaddresses" { spec: IPAddressSpec }
}

kind! {
    /// A wish for an address.
    pub struct IPAddressClaim in IPAM, "ipaddressclaims" { spec: IPAddressClaimSpec, status: IPAddressClaimStatus }
}

resource_struct! {
    /// An address that was given out.
    #[derive(Eq)]
    #[schemars(extend("required" = ["address", "claimRef", "poolRef", "prefix"]))]
    pub struct IPAddressSpec {
        /// Who asked for it.
        pub claim_ref: ObjectName,
        /// The pool it is from.
        pub pool_ref: ContractVersionedObjectReference,
        /// The address.
        #[schemars(length(min = 1, max = 39))]
        pub address: String,
        /// Length of the prefix of its network.
        #[schemars(range(min = 0, max = 128))]
        pub prefix: Option<i32>,
        /// The gateway of its network.
        #[schemars(length(min = 1, max = 39))]
        pub gateway: String,
    }
}

resource_struct! {
    /// The name of an object in the same namespace.
    #[derive(Eq)]
    #[schemars(extend("required" = ["name"]))]
    pub struct ObjectName {
        /// The name.
        #[schemars(length(min = 1, max = 253), regex(pattern = crate::crds::DNS_SUBDOMAIN))]
        pub name: String,
    }
}

resource_struct! {
    /// A wish for an address.
    #[derive(Eq)]
    #[schemars(extend("required" = ["poolRef"]))]
    pub struct IPAddressClaimSpec {
        /// The Cluster that the address is for.
        #[schemars(length(min = 1, max = 63))]
        pub cluster_name: String,
        /// The pool that it shall be from.
        pub pool_ref: ContractVersionedObjectReference,
    }
}

resource_struct! {
    /// The observed state of an IPAddressClaim.
    pub struct IPAddressClaimStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// The address that was given out.
        pub address_ref: ObjectName,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated")]
        pub deprecated: Option<AnyObject>,
    }
}
