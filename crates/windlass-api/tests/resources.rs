//! The kinds go through Rust unchanged: what they know, and in partial types what they do not.

#![cfg(feature = "resources")]
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::fmt::Debug;

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_api::addons::{ClusterResourceSet, ClusterResourceSetBinding};
use windlass_api::bootstrap::{KubeadmConfig, KubeadmConfigTemplate};
use windlass_api::cluster::{
    Cluster, ClusterClass, Machine, MachineDeployment, MachineDrainRule, MachineHealthCheck, MachinePool,
    MachineSet, RolloutStrategyType,
};
use windlass_api::control_plane::{KubeadmControlPlane, KubeadmControlPlaneTemplate};
use windlass_api::infrastructure::{
    DevCluster, DevClusterTemplate, DevMachine, DevMachinePool, DevMachinePoolTemplate, DevMachineTemplate,
};
use windlass_api::ipam::{IPAddress, IPAddressClaim};
use windlass_api::read::{READERS, from_bytes};

fn survives<K>(mut wire: Value) -> K
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + PartialEq + Default,
{
    wire["apiVersion"] = K::api_version(&()).into();
    wire["kind"] = K::kind(&()).into();
    wire["metadata"] = json!({"name": "n", "namespace": "ns", "labels": {"a": "b"}});
    let object: K = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), wire);
    let bare: K = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let written = serde_json::to_value(&bare).unwrap();
    assert_eq!(written["spec"], json!({}), "what is empty is not written");
    assert_eq!(written.get("status"), None);
    object
}

fn reference(kind: &str) -> Value {
    json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "r"})
}

fn template_reference(kind: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind, "name": "r"})
}

fn condition() -> Value {
    json!([{
        "type": "Available", "status": "True", "reason": "Available", "message": "",
        "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }])
}

fn machine_template() -> Value {
    json!({
        "metadata": {"labels": {"l": "v"}, "annotations": {"a": "v"}},
        "spec": {
            "clusterName": "c", "version": "v1.33.0", "failureDomain": "fd1", "minReadySeconds": 0,
            "bootstrap": {"configRef": reference("KubeadmConfigTemplate"), "dataSecretName": ""},
            "infrastructureRef": reference("DevMachineTemplate"),
            "readinessGates": [{"conditionType": "Storage", "polarity": "Negative"}],
            "deletion": {
                "nodeDrainTimeoutSeconds": 0, "nodeVolumeDetachTimeoutSeconds": 1, "nodeDeletionTimeoutSeconds": 2,
            },
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "propagation": "Always"}],
        },
    })
}

fn selector() -> Value {
    json!({"matchLabels": {"l": "v"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]})
}

#[test]
fn a_cluster_survives() {
    let checks = json!({
        "nodeStartupTimeoutSeconds": 0,
        "unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}],
        "unhealthyMachineConditions": [{"type": "Updating", "status": "True", "timeoutSeconds": 3600}],
    });
    let cluster: Cluster = survives(json!({
        "spec": {
            "paused": false,
            "clusterNetwork": {
                "apiServerPort": 6443, "serviceDomain": "cluster.local",
                "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.0.0.0/12"]},
            },
            "controlPlaneEndpoint": {"host": "h", "port": 6443},
            "controlPlaneRef": reference("KubeadmControlPlane"),
            "infrastructureRef": reference("DevCluster"),
            "availabilityGates": [{"conditionType": "Cni"}],
            "topology": {
                "classRef": {"name": "class", "namespace": "classes"},
                "version": "v1.33.0",
                "controlPlane": {
                    "metadata": {"labels": {"l": "v"}}, "replicas": 3, "rollout": {"after": "2026-01-01T00:00:00Z"},
                    "healthCheck": {
                        "enabled": true, "checks": checks,
                        "remediation": {
                            "triggerIf": {"unhealthyLessThanOrEqualTo": "40%", "unhealthyInRange": "[1-2]"},
                            "templateRef": template_reference("Remediation"),
                        },
                    },
                    "variables": {"overrides": [{"name": "v", "value": 1}]},
                },
                "workers": {
                    "machineDeployments": [{
                        "class": "default", "name": "md-0", "replicas": 0, "failureDomain": "fd1",
                        "deletion": {"order": "Oldest", "nodeDrainTimeoutSeconds": 5},
                        "healthCheck": {"checks": checks, "remediation": {"maxInFlight": 1}},
                        "rollout": {"strategy": {"type": "External", "fallbackRolling": {"maxSurge": "10%"}}},
                    }],
                    "machinePools": [{"class": "default", "name": "mp-0", "failureDomains": ["a"]}],
                },
                "variables": [{"name": "v", "value": {"deep": [1, "x", null]}}],
            },
        },
        "status": {
            "conditions": condition(),
            "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": false},
            "controlPlane": {
                "desiredReplicas": 3, "replicas": 0, "versions": [{"version": "v1.32.0", "replicas": 3}],
                "upgradePlan": [{"version": "v1.33.0"}],
            },
            "workers": {"upgradePlan": [{"version": "v1.33.0"}]},
            "failureDomains": [{"name": "fd1", "controlPlane": true, "attributes": {"rack": "1"}}],
            "phase": "Provisioned", "observedGeneration": 4,
            "deprecated": {"v1beta1": {"conditions": [{"type": "Ready"}]}},
        },
    }));
    let rollout = &cluster.spec.topology.unwrap().workers.machine_deployments[0].rollout;
    assert_eq!(rollout.strategy.as_ref().unwrap().type_, RolloutStrategyType::External);
}

