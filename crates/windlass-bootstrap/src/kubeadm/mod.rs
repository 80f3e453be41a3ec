//! kubeadm's configuration, as documents of the API version that a release of Kubernetes takes.
//!
//! KubeadmConfigs have kubeadm's fields with durations in seconds and days, and with arguments as lists. v1beta4 differs from that
//! in durations only; v1beta3 has arguments as maps, fewer timeouts, and lacks what came later.

mod api_version;
mod cluster;
mod component;
mod node;

pub use api_version::{ApiVersion, UnsupportedVersion};
pub use cluster::{ClusterFacts, cluster_configuration};
pub use node::{JoinRole, UNINITIALIZED_TAINT, init_configuration, join_configuration};

use serde_json::{Map, Value};

use crate::yaml::Yaml;

/// A document of kubeadm's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The version of kubeadm's API.
    pub api_version: ApiVersion,
    /// `ClusterConfiguration`, `InitConfiguration` or `JoinConfiguration`.
    pub kind: &'static str,
    /// Everything else.
    pub fields: Map<String, Value>,
}

impl std::fmt::Display for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "apiVersion: {}", self.api_version)?;
        writeln!(f, "kind: {}", self.kind)?;
        if self.fields.is_empty() {
            return Ok(());
        }
        Yaml::from(Value::Object(self.fields.clone())).fmt(f)
    }
}

/// Several documents in one file.
pub fn file(documents: &[Document]) -> String {
    documents.iter().map(|document| format!("---\n{document}")).collect()
}

/// An object as JSON. The types of the API always have one.
fn fields<T: serde::Serialize>(stored: Option<&T>) -> Map<String, Value> {
    match serde_json::to_value(stored) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
