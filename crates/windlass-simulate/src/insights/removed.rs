//! APIs of Kubernetes that an upgrade takes away, where files and flags of machines use them.

use serde_json::Value;
use windlass_version::Version;

use super::health::texts;
use super::{Insight, Level};
use crate::snapshot::Snapshot;

/// A version of an API that a minor does not have any more.
struct Removed {
    /// Group and version.
    api: &'static str,
    /// Kinds; none means all of them.
    kinds: &'static [&'static str],
    /// The first minor of 1 without it.
    minor: u64,
    /// What to use instead.
    instead: &'static str,
}

const fn row(
    api: &'static str,
    kinds: &'static [&'static str],
    minor: u64,
    instead: &'static str,
) -> Removed {
    Removed { api, kinds, minor, instead }
}

const WEBHOOKS: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
const ROLES: &[&str] = &["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
const STORAGE: &[&str] = &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"];
const FLOWS: &[&str] = &["FlowSchema", "PriorityLevelConfiguration"];
const POLICIES: &[&str] = &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];

/// By the lifecycle tags of Kubernetes' releases up to 1.36, as in the deprecation guide.
const REMOVED: &[Removed] = &[
    row("admissionregistration.k8s.io/v1beta1", WEBHOOKS, 22, "admissionregistration.k8s.io/v1"),
    row("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"], 22, "apiextensions.k8s.io/v1"),
    row("apiregistration.k8s.io/v1beta1", &["APIService"], 22, "apiregistration.k8s.io/v1"),
    row("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"], 22, "certificates.k8s.io/v1"),
    row("coordination.k8s.io/v1beta1", &["Lease"], 22, "coordination.k8s.io/v1"),
    row("scheduling.k8s.io/v1beta1", &["PriorityClass"], 22, "scheduling.k8s.io/v1"),
    row("extensions/v1beta1", &["Ingress"], 22, "networking.k8s.io/v1"),
    row("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"], 22, "networking.k8s.io/v1"),
    row("rbac.authorization.k8s.io/v1beta1", ROLES, 22, "rbac.authorization.k8s.io/v1"),
    row("storage.k8s.io/v1beta1", STORAGE, 22, "storage.k8s.io/v1"),
    row("audit.k8s.io/v1alpha1", &["Policy"], 24, "audit.k8s.io/v1"),
    row("audit.k8s.io/v1beta1", &["Policy"], 24, "audit.k8s.io/v1"),
    row("autoscaling/v2beta1", &["HorizontalPodAutoscaler"], 25, "autoscaling/v2"),
    row("batch/v1beta1", &["CronJob"], 25, "batch/v1"),
    row("discovery.k8s.io/v1beta1", &["EndpointSlice"], 25, "discovery.k8s.io/v1"),
    row("events.k8s.io/v1beta1", &["Event"], 25, "events.k8s.io/v1"),
    row("node.k8s.io/v1beta1", &["RuntimeClass"], 25, "node.k8s.io/v1"),
    row("policy/v1beta1", &["PodDisruptionBudget"], 25, "policy/v1"),
    row("policy/v1beta1", &["PodSecurityPolicy"], 25, "Pod Security admission"),
    row("autoscaling/v2beta2", &["HorizontalPodAutoscaler"], 26, "autoscaling/v2"),
    row("flowcontrol.apiserver.k8s.io/v1beta1", FLOWS, 26, "flowcontrol.apiserver.k8s.io/v1"),
    row("storage.k8s.io/v1beta1", &["CSIStorageCapacity"], 27, "storage.k8s.io/v1"),
    row("flowcontrol.apiserver.k8s.io/v1beta2", FLOWS, 29, "flowcontrol.apiserver.k8s.io/v1"),
    row("resource.k8s.io/v1alpha2", &[], 31, "resource.k8s.io/v1"),
    row("flowcontrol.apiserver.k8s.io/v1beta3", FLOWS, 32, "flowcontrol.apiserver.k8s.io/v1"),
    row("admissionregistration.k8s.io/v1alpha1", POLICIES, 32, "admissionregistration.k8s.io/v1"),
    row("authentication.k8s.io/v1beta1", &["SelfSubjectReview"], 33, "authentication.k8s.io/v1"),
    row("networking.k8s.io/v1alpha1", &["IPAddress", "ServiceCIDR"], 33, "networking.k8s.io/v1"),
    row("admissionregistration.k8s.io/v1beta1", POLICIES, 34, "admissionregistration.k8s.io/v1"),
    row("resource.k8s.io/v1alpha3", &[], 34, "resource.k8s.io/v1"),
    row("storage.k8s.io/v1alpha1", &["VolumeAttributesClass"], 35, "storage.k8s.io/v1"),
    row("certificates.k8s.io/v1alpha1", &["PodCertificateRequest"], 35, "certificates.k8s.io/v1beta1"),
    row(
        "storagemigration.k8s.io/v1alpha1",
        &["StorageVersionMigration"],
        35,
        "storagemigration.k8s.io/v1beta1",
    ),
];

