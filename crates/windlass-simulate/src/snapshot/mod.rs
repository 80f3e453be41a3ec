//! A live Cluster in a file: everything it is made of, as a management cluster had it at a moment.
//!
//! [`Snapshot::read`] gets and lists, and does nothing else. A snapshot is a value: it can be saved, sent to others, and
//! [rebuilt](Snapshot::rebuild) into objects that a world in memory goes on from.

mod learned;
mod machines;
mod read;
mod rebuild;
mod roles;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_api::api_version;

pub use learned::Learned;
pub use read::SnapshotError;
pub use rebuild::{NotRebuilt, RebuildOptions, Rebuilt};

/// A Cluster and everything it is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// What the file is, so that another release can tell whether it can read it.
    pub format: Format,
    /// When it was taken.
    pub taken: Timestamp,
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of the Cluster.
    pub cluster: String,
    /// The version of Cluster API's own kinds that the management cluster serves, such as `cluster.x-k8s.io/v1beta2`.
    pub served: String,
    /// The objects: kinds of Cluster API in their newest version, kinds of providers as they were read.
    pub objects: Vec<Value>,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
}

/// What kind of file a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// The first one.
    #[serde(rename = "windlass-snapshot/1")]
    First,
}

/// Something that a snapshot is without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "reason")]
pub enum Unread {
    /// An object refers to one that is not there.
    Absent {
        /// The one that is not there.
        object: String,
        /// The one that refers to it.
        referred_by: String,
    },
    /// The API does not let it be read.
    Refused {
        /// What.
        what: String,
        /// Why not.
        why: String,
    },
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { object, referred_by } => {
                write!(f, "{object}, which {referred_by} refers to, does not exist")
            }
            Self::Refused { what, why } => write!(f, "{what} could not be read: {why}"),
        }
    }
}

impl Snapshot {
    /// The objects of a kind of Cluster API.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind && is_core(object))
    }
}

/// Whether an object is of a kind of Cluster API itself, and of no provider.
fn is_core(object: &Value) -> bool {
    group_of(object) == windlass_api::names::CLUSTER_GROUP
}

/// The group of an object; empty for the core of Kubernetes.
fn group_of(object: &Value) -> &str {
    api_version::group(object["apiVersion"].as_str().unwrap_or_default())
}

/// `Kind namespace/name`, for people.
fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{} {namespace}/{}", text(&object["kind"]), text(&metadata["name"])),
        None => format!("{} {}", text(&object["kind"]), text(&metadata["name"])),
    }
}
