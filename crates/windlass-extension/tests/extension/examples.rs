//! The examples, run as an operator runs them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use windlass_extension::hooks::Hook;

use crate::support::{Caller, Connection, H2, PATIENCE, eventually};

/// An example that runs. Killed when it is dropped, by its id.
struct Example {
    child: Child,
    address: SocketAddr,
    caller: Caller,
}

impl Example {
    /// Starts an example, and takes address and certificate from the manifest that it prints.
    async fn start(name: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(binary(name))
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut address, mut ca) = (None, None);
        while address.is_none() || ca.is_none() {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
            if let Some(url) = line.trim().strip_prefix("url: https://") {
                address = Some(url.parse().unwrap());
            } else if let Some(bundle) = line.trim().strip_prefix("caBundle: ") {
                ca = Some(String::from_utf8(STANDARD.decode(bundle).unwrap()).unwrap());
            }
        }
        let caller = Caller::default().and_trusting(&ca.unwrap());
        Self { child, address: address.unwrap(), caller }
    }

    async fn connect(&self) -> Connection {
        self.caller.connect(self.address, H2).await.unwrap()
    }

    async fn call(&self, hook: Hook, handler: &str, request: &Value) -> Value {
        let path = format!("{}/{handler}", hook.base_path());
        self.connect().await.post(&path, request.to_string()).await.json()
    }

    /// As a crash does it: without a chance to say goodbye.
    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

