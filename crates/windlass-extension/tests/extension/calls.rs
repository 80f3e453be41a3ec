//! What is answered to what, over both protocols.

use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use tower_service::Service;
use windlass_extension::hooks::{
    BeforeClusterUpgrade, BeforeClusterUpgradeRequest, BeforeClusterUpgradeResponse, HookResponse,
    ResponseStatus, RetryResponse,
};
use windlass_extension::{Context, Extension, Handler};

use crate::support::{Connection, H1, H2, REQUEST, Running, discovery_path, gate_path};

type Response = BeforeClusterUpgradeResponse;

/// One handler for everything that a function can do.
fn extension() -> Extension {
    Extension::new("calls")
        .on(BeforeClusterUpgrade, "pass", |_, _| async { Response::success() })
        .on(BeforeClusterUpgrade, "block", |_, request: BeforeClusterUpgradeRequest| async move {
            Response::blocking(format!("waiting for {}", request.to_kubernetes_version), 30)
        })
        .on(BeforeClusterUpgrade, "error", |_, _| async { Err::<Response, _>("quota exceeded for team a") })
        .on(BeforeClusterUpgrade, "panic", panicking)
        .on(BeforeClusterUpgrade, "panic-at-once", |_, request: BeforeClusterUpgradeRequest| {
            assert!(request.to_kubernetes_version.is_empty(), "panics before there is a future");
            async { Response::success() }
        })
        .on(BeforeClusterUpgrade, "silent", |_, _| async { Response::default() })
        .on(BeforeClusterUpgrade, "hang", |_, _| pending::<Response>())
        .on(BeforeClusterUpgrade, Handler::named("hang-briefly").timeout_seconds(1), |_, _| {
            pending::<Response>()
        })
        .build()
        .unwrap()
}

#[expect(clippy::panic, reason = "a handler that panics is what is tested")]
async fn panicking(context: Context, _: BeforeClusterUpgradeRequest) -> Response {
    tokio::task::yield_now().await;
    if context.handler() == "panic" {
        panic!("secret at 0x{:x}", 0xdead_beef_u32);
    }
    Response::success()
}

