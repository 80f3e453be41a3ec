//! The transcripts: requests after `###`, each with the response that a real API server gave.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use windlass_apimachinery::fieldmanager::Timestamp;

/// One request and its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) content_type: String,
    pub(crate) status: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) answer: String,
}

impl Exchange {
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn answer_json(&self) -> Value {
        serde_json::from_str(&self.answer).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }

    /// When it happened: the latest time that the answer mentions.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        let answer: Value = serde_json::from_str(&self.answer).ok()?;
        let entries = answer.pointer("/metadata/managedFields")?.as_array()?;
        entries.iter().filter_map(|entry| Timestamp::parse(entry["time"].as_str()?)).max()
    }

    pub(crate) fn body_json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{}: {error}", self.body))
    }
}

/// A recording of a real API server, or what belongs to one.
pub(crate) fn file(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../testdata/kube-apiserver", name].iter().collect();
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The exchanges of a transcript.
pub(crate) fn exchanges(name: &str) -> Vec<Exchange> {
    let text = file(name);
    let exchanges: Vec<Exchange> = text.split("### ").skip(1).map(exchange).collect();
    assert!(!exchanges.is_empty(), "{name} has no exchanges");
    exchanges
}

fn exchange(text: &str) -> Exchange {
    let mut lines = text.lines();
    let (method, url) = lines.next().and_then(|line| line.split_once(' ')).unwrap();
    let (path, query) = url.trim().split_once('?').unwrap_or((url.trim(), ""));
    let query = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut exchange = Exchange {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.map(|(key, value)| (key.to_owned(), percent_decoded(value))).collect(),
        body: String::new(),
        content_type: String::new(),
        status: 0,
        warnings: Vec::new(),
        answer: String::new(),
    };
    for line in lines.by_ref() {
        if let Some(body) = line.strip_prefix("> body: ") {
            exchange.body = body.to_owned();
        } else if let Some(content_type) = line.strip_prefix("> Content-Type: ") {
            exchange.content_type = content_type.to_owned();
        } else if let Some(status) = line.strip_prefix("HTTP/2 ") {
            exchange.status = status.trim().parse().unwrap();
            break;
        }
    }
    // Headers are at the start of a line and have no quotes; what follows them is the answer.
    let is_header = |line: &&str| line.is_empty() || line.starts_with(|c: char| c.is_ascii_lowercase());
    let rest: Vec<&str> = lines.collect();
    let headers = rest.iter().take_while(|line| is_header(line));
    for warning in headers.clone().filter_map(|line| line.strip_prefix("warning: 299 - ")) {
        exchange.warnings.push(serde_json::from_str(warning).unwrap());
    }
    exchange.answer = rest[headers.count()..].join("\n").trim().to_owned();
    exchange
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = if byte == b'%' { rest.next().zip(rest.next()) } else { None };
        match hex {
            Some((high, low)) => {
                let digits = [high, low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            None => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
