//! The Nodes of a pool: which they are, and how they do.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, ObjectReference, Taint};
use serde_json::{Map, Value, json};
use windlass_api::cluster::{MachinePool, StatusVersion};
use windlass_api::names::CLUSTER_NAME_LABEL;

use crate::machine::node::{
    CLUSTER_NAMESPACE_ANNOTATION, OWNER_KIND_ANNOTATION, OWNER_NAME_ANNOTATION, UNINITIALIZED_TAINT,
};
use crate::machine_set::aggregate::status_versions;
use crate::versions;

/// What is known of the Nodes of a workload cluster.
#[derive(Clone, Copy, Debug)]
pub enum NodesSeen<'a> {
    /// Not checked: there is no control plane to ask.
    NotSought,
    /// The workload cluster does not answer.
    NoAnswer(&'a str),
    /// All of them.
    Found(&'a [&'a Node]),
}

/// How the Nodes of a pool do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Which they are, by name.
    pub references: Vec<ObjectReference>,
    /// How many are ready.
    pub ready: i32,
    /// How many have been ready for long enough.
    pub available: i32,
    /// How many are at the version that is wanted.
    pub up_to_date: i32,
    /// Which versions there are.
    pub versions: Vec<StatusVersion>,
    /// When another one becomes available.
    pub look_again: Option<Timestamp>,
}

/// Counts the Nodes whose identity is one of the pool's.
pub fn count(
    nodes: &[&Node],
    provider_ids: &[String],
    wanted: &str,
    min_ready: SignedDuration,
    now: Timestamp,
) -> Counts {
    let ids: BTreeSet<&str> = provider_ids.iter().map(String::as_str).collect();
    let mut mine: Vec<&Node> = nodes.iter().copied().filter(|node| ids.contains(provider_id(node))).collect();
    mine.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut counts = Counts::default();
    for node in &mine {
        counts.references.push(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: node.metadata.name.clone(),
            uid: node.metadata.uid.clone(),
            ..ObjectReference::default()
        });
        counts.up_to_date += i32::from(!wanted.is_empty() && kubelet(node) == Some(wanted));
        let Some(since) = ready_since(node) else { continue };
        counts.ready += 1;
        let available_at = since.saturating_add(min_ready).unwrap_or(Timestamp::MAX);
        if available_at <= now {
            counts.available += 1;
        } else {
            counts.look_again = Some(counts.look_again.map_or(available_at, |known| known.min(available_at)));
        }
    }
    counts.versions = status_versions(versions::of_machines(mine.iter().map(|node| (kubelet(node), None))));
    counts
}

/// The Nodes of instances that the pool had and that are gone: their provider has taken their identities out of its list.
pub fn retired<'a>(pool: &MachinePool, nodes: &[&'a Node], provider_ids: &[String]) -> Vec<&'a Node> {
    let ids: BTreeSet<&str> = provider_ids.iter().map(String::as_str).collect();
    let had: BTreeSet<&str> =
        pool.status.node_refs.iter().filter_map(|reference| reference.name.as_deref()).collect();
    let is_retired = |node: &Node| {
        let id = provider_id(node);
        !id.is_empty()
            && !ids.contains(id)
            && node.metadata.name.as_deref().is_some_and(|name| had.contains(name))
    };
    nodes.iter().copied().filter(|node| is_retired(node)).collect()
}

/// What has to change on a Node of a pool, as a merge patch; nothing if it is as it should be. It says whose Node it is, and
/// loses the taint that kept pods away until that was said.
///
/// The patch replaces the whole list of taints, so it has to be written with the version of the Node that was read.
pub fn changes(pool: &MachinePool, node: &Node) -> Option<Value> {
    let text = |value: Option<&String>| value.cloned().unwrap_or_default();
    let wanted = BTreeMap::from([
        (CLUSTER_NAME_LABEL, pool.spec.cluster_name.clone()),
        (CLUSTER_NAMESPACE_ANNOTATION, text(pool.metadata.namespace.as_ref())),
        (OWNER_KIND_ANNOTATION, MachinePool::KIND.to_owned()),
        (OWNER_NAME_ANNOTATION, text(pool.metadata.name.as_ref())),
    ]);
    let has = |key: &str| node.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
    let annotations: Map<String, Value> = wanted
        .into_iter()
        .filter(|(key, value)| has(key) != Some(value))
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    let mut patch = Map::new();
    if !annotations.is_empty() {
        patch.insert("metadata".to_owned(), json!({"annotations": annotations}));
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let kept: Vec<&Taint> = taints.iter().filter(|taint| taint.key != UNINITIALIZED_TAINT).collect();
    if kept.len() < taints.len() {
        patch.insert("spec".to_owned(), json!({"taints": kept}));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

pub(super) fn provider_id(node: &Node) -> &str {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default()
}

pub(super) fn kubelet(node: &Node) -> Option<&str> {
    Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.as_str())
}

/// Since when a Node is ready; nothing if it is not.
fn ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    let since = ready.last_transition_time.as_ref().or(node.metadata.creation_timestamp.as_ref());
    (ready.status == "True").then(|| since.map_or(Timestamp::MIN, |since| since.0))
}
