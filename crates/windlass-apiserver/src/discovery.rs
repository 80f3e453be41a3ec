//! What there is: discovery in its two forms, and what the server is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass_api::api_version;

use crate::api::{Accept, Failure, Layout, canonical};
use crate::registry::{Group, Registry, Resource, Subresource, Verbs};
use crate::response::Reply;

/// The Kubernetes version whose API this is.
const VERSION: &str = "v1.36.4+windlass";

/// `/version`
pub(crate) fn version() -> Vec<u8> {
    let version = json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    });
    version.to_string().into_bytes()
}

/// The name that Go has for the architecture, because clients compare it with that.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/`
pub(crate) fn root(registry: &Registry) -> Vec<u8> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for group in registry.groups().iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|(version, _)| format!("/apis/{}/{version}", group.name)));
    }
    paths.sort();
    json!({"paths": paths}).to_string().into_bytes()
}

/// `/api`
pub(crate) fn core(registry: &Registry, accept: &Accept) -> Result<Reply, Failure> {
    if let Some(version) = accept.aggregated_discovery() {
        return Ok(aggregated(registry, version, |group| group.is_empty()));
    }
    accept.view()?;
    let versions = json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []});
    Ok(document(&versions))
}

/// `/apis`
pub(crate) fn groups(registry: &Registry, accept: &Accept) -> Result<Reply, Failure> {
    if let Some(version) = accept.aggregated_discovery() {
        return Ok(aggregated(registry, version, |group| !group.is_empty()));
    }
    accept.view()?;
    let groups = registry.groups();
    let groups: Vec<Value> = groups.iter().filter(|group| !group.name.is_empty()).map(summary).collect();
    Ok(document(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})))
}

/// `/apis/{group}`
pub(crate) fn group(registry: &Registry, name: &str) -> Result<Reply, Failure> {
    let groups = registry.groups();
    let group = groups.iter().find(|group| group.name == name && !name.is_empty());
    let mut summary = summary(group.ok_or(Failure::NoSuchPath)?);
    summary["kind"] = "APIGroup".into();
    summary["apiVersion"] = "v1".into();
    Ok(document(&summary))
}

fn summary(group: &Group<'_>) -> Value {
    let version =
        |version: &str| json!({"groupVersion": api_version::join(group.name, version), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(|(name, _)| version(name)).collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1` and `/apis/{group}/{version}`
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Result<Reply, Failure> {
    let groups = registry.groups();
    let found = groups.iter().find(|known| known.name == group);
    let found = found.and_then(|group| group.versions.iter().find(|(known, _)| *known == version));
    let (_, resources) = found.ok_or(Failure::NoSuchPath)?;
    let resources: Vec<Value> = resources.iter().flat_map(|resource| entries(resource)).collect();
    let list = json!({"kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": api_version::join(group, version), "resources": resources});
    Ok(document(&list))
}

fn entries(resource: &Resource) -> Vec<Value> {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.as_slice().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.as_slice().into();
    }
    if resource.verbs == Verbs::All {
        entry["storageVersionHash"] = storage_hash(resource).into();
    }
    let mut entries = vec![entry];
    for subresource in &resource.subresources {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, subresource.name()),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": subresource_verbs(subresource),
        });
        if let Some((group, version, kind)) = other_kind(subresource) {
            entry["group"] = group.into();
            entry["version"] = version.into();
            entry["kind"] = kind.into();
        }
        entries.push(entry);
    }
    entries
}

/// Clients compare it to find out whether objects must be migrated.
fn storage_hash(resource: &Resource) -> String {
    let kind = format!("{}/{}/{}", resource.group, resource.storage_version, resource.kind);
    STANDARD.encode(&Sha256::digest(kind)[..8])
}

fn verbs(resource: &Resource) -> &'static [&'static str] {
    match (resource.verbs, resource.strategy.custom) {
        (Verbs::CreateOnly, _) => &["create"],
        (Verbs::ReadOnly, _) => &["get", "list"],
        (Verbs::All, true) => {
            &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
        }
        (Verbs::All, false) => {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
    }
}

fn subresource_verbs(subresource: &Subresource) -> &'static [&'static str] {
    match subresource {
        Subresource::Token | Subresource::Eviction => &["create"],
        Subresource::Finalize => &["update"],
        _ => &["get", "patch", "update"],
    }
}

/// The kind of a subresource, where it is another one than that of the object.
fn other_kind(subresource: &Subresource) -> Option<(&'static str, &'static str, &'static str)> {
    match subresource {
        Subresource::Scale(_) => Some(("autoscaling", "v1", "Scale")),
        Subresource::Token => Some(("authentication.k8s.io", "v1", "TokenRequest")),
        Subresource::Eviction => Some(("policy", "v1", "Eviction")),
        _ => None,
    }
}

/// Everything in one document. The media type must repeat what was asked for.
fn aggregated(registry: &Registry, version: &'static str, wanted: impl Fn(&str) -> bool) -> Reply {
    let groups = registry.groups();
    let items: Vec<Value> = groups
        .iter()
        .filter(|group| wanted(group.name))
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|(version, resources)| {
                    let resources: Vec<Value> =
                        resources.iter().map(|resource| aggregated_entry(resource)).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items});
    let content_type = match version {
        "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    Reply { content_type, ..document(&list) }
}

fn aggregated_entry(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = kind(&resource.group, &resource.version, &resource.kind);
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": own,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.as_slice().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.as_slice().into();
    }
    let subresources = resource.subresources.iter().map(|subresource| {
        let response_kind = match other_kind(subresource) {
            Some((group, version, name)) => kind(group, version, name),
            None => own.clone(),
        };
        json!({"subresource": subresource.name(), "responseKind": response_kind,
            "verbs": subresource_verbs(subresource)})
    });
    let subresources: Vec<Value> = subresources.collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

fn document(value: &Value) -> Reply {
    Reply::json(StatusCode::OK, canonical(value, Layout::KindFirst))
}