fn binary(name: &str) -> PathBuf {
    // target/debug/deps/<this test> and target/debug/examples/<example>
    let this = std::env::current_exe().unwrap();
    this.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn approve_upgrade_holds_until_a_file_or_an_annotation_approves_the_version() {
    let directory = tempfile::tempdir().unwrap();
    let example = Example::start("approve-upgrade", &["--approvals", text(directory.path())]).await;
    let call = async |annotations: Value, version: &str| {
        let metadata = json!({"name": "c1", "namespace": "ns1", "annotations": annotations});
        let request = json!({"cluster": {"metadata": metadata}, "toKubernetesVersion": version});
        let response = example.call(Hook::BeforeClusterUpgrade, "approve-upgrade", &request).await;
        assert_eq!(response["status"], "Success", "{response}");
        (response["retryAfterSeconds"].as_i64().unwrap(), response["message"].clone())
    };
    let waiting = "upgrade to v1.33.1 waits for approval: \
                   annotation windlass.dev/approve-upgrade=v1.33.1 or file ns1_c1";
    assert_eq!(call(json!({}), "v1.33.1").await, (30, json!(waiting)));
    assert_eq!(call(json!({"windlass.dev/approve-upgrade": "v1.32.0"}), "v1.33.1").await.0, 30);
    assert_eq!(call(json!({"windlass.dev/approve-upgrade": "v1.33.1"}), "v1.33.1").await.0, 0);

    let file = directory.path().join("ns1_c1");
    std::fs::write(&file, "v1.32.0\nv1.33.1\n").unwrap();
    assert_eq!(call(json!({}), "v1.33.1").await.0, 0);
    assert_eq!(call(json!({}), "v1.34.0").await.0, 30);
    std::fs::write(&file, "").unwrap();
    assert_eq!(call(json!({}), "v1.34.0").await.0, 0);

    let escaping = json!({"cluster": {"metadata": {"name": "../c1", "namespace": "ns1"}}});
    let response = example.call(Hook::BeforeClusterUpgrade, "approve-upgrade", &escaping).await;
    assert_eq!(response["status"], "Failure");
    example.kill().await;
}

#[tokio::test]
async fn approve_upgrade_holds_every_step_until_it_is_approved_for_itself() {
    let directory = tempfile::tempdir().unwrap();
    let approvals = text(directory.path());
    let steps = "cluster,control-plane,workers";
    let example = Example::start("approve-upgrade", &["--approvals", approvals, "--steps", steps]).await;
    let call = async |hook: Hook, annotation: &str, version: &str| {
        let annotations = json!({"windlass.dev/approve-upgrade": annotation});
        let metadata = json!({"name": "c1", "namespace": "ns1", "annotations": annotations});
        let request = json!({"cluster": {"metadata": metadata}, "toKubernetesVersion": version});
        let handler = match hook {
            Hook::BeforeControlPlaneUpgrade => "approve-control-plane",
            Hook::BeforeWorkersUpgrade => "approve-workers",
            _ => "approve-upgrade",
        };
        example.call(hook, handler, &request).await
    };
    let (cluster, control_plane, workers) =
        (Hook::BeforeClusterUpgrade, Hook::BeforeControlPlaneUpgrade, Hook::BeforeWorkersUpgrade);
    let passes = async |hook: Hook, annotation: &str, version: &str| {
        let response = call(hook, annotation, version).await;
        assert_eq!(response["status"], "Success", "{response}");
        response["retryAfterSeconds"] == 0
    };
    let waiting = "upgrade to v1.31.2 waits for approval: annotation \
                   windlass.dev/approve-upgrade=control-plane/v1.31.2 or file ns1_c1/control-plane/v1.31.2";
    assert_eq!(call(control_plane, "", "v1.31.2").await["message"], waiting);

    let listed = "cluster/v1.33.0,workers/v1.32.0";
    assert!(passes(cluster, listed, "v1.33.0").await && passes(workers, listed, "v1.32.0").await);
    assert!(!passes(workers, listed, "v1.33.0").await && !passes(control_plane, listed, "v1.32.0").await);
    assert!(!passes(control_plane, "v1.33.0", "v1.33.0").await, "a version alone is the upgrade as a whole");

    let of_step = directory.path().join("ns1_c1/control-plane");
    std::fs::create_dir_all(&of_step).unwrap();
    assert!(!passes(control_plane, "", "v1.31.2").await);
    std::fs::write(of_step.join("v1.31.2"), "").unwrap();
    assert!(passes(control_plane, "", "v1.31.2").await);
    assert!(!passes(control_plane, "", "v1.32.0").await && !passes(workers, "", "v1.31.2").await);

    let escaping = call(control_plane, "", "v1/../../../../etc/passwd").await;
    assert_eq!(escaping["status"], "Failure", "{escaping}");
    example.kill().await;
}

#[tokio::test]
async fn upgrade_plan_follows_its_catalogue() {
    let directory = tempfile::tempdir().unwrap();
    let catalogue = directory.path().join("versions");
    std::fs::write(&catalogue, "v1.31.4 # the oldest\n\n# next\nv1.32.5\nv1.33.1\n").unwrap();
    let example = Example::start("upgrade-plan", &["--catalogue", text(&catalogue)]).await;
    let request = json!({
        "cluster": {"metadata": {"name": "c1"}},
        "fromControlPlaneKubernetesVersion": "v1.31.4",
        "fromWorkersKubernetesVersion": "v1.31.4",
        "toKubernetesVersion": "v1.33.1",
    });
    let plan = async || example.call(Hook::GenerateUpgradePlan, "upgrade-plan", &request).await;
    let planned = plan().await;
    assert_eq!(planned["status"], "Success", "{planned}");
    assert_eq!(planned["controlPlaneUpgrades"], json!([{"version": "v1.32.5"}, {"version": "v1.33.1"}]));

    std::fs::write(&catalogue, "v1.31.4\nv1.32.9\nv1.33.1\n").unwrap();
    assert_eq!(plan().await["controlPlaneUpgrades"][0]["version"], "v1.32.9");
    std::fs::write(&catalogue, "v1.31.4\nv1.33.1\n").unwrap();
    let refused = plan().await;
    assert_eq!(refused["status"], "Failure");
    assert!(refused["message"].as_str().unwrap().starts_with("no upgrade plan: "), "{refused}");
    std::fs::remove_file(&catalogue).unwrap();
    assert!(plan().await["message"].as_str().unwrap().starts_with("cannot read the catalogue "));
    example.kill().await;
}

/// The objects of a Machine at a version, with a file in its bootstrap config.
fn machine(name: &str, version: &str, file: &str) -> Value {
    json!({
        "machine": {
            "kind": "Machine",
            "metadata": {"name": name, "namespace": "ns1"},
            "spec": {"clusterName": "c1", "version": version},
        },
        "infrastructureMachine": {"kind": "DevMachine", "spec": {"size": "small"}},
        "bootstrapConfig": {"kind": "KubeadmConfig", "spec": {"files": [{"path": file}], "format": "cloud-config"}},
    })
}

/// A patch of a response, decoded.
fn patch_in(response: &Value, field: &str) -> Value {
    let encoded = response[field]["patch"].as_str().unwrap();
    assert_eq!(response[field]["patchType"], "JSONPatch");
    serde_json::from_slice(&STANDARD.decode(encoded).unwrap()).unwrap()
}

#[tokio::test]
async fn in_place_updater_covers_the_version_and_the_fields_it_was_given_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--state", text(directory.path()), "--command", "true"];
    let example = Example::start("in-place-updater", &arguments).await;
    let (current, mut desired) = (machine("m1", "v1.32.0", "/a"), machine("m1", "v1.33.1", "/b"));
    desired["infrastructureMachine"]["spec"]["size"] = json!("large");
    desired["bootstrapConfig"]["spec"]["format"] = json!("ignition");

    let request = json!({"current": current, "desired": desired});
    let response = example.call(Hook::CanUpdateMachine, "can-update-machine", &request).await;
    assert_eq!(response["status"], "Success");
    let version = json!([{"op": "replace", "path": "/spec/version", "value": "v1.33.1"}]);
    let files = json!([{"op": "replace", "path": "/spec/files/0/path", "value": "/b"}]);
    assert_eq!(patch_in(&response, "machinePatch"), version);
    assert_eq!(patch_in(&response, "bootstrapConfigPatch"), files);
    assert_eq!(response.get("infrastructureMachinePatch"), None);

    let unchanged = json!({"current": current, "desired": current});
    let response = example.call(Hook::CanUpdateMachine, "can-update-machine", &unchanged).await;
    assert_eq!((response.get("machinePatch"), response.get("bootstrapConfigPatch")), (None, None));

    let set = |version: &str, file: &str| {
        json!({
            "machineSet": {"spec": {"template": {"spec": {"version": version}}}},
            "infrastructureMachineTemplate": {},
            "bootstrapConfigTemplate": {"spec": {"template": {"spec": {"files": [{"path": file}]}}}},
        })
    };
    let request = json!({"current": set("v1.32.0", "/a"), "desired": set("v1.33.1", "/b")});
    let response = example.call(Hook::CanUpdateMachineSet, "can-update-machine-set", &request).await;
    assert_eq!(patch_in(&response, "machineSetPatch")[0]["path"], "/spec/template/spec/version");
    assert_eq!(
        patch_in(&response, "bootstrapConfigTemplatePatch")[0]["path"],
        "/spec/template/spec/files/0/path"
    );
    example.kill().await;
}

