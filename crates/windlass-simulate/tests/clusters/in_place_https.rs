//! Workers that are updated in place by an extension of another process, over HTTPS and in real time.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use windlass_api::Object;
use windlass_api::cluster::Machine;
use windlass_apiserver::serve::{Credentials, serve};
use windlass_apiserver::{ApiServer, Clock};
use windlass_engine::features::Features;
use windlass_extension::hooks::{
    ExternalUpdate, ExternalUpdateRequest, ExternalUpdateResponse, MachineObjects,
};
use windlass_extension::{Context, DevelopmentCertificate, Extension, Server, Tls};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{HttpsTransport, boxed};
use windlass_inmemory::Provider;
use windlass_manager::Plane;
use windlass_runtime::{Manager, Options, Running};
use windlass_simulate::{Amount, ClusterManifests, Startup, WorkerGroup};
use windlass_store::{History, Store};

use crate::support::apply;

/// Starts the example that updates machines in place, and returns the object that registers it. It is killed when it is
/// dropped, by its id.
async fn updater(state: &Path) -> (Child, Value) {
    example("in-place-updater", "--state", state).await
}

/// Starts an example that updates machines, with a file or directory that it needs.
async fn example(name: &str, flag: &str, path: &Path) -> (Child, Value) {
    // target/debug/deps/<this test> and target/debug/examples/<example>
    let this = std::env::current_exe().unwrap();
    let binary: PathBuf = this.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    let mut child = Command::new(binary)
        .args(["--listen", "127.0.0.1:0", "--command", "true", "--retry-after", "1", flag])
        .arg(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut url, mut ca) = (None, None);
    while url.is_none() || ca.is_none() {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
        let line = line.unwrap().unwrap().unwrap();
        if let Some(found) = line.trim().strip_prefix("url: ") {
            url = Some(found.to_owned());
        } else if let Some(bundle) = line.trim().strip_prefix("caBundle: ") {
            ca = Some(bundle.to_owned());
        }
    }
    let config = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": name},
        "spec": {"clientConfig": {"url": url, "caBundle": ca}, "namespaceSelector": {}}});
    (child, config)
}

/// An API with all controllers, which call extensions over HTTPS.
async fn management_plane() -> (Client, Running) {
    let (_, client, running) = management_plane_with(windlass_apiserver::Options::new()).await;
    (client, running)
}

async fn management_plane_with(options: windlass_apiserver::Options) -> (ApiServer, Client, Running) {
    let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
    let client = Client::new(server.service(), "default");
    let crds = Api::all(client.clone());
    for crd in windlass_api::crds::all() {
        crds.create(&PostParams::default(), &crd).await.unwrap();
    }
    let manager = Manager::new(client.clone(), Options::new());
    let hooks = HookClient::builder(boxed(HttpsTransport::new())).build();
    let provider = Some(Provider::new(Clock::real(), 1));
    let plane = Plane { client: client.clone(), hooks, provider, features: Features::default() };
    plane.register(&manager);
    (server, client, manager.start())
}

/// An external updater that is written with the SDK: it accepts updates of MachineDeployments, and does them in the background.
fn external_updater(client: Client, asked: Arc<AtomicUsize>) -> Extension {
    let external_update = move |_: Context, request: ExternalUpdateRequest| {
        let (client, asked) = (client.clone(), Arc::clone(&asked));
        async move {
            asked.fetch_add(1, Ordering::SeqCst);
            if request.owner.kind != "MachineDeployment" {
                return ExternalUpdateResponse::refuse("only workers");
            }
            tokio::spawn(async move {
                for machine in &request.machines {
                    bring_to(&client, machine, &request.desired).await;
                }
            });
            ExternalUpdateResponse::accept("one after the other")
        }
    };
    Extension::new("night-shift").on(ExternalUpdate, "take-over", external_update).build().unwrap()
}

