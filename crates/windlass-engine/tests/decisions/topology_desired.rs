//! The objects of a topology, built from a class.
#![expect(clippy::unwrap_used, reason = "test helpers")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, ClusterClass};
use windlass_engine::topology::desired::{
    Blueprint, CurrentNames, Desired, DesiredGroup, DesiredWorkers, GroupBlueprint, GroupNames, Inputs,
};
use windlass_engine::topology::{
    Decision, HookAnswer, HookAnswers, Next, Observed, WorkerGroup, WorkerKind, decide,
};

const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

fn template(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name, "namespace": "ns1", "resourceVersion": "7", "uid": "u",
            "labels": {"from": "template"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {"template": {"metadata": {"labels": {"inner": "yes"}}, "spec": spec}},
    })
}

fn blueprint() -> Blueprint {
    let class: ClusterClass = serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": "quick", "namespace": "ns1"},
        "spec": {
            "infrastructure": {"templateRef": {"apiVersion": INFRA, "kind": "DevClusterTemplate", "name": "infra"}},
            "controlPlane": {
                "templateRef": {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate", "name": "cp"},
                "machineInfrastructure": {"templateRef": {"apiVersion": INFRA, "kind": "DevMachineTemplate", "name": "cp-machine"}},
                "metadata": {"labels": {"team": "class", "tier": "cp"}},
                "healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 300}},
                "deletion": {"nodeDrainTimeoutSeconds": 30},
            },
            "workers": {
                "machineDeployments": [{
                    "class": "default",
                    "bootstrap": {"templateRef": {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate", "name": "boot"}},
                    "infrastructure": {"templateRef": {"apiVersion": INFRA, "kind": "DevMachineTemplate", "name": "worker"}},
                    "failureDomain": "fd-class",
                    "healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 60}, "remediation": {"maxInFlight": 2}},
                    "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}},
                    "minReadySeconds": 5,
                }],
                "machinePools": [{
                    "class": "pool",
                    "bootstrap": {"templateRef": {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate", "name": "boot"}},
                    "infrastructure": {"templateRef": {"apiVersion": INFRA, "kind": "DevMachinePoolTemplate", "name": "pool"}},
                }],
            },
            "variables": [{"name": "image", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}}],
            "patches": [{
                "name": "image",
                "definitions": [
                    {
                        "selector": {"apiVersion": INFRA, "kind": "DevMachineTemplate", "matchResources": {
                            "controlPlane": true, "machineDeploymentClass": {"names": ["*"]}}},
                        "jsonPatches": [{"op": "add", "path": "/spec/template/spec/image",
                            "valueFrom": {"variable": "image"}}],
                    },
                    {
                        "selector": {"apiVersion": INFRA, "kind": "DevMachineTemplate", "matchResources": {
                            "machineDeploymentClass": {"names": ["default"]}}},
                        "jsonPatches": [{"op": "add", "path": "/spec/template/spec/version",
                            "valueFrom": {"template": "{{ .builtin.machineDeployment.version }} of {{ .builtin.cluster.topology.version }}"}}],
                    },
                ],
            }],
        },
    }))
    .unwrap();
    let machine =
        |name: &str| template(INFRA, "DevMachineTemplate", name, &json!({"backend": {"inMemory": {}}}));
    let boot = template("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", "boot", &json!({}));
    Blueprint {
        control_plane_contract: windlass_engine::contract::Contract::V1Beta2,
        class,
        infrastructure: template(INFRA, "DevClusterTemplate", "infra", &json!({"backend": {"inMemory": {}}})),
        control_plane: template(
            "controlplane.cluster.x-k8s.io/v1beta2",
            "KubeadmControlPlaneTemplate",
            "cp",
            &json!({"kubeadmConfigSpec": {"files": []}, "machineTemplate": {"metadata": {"labels": {"kept": "1"}}}}),
        ),
        control_plane_machines: Some(machine("cp-machine")),
        workers: BTreeMap::from([
            (
                (WorkerKind::MachineDeployment, "default".to_owned()),
                GroupBlueprint { bootstrap: boot.clone(), infrastructure: machine("worker") },
            ),
            (
                (WorkerKind::MachinePool, "pool".to_owned()),
                GroupBlueprint {
                    bootstrap: boot,
                    infrastructure: template(INFRA, "DevMachinePoolTemplate", "pool", &json!({})),
                },
            ),
        ]),
    }
}

fn cluster() -> Cluster {
    serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c1", "namespace": "ns1", "uid": "cluster-uid"},
        "spec": {"topology": {
            "classRef": {"name": "quick"}, "version": "v1.31.0",
            "controlPlane": {"replicas": 3, "metadata": {"labels": {"team": "mine"}}},
            "workers": {
                "machineDeployments": [{
                    "class": "default", "name": "web", "replicas": 2,
                    "metadata": {"annotations": {
                        "topology.cluster.x-k8s.io/defer-upgrade": "", "keep": "me"}},
                    "variables": {"overrides": [{"name": "image", "value": "web-image"}]},
                }],
                "machinePools": [{"class": "pool", "name": "batch", "failureDomains": ["a"]}],
            },
            "variables": [{"name": "image", "value": "base-image"}],
        }},
    }))
    .unwrap()
}