/// An updater whose command says that it began, waits for a file, and ends as the file says.
struct Workshop {
    directory: tempfile::TempDir,
}

impl Workshop {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh
echo \"$1/$2 $3\" >> \"$4/begun\"
tries=0
while [ ! -e \"$4/end-$2\" ] && [ $tries -lt 600 ]; do tries=$((tries + 1)); sleep 0.05; done
echo \"kubelet of $2 says no\"
exit \"$(cat \"$4/end-$2\")\"
";
        std::fs::write(directory.path().join("script"), script).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn updater(&self, more: &[&str]) -> Example {
        // Through sh, because a file that was just written may still be busy when another test forks.
        let command = format!(
            "sh {} {{namespace}} {{name}} {{version}} {}",
            text(&self.path("script")),
            text(self.directory.path())
        );
        let state = self.path("state");
        let arguments = ["--state", text(&state), "--command", &command];
        Example::start("in-place-updater", &[&arguments, more].concat()).await
    }

    /// Lets the command for a Machine end with an exit code.
    fn end(&self, machine: &str, code: u8) {
        let new = self.path("new");
        std::fs::write(&new, code.to_string()).unwrap();
        std::fs::rename(&new, self.path(&format!("end-{machine}"))).unwrap();
    }

    /// The runs of the command so far, in their order.
    fn begun(&self) -> Vec<String> {
        let lines = std::fs::read_to_string(self.path("begun")).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    async fn has_begun(&self, runs: usize) {
        eventually(|| async { (self.begun().len() == runs).then_some(()) }).await;
    }
}

/// What UpdateMachine answers: status, whether to ask again, message.
async fn update(example: &Example, desired: &Value) -> (String, bool, String) {
    let request = json!({"desired": desired});
    let response = example.call(Hook::UpdateMachine, "update-machine", &request).await;
    let text = |field: &str| response[field].as_str().unwrap_or_default().to_owned();
    (text("status"), response["retryAfterSeconds"] != 0, text("message"))
}

fn in_progress(name: &str, version: &str, more: &str) -> (String, bool, String) {
    ("Success".to_owned(), true, format!("updating ns1/{name} to {version}{more}"))
}

fn done() -> (String, bool, String) {
    ("Success".to_owned(), false, String::new())
}

/// Asks until an update is no longer in progress.
async fn ended(example: &Example, desired: &Value) -> (String, bool, String) {
    eventually(|| async { Some(update(example, desired).await).filter(|(_, again, _)| !again) }).await
}

#[tokio::test]
async fn an_update_runs_once_however_often_it_is_asked_for() {
    let workshop = Workshop::new();
    let example = workshop.updater(&[]).await;
    let desired = machine("m1", "v1.33.1", "/a");
    for _ in 0..3 {
        assert_eq!(update(&example, &desired).await, in_progress("m1", "v1.33.1", ""));
    }
    workshop.has_begun(1).await;
    workshop.end("m1", 0);
    assert_eq!(ended(&example, &desired).await, done());
    assert_eq!(update(&example, &desired).await, done());
    // What the command does not bring about is no reason to run it.
    let mut relabelled = desired.clone();
    relabelled["machine"]["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(update(&example, &relabelled).await, done());
    assert_eq!(workshop.begun(), ["ns1/m1 v1.33.1"]);

    // Something else, and back again: both have to be done.
    let next = machine("m1", "v1.33.1", "/b");
    assert_eq!(ended(&example, &next).await, done());
    assert_eq!(ended(&example, &desired).await, done());
    assert_eq!(workshop.begun().len(), 3);
    example.kill().await;
}

#[tokio::test]
async fn a_failed_update_shows_the_end_of_its_output_and_is_tried_again_after_a_while() {
    let workshop = Workshop::new();
    let patient = workshop.updater(&["--back-off", "3600"]).await;
    let desired = machine("m1", "v1.33.1", "/a");
    workshop.end("m1", 3);
    update(&patient, &desired).await;
    let failed = ended(&patient, &desired).await;
    assert_eq!(failed.0, "Failure");
    assert_eq!(failed.2, "updating ns1/m1 to v1.33.1 failed: exit status: 3: kubelet of m1 says no");
    assert_eq!(update(&patient, &desired).await, failed);
    assert_eq!(workshop.begun().len(), 1);
    // Another desired state does not wait for the back-off of this one.
    workshop.end("m1", 0);
    assert_eq!(ended(&patient, &machine("m1", "v1.33.2", "/a")).await, done());
    patient.kill().await;

    let workshop = Workshop::new();
    workshop.end("m2", 3);
    let desired = machine("m2", "v1.33.1", "/a");
    let eager = workshop.updater(&["--back-off", "0"]).await;
    update(&eager, &desired).await;
    workshop.has_begun(1).await;
    workshop.end("m2", 0);
    assert_eq!(ended(&eager, &desired).await, done());
    eager.kill().await;
}

#[tokio::test]
async fn a_restarted_updater_neither_repeats_nor_forgets() {
    let workshop = Workshop::new();
    let (finished, running) = (machine("m1", "v1.33.1", "/a"), machine("m2", "v1.33.1", "/a"));
    let example = workshop.updater(&[]).await;
    workshop.end("m1", 0);
    update(&example, &finished).await;
    assert_eq!(ended(&example, &finished).await, done());
    update(&example, &running).await;
    workshop.has_begun(2).await;
    example.kill().await;

    // The command went on, and the new updater knows.
    let example = workshop.updater(&[]).await;
    assert_eq!(update(&example, &finished).await, done());
    assert_eq!(update(&example, &running).await, in_progress("m2", "v1.33.1", ""));
    example.kill().await;

    // It ends while nobody watches, and the next updater still gets to know how.
    workshop.end("m2", 7);
    let outcome = workshop.path("state").join("ns1_m2.outcome.json");
    eventually(|| async { outcome.exists().then_some(()) }).await;
    let example = workshop.updater(&[]).await;
    let (status, _, message) = update(&example, &running).await;
    assert_eq!((status.as_str(), message.contains("exit status: 7")), ("Failure", true), "{message}");
    assert_eq!(workshop.begun(), ["ns1/m1 v1.33.1", "ns1/m2 v1.33.1"]);
    example.kill().await;
}

#[tokio::test]
async fn an_interrupted_update_is_begun_again() {
    let workshop = Workshop::new();
    let desired = machine("m1", "v1.33.1", "/a");
    workshop.end("m1", 0);
    let example = workshop.updater(&[]).await;
    update(&example, &desired).await;
    assert_eq!(ended(&example, &desired).await, done());
    // As after a power cut: begun, no outcome, and nothing of it runs.
    std::fs::remove_file(workshop.path("state").join("ns1_m1.outcome.json")).unwrap();
    assert_eq!(update(&example, &desired).await, in_progress("m1", "v1.33.1", ""));
    assert_eq!(ended(&example, &desired).await, done());
    assert_eq!(workshop.begun().len(), 2);
    example.kill().await;
}

#[tokio::test]
async fn no_more_machines_than_allowed_are_updated_at_once_and_one_only_once() {
    let workshop = Workshop::new();
    let example = workshop.updater(&["--max-parallel", "1"]).await;
    let (first, second) = (machine("m1", "v1.33.1", "/a"), machine("m2", "v1.33.1", "/a"));
    update(&example, &first).await;
    let behind_others = " waits for updates of other Machines";
    assert_eq!(update(&example, &second).await, in_progress("m2", "v1.33.1", behind_others));
    let behind_itself = " waits for an earlier update of the Machine";
    let newer = machine("m1", "v1.33.2", "/a");
    assert_eq!(update(&example, &newer).await, in_progress("m1", "v1.33.2", behind_itself));
    workshop.end("m1", 0);
    workshop.end("m2", 0);
    assert_eq!(ended(&example, &first).await, done());
    assert_eq!(ended(&example, &second).await, done());
    assert_eq!(ended(&example, &newer).await, done());
    assert_eq!(workshop.begun(), ["ns1/m1 v1.33.1", "ns1/m2 v1.33.1", "ns1/m1 v1.33.2"]);
    example.kill().await;
}

#[tokio::test]
async fn two_updaters_do_not_share_their_state() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--state", text(directory.path()), "--command", "true"];
    let example = Example::start("in-place-updater", &arguments).await;
    let second = Command::new(binary("in-place-updater")).args(arguments).output().await.unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("another updater uses the state directory"), "{said}");
    example.kill().await;
}

#[tokio::test]
async fn a_command_that_cannot_be_run_is_a_failure_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--state", text(directory.path()), "--command", "/does/not/exist {name}"];
    let example = Example::start("in-place-updater", &arguments).await;
    let desired = machine("m1", "v1.33.1", "/a");
    update(&example, &desired).await;
    let (status, _, message) = ended(&example, &desired).await;
    assert_eq!(status, "Failure");
    assert!(message.contains("cannot run /does/not/exist: "), "{message}");
    example.kill().await;
}