#[test]
fn a_cluster_class_survives() {
    let class: ClusterClass = survives(json!({
        "spec": {
            "infrastructure": {"templateRef": template_reference("DevClusterTemplate"), "naming": {"template": "t"}},
            "controlPlane": {
                "templateRef": template_reference("KubeadmControlPlaneTemplate"),
                "machineInfrastructure": {"templateRef": template_reference("DevMachineTemplate")},
                "healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 1}},
            },
            "workers": {
                "machineDeployments": [{
                    "class": "default",
                    "bootstrap": {"templateRef": template_reference("KubeadmConfigTemplate")},
                    "infrastructure": {"templateRef": template_reference("DevMachineTemplate")},
                    "rollout": {"strategy": {"type": "OnDelete"}},
                }],
                "machinePools": [{
                    "class": "default",
                    "bootstrap": {"templateRef": template_reference("KubeadmConfigTemplate")},
                    "infrastructure": {"templateRef": template_reference("DevMachinePoolTemplate")},
                }],
            },
            "variables": [{
                "name": "v", "required": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
            }],
            "patches": [
                {
                    "name": "p", "enabledIf": "{{ .v }}",
                    "definitions": [{
                        "selector": {
                            "apiVersion": "a/v1", "kind": "K",
                            "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["*"]}},
                        },
                        "jsonPatches": [
                            {"op": "add", "path": "/spec/a", "value": {"b": 1}},
                            {"op": "replace", "path": "/spec/a", "valueFrom": {"variable": "v"}},
                        ],
                    }],
                },
                {"name": "x", "external": {"generatePatchesExtension": "g.e", "settings": {"k": "v"}}},
            ],
            "kubernetesVersions": ["v1.32.0", "v1.33.0"],
            "upgrade": {"external": {"generateUpgradePlanExtension": "plan.ext"}},
        },
        "status": {
            "conditions": condition(), "observedGeneration": 1,
            "variables": [{
                "name": "v", "definitionsConflict": false,
                "definitions": [{"from": "inline", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}}],
            }],
        },
    }));
    assert_eq!(class.spec.kubernetes_versions, ["v1.32.0", "v1.33.0"]);
}

