//! Objects whose owner cannot be found: the garbage collector asks for it in the version of the reference.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use windlass_api::api_version;

use super::object::{belongs, full_name, text};
use super::{Finding, Level, Objects};

pub(super) fn findings(objects: &Objects, crds: &[CustomResourceDefinition]) -> Vec<Finding> {
    let served: BTreeMap<(&str, &str), Vec<&str>> = crds
        .iter()
        .map(|crd| {
            let versions = crd.spec.versions.iter().filter(|version| version.served);
            let names = versions.map(|version| version.name.as_str()).collect();
            ((crd.spec.group.as_str(), crd.spec.names.kind.as_str()), names)
        })
        .collect();
    let mut findings = Vec::new();
    for (kind, found) in [
        ("Machine", &objects.machines),
        ("MachineDeployment", &objects.machine_deployments),
        ("MachinePool", &objects.machine_pools),
        ("MachineHealthCheck", &objects.machine_health_checks),
        ("control plane", &objects.control_planes),
    ] {
        for object in found {
            let about = format!("{kind} {}", full_name(object));
            findings.extend(unserved(object, &served).map(|owner| {
                let what = format!("its owner {owner} is in a version that is not served: the garbage collector cannot find it");
                Finding::new(Level::Warning, &about, what, "Windlass corrects the reference the first time it writes the object")
            }));
            if let Some(what) = without_cluster(object, &objects.clusters) {
                findings.push(Finding::new(Level::Warning, &about, what, ""));
            }
        }
    }
    findings
}

/// The first owner whose version is not served, of the kinds that are known here.
fn unserved(object: &Value, served: &BTreeMap<(&str, &str), Vec<&str>>) -> Option<String> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find_map(|owner| {
        let (api_version, kind) = (owner["apiVersion"].as_str()?, owner["kind"].as_str()?);
        let (group, version) = api_version::split(api_version);
        let versions = served.get(&(group, kind))?;
        (!versions.contains(&version)).then(|| format!("{kind} {} ({api_version})", text(&owner["name"])))
    })
}

fn without_cluster(object: &Value, clusters: &[Value]) -> Option<String> {
    let name = object["spec"]["clusterName"].as_str()?;
    let is_there = clusters.iter().any(|cluster| belongs(object, cluster));
    (!is_there).then(|| format!("its Cluster {name:?} does not exist"))
}
