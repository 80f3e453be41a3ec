//! Labels of namespaces, read from the API.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use windlass_hooks::{LabelsFuture, NamespaceLabels};

/// The namespaces of a cluster. They are read each time: hooks with selectors are few, and labels decide who is called.
#[derive(Clone)]
pub struct ClusterNamespaces(Api<Namespace>);

impl ClusterNamespaces {
    /// The namespaces that a client sees.
    pub fn new(client: Client) -> Self {
        Self(Api::all(client))
    }
}

impl NamespaceLabels for ClusterNamespaces {
    fn labels<'a>(&'a self, namespace: &'a str) -> LabelsFuture<'a> {
        Box::pin(async move {
            let found = self.0.get(namespace).await?;
            Ok(found.metadata.labels.unwrap_or_default())
        })
    }
}