#[tokio::test]
async fn an_example_ends_in_good_order_when_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let mut example = Example::start("approve-upgrade", &["--approvals", text(directory.path())]).await;
    let id = example.child.id().unwrap().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    assert!(told.success());
    let status = tokio::time::timeout(PATIENCE, example.child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
}

/// A management cluster that is nowhere: what it would be asked fails, and is told.
const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";

#[tokio::test]
async fn external_updater_refuses_what_it_cannot_keep_and_tells_why_it_failed() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let arguments = ["--kubeconfig", text(&kubeconfig), "--command", "ls /nowhere/{name}/{provider-id}"];
    let example = Example::start("external-updater", &arguments).await;
    let ask = async |kind: &str, provider_id: &str| {
        let machine = json!({"kind": "Machine", "metadata": {"name": "m1", "namespace": "ns1"},
            "spec": {"providerID": provider_id, "infrastructureRef": {"name": "m1"}}});
        let desired = json!({"machine": {"kind": "Machine", "spec": {"version": "v1.33.1"}},
            "infrastructureMachine": {"kind": "DevMachine", "spec": {}}});
        let request = json!({"owner": {"kind": kind}, "machines": [machine], "desired": desired});
        example.call(Hook::ExternalUpdate, "take-over", &request).await
    };
    let refused = ask("KubeadmControlPlane", "host-1").await;
    assert_eq!((&refused["status"], &refused["accepted"]), (&json!("Success"), &json!(false)));
    let unknown = ask("MachineDeployment", "").await;
    assert_eq!(unknown["status"], "Failure");
    assert!(unknown["message"].as_str().unwrap().contains("no providerID yet"), "{unknown}");

    let accepted = ask("MachineDeployment", "host-1").await;
    assert_eq!((&accepted["accepted"], &accepted["retryAfterSeconds"]), (&json!(true), &json!(10)));
    assert_eq!(accepted["reason"], "1 machines are left");
    let told = || async {
        let again = ask("MachineDeployment", "host-1").await;
        again["reason"].as_str().unwrap().contains("tried again: ns1/m1: exit status: 2").then_some(())
    };
    eventually(told).await;
    example.kill().await;
}

