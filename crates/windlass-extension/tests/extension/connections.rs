//! Connections: those that do nothing, those that wait, and what becomes of them at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use windlass_extension::hooks::{BeforeClusterUpgrade, BeforeClusterUpgradeResponse, HookResponse};
use windlass_extension::{Extension, Server, Tls};

use crate::support::{Caller, H1, H2, PATIENCE, REQUEST, Running, certificate, eventually, gate_path};

const SOON: Duration = Duration::from_millis(100);

/// A handler that reports when it was called, and answers when it is let go.
struct Held {
    called: Arc<Notify>,
    release: Arc<Notify>,
    extension: Extension,
}

fn held() -> Held {
    let (called, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (call, released) = (Arc::clone(&called), Arc::clone(&release));
    let extension = Extension::new("held")
        .on(BeforeClusterUpgrade, "pass", |_, _| async { BeforeClusterUpgradeResponse::success() })
        .on(BeforeClusterUpgrade, "hold", move |_, _| {
            let (call, released) = (Arc::clone(&call), Arc::clone(&released));
            async move {
                call.notify_one();
                released.notified().await;
                BeforeClusterUpgradeResponse::success()
            }
        })
        .build()
        .unwrap();
    Held { called, release, extension }
}

async fn start(adjust: impl FnOnce(Server) -> Server) -> (Running, Caller, Held) {
    let (certificate, held) = (certificate(), held());
    let server = Server::new(held.extension.clone(), Tls::development(certificate.clone()));
    (Running::start(adjust(server)).await, Caller::trusting(&certificate), held)
}

/// Reads until the other side closes the connection, in whatever way.
async fn closed(stream: &mut (impl AsyncReadExt + Unpin)) {
    let mut sink = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut sink)).await.unwrap();
}

