//! One call of a handler: its deadline, its panics, its answer.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, error};
use windlass_api::GoDuration;

use crate::extension::Route;
use crate::handler::{Context, Encoded};

/// The message for a request that is too large to be read.
pub(crate) const TOO_LARGE: &str = "request could not be read: the body is larger than 20 MiB";
/// The message for a handler that panics. Fixed, because the text of a panic may hold addresses and secrets.
const PANICKED: &str = "the handler panicked; see the log of the extension";
/// The answer must reach the caller before the caller gives up, or it is never read.
const MOST_TIME_FOR_THE_WAY_BACK: Duration = Duration::from_millis(250);

/// Calls a handler and turns whatever happens into an answer.
pub(crate) async fn call(
    route: &Route,
    query: Option<&str>,
    received: Instant,
    body: &[u8],
) -> Response<Bytes> {
    let deadline = Deadline::new(received, route.timeout_seconds, query.and_then(timeout_in));
    let context = Context { hook: route.hook, handler: route.handler.clone(), deadline: deadline.at };
    let (hook, handler) = (route.hook.name(), route.handler.as_str());
    // The future is made inside, so that a function that panics before its first await is caught as well.
    let outcome =
        timeout_at(deadline.at, unless_it_panics(async { route.handle.handle(context, body).await }));
    let response = match outcome.await {
        Ok(Ok(encoded)) => respond(encoded),
        Ok(Err(panic)) => {
            error!(hook, handler, panic, "handler panicked");
            failure(route, PANICKED)
        }
        Err(_) => {
            error!(hook, handler, limit = ?deadline.limit, "handler took too long");
            failure(route, &deadline.message(handler))
        }
    };
    debug!(hook, handler, status = response.status().as_u16(), took = ?received.elapsed(), "answered");
    response
}

/// The answer for a call that did not get as far as its handler, or did not come back from it.
pub(crate) fn failure(route: &Route, message: &str) -> Response<Bytes> {
    respond(route.handle.failure(message))
}

/// A short message for a person who opens the server with a browser or curl.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    with_type(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn respond(encoded: Encoded) -> Response<Bytes> {
    match encoded {
        Ok(body) => with_type(StatusCode::OK, "application/json", body),
        Err(error) => {
            error!(%error, "response could not be encoded");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "the response could not be encoded\n")
        }
    }
}

fn with_type(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// When a call is given up, and what that is said to be.
struct Deadline {
    at: Instant,
    limit: Duration,
    of_caller: bool,
}

impl Deadline {
    fn new(received: Instant, timeout_seconds: u32, caller_waits: Option<Duration>) -> Self {
        let own = Duration::from_secs(timeout_seconds.into());
        match caller_waits {
            Some(limit) if limit <= own => {
                let way_back = (limit / 20).min(MOST_TIME_FOR_THE_WAY_BACK);
                Self { at: received + (limit - way_back), limit, of_caller: true }
            }
            _ => Self { at: received + own, limit: own, of_caller: false },
        }
    }

    fn message(&self, handler: &str) -> String {
        let limit = self.limit;
        if self.of_caller {
            format!("handler {handler} did not answer within the {limit:?} that the caller waits")
        } else {
            format!("handler {handler} did not answer within its timeout of {limit:?}")
        }
    }
}

/// The `timeout` parameter. One that cannot be read is ignored: it is a hint, and the handler has its own.
fn timeout_in(query: &str) -> Option<Duration> {
    let (_, value) =
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == "timeout")?;
    let timeout: GoDuration = value.parse().ok()?;
    timeout.to_std().filter(|timeout| !timeout.is_zero())
}

async fn unless_it_panics<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    // Nothing of the future is looked at after a panic, so a broken invariant in it cannot be seen.
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => std::task::Poll::Ready(Err(panic_text(panic.as_ref()))),
    })
    .await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_is_found_among_other_parameters() {
        for (query, expected) in [
            ("timeout=10s", Some(10_000)),
            ("a=b&timeout=1m0s&c", Some(60_000)),
            ("timeout=500ms&timeout=1s", Some(500)),
            ("timeout=0s", None),
            ("timeout=-1s", None),
            ("timeout=soon", None),
            ("timeout=", None),
            ("timeout", None),
            ("nottimeout=1s", None),
        ] {
            assert_eq!(timeout_in(query), expected.map(Duration::from_millis), "{query}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_leaves_before_the_caller_gives_up() {
        let now = Instant::now();
        for (own, caller, milliseconds, of_caller) in [
            (10, None, 10_000, false),
            (10, Some(10_000), 9_750, true),
            (10, Some(1_000), 950, true),
            (5, Some(10_000), 5_000, false),
        ] {
            let deadline = Deadline::new(now, own, caller.map(Duration::from_millis));
            assert_eq!(deadline.at - now, Duration::from_millis(milliseconds));
            assert_eq!(deadline.of_caller, of_caller);
        }
    }
}