#[tokio::test]
async fn in_place_updater_says_what_its_command_does_to_a_machine() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--state", text(directory.path()), "--command", "true"];
    let machine = |version: &str| {
        json!({"machine": {"kind": "Machine", "metadata": {"name": "m1", "namespace": "ns1"},
            "spec": {"version": version}}})
    };
    let request = json!({"current": machine("v1.33.0"), "desired": machine("v1.33.1")});
    for (more, affects, requirements) in [
        (&[][..], Value::Null, Value::Null),
        (&["--stays-available"][..], json!(false), Value::Null),
        (
            &["--require", "Drain", "--require", "VolumeDetach"][..],
            Value::Null,
            json!(["Drain", "VolumeDetach"]),
        ),
    ] {
        let example = Example::start("in-place-updater", &[&arguments[..], more].concat()).await;
        let answer = example.call(Hook::CanUpdateMachine, "can-update-machine", &request).await;
        assert_eq!(
            (&answer["affectsAvailability"], &answer["requirements"]),
            (&affects, &requirements),
            "{answer}"
        );
        example.kill().await;
    }
}

#[tokio::test]
async fn examples_explain_themselves() {
    for name in ["approve-upgrade", "upgrade-plan", "in-place-updater", "external-updater"] {
        let output = Command::new(binary(name)).arg("--help").output().await.unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && help.contains("--listen"), "{name}: {help}");
        let wrong = Command::new(binary(name)).output().await.unwrap();
        assert_eq!(wrong.status.code(), Some(2), "{name}");
    }
}
