//! Where the services are that webhooks name.
//!
//! There is no DNS and no proxy here. A service is looked for in three places: first the resolver that the
//! [`Options`](crate::Options) of the server may have; then the addresses that objects give it, in an
//! EndpointSlice, in Endpoints, or as the name of a Service of type ExternalName. Its certificate must be good
//! for `NAME.NAMESPACE.svc`, wherever it is.

use std::sync::Arc;

use serde_json::Value;

use windlass_store::Store;

use crate::registry::built_in;
use crate::stored::{meta, parse};

/// A service that a webhook is called through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReference {
    /// Namespace of the service.
    pub namespace: String,
    /// Name of the service, without the namespace.
    pub name: String,
    /// The port of the service, not that of what is behind it.
    pub port: u16,
}

/// Says where a service is, as `HOST:PORT`, or that it does not know.
pub type ServiceResolver = Arc<dyn Fn(&ServiceReference) -> Option<String> + Send + Sync>;

impl ServiceReference {
    /// Reads `clientConfig.service`; `None` if it names nothing.
    pub(super) fn read(service: &Value) -> Option<(Self, String)> {
        let text = |name: &str| service[name].as_str().unwrap_or_default().to_owned();
        let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
        let reference = Self { namespace: text("namespace"), name: text("name"), port };
        let path = format!("/{}", text("path").trim_start_matches('/'));
        (!reference.name.is_empty()).then_some((reference, path))
    }

    /// The name that its certificate must be good for.
    pub(super) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// Where services are looked for.
#[derive(Clone)]
pub(crate) struct Directory {
    pub(crate) store: Store,
    pub(crate) resolver: Option<ServiceResolver>,
}

/// Where a service is: a host and a port.
pub(super) fn resolve(directory: &Directory, reference: &ServiceReference) -> Option<(String, u16)> {
    if let Some(resolver) = &directory.resolver
        && let Some(address) = resolver(reference)
    {
        let (host, port) = address.rsplit_once(':')?;
        return Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?));
    }
    let service = find(directory, "", "services", reference).unwrap_or_default();
    let ports = service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let port = ports.iter().find(|port| port["port"].as_u64() == Some(reference.port.into()));
    let name = port.map_or("", |port| port["name"].as_str().unwrap_or_default());
    if service["spec"]["type"] == "ExternalName" {
        return Some((service["spec"]["externalName"].as_str()?.to_owned(), reference.port));
    }
    in_slices(directory, reference, name).or_else(|| in_endpoints(directory, reference, name))
}

fn find(directory: &Directory, group: &str, plural: &str, reference: &ServiceReference) -> Option<Value> {
    let key = built_in(group, "v1", plural)?.key(&reference.namespace, &reference.name).ok()?;
    parse(&*directory.store.get(&key)?).ok()
}

fn in_slices(directory: &Directory, reference: &ServiceReference, port_name: &str) -> Option<(String, u16)> {
    let slices = built_in("discovery.k8s.io", "v1", "endpointslices")?;
    let snapshot = directory.store.snapshot();
    let mut found = snapshot.list(&slices.scope(Some(&reference.namespace))).filter_map(|slice| {
        let is_its = meta(slice).labels.get("kubernetes.io/service-name") == Some(&reference.name);
        let slice = parse(slice).ok().filter(|_| is_its)?;
        let ready = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
        let endpoint = slice["endpoints"].as_array()?.iter().find(ready)?;
        let address = endpoint["addresses"][0].as_str()?.to_owned();
        Some((address, port_of(&slice["ports"], port_name)?))
    });
    found.next()
}

fn in_endpoints(
    directory: &Directory,
    reference: &ServiceReference,
    port_name: &str,
) -> Option<(String, u16)> {
    let endpoints = find(directory, "", "endpoints", reference)?;
    let mut found = endpoints["subsets"].as_array()?.iter().filter_map(|subset| {
        let address = subset["addresses"][0]["ip"].as_str()?.to_owned();
        Some((address, port_of(&subset["ports"], port_name)?))
    });
    found.next()
}

/// The port with the name that the service has for it; one that is alone needs no name.
fn port_of(ports: &Value, name: &str) -> Option<u16> {
    let ports = ports.as_array()?;
    let named = ports.iter().find(|port| port["name"].as_str().unwrap_or_default() == name);
    let alone = ports.first().filter(|_| ports.len() == 1);
    named.or(alone).and_then(|port| u16::try_from(port["port"].as_u64()?).ok())
}
