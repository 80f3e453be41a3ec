//! HTTP over real connections, with servers that behave and servers that do not.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use windlass_api::hooks::BeforeClusterUpgrade;
use windlass_hooks::transport::TransportError;
use windlass_hooks::{Answer, CallError, CallFailure, HookClient};

use crate::certificates::Authority;
use crate::server::{Options, Server, Speaks, answers, says};
use crate::setup::{SUCCESS, https_client, https_client_with_timeout, upgrade_request};

struct Fixture {
    server: Server,
    client: HookClient,
}

impl Fixture {
    async fn new(speaks: Speaks) -> Self {
        Self::with_protocols(&["h2", "http/1.1"], speaks).await
    }

    async fn with_protocols(protocols: &[&str], speaks: Speaks) -> Self {
        Self::with_timeout(protocols, speaks, 30).await
    }

    async fn with_timeout(protocols: &[&str], speaks: Speaks, seconds: u32) -> Self {
        let authority = Authority::new("ca");
        let leaf = authority.issue(&["localhost"]);
        let server = Server::start_with(Options { leaf: &leaf, protocols, clients: None, speaks }).await;
        let url = server.url("localhost");
        let client = https_client_with_timeout(&url, authority.bundle(), "Fail", seconds);
        Self { server, client }
    }

