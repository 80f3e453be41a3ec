//! ClusterConfiguration: the cluster as a whole.

use kube::ResourceExt;
use serde_json::{Map, Value, json};
use windlass_api::bootstrap::{ClusterConfiguration, InitConfiguration};
use windlass_api::cluster::{Cluster, NetworkRanges};

use super::component::{convert_component, duration};
use super::{ApiVersion, Document, fields};

/// What kubeadm has to know of a cluster, and KubeadmConfigs do not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Name of the Cluster.
    pub name: String,
    /// Where its API servers are reached, as `host:port`.
    pub endpoint: Option<String>,
    /// The domain of its services.
    pub service_domain: String,
    /// Ranges of addresses of services.
    pub services: Vec<String>,
    /// Ranges of addresses of pods.
    pub pods: Vec<String>,
}

impl ClusterFacts {
    /// From the Cluster.
    pub fn of(cluster: &Cluster) -> Self {
        let network = &cluster.spec.cluster_network;
        let ranges = |ranges: &Option<NetworkRanges>| {
            ranges.as_ref().map(|ranges| ranges.cidr_blocks.clone()).unwrap_or_default()
        };
        Self {
            name: cluster.name_any(),
            endpoint: endpoint(cluster),
            service_domain: network.service_domain.clone(),
            services: ranges(&network.services),
            pods: ranges(&network.pods),
        }
    }
}

/// Where the API servers of a Cluster are reached, as `host:port`.
pub(crate) fn endpoint(cluster: &Cluster) -> Option<String> {
    cluster.spec.control_plane_endpoint.address()
}

/// The ClusterConfiguration of the machine that initializes a cluster at a version. Its timeouts are those of the
/// InitConfiguration where v1beta3 has them here.
pub fn cluster_configuration(
    stored: Option<&ClusterConfiguration>,
    init: Option<&InitConfiguration>,
    facts: &ClusterFacts,
    kubernetes_version: &str,
    api: ApiVersion,
) -> Document {
    let mut fields = fields(stored);
    for component in ["apiServer", "controllerManager", "scheduler"] {
        if let Some(Value::Object(component)) = fields.get_mut(component) {
            convert_component(component, api);
        }
    }
    if let Some(Value::Object(local)) = fields.get_mut("etcd").and_then(|etcd| etcd.get_mut("local")) {
        convert_component(local, api);
    }
    for period in ["certificateValidityPeriod", "caCertificateValidityPeriod"] {
        let days = fields.remove(&format!("{period}Days")).and_then(|days| days.as_u64());
        if let Some(days) = days.filter(|days| *days > 0 && api == ApiVersion::V1Beta4) {
            fields.insert(period.to_owned(), duration(days.saturating_mul(24 * 60 * 60)).into());
        }
    }
    if api == ApiVersion::V1Beta3 {
        fields.remove("encryptionAlgorithm");
        let timeout =
            init.and_then(|init| init.timeouts.get("controlPlaneComponentHealthCheckSeconds")).copied();
        if let Some(timeout) = timeout.and_then(|seconds| u64::try_from(seconds).ok()) {
            let server = fields.entry("apiServer").or_insert_with(|| json!({}));
            server["timeoutForControlPlane"] = duration(timeout).into();
        }
    }
    fill_in(&mut fields, facts, kubernetes_version);
    Document { api_version: api, kind: "ClusterConfiguration", fields }
}

