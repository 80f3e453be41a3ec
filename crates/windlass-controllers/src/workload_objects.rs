//! Objects of workload clusters, as far as the controllers read them.
//!
//! A Pod, a DaemonSet and a VolumeAttachment of `k8s_openapi` have some hundred types below them, whose decoding is compiled
//! again in every crate that reads one. The controllers read a handful of their fields.

use k8s_openapi::api::{apps, core, storage};
use kube::core::object::Object;
use kube::core::{ApiResource, NotUsed};
use kube::{Api, Client};
use serde::Deserialize;

/// A Pod: whether it is ready.
pub(crate) type Pod = Object<NotUsed, PodStatus>;

/// Part of a Pod's status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub(crate) phase: Option<String>,
    /// Conditions, of which `Ready` counts.
    pub(crate) conditions: Option<Vec<PodCondition>>,
}

/// Part of a Pod's condition.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PodCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub(crate) type_: String,
    /// `True`, `False` or `Unknown`.
    pub(crate) status: String,
}

/// A DaemonSet: the containers of its pods.
pub(crate) type DaemonSet = Object<DaemonSetSpec, NotUsed>;

/// Part of a DaemonSet's spec.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct DaemonSetSpec {
    /// Template of its pods.
    pub(crate) template: PodTemplate,
}

/// Part of a template of Pods.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PodTemplate {
    /// Spec of the Pods.
    pub(crate) spec: Option<PodTemplateSpec>,
}

/// Part of the spec of templated Pods.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PodTemplateSpec {
    /// Containers.
    #[serde(default)]
    pub(crate) containers: Vec<Container>,
}

/// Part of a container.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Container {
    /// Name, unique in its Pod.
    pub(crate) name: String,
    /// Image with its tag or digest.
    pub(crate) image: Option<String>,
}

/// A VolumeAttachment: the Node that the volume is attached to.
pub(crate) type VolumeAttachment = Object<VolumeAttachmentSpec, NotUsed>;

/// Part of a VolumeAttachment's spec.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VolumeAttachmentSpec {
    /// The Node.
    pub(crate) node_name: String,
}

/// Pods of all namespaces.
pub(crate) fn all_pods(client: Client) -> Api<Pod> {
    Api::all_with(client, &ApiResource::erase::<core::v1::Pod>(&()))
}

/// Pods of a namespace.
pub(crate) fn pods(client: Client, namespace: &str) -> Api<Pod> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<core::v1::Pod>(&()))
}

/// DaemonSets of all namespaces.
pub(crate) fn all_daemon_sets(client: Client) -> Api<DaemonSet> {
    Api::all_with(client, &ApiResource::erase::<apps::v1::DaemonSet>(&()))
}

/// DaemonSets of a namespace.
pub(crate) fn daemon_sets(client: Client, namespace: &str) -> Api<DaemonSet> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<apps::v1::DaemonSet>(&()))
}

/// VolumeAttachments, which have no namespace.
pub(crate) fn volume_attachments(client: Client) -> Api<VolumeAttachment> {
    Api::all_with(client, &ApiResource::erase::<storage::v1::VolumeAttachment>(&()))
}
