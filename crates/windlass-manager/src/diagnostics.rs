//! Answers those who ask how it is: `/healthz`, `/readyz` and `/metrics`, over plain HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// How many may ask at the same time; probes and scrapes are few.
const CONNECTIONS: usize = 64;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

type Ask<T> = Arc<dyn Fn() -> T + Send + Sync>;

/// What there is to answer.
#[derive(Clone)]
pub struct Diagnostics {
    ready: Ask<Result<(), String>>,
    metrics: Ask<String>,
}

impl Diagnostics {
    /// `ready` says why not, if it is not; `metrics` is the text of all of them.
    pub fn new(
        ready: impl Fn() -> Result<(), String> + Send + Sync + 'static,
        metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        Self { ready: Arc::new(ready), metrics: Arc::new(metrics) }
    }

    fn answer(&self, method: &Method, path: &str) -> (StatusCode, String) {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        }
        match path {
            "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => match (self.ready)() {
                Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
                Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
            },
            "/metrics" => (StatusCode::OK, (self.metrics)()),
            _ => (StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics\n".to_owned()),
        }
    }
}

/// Answers until it is dropped.
pub async fn serve_diagnostics(listener: TcpListener, diagnostics: Diagnostics) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: others must end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let diagnostics = diagnostics.clone();
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(move |request: Request<Incoming>| {
                let (status, text) = diagnostics.answer(request.method(), request.uri().path());
                std::future::ready(Ok::<_, Infallible>(response(status, text)))
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), service);
            // A connection that breaks is the caller's to notice.
            let _ = connection.await;
        });
    }
}

fn response(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_answer() {
        let diagnostics = Diagnostics::new(|| Err("not synced".to_owned()), || "m 1\n".to_owned());
        for (method, path, status, text) in [
            (Method::GET, "/healthz", 200, "ok\n"),
            (Method::GET, "/readyz", 503, "not synced\n"),
            (Method::GET, "/metrics", 200, "m 1\n"),
            (Method::GET, "/", 404, "there are /healthz, /readyz and /metrics\n"),
            (Method::POST, "/metrics", 405, "only GET\n"),
        ] {
            let (code, said) = diagnostics.answer(&method, path);
            assert_eq!((code.as_u16(), said.as_str()), (status, text), "{method} {path}");
        }
    }
}