fn decision() -> Decision {
    let mut observed = Observed::new("v1.31.0".parse().unwrap());
    for (kind, name) in [(WorkerKind::MachineDeployment, "web"), (WorkerKind::MachinePool, "batch")] {
        observed.workers.push(WorkerGroup::of(kind, name, None));
    }
    let mut answers = HookAnswers::new();
    loop {
        match decide(&observed, &answers) {
            Next::Call(call) => answers.insert(&call, HookAnswer::Passed),
            Next::Act(decision) => return *decision,
        }
    }
}

fn build(current: &CurrentNames) -> Desired {
    let mut count = 0;
    let mut names = |_: &str| {
        count += 1;
        format!("{count:05}")
    };
    let (cluster, blueprint, decision) = (cluster(), blueprint(), decision());
    let inputs = Inputs { cluster: &cluster, blueprint: &blueprint, current, decision: &decision };
    Desired::build(inputs, &mut names).unwrap()
}

/// The objects of a group as they are sent: the group, and its health check.
fn sent(group: &DesiredGroup) -> (Value, Option<Value>) {
    match &group.workers {
        DesiredWorkers::MachineDeployment { object, health_check } => {
            (json!(object), health_check.as_ref().map(|check| json!(check)))
        }
        DesiredWorkers::MachinePool(object) => (json!(object), None),
    }
}

#[test]
fn infrastructure_and_control_plane_come_from_their_templates() {
    let desired = build(&CurrentNames::default());
    assert_eq!(
        desired.infrastructure,
        json!({
            "apiVersion": INFRA, "kind": "DevCluster",
            "metadata": {
                "namespace": "ns1", "name": "c1-00001",
                "labels": {"cluster.x-k8s.io/cluster-name": "c1", "topology.cluster.x-k8s.io/owned": "", "inner": "yes"},
                "annotations": {
                    "cluster.x-k8s.io/cloned-from-name": "infra",
                    "cluster.x-k8s.io/cloned-from-groupkind": "DevClusterTemplate.infrastructure.cluster.x-k8s.io",
                },
                "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c1", "uid": "cluster-uid",
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"backend": {"inMemory": {}}},
        })
    );
    let machines = desired.control_plane_machines.unwrap();
    assert_eq!(machines["metadata"]["name"], "c1-00003");
    assert_eq!(machines["metadata"]["ownerReferences"][0]["uid"], "cluster-uid");
    assert_eq!(machines["metadata"]["labels"]["from"], "template");
    assert!(
        !machines.to_string().contains("last-applied") && !machines.to_string().contains("resourceVersion")
    );
    assert_eq!(machines["spec"]["template"]["spec"]["image"], "base-image");

    let spec = &desired.control_plane["spec"];
    assert_eq!(desired.control_plane["kind"], "KubeadmControlPlane");
    assert_eq!(desired.control_plane["metadata"]["labels"]["team"], "mine");
    assert_eq!(desired.control_plane["metadata"]["labels"]["tier"], "cp");
    assert_eq!((&spec["version"], &spec["replicas"]), (&json!("v1.31.0"), &json!(3)));
    assert_eq!(spec["kubeadmConfigSpec"], json!({"files": []}));
    assert_eq!(
        spec["machineTemplate"]["spec"],
        json!({
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "c1-00003"},
            "deletion": {"nodeDrainTimeoutSeconds": 30},
        })
    );
    assert_eq!(spec["machineTemplate"]["metadata"]["labels"]["kept"], "1");
    assert_eq!(spec["machineTemplate"]["metadata"]["labels"]["team"], "mine");
    let check = json!(desired.control_plane_health_check.unwrap());
    assert_eq!(check["metadata"]["name"], "c1-00002");
    assert_eq!(
        check["spec"]["selector"]["matchLabels"],
        json!({"cluster.x-k8s.io/control-plane": "", "topology.cluster.x-k8s.io/owned": ""})
    );
}

