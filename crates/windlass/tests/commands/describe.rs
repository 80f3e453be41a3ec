//! `windlass describe` against a real API over HTTPS.
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

/// A server on a port of the system's choice, ended when it goes out of scope.
pub(crate) struct Server(Child);

impl Server {
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Self {
        let serve = ["serve", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig-out", "kubeconfig"];
        let mut child =
            windlass(directory, &[&serve, arguments].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Ready: "), "{line}");
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn windlass(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).current_dir(directory).env_remove("KUBECONFIG").env("HOME", directory);
    command
}

fn ran(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Creates objects and gives them their status, as controllers would.
pub(crate) async fn create(directory: &Path, objects: &[Value]) {
    let kubeconfig = Kubeconfig::read_from(directory.join("kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    for object in objects {
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let gvk = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&gvk));
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        api.create(&PostParams::default(), &typed).await.unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        let status = json!({"status": object["status"]});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
}

/// Tells what the topology controller told when it took its steps.
pub(crate) async fn tell(directory: &Path) {
    let kubeconfig = Kubeconfig::read_from(directory.join("kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
    let clusters: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&gvk));
    let uid = clusters.get("c1").await.unwrap().metadata.uid;
    let events: Api<Event> = Api::namespaced(client, "default");
    for (name, object, from, to, at) in [
        ("e1", "KubeadmControlPlane c1-cp", 29, 30, "2026-01-01T00:00:00Z"),
        ("e2", "KubeadmControlPlane c1-cp", 30, 31, "2026-01-01T00:05:00Z"),
        ("e3", "KubeadmControlPlane c1-cp", 31, 32, "2026-01-01T00:10:00Z"),
        ("e4", "MachineDeployment c1-web", 29, 32, "2026-01-01T00:15:00Z"),
        ("e5", "KubeadmControlPlane c1-cp", 28, 29, "2025-12-31T00:00:00Z"),
    ] {
        let message = format!("Updated {object} with version change from v1.{from}.0 to v1.{to}.0");
        let event = serde_json::from_value(json!({"metadata": {"name": name}, "reason": "TopologyUpdate",
            "message": message, "firstTimestamp": at, "lastTimestamp": at,
            "involvedObject": {"kind": "Cluster", "namespace": "default", "name": "c1", "uid": uid}}));
        events.create(&PostParams::default(), &event.unwrap()).await.unwrap();
    }
}

/// Lines without what depends on the width of columns and on the time.
fn squeezed(said: &str) -> Vec<String> {
    let word = |word: &str| {
        let age = word.trim_end_matches([')', ',']);
        let is_age = age.ends_with(['d', 'h', 'm', 's'])
            && age.starts_with(|first: char| first.is_ascii_digit())
            && age.chars().all(|c| c.is_ascii_digit() || "dhms".contains(c));
        if is_age { word.replace(age, "AGE") } else { word.to_owned() }
    };
    said.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")).collect()
}

const DESCRIBED: &str = "\
NAME VERSION REPLICAS READY AVAILABLE UP TO DATE STATUS REASON SINCE MESSAGE
Cluster/c1 v1.33.0 Available: True Available AGE
├─ClusterInfrastructure - DevCluster/c1-infra Ready: True Ready AGE
├─ControlPlane - KubeadmControlPlane/c1-cp v1.32.0 1/1 1 1 1 Available: True Available AGE
│ └─Machine/c1-cp-1 v1.32.0 Ready: True Ready AGE
└─Workers
└─MachineDeployment/c1-web v1.32.0 2/2 1 1 1 Available: False NotAvailable AGE 1 available replicas, 2 wanted
├─Machine/c1-web-1 v1.29.0 Ready: True Ready AGE
└─Machine/c1-web-2 v1.32.0 Ready: False NotReady AGE waits for its Node

Upgrade from v1.29.0 to v1.33.0
done control plane to v1.30.0, took AGE
done control plane to v1.31.0, took AGE
done control plane to v1.32.0, took AGE
running MachineDeployment c1-web to v1.32.0, 0 of 2 machines, for AGE, AGE left
to come control plane to v1.33.0, about AGE
to come workers to v1.33.0, about AGE
progressing: step 4 of 6, 0 of 3 machines, AGE so far, AGE left (P95 AGE, assumed), worst skew 3

Hooks to be called: AfterClusterUpgrade, AfterWorkersUpgrade

Waiting on MachineDeployment c1-web to reach v1.32.0 (for AGE)
condition TopologyReconciled of the Cluster is False: ClusterUpgrading
MachineDeployment c1-web is upgrading to v1.32.0
Machine c1-web-2 at v1.32.0 is not ready: waits for its Node
";

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// What a kubelet of this version says about its machine.
fn node_info(version: &str) -> Value {
    json!({"kubeletVersion": version, "kubeProxyVersion": version, "containerRuntimeVersion": "containerd://2.1.0",
        "architecture": "amd64", "operatingSystem": "linux", "osImage": "Linux", "kernelVersion": "6.1",
        "machineID": "m", "systemUUID": "u", "bootID": "b"})
}

/// A cluster on its way from v1.29 to v1.33 whose workers go to v1.32, held by nothing but their machines.
pub(crate) fn objects() -> Vec<Value> {
    let api = |group: &str| format!("{group}.cluster.x-k8s.io/v1beta2");
    let reference = |group: &str, kind: &str, name: &str| json!({"apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": kind, "name": name});
    let template =
        json!({"spec": {"infrastructureRef": reference("infrastructure", "DevMachineTemplate", "t")}});
    let machine_spec = |version: &str| {
        json!({"clusterName": "c1", "version": version, "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": reference("infrastructure", "DevMachine", "m")})
    };
    let labels = |label: &str| match label {
        "web" => {
            json!({"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/deployment-name": "c1-web", "web": ""})
        }
        label => json!({"cluster.x-k8s.io/cluster-name": "c1", label: ""}),
    };
    let machine = |name: &str, label: &str, version: &str, ready: Value| {
        let mut status = json!({"conditions": [ready]});
        if ready["status"] == "True" {
            status["nodeInfo"] = node_info(version);
        }
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "labels": labels(label)}, "spec": machine_spec(version), "status": status})
    };
    let ready = || condition("Ready", "True", "Ready", "");
    let wait = json!({"reason": "WaitingForWorkersUpgrade", "what": "MachineDeployment c1-web to reach v1.32.0",
        "objects": [{"kind": "MachineDeployment", "name": "c1-web"}], "version": "v1.32.0",
        "since": "2026-01-01T00:15:00Z"});
    vec![
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c1", "annotations": {
                "runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade,AfterWorkersUpgrade",
                "topology.internal.cluster.x-k8s.io/upgrade-step": "v1.32.0",
                "upgrade.windlass.dev/waiting-on": wait.to_string()}},
            "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.33.0"},
                "infrastructureRef": reference("infrastructure", "DevCluster", "c1-infra"),
                "controlPlaneRef": reference("controlplane", "KubeadmControlPlane", "c1-cp")},
            "status": {
                "controlPlane": {"upgradePlan": [{"version": "v1.33.0"}]},
                "workers": {"upgradePlan": [{"version": "v1.32.0"}, {"version": "v1.33.0"}]},
                "conditions": [
                    condition("Available", "True", "Available", ""),
                    condition("TopologyReconciled", "False", "ClusterUpgrading",
                        "The Cluster is upgrading to v1.33.0\n  * The upgrade waits for MachineDeployment c1-web to \
                         reach v1.32.0\n  * MachineDeployment c1-web is upgrading to v1.32.0")]}}),
        json!({"apiVersion": api("infrastructure"), "kind": "DevCluster", "metadata": {"name": "c1-infra"},
            "spec": {"backend": {"inMemory": {}}}, "status": {"conditions": [ready()]}}),
        json!({"apiVersion": api("controlplane"), "kind": "KubeadmControlPlane", "metadata": {"name": "c1-cp"},
            "spec": {"version": "v1.32.0", "replicas": 1, "kubeadmConfigSpec": {}, "machineTemplate": template},
            "status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "upToDateReplicas": 1,
                "conditions": [condition("Available", "True", "Available", "")]}}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"name": "c1-web", "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": {"clusterName": "c1", "replicas": 2, "selector": {"matchLabels": {"web": ""}},
                "template": {"metadata": {"labels": {"web": ""}}, "spec": machine_spec("v1.32.0")}},
            "status": {"replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "upToDateReplicas": 1,
                "conditions": [condition("Available", "False", "NotAvailable", "1 available replicas, 2 wanted")]}}),
        machine("c1-cp-1", "cluster.x-k8s.io/control-plane", "v1.32.0", ready()),
        machine("c1-web-1", "web", "v1.29.0", ready()),
        machine(
            "c1-web-2",
            "web",
            "v1.32.0",
            condition("Ready", "False", "NotReady", "* waits for its Node"),
        ),
    ]
}

