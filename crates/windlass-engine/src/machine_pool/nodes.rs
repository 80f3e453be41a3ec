//! The Nodes of a pool: which they are, and how they do.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use windlass_api::cluster::StatusVersion;

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
    let id = |node: &Node| node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
    let mut mine: Vec<&Node> = nodes.iter().copied().filter(|node| ids.contains(id(node).as_str())).collect();
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

fn kubelet(node: &Node) -> Option<&str> {
    Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.as_str())
}

/// Since when a Node is ready; nothing if it is not.
fn ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    let since = ready.last_transition_time.as_ref().or(node.metadata.creation_timestamp.as_ref());
    (ready.status == "True").then(|| since.map_or(Timestamp::MIN, |since| since.0))
}
