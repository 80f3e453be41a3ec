//! `windlass serve` in a process of its own that can be killed, and connections to it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use base64::Engine;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};

/// Where the objects of these tests are.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// `windlass serve` on a port of the system's choice.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) tls: Arc<ClientConfig>,
}

impl Server {
    pub(crate) fn start(directory: &Path) -> Self {
        Self::start_after("", directory)
    }

    /// As [`Server::start`], after a shell has run some commands that the process inherits the effect of.
    pub(crate) fn start_after(commands: &str, directory: &Path) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{commands}\nexec \"$@\""), "sh", env!("CARGO_BIN_EXE_windlass")])
            .args(["serve", "--data-dir", "data", "--listen", "127.0.0.1:0"])
            .args(["--kubeconfig-out", "kubeconfig"])
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(File::create(directory.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("Ready: https://").expect("it says when it is ready").to_owned();
        let tls = Self::trust(&directory.join("kubeconfig"));
        Self { child, address, tls }
    }

    /// What a kubeconfig says: whom to trust, and who one is.
    pub(crate) fn trust(kubeconfig: &Path) -> Arc<ClientConfig> {
        let kubeconfig = std::fs::read_to_string(kubeconfig).unwrap();
        let find = |name: &str| {
            let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
            base64::engine::general_purpose::STANDARD.decode(line.trim()).unwrap()
        };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&find("certificate-authority-data:")).unwrap()).unwrap();
        let certificate = CertificateDer::from_pem_slice(&find("client-certificate-data:")).unwrap();
        let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![certificate],
                PrivateKeyDer::from_pem_slice(&find("client-key-data:")).unwrap(),
            )
            .unwrap();
        Arc::new(tls)
    }

    /// A connection of one's own, or none if the server is gone.
    pub(crate) async fn connect(address: &str, tls: Arc<ClientConfig>) -> Option<Connection> {
        let stream = TcpStream::connect(address).await.ok()?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(tls).connect(name, stream).await.ok()?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(Connection(sender))
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Connection(pub(crate) SendRequest<Full<Bytes>>);

impl Connection {
    /// The answer, or none if the connection broke before it was there.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        self.0.ready().await.ok()?;
        let response = self.0.send_request(request).await.ok()?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        // Health is told in words.
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        Some((code, serde_json::from_slice(&body).unwrap_or_else(|_| text())))
    }
}