#[tokio::test]
async fn a_cluster_in_the_middle_of_an_upgrade() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _server = Server::start(path, &["--cluster-api"]);
    create(path, &objects()).await;
    tell(path).await;

    let describe = ["describe", "cluster", "c1", "--kubeconfig", "kubeconfig"];
    let (code, said, error) = ran(&mut windlass(path, &describe));
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert_eq!(squeezed(&said), DESCRIBED.lines().collect::<Vec<_>>(), "{said}");
    assert!(!said.contains('\u{1b}'), "no colours where no terminal is");

    let (code, json, _) = ran(&mut windlass(path, &[&describe[..], &["-o", "json"]].concat()));
    assert_eq!(code, Some(0));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["tree"]["objects"][1]["role"], "ControlPlane");
    assert_eq!(json["upgrade"]["from"], "v1.29.0");
    assert_eq!(json["upgrade"]["steps"][2]["state"], "done");
    assert_eq!(json["upgrade"]["steps"][3]["state"], "running");
    assert_eq!(json["waitingOn"]["what"], "MachineDeployment c1-web to reach v1.32.0");
    assert_eq!(
        json["waitingOn"]["since"], "2026-01-01T00:15:00Z",
        "not when the condition changed its status"
    );
    assert_eq!(json["waitingOn"]["reason"], "WaitingForWorkersUpgrade");
    assert_eq!(json["waitingOn"]["objects"][0]["name"], "c1-web");
    assert_eq!(json["waitingOn"]["evidence"][1], "MachineDeployment c1-web is upgrading to v1.32.0");
    assert_eq!(json["progress"]["verdict"], "progressing");
    assert_eq!(json["progress"]["worstSkew"], 3);
    let (code, yaml, _) = ran(&mut windlass(path, &[&describe[..], &["-o", "yaml"]].concat()));
    assert_eq!(code, Some(0));
    assert!(yaml.contains("pendingHooks:"), "{yaml}");

    // Scripts learn how it goes, and read lines.
    let (code, ..) = ran(&mut windlass(path, &[&describe[..], &["--exit-code"]].concat()));
    assert_eq!(code, Some(10), "progressing");
    let mut watching =
        windlass(path, &[&describe[..], &["--watch"]].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(watching.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    watching.kill().unwrap();
    watching.wait().unwrap();
    let expected = "progressing [3/6] MachineDeployment c1-web to v1.32.0, 0 of 2 machines; MachineDeployment c1-web to \
                    reach v1.32.0\n";
    assert_eq!(line, expected);

    // The kubeconfig may come from the environment or be where kubectl looks for it.
    let (code, _, error) = ran(windlass(path, &describe[..3]).env("KUBECONFIG", "kubeconfig"));
    assert_eq!((code, error.as_str()), (Some(0), ""));
    std::fs::create_dir(path.join(".kube")).unwrap();
    std::fs::copy(path.join("kubeconfig"), path.join(".kube/config")).unwrap();
    let (code, _, error) = ran(&mut windlass(path, &describe[..3]));
    assert_eq!((code, error.as_str()), (Some(0), ""));

    for (arguments, code, says) in [
        (&["c9"][..], 2, "there is no Cluster c9 in namespace default; there are default/c1"),
        (&["c1", "-n", "team"], 2, "there is no Cluster c1 in namespace team; there are default/c1"),
        (&["c1", "--context", "none"], 2, "kubeconfig: "),
        (&["c1", "--kubeconfig", "missing"], 2, "missing"),
    ] {
        let (exit, said, error) = ran(&mut windlass(path, &[&describe[..2], arguments].concat()));
        assert_eq!((exit, said.as_str()), (Some(code), ""), "{arguments:?}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn an_api_without_cluster_api_and_one_that_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let server = Server::start(path, &[]);
    let describe = ["describe", "cluster", "c1", "--kubeconfig", "kubeconfig"];
    let (code, _, error) = ran(&mut windlass(path, &describe));
    assert_eq!(code, Some(1));
    assert!(error.contains("is Cluster API installed there?"), "{error}");
    drop(server);
    let (code, _, error) = ran(&mut windlass(path, &describe));
    assert_eq!(code, Some(1));
    assert!(error.contains("cannot read the Cluster: "), "{error}");
}
