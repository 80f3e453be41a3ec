//! The service: from a request to an answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::api::{Accept, Failure, Query, ResourcePath, Route};
use crate::budget::Origin;
use crate::identity::Identity;
use crate::impersonate::impersonate;
use crate::registry::Resource;
use crate::response::{Body, Reply, failure_response};
use crate::server::ApiServer;
use crate::verbs::Call;
use crate::{authorize, discovery, openapi};

/// Answers requests in the name of one user. Cheap to clone.
///
/// It is a `tower::Service`, which is all that `kube::Client::new` and an HTTP server need.
#[derive(Debug, Clone)]
pub struct Service {
    server: ApiServer,
    identity: Identity,
    client: Client,
}

/// Whose budget a request is counted in: that of the client itself, also when it acts for another user.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) origin: Origin,
    pub(crate) user: String,
}

impl Service {
    pub(crate) fn new(server: ApiServer, identity: Identity, origin: Origin) -> Self {
        let client = Client { origin, user: identity.username.clone() };
        Self { server, identity, client }
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        let asked = request.uri().query().and_then(|query| Query::parse(query).ok()?.pretty);
        let pretty = is_for_people(request.headers(), asked);
        match self.try_answer(request).await {
            Ok(reply) if pretty => reply.pretty().into_response(),
            Ok(reply) => reply.into_response(),
            Err(failure) => failure_response(failure, pretty),
        }
    }

    async fn try_answer<B>(&self, request: Request<B>) -> Result<Reply, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        let (parts, body) = request.into_parts();
        let route = Route::parse(parts.uri.path());
        if let Some(other) = impersonate(self.server.inner(), &self.identity, &parts.headers)? {
            let service = Self { identity: other, ..self.clone() };
            return service.dispatch(route, parts, body).await;
        }
        self.dispatch(route, parts, body).await
    }

    async fn dispatch<B>(&self, route: Route, parts: Parts, body: B) -> Result<Reply, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        authorize::path(self.server.inner(), &self.identity, &parts.method, &route, parts.uri.path())?;
        let path = match route {
            Route::Resource(path) => path,
            route => return self.answer_about_server(&route, &parts),
        };
        let query = Query::parse(parts.uri.query().unwrap_or_default())?;
        let watch = query.watch || path.watch;
        authorize::resource(self.server.inner(), &self.identity, &parts.method, &path, &query)?;
        let call = self.call(path, query, parts.headers)?;
        let is_watch = watch && (call.name.is_none() || !call.query.watch);
        let limits = self.server.inner().limits;
        let budget = Arc::clone(self.server.inner().budgets.of(self.client.origin));
        let own = if is_watch { None } else { Some(budget.place_of(&self.client.user).await?) };
        // Read before a place among all is taken: a slow sender takes only its own.
        let body = timeout(limits.body_patience, read(body, &call.headers, limits.body)).await;
        let body = body.map_err(|_| Failure::bad_request("the body did not arrive in time"))??;
        let turn = if is_watch { None } else { Some(budget.turn().await?) };
        let mut reply = call.run(&parts.method, is_watch, body).await?;
        drop(turn);
        // A client that does not read its answers keeps its own places, and bytes of a bounded number.
        reply.body.hold(budget.answer(&self.client.user, reply.body.kept())?, own);
        Ok(reply)
    }

    fn call(&self, path: ResourcePath, query: Query, headers: HeaderMap) -> Result<Call, Failure> {
        let server = self.server.inner();
        let registry = server.registry();
        let resource = registry.get(&path.group, &path.version, &path.resource).ok_or(Failure::NoSuchPath)?;
        let resource = Arc::clone(resource);
        check_scope(&resource, &path)?;
        let subresource = match &path.subresource {
            Some(name) => Some(resource.subresource(name).cloned().ok_or(Failure::NoSuchPath)?),
            None => None,
        };
        let view = Accept::of(&headers).view()?;
        Ok(Call {
            server: Arc::clone(server),
            registry,
            resource,
            namespace: path.namespace.unwrap_or_default(),
            name: path.name,
            subresource,
            query,
            headers,
            identity: self.identity.clone(),
            client: self.client.clone(),
            view,
        })
    }

    fn answer_about_server(&self, route: &Route, parts: &Parts) -> Result<Reply, Failure> {
        let Parts { method, headers, uri, .. } = parts;
        if method != Method::GET && method != Method::HEAD {
            return Err(Failure::method_not_allowed());
        }
        let registry = self.server.inner().registry();
        let accept = Accept::of(headers);
        match route {
            // A server that cannot write lives, but is not ready.
            Route::Health if uri.path().starts_with("/readyz") => match self.server.store().failure() {
                Some(reason) => Err(Failure::unavailable(format!("the store cannot write: {reason}"))),
                None => Ok(Reply::text("ok")),
            },
            Route::Health => Ok(Reply::text("ok")),
            Route::Version => Ok(Reply::json(StatusCode::OK, discovery::version())),
            Route::Root => Ok(Reply::json(StatusCode::OK, discovery::root(&registry))),
            Route::CoreVersions => discovery::core(&registry, &accept),
            Route::Groups => discovery::groups(&registry, &accept),
            Route::Group(name) => discovery::group(&registry, name),
            Route::GroupVersion { group, version } => discovery::resources(&registry, group, version),
            Route::OpenApiV2 | Route::OpenApiV3 | Route::OpenApiV3Group(_) => {
                openapi::answer(self.server.inner(), route, headers, uri.query())
            }
            Route::Resource(_) | Route::Unknown => Err(Failure::NoSuchPath),
        }
    }
}

/// A resource is reached with a namespace exactly if it has one, except for lists over all of them.
fn check_scope(resource: &Resource, path: &ResourcePath) -> Result<(), Failure> {
    let fits = match (resource.namespaced, &path.namespace) {
        (true, None) => path.name.is_none(),
        (false, Some(_)) => false,
        (true, Some(_)) | (false, None) => true,
    };
    if fits { Ok(()) } else { Err(Failure::NoSuchPath) }
}

/// Reads a body up to the limit. One that says it is longer is not read at all.
async fn read<B>(body: B, headers: &HeaderMap, limit: usize) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(Failure::body_too_large(limit));
    }
    let mut body = std::pin::pin!(body);
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::bad_request(format!("the body ended early: {error}")))?;
        if let Ok(data) = frame.into_data() {
            if read.len() + data.len() > limit {
                return Err(Failure::body_too_large(limit));
            }
            if read.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            read.extend_from_slice(&data);
        }
    }
    Ok(read.freeze())
}

/// Whether a person reads the answer with curl or a browser.
pub(crate) fn is_for_people(headers: &HeaderMap, pretty: Option<bool>) -> bool {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    pretty.unwrap_or_else(|| ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool)))
}

impl<B> tower_service::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}