#[test]
fn machines_and_their_groups_survive() {
    let machine: Machine = survives(json!({
        "spec": {
            "clusterName": "c", "providerID": "in-memory://m", "version": "v1.33.0",
            "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": reference("DevMachine"),
        },
        "status": {
            "conditions": condition(),
            "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
            "nodeRef": {"name": "node"},
            "nodeInfo": {
                "architecture": "arm64", "bootID": "b", "containerRuntimeVersion": "c", "kernelVersion": "k",
                "kubeProxyVersion": "", "kubeletVersion": "v1.33.0", "machineID": "m", "operatingSystem": "linux",
                "osImage": "o", "systemUUID": "u",
            },
            "lastUpdated": "2026-01-01T00:00:00Z", "failureDomain": "fd1",
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "phase": "Running", "certificatesExpiryDate": "2027-01-01T00:00:00Z", "observedGeneration": 1,
            "deletion": {
                "nodeDrainStartTime": "2026-01-01T00:00:00Z",
                "waitForNodeVolumeDetachStartTime": "2026-01-01T00:00:01Z",
            },
        },
    }));
    assert_eq!(machine.status.node_info.unwrap().kubelet_version, "v1.33.0");

    let counters = json!({
        "conditions": condition(), "replicas": 3, "readyReplicas": 0, "availableReplicas": 2, "upToDateReplicas": 1,
        "versions": [{"version": "v1.33.0", "replicas": 3}], "observedGeneration": 7,
    });
    let with = |extra: Value| {
        let mut status = counters.clone();
        status.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        status
    };
    survives::<MachineSet>(json!({
        "spec": {
            "clusterName": "c", "replicas": 0, "selector": selector(), "template": machine_template(),
            "machineNaming": {"template": "t"}, "deletion": {"order": "Newest"},
        },
        "status": with(json!({"selector": "l=v"})),
    }));
    let deployment: MachineDeployment = survives(json!({
        "spec": {
            "clusterName": "c", "replicas": 3, "selector": selector(), "template": machine_template(),
            "rollout": {
                "after": "2026-01-01T00:00:00Z",
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "0%"}},
            },
            "machineNaming": {"template": "t"}, "remediation": {"maxInFlight": "50%"}, "deletion": {"order": "Random"},
            "paused": true,
        },
        "status": with(json!({"selector": "l=v", "phase": "ScalingUp"})),
    }));
    assert_eq!(deployment.spec.rollout.strategy.type_, RolloutStrategyType::RollingUpdate);
    survives::<MachinePool>(json!({
        "spec": {
            "clusterName": "c", "replicas": 3, "template": machine_template(),
            "providerIDList": ["a", "b"], "failureDomains": ["fd1"],
        },
        "status": with(json!({
            "phase": "Running", "nodeRefs": [{"name": "n", "uid": "u"}],
            "initialization": {"infrastructureProvisioned": true},
        })),
    }));
    survives::<MachineHealthCheck>(json!({
        "spec": {
            "clusterName": "c", "selector": selector(),
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 0}]},
            "remediation": {"triggerIf": {"unhealthyInRange": "[1-3]"}},
        },
        "status": {
            "conditions": condition(), "expectedMachines": 3, "currentHealthy": 0, "remediationsAllowed": 1,
            "observedGeneration": 1, "targets": ["m1"],
        },
    }));
}

#[test]
fn kubeadm_kinds_survive_with_what_kubeadm_adds() {
    let config = json!({
        "clusterConfiguration": {
            "controlPlaneEndpoint": "h:6443", "imageRepository": "r", "featureGates": {"A": true},
            "etcd": {"local": {"imageTag": "3.6", "dataDir": "/var/lib/etcd"}},
            "apiServer": {"extraArgs": [{"name": "a", "value": "b"}]}, "dns": {"imageTag": "1"},
            "certificatesDir": "/etc/kubernetes/pki", "encryptionAlgorithm": "RSA-2048",
        },
        "initConfiguration": {
            "nodeRegistration": {"name": "n", "taints": [], "kubeletExtraArgs": [{"name": "a", "value": "b"}], "new": 1},
            "localAPIEndpoint": {"bindPort": 6443}, "skipPhases": ["a"], "patches": {"directory": "/p"},
            "timeouts": {"etcdAPICallSeconds": 5}, "bootstrapTokens": [{"token": "t"}],
        },
        "joinConfiguration": {
            "caCertPath": "/ca", "discovery": {"bootstrapToken": {"token": "t"}}, "controlPlane": {},
            "nodeRegistration": {"criSocket": "s"}, "dryRun": true,
        },
        "files": [{
            "path": "/f", "owner": "root", "permissions": "0640", "encoding": "gzip+base64", "append": true,
            "content": "c", "contentFrom": {"secret": {"name": "s", "key": "k"}},
        }],
        "diskSetup": {"partitions": []}, "mounts": [["a", "b"]], "bootCommands": ["x"],
        "preKubeadmCommands": ["x"], "postKubeadmCommands": ["x"], "users": [{"name": "u"}], "ntp": {"enabled": true},
        "format": "cloud-config", "verbosity": 0, "ignition": {"containerLinuxConfig": {}},
    });
    survives::<KubeadmConfig>(json!({
        "spec": config,
        "status": {
            "conditions": condition(), "initialization": {"dataSecretCreated": true}, "dataSecretName": "s",
            "observedGeneration": 1,
        },
    }));
    survives::<KubeadmConfigTemplate>(json!({"spec": {"template": {"spec": config}}}));
    let rollout = json!({
        "before": {"certificatesExpiryDays": 21}, "after": "2026-01-01T00:00:00Z",
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}},
    });
    survives::<KubeadmControlPlane>(json!({
        "spec": {
            "replicas": 3, "version": "v1.33.0", "kubeadmConfigSpec": config, "rollout": rollout,
            "machineTemplate": {
                "metadata": {"labels": {"l": "v"}},
                "spec": {
                    "infrastructureRef": reference("DevMachineTemplate"),
                    "deletion": {"nodeDrainTimeoutSeconds": 1}, "readinessGates": [{"conditionType": "X"}],
                    "taints": [{"key": "k", "effect": "NoExecute", "propagation": "OnInitialization"}],
                },
            },
            "remediation": {"maxRetry": 0, "retryPeriodSeconds": 1, "minHealthyPeriodSeconds": 2},
            "machineNaming": {"template": "t"},
        },
        "status": {
            "conditions": condition(), "initialization": {"controlPlaneInitialized": true}, "selector": "s",
            "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "upToDateReplicas": 3, "version": "v1.33.0",
            "versions": [{"version": "v1.33.0", "replicas": 3}], "observedGeneration": 1,
            "lastRemediation": {"machine": "m", "time": "2026-01-01T00:00:00Z", "retryCount": 0},
        },
    }));
    survives::<KubeadmControlPlaneTemplate>(json!({"spec": {"template": {
        "metadata": {"annotations": {"a": "v"}},
        "spec": {
            "kubeadmConfigSpec": config, "rollout": rollout,
            "machineTemplate": {"metadata": {"labels": {"l": "v"}}, "spec": {"deletion": {"nodeDrainTimeoutSeconds": 1}}},
        },
    }}}));
}