#[tokio::test]
async fn every_request_gets_the_answer_of_the_contract() {
    let unknown_fields = r#"{"cluster":{"spec":{"future":1}},"future":{"a":[]},"toKubernetesVersion":null}"#;
    let wrong_kind = r#"{"kind":"Lunch","apiVersion":"example.com/v9","cluster":{}}"#;
    let undecodable = "request could not be decoded: ";
    let (running, caller) = Running::with(extension()).await;
    for alpn in [H1, H2] {
        let mut connection = caller.connect(running.address, alpn).await.unwrap();
        for (handler, body, status, message) in [
            ("pass", REQUEST, "Success", ""),
            ("pass", unknown_fields, "Success", ""),
            ("pass", wrong_kind, "Success", ""),
            ("pass", "{}", "Success", ""),
            ("pass?timeout=10s", REQUEST, "Success", ""),
            ("pass?timeout=soon&x=%zz", REQUEST, "Success", ""),
            ("block", REQUEST, "Success", "waiting for v1.33.0"),
            ("error", REQUEST, "Failure", "quota exceeded for team a"),
            ("panic", REQUEST, "Failure", "the handler panicked; see the log of the extension"),
            ("panic-at-once", REQUEST, "Failure", "the handler panicked; see the log of the extension"),
            ("silent", REQUEST, "Failure", "handler silent answered with the unknown status \"\""),
            (
                "hang?timeout=100ms",
                REQUEST,
                "Failure",
                "handler hang did not answer within the 100ms that the caller waits",
            ),
            (
                "hang-briefly?timeout=20s",
                REQUEST,
                "Failure",
                "handler hang-briefly did not answer within its timeout of 1s",
            ),
            ("pass", "", "Failure", "request could not be decoded: the body is empty"),
            ("pass", &REQUEST[..40], "Failure", undecodable),
            ("pass", "[]", "Failure", undecodable),
            ("pass", "\"text\"", "Failure", undecodable),
            ("pass", "{} {}", "Failure", undecodable),
            ("pass", r#"{"cluster":7}"#, "Failure", undecodable),
            // And it is still there after all that.
            ("pass", REQUEST, "Success", ""),
        ] {
            let outcome = connection.post(&gate_path(handler), body).await.outcome();
            assert_eq!(outcome.0, status, "{handler} {body}");
            if message == undecodable {
                assert!(outcome.1.starts_with(message), "{handler} {body}: {}", outcome.1);
            } else {
                assert_eq!(outcome.1, message, "{handler} {body}");
            }
        }
    }
}

#[tokio::test]
async fn a_blocking_answer_carries_its_retry_time_and_a_passing_one_a_zero() {
    let (running, caller) = Running::with(extension()).await;
    let mut connection = caller.connect(running.address, H2).await.unwrap();
    for (handler, seconds) in [("block", 30), ("pass", 0), ("error", 0)] {
        let json = connection.post(&gate_path(handler), REQUEST).await.json();
        assert_eq!(json["retryAfterSeconds"], seconds, "{handler}");
        assert_eq!(json["kind"], "BeforeClusterUpgradeResponse");
    }
}

#[tokio::test]
async fn other_paths_are_not_found_and_other_methods_not_allowed() {
    let (running, caller) = Running::with(extension()).await;
    for alpn in [H1, H2] {
        let mut connection = caller.connect(running.address, alpn).await.unwrap();
        let gate = gate_path("pass");
        for (method, path, status) in [
            ("POST", "/".to_owned(), 404),
            ("POST", gate_path("nobody"), 404),
            ("POST", format!("{gate}/"), 404),
            ("POST", gate.replace("/v1alpha1", "//v1alpha1"), 404),
            ("POST", gate.replace("beforeclusterupgrade", "BeforeClusterUpgrade"), 404),
            ("POST", gate.replace("beforeclusterupgrade", "beforeclustercreate"), 404),
            ("POST", format!("{}/pass", discovery_path()), 404),
            ("GET", "/".to_owned(), 404),
            ("GET", gate.clone(), 405),
            ("PUT", gate.clone(), 405),
            ("GET", discovery_path(), 405),
        ] {
            let answered = connection.request(method, &path, "").await.unwrap();
            assert_eq!(answered.status, status, "{method} {path}");
            assert_eq!(answered.allow.is_some(), status == 405, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn any_content_type_is_accepted() {
    let (running, caller) = Running::with(extension()).await;
    let mut connection = caller.connect(running.address, H1).await.unwrap();
    for content_type in ["application/json", "text/plain", "application/x-www-form-urlencoded", "nonsense"] {
        let request = Request::post(gate_path("pass"))
            .header("host", "127.0.0.1")
            .header("content-type", content_type)
            .body(Bytes::from(REQUEST).into());
        assert_eq!(connection.send(request.unwrap()).await.unwrap().outcome().0, "Success", "{content_type}");
    }
}

#[tokio::test]
async fn a_body_of_21_mib_is_refused_and_one_of_19_is_not() {
    let (running, caller) = Running::with(extension()).await;
    let padded = |mebibytes: usize| {
        let mut body = REQUEST.as_bytes().to_vec();
        body.resize(mebibytes * 1024 * 1024, b' ');
        Bytes::from(body)
    };
    for alpn in [H1, H2] {
        let mut connection = caller.connect(running.address, alpn).await.unwrap();
        let (status, message) = connection.post(&gate_path("pass"), padded(21)).await.outcome();
        assert_eq!(status, "Failure");
        assert_eq!(message, "request could not be read: the body is larger than 20 MiB");
        // The connection survives, because the rest of the body was read.
        assert_eq!(connection.post(&gate_path("pass"), padded(19)).await.outcome().0, "Success");
    }
}

#[tokio::test]
async fn fifty_callers_at_once_are_answered() {
    let (running, caller) = Running::with(extension()).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let caller = caller.clone();
        calls.spawn(async move {
            let mut connection: Connection = caller.connect(running.address, H2).await.unwrap();
            connection.post(&gate_path("block"), REQUEST).await.outcome().0
        });
    }
    while let Some(status) = calls.join_next().await {
        assert_eq!(status.unwrap(), "Success");
    }
}

#[tokio::test]
async fn a_base_path_goes_before_every_path() {
    let extension = Extension::new("based")
        .base_path("/team-a/hooks/")
        .on(BeforeClusterUpgrade, "pass", |_, _| async { Response::success() })
        .build()
        .unwrap();
    let (running, caller) = Running::with(extension.clone()).await;
    let mut connection = caller.connect(running.address, H2).await.unwrap();
    for (path, status) in [
        (format!("/team-a/hooks{}", gate_path("pass")), 200),
        (format!("/team-a/hooks{}", discovery_path()), 200),
        (gate_path("pass"), 404),
        (discovery_path(), 404),
    ] {
        assert_eq!(connection.post(&path, REQUEST).await.status, status, "{path}");
    }
    let request = BeforeClusterUpgradeRequest::default();
    let response = extension.invoke(BeforeClusterUpgrade, "pass", &request).await.unwrap();
    assert_eq!(response.status(), &ResponseStatus::Success);
}

#[tokio::test(start_paused = true)]
async fn in_process_ten_seconds_of_hanging_pass_in_no_time() {
    let mut service = extension();
    let request = Request::post(gate_path("hang")).body(Bytes::from(REQUEST)).unwrap();
    let before = tokio::time::Instant::now();
    let response = service.call(request).await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(10));
    let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(body["message"], "handler hang did not answer within its timeout of 10s");

    let request = BeforeClusterUpgradeRequest::default();
    let error = service_error(&service, "nobody", &request).await;
    assert_eq!(error, "answered with HTTP status 404 Not Found");
    assert!(service_error(&service, "No Body", &request).await.starts_with("invalid handler name"));
}

#[tokio::test]
async fn the_text_of_a_panic_is_logged_and_not_answered() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt().with_writer(log.reopen().unwrap()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let request = BeforeClusterUpgradeRequest::default();
    let response = extension().invoke(BeforeClusterUpgrade, "panic", &request).await.unwrap();
    assert!(!response.message().contains("deadbeef"), "{}", response.message());
    let logged = std::fs::read_to_string(log.path()).unwrap();
    assert!(logged.contains("ERROR") && logged.contains("secret at 0xdeadbeef"), "{logged}");
    assert!(logged.contains("BeforeClusterUpgrade"), "{logged}");
}

async fn service_error(
    extension: &Extension,
    handler: &str,
    request: &BeforeClusterUpgradeRequest,
) -> String {
    extension.invoke(BeforeClusterUpgrade, handler, request).await.unwrap_err().to_string()
}
