//! Health endpoints over plain HTTP, for the kubelet.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::accept;
use crate::answer::plain;

/// Probes are few and small; a client that needs more of either is not a probe.
const MAX_CONNECTIONS: usize = 32;
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Tells whether the extension can do its work. Called for every probe.
pub(crate) type Readiness = Arc<dyn Fn() -> bool + Send + Sync>;

/// Answers probes for ever.
pub(crate) async fn serve(listener: TcpListener, ready: Readiness, shutdown: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let (stream, place) = accept(&listener, &places).await;
        while connections.try_join_next().is_some() {}
        let (ready, shutdown) = (Arc::clone(&ready), shutdown.clone());
        connections.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = probe(request.uri().path(), &ready, *shutdown.borrow());
                async { Ok::<_, Infallible>(response.map(Full::new)) }
            });
            // A probe that breaks off is the prober's business.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(MAX_HEADER_BYTES)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(place);
        });
    }
}

/// Alive as long as it answers; ready until it stops, so that no new calls are sent here while the last ones
/// finish.
fn probe(path: &str, ready: &Readiness, stopping: bool) -> Response<Bytes> {
    match path {
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        "/readyz" if stopping => plain(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        "/readyz" if !ready() => plain(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        "/readyz" => plain(StatusCode::OK, "ok\n"),
        _ => plain(StatusCode::NOT_FOUND, "only /healthz and /readyz are here\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_neither_stopping_nor_broken() {
        let (fit, broken): (Readiness, Readiness) = (Arc::new(|| true), Arc::new(|| false));
        for (path, ready, stopping, status) in [
            ("/healthz", &fit, false, 200),
            ("/healthz", &broken, true, 200),
            ("/readyz", &fit, false, 200),
            ("/readyz", &fit, true, 503),
            ("/readyz", &broken, false, 503),
            ("/", &fit, false, 404),
        ] {
            assert_eq!(probe(path, ready, stopping).status(), status, "{path} stopping {stopping}");
        }
    }
}
