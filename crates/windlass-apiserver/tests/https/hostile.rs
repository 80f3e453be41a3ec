//! Clients that send too much, too deep, too slowly, or nothing that makes sense: each is refused, and the next one
//! is answered.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use windlass_apiserver::Limits;
use windlass_apiserver::serve::Bounds;

use crate::server::{As, Running, next};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Longer than anything here takes; only a test that fails waits so long.
const LONG: Duration = Duration::from_secs(30);

impl Running {
    async fn post(&self, content_type: &str, body: Vec<u8>) -> (u16, Value) {
        let request = Request::post(CONFIG_MAPS).header("content-type", content_type);
        let (code, body) = self.ask(As::Admin, request, body).await;
        (code, serde_json::from_str(&body).unwrap())
    }

    async fn is_alive(&self) {
        assert_eq!(self.ask(As::Admin, Request::get("/api/v1/namespaces"), Vec::new()).await.0, 200);
    }

    /// Sends bytes as they are, and reads until the server ends the connection or the answer's head is there.
    async fn raw(&self, head: &str, chunk: &[u8], times: usize) -> String {
        let mut stream = self.connect(&As::Admin, "http/1.1").await;
        let mut sent = stream.write_all(head.as_bytes()).await;
        for _ in 0..times {
            if sent.is_err() {
                break;
            }
            sent = stream.write_all(chunk).await;
        }
        let mut answer = Vec::new();
        // A server that has refused may cut the connection before it has read everything.
        let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[tokio::test]
async fn a_body_of_100_mb_is_refused_without_being_read() {
    let server = Running::start().await;
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
    );
    let megabyte = vec![b' '; 1 << 20];
    let announced = format!("{head}content-length: {}\r\n\r\n", 100 << 20);
    // The head alone is enough for the answer.
    let answer = server.raw(&announced, &megabyte, 0).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("RequestEntityTooLarge"), "{answer}");

    // One that does not say how long it is, is read as far as bodies go.
    let chunk = [format!("{:x}\r\n", megabyte.len()).as_bytes(), &megabyte, b"\r\n"].concat();
    let answer = server.raw(&format!("{head}transfer-encoding: chunked\r\n\r\n"), &chunk, 4).await;
    assert!(answer.starts_with("HTTP/1.1 413") || answer.is_empty(), "{answer}");
    server.is_alive().await;
}

#[tokio::test]
async fn what_is_nested_too_deep_is_refused() {
    let server = Running::start().await;
    let nested = |open: &str, close: &str, levels: usize| {
        let head = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":"#;
        [head, &open.repeat(levels), "1", &close.repeat(levels), "}"].concat().into_bytes()
    };
    for levels in [10_000, 500_000] {
        for content_type in ["application/json", "application/yaml"] {
            let (code, said) = server.post(content_type, nested("[", "]", levels)).await;
            assert!(code == 400 && said["reason"] == "BadRequest", "{content_type}: {code} {said}");
            let (code, said) = server.post(content_type, nested("{\"a\":", "}", levels)).await;
            assert!(code == 400 && said["reason"] == "BadRequest", "{content_type}: {code} {said}");
        }
        let patch = Request::patch("/api/v1/namespaces/default")
            .header("content-type", "application/merge-patch+json");
        let (code, _) = server.ask(As::Admin, patch, nested("{\"a\":", "}", levels)).await;
        assert_eq!(code, 400);
    }
    server.is_alive().await;
}

#[tokio::test]
async fn a_list_of_a_million_elements_is_answered_in_its_turn() {
    let server = Running::start().await;
    let list = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"x","finalizers":[{}0]}}}}"#,
        "0,".repeat(1_000_000)
    );
    let (code, said) = server.post("application/json", list.clone().into_bytes()).await;
    assert!((400..500).contains(&code), "{code} {said}");
    assert!(said.to_string().len() < 100_000, "an answer that repeats a million mistakes helps nobody");
    let (code, _) = server.post("application/yaml", list.into_bytes()).await;
    assert!((400..500).contains(&code), "{code}");
    let operations =
        format!("[{}{{}}]", r#"{"op":"test","path":"/kind","value":"Namespace"},"#.repeat(50_000));
    let patch =
        Request::patch("/api/v1/namespaces/default").header("content-type", "application/json-patch+json");
    let (code, said) = server.ask(As::Admin, patch, operations.into_bytes()).await;
    assert!((400..500).contains(&code), "{code} {said}");
    server.is_alive().await;
}

