//! Reading objects from JSON, compiled once.
//!
//! Code that reads a kind is generic, so each crate that uses it would have its own copy, a fifth of everything that is
//! compiled for them. What this crate has instantiated, those above it share: [`READERS`] is what makes it do so.

use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod, Secret};
use serde::de::DeserializeOwned;

use crate::addons::{ClusterResourceSet, ClusterResourceSetBinding};
use crate::bootstrap::{KubeadmConfig, KubeadmConfigTemplate};
use crate::cluster::{
    Cluster, ClusterClass, Machine, MachineDeployment, MachineDrainRule, MachineHealthCheck, MachinePool,
    MachineSet,
};
use crate::control_plane::{KubeadmControlPlane, KubeadmControlPlaneTemplate};
use crate::infrastructure::{DevCluster, DevMachine, DevMachinePool, DevMachineTemplate};
use crate::runtime::ExtensionConfig;

/// Says whether JSON can be read as objects of a kind.
pub type Reader = fn(&str) -> Result<(), serde_json::Error>;

/// The kinds that controllers read, with what reads them.
pub const READERS: &[(&str, Reader)] = &[
    ("Cluster", reads::<Cluster>),
    ("ClusterClass", reads::<ClusterClass>),
    ("ClusterResourceSet", reads::<ClusterResourceSet>),
    ("ClusterResourceSetBinding", reads::<ClusterResourceSetBinding>),
    ("ConfigMap", reads::<ConfigMap>),
    ("DevCluster", reads::<DevCluster>),
    ("DevMachine", reads::<DevMachine>),
    ("DevMachinePool", reads::<DevMachinePool>),
    ("DevMachineTemplate", reads::<DevMachineTemplate>),
    ("Event", reads::<Event>),
    ("ExtensionConfig", reads::<ExtensionConfig>),
    ("KubeadmConfig", reads::<KubeadmConfig>),
    ("KubeadmConfigTemplate", reads::<KubeadmConfigTemplate>),
    ("KubeadmControlPlane", reads::<KubeadmControlPlane>),
    ("KubeadmControlPlaneTemplate", reads::<KubeadmControlPlaneTemplate>),
    ("Machine", reads::<Machine>),
    ("MachineDeployment", reads::<MachineDeployment>),
    ("MachineDrainRule", reads::<MachineDrainRule>),
    ("MachineHealthCheck", reads::<MachineHealthCheck>),
    ("MachinePool", reads::<MachinePool>),
    ("MachineSet", reads::<MachineSet>),
    ("Node", reads::<Node>),
    ("Pod", reads::<Pod>),
    ("Secret", reads::<Secret>),
];

fn reads<K: DeserializeOwned>(json: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<K>(json).map(drop)
}

/// Reads an object as the API server stores it.
///
/// # Errors
///
/// If the bytes are not the JSON of such an object.
pub fn from_bytes<K: DeserializeOwned>(bytes: &[u8]) -> Result<K, serde_json::Error> {
    // Not `from_slice`, whose reader is another type: nothing of what is compiled for `from_str` could be used.
    serde_json::from_str(std::str::from_utf8(bytes).map_err(serde::de::Error::custom)?)
}
