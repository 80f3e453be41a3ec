//! Answers: whole ones and streams.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;
use windlass_api::printable;

use crate::api::Failure;
use crate::budget::{Answer, Place};

/// The most bytes of an answer that are handed over at once. A client that opens its window by one byte gets this
/// much buffered for it, and no more.
const PIECE: usize = 16 * 1024;

type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// Why an answer ends before it is complete.
#[derive(Debug, thiserror::Error)]
#[error("the answer cannot be completed: {0}")]
pub struct BodyError(String);

impl From<Failure> for BodyError {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

/// The body of an answer.
pub struct Body {
    content: Content,
    /// What of the stream was made and not taken yet; all of it if the body is there already.
    rest: Bytes,
    /// What the source of a stream takes besides.
    source: u64,
    held: Option<(Answer, Option<Place>)>,
    /// Tells the connection whether the client takes it.
    waiting: Option<Arc<Waiting>>,
}

enum Content {
    Whole,
    Stream(Pieces),
}

impl Body {
    /// A body that is there already.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { content: Content::Whole, rest: bytes.into(), source: 0, held: None, waiting: None }
    }

    /// A body that is made piece by piece, when the client takes it. Its source takes so many bytes.
    pub(crate) fn stream(
        pieces: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
        source: u64,
    ) -> Self {
        let content = Content::Stream(Box::pin(pieces));
        Self { content, rest: Bytes::new(), source, held: None, waiting: None }
    }

    /// How many bytes it keeps.
    pub(crate) fn kept(&self) -> u64 {
        self.source + self.rest.len() as u64
    }

    /// Keeps what the answer takes until it has been sent, or given up.
    pub(crate) fn hold(&mut self, answer: Answer, place: Option<Place>) {
        self.held = Some((answer, place));
    }

    /// Keeps an account of whether the client takes it.
    pub(crate) fn watched(&mut self, waiting: Arc<Waiting>) {
        waiting.for_client();
        self.waiting = Some(waiting);
    }

    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.rest.is_empty() {
            let made = match &mut self.content {
                Content::Whole => return Poll::Ready(None),
                Content::Stream(pieces) => std::task::ready!(pieces.as_mut().poll_next(context)),
            };
            match made {
                Some(Ok(bytes)) => self.rest = bytes,
                end => return Poll::Ready(end),
            }
            let kept = self.kept();
            if self.rest.len() > PIECE
                && let Some((answer, _)) = &mut self.held
                && !answer.resize(kept)
            {
                let message = "too many answers are waiting to be read";
                return Poll::Ready(Some(Err(BodyError(message.to_owned()))));
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        if self.rest.is_empty() {
            let source = self.source;
            // Less than before always fits.
            let _ = self.held.as_mut().map(|(answer, _)| answer.resize(source));
        }
        Poll::Ready(Some(Ok(piece)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let next = self.next(context);
        if let Some(waiting) = &self.waiting {
            // Until it is asked for more, it is the client that takes its time.
            match &next {
                Poll::Ready(Some(_)) => waiting.for_client(),
                Poll::Ready(None) | Poll::Pending => waiting.for_us(),
            }
        }
        next.map(|next| next.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole) && self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole => SizeHint::with_exact(self.rest.len() as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(waiting) = &self.waiting {
            waiting.for_us();
        }
    }
}

/// Since when a client has not taken what there is to take.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Option<Instant>>);

impl Waiting {
    fn for_client(&self) {
        self.set(Some(Instant::now()));
    }

    fn for_us(&self) {
        self.set(None);
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Whether the client has let us wait so long.
    pub(crate) fn longer_than(&self, patience: Duration) -> bool {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() > patience)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::Whole => write!(f, "{} bytes", self.rest.len()),
            Content::Stream(_) => f.write_str("a stream"),
        }
    }
}

/// An answer before it has headers.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: Body,
    pub(crate) warnings: Vec<String>,
    /// More headers, and others than every answer has.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

pub(crate) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

impl Reply {
    pub(crate) fn json(code: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { code, content_type: JSON, body: Body::whole(body), warnings: Vec::new(), headers: Vec::new() }
    }

    pub(crate) fn text(body: &'static str) -> Self {
        Self { content_type: TEXT, ..Self::json(StatusCode::OK, body) }
    }

    pub(crate) fn stream(
        pieces: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
        source: u64,
    ) -> Self {
        Self { body: Body::stream(pieces, source), ..Self::json(StatusCode::OK, "") }
    }

    /// Adds line breaks to a whole JSON body.
    pub(crate) fn pretty(mut self) -> Self {
        if let (Content::Whole, JSON) = (&self.body.content, self.content_type) {
            self.body.rest = crate::api::indent(&self.body.rest);
            let kept = self.body.kept();
            // It has room already; white space is at most a few times more, and is not refused.
            let _ = self.body.held.as_mut().map(|(answer, _)| answer.resize(kept));
        }
        self
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if self.content_type == TEXT {
            let name = HeaderName::from_static("x-content-type-options");
            headers.insert(name, HeaderValue::from_static("nosniff"));
        }
        for warning in self.warnings.iter().take(MAX_WARNINGS) {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(warning))) {
                headers.append(WARNING, value);
            }
        }
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}

/// Clients bound the size of all headers together; so do we, at what a person reads.
const MAX_WARNINGS: usize = 50;

/// A text as a quoted string of a header.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in printable(text).chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Headers are ASCII.
            c if c.is_ascii() => quoted.push(c),
            c => quoted.extend(c.escape_unicode()),
        }
    }
    quoted.push('"');
    quoted
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoSuchPath => Self { code: StatusCode::NOT_FOUND, ..Self::text("404 page not found\n") },
            Failure::Status(status) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Self::json(code, status.to_json())
            }
        }
    }
}

/// The answer to a failure, with its headers.
pub(crate) fn failure_response(failure: Failure, pretty: bool) -> Response<Body> {
    let retry_after = failure.retry_after();
    let reply = Reply::from(failure);
    let mut response = if pretty { reply.pretty() } else { reply }.into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