#[tokio::test]
async fn what_is_no_text_is_refused() {
    let server = Running::start().await;
    let damaged = b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"\xff\xfe\"}}";
    for content_type in [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/cbor",
        "text/plain",
    ] {
        let (code, said) = server.post(content_type, damaged.to_vec()).await;
        assert!(code == 400 || code == 415, "{content_type}: {code} {said}");
        let (code, said) =
            server.post(content_type, b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec()).await;
        assert!(code == 400 || code == 415, "{content_type}: {code} {said}");
    }
    // A document of YAML that would be gigabytes when it is written out.
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (before, name) in ('a'..'i').zip('b'..) {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(",")));
    }
    let (code, said) = server.post("application/yaml", bomb.into_bytes()).await;
    assert_eq!(code, 400, "{said}");
    let head = "GET /api/v1/namespaces/%ff%fe HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = server.raw(head, b"", 0).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    let answer = server.raw("\0\x01\x02 no HTTP at all\r\n\r\n", b"", 0).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    server.is_alive().await;
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let server = Running::start().await;
    let head = format!("GET /api HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "a".repeat(1 << 20));
    let answer = server.raw(&head, b"", 0).await;
    assert!(answer.starts_with("HTTP/1.1 431") || answer.is_empty(), "{answer}");
    let path = format!("GET /api/v1/{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(1 << 20));
    let answer = server.raw(&path, b"", 0).await;
    assert!(answer.starts_with("HTTP/1.1 4") || answer.is_empty(), "{answer}");
    let mut sender = server.http2().await;
    let request = Request::get("https://localhost/api").header("x-long", "a".repeat(1 << 20));
    if let Ok(answer) = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await {
        assert_eq!(answer.status(), 431);
    }
    server.is_alive().await;
}

#[tokio::test]
async fn who_sends_a_head_byte_by_byte_is_cut_off_and_takes_nobodys_place() {
    let bounds = Bounds { patience: Duration::from_millis(300), connections: 64, ..Bounds::default() };
    let server = Running::within(bounds, Limits::default()).await;
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = server.connect(&As::Nobody, "http/1.1").await;
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: ").await.unwrap();
        slow.push(stream);
    }
    server.is_alive().await;
    for mut stream in slow {
        let mut rest = Vec::new();
        // It is enough that it ends.
        let _ = timeout(LONG, stream.read_to_end(&mut rest)).await.expect("the server still waits");
    }
    // Neither do those who never begin to encrypt.
    let mut mute = Vec::new();
    for _ in 0..40 {
        mute.push(tokio::net::TcpStream::connect(server.address).await.unwrap());
    }
    server.is_alive().await;
    for mut stream in mute {
        let mut rest = Vec::new();
        let _ = timeout(LONG, stream.read_to_end(&mut rest)).await.expect("the server still waits");
    }
}

#[tokio::test]
async fn who_sends_a_body_byte_by_byte_takes_only_their_own_places() {
    let limits =
        Limits { requests_per_user: 4, body_patience: Duration::from_millis(500), ..Limits::default() };
    let server = Running::within(Bounds::default(), limits).await;
    let (_, token) = server
        .ask(
            As::Admin,
            Request::post("/api/v1/namespaces/default/serviceaccounts/default/token"),
            b"{\"spec\":{}}".to_vec(),
        )
        .await;
    let token: Value = serde_json::from_str(&token).unwrap();
    let token = token["status"]["token"].as_str().unwrap();
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut stream = server.connect(&As::Admin, "http/1.1").await;
        let head = format!(
            "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 100\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    // Somebody else is answered at once (forbidden, but answered).
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(server.ask(As::Token(token), Request::post(who), b"{}".to_vec()).await.0, 201);
    for mut stream in slow {
        let mut answer = Vec::new();
        let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("the server still waits");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains("the body did not arrive in time"), "{answer}");
    }
    server.is_alive().await;
}