/// Removed APIs in files that machines boot with, and in what API servers are told to serve.
pub(super) fn apis(snapshot: &Snapshot, to: &Version) -> Vec<Insight> {
    let gone: Vec<&Removed> =
        REMOVED.iter().filter(|removed| to.minor().major == 1 && removed.minor <= to.minor().minor).collect();
    let mut all: Vec<Insight> = Vec::new();
    for object in &snapshot.objects {
        let Some((spec, kind)) = kubeadm_spec(object) else { continue };
        let name = format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or_default());
        let mut add = |removed: &Removed, evidence: String| {
            let insight = Insight {
                id: "RemovedApiInUse",
                level: Level::Warning,
                object: name.clone(),
                evidence: format!("{evidence}, which v1.{} does not have", removed.minor),
                remedy: format!("use {} instead", removed.instead),
            };
            if !all.contains(&insight) {
                all.push(insight);
            }
        };
        for (path, content) in texts(object, &format!("{spec}/files")) {
            for removed in gone.iter().filter(|removed| uses(content, removed)) {
                add(removed, format!("file {path} has {}", removed.api));
            }
        }
        let served = object.pointer(&format!("{spec}/clusterConfiguration/apiServer/extraArgs"));
        for value in runtime_config(served) {
            for removed in gone.iter().filter(|removed| value.split(',').any(|pair| is_on(pair, removed.api)))
            {
                add(removed, format!("--runtime-config of its API servers turns {} on", removed.api));
            }
        }
    }
    all
}

/// Where an object has what kubeadm is told. Machines have copies of it: what they were made from is named.
fn kubeadm_spec(object: &Value) -> Option<(&'static str, &'static str)> {
    match object["kind"].as_str()? {
        "KubeadmControlPlane" => Some(("/spec/kubeadmConfigSpec", "KubeadmControlPlane")),
        "KubeadmControlPlaneTemplate" => {
            Some(("/spec/template/spec/kubeadmConfigSpec", "KubeadmControlPlaneTemplate"))
        }
        "KubeadmConfigTemplate" => Some(("/spec/template/spec", "KubeadmConfigTemplate")),
        _ => None,
    }
}

/// Whether a text has an object of a removed API.
fn uses(content: &str, removed: &Removed) -> bool {
    let is = |line: &str, field: &str, value: &str| {
        let told = line.trim().trim_start_matches("- ").strip_prefix(field).map(str::trim);
        told.is_some_and(|told| told.trim_matches(['"', '\'']) == value)
    };
    content.split("\n---").any(|document| {
        let has_kind = removed.kinds.is_empty()
            || document.lines().any(|line| removed.kinds.iter().any(|kind| is(line, "kind:", kind)));
        has_kind && document.lines().any(|line| is(line, "apiVersion:", removed.api))
    })
}

