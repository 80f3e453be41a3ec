//! The same controllers on the same API over HTTPS, in real time and on several threads: nothing depends on the virtual
//! clock, on one thread, or on the client being in the process.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use windlass_api::cluster::MachineDeployment;
use windlass_apiserver::serve::{Credentials, serve};
use windlass_apiserver::{ApiServer, Clock};
use windlass_engine::features::Features;
use windlass_inmemory::Provider;
use windlass_manager::Plane;
use windlass_runtime::{Manager, Options};
use windlass_simulate::{ClusterManifests, SimulatedExtension, Startup, WorkerGroup};
use windlass_store::{History, Store};

use crate::support::apply;

/// A client that says with its certificate who it is. Every request has a connection of its own.
fn client(address: SocketAddr, credentials: &Credentials) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(credentials.ca_bundle().as_bytes()).unwrap()).unwrap();
    let kubeconfig: serde_json::Value =
        serde_saphyr::from_str(&credentials.kubeconfig("https://localhost")).unwrap();
    let user = &kubeconfig["users"][0]["user"];
    let pem = |field: &str| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.decode(user[field].as_str().unwrap()).unwrap()
    };
    let certificate = CertificateDer::from_pem_slice(&pem("client-certificate-data")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data")).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("127.0.0.1")?;
            let stream = connector.connect(name, stream).await?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            request.headers_mut().insert("host", http::HeaderValue::from_static("localhost"));
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(sender.send_request(request).await?)
        }
    });
    Client::new(service, "default")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_over_https_in_real_time() {
    let credentials = Arc::new(Credentials::ephemeral().unwrap());
    let options = windlass_apiserver::Options::new().token_key(credentials.token_key());
    let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
    let in_process = Client::new(server.service(), "default");
    let crds = Api::all(in_process.clone());
    for crd in windlass_api::crds::all() {
        crds.create(&PostParams::default(), &crd).await.unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving =
        tokio::spawn(serve(server.clone(), listener, Arc::clone(&credentials), std::future::pending()));

    let client = client(address, &credentials);
    let manager = Manager::new(client.clone(), Options::new());
    let plane = Plane {
        client: client.clone(),
        hooks: SimulatedExtension::new().client(),
        provider: Some(Provider::new(Clock::real(), 1)),
        features: Features::default(),
    };
    plane.register(&manager);
    let running = manager.start();

    let group = WorkerGroup::new("w", 2);
    let manifests = ClusterManifests::new("c", "v1.33.0", 1)
        .startup(Startup { vm: 0.0, node: 0.0, jitter: 0.0 })
        .workers(group.clone());
    apply(&in_process, &manifests.objects()).await;
    complete(&in_process).await;
    apply(&in_process, &manifests.worker_objects(&group.generation(2))).await;
    complete(&in_process).await;
    running.stop(Duration::from_secs(30)).await;
    serving.abort();
}

/// Waits until all workers are up to date and available.
async fn complete(client: &Client) {
    let api: Api<MachineDeployment> = Api::default_namespaced(client.clone());
    let wait = async {
        loop {
            let deployment = api.get("c-w").await.unwrap();
            let status = &deployment.status;
            let counters = json!([status.replicas, status.available_replicas, status.up_to_date_replicas]);
            if counters == json!([2, 2, 2]) && status.observed_generation >= deployment.metadata.generation {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.unwrap();
}
