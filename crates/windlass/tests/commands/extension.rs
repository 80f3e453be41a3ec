//! `windlass extension` against a live extension on real HTTPS.
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use windlass_extension::hooks::{
    BeforeClusterUpgrade, BeforeClusterUpgradeRequest, BeforeClusterUpgradeResponse, CanUpdateMachine,
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSet, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, HookResponse, Patch, RetryResponse, UpdateMachine, UpdateMachineRequest,
    UpdateMachineResponse,
};
use windlass_extension::{Context, DevelopmentCertificate, Extension, Handler, Server, Tls};

async fn gate(_: Context, request: BeforeClusterUpgradeRequest) -> BeforeClusterUpgradeResponse {
    match request.cluster.name() {
        Some("approved") => HookResponse::success(),
        Some("broken") => HookResponse::failure("quota exceeded for team a"),
        _ => RetryResponse::blocking(format!("waiting for {}", request.to_kubernetes_version), 30),
    }
}

/// Covers versions of machines, and nothing else.
async fn can_update_machine(_: Context, request: CanUpdateMachineRequest) -> CanUpdateMachineResponse {
    let version = request.desired.machine.pointer("/spec/version").cloned();
    let patch = Patch::json_merge_patch(&json!({"spec": {"version": version}}));
    CanUpdateMachineResponse { machine_patch: Some(patch), ..HookResponse::success() }
}

async fn can_update_machine_set(
    _: Context,
    request: CanUpdateMachineSetRequest,
) -> CanUpdateMachineSetResponse {
    let version = request.desired.machine_set.pointer("/spec/template/spec/version").cloned();
    let patch = Patch::json_merge_patch(&json!({"spec": {"template": {"spec": {"version": version}}}}));
    CanUpdateMachineSetResponse { machine_set_patch: Some(patch), ..HookResponse::success() }
}

/// An extension that serves while the test runs, and a directory with its manifest.
struct Live {
    directory: TempDir,
    stop: Option<oneshot::Sender<()>>,
    runtime: Runtime,
}

impl Live {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let extension = Extension::new("gatekeeper")
            .on(BeforeClusterUpgrade, Handler::named("gate").timeout_seconds(5), gate)
            .on(CanUpdateMachine, "can-update-machine", can_update_machine)
            .on(CanUpdateMachineSet, "can-update-machine-set", can_update_machine_set)
            .on(UpdateMachine, "update-machine", async |_, _: UpdateMachineRequest| {
                UpdateMachineResponse::failure("a plan updates nothing")
            })
            .build()
            .unwrap();
        let certificate = DevelopmentCertificate::generate(["127.0.0.1"]).unwrap();
        let server = Server::new(extension, Tls::development(certificate));
        let server = runtime.block_on(server.bind("127.0.0.1:0".parse().unwrap())).unwrap();
        std::fs::write(directory.path().join("extensionconfig.yaml"), server.manifest("127.0.0.1")).unwrap();
        let (stop, stopped) = oneshot::channel();
        runtime.spawn(async move {
            server
                .run_until(async {
                    let _ = stopped.await;
                })
                .await
        });
        Self { directory, stop: Some(stop), runtime }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn stop(self) -> TempDir {
        let Self { directory, mut stop, runtime } = self;
        drop(stop.take());
        drop(runtime);
        directory
    }
}