/// Values of `--runtime-config`; arguments are a list in v1beta2, and a map before.
fn runtime_config(arguments: Option<&Value>) -> Vec<&str> {
    match arguments {
        Some(Value::Array(list)) => {
            let given = list.iter().filter(|argument| argument["name"] == "runtime-config");
            given.filter_map(|argument| argument["value"].as_str()).collect()
        }
        Some(Value::Object(map)) => map.get("runtime-config").and_then(Value::as_str).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn is_on(pair: &str, api: &str) -> bool {
    let (given, value) = pair.trim().split_once('=').unwrap_or((pair.trim(), "true"));
    given == api && value == "true"
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::insights;
    use super::*;
    use crate::snapshot::Format;

    fn snapshot(objects: Vec<Value>) -> Snapshot {
        Snapshot {
            format: Format::First,
            taken: Timestamp::UNIX_EPOCH,
            namespace: "n".to_owned(),
            cluster: "c".to_owned(),
            served: String::new(),
            objects,
            unread: Vec::new(),
        }
    }

    fn found(objects: Vec<Value>, to: &str) -> Vec<(String, Level)> {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let all = insights(&snapshot(objects), &Version::parse(to).unwrap(), 3600, now);
        all.iter()
            .map(|insight| {
                (format!("{}: {}: {}", insight.id, insight.object, insight.evidence), insight.level)
            })
            .collect()
    }

    fn machine(name: &str, role: &str, version: &str, more: Value) -> Value {
        let mut machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "labels": {role: ""}},
            "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {}},
            "status": {"nodeInfo": {"kubeletVersion": version}, "nodeRef": {"name": name}}});
        for (key, value) in more.as_object().unwrap() {
            machine["status"][key] = value.clone();
        }
        machine
    }

    const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

    fn condition(type_: &str, status: &str, message: &str) -> Value {
        json!([{"type": type_, "status": status, "reason": "R", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    }

    #[test]
    fn apis_that_the_target_does_not_have_are_found_in_files_and_flags() {
        let audit = "apiVersion: audit.k8s.io/v1\nkind: Policy\n---\napiVersion: \"flowcontrol.apiserver.k8s.io/v1beta3\"\nkind: FlowSchema\n";
        let control_plane = json!({"kind": "KubeadmControlPlane", "metadata": {"name": "cp"}, "spec": {"kubeadmConfigSpec": {
            "files": [{"path": "/etc/flow.yaml", "content": audit}],
            "clusterConfiguration": {"apiServer": {"extraArgs": [
                {"name": "runtime-config", "value": "resource.k8s.io/v1alpha3=true,api/all=false"}]}}}}});
        assert_eq!(found(vec![control_plane.clone()], "v1.31.0"), []);
        assert_eq!(
            found(vec![control_plane.clone()], "v1.33.2"),
            [(
                "RemovedApiInUse: KubeadmControlPlane cp: file /etc/flow.yaml has flowcontrol.apiserver.k8s.io/v1beta3, which v1.32 \
                 does not have"
                    .to_owned(),
                Level::Warning
            )]
        );
        assert_eq!(found(vec![control_plane], "v1.34.0").len(), 2, "and what is turned on by a flag");
    }

    #[test]
    fn what_is_wrong_already_is_said_with_its_level() {
        let day = |day: &str| json!({"certificatesExpiryDate": format!("2026-01-{day}T00:00:00Z")});
        let objects = vec![
            machine(
                "cp-a",
                CONTROL_PLANE,
                "v1.33.0",
                json!({"certificatesExpiryDate": "2026-01-01T00:30:00Z"}),
            ),
            machine("cp-b", CONTROL_PLANE, "v1.33.0", day("20")),
            machine(
                "cp-c",
                CONTROL_PLANE,
                "v1.33.0",
                json!({"certificatesExpiryDate": "2027-01-01T00:00:00Z"}),
            ),
            machine("old", "w", "v1.29.0", json!({})),
            machine(
                "sick",
                "w",
                "v1.33.0",
                json!({"conditions": condition("NodeHealthy", "False", "* disk pressure")}),
            ),
            json!({"kind": "KubeadmControlPlane", "metadata": {"name": "cp"}, "spec": {"replicas": 2},
                "status": {"conditions": condition("EtcdClusterHealthy", "False", "member a is down")}}),
            json!({"kind": "ExtensionConfig", "metadata": {"name": "gate"},
                "status": {"conditions": condition("Discovered", "False", "connection refused")}}),
            json!({"kind": "ExtensionConfig", "metadata": {"name": "fine"}, "status": {"conditions": condition("Discovered", "True", "")}}),
        ];
        let ids: Vec<(String, Level)> = found(objects, "v1.33.0")
            .into_iter()
            .map(|(text, level)| (text.split(": ").take(2).collect::<Vec<_>>().join(" "), level))
            .collect();
        let expected = [
            ("CertificateExpires Machine cp-a", Level::Error),
            ("EtcdUnhealthy KubeadmControlPlane cp", Level::Error),
            ("ExtensionNotReady ExtensionConfig gate", Level::Error),
            ("SkewViolated Machine old", Level::Error),
            ("CertificateExpires Machine cp-b", Level::Warning),
            ("EtcdEvenMembers KubeadmControlPlane cp", Level::Warning),
            ("NodeNotReady Machine sick", Level::Warning),
        ];
        assert_eq!(ids, expected.map(|(text, level)| (text.to_owned(), level)));
        assert_eq!(found(vec![machine("cp", CONTROL_PLANE, "v1.33.0", json!({}))], "v1.34.0"), []);
    }

    #[test]
    fn a_drain_that_a_budget_blocks_is_said() {
        let message = "* Pod shop/web: cannot evict pod as it would violate the pod's disruption budget";
        let mut going =
            machine("w", "w", "v1.33.0", json!({"conditions": condition("Deleting", "True", message)}));
        going["metadata"]["deletionTimestamp"] = json!("2025-12-31T23:50:00Z");
        let said = found(vec![going], "v1.33.0");
        assert_eq!(said.len(), 1);
        assert!(
            said[0].0.starts_with("PdbBlocksDrain: Machine w: has been going for 10 minutes: Pod shop/web"),
            "{said:?}"
        );
    }
}
