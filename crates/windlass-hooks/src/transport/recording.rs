//! Recording: every exchange becomes a file.

use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tower::{Layer, Service};
use windlass_api::names::HOOKS_VERSION;

use super::TransportError;
use super::exchange::{Exchange, Outcome, RecordedRequest};

/// Writes every exchange to a directory, one JSON file each, for [`Replay`](super::Replay) or for reading.
///
/// Files are numbered in the order in which requests were made, after those that are there already. Headers
/// that could hold secrets are left out; bodies are written whole, with the settings of the extension.
/// A file that cannot be written is logged and does not fail the call: the extension has acted by then.
#[derive(Clone, Debug)]
pub struct RecordLayer(Arc<Directory>);

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    last: AtomicU64,
}

impl RecordLayer {
    /// Records into a directory, which is made if need be.
    ///
    /// # Errors
    ///
    /// When the directory can be neither made nor read.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let path = directory.into();
        fs::create_dir_all(&path)?;
        let last = recordings(&path)?.last().map_or(0, |(number, _)| *number);
        Ok(Self(Arc::new(Directory { path, last: AtomicU64::new(last) })))
    }
}

impl<S> Layer<S> for RecordLayer {
    type Service = Record<S>;

    fn layer(&self, inner: S) -> Record<S> {
        Record { inner, directory: Arc::clone(&self.0) }
    }
}

/// A transport whose exchanges are recorded. Made by [`RecordLayer`].
#[derive(Clone, Debug)]
pub struct Record<S> {
    inner: S,
    directory: Arc<Directory>,
}

impl<S> Service<http::Request<Bytes>> for Record<S>
where
    S: Service<http::Request<Bytes>, Response = http::Response<Bytes>, Error = TransportError>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Bytes>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Bytes>, TransportError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Bytes>) -> Self::Future {
        let pending = Pending {
            directory: Arc::clone(&self.directory),
            number: self.directory.last.fetch_add(1, Ordering::Relaxed) + 1,
            exchange: Exchange { request: RecordedRequest::of(&request), outcome: Outcome::Unanswered },
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let result = answer.await;
            pending.end(Outcome::of(&result));
            result
        })
    }
}

/// An exchange that is written when it is over, also when the caller gives up and drops it.
struct Pending {
    directory: Arc<Directory>,
    number: u64,
    exchange: Exchange,
}

impl Pending {
    fn end(mut self, outcome: Outcome) {
        self.exchange.outcome = outcome;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let name = file_name(self.number, self.exchange.request.path());
        if let Err(error) = write(&self.directory.path, &name, &self.exchange) {
            tracing::error!(%error, file = name, "a hook call could not be recorded");
        }
    }
}

/// Under its name a file is always complete: it is written under another one first.
fn write(directory: &Path, name: &str, exchange: &Exchange) -> io::Result<()> {
    let mut json = serde_json::to_vec_pretty(exchange)?;
    json.push(b'\n');
    let unfinished = directory.join(format!(".{name}.unfinished"));
    fs::write(&unfinished, json)?;
    fs::rename(unfinished, directory.join(name))
}

/// Number, hook and handler, so that a listing of the directory tells the story.
fn file_name(number: u64, path: &str) -> String {
    let after_version = path.split('/').skip_while(|segment| *segment != HOOKS_VERSION).skip(1);
    let story: String = after_version.map(|segment| format!("-{segment}")).collect();
    let story = story.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '-'), "_");
    format!("{number:06}{story}.json")
}

/// The recordings in a directory, in the order in which their requests were made.
pub(super) fn recordings(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(stem) = name.strip_suffix(".json") else { continue };
        if let Ok(number) = stem.split('-').next().unwrap_or_default().parse() {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_the_call() {
        for (path, name) in [
            ("/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery", "000001-discovery.json"),
            ("/b/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/up", "000001-updatemachine-up.json"),
            ("/hooks.runtime.cluster.x-k8s.io/v1alpha1/x/..%2f", "000001-x-___2f.json"),
            ("/", "000001.json"),
        ] {
            assert_eq!(file_name(1, path), name);
        }
    }

    #[test]
    fn numbers_go_on_after_those_that_are_there() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["000002-discovery.json", "000010.json", ".000011.json.unfinished", "notes.txt"] {
            fs::write(directory.path().join(name), "{}").unwrap();
        }
        let layer = RecordLayer::new(directory.path()).unwrap();
        assert_eq!(layer.0.last.load(Ordering::Relaxed), 10);
    }
}
