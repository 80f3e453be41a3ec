//! Answers: whole ones and streams.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};

use crate::api::Failure;

type Events = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of an answer.
pub struct Body {
    content: Content,
}

enum Content {
    Whole(Bytes),
    Stream(Events),
}

impl Body {
    /// A body that is there already.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { content: Content::Whole(bytes.into()) }
    }

    /// A body that comes piece by piece, when the client takes it.
    pub(crate) fn stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { content: Content::Stream(Box::pin(events)) }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Stream(events) => {
                events.as_mut().poll_next(context).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::Whole(bytes) => write!(f, "{} bytes", bytes.len()),
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

    pub(crate) fn stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { body: Body::stream(events), ..Self::json(StatusCode::OK, "") }
    }

    /// Adds line breaks to a whole JSON body.
    pub(crate) fn pretty(mut self) -> Self {
        if let (Content::Whole(bytes), JSON) = (&self.body.content, self.content_type) {
            self.body = Body::whole(crate::api::indent(bytes));
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
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
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