#[test]
fn the_provider_for_development_survives() {
    let part = json!({"provisioning": {"startupDuration": "10s", "startupJitter": "0.2"}});
    let backend = json!({"inMemory": {"vm": part, "node": part, "apiServer": part, "etcd": part}});
    let conditions = condition();
    survives::<DevCluster>(json!({
        "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 20000}, "backend": {"inMemory": {}}},
        "status": {"conditions": conditions, "initialization": {"provisioned": true}, "failureDomains": [{"name": "a"}]},
    }));
    survives::<DevClusterTemplate>(json!({
        "spec": {"template": {"spec": {"backend": {"docker": {"loadBalancer": {"imageTag": "x"}}}}}},
    }));
    let machine: DevMachine = survives(json!({
        "spec": {"providerID": "in-memory://m", "backend": backend},
        "status": {
            "conditions": conditions, "initialization": {"provisioned": true}, "failureDomain": "a",
            "addresses": [{"type": "Hostname", "address": "m"}],
        },
    }));
    let vm = machine.spec.backend.in_memory.unwrap().vm.unwrap();
    assert_eq!(
        vm.provisioning.startup_duration.and_then(windlass_api::GoDuration::to_std),
        Some(std::time::Duration::from_secs(10))
    );
    survives::<DevMachineTemplate>(json!({"spec": {"template": {"spec": {"backend": backend}}}}));
    survives::<DevMachinePool>(json!({
        "spec": {"providerID": "p", "providerIDList": ["a"], "template": {"backend": backend}},
        "status": {
            "initialization": {"provisioned": false}, "replicas": 1,
            "instances": [{"instanceName": "i", "version": "v1.33.0", "providerID": "a", "ready": true}],
        },
    }));
    survives::<DevMachinePoolTemplate>(json!({
        "spec": {"template": {"spec": {"template": {"backend": backend}}}},
    }));
    // In the form of Cluster API's own provider; it goes before the other.
    let pool: DevMachinePool = survives(json!({
        "spec": {"backend": backend, "template": {"backend": {"inMemory": {}}}},
        "status": {"ready": true, "infrastructureMachineKind": "DevMachine"},
    }));
    assert!(pool.spec.in_memory().vm.is_some());
    let pool: DevMachinePool = survives(json!({"spec": {"backend": {"docker": {"customImage": "x"}}}}));
    assert_eq!(pool.spec.in_memory(), Default::default());
}

