//! The API over a real connection: who gets in, what is too much, and how it ends.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use windlass_apiserver::serve::{Credentials, serve};
use windlass_apiserver::{ApiServer, Options};
use windlass_store::{History, Store};

struct Running {
    address: SocketAddr,
    credentials: Arc<Credentials>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

async fn start(credentials: Credentials) -> Running {
    let credentials = Arc::new(credentials);
    let options = Options::new().token_key(credentials.token_key());
    let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let used = Arc::clone(&credentials);
    let task = tokio::spawn(async move {
        let stopped = async move { drop(stopped.await) };
        serve(server, listener, used, stopped).await.unwrap();
    });
    Running { address, credentials, stop: Some(stop), task }
}

/// How a client says who it is.
enum As<'a> {
    Nobody,
    Token(&'a str),
    Certificate(&'a str),
}

impl Running {
    async fn ask(&self, who: As<'_>, request: http::request::Builder, body: Vec<u8>) -> (u16, String) {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.credentials.ca_bundle().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match &who {
            As::Certificate(kubeconfig) => {
                let (certificate, key) = admin(kubeconfig);
                let certificate = CertificateDer::from_pem_slice(&certificate).unwrap();
                config
                    .with_client_auth_cert(vec![certificate], PrivateKeyDer::from_pem_slice(&key).unwrap())
                    .unwrap()
            }
            As::Nobody | As::Token(_) => config.with_no_client_auth(),
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = request.header("host", "localhost");
        if let As::Token(token) = who {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }
}

/// The certificate and key of the administrator out of a kubeconfig.
fn admin(kubeconfig: &str) -> (Vec<u8>, Vec<u8>) {
    use base64::Engine;
    let find = |name: &str| {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
        base64::engine::general_purpose::STANDARD.decode(line.trim()).unwrap()
    };
    (find("client-certificate-data:"), find("client-key-data:"))
}

#[tokio::test]
async fn only_known_clients_get_in_except_for_health_and_version() {
    let server = start(Credentials::ephemeral().unwrap()).await;
    let kubeconfig = server.credentials.kubeconfig("https://localhost");
    for path in ["/healthz", "/readyz", "/version"] {
        assert_eq!(server.ask(As::Nobody, Request::get(path), Vec::new()).await.0, 200, "{path}");
    }
    for path in ["/api", "/apis", "/api/v1/namespaces", "/openapi/v2", "/"] {
        assert_eq!(server.ask(As::Nobody, Request::get(path), Vec::new()).await.0, 401, "{path}");
    }
    assert_eq!(server.ask(As::Token("guess"), Request::get("/version"), Vec::new()).await.0, 401);
    let (code, body) =
        server.ask(As::Certificate(&kubeconfig), Request::get("/api/v1/namespaces"), Vec::new()).await;
    assert!(code == 200 && body.contains("kube-system"), "{code} {body}");
}

#[tokio::test]
async fn a_service_account_gets_in_with_its_token_and_may_do_nothing_without_a_role() {
    let server = start(Credentials::ephemeral().unwrap()).await;
    let kubeconfig = server.credentials.kubeconfig("https://localhost");
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, body) =
        server.ask(As::Certificate(&kubeconfig), Request::post(path), b"{\"spec\":{}}".to_vec()).await;
    assert_eq!(code, 201, "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let token = body["status"]["token"].as_str().unwrap();
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, body) = server.ask(As::Token(token), Request::post(who), b"{}".to_vec()).await;
    assert!(code == 201 && body.contains("system:serviceaccount:default:default"), "{code} {body}");
    assert_eq!(server.ask(As::Token(token), Request::get("/api/v1/namespaces"), Vec::new()).await.0, 403);
    assert_eq!(server.ask(As::Token(token), Request::get("/apis"), Vec::new()).await.0, 200);
}

#[tokio::test]
async fn what_is_too_much_is_refused_and_the_server_goes_on() {
    let server = start(Credentials::ephemeral().unwrap()).await;
    let kubeconfig = server.credentials.kubeconfig("https://localhost");
    let post = || Request::post("/api/v1/namespaces/default/configmaps");
    let large = vec![b' '; 4 * 1024 * 1024];
    assert_eq!(server.ask(As::Certificate(&kubeconfig), post(), large).await.0, 413);
    let deep = "[".repeat(10_000).into_bytes();
    assert_eq!(server.ask(As::Certificate(&kubeconfig), post(), deep).await.0, 400);
    let damaged = b"{\"kind\":\"\xff\xfe\"}".to_vec();
    assert_eq!(server.ask(As::Certificate(&kubeconfig), post(), damaged).await.0, 400);
    let long = Request::get(format!("/api/v1/{}", "a".repeat(10_000)));
    assert_eq!(server.ask(As::Certificate(&kubeconfig), long, Vec::new()).await.0, 404);
    assert_eq!(server.ask(As::Certificate(&kubeconfig), Request::get("/api"), Vec::new()).await.0, 200);
}

#[tokio::test]
async fn a_stopping_server_ends_watches_and_then_itself() {
    let mut server = start(Credentials::ephemeral().unwrap()).await;
    let kubeconfig = server.credentials.kubeconfig("https://localhost");
    let stop = server.stop.take().unwrap();
    let watch = Request::get("/api/v1/namespaces?watch=true&timeoutSeconds=3600");
    let (watched, ()) = tokio::join!(server.ask(As::Certificate(&kubeconfig), watch, Vec::new()), async {
        // The watch must have begun, which only its first answer tells; an answer to a later request will do.
        server.ask(As::Certificate(&kubeconfig), Request::get("/api/v1/namespaces"), Vec::new()).await;
        stop.send(()).unwrap();
    });
    assert_eq!(watched.0, 200);
    tokio::time::timeout(Duration::from_secs(20), server.task).await.unwrap().unwrap();
}

#[test]
fn credentials_are_made_once_and_only_their_owner_can_read_them() {
    let dir = tempfile::tempdir().unwrap();
    let first = Credentials::in_directory(dir.path()).unwrap();
    let second = Credentials::in_directory(dir.path()).unwrap();
    assert_eq!(first.kubeconfig("https://x"), second.kubeconfig("https://x"));
    assert_eq!(first.token_key(), second.token_key());
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        use std::os::unix::fs::PermissionsExt;
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
    std::fs::write(dir.path().join("tokens.csv"), "only,three,parts\n").unwrap();
    assert!(Credentials::in_directory(dir.path()).unwrap_err().to_string().contains("tokens.csv is damaged"));
}