#[tokio::test]
async fn a_caller_that_dribbles_its_headers_is_cut_off() {
    let (running, caller, _held) = start(|server| server.header_timeout(SOON)).await;
    let mut stream = caller.handshake(running.address, H1).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.unwrap();
    stream.flush().await.unwrap();
    closed(&mut stream).await;
    // On a busy machine an honest caller can be too slow as well.
    eventually(|| async {
        let mut connection = caller.connect(running.address, H1).await.ok()?;
        connection.request("POST", &gate_path("pass"), REQUEST).await.ok()
    })
    .await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_a_failure() {
    let (running, caller, _held) = start(|server| server.body_timeout(SOON)).await;
    let mut stream = caller.handshake(running.address, H1).await.unwrap();
    let head = format!("POST {} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{{", gate_path("pass"));
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = timeout(PATIENCE, stream.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("the body did not arrive in time"), "{answer}");
}

#[tokio::test]
async fn a_caller_that_never_finishes_its_handshake_is_cut_off() {
    let (running, _caller, _held) = start(|server| server.handshake_timeout(SOON)).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    closed(&mut stream).await;
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed() {
    let (running, caller, _held) = start(|server| server.idle_timeout(SOON)).await;
    for alpn in [H1, H2] {
        let mut stream = caller.handshake(running.address, alpn).await.unwrap();
        closed(&mut stream).await;
    }
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let (running, caller, _held) = start(|server| server.max_header_bytes(8 * 1024)).await;
    for alpn in [H1, H2] {
        let mut connection = caller.connect(running.address, alpn).await.unwrap();
        let request = http::Request::post(format!("https://127.0.0.1{}", gate_path("pass")))
            .header("x-large", "x".repeat(64 * 1024))
            .body(REQUEST.into())
            .unwrap();
        let refused = match timeout(PATIENCE, connection.send(request)).await.unwrap() {
            Ok(answered) => answered.status == 431,
            Err(_) => true,
        };
        assert!(refused);
    }
}

#[tokio::test]
async fn a_call_in_flight_keeps_its_connection() {
    let idle = Duration::from_millis(500);
    let (running, caller, held) = start(|server| server.idle_timeout(idle).header_timeout(idle)).await;
    for alpn in [H1, H2] {
        let mut connection = caller.connect(running.address, alpn).await.unwrap();
        let path = gate_path("hold");
        let call = connection.post(&path, REQUEST);
        let release = async {
            held.called.notified().await;
            // Longer than a connection may be idle; the call is what keeps it.
            tokio::time::sleep(2 * idle).await;
            held.release.notify_one();
        };
        let (answered, ()) = tokio::join!(call, release);
        assert_eq!(answered.outcome().0, "Success");
    }
}

#[tokio::test]
async fn one_connection_too_many_waits_for_its_turn() {
    let (running, caller, _held) = start(|server| server.max_connections(1)).await;
    let mut first = caller.connect(running.address, H2).await.unwrap();
    assert_eq!(first.post(&gate_path("pass"), REQUEST).await.outcome().0, "Success");
    let mut second = Box::pin(caller.connect(running.address, H2));
    assert!(timeout(3 * SOON, second.as_mut()).await.is_err());
    drop(first);
    let mut second = timeout(PATIENCE, second).await.unwrap().unwrap();
    assert_eq!(second.post(&gate_path("pass"), REQUEST).await.outcome().0, "Success");
}

#[tokio::test]
async fn a_call_in_flight_finishes_when_the_server_stops() {
    for alpn in [H1, H2] {
        let (mut running, caller, held) = start(|server| server).await;
        let address = running.address;
        let mut connection = caller.connect(address, alpn).await.unwrap();
        let path = gate_path("hold");
        let call = connection.post(&path, REQUEST);
        let stop = async {
            held.called.notified().await;
            running.tell_to_stop();
            // No new call is let in while this one goes on.
            eventually(|| async { TcpStream::connect(address).await.err() }).await;
            held.release.notify_one();
            running.stopped().await
        };
        let (answered, shutdown) = tokio::join!(call, stop);
        assert_eq!(answered.outcome().0, "Success");
        assert_eq!(shutdown.unfinished_connections, 0);
    }
}

#[tokio::test]
async fn calls_that_do_not_finish_are_given_up_and_counted() {
    let (running, caller, held) = start(|server| server.shutdown_limit(SOON)).await;
    let mut connection = caller.connect(running.address, H2).await.unwrap();
    let path = gate_path("hold");
    let call = connection.request("POST", &path, REQUEST);
    let stop = async {
        held.called.notified().await;
        running.stopped().await
    };
    let (answered, shutdown) = tokio::join!(call, stop);
    assert!(answered.is_err());
    assert_eq!(shutdown.unfinished_connections, 1);
}

#[tokio::test]
async fn probes_see_when_the_server_is_ready_and_when_it_stops() {
    let fit = Arc::new(AtomicBool::new(false));
    let ready = Arc::clone(&fit);
    let any_port = "127.0.0.1:0".parse().unwrap();
    let (mut running, caller, held) =
        start(|server| server.health_address(any_port).ready_when(move || ready.load(Ordering::Relaxed)))
            .await;
    let health = running.health_address.unwrap();
    assert_eq!(probe(health, "/healthz").await, 200);
    assert_eq!(probe(health, "/readyz").await, 503);
    fit.store(true, Ordering::Relaxed);
    assert_eq!(probe(health, "/readyz").await, 200);
    assert_eq!(probe(health, "/metrics").await, 404);

    let mut connection = caller.connect(running.address, H2).await.unwrap();
    let path = gate_path("hold");
    let stop = async {
        held.called.notified().await;
        running.tell_to_stop();
        eventually(|| async { (probe(health, "/readyz").await == 503).then_some(()) }).await;
        assert_eq!(probe(health, "/healthz").await, 200);
        held.release.notify_one();
        running.stopped().await
    };
    let (answered, _) = tokio::join!(connection.post(&path, REQUEST), stop);
    assert_eq!(answered.outcome().0, "Success");
}

async fn probe(address: std::net::SocketAddr, path: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut response)).await.unwrap().unwrap();
    response.split(' ').nth(1).unwrap().parse().unwrap()
}
