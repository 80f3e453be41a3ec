//! Lets requests through only while an API server of the cluster runs.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tower::Service;

/// Whether requests are let in. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Door {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Machines whose API servers run.
    serving: BTreeSet<String>,
    /// Nodes that were there before a restart and are not yet again. No client may see the cluster without them: a Node
    /// that is missing looks as if it had been deleted.
    awaited: BTreeSet<String>,
}

impl Door {
    pub(super) fn awaiting(nodes: BTreeSet<String>) -> Self {
        Self { state: Arc::new(Mutex::new(State { serving: BTreeSet::new(), awaited: nodes })) }
    }

    pub(super) fn arrived(&self, node: &str) {
        self.state().awaited.remove(node);
    }

    pub(super) fn open(&self, machine: &str) {
        self.state().serving.insert(machine.to_owned());
    }

    pub(super) fn close(&self, machine: &str) {
        self.state().serving.remove(machine);
    }

    pub(super) fn close_all(&self) {
        self.state().serving.clear();
    }

    pub(super) fn is_open(&self) -> bool {
        let state = self.state();
        !state.serving.is_empty() && state.awaited.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service behind a door. A request at a closed door fails as a connection would that is refused.
#[derive(Clone, Debug)]
pub(super) struct Gate<S> {
    service: S,
    door: Door,
    host: Arc<str>,
}

impl<S> Gate<S> {
    pub(super) fn new(service: S, door: Door, host: &str) -> Self {
        Self { service, door, host: host.into() }
    }
}

impl<S, R> Service<R> for Gate<S>
where
    S: Service<R, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        self.service.poll_ready(context).map_err(|never| match never {})
    }

    fn call(&mut self, request: R) -> Self::Future {
        if !self.door.is_open() {
            let why = format!("connection to {} refused", self.host);
            return Box::pin(async move { Err(io::Error::new(io::ErrorKind::ConnectionRefused, why)) });
        }
        let answer = self.service.call(request);
        Box::pin(async move { answer.await.map_err(|never| match never {}) })
    }
}
