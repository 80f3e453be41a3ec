//! One connection, from the handshake to its end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::Limits;
use super::activity::{Activity, Call};
use super::body::{self, Budget};
use crate::answer;
use crate::extension::Extension;
use crate::tls::LiveTls;

/// How long a connection may take to say goodbye once there is no call on it.
const FAREWELL: Duration = Duration::from_secs(5);
/// Calls at once on one connection. Callers share one connection for all their calls.
const MAX_STREAMS: u32 = 256;
/// Lets a body of some size arrive without a round trip for every 64 KiB of it.
const WINDOW_BYTES: u32 = 1024 * 1024;
/// A caller that has vanished is noticed after these two.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) extension: Extension,
    pub(crate) tls: Arc<LiveTls>,
    pub(crate) limits: Limits,
    pub(crate) memory: Budget,
    pub(crate) shutdown: watch::Receiver<bool>,
}

impl Shared {
    /// Serves a connection until it ends.
    pub(crate) async fn serve(mut self, stream: TcpStream) {
        let acceptor = TlsAcceptor::from(self.tls.config());
        let handshake = timeout(self.limits.handshake_timeout, acceptor.accept(stream));
        let accepted = tokio::select! {
            accepted = handshake => accepted,
            _ = self.shutdown.wait_for(|&now| now) => return,
        };
        let stream = match accepted {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return debug!(%error, "handshake failed"),
            Err(_) => return debug!("handshake took too long"),
        };
        // The protocol comes from the handshake and not from the first bytes: waiting for those would have
        // no time limit.
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(stream);
        let activity = Activity::new();
        let service = service_fn(|request| self.clone().answer(activity.begin(), request));
        let result = if http2 {
            let connection = self.http2().serve_connection(io, service);
            self.drive(connection, &activity).await
        } else {
            let connection = self.http1().serve_connection(io, service);
            self.drive(connection, &activity).await
        };
        if let Err(error) = result {
            debug!(%error, "connection ended");
        }
    }

    fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(self.limits.max_header_bytes);
        builder
    }

    fn http2(&self) -> http2::Builder<TokioExecutor> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(4 * WINDOW_BYTES)
            .max_header_list_size(u32::try_from(self.limits.max_header_bytes).unwrap_or(u32::MAX));
        builder
    }

    /// Runs a connection; ends it in good order when the server stops or the connection is idle.
    async fn drive<C, E>(&self, connection: C, activity: &Activity) -> Result<(), E>
    where
        C: GracefulConnection<Error = E> + Future<Output = Result<(), E>>,
    {
        let mut connection = pin!(connection);
        let mut shutdown = self.shutdown.clone();
        tokio::select! {
            result = connection.as_mut() => return result,
            _ = shutdown.wait_for(|&now| now) => {}
            () = activity.idle_for(self.limits.idle_timeout) => debug!("connection is not used"),
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            result = connection.as_mut() => result,
            // Calls in flight finish, however long they take; half a request does not hold up anything.
            () = activity.idle_for(FAREWELL) => Ok(()),
        }
    }

    async fn answer(
        self,
        _call: Call,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        // The time in which the body arrives counts against the deadline: the caller's clock runs already.
        let received = Instant::now();
        let (head, incoming) = request.into_parts();
        let response = match self.extension.route(&head.method, &head.uri) {
            Err(none) => none.response(),
            Ok(route) => {
                match body::read(incoming, &self.memory, received + self.limits.body_timeout).await {
                    Err(message) => answer::failure(route, &message),
                    Ok((body, _held)) => answer::call(route, head.uri.query(), received, &body).await,
                }
            }
        };
        Ok(response.map(Full::new))
    }
}