/// Runs `windlass extension` in a directory: exit code, standard output, standard error.
fn extension(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .arg("extension")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const CALL: [&str; 4] = ["call", "BeforeClusterUpgrade", "--config", "extensionconfig.yaml"];

fn call(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    extension(directory, &[&CALL, arguments].concat())
}

#[test]
fn a_hook_is_called_as_the_controllers_call_it() {
    let live = Live::start();
    let directory = live.directory.path();
    let (code, handlers, _) =
        extension(directory, &["call", "Discovery", "--config", "extensionconfig.yaml"]);
    assert_eq!(code, Some(0));
    assert!(
        handlers.contains("name: gate.gatekeeper") && handlers.contains("timeoutSeconds: 5"),
        "{handlers}"
    );

    live.file("request.yaml", "cluster: {metadata: {name: c1}}\ntoKubernetesVersion: v1.33.0\n");
    let (code, answer, _) = call(directory, &["--request", "request.yaml", "-o", "json"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let response = &answer["gate.gatekeeper"]["response"];
    assert_eq!(code, Some(0));
    assert_eq!(
        (&response["message"], &response["retryAfterSeconds"]),
        (&"waiting for v1.33.0".into(), &30.into())
    );

    live.file("request.yaml", "cluster: {metadata: {name: broken}}\n");
    let (code, _, error) = call(directory, &["--request", "request.yaml", "--handler", "gate"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("\"gate.gatekeeper\": answered Failure: quota exceeded for team a"), "{error}");
}

#[test]
fn what_was_recorded_is_replayed_without_the_extension() {
    let live = Live::start();
    live.file("request.yaml", "cluster: {metadata: {name: approved}}\n");
    let request = ["--request", "request.yaml"];
    let (code, said, _) =
        call(live.directory.path(), &[&request[..], &["--record-hooks", "exchanges"]].concat());
    assert_eq!(code, Some(0));
    let directory = live.stop();
    let (code, replayed, _) =
        call(directory.path(), &[&request[..], &["--replay-hooks", "exchanges"]].concat());
    assert_eq!((code, &replayed), (Some(0), &said));
    assert_eq!(std::fs::read_dir(directory.path().join("exchanges")).unwrap().count(), 2);
    let (code, _, error) = call(directory.path(), &request);
    assert_eq!(code, Some(1));
    assert!(error.contains("connection refused"), "{error}");
    let (code, _, error) = call(directory.path(), &["--replay-hooks", "exchanges"]);
    assert_eq!(code, Some(1), "another request was not recorded: {error}");
}

#[test]
fn wrong_input_names_what_is_wrong() {
    let live = Live::start();
    live.file("list.yaml", "- 1\n");
    live.file("wrong.yaml", "cluster: 5\n");
    live.file("both.yaml", "metadata: {name: a.b}\nspec: {clientConfig: {url: http://x, caBundle: AA==}}\n");
    let directory = live.directory.path();
    for (arguments, code, says) in [
        (&["call", "Foo", "--config", "extensionconfig.yaml"][..], 2, "unknown hook \"Foo\""),
        (&["call", "Discovery", "--config", "none.yaml"], 2, "cannot read none.yaml"),
        (&["call", "Discovery", "--config", "list.yaml"], 2, "list.yaml: not an ExtensionConfig"),
        (&["call", "Discovery", "--config", "both.yaml"], 2, "spec.clientConfig.url"),
        (
            &["call", "GenerateUpgradePlan", "--config", "extensionconfig.yaml"],
            1,
            "has no handler of GenerateUpgradePlan",
        ),
        (
            &[&CALL[..], &["--request", "wrong.yaml"]].concat(),
            2,
            "the request is not one of BeforeClusterUpgrade",
        ),
        (&[&CALL[..], &["--handler", "other"]].concat(), 1, "\"other.gatekeeper\" is not registered"),
        (&[&CALL[..], &["--namespace-label", "x"]].concat(), 2, "is not of the form KEY=VALUE"),
        (&[&CALL[..], &["--client-cert", "x"]].concat(), 2, "--client-key"),
    ] {
        let (got, stdout, stderr) = extension(directory, arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {stdout}{stderr}");
        assert!(stderr.contains(says), "{arguments:?}: {stderr}");
    }
}

#[test]
fn the_openapi_document_is_printed_as_yaml_and_json() {
    let (code, yaml, _) = extension(Path::new("."), &["openapi"]);
    assert_eq!(code, Some(0));
    assert!(yaml.contains("operationId: hooksRuntimeClusterV1alpha1BeforeClusterUpgrade"));
    let (_, json, _) = extension(Path::new("."), &["openapi", "-o", "json", "--document-version", "book"]);
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["info"]["version"], "book");
    assert_eq!(document["paths"].as_object().unwrap().len(), 18);
}

#[test]
fn a_good_extension_passes_the_test_and_its_manifest_the_lint() {
    let live = Live::start();
    let directory = live.directory.path();
    let (code, table, _) = extension(
        directory,
        &["test", "--config", "extensionconfig.yaml", "--hooks", "BeforeClusterUpgrade"],
    );
    assert_eq!(code, Some(0), "{table}");
    assert!(table.contains("  C1  passed"), "{table}");
    assert!(table.contains("\n0 errors, 0 warnings, "), "{table}");
    let (code, json, _) = extension(directory, &["test", "--config", "extensionconfig.yaml", "-o", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let calls = report["checks"].as_array().unwrap().iter().find(|check| check["id"] == "C2").unwrap();
    assert_eq!((code, &calls["status"]), (Some(0), &"skipped".into()), "hooks are called only when named");
    let (code, lint, _) = extension(directory, &["lint", "extensionconfig.yaml"]);
    assert_eq!(code, Some(0), "{lint}");
}

#[test]
fn what_is_wrong_is_found_and_ends_with_an_exit_code() {
    let live = Live::start();
    live.file("other.yaml", "metadata: {name: x}\nspec: {clientConfig: {url: https://127.0.0.1:1}}\n");
    live.file(
        "broken.yaml",
        "kind: ExtensionConfig\napiVersion: runtime.cluster.x-k8s.io/v1beta2\nspec: {}\n",
    );
    let directory = live.directory.path();
    for (arguments, code, says) in [
        (&["test", "--config", "other.yaml"][..], 1, "error T1 https://127.0.0.1:1"),
        (&["test", "--config", "other.yaml", "-o", "junit"], 1, "<failure"),
        (&["lint", "broken.yaml"], 1, "error L1"),
        (&["lint", "missing.yaml"], 2, "cannot read missing.yaml"),
        (&["test"], 2, "the address of an extension or --config is needed"),
        (&["test", "http://x"], 2, "is not the address of an extension"),
        (&["test", "https://x", "--hooks", "Lunch"], 2, "--hooks: unknown hook \"Lunch\""),
        (&["test", "https://x", "--leave-out", "Z9"], 2, "there is no check \"Z9\""),
        (&["test", "https://x", "--capi-version", "2"], 2, "is not a release of Cluster API"),
        (&["test", "https://x", "--kubernetes-versions", "1.x"], 2, "is not a version"),
        (&["test", "https://x", "--setting", "novalue"], 2, "is not of the form KEY=VALUE"),
        (&["test", "https://x", "--ca-file", "none.pem"], 2, "cannot read none.pem"),
    ] {
        let (got, stdout, stderr) = extension(directory, arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {stdout}{stderr}");
        assert!(stdout.contains(says) || stderr.contains(says), "{arguments:?}: {stdout}{stderr}");
    }
}

/// A control plane of one machine, in a newer version or also with another file.
fn control_plane(files: &str) -> String {
    format!(
        r#"---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {{name: cp, namespace: default}}
spec:
  replicas: 1
  version: v1.33.1
  kubeadmConfigSpec: {{files: {files}}}
  machineTemplate:
    spec: {{infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: cp}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {{name: cp-a, namespace: default, labels: {{cluster.x-k8s.io/control-plane-name: cp}}}}
spec:
  clusterName: c1
  version: v1.33.0
  bootstrap: {{configRef: {{apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: cp-a}}}}
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachine, name: cp-a}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata: {{name: cp-a, namespace: default}}
spec: {{joinConfiguration: {{controlPlane: {{}}}}, clusterConfiguration: {{featureGates: {{ControlPlaneKubeletLocalMode: true}}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachine
metadata: {{name: cp-a, namespace: default}}
spec: {{providerID: in-memory://cp-a, backend: {{inMemory: {{}}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevMachineTemplate
metadata: {{name: cp, namespace: default}}
spec: {{template: {{spec: {{backend: {{inMemory: {{}}}}}}}}}}
"#
    )
}

#[test]
fn what_would_be_updated_in_place_is_asked_of_live_extensions() {
    let live = Live::start();
    let config = std::fs::read_to_string(live.directory.path().join("extensionconfig.yaml")).unwrap();
    let plan = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["plan", "--in-place"])
            .args(arguments)
            .current_dir(live.directory.path())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let workers = std::fs::read_to_string("tests/scenarios/in-place.yaml").unwrap();
    live.file("covered.yaml", &format!("{config}\n{}", control_plane("[]")));
    let (code, shown, error) = plan(&["-f", "covered.yaml"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert_eq!(
        shown,
        "Machine cp-a of KubeadmControlPlane cp: updated in place\n  \
         Machine spec.version: can-update-machine.gatekeeper\n  can-update-machine.gatekeeper affects availability\n"
    );

    let more = control_plane("[{path: /etc/motd, content: hello}]");
    live.file("open.yaml", &format!("{config}\n{more}---\n{workers}"));
    let (code, shown, _) = plan(&["-f", "open.yaml", "-o", "json"]);
    assert_eq!(code, Some(0));
    assert!(!shown.contains("hello"), "values are never shown: {shown}");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let answers: Vec<(&str, Option<bool>)> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| (answer["subject"].as_str().unwrap(), answer["canUpdateInPlace"].as_bool()))
        .collect();
    assert_eq!(
        answers,
        [
            ("MachineSet web-x7k2p of MachineDeployment web", Some(false)),
            ("Machine cp-a of KubeadmControlPlane cp", Some(false)),
        ]
    );
    let covered = |answer: &Value| -> Vec<(String, Option<String>)> {
        let fields = answer["fields"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        fields.map(|field| (text(&field["field"]).unwrap(), text(&field["coveredBy"]))).collect()
    };
    let by = |handler: &str| Some(format!("{handler}.gatekeeper"));
    let machine = covered(&shown[1]);
    assert!(machine.contains(&("Machine spec.version".to_owned(), by("can-update-machine"))), "{machine:?}");
    assert!(machine.iter().any(|(field, by)| field.starts_with("KubeadmConfig spec.files") && by.is_none()));
    let set = covered(&shown[0]);
    let version = "MachineSet spec.template.spec.version".to_owned();
    assert!(set.contains(&(version, by("can-update-machine-set"))), "{set:?}");

    // Only what is missing is named.
    let (code, _, error) = plan(&[]);
    assert_eq!(code, Some(2));
    assert!(error.contains("--filename") && !error.contains("--from"), "{error}");
    // An extension that is down is an error, not a verdict.
    let directory = live.stop();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["plan", "--in-place", "-f", "covered.yaml"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("extension gatekeeper"));
}