#[test]
fn drain_rules_add_ons_and_addresses_survive() {
    let selector = json!({"matchLabels": {"a": "b"}});
    survives::<MachineDrainRule>(json!({"spec": {
        "drain": {"behavior": "Drain", "order": -3},
        "machines": [{"selector": selector, "clusterSelector": {}}],
        "pods": [{"namespaceSelector": selector}],
    }}));
    survives::<ClusterResourceSet>(json!({
        "spec": {"clusterSelector": selector, "strategy": "Reconcile", "resources": [{"kind": "Secret", "name": "s"}]},
        "status": {"conditions": condition(), "observedGeneration": 1, "deprecated": {"v1beta1": {}}},
    }));
    survives::<ClusterResourceSetBinding>(json!({"spec": {"clusterName": "c", "bindings": [{
        "clusterResourceSetName": "s", "resources": [{"kind": "ConfigMap", "name": "m", "hash": "sha256:1",
            "applied": false, "lastAppliedTime": "2026-01-01T00:00:00Z"}],
    }]}}));
    survives::<IPAddress>(json!({"spec": {"claimRef": {"name": "c"}, "poolRef": reference("Pool"),
        "address": "10.0.0.2", "prefix": 24, "gateway": "10.0.0.1"}}));
    survives::<IPAddressClaim>(json!({
        "spec": {"clusterName": "c", "poolRef": reference("Pool")},
        "status": {"addressRef": {"name": "a"}, "conditions": condition()},
    }));
}

#[test]
fn an_object_of_another_kind_is_refused() {
    let machine = |api_version: &str, kind: &str| {
        serde_json::from_value::<Machine>(json!({"apiVersion": api_version, "kind": kind, "metadata": {}}))
    };
    assert!(machine("cluster.x-k8s.io/v1beta2", "Machine").is_ok());
    assert!(machine("cluster.x-k8s.io/v1beta1", "Machine").is_ok());
    assert_eq!(
        machine("cluster.x-k8s.io/v1beta2", "MachineSet").unwrap_err().to_string(),
        "expected a Machine of cluster.x-k8s.io, not a MachineSet of cluster.x-k8s.io/v1beta2"
    );
    assert_eq!(
        machine("machine.openshift.io/v1beta1", "Machine").unwrap_err().to_string(),
        "expected a Machine of cluster.x-k8s.io, not a Machine of machine.openshift.io/v1beta1"
    );
}

#[test]
fn a_word_from_elsewhere_is_kept() {
    let deployment: MachineDeployment =
        serde_json::from_value(json!({"spec": {"rollout": {"strategy": {"type": "Recreate"}}}})).unwrap();
    assert_eq!(deployment.spec.rollout.strategy.type_, RolloutStrategyType::Unknown("Recreate".to_owned()));
    assert_eq!(serde_json::to_value(&deployment).unwrap()["spec"]["rollout"]["strategy"]["type"], "Recreate");
}

#[test]
fn no_schema_lets_a_number_of_replicas_be_negative() {
    /// Every `replicas` that users write, with its path.
    fn replicas(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if name == "replicas" {
                found.push((path.clone(), property["minimum"].clone()));
            }
            replicas(&path, property, found);
        }
        if schema["items"].is_object() {
            replicas(&format!("{path}[]"), &schema["items"], found);
        }
    }
    let mut found = Vec::new();
    for manifest in windlass_api::crds::manifests() {
        let kind = manifest["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        for version in manifest["spec"]["versions"].as_array().unwrap() {
            let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            replicas(&format!("{kind}.spec"), spec, &mut found);
        }
    }
    assert!(found.len() >= 7, "{found:?}");
    for (path, minimum) in found {
        assert_eq!(minimum, json!(0), "{path}");
    }
}

#[test]
fn every_reader_tells_its_kind_from_something_else() {
    assert!(READERS.is_sorted_by_key(|(kind, _)| kind), "one line for each kind");
    for (kind, reads) in READERS {
        let object = json!({"kind": kind, "metadata": {"name": 7}}).to_string();
        assert!(reads(&object).is_err(), "{kind}: a name is a string");
    }
}

#[test]
fn bytes_that_are_no_text_are_an_error() {
    assert!(from_bytes::<Machine>(b"{\"metadata\": {\"name\": \"\xff\"}}").is_err());
    let machine: Machine = from_bytes(br#"{"metadata": {"name": "m"}}"#).unwrap();
    assert_eq!(machine.metadata.name.as_deref(), Some("m"));
}
