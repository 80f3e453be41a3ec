//! An extension: which path leads to which handler, and the answer to every request.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use tokio::time::Instant;
use tower_service::Service;
use windlass_api::handler_name::{HandlerName, HandlerNameError};
use windlass_api::hooks::{ExtensionHandler, Hook, HookType, decode};

use crate::answer::{self, plain};
use crate::handler::Handle;
use crate::registration::ExtensionBuilder;

/// Largest request that is read, as in Cluster API's own server.
pub const MAX_BODY_BYTES: usize = 20 * 1024 * 1024;

/// An extension, ready to answer. Clones share everything.
///
/// It is a [`Service`] from a request with its body to a response with its body, so it can be called without
/// a socket, as tests and simulations do; [`Server`](crate::Server) puts it behind TLS. Whatever goes wrong
/// inside a call is answered with status 200 and a failure in the shape of the hook, because callers show
/// such a message to the user and treat everything else as an outage.
#[derive(Clone)]
pub struct Extension {
    parts: Arc<Parts>,
}

struct Parts {
    name: String,
    base_path: String,
    handlers: Vec<ExtensionHandler>,
    routes: Arc<BTreeMap<String, Route>>,
}

/// What is behind one path.
pub(crate) struct Route {
    pub(crate) hook: Hook,
    pub(crate) handler: String,
    pub(crate) timeout_seconds: u32,
    pub(crate) handle: Box<dyn Handle>,
}

impl Extension {
    /// An extension without handlers. The name is that of its ExtensionConfig, unless you choose another.
    #[expect(clippy::new_ret_no_self, reason = "an extension is built from its handlers")]
    pub fn new(name: impl Into<String>) -> ExtensionBuilder {
        ExtensionBuilder::new(name.into())
    }

    pub(crate) fn from_parts(
        name: String,
        base_path: String,
        handlers: Vec<ExtensionHandler>,
        routes: Arc<BTreeMap<String, Route>>,
    ) -> Self {
        Self { parts: Arc::new(Parts { name, base_path, handlers, routes }) }
    }

    /// The name of the extension.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// The path that goes before the path of every hook; empty if there is none.
    pub fn base_path(&self) -> &str {
        &self.parts.base_path
    }

    /// The handlers as discovery tells them.
    pub fn handlers(&self) -> &[ExtensionHandler] {
        &self.parts.handlers
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (head, body) = request.into_parts();
        let route = match self.route(&head.method, &head.uri) {
            Ok(route) => route,
            Err(none) => return none.response(),
        };
        if body.len() > MAX_BODY_BYTES {
            return answer::failure(route, answer::TOO_LARGE);
        }
        answer::call(route, head.uri.query(), Instant::now(), &body).await
    }

    /// Calls a handler the way a caller does, encoding and decoding included. For tests of an extension.
    ///
    /// # Errors
    ///
    /// When there is no such handler.
    pub async fn invoke<H: HookType>(
        &self,
        _hook: H,
        handler: &str,
        request: &H::Request,
    ) -> Result<H::Response, InvokeError> {
        let path = if H::HOOK.is_singleton() {
            H::HOOK.base_path()
        } else {
            H::HOOK.path(&HandlerName::new(handler)?)
        };
        let request = Request::post(format!("{}{path}", self.base_path()))
            .body(Bytes::from(serde_json::to_vec(request)?))?;
        let response = self.answer(request).await;
        if response.status() != StatusCode::OK {
            return Err(InvokeError::Status(response.status()));
        }
        Ok(decode(response.body())?)
    }

    /// The handler that a request is for, or the answer if there is none. Paths are exact, as they are for
    /// servers written in Go: another case or a trailing slash is another path.
    pub(crate) fn route(&self, method: &Method, uri: &Uri) -> Result<&Route, NoRoute> {
        let route = self.parts.routes.get(uri.path()).ok_or(NoRoute::Path)?;
        if method == Method::POST { Ok(route) } else { Err(NoRoute::Method) }
    }
}

/// Why a request is for no handler.
#[derive(Clone, Copy)]
pub(crate) enum NoRoute {
    Path,
    Method,
}

impl NoRoute {
    pub(crate) fn response(self) -> Response<Bytes> {
        match self {
            Self::Path => plain(StatusCode::NOT_FOUND, "no handler is registered at this path\n"),
            Self::Method => {
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "hooks are called with POST\n");
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
                response
            }
        }
    }
}

impl Service<Request<Bytes>> for Extension {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let extension = self.clone();
        Box::pin(async move { Ok(extension.answer(request).await) })
    }
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extension")
            .field("name", &self.parts.name)
            .field("paths", &self.parts.routes.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// Why [`Extension::invoke`] got no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvokeError {
    /// The name of the handler cannot be one.
    #[error(transparent)]
    Name(#[from] HandlerNameError),
    /// The request or the response is not JSON of the hook.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The path is no path.
    #[error(transparent)]
    Http(#[from] http::Error),
    /// There is no such handler.
    #[error("answered with HTTP status {0}")]
    Status(StatusCode),
}
