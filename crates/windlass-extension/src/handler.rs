//! A registered function, with its types hidden from the code that calls it.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::time::Instant;
use windlass_api::hooks::{Hook, HookResponse, HookType, ResponseStatus, decode};

/// What a handler knows about the call besides the request.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) hook: Hook,
    pub(crate) handler: String,
    pub(crate) deadline: Instant,
}

impl Context {
    /// The hook that was called. Tells apart the uses of one function for several hooks.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// The name under which the function was registered.
    pub fn handler(&self) -> &str {
        &self.handler
    }

    /// When the call is given up: the earlier of what the caller waits and the handler's own timeout.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How long until the call is given up.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// What a handler may return: the response, or a `Result` whose error becomes a failure with its text.
///
/// The text ends up in a condition of the Cluster, so it must be the same whenever the same thing goes wrong:
/// no times, no addresses, no request ids. And it must not contain secrets.
pub trait Answer<R: HookResponse>: Send {
    /// The response that is sent.
    fn into_response(self) -> R;
}

impl<R: HookResponse> Answer<R> for R {
    fn into_response(self) -> R {
        self
    }
}

impl<R: HookResponse, E: fmt::Display + Send> Answer<R> for Result<R, E> {
    fn into_response(self) -> R {
        self.unwrap_or_else(|error| R::failure(error.to_string()))
    }
}

pub(crate) type Encoded = Result<Bytes, serde_json::Error>;

/// A function of any hook: bytes in, bytes out.
pub(crate) trait Handle: Send + Sync {
    /// Decodes the request, calls the function, encodes its response.
    fn handle(&self, context: Context, body: &[u8]) -> Pin<Box<dyn Future<Output = Encoded> + Send + '_>>;

    /// The response that says the call failed, in the shape of the hook.
    fn failure(&self, message: &str) -> Encoded;
}

/// A function of the hook `H`.
pub(crate) struct Typed<H, F> {
    function: F,
    hook: PhantomData<H>,
}

impl<H: HookType, F> Typed<H, F> {
    pub(crate) fn new(function: F) -> Self {
        Self { function, hook: PhantomData }
    }
}

impl<H, F, Fut> Handle for Typed<H, F>
where
    H: HookType,
    F: Fn(Context, H::Request) -> Fut + Send + Sync,
    Fut: Future<Output: Answer<H::Response>> + Send,
{
    fn handle(&self, context: Context, body: &[u8]) -> Pin<Box<dyn Future<Output = Encoded> + Send + '_>> {
        let request = match decode::<H::Request>(body) {
            Ok(request) => request,
            Err(error) => {
                let message = undecodable(body, &error);
                return Box::pin(async move { self.failure(&message) });
            }
        };
        Box::pin(async move {
            let name = context.handler.clone();
            let response = (self.function)(context, request).await.into_response();
            encode(&within_contract(response, &name))
        })
    }

    fn failure(&self, message: &str) -> Encoded {
        encode(&H::Response::failure(message))
    }
}

fn undecodable(body: &[u8], error: &serde_json::Error) -> String {
    if body.is_empty() {
        "request could not be decoded: the body is empty".to_owned()
    } else {
        format!("request could not be decoded: {error}")
    }
}

/// Replaces a response that every caller would refuse, or that would leave a user without a reason.
fn within_contract<R: HookResponse>(mut response: R, handler: &str) -> R {
    match response.status() {
        ResponseStatus::Success => {}
        ResponseStatus::Failure => {
            if response.message().is_empty() {
                response.set_message(format!("handler {handler} failed and did not say why"));
            }
            return response;
        }
        ResponseStatus::Unknown(status) => {
            return R::failure(format!("handler {handler} answered with the unknown status {status:?}"));
        }
    }
    match response.retry_after_seconds() {
        Some(seconds) if seconds < 0 => {
            R::failure(format!("handler {handler} answered with the negative retry time {seconds}"))
        }
        _ => response,
    }
}

fn encode(response: &impl Serialize) -> Encoded {
    serde_json::to_vec(response).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use windlass_api::hooks::{BeforeClusterUpgradeResponse, GeneratePatchesResponse, RetryResponse};

    use super::*;

    #[test]
    fn answers_that_callers_refuse_become_failures() {
        type Response = BeforeClusterUpgradeResponse;
        let negative = Response { retry_after_seconds: -5, ..Response::success() };
        for (response, expected) in [
            (Response::success(), Response::success()),
            (Response::blocking("wait", 5), Response::blocking("wait", 5)),
            (Response::failure("no"), Response::failure("no")),
            (Response::failure(""), Response::failure("handler gate failed and did not say why")),
            (Response::default(), Response::failure("handler gate answered with the unknown status \"\"")),
            (negative, Response::failure("handler gate answered with the negative retry time -5")),
        ] {
            assert_eq!(within_contract(response, "gate"), expected);
        }
    }

    #[test]
    fn an_error_becomes_a_failure_with_its_text() {
        let answer: Result<GeneratePatchesResponse, &str> = Err("no such variable");
        assert_eq!(answer.into_response(), GeneratePatchesResponse::failure("no such variable"));
    }
}
