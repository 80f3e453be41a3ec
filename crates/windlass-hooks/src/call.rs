//! One request, one answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use serde::de::IgnoredAny;
use tokio::time::{Instant, timeout_at};
use tower::ServiceExt;
use windlass_api::HandlerName;
use windlass_api::hooks::{HookResponse, HookType, ResponseStatus, decode_lenient};
use windlass_api::runtime::ClientConfig;

use crate::error::{CallFailure, clip_message};
use crate::metrics::Metrics;
use crate::transport::{BoxTransport, Endpoint, MAX_BODY_BYTES, TransportError};
use crate::url::hook_url;

/// Answers beyond this size are decoded on a thread where no other request waits.
const DECODE_ELSEWHERE_BYTES: usize = 256 * 1024;

/// Calls one place and counts it.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) transport: BoxTransport,
    pub(crate) metrics: Metrics,
}

/// Where a call goes and how long it may take.
pub(crate) struct Target<'a> {
    pub(crate) client_config: &'a ClientConfig,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) handler: Option<&'a HandlerName>,
    pub(crate) timeout: Duration,
}

impl Caller {
    /// Calls and checks the answer: what comes back says that it is a success.
    pub(crate) async fn call<H: HookType>(
        &self,
        target: Target<'_>,
        request: &H::Request,
    ) -> Result<H::Response, CallFailure> {
        let url = hook_url(target.client_config, H::HOOK, target.handler, target.timeout)?;
        let host = url.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        let request = encode(url, request, target.endpoint)?;

        let started = Instant::now();
        let deadline = Instant::now() + target.timeout;
        let exchange = exchange::<H::Response>(self.transport.clone(), request);
        let (code, result) = match timeout_at(deadline, exchange).await {
            Ok((code, result)) => (code, result),
            Err(_) => (None, Err(CallFailure::TimedOut { timeout: target.timeout })),
        };
        let status = result.as_ref().ok().map(HookResponse::status);
        self.metrics.observe(H::HOOK, &host, code, status, started.elapsed());
        check(result?)
    }
}

fn encode<R: serde::Serialize>(
    url: Uri,
    request: &R,
    endpoint: &Endpoint,
) -> Result<Request<Bytes>, CallFailure> {
    let body = serde_json::to_vec(request).map_err(|error| CallFailure::Encode(error.to_string()))?;
    if body.len() > MAX_BODY_BYTES {
        return Err(CallFailure::RequestTooLarge(body.len()));
    }
    let mut request =
        Request::post(url).body(Bytes::from(body)).map_err(|error| CallFailure::Encode(error.to_string()))?;
    let headers = request.headers_mut();
    // Clients written in Go do not send it. Servers that check it want exactly this.
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION"))));
    request.extensions_mut().insert(endpoint.clone());
    Ok(request)
}

/// The HTTP status, if there was one, and the answer.
async fn exchange<R: HookResponse>(
    transport: BoxTransport,
    request: Request<Bytes>,
) -> (Option<u16>, Result<R, CallFailure>) {
    let response = match transport.oneshot(request).await {
        Ok(response) => response,
        Err(error) => return (None, Err(error.into())),
    };
    let code = response.status().as_u16();
    (Some(code), answer(response).await)
}

async fn answer<R: HookResponse>(response: Response<Bytes>) -> Result<R, CallFailure> {
    let (head, body) = response.into_parts();
    // Redirects are failures like any other: the extension could send us anywhere.
    if head.status != StatusCode::OK {
        return Err(CallFailure::http_status(head.status.as_u16(), &body));
    }
    if body.len() > MAX_BODY_BYTES {
        return Err(TransportError::AnswerTooLarge.into());
    }
    let decoded = if body.len() > DECODE_ELSEWHERE_BYTES {
        let task = tokio::task::spawn_blocking(move || decode(&body));
        task.await.map_err(|error| CallFailure::Undecodable(error.to_string()))?
    } else {
        decode(&body)
    };
    decoded.map_err(|error| CallFailure::Undecodable(error.to_string()))
}

/// Decodes the first JSON value. What comes after it is ignored, as clients written in Go do.
fn decode<R: HookResponse>(body: &[u8]) -> Result<R, serde_json::Error> {
    decode_lenient(body).or_else(|error| {
        let mut values = serde_json::Deserializer::from_slice(body).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) if values.byte_offset() < body.len() => decode_lenient(&body[..values.byte_offset()]),
            _ => Err(error),
        }
    })
}

/// Lets through only what the contract calls a success.
fn check<R: HookResponse>(response: R) -> Result<R, CallFailure> {
    match response.status() {
        ResponseStatus::Success => {}
        ResponseStatus::Failure => {
            return Err(CallFailure::Failure { message: clip_message(response.message()) });
        }
        ResponseStatus::Unknown(status) => {
            let (status, message) = (clip_message(status), clip_message(response.message()));
            return Err(CallFailure::UnknownStatus { status, message });
        }
    }
    match response.retry_after_seconds() {
        Some(seconds @ ..0) => Err(CallFailure::NegativeRetry(seconds)),
        _ => Ok(response),
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::hooks::BeforeClusterUpgradeResponse;

    use super::*;

    #[test]
    fn only_the_first_value_of_an_answer_counts() {
        for body in [
            "{\"status\":\"Success\",\"retryAfterSeconds\":5}",
            "{\"status\":\"Success\",\"retryAfterSeconds\":5}\n",
            " {\"Status\":\"Success\",\"RetryAfterSeconds\":5} {\"status\":\"Failure\"}",
            "{\"status\":\"Success\",\"retryAfterSeconds\":5} and some more",
        ] {
            let response: BeforeClusterUpgradeResponse = decode(body.as_bytes()).unwrap();
            assert_eq!(
                (response.status, response.retry_after_seconds),
                (ResponseStatus::Success, 5),
                "{body}"
            );
        }
        for body in ["", "{\"status\":\"Succ", "nonsense", "[] {}", "{\"status\":5} {}"] {
            assert!(decode::<BeforeClusterUpgradeResponse>(body.as_bytes()).is_err(), "{body}");
        }
    }
}
