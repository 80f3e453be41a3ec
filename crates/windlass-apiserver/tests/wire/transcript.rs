//! Transcripts of a real server, and a server of ours to compare with them.

#![expect(clippy::panic, reason = "a failing helper fails the test")]

use std::path::PathBuf;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Map, Value};
use windlass_apiserver::{ApiServer, Options};
use windlass_store::{History, Store};

/// One request and its answer.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) answer: Answer,
}

/// An answer; code 0 if it was not kept.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// A recording of a real API server, or what belongs to one.
pub(crate) fn read(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/kube-apiserver");
    let path = folder.join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The definition that the transcripts use.
pub(crate) fn crd() -> String {
    read("crd.json")
}

/// The exchanges of a transcript.
pub(crate) fn load(name: &str) -> Vec<Exchange> {
    let text = read(name);
    let mut exchanges: Vec<Exchange> = Vec::new();
    #[derive(PartialEq)]
    enum At {
        Request,
        RequestBody,
        Header,
        Head,
        Body,
    }
    let mut at = At::Request;
    for line in text.lines() {
        if let Some(request) = line.strip_prefix("### ") {
            let (method, path) = request.split_once(' ').unwrap();
            let exchange =
                Exchange { method: method.into(), path: path.trim().into(), ..Exchange::default() };
            exchanges.push(exchange);
            at = At::Request;
            continue;
        }
        let Some(exchange) = exchanges.last_mut() else { continue };
        if let Some(status) = line.strip_prefix("HTTP/2 ") {
            exchange.answer.code = status.trim().parse().unwrap();
            at = At::Head;
        } else if at == At::Head || at == At::Body {
            match line.split_once(": ") {
                Some((name, value)) if at == At::Head && !line.starts_with(['{', ' ']) => {
                    exchange.answer.headers.push((name.to_lowercase(), value.to_owned()));
                }
                _ if at == At::Head && line.is_empty() => {}
                _ => {
                    at = At::Body;
                    exchange.answer.body.extend_from_slice(line.as_bytes());
                    exchange.answer.body.push(b'\n');
                }
            }
        } else if let Some(body) = line.strip_prefix("> body: ") {
            exchange.body = body.to_owned();
            at = At::RequestBody;
        } else if line == "> -H" {
            at = At::Header;
        } else if let (At::Header, Some(header)) = (&at, line.strip_prefix("> ")) {
            let (name, value) = header.split_once(": ").unwrap();
            exchange.headers.push((name.into(), value.into()));
        } else if at == At::RequestBody && !line.is_empty() {
            exchange.body.push_str(line);
        }
    }
    assert!(!exchanges.is_empty(), "{name} has no exchanges");
    exchanges
}

impl Exchange {
    /// Compares an answer with the one that was recorded, except for what differs between any two runs.
    pub(crate) fn compare(&self, answer: &Answer) {
        let place = format!("{} {} {}", self.method, self.path, self.body);
        assert_eq!(answer.code, self.answer.code, "{place}\n{}", answer.text());
        for header in ["warning", "retry-after", "x-content-type-options"] {
            assert_eq!(answer.header(header), self.answer.header(header), "{place}: {header}");
        }
        let content_type = |answer: &Answer| answer.header("content-type").concat();
        assert_eq!(content_type(answer), content_type(&self.answer), "{place}");
        let (ours, theirs) = (values(&answer.text()), values(&self.answer.text()));
        if ours != theirs {
            let show = |values: &[Value]| {
                values.iter().map(|value| format!("{value:#}")).collect::<Vec<_>>().join("\n")
            };
            let (ours, theirs) = (show(&ours), show(&theirs));
            let differing: Vec<String> = diff(&theirs, &ours);
            panic!("{place}\n(- real, + ours)\n{}\n", differing.join("\n"));
        }
    }
}

/// A line-by-line difference that is good enough to read.
fn diff(theirs: &str, ours: &str) -> Vec<String> {
    let (theirs, ours): (Vec<&str>, Vec<&str>) = (theirs.lines().collect(), ours.lines().collect());
    let start = theirs.iter().zip(&ours).take_while(|(left, right)| left == right).count();
    let end =
        theirs[start..].iter().rev().zip(ours[start..].iter().rev()).take_while(|(l, r)| l == r).count();
    let context = theirs[start.saturating_sub(4)..start].iter().map(|line| format!("  {line}"));
    let removed = theirs[start..theirs.len() - end].iter().map(|line| format!("- {line}"));
    let added = ours[start..ours.len() - end].iter().map(|line| format!("+ {line}"));
    context.chain(removed).chain(added).collect()
}

fn values(text: &str) -> Vec<Value> {
    let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match stream.collect::<Result<Vec<_>, _>>() {
        Ok(values) => values.into_iter().map(settle).collect(),
        Err(_) => vec![Value::from(text)],
    }
}

/// Replaces what differs between any two runs.
fn settle(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(settle).collect(),
        Value::Object(fields) => {
            let settled = fields.into_iter().map(|(name, value)| {
                let value = match (name.as_str(), value) {
                    ("uid", Value::String(_)) => "UID".into(),
                    ("resourceVersion", Value::String(_)) => "REVISION".into(),
                    (
                        "time" | "creationTimestamp" | "deletionTimestamp" | "lastTransitionTime",
                        Value::String(_),
                    ) => "TIME".into(),
                    ("continue", Value::String(token)) if !token.is_empty() => "TOKEN".into(),
                    // The real server walks maps in random order, and reports what it finds in that order.
                    ("causes", Value::Array(mut causes)) => {
                        causes.sort_by_key(Value::to_string);
                        causes.into()
                    }
                    (_, value) => settle(value),
                };
                (name, value)
            });
            Value::Object(settled.collect::<Map<_, _>>())
        }
        Value::String(text) => settle_text(&text).into(),
        other => other,
    }
}