/// Writes what is desired into the objects of a Machine, the Machine last.
async fn bring_to(client: &Client, machine: &Object, desired: &MachineObjects) {
    let name =
        |pointer: &str| machine.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let parts = [
        (Some(&desired.infrastructure_machine), name("/spec/infrastructureRef/name")),
        (desired.bootstrap_config.as_ref(), name("/spec/bootstrap/configRef/name")),
        (Some(&desired.machine), name("/metadata/name")),
    ];
    for (desired, name) in parts {
        let Some(desired) = desired else { continue };
        let version = desired.pointer("/apiVersion").and_then(Value::as_str).unwrap();
        let (group, version) = version.split_once('/').unwrap();
        let gvk = kube::api::GroupVersionKind::gvk(group, version, desired.kind().unwrap());
        let resource = kube::api::ApiResource::from_gvk(&gvk);
        let api: Api<kube::api::DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
        let mut patch = json!({"spec": desired.spec()});
        if let Some(metadata) = desired.pointer("/metadata") {
            patch["metadata"] = metadata.clone();
        }
        api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_updater_made_with_the_sdk_updates_over_https() {
    let (client, running) = management_plane().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let certificate = DevelopmentCertificate::generate(["127.0.0.1"]).unwrap();
    let server =
        Server::new(external_updater(client.clone(), Arc::clone(&asked)), Tls::development(certificate));
    let server = server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config: Value = serde_saphyr::from_str(&server.manifest("127.0.0.1")).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.run_until(async {
        let _ = stopped.await;
    }));

    let group = WorkerGroup::new("w", 2);
    let manifests = ClusterManifests::new("c", "v1.33.0", 1)
        .startup(Startup { vm: 0.0, node: 0.0, jitter: 0.0 })
        .workers(group.clone());
    apply(&client, &[config]).await;
    apply(&client, &manifests.objects()).await;
    let before = until_all_run(&client, "v1.33.0").await;
    let mut changed = manifests.worker_objects(&group.version("v1.33.1"));
    changed[2]["spec"]["rollout"]["strategy"] = json!({"type": "External"});
    apply(&client, &changed).await;
    let after = until_all_run(&client, "v1.33.1").await;
    assert_eq!(after, before, "the same machines");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    running.stop(Duration::from_secs(30)).await;
    drop(stop);
    assert_eq!(serving.await.unwrap().unfinished_connections, 0);
}

/// Names, UIDs and providerIDs of the workers and of their Nodes: what an external updater has to keep.
async fn identities(client: &Client) -> Vec<(String, String, String, String)> {
    let api: Api<Machine> = Api::default_namespaced(client.clone());
    let workers = api.list(&ListParams::default().labels("group=w")).await.unwrap().items;
    let identity = |machine: Machine| {
        let node = machine.status.node_ref.as_ref().unwrap().name.clone();
        (machine.name_any(), machine.uid().unwrap(), machine.spec.provider_id.clone(), node)
    };
    let mut identities: Vec<_> = workers.into_iter().map(identity).collect();
    identities.sort();
    identities
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_external_updater_example_takes_over_and_keeps_what_a_machine_is() {
    let credentials = Arc::new(Credentials::ephemeral().unwrap());
    let options = windlass_apiserver::Options::new().token_key(credentials.token_key());
    let (server, client, running) = management_plane_with(options).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(serve(server, listener, Arc::clone(&credentials), std::future::pending()));
    let kubeconfig = std::env::temp_dir().join(format!("windlass-external-{}", std::process::id()));
    credentials.write_kubeconfig(&kubeconfig, &format!("https://{address}")).unwrap();
    let (mut child, config) = example("external-updater", "--kubeconfig", &kubeconfig).await;

    let group = WorkerGroup::new("w", 2);
    let manifests = ClusterManifests::new("c", "v1.33.0", 1)
        .startup(Startup { vm: 0.0, node: 0.0, jitter: 0.0 })
        .workers(group.clone());
    apply(&client, &[config]).await;
    apply(&client, &manifests.objects()).await;
    until_all_run(&client, "v1.33.0").await;
    let before = identities(&client).await;
    let mut changed = manifests.worker_objects(&group.generation(2).version("v1.33.1"));
    changed[2]["spec"]["rollout"]["strategy"] = json!({"type": "External"});
    apply(&client, &changed).await;
    until_all_run(&client, "v1.33.1").await;
    assert_eq!(identities(&client).await, before, "the same machines, hosts and Nodes");
    running.stop(Duration::from_secs(30)).await;
    child.kill().await.unwrap();
    serving.abort();
    std::fs::remove_file(&kubeconfig).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_updates_workers_in_place_over_https() {
    let state = std::env::temp_dir().join(format!("windlass-in-place-{}", std::process::id()));
    let (mut child, config) = updater(&state).await;
    let (client, running) = management_plane().await;

    let group = WorkerGroup::new("w", 2).rolling_update(Amount::Number(0), Amount::Number(1));
    let manifests = ClusterManifests::new("c", "v1.33.0", 1)
        .startup(Startup { vm: 0.0, node: 0.0, jitter: 0.0 })
        .workers(group.clone());
    apply(&client, &[config]).await;
    apply(&client, &manifests.objects()).await;
    let before = until_all_run(&client, "v1.33.0").await;
    apply(&client, &manifests.worker_objects(&group.version("v1.33.1"))).await;
    let after = until_all_run(&client, "v1.33.1").await;
    assert_eq!(after, before, "the same machines");
    running.stop(Duration::from_secs(30)).await;
    child.kill().await.unwrap();
    // The attempts of the example are the evidence that it did the work.
    let attempts = std::fs::read_dir(&state).unwrap().filter_map(Result::ok);
    let attempts =
        attempts.filter(|entry| entry.file_name().to_string_lossy().ends_with(".outcome.json")).count();
    std::fs::remove_dir_all(&state).unwrap();
    assert_eq!(attempts, 2);
}

/// Waits until both workers run a version and are not being updated, and returns their names.
async fn until_all_run(client: &Client, version: &str) -> Vec<String> {
    let api: Api<Machine> = Api::default_namespaced(client.clone());
    let wait = async {
        loop {
            let workers = api.list(&ListParams::default().labels("group=w")).await.unwrap().items;
            let runs = |machine: &Machine| {
                machine.status.node_info.as_ref().is_some_and(|info| info.kubelet_version == version)
                    && !windlass_engine::machine_set::is_updating(machine)
            };
            if workers.len() == 2 && workers.iter().all(runs) {
                let mut names: Vec<String> = workers.iter().map(ResourceExt::name_any).collect();
                names.sort();
                return names;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(240), wait).await.unwrap()
}
