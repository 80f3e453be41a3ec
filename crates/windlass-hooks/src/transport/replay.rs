//! Replay: answers come from recorded files.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tower::{Layer, Service};

use super::TransportError;
use super::exchange::{Exchange, Outcome, RecordedBody, RecordedRequest};
use super::recording::recordings;

/// Answers from a directory that [`RecordLayer`](super::RecordLayer) wrote, and calls no extension.
///
/// A request is found by method, path and body; the order of keys in the body and the query do not matter.
/// Of several recordings of the same request each is used once, in order, and the last again and again. If
/// two extensions were called with the same, each gets its own. A recorded call that no caller waited for is
/// never answered, so that the caller's timeout runs out as it did then.
#[derive(Clone, Debug)]
pub struct Replay(Arc<Mutex<BTreeMap<Key, Recorded>>>);

/// Extension, method, path and body, the latter with sorted keys.
type Key = [String; 4];

#[derive(Debug, Default)]
struct Recorded {
    outcomes: Vec<Outcome>,
    next: usize,
}

impl Replay {
    /// Reads all recordings of a directory.
    ///
    /// # Errors
    ///
    /// When the directory or a file in it cannot be read, or a file is no recording.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, ReplayError> {
        let directory = directory.as_ref();
        let read_error = |path: &Path, source| ReplayError::Read { path: path.display().to_string(), source };
        let mut exchanges: BTreeMap<Key, Recorded> = BTreeMap::new();
        for (_, path) in recordings(directory).map_err(|error| read_error(directory, error))? {
            let json = fs::read(&path).map_err(|error| read_error(&path, error))?;
            let exchange: Exchange = serde_json::from_slice(&json)
                .map_err(|source| ReplayError::Parse { path: path.display().to_string(), source })?;
            exchanges.entry(key(&exchange.request)).or_default().outcomes.push(exchange.outcome);
        }
        Ok(Self(Arc::new(Mutex::new(exchanges))))
    }

    fn next(&self, request: &RecordedRequest) -> Result<Outcome, TransportError> {
        let wanted = key(request);
        let mut exchanges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same_extension = exchanges.contains_key(&wanted);
        let found = exchanges.iter_mut().find(|(key, _)| match same_extension {
            true => **key == wanted,
            false => key[1..] == wanted[1..],
        });
        let outcome = found.and_then(|(_, recorded)| {
            let outcome = recorded.outcomes.get(recorded.next).or(recorded.outcomes.last())?.clone();
            recorded.next += 1;
            Some(outcome)
        });
        outcome.ok_or_else(|| TransportError::NotRecorded {
            method: request.method.clone(),
            path: request.path().to_owned(),
        })
    }
}

fn key(request: &RecordedRequest) -> Key {
    let body = match &request.body {
        RecordedBody::Json(json) => json.to_string(),
        RecordedBody::Text(text) | RecordedBody::Base64(text) => text.clone(),
    };
    [request.extension.clone(), request.method.clone(), request.path().to_owned(), body]
}

impl Service<http::Request<Bytes>> for Replay {
    type Response = http::Response<Bytes>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Bytes>, TransportError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Bytes>) -> Self::Future {
        let outcome = self.next(&RecordedRequest::of(&request));
        Box::pin(async move {
            match outcome? {
                Outcome::Response(response) => response.to_response().map_err(TransportError::Replayed),
                Outcome::Error(text) => Err(TransportError::Replayed(text)),
                Outcome::Unanswered => std::future::pending().await,
            }
        })
    }
}

/// Puts a [`Replay`] in the place of a transport, where a layer is easier to pass around than a service.
#[derive(Clone, Debug)]
pub struct ReplayLayer(Replay);

impl ReplayLayer {
    /// Reads all recordings of a directory.
    ///
    /// # Errors
    ///
    /// As [`Replay::open`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, ReplayError> {
        Replay::open(directory).map(Self)
    }
}

impl<S> Layer<S> for ReplayLayer {
    type Service = Replay;

    fn layer(&self, _: S) -> Replay {
        self.0.clone()
    }
}

/// Why recordings cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The directory or a file.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Not a recording.
    #[error("{path} is not a recorded hook call: {source}")]
    Parse {
        /// Which file.
        path: String,
        /// Why.
        source: serde_json::Error,
    },
}
