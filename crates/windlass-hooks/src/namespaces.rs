//! Labels of namespaces, which decide which extensions see an object.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

/// Labels of a Kubernetes object.
pub type Labels = BTreeMap<String, String>;

/// What a lookup of labels comes to.
pub type LabelsFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Labels, Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>>;

/// Looks up the labels of a namespace. Asked only when a selector needs them.
pub trait NamespaceLabels: Send + Sync + 'static {
    /// The labels of a namespace.
    ///
    /// A namespace that does not exist is an error, not a namespace without labels: calling no handler would let
    /// something pass that an extension wants to hold.
    fn labels<'a>(&'a self, namespace: &'a str) -> LabelsFuture<'a>;
}

/// Namespaces that are known beforehand, for simulations and tests.
impl NamespaceLabels for BTreeMap<String, Labels> {
    fn labels<'a>(&'a self, namespace: &'a str) -> LabelsFuture<'a> {
        let found = self.get(namespace).cloned();
        Box::pin(async move { found.ok_or_else(|| "the namespace does not exist".into()) })
    }
}
