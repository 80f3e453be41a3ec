//! The CRDs of Cluster API: which versions they serve, who keeps which contract, and what older ones do not have.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
};
use kube_core::ResourceExt;
use serde::Serialize;

use super::{Finding, Level};
use crate::contract::Contract;

const CORE: &str = "cluster.x-k8s.io";
const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";

/// The version that Windlass reads and writes.
const HUB: &str = "v1beta2";

/// Kinds that nothing works without.
const NEEDED: [&str; 6] =
    ["Cluster", "ClusterClass", "Machine", "MachineDeployment", "MachineSet", "MachineHealthCheck"];

/// Fields that older releases do not have, and what cannot be done without them.
const LATER: [(&str, &str, &str, &str); 3] = [
    (
        "ClusterClass",
        "spec.kubernetesVersions",
        "a class cannot list its versions: upgrades go one minor at a time, or as an extension plans them",
        "1.12",
    ),
    (
        "Cluster",
        "status.controlPlane.upgradePlan",
        "the steps that are left are not shown in Clusters and by windlass describe; windlass plan cluster computes them",
        "1.14",
    ),
    (
        "MachinePool",
        "status.versions",
        "how far a pool is cannot be seen in it: upgrades ask its Nodes instead",
        "1.14",
    ),
];

/// A kind, as the API serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledKind {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Versions that are served.
    pub served: Vec<String>,
    /// Version that new objects are stored in.
    pub stored: String,
    /// Newest contract that it says it keeps; core kinds keep none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    /// Provider that clusterctl installed it with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// Every kind, by group and kind.
pub(super) fn installed(crds: &[CustomResourceDefinition]) -> Vec<InstalledKind> {
    let mut kinds: Vec<InstalledKind> = crds
        .iter()
        .map(|crd| {
            let served = crd.spec.versions.iter().filter(|version| version.served);
            let stored = crd.spec.versions.iter().find(|version| version.storage);
            let contract = Contract::of_crd(crd.labels()).map(|(contract, _)| contract.label());
            InstalledKind {
                group: crd.spec.group.clone(),
                kind: crd.spec.names.kind.clone(),
                served: served.map(|version| version.name.clone()).collect(),
                stored: stored.map(|version| version.name.clone()).unwrap_or_default(),
                contract: contract.and_then(|label| label.rsplit('/').next()).map(str::to_owned),
                provider: crd.labels().get(PROVIDER_LABEL).cloned(),
            }
        })
        .collect();
    kinds.sort_by(|a, b| (&a.group, &a.kind).cmp(&(&b.group, &b.kind)));
    kinds
}

pub(super) fn findings(crds: &[CustomResourceDefinition]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let core = |kind: &str| crds.iter().find(|crd| crd.spec.group == CORE && crd.spec.names.kind == kind);
    let missing: Vec<&str> = NEEDED.into_iter().filter(|kind| core(kind).is_none()).collect();
    if !missing.is_empty() {
        findings.push(Finding::new(
            Level::Blocks,
            format!("CRDs of {CORE}"),
            format!("not installed: {}", missing.join(", ")),
            "windlass crds | kubectl apply --server-side -f -",
        ));
    }
    for crd in crds {
        let about = format!("CRD {}", crd.name_any());
        let hub = crd.spec.versions.iter().find(|version| version.name == HUB && version.served);
        let is_ours = [CORE, "runtime.cluster.x-k8s.io"].contains(&crd.spec.group.as_str());
        if is_ours && hub.is_none() {
            let served: Vec<&str> = crd.spec.versions.iter().map(|version| version.name.as_str()).collect();
            findings.push(Finding::new(
                Level::Blocks,
                &about,
                format!("serves {} and no {HUB}", served.join(", ")),
                "upgrade Cluster API to 1.11 or later first; objects are converted, none is touched",
            ));
        }
        findings.extend(stored(crd, &about));
        let is_provider = crd.spec.group.ends_with(".cluster.x-k8s.io")
            && ["infrastructure.", "bootstrap.", "controlplane."]
                .iter()
                .any(|part| crd.spec.group.starts_with(part));
        if is_provider {
            findings.extend(contract(crd, &about));
        }
        for (kind, path, effect, since) in LATER {
            let is_it = crd.spec.group == CORE && crd.spec.names.kind == kind;
            if let Some(hub) = hub.filter(|_| is_it)
                && !has_field(hub, path)
            {
                // What is only shown is not missed by any decision.
                let level = if path.ends_with("upgradePlan") { Level::Note } else { Level::Warning };
                let what = format!("has no {path}: {effect}");
                findings.push(Finding::new(
                    level,
                    &about,
                    what,
                    format!("CRDs of Cluster API {since} or later have it"),
                ));
            }
        }
    }
    findings
}

fn stored(crd: &CustomResourceDefinition, about: &str) -> Option<Finding> {
    let current = crd.spec.versions.iter().find(|version| version.storage)?;
    let stored = crd.status.as_ref()?.stored_versions.as_ref()?;
    let older: Vec<&str> =
        stored.iter().map(String::as_str).filter(|version| *version != current.name).collect();
    (!older.is_empty()).then(|| {
        let what = format!(
            "objects may still be stored as {}: no CRD without that version can replace it",
            older.join(", ")
        );
        Finding::new(Level::Note, about, what, "")
    })
}

fn contract(crd: &CustomResourceDefinition, about: &str) -> Option<Finding> {
    match Contract::of_crd(crd.labels()) {
        Some((Contract::V1Beta2, _)) => None,
        Some((Contract::V1Beta1, _)) => Some(Finding::new(
            Level::Note,
            about,
            "keeps contract v1beta1, which Cluster API 1.16 will no longer know",
            "",
        )),
        None => {
            let labels = format!("{} or {}", Contract::V1Beta2.label(), Contract::V1Beta1.label());
            let what =
                format!("has neither label {labels}: objects of this kind cannot be used by a Cluster");
            Some(Finding::new(Level::Warning, about, what, "install a release of the provider that sets it"))
        }
    }
}

/// Whether the schema of a version has a field, or takes any.
fn has_field(version: &CustomResourceDefinitionVersion, path: &str) -> bool {
    let root = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let mut current: Option<&JSONSchemaProps> = root;
    for part in path.split('.') {
        let Some(schema) = current else { return false };
        if schema.x_kubernetes_preserve_unknown_fields == Some(true) && schema.properties.is_none() {
            return true;
        }
        current = schema.properties.as_ref().and_then(|properties| properties.get(part));
    }
    current.is_some()
}