fn settle_text(text: &str) -> String {
    if text.len() == 7 && text.starts_with("w-") {
        return "w-GENERATED".to_owned();
    }
    if text.len() <= 4 && text.ends_with('s') && text[..text.len() - 1].parse::<u32>().is_ok() {
        return "AGE".to_owned();
    }
    if let Some((head, list)) = text.split_once(" is invalid: [") {
        let mut parts: Vec<&str> = list.trim_end_matches(']').split(", ").collect();
        parts.sort_unstable();
        return format!("{head} is invalid: [{}]", parts.join(", "));
    }
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let bare = word.trim_matches(['(', ')', '.']);
        let is_uid = bare.len() == 36 && bare.matches('-').count() == 4;
        let is_revision =
            words.last().is_some_and(|last| last == "current:") || words.ends_with(&["1".to_owned()]);
        words.push(match word {
            _ if is_uid => word.replace(bare, "UID"),
            _ if is_revision && bare.parse::<u64>().is_ok() => "REVISION".to_owned(),
            word => word.to_owned(),
        });
    }
    words.join(" ")
}

/// A server of ours.
pub(crate) struct Replay {
    server: ApiServer,
}

impl Replay {
    pub(crate) async fn start() -> Self {
        Self::over(Store::in_memory(History::default())).await
    }

    /// One that remembers only so many changes per resource.
    pub(crate) async fn with_history(events: usize) -> Self {
        Self::over(Store::in_memory(History { events_per_resource: events, ..History::default() })).await
    }

    async fn over(store: Store) -> Self {
        Self { server: ApiServer::start(store, Options::new().seed(7)).await.unwrap() }
    }

    pub(crate) fn service(&self) -> windlass_apiserver::Service {
        self.server.service()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.server.store().revision()
    }

    pub(crate) async fn check(&self, exchange: &Exchange) {
        exchange.compare(&self.send(exchange).await);
    }

    pub(crate) async fn send(&self, exchange: &Exchange) -> Answer {
        let mut headers: Vec<(&str, &str)> =
            exchange.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if !headers.iter().any(|(name, _)| *name == "User-Agent") {
            headers.push(("User-Agent", "curl/8.5.0"));
        }
        self.ask(&exchange.method, &exchange.path, &headers, &exchange.body).await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let response = self.server.service().answer(request).await;
        let (parts, body) = response.into_parts();
        let headers = parts.headers.iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        Answer { code: parts.status.as_u16(), headers, body: body.collect().await.unwrap().to_bytes().into() }
    }
}