    async fn call(&self) -> Result<i32, CallFailure> {
        match self.client.call_one::<BeforeClusterUpgrade>("gate.ext1", "ns1", &upgrade_request()).await {
            Ok(Answer::Given(response)) => Ok(response.retry_after_seconds),
            Err(CallError::Failed { failure, .. }) => Err(failure),
            other => panic!("{other:?}"),
        }
    }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_request_is_a_post_of_json_with_its_timeout_in_the_query() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorder = Arc::clone(&seen);
    let fixture = Fixture::new(answers(move |request| {
        recorder.lock().unwrap().push(request.clone());
        http::Response::new(Bytes::from(r#"{"status":"Success","retryAfterSeconds":30}"#))
    }))
    .await;
    assert_eq!(fixture.call().await, Ok(30));
    let request = seen.lock().unwrap().pop().unwrap();
    assert_eq!(request.method(), "POST");
    assert_eq!(
        request.uri().path_and_query().unwrap(),
        "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclusterupgrade/gate?timeout=30s"
    );
    assert_eq!(request.headers()["content-type"], "application/json");
    assert_eq!(request.headers()["accept-encoding"], "gzip");
    let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
    assert_eq!(body["kind"], "BeforeClusterUpgradeRequest");
    assert_eq!(body["cluster"]["metadata"]["name"], "c1");
}

#[tokio::test]
async fn connections_are_used_again_with_either_protocol() {
    for protocols in [&["http/1.1"][..], &["h2"], &[]] {
        let expected = if protocols == ["h2"] { http::Version::HTTP_2 } else { http::Version::HTTP_11 };
        let fixture = Fixture::with_protocols(
            protocols,
            answers(move |request| {
                assert_eq!(request.version(), expected);
                http::Response::new(Bytes::from(SUCCESS))
            }),
        )
        .await;
        for _ in 0..5 {
            assert_eq!(fixture.call().await, Ok(0), "{protocols:?}");
        }
        assert_eq!(fixture.server.connections(), 1, "{protocols:?}");
    }
}

#[tokio::test]
async fn many_calls_at_once_share_one_http2_connection() {
    let fixture = Arc::new(Fixture::with_protocols(&["h2"], says(SUCCESS)).await);
    assert_eq!(fixture.call().await, Ok(0));
    let calls: Vec<_> = (0..32)
        .map(|_| {
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move { fixture.call().await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(0));
    }
    assert_eq!(fixture.server.connections(), 1);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let hits = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&hits);
    let fixture = Fixture::new(answers(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        http::Response::builder().status(307).header("location", "/elsewhere").body(Bytes::new()).unwrap()
    }))
    .await;
    assert_eq!(fixture.call().await, Err(CallFailure::HttpStatus { code: 307, quoted: String::new() }));
    assert_eq!(hits.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn only_200_is_an_answer() {
    for code in [201, 204, 404, 500] {
        let fixture = Fixture::new(answers(move |_| {
            http::Response::builder().status(code).body(Bytes::from(SUCCESS)).unwrap()
        }))
        .await;
        let failure = fixture.call().await.unwrap_err();
        assert!(matches!(failure, CallFailure::HttpStatus { code: found, .. } if found == code), "{failure}");
    }
}

#[tokio::test]
async fn a_long_error_page_is_quoted_in_part() {
    let fixture = Fixture::new(answers(|_| {
        http::Response::builder().status(500).body(Bytes::from("x".repeat(100_000))).unwrap()
    }))
    .await;
    let text = fixture.call().await.unwrap_err().to_string();
    assert_eq!(text, format!("HTTP status 500: \"{}...\"", "x".repeat(512)));
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_when_the_handlers_time_is_over() {
    let never = Speaks::Http(Arc::new(|_| Box::pin(std::future::pending())));
    let busy = Fixture::with_timeout(&["h2"], never, 1).await;
    let dead = Fixture::with_timeout(&["http/1.1"], Speaks::Nothing, 1).await;
    let (busy, dead) = tokio::join!(busy.call(), dead.call());
    assert_eq!(busy.unwrap_err().to_string(), "no answer within 1 s");
    assert_eq!(dead.unwrap_err().to_string(), "no answer within 1 s");
}

#[tokio::test]
async fn a_server_that_never_answers_the_handshake_is_given_up_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let client = https_client_with_timeout(&url, Authority::new("ca").bundle(), "Fail", 1);
    let result = client.call_one::<BeforeClusterUpgrade>("gate.ext1", "ns1", &upgrade_request()).await;
    assert!(result.unwrap_err().to_string().ends_with("no answer within 1 s"));
}

#[tokio::test]
async fn nobody_listening_is_said_in_words() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = https_client(&format!("https://{address}"), Authority::new("ca").bundle(), "Fail");
    let result = client.call_one::<BeforeClusterUpgrade>("gate.ext1", "ns1", &upgrade_request()).await;
    assert_eq!(
        result.unwrap_err().to_string(),
        format!(
            "hook \"BeforeClusterUpgrade.hooks.runtime.cluster.x-k8s.io\": handler \"gate.ext1\": \
             cannot connect to \"{address}\": connection refused"
        )
    );
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_said_in_words() {
    let client = https_client("https://ext.invalid", Authority::new("ca").bundle(), "Fail");
    let result = client.call_one::<BeforeClusterUpgrade>("gate.ext1", "ns1", &upgrade_request()).await;
    let text = result.unwrap_err().to_string();
    assert!(text.contains("cannot resolve host \"ext.invalid\": "), "{text}");
}

#[tokio::test]
async fn answers_beyond_the_limit_are_refused() {
    let too_large = Bytes::from(vec![b' '; 21 * 1024 * 1024]);
    for protocols in [&["http/1.1"][..], &["h2"]] {
        let fixture = Fixture::with_protocols(protocols, says(too_large.clone())).await;
        assert_eq!(fixture.call().await, Err(TransportError::AnswerTooLarge.into()), "{protocols:?}");
    }
    let without_length = [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".as_slice(), &too_large].concat();
    let fixture = Fixture::with_protocols(&["http/1.1"], Speaks::Raw(vec![without_length.into()])).await;
    assert_eq!(fixture.call().await, Err(TransportError::AnswerTooLarge.into()));
}

#[tokio::test]
async fn compressed_answers_are_read_and_bombs_are_refused() {
    let compressed = |body: Vec<u8>, encoding: &'static str| {
        let body = Bytes::from(body);
        answers(move |_| {
            http::Response::builder().header("content-encoding", encoding).body(body.clone()).unwrap()
        })
    };
    let answer = gzip(br#"{"status":"Success","retryAfterSeconds":7}"#);
    assert_eq!(Fixture::new(compressed(answer.clone(), "gzip")).await.call().await, Ok(7));

    let bomb = gzip(&vec![b' '; 64 * 1024 * 1024]);
    assert!(bomb.len() < 100_000);
    let result = Fixture::new(compressed(bomb, "gzip")).await.call().await;
    assert_eq!(result, Err(TransportError::AnswerTooLarge.into()));

    let result = Fixture::new(compressed(answer[..answer.len() - 2].to_vec(), "gzip")).await.call().await;
    assert!(matches!(result, Err(CallFailure::Transport(TransportError::Encoding(_)))), "{result:?}");
    let result = Fixture::new(compressed(answer, "br")).await.call().await;
    assert_eq!(result.unwrap_err().to_string(), "the answer cannot be decompressed: unknown encoding \"br\"");
}

#[tokio::test]
async fn garbled_answers_are_not_answers() {
    for body in ["", "{\"status\":\"Succ", "<html>", "[]", "{\"status\":1}"] {
        let fixture = Fixture::new(says(body)).await;
        let failure = fixture.call().await.unwrap_err();
        assert!(matches!(failure, CallFailure::Undecodable(_)), "{body}: {failure}");
    }
}

#[tokio::test]
async fn large_answers_within_the_limit_are_answers() {
    let body =
        format!("{{\"status\":\"Success\",\"retryAfterSeconds\":3,\"x\":\"{}\"}}", "y".repeat(3_000_000));
    assert_eq!(Fixture::new(says(body)).await.call().await, Ok(3));
}

#[tokio::test]
async fn connections_that_end_early_are_said_in_words() {
    for (raw, text) in [
        ("", "the connection ended before an answer came"),
        ("HTTP/1.1 200", "the connection ended before an answer came"),
        ("nonsense\r\n\r\n", "the answer is not HTTP"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"status\":\"Success\"}",
            "the connection ended in the middle of the answer",
        ),
    ] {
        let fixture = Fixture::with_protocols(&["http/1.1"], Speaks::Raw(vec![raw.into()])).await;
        assert_eq!(fixture.call().await.unwrap_err().to_string(), text, "{raw}");
    }
}

#[tokio::test]
async fn a_request_is_never_sent_twice() {
    // Every connection answers one request, takes another and closes without a word. A client that tries
    // again would be seen by one more connection.
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{SUCCESS}", SUCCESS.len());
    let speaks = Speaks::Raw(vec![answer.into(), Bytes::new()]);
    let fixture = Fixture::with_protocols(&["http/1.1"], speaks).await;
    for connections in 1..=3 {
        assert_eq!(fixture.call().await, Ok(0));
        let failure = fixture.call().await.unwrap_err();
        assert_eq!(failure.to_string(), "the connection ended before an answer came");
        assert_eq!(fixture.server.connections(), connections);
    }
}
