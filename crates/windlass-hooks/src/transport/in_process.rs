//! Calls to extensions that live in this process.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use tower::{Service, ServiceExt};

use super::{BoxTransport, Endpoint, TransportError, boxed};

/// Dispatches to services of this process: no sockets, no TLS, no threads, so that a simulation is the same
/// every time.
///
/// An extension is found by the name of its ExtensionConfig, or by the host of its URL, with or without the
/// port. Clones share their extensions; one that is removed is down.
#[derive(Clone, Default)]
pub struct InProcess {
    extensions: Arc<RwLock<BTreeMap<String, BoxTransport>>>,
    otherwise: Option<BoxTransport>,
}

impl InProcess {
    /// A transport without extensions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands all other requests to another transport.
    #[must_use]
    pub fn or_else(mut self, transport: BoxTransport) -> Self {
        self.otherwise = Some(transport);
        self
    }

    /// Adds an extension under the name of its ExtensionConfig or its host, or replaces it.
    pub fn add<S>(&self, name_or_host: impl Into<String>, extension: S)
    where
        S: Service<http::Request<Bytes>, Response = http::Response<Bytes>> + Clone + Send + Sync + 'static,
        S::Error: fmt::Display,
        S::Future: Send + 'static,
    {
        let extension = boxed(
            extension
                .map_err(|error: S::Error| TransportError::Broken(format!("the extension broke: {error}"))),
        );
        let mut extensions = self.extensions.write().unwrap_or_else(PoisonError::into_inner);
        extensions.insert(name_or_host.into(), extension);
    }

    /// Removes an extension, so that calls to it fail.
    pub fn remove(&self, name_or_host: &str) {
        self.extensions.write().unwrap_or_else(PoisonError::into_inner).remove(name_or_host);
    }

    fn find(&self, request: &http::Request<Bytes>) -> Option<BoxTransport> {
        let extensions = self.extensions.read().unwrap_or_else(PoisonError::into_inner);
        let name = request.extensions().get().map(Endpoint::extension);
        let authority = request.uri().authority().map(http::uri::Authority::as_str);
        let names = [name, authority, request.uri().host()];
        let found = names.into_iter().flatten().find_map(|name| extensions.get(name).cloned());
        found.or_else(|| self.otherwise.clone())
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extensions = self.extensions.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(extensions.keys()).finish()
    }
}

impl Service<http::Request<Bytes>> for InProcess {
    type Response = http::Response<Bytes>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Bytes>, TransportError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        // Which service is meant is known only with the request, so it is waited for there.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Bytes>) -> Self::Future {
        match self.find(&request) {
            Some(extension) => Box::pin(extension.oneshot(request)),
            None => {
                let host = request.uri().host().unwrap_or_default().to_owned();
                Box::pin(async move { Err(TransportError::NotInProcess { host }) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tower::service_fn;
    use windlass_api::runtime::CaBundle;

    use super::*;

    fn says(
        text: &'static str,
    ) -> impl Service<
        http::Request<Bytes>,
        Response = http::Response<Bytes>,
        Error = Infallible,
        Future = impl Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static {
        service_fn(move |_| async move { Ok(http::Response::new(Bytes::from_static(text.as_bytes()))) })
    }

    async fn call(transport: &InProcess, extension: &str, uri: &str) -> Result<Bytes, TransportError> {
        let mut request = http::Request::post(uri).body(Bytes::new()).unwrap();
        request.extensions_mut().insert(Endpoint::new(extension, CaBundle::default()));
        transport.clone().oneshot(request).await.map(http::Response::into_body)
    }

    #[tokio::test]
    async fn an_extension_is_found_by_name_then_by_host() {
        let transport = InProcess::new();
        transport.add("ext1", says("name"));
        transport.add("h.example", says("host"));
        transport.add("h.example:8443", says("port"));
        assert_eq!(call(&transport, "ext1", "https://h.example/").await.unwrap(), "name");
        assert_eq!(call(&transport, "ext2", "https://h.example/").await.unwrap(), "host");
        assert_eq!(call(&transport, "ext2", "https://h.example:8443/").await.unwrap(), "port");
        assert_eq!(call(&transport, "ext2", "https://h.example:1/").await.unwrap(), "host");
    }

    #[tokio::test]
    async fn an_extension_that_is_not_there_is_down_unless_there_is_another_way() {
        let transport = InProcess::new();
        transport.add("ext1", says("here"));
        transport.remove("ext1");
        let error = call(&transport, "ext1", "https://h.example/").await.unwrap_err();
        assert_eq!(error, TransportError::NotInProcess { host: "h.example".to_owned() });
        let elsewhere = InProcess::new();
        elsewhere.add("ext1", says("there"));
        let transport = transport.or_else(boxed(elsewhere));
        assert_eq!(call(&transport, "ext1", "https://h.example/").await.unwrap(), "there");
    }
}