/// Fills in what the Cluster and the Machine say.
fn fill_in(fields: &mut Map<String, Value>, facts: &ClusterFacts, kubernetes_version: &str) {
    if let Some(endpoint) = &facts.endpoint {
        fields.entry("controlPlaneEndpoint").or_insert_with(|| endpoint.clone().into());
    }
    fields.insert("clusterName".to_owned(), facts.name.clone().into());
    fields.insert("kubernetesVersion".to_owned(), kubernetes_version.into());
    let networking: Map<String, Value> = [
        ("dnsDomain", facts.service_domain.clone()),
        ("serviceSubnet", facts.services.join(",")),
        ("podSubnet", facts.pods.join(",")),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(field, value)| (field.to_owned(), value.into()))
    .collect();
    if !networking.is_empty() {
        fields.insert("networking".to_owned(), Value::Object(networking));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> ClusterFacts {
        ClusterFacts {
            name: "prod".to_owned(),
            endpoint: Some("10.0.0.1:6443".to_owned()),
            service_domain: "cluster.local".to_owned(),
            services: vec!["10.96.0.0/12".to_owned(), "fd00:1::/112".to_owned()],
            pods: Vec::new(),
        }
    }

    fn rendered(stored: Value, init: Value, api: ApiVersion) -> Value {
        let stored: ClusterConfiguration = serde_json::from_value(stored).unwrap();
        let init: InitConfiguration = serde_json::from_value(init).unwrap();
        let document = cluster_configuration(Some(&stored), Some(&init), &facts(), "v1.33.1", api);
        Value::Object(document.fields)
    }

    #[test]
    fn the_cluster_fills_in_what_a_user_cannot_say() {
        let document = cluster_configuration(None, None, &facts(), "v1.33.1", ApiVersion::V1Beta4);
        assert_eq!(
            document.to_string(),
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: prod\n\
             controlPlaneEndpoint: '10.0.0.1:6443'\nkubernetesVersion: v1.33.1\nnetworking:\n  \
             dnsDomain: cluster.local\n  serviceSubnet: '10.96.0.0/12,fd00:1::/112'\n"
        );
        let given = rendered(json!({"controlPlaneEndpoint": "vip:443"}), json!({}), ApiVersion::V1Beta4);
        assert_eq!(given["controlPlaneEndpoint"], "vip:443", "what the user says stays");
        let unknown = ClusterFacts { endpoint: None, ..ClusterFacts::default() };
        let document = cluster_configuration(None, None, &unknown, "v1.33.1", ApiVersion::V1Beta4);
        assert!(
            !document.fields.contains_key("controlPlaneEndpoint")
                && !document.fields.contains_key("networking")
        );
    }

    #[test]
    fn an_ipv6_address_has_brackets_in_the_endpoint() {
        for (host, expected) in
            [("fd00::1", "[fd00::1]:6443"), ("[fd00::1]", "[fd00::1]:6443"), ("api.test", "api.test:6443")]
        {
            let cluster: Cluster = serde_json::from_value(json!({"metadata": {"name": "c"},
                "spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}}))
            .unwrap();
            assert_eq!(ClusterFacts::of(&cluster).endpoint.as_deref(), Some(expected));
        }
        let without: Cluster = serde_json::from_value(json!({"metadata": {"name": "c"},
            "spec": {"controlPlaneEndpoint": {"host": "a"}}}))
        .unwrap();
        assert_eq!(ClusterFacts::of(&without).endpoint, None, "no port");
    }

    #[test]
    fn every_field_has_the_form_of_its_version() {
        let arguments = json!([{"name": "v", "value": "2"}]);
        let stored = json!({
            "apiServer": {"extraArgs": arguments, "extraEnvs": [{"name": "A"}], "certSANs": ["a.test"]},
            "controllerManager": {"extraArgs": arguments, "extraVolumes": [{"name": "v", "hostPath": "/a", "mountPath": "/b"}]},
            "scheduler": {"extraEnvs": [{"name": "A"}]},
            "etcd": {"local": {"imageTag": "3.6.5-0", "dataDir": "/data", "extraArgs": arguments, "extraEnvs": [{"name": "A"}]}},
            "dns": {"imageTag": "v1.12.1"}, "imageRepository": "registry.test", "featureGates": {"NodeLocalCRISocket": true},
            "certificatesDir": "/pki", "certificateValidityPeriodDays": 365, "caCertificateValidityPeriodDays": 3650,
            "encryptionAlgorithm": "ECDSA-P256",
        });
        let timeouts = json!({"timeouts": {"controlPlaneComponentHealthCheckSeconds": 90}});
        let newer = rendered(stored.clone(), timeouts.clone(), ApiVersion::V1Beta4);
        for (pointer, expected) in [
            ("/apiServer/extraArgs", arguments.clone()),
            ("/apiServer/extraEnvs", json!([{"name": "A"}])),
            ("/etcd/local/extraArgs", arguments),
            ("/etcd/local/extraEnvs", json!([{"name": "A"}])),
            ("/certificateValidityPeriod", json!("8760h0m0s")),
            ("/caCertificateValidityPeriod", json!("87600h0m0s")),
            ("/encryptionAlgorithm", json!("ECDSA-P256")),
            ("/apiServer/certSANs", json!(["a.test"])),
            ("/certificatesDir", json!("/pki")),
        ] {
            assert_eq!(newer.pointer(pointer), Some(&expected), "{pointer}");
        }
        assert_eq!(newer.pointer("/apiServer/timeoutForControlPlane"), None);
        assert_eq!(newer.get("certificateValidityPeriodDays"), None);

        let older = rendered(stored, timeouts, ApiVersion::V1Beta3);
        for (pointer, expected) in [
            ("/apiServer/extraArgs", Some(json!({"v": "2"}))),
            ("/apiServer/extraEnvs", None),
            ("/apiServer/timeoutForControlPlane", Some(json!("1m30s"))),
            ("/controllerManager/extraArgs", Some(json!({"v": "2"}))),
            ("/controllerManager/extraVolumes/0/hostPath", Some(json!("/a"))),
            ("/scheduler/extraEnvs", None),
            ("/etcd/local/extraArgs", Some(json!({"v": "2"}))),
            ("/etcd/local/extraEnvs", None),
            ("/etcd/local/dataDir", Some(json!("/data"))),
            ("/certificateValidityPeriod", None),
            ("/caCertificateValidityPeriod", None),
            ("/certificateValidityPeriodDays", None),
            ("/encryptionAlgorithm", None),
        ] {
            assert_eq!(older.pointer(pointer), expected.as_ref(), "{pointer}");
        }
    }
}