#[tokio::test]
async fn clients_that_say_nothing_keep_out_neither_users_nor_probes() {
    let bounds = Bounds { connections: 8, ..Bounds::default() };
    let server = Running::within(bounds, Limits::default()).await;
    let mut mute = Vec::new();
    for _ in 0..20 {
        mute.push(tokio::net::TcpStream::connect(server.address).await.unwrap());
        // One that has encrypted and says nothing is no better.
        mute.push(server.connect(&As::Nobody, "h2").await.into_inner().0);
    }
    server.is_alive().await;
    assert_eq!(server.ask(As::Nobody, Request::get("/readyz"), Vec::new()).await.0, 200);
    // There is room for two of them; the oldest are gone.
    for mut stream in mute.drain(..30) {
        let mut rest = Vec::new();
        let _ = timeout(LONG, stream.read_to_end(&mut rest)).await.expect("the server still waits");
    }
}

#[tokio::test]
async fn known_clients_beyond_the_bound_are_told_so() {
    let bounds = Bounds { connections: 8, ..Bounds::default() };
    let server = Running::within(bounds, Limits::default()).await;
    let mut open = Vec::new();
    for _ in 0..6 {
        open.push(server.connect(&As::Admin, "http/1.1").await);
    }
    let mut surplus = server.connect(&As::Admin, "http/1.1").await;
    let mut rest = Vec::new();
    let _ = timeout(LONG, surplus.read_to_end(&mut rest)).await.expect("it is closed");
    assert!(rest.is_empty());
    assert_eq!(server.ask(As::Nobody, Request::get("/readyz"), Vec::new()).await.0, 200, "probes have room");
    drop(open);
    // The places come back once the server has noticed.
    for attempt in 0.. {
        let mut stream = server.connect(&As::Admin, "http/1.1").await;
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.unwrap();
        if answer.starts_with(b"HTTP/1.1 200") {
            break;
        }
        assert!(attempt < 200, "the places did not come back");
    }
}

/// Puts so many ConfigMaps of so many bytes there.
async fn fill(server: &Running, count: usize, bytes: usize) {
    for number in 0..count {
        let body = json!({"metadata": {"name": format!("m{number}")}, "data": {"x": "x".repeat(bytes)}});
        let request = Request::post(CONFIG_MAPS).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
        assert_eq!(server.api.service().answer(request).await.status(), 201);
    }
}

#[tokio::test]
async fn answers_that_are_not_read_are_bounded_in_bytes() {
    let limits = Limits { answer_bytes_per_user: 2_000_000, ..Limits::default() };
    let server = Running::within(Bounds::default(), limits).await;
    fill(&server, 8, 500_000).await;
    let mut sender = server.narrow(0).await;
    let mut open = Vec::new();
    let mut codes = Vec::new();
    for number in 0..40 {
        // Whole objects, as tables and as lists: each keeps bytes of its own.
        let request = match number % 2 {
            0 => Request::get(format!("https://localhost{CONFIG_MAPS}/m{}", number % 8)),
            _ => Request::get(format!("https://localhost{CONFIG_MAPS}")),
        };
        // What does not fit is refused, or ends when its next piece does not.
        match sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await {
            Ok(answer) => {
                codes.push(answer.status().as_u16());
                open.push(answer);
            }
            Err(_) => codes.push(0),
        }
        assert!(server.api.answer_bytes() <= 2_000_000, "{}", server.api.answer_bytes());
    }
    assert!(codes.contains(&200) && codes.contains(&429), "{codes:?}");
    drop(open);
    drop(sender);
    for attempt in 0.. {
        if server.api.answer_bytes() == 0 {
            break;
        }
        assert!(attempt < 10_000, "the bytes of a connection that is gone are still counted");
        tokio::task::yield_now().await;
        server.is_alive().await;
    }
}

