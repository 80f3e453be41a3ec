//! InitConfiguration and JoinConfiguration: one machine.

use serde_json::{Map, Value, json};
use windlass_api::bootstrap::{InitConfiguration, JoinConfiguration};

use super::component::{convert_arguments, duration, timeouts};
use super::{ApiVersion, Document, fields};

/// The taint of a worker until its labels are those of its Machine. The Machine's controller takes it off.
pub const UNINITIALIZED_TAINT: &str = "node.cluster.x-k8s.io/uninitialized";

/// What a machine joins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinRole {
    /// Part of the control plane.
    ControlPlane,
    /// A worker.
    Worker,
}

/// The InitConfiguration of the machine that initializes a cluster.
pub fn init_configuration(stored: Option<&InitConfiguration>, api: ApiVersion) -> Document {
    let mut fields = fields(stored);
    if let Some(Value::Array(tokens)) = fields.get_mut("bootstrapTokens") {
        for token in tokens.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(seconds) = token.remove("ttlSeconds").and_then(|seconds| seconds.as_u64()) {
                token.insert("ttl".to_owned(), duration(seconds).into());
            }
        }
    }
    convert_registration(&mut fields, api);
    convert_timeouts(&mut fields, api);
    Document { api_version: api, kind: "InitConfiguration", fields }
}

/// The JoinConfiguration of every other machine. A control plane machine says so, a worker is tainted.
pub fn join_configuration(stored: &JoinConfiguration, role: JoinRole, api: ApiVersion) -> Document {
    let mut fields = fields(Some(stored));
    match role {
        JoinRole::ControlPlane => drop(fields.entry("controlPlane").or_insert_with(|| json!({}))),
        JoinRole::Worker => taint(&mut fields),
    }
    if let Some(Value::Object(file)) = fields.get_mut("discovery").and_then(|found| found.get_mut("file")) {
        // Written to the machine as a file of its own.
        file.remove("kubeConfig");
    }
    convert_registration(&mut fields, api);
    let discovery_timeout = stored.timeouts.get("tlsBootstrapSeconds").copied();
    convert_timeouts(&mut fields, api);
    if let Some(seconds) = discovery_timeout.and_then(|seconds| u64::try_from(seconds).ok())
        && api == ApiVersion::V1Beta3
    {
        let discovery = fields.entry("discovery").or_insert_with(|| json!({}));
        discovery["timeout"] = duration(seconds).into();
    }
    Document { api_version: api, kind: "JoinConfiguration", fields }
}

/// Adds the taint of a worker that is not initialized, if it is not there.
fn taint(fields: &mut Map<String, Value>) {
    let taint = json!({"key": UNINITIALIZED_TAINT, "effect": "NoSchedule"});
    let registration = fields.entry("nodeRegistration").or_insert_with(|| json!({}));
    match registration.get_mut("taints") {
        Some(Value::Array(taints)) => {
            let is_there = |there: &Value| there["key"] == taint["key"] && there["effect"] == taint["effect"];
            if !taints.iter().any(is_there) {
                taints.push(taint);
            }
        }
        _ => registration["taints"] = json!([taint]),
    }
}

fn convert_registration(fields: &mut Map<String, Value>, api: ApiVersion) {
    let Some(Value::Object(registration)) = fields.get_mut("nodeRegistration") else { return };
    convert_arguments(registration, "kubeletExtraArgs", api);
    if api == ApiVersion::V1Beta3 {
        registration.remove("imagePullSerial");
    }
}

