//! A server in memory that takes any request.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use windlass_apiserver::{ApiServer, Options};
use windlass_store::{History, Store};

/// One server for all inputs, and the runtime that it lives on.
struct Api {
    runtime: tokio::runtime::Runtime,
    server: ApiServer,
}

impl Api {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime of one thread");
        let store = Store::in_memory(History { events_per_resource: 8, bytes: 1 << 20 });
        let server = runtime.block_on(ApiServer::start(store, Options::new().seed(1)));
        Self { server: server.expect("a server without a disk starts"), runtime }
    }
}

thread_local! {
    static API: Api = Api::start();
}

/// Answers a request. Whatever it was, it is the client's fault if it cannot be done, and the answer says why.
pub fn ask(request: http::request::Builder, body: &[u8]) -> u16 {
    let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body))) else { return 0 };
    API.with(|api| {
        api.runtime.block_on(async {
            let (head, body) = api.server.service().answer(request).await.into_parts();
            let code = head.status.as_u16();
            assert!(code < 500, "{code}");
            if code >= 400 {
                let body = body.collect().await.expect("an answer is whole").to_bytes();
                // What is not there at all is said in plain text, as the API server does.
                if code == 404 && body.starts_with(b"404 page not found") {
                    return code;
                }
                let status: serde_json::Value = serde_json::from_slice(&body).expect("a refusal is a Status");
                assert_eq!(status["code"], code);
                assert_eq!(status["kind"], "Status");
            }
            code
        })
    })
}

/// A request for a path, if it can be one.
pub fn request(method: &str, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path)
}
