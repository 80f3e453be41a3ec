//! What carries calls to a member: HTTP/2 over whatever stream leads there.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tower::Service;
use tower::util::BoxCloneSyncService;

use crate::error::ConnectionError;
use crate::tls::Credentials;

/// How long a connection may take, TLS included.
const CONNECT: Duration = Duration::from_secs(10);

/// The largest answer. Lists of members have a few hundred bytes.
const LIMIT: usize = 4 << 20;

/// A way to one member: a `tower` service, over a network or in the process. The trailers of an answer are among its
/// headers.
#[derive(Clone)]
pub struct Channel(BoxCloneSyncService<Request<Bytes>, Response<Bytes>, ConnectionError>);

impl Channel {
    /// Calls go to a service.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Request<Bytes>, Response = Response<Bytes>, Error = ConnectionError>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        Self(BoxCloneSyncService::new(service))
    }

    /// Calls go over a stream that leads to the client port of a member, without TLS.
    ///
    /// # Errors
    ///
    /// If what is at the other end does not speak HTTP/2.
    pub async fn plain<S>(stream: S) -> Result<Self, ConnectionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        in_time(http2(stream, Scheme::HTTP, Authority::from_static("etcd"))).await
    }

    /// Calls go over a stream that leads to the client port of a member, with TLS. The member must have a certificate of
    /// the authority, for whichever name: a member that is reached through a port-forward is called by a name that kubeadm
    /// does not write into its certificate. `name` is what it is asked for.
    ///
    /// # Errors
    ///
    /// If the member does not prove that it belongs to the authority, or does not take our certificate.
    pub async fn tls<S>(stream: S, credentials: &Credentials, name: &str) -> Result<Self, ConnectionError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connect = async {
            let stream = credentials.connect(stream, name).await?;
            let authority = Authority::try_from(name).unwrap_or(Authority::from_static("etcd"));
            http2(stream, Scheme::HTTPS, authority).await
        };
        in_time(connect).await
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel")
    }
}

impl Service<Request<Bytes>> for Channel {
    type Response = Response<Bytes>;
    type Error = ConnectionError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, ConnectionError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        self.0.call(request)
    }
}

async fn in_time(
    connect: impl Future<Output = Result<Channel, ConnectionError>>,
) -> Result<Channel, ConnectionError> {
    timeout(CONNECT, connect).await.unwrap_or(Err(ConnectionError::TimedOut(CONNECT)))
}

async fn http2<S>(stream: S, scheme: Scheme, authority: Authority) -> Result<Channel, ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| broken(&error))?;
    // Ends when the last sender is dropped. What is wrong with it, calls say.
    tokio::spawn(async move { drop(connection.await) });
    Ok(Channel::new(Http2 { sender, scheme, authority }))
}

#[derive(Clone)]
struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    scheme: Scheme,
    authority: Authority,
}

impl Service<Request<Bytes>> for Http2 {
    type Response = Response<Bytes>;
    type Error = ConnectionError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, ConnectionError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        self.sender.poll_ready(context).map_err(|error| broken(&error))
    }

    fn call(&mut self, mut request: Request<Bytes>) -> Self::Future {
        let mut uri = std::mem::take(request.uri_mut()).into_parts();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        uri.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
        match Uri::from_parts(uri) {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => return Box::pin(std::future::ready(Err(broken(&error)))),
        }
        let answer = self.sender.send_request(request.map(Full::new));
        Box::pin(async move {
            let (mut parts, body) = answer.await.map_err(|error| broken(&error))?.into_parts();
            let body = Limited::new(body, LIMIT).collect().await;
            let body = body.map_err(|error| broken(error.as_ref()))?;
            parts.headers.extend(body.trailers().cloned().unwrap_or_default());
            Ok(Response::from_parts(parts, body.to_bytes()))
        })
    }
}

/// With its causes: hyper says what broke in the second line.
fn broken(error: &(dyn std::error::Error + 'static)) -> ConnectionError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let why = next.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        cause = next.source();
    }
    ConnectionError::Broken(text)
}
