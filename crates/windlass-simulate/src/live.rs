//! Extensions where they are, called over HTTPS from a world whose clock stands still meanwhile.
//!
//! Sockets need time that passes, and the clock of a world jumps whenever nothing is to be done. So calls are made by a
//! runtime of their own, and the world waits for them in a blocking task: as long as there is one, tokio does not move
//! a paused clock.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use tokio::runtime::{Builder, Runtime};
use tower::{Service, ServiceExt};
use windlass_api::GoDuration;
use windlass_hooks::transport::{HttpsTransport, TransportError};

/// The longest that a handler may ask for.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls extensions over HTTPS, in real time.
#[derive(Clone)]
pub(crate) struct LiveTransport {
    runtime: Arc<RealTime>,
    https: HttpsTransport,
}

/// A runtime whose clock goes on. It may be dropped inside of another one.
struct RealTime(Option<Runtime>);

impl Drop for RealTime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl LiveTransport {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { runtime: Arc::new(RealTime(Some(runtime))), https: HttpsTransport::new() })
    }
}

/// How long an answer may take, as the request says. The clock that the caller would measure it by does not move.
fn timeout(uri: &Uri) -> Duration {
    let parameters = uri.query().unwrap_or_default().split('&');
    let given =
        parameters.filter_map(|parameter| parameter.strip_prefix("timeout=")?.parse::<GoDuration>().ok());
    given.filter_map(GoDuration::to_std).next().unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT)
}

impl Service<Request<Bytes>> for LiveTransport {
    type Response = Response<Bytes>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, TransportError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (runtime, https) = (Arc::clone(&self.runtime), self.https.clone());
        let limit = timeout(request.uri());
        let broken = |why: String| TransportError::Broken(why);
        Box::pin(async move {
            let call = move || {
                let Some(runtime) = &runtime.0 else { return Err(broken("the simulation ends".to_owned())) };
                let answer = runtime
                    .handle()
                    .block_on(async move { tokio::time::timeout(limit, https.oneshot(request)).await });
                answer.unwrap_or_else(|_| Err(broken(format!("no answer within {} s", limit.as_secs()))))
            };
            tokio::task::spawn_blocking(call).await.map_err(|error| broken(error.to_string()))?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_says_how_long_it_may_take() {
        for (uri, milliseconds) in [
            ("https://a.example/x?timeout=7s", 7_000),
            ("https://a.example/x?timeout=1.5s", 1_500),
            ("https://a.example/x?timeout=500ms", 500),
            ("https://a.example/x", 30_000),
            ("https://a.example/x?timeout=7m", 30_000),
            ("https://a.example/x?a=b&timeout=900s", 30_000),
        ] {
            assert_eq!(timeout(&uri.parse().unwrap()), Duration::from_millis(milliseconds), "{uri}");
        }
    }
}
