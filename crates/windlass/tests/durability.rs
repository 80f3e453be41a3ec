//! What `windlass serve` has acknowledged is there after `kill -9`, whenever it comes, and nothing is half there.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failing helper fails the test"
)]

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
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};

const WRITERS: usize = 8;
const KILLS: usize = 200;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Xorshift: the same series on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}

/// `windlass serve` on a port of the system's choice.
struct Server {
    child: Child,
    address: String,
    tls: Arc<ClientConfig>,
}

impl Server {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args([
                "serve",
                "--data-dir",
                "data",
                "--listen",
                "127.0.0.1:0",
                "--kubeconfig-out",
                "kubeconfig",
            ])
            .current_dir(directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("Ready: https://").expect("it says when it is ready").to_owned();
        let kubeconfig = std::fs::read_to_string(directory.join("kubeconfig")).unwrap();
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
        Self { child, address, tls: Arc::new(tls) }
    }

    /// A connection of one's own, or none if the server is gone.
    async fn connect(address: &str, tls: Arc<ClientConfig>) -> Option<Connection> {
        let stream = TcpStream::connect(address).await.ok()?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(tls).connect(name, stream).await.ok()?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(Connection(sender))
    }

    fn kill(&mut self) {
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

struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    /// The answer, or none if the connection broke before it was there.
    async fn ask(&mut self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let response = self.0.send_request(request).await.ok()?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some((code, serde_json::from_slice(&body).unwrap()))
    }
}

/// The object of a writer after so many writes. After every fifth it is gone.
fn object(writer: usize, count: u64) -> Value {
    json!({
        "metadata": {"name": format!("w{writer}"), "labels": {"count": count.to_string()}},
        "data": {"text": format!("{count:020}").repeat(130), "count": count.to_string()},
    })
}

fn is_there_after(count: u64) -> bool {
    !count.is_multiple_of(5)
}

/// The `count`th write of a writer, if it is acknowledged.
async fn write(connection: &mut Connection, writer: usize, count: u64) -> Option<()> {
    let path = format!("{CONFIG_MAPS}/w{writer}");
    let (method, path, body) = match (is_there_after(count - 1) && count > 1, is_there_after(count)) {
        (false, true) => ("POST", CONFIG_MAPS, object(writer, count)),
        (true, true) => ("PUT", path.as_str(), object(writer, count)),
        (_, false) => ("DELETE", path.as_str(), json!({})),
    };
    let (code, said) = connection.ask(method, path, &body).await?;
    assert!(code == 200 || code == 201, "writer {writer}, {count}: {method} {path}: {said}");
    Some(())
}

/// How often a writer has written, given what is known to be acknowledged. Fails if that is lost, or more is there than
/// the one write that was under way.
fn written(found: Option<&Value>, writer: usize, acknowledged: u64) -> u64 {
    let Some(found) = found else {
        let (now, next) = (acknowledged, acknowledged + 1);
        return match (is_there_after(now) && now > 0, is_there_after(next)) {
            (false, _) => now,
            (true, false) => next,
            (true, true) => panic!("writer {writer}: write {now} was acknowledged and is lost"),
        };
    };
    let count: u64 = found["data"]["count"].as_str().unwrap().parse().unwrap();
    let whole = object(writer, count);
    assert_eq!(found["data"], whole["data"], "writer {writer}: half a write");
    assert_eq!(found["metadata"]["labels"], whole["metadata"]["labels"], "writer {writer}: half a write");
    assert!(
        count == acknowledged || count == acknowledged + 1,
        "writer {writer}: {acknowledged} acknowledged, {count} found"
    );
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_nothing_is_half_there_after_200_kills() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(7);
    let mut counts = [0_u64; WRITERS];
    let mut revision = 0;
    for round in 0..KILLS {
        let mut server = Server::start(directory.path());
        let mut connection = Server::connect(&server.address, Arc::clone(&server.tls)).await.unwrap();
        let (code, list) = connection.ask("GET", CONFIG_MAPS, &Value::Null).await.unwrap();
        assert_eq!(code, 200, "{list}");
        let now: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(now >= revision, "round {round}: the revision went back from {revision} to {now}");
        revision = now;
        let items = list["items"].as_array().unwrap();
        for (writer, count) in counts.iter_mut().enumerate() {
            let name = format!("w{writer}");
            *count = written(items.iter().find(|item| item["metadata"]["name"] == name), writer, *count);
        }

        let (acknowledge, mut acknowledged) = mpsc::unbounded_channel();
        for (writer, count) in counts.into_iter().enumerate() {
            let (acknowledge, address, tls) =
                (acknowledge.clone(), server.address.clone(), Arc::clone(&server.tls));
            tokio::spawn(async move {
                let Some(mut connection) = Server::connect(&address, tls).await else { return };
                for count in count + 1.. {
                    if write(&mut connection, writer, count).await.is_none() {
                        return;
                    }
                    let _ = acknowledge.send((writer, count));
                }
            });
        }
        drop(acknowledge);
        // Sometimes before the first write, sometimes in the middle of many.
        for _ in 0..random.below(60) {
            let (writer, count) = acknowledged.recv().await.expect("a writer failed");
            counts[writer] = count;
        }
        server.kill();
        // What was acknowledged until then, and the end of all writers.
        while let Some((writer, count)) = acknowledged.recv().await {
            counts[writer] = count;
        }
    }
    let total: u64 = counts.iter().sum();
    assert!(total > 3_000, "it hardly wrote: {total}");
}
