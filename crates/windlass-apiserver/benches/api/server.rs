//! The server that is measured: a process of its own, or a part of this one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use windlass_apiserver::serve::{Credentials, Home, serve};
use windlass_apiserver::{ApiServer, Options};
use windlass_store::Store;

use super::client::{Client, Connector};
use super::machine::{COLLECTION, DEFINITION};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Https,
    InProcess,
}

impl Transport {
    pub(crate) const ALL: [Self; 2] = [Self::Https, Self::InProcess];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::InProcess => "in-process",
        }
    }

    /// Where the load comes from. In the process, the clients share the threads of the server.
    pub(crate) fn load_runtime(self) -> Runtime {
        runtime(if self == Self::Https { 1 } else { 2 })
    }
}

fn runtime(threads: usize) -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("a runtime")
}

pub(crate) struct Server {
    dir: Option<TempDir>,
    running: Running,
}

enum Running {
    Process { child: Child, connector: Connector },
    Here { api: ApiServer, _runtime: Runtime },
}

impl Server {
    pub(crate) fn start(transport: Transport, dir: &Path) -> Self {
        Self::open(transport, TempDir::new_in(dir).expect("a directory"))
    }

    /// Starts a server on a data directory, and returns when it answers.
    pub(crate) fn open(transport: Transport, dir: TempDir) -> Self {
        let running = match transport {
            Transport::Https => process(dir.path()),
            Transport::InProcess => {
                let runtime = runtime(2);
                let api = runtime.block_on(api(dir.path(), Options::new()));
                Running::Here { api, _runtime: runtime }
            }
        };
        Self { dir: Some(dir), running }
    }

    /// Ends the server, and keeps its data.
    pub(crate) fn stop(mut self) -> TempDir {
        self.end();
        self.dir.take().expect("a directory")
    }

    fn end(&mut self) {
        if let Running::Process { child, .. } = &mut self.running {
            // It ends when its last writer is gone.
            drop(child.stdin.take());
            child.wait().expect("an end");
        }
    }

    pub(crate) fn connector(&self) -> Connector {
        match &self.running {
            Running::Process { connector, .. } => connector.clone(),
            Running::Here { api, .. } => Connector::InProcess(api.service()),
        }
    }

    /// Defines the kind of the benchmark.
    pub(crate) async fn define(&self) {
        let request = Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::from(DEFINITION))
            .expect("a request");
        let (code, body) = self.connector().connect().await.send(request).await;
        assert_eq!(code, StatusCode::CREATED, "{}", String::from_utf8_lossy(&body));
    }

    fn process(&self) -> u32 {
        match &self.running {
            Running::Process { child, .. } => child.id(),
            Running::Here { .. } => std::process::id(),
        }
    }

    /// Processor time so far, as Linux counts it: in hundredths of a second.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process())).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks: u64 =
            after_name.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory, as Linux counts it.
    pub(crate) fn resident_kib(&self) -> i64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
    }

    /// How often the store has synced so far, where it can be asked.
    pub(crate) fn commits(&self) -> u64 {
        match &self.running {
            Running::Process { .. } => 0,
            Running::Here { api, .. } => api.store().stats().batches,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

async fn api(dir: &Path, options: Options) -> ApiServer {
    let store = Store::open(Home::new(dir).store(), &windlass_store::Options::new()).expect("a store");
    ApiServer::start(store, options).await.expect("a server")
}

/// Starts this program again as a server.
fn process(dir: &Path) -> Running {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .arg("--serve")
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a server");
    let mut line = String::new();
    let out = child.stdout.take().expect("an output");
    BufReader::new(out).read_line(&mut line).expect("an address");
    let address: SocketAddr = line.trim().parse().expect("an address");
    let credentials = Credentials::in_directory(&Home::new(dir).pki()).expect("credentials");
    Running::Process { child, connector: Connector::Https { address, config: tls(&credentials) } }
}

/// The server process: says where it listens, and ends with its standard input.
pub(crate) fn run(dir: &Path) {
    let runtime = runtime(2);
    runtime.block_on(async {
        let credentials = Arc::new(Credentials::in_directory(&Home::new(dir).pki()).expect("credentials"));
        let api = api(dir, Options::new().token_key(credentials.token_key())).await;
        let store = api.store().clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        writeln!(std::io::stdout(), "{address}").expect("an output");
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            // Nothing is ever written: the end is what is waited for.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            drop(stop);
        });
        let stopped = async move { drop(stopped.await) };
        serve(api, listener, credentials, stopped).await.expect("an end");
        store.close().await.expect("a closed store");
    });
}

/// What the administrator's connections are made with.
fn tls(credentials: &Credentials) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(credentials.ca_bundle().as_bytes()).expect("a certificate");
    roots.add(ca).expect("a certificate");
    let kubeconfig = credentials.kubeconfig("");
    let part = |name: &str| {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name)).expect("a part");
        STANDARD.decode(line.trim()).expect("base64")
    };
    let certificate =
        CertificateDer::from_pem_slice(&part("client-certificate-data:")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(&part("client-key-data:")).expect("a key");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocols")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .expect("a configuration");
    Arc::new(config)
}

/// Watches all objects, and counts what it hears of.
pub(crate) async fn watch(connector: Connector, seen: Arc<AtomicU64>, ready: oneshot::Sender<()>) {
    let mut client: Client = connector.connect().await;
    let request = Request::get(format!("{COLLECTION}?watch=true&resourceVersion=1&timeoutSeconds=3600"))
        .header("host", "localhost")
        .body(Full::<Bytes>::default())
        .expect("a request");
    let mut answer = client.start(request).await;
    let _ = ready.send(());
    while let Some(piece) = answer.piece().await {
        // An event is a line.
        let lines = piece.iter().filter(|byte| **byte == b'\n').count();
        seen.fetch_add(lines as u64, Ordering::Relaxed);
    }
}
