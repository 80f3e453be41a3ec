//! A ClusterClass as the proposal of chained upgrades prints it, in v1beta1, with the two references that every class needs.

use std::time::Duration;

use crate::process::Up;

const PATIENCE: Duration = Duration::from_mins(3);

/// The list of versions as it is printed there, and the other way to say which versions there are.
const CLASSES: &str = "
apiVersion: cluster.x-k8s.io/v1beta1
kind: ClusterClass
metadata:
  name: quick-start-runtimesdk
spec:
  kubernetesVersions:
  - v1.28.0
  - v1.29.0
  - v1.30.0
  - v1.30.1
  - v1.31.2
  infrastructure:
    ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevClusterTemplate, name: older}
  controlPlane:
    ref: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlaneTemplate, name: older}
    machineInfrastructure:
      ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevMachineTemplate, name: older}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: ClusterClass
metadata:
  name: planned-by-an-extension
spec:
  upgrade:
    external:
      generateUpgradePlanExtension: get-upgrade-plan.foo
  infrastructure:
    ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevClusterTemplate, name: older}
  controlPlane:
    ref: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlaneTemplate, name: older}
    machineInfrastructure:
      ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevMachineTemplate, name: older}
";

const TEMPLATES: &str = "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DevClusterTemplate
metadata: {name: older}
spec: {template: {spec: {backend: {inMemory: {}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DevMachineTemplate
metadata: {name: older}
spec: {template: {spec: {backend: {inMemory: {}}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlaneTemplate
metadata: {name: older}
spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {apiServer: {extraArgs: {v: \"2\"}}}}}}}
";

const CLUSTER: &str = "
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: older}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  topology: {class: quick-start-runtimesdk, version: v1.28.0, controlPlane: {replicas: 1}}
";

#[test]
fn a_class_of_v1beta1_is_applied_as_it_is_printed_and_its_cluster_upgraded_along_the_list() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(directory.path(), &[]);
    for manifest in [TEMPLATES, CLASSES, CLUSTER] {
        let said = up.says_after(&["apply", "--validate=strict", "-f", "-"], manifest);
        assert!(said.lines().all(|line| line.ends_with(" created")), "{said}");
    }
    // The same once more changes nothing: what kubectl compares with is in the version that it wrote.
    let said = up.says_after(&["apply", "-f", "-"], CLASSES);
    assert!(said.lines().all(|line| line.ends_with(" unchanged")), "{said}");
    let extension = "jsonpath={.spec.upgrade.external.generateUpgradePlanExtension}";
    let class = "clusterclass.v1beta1.cluster.x-k8s.io/planned-by-an-extension";
    assert_eq!(up.says(&["get", class, "-o", extension]), "get-upgrade-plan.foo");

    let cluster = "clusters.v1beta1.cluster.x-k8s.io/older";
    up.says(&["wait", "--for=condition=ControlPlaneInitialized", "--timeout=180s", cluster]);
    let path = directory.path().join("versions");
    let mut watching = up.kubectl(&["get", "machines", "--watch", "-o", "jsonpath={.spec.version}{\"\\n\"}"]);
    let mut watching = watching.stdout(std::fs::File::create(&path).unwrap()).spawn().unwrap();
    let target = r#"{"spec":{"topology":{"version":"v1.31.2"}}}"#;
    up.says(&["patch", cluster, "--type", "merge", "-p", target]);
    let versions = ["get", "machines", "-o", "jsonpath={.items[*].spec.version}"];
    up.until(PATIENCE, &versions, |said| said == "v1.31.2");
    up.says(&["wait", "--for=condition=TopologyReconciled", "--timeout=180s", cluster]);
    let _ = watching.kill();
    let _ = watching.wait();
    let mut seen: Vec<String> = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["v1.28.0", "v1.29.0", "v1.30.1", "v1.31.2"], "the last patch of every minor");

    // A reader of v1beta1 finds the fields and the conditions of that version.
    let types = up.says(&["get", cluster, "-o", "jsonpath={.status.conditions[*].type}"]);
    for type_ in ["Ready", "ControlPlaneInitialized", "ControlPlaneReady", "InfrastructureReady"] {
        assert!(types.split(' ').any(|found| found == type_), "{type_} in {types}");
    }
    let said = "jsonpath={.spec.topology.class} {.status.controlPlaneReady} {.status.infrastructureReady}";
    assert_eq!(up.says(&["get", cluster, "-o", said]), "quick-start-runtimesdk true true");
}
