//! Calls from the hook client to an extension written with our SDK, over loopback TLS with keep-alive: how long
//! one takes when they come one at a time, and how many are answered per second with 64 in flight.
//!
//! Client and extension share the machine, so this is the cost of both sides.

use std::error::Error;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_api::hooks::{
    BeforeClusterUpgrade, BeforeClusterUpgradeRequest, BeforeClusterUpgradeResponse, HookResponse,
};
use windlass_api::runtime::ExtensionConfig;
use windlass_extension::{BoundServer, Context, DevelopmentCertificate, Extension, Handler, Server, Tls};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{HttpsTransport, boxed};

const WARM_UP: usize = 500;
const ONE_AT_A_TIME: usize = 10_000;
const IN_FLIGHT: usize = 64;
const CONCURRENT: usize = 40_000;

async fn approve(_: Context, _: BeforeClusterUpgradeRequest) -> BeforeClusterUpgradeResponse {
    HookResponse::success()
}

fn main() -> Result<(), Box<dyn Error>> {
    // Both sides on one thread: what the calls themselves cost.
    runtime()?.block_on(async {
        let server = bind().await?;
        let manifest = server.manifest("127.0.0.1");
        tokio::spawn(server.run_until(std::future::pending()));
        let client = client(&manifest).await?;
        one_at_a_time("one thread", &client).await
    })?;

    // A thread each, as two processes would have: the threads wake each other up, which on small virtual machines
    // takes longer than the call.
    let (manifest, config) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let served = runtime().and_then(|runtime| runtime.block_on(serve(manifest)));
        // The client says that nobody answers.
        drop(served);
    });
    let config = config.recv()?;
    runtime()?.block_on(async {
        let client = client(&config).await?;
        one_at_a_time("a thread each", &client).await?;
        in_flight("a thread each", &client).await
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, Box<dyn Error>> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

async fn bind() -> Result<BoundServer, Box<dyn Error>> {
    let extension =
        Extension::new("bench").on(BeforeClusterUpgrade, Handler::named("gate"), approve).build()?;
    let certificate = DevelopmentCertificate::generate(["127.0.0.1"])?;
    Ok(Server::new(extension, Tls::development(certificate)).bind("127.0.0.1:0".parse()?).await?)
}

async fn serve(manifest: std::sync::mpsc::Sender<String>) -> Result<(), Box<dyn Error>> {
    let server = bind().await?;
    manifest.send(server.manifest("127.0.0.1"))?;
    let _ended = server.run_until(std::future::pending()).await;
    Ok(())
}

async fn client(manifest: &str) -> Result<HookClient, Box<dyn Error>> {
    let config: ExtensionConfig = serde_saphyr::from_str(manifest)?;
    let client = HookClient::builder(boxed(HttpsTransport::new())).build();
    for (name, discovered) in client.warm_up([(config, None)]).await {
        discovered.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(client)
}

fn request() -> Result<BeforeClusterUpgradeRequest, Box<dyn Error>> {
    Ok(BeforeClusterUpgradeRequest {
        cluster: serde_json::from_value(cluster())?,
        from_kubernetes_version: "v1.32.0".to_owned(),
        to_kubernetes_version: "v1.33.0".to_owned(),
        ..BeforeClusterUpgradeRequest::default()
    })
}

async fn one_at_a_time(threads: &str, client: &HookClient) -> Result<(), Box<dyn Error>> {
    let request = request()?;
    let size = serde_json::to_vec(&request)?.len();
    let mut times = Vec::with_capacity(ONE_AT_A_TIME);
    for call in 0..WARM_UP + ONE_AT_A_TIME {
        let start = Instant::now();
        let _answers = client.call_all::<BeforeClusterUpgrade>("default", &request).await?;
        if call >= WARM_UP {
            times.push(start.elapsed());
        }
    }
    times.sort_unstable();
    report(
        &format!("{threads}, request of {size} bytes, {ONE_AT_A_TIME} calls one at a time"),
        &[("p50", micros(times[times.len() / 2])), ("p99", micros(times[times.len() * 99 / 100]))],
    );
    Ok(())
}

async fn in_flight(threads: &str, client: &HookClient) -> Result<(), Box<dyn Error>> {
    let request = request()?;
    let start = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (client, request) = (client.clone(), request.clone());
        callers.spawn(async move {
            for _ in 0..CONCURRENT / IN_FLIGHT {
                let _answers = client.call_all::<BeforeClusterUpgrade>("default", &request).await?;
            }
            Ok::<_, windlass_hooks::CallError>(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    let rate = CONCURRENT as f64 / start.elapsed().as_secs_f64();
    report(
        &format!("{threads}, {CONCURRENT} calls, {IN_FLIGHT} in flight"),
        &[("rate", format!("{rate:.0} calls/s"))],
    );
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn report(what: &str, figures: &[(&str, String)]) {
    let figures: Vec<String> = figures.iter().map(|(name, figure)| format!("{name} {figure}")).collect();
    println!("hook call over TLS: {what}: {}", figures.join(", "));
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}

/// A Cluster as a controller sends it: topology, a few groups, variables, status; about 3 kB.
fn cluster() -> Value {
    let group = |name: &str| {
        json!({
            "class": "default-worker", "name": name, "replicas": 3,
            "metadata": {"labels": {"node-role": name}, "annotations": {"example.com/cost-centre": "platform"}},
            "variables": {"overrides": [{"name": "machineType", "value": "m5.xlarge"}]},
        })
    };
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "Available", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 7,
        })
    };
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {
            "name": "production-eu-west-1", "namespace": "default", "generation": 7, "resourceVersion": "184467",
            "uid": "6f1c1a52-1d55-4a2f-9d0c-1f6b1f2f3a10", "creationTimestamp": "2025-06-01T08:00:00Z",
            "labels": {"cluster.x-k8s.io/cluster-name": "production-eu-west-1", "topology.cluster.x-k8s.io/owned": ""},
            "finalizers": ["cluster.cluster.x-k8s.io"],
        },
        "spec": {
            "clusterNetwork": {
                "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/12"]},
                "serviceDomain": "cluster.local",
            },
            "controlPlaneEndpoint": {"host": "api.production-eu-west-1.example.com", "port": 6443},
            "topology": {
                "classRef": {"name": "production"}, "version": "v1.33.0",
                "controlPlane": {"replicas": 3, "metadata": {"labels": {"tier": "control-plane"}}},
                "variables": [
                    {"name": "region", "value": "eu-west-1"},
                    {"name": "imageRepository", "value": "registry.example.com/kubernetes"},
                    {"name": "etcd", "value": {"imageTag": "3.6.8-0", "dataDir": "/var/lib/etcd"}},
                ],
                "workers": {"machineDeployments": [group("md-0"), group("md-1"), group("md-2")]},
            },
        },
        "status": {
            "phase": "Provisioned", "observedGeneration": 7,
            "conditions": [
                condition("Available"), condition("ControlPlaneInitialized"), condition("InfrastructureReady"),
                condition("TopologyReconciled"), condition("WorkersAvailable"), condition("RemoteConnectionProbe"),
            ],
        },
    })
}