/// v1beta3 has two of the timeouts, elsewhere.
fn convert_timeouts(fields: &mut Map<String, Value>, api: ApiVersion) {
    let Some(Value::Object(seconds)) = fields.remove("timeouts") else { return };
    if api == ApiVersion::V1Beta4 {
        fields.insert("timeouts".to_owned(), Value::Object(timeouts(&seconds)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(stored: Value, api: ApiVersion) -> Value {
        let stored: InitConfiguration = serde_json::from_value(stored).unwrap();
        Value::Object(init_configuration(Some(&stored), api).fields)
    }

    fn join(stored: Value, role: JoinRole, api: ApiVersion) -> Value {
        let stored: JoinConfiguration = serde_json::from_value(stored).unwrap();
        Value::Object(join_configuration(&stored, role, api).fields)
    }

    #[test]
    fn an_init_configuration_has_the_form_of_its_version() {
        let stored = json!({
            "bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttlSeconds": 3600, "usages": ["signing"]}],
            "nodeRegistration": {
                "name": "{{ ds.meta_data.local_hostname }}", "taints": [], "imagePullSerial": false,
                "kubeletExtraArgs": [{"name": "node-labels", "value": "a=b"}], "ignorePreflightErrors": ["NumCPU"],
            },
            "localAPIEndpoint": {"advertiseAddress": "10.0.0.2", "bindPort": 6443},
            "skipPhases": ["addon/kube-proxy"], "patches": {"directory": "/patches"},
            "timeouts": {"controlPlaneComponentHealthCheckSeconds": 300, "kubernetesAPICallSeconds": 0},
        });
        let newer = init(stored.clone(), ApiVersion::V1Beta4);
        assert_eq!(
            newer,
            json!({
                "bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttl": "1h0m0s", "usages": ["signing"]}],
                "nodeRegistration": {
                    "name": "{{ ds.meta_data.local_hostname }}", "taints": [], "imagePullSerial": false,
                    "kubeletExtraArgs": [{"name": "node-labels", "value": "a=b"}], "ignorePreflightErrors": ["NumCPU"],
                },
                "localAPIEndpoint": {"advertiseAddress": "10.0.0.2", "bindPort": 6443},
                "skipPhases": ["addon/kube-proxy"], "patches": {"directory": "/patches"},
                "timeouts": {"controlPlaneComponentHealthCheck": "5m0s", "kubernetesAPICall": "0s"},
            })
        );
        let older = init(stored, ApiVersion::V1Beta3);
        assert_eq!(
            older["nodeRegistration"],
            json!({
                "name": "{{ ds.meta_data.local_hostname }}", "taints": [],
                "kubeletExtraArgs": {"node-labels": "a=b"}, "ignorePreflightErrors": ["NumCPU"],
            })
        );
        assert_eq!(
            older.get("timeouts"),
            None,
            "one of them is in the ClusterConfiguration, the others are lost"
        );
        assert_eq!(older["bootstrapTokens"][0]["ttl"], "1h0m0s");
        let empty = init_configuration(None, ApiVersion::V1Beta3);
        assert_eq!(empty.to_string(), "apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\n");
    }

    #[test]
    fn a_worker_is_tainted_once_and_a_control_plane_machine_says_what_it_is() {
        let uninitialized = json!({"key": UNINITIALIZED_TAINT, "effect": "NoSchedule"});
        let other = json!({"key": "gpu", "effect": "NoExecute"});
        for (taints, expected) in [
            (json!(null), json!([uninitialized])),
            (json!([]), json!([uninitialized])),
            (json!([other]), json!([other, uninitialized])),
            (json!([uninitialized, other]), json!([uninitialized, other])),
        ] {
            let stored = json!({"nodeRegistration": {"taints": taints}});
            let worker = join(stored.clone(), JoinRole::Worker, ApiVersion::V1Beta4);
            assert_eq!(worker["nodeRegistration"]["taints"], expected);
            assert_eq!(worker.get("controlPlane"), None);
            let control_plane = join(stored, JoinRole::ControlPlane, ApiVersion::V1Beta4);
            assert_eq!(control_plane["controlPlane"], json!({}));
            let unchanged = if taints.is_null() { None } else { Some(&taints) };
            assert_eq!(control_plane.pointer("/nodeRegistration/taints"), unchanged);
        }
    }

    #[test]
    fn a_join_configuration_has_the_form_of_its_version() {
        let stored = json!({
            "caCertPath": "/ca.crt", "controlPlane": {"localAPIEndpoint": {"bindPort": 7443}},
            "discovery": {"file": {"kubeConfigPath": "/d.conf", "kubeConfig": {"user": {"exec": {"command": "x"}}}}},
            "timeouts": {"tlsBootstrapSeconds": 120, "discoverySeconds": 30},
        });
        let newer = join(stored.clone(), JoinRole::ControlPlane, ApiVersion::V1Beta4);
        assert_eq!(
            newer,
            json!({
                "caCertPath": "/ca.crt", "controlPlane": {"localAPIEndpoint": {"bindPort": 7443}},
                "discovery": {"file": {"kubeConfigPath": "/d.conf"}},
                "timeouts": {"tlsBootstrap": "2m0s", "discovery": "30s"},
            })
        );
        let older = join(stored, JoinRole::ControlPlane, ApiVersion::V1Beta3);
        assert_eq!(older["discovery"], json!({"file": {"kubeConfigPath": "/d.conf"}, "timeout": "2m0s"}));
        assert_eq!(older.get("timeouts"), None);
    }
}