#[tokio::test]
async fn a_long_list_is_encoded_while_it_is_read() {
    let server = Running::start().await;
    fill(&server, 80, 50_000).await;
    let mut sender = server.narrow(0).await;
    let mut open = Vec::new();
    for _ in 0..50 {
        let request = Request::get(format!("https://localhost{CONFIG_MAPS}"));
        let answer = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        open.push(answer);
    }
    // 50 lists of four megabytes: what is kept of each is where its objects are, and one of them encoded.
    let kept = server.api.answer_bytes();
    assert!(kept < 50 * 60_000, "{kept}");
    let (code, list) = server.ask(As::Admin, Request::get(CONFIG_MAPS), Vec::new()).await;
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 81), "kube-root-ca.crt is one of them");
}

#[tokio::test]
async fn a_stream_that_is_not_read_ends_and_its_connection_with_it() {
    let bounds = Bounds { stall: Duration::from_millis(300), ..Bounds::default() };
    let server = Running::within(bounds, Limits::default()).await;
    fill(&server, 1, 500_000).await;
    let mut sender = server.narrow(0).await;
    let request = Request::get(format!("https://localhost{CONFIG_MAPS}/m0"));
    let _answer = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    let closed = async {
        while !sender.is_closed() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, closed).await.expect("the server still waits");
    assert_eq!(server.api.answer_bytes(), 0);
    server.is_alive().await;
}

#[tokio::test]
async fn what_users_take_is_not_taken_from_the_controllers() {
    let limits = Limits {
        watches_per_user: 2,
        requests: 2,
        requests_per_user: 2,
        body_patience: LONG,
        ..Limits::default()
    };
    let server = Running::within(Bounds::default(), limits).await;
    let mut sender = server.http2().await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let request = Request::get(format!("https://localhost{CONFIG_MAPS}?watch=true"));
        open.push(sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap());
    }
    assert_eq!(open[2].status(), 429, "the administrator has no more watches");
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect(&As::Admin, "http/1.1").await;
        let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{");
        stream.write_all(head.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    for path in ["/api/v1/namespaces", "/api/v1/namespaces?watch=true&timeoutSeconds=1"] {
        let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
        assert_eq!(server.api.service().answer(request).await.status(), 200, "{path}");
    }
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_dropped_and_holds_up_nobody() {
    let bounds = Bounds { stall: Duration::from_millis(300), ..Bounds::default() };
    let server = Running::within(bounds, Limits::default()).await;
    let mut stalled = server.connect(&As::Admin, "http/1.1").await;
    let watch = format!("GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nhost: x\r\n\r\n");
    stalled.write_all(watch.as_bytes()).await.unwrap();
    let mut reading = server.http2().await;
    let request = Request::get(format!("https://localhost{CONFIG_MAPS}?watch=true"));
    let reading = reading.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    let mut reading = reading.into_body();
    let mut seen = 0;
    let mut text = String::new();
    // More than the buffers of both ends of a connection take.
    for number in 0..40 {
        let body = json!({"metadata": {"name": format!("m{number}")}, "data": {"x": "x".repeat(900_000)}});
        let (code, said) = server.post("application/json", body.to_string().into_bytes()).await;
        assert_eq!(code, 201, "{said}");
        while seen <= number {
            text.push_str(&timeout(LONG, next(&mut reading)).await.unwrap());
            while let Some(end) = text.find('\n') {
                let event: Value = serde_json::from_str(&text[..end]).unwrap();
                if event["object"]["metadata"]["name"] == format!("m{seen}") {
                    seen += 1;
                }
                text.drain(..=end);
            }
        }
    }
    // What was on its way can still be read; then the connection ends, although the watch is not over.
    let mut rest = Vec::new();
    let _ = timeout(LONG, stalled.read_to_end(&mut rest)).await.expect("the server still waits");
    assert!(rest.len() < 36_000_000, "it got everything after all: {}", rest.len());
}

#[tokio::test]
async fn a_user_has_so_many_watches_and_no_more() {
    let limits = Limits { watches_per_user: 5, ..Limits::default() };
    let server = Running::within(Bounds::default(), limits).await;
    let mut sender = server.http2().await;
    let mut open = Vec::new();
    for number in 0..8 {
        let request = Request::get(format!("https://localhost{CONFIG_MAPS}?watch=true"));
        let answer = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
        assert_eq!(answer.status(), if number < 5 { 200 } else { 429 }, "watch {number}");
        open.push(answer);
    }
    server.is_alive().await;
}
