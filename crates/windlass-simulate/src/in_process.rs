//! Extensions that answer in this process.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;
use tower::service_fn;
use windlass_hooks::transport::InProcess;

/// Lets a function answer the calls of an extension. Where it has no answer there is none: the caller gives up some time.
pub(crate) fn answer(
    transport: &InProcess,
    name: &str,
    answer: impl Fn(&Request<Bytes>) -> Option<Value> + Clone + Send + Sync + 'static,
) {
    transport.add(
        name,
        service_fn(move |request: Request<Bytes>| {
            let answer = answer(&request);
            async move {
                match answer {
                    Some(answer) => Ok::<_, Infallible>(Response::new(Bytes::from(answer.to_string()))),
                    None => std::future::pending().await,
                }
            }
        }),
    );
}