#[test]
fn workers_have_their_own_variables_names_and_defaults_of_the_class() {
    let desired = build(&CurrentNames::default());
    let web = &desired.workers[0];
    let (object, health_check) = sent(web);
    assert_eq!(web.infrastructure["spec"]["template"]["spec"]["image"], "web-image");
    assert_eq!(web.infrastructure["spec"]["template"]["spec"]["version"], "v1.31.0 of v1.31.0");
    let spec = &object["spec"];
    assert_eq!(object["metadata"]["annotations"], json!({"keep": "me"}));
    assert_eq!(
        spec["selector"]["matchLabels"],
        json!({
            "cluster.x-k8s.io/cluster-name": "c1",
            "topology.cluster.x-k8s.io/owned": "",
            "topology.cluster.x-k8s.io/deployment-name": "web",
        })
    );
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["rollout"]["strategy"]["rollingUpdate"]["maxSurge"], 2);
    assert_eq!(spec["remediation"]["maxInFlight"], 2);
    assert_eq!(spec["template"]["metadata"]["annotations"], json!({"keep": "me"}));
    let machine = &spec["template"]["spec"];
    assert_eq!(machine["version"], "v1.31.0");
    assert_eq!((&machine["failureDomain"], &machine["minReadySeconds"]), (&json!("fd-class"), &json!(5)));
    assert_eq!(machine["bootstrap"]["configRef"]["name"], web.bootstrap["metadata"]["name"]);
    assert_eq!(machine["infrastructureRef"]["name"], web.infrastructure["metadata"]["name"]);
    assert_eq!(web.bootstrap["kind"], "KubeadmConfigTemplate");
    assert_eq!(health_check.unwrap()["metadata"]["name"], object["metadata"]["name"]);

    let batch = &desired.workers[1];
    let (object, health_check) = sent(batch);
    assert_eq!(object["kind"], "MachinePool");
    assert_eq!(batch.bootstrap["kind"], "KubeadmConfig");
    assert_eq!(batch.infrastructure["kind"], "DevMachinePool");
    assert_eq!(batch.infrastructure["metadata"]["labels"]["topology.cluster.x-k8s.io/pool-name"], "batch");
    assert_eq!(object["spec"]["failureDomains"], json!(["a"]));
    assert_eq!(health_check, None);
}

#[test]
fn names_of_what_exists_are_kept() {
    let named = |name: &str| Some(name.to_owned());
    let group =
        GroupNames { object: named("md"), bootstrap: named("md-boot"), infrastructure: named("md-infra") };
    let current = CurrentNames {
        control_plane_machines_api_version: None,
        infrastructure: named("infra-x"),
        control_plane: named("cp-x"),
        control_plane_machines: named("cp-machines-x"),
        workers: BTreeMap::from([((WorkerKind::MachineDeployment, "web".to_owned()), group)]),
    };
    let desired = build(&current);
    assert_eq!(desired.infrastructure["metadata"]["name"], "infra-x");
    assert_eq!(desired.control_plane["metadata"]["name"], "cp-x");
    assert_eq!(sent(&desired.workers[0]).0["metadata"]["name"], "md");
    assert_eq!(desired.workers[0].bootstrap["metadata"]["name"], "md-boot");
    assert_eq!(sent(&desired.workers[1]).0["metadata"]["name"], "c1-batch-00001");
}

#[test]
fn a_class_that_does_not_exist_is_named_with_its_field() {
    let (mut cluster, blueprint, decision) = (cluster(), blueprint(), decision());
    cluster.spec.topology.as_mut().unwrap().workers.machine_deployments[0].class = "gpu".to_owned();
    let current = CurrentNames::default();
    let inputs = Inputs { cluster: &cluster, blueprint: &blueprint, current: &current, decision: &decision };
    let error = Desired::build(inputs, &mut |_: &str| "x".to_owned()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.topology.workers.machineDeployments[web].class: class \"gpu\" does not exist in the ClusterClass"
    );
}
