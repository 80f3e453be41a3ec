//! The file format of recorded exchanges: one request and what became of it.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Endpoint, TransportError};

/// Headers that are written down. All others are left out: a caller that adds a header for authentication need
/// not think of recordings, and recordings of the same calls are the same.
const KEPT_HEADERS: [HeaderName; 7] = [
    header::ACCEPT,
    header::CONTENT_ENCODING,
    header::CONTENT_TYPE,
    header::LOCATION,
    header::RETRY_AFTER,
    header::SERVER,
    header::USER_AGENT,
];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Exchange {
    pub(super) request: RecordedRequest,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedRequest {
    pub(super) extension: String,
    pub(super) method: String,
    pub(super) url: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    pub(super) body: RecordedBody,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    Response(RecordedResponse),
    Error(String),
    /// The caller did not wait long enough.
    Unanswered,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedResponse {
    status: u16,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    body: RecordedBody,
}

/// JSON is written as JSON, so that a recording can be read and edited; the rest as closely as possible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum RecordedBody {
    Json(Value),
    Text(String),
    Base64(String),
}

impl RecordedRequest {
    pub(super) fn of(request: &http::Request<Bytes>) -> Self {
        let extension = request.extensions().get().map(Endpoint::extension).unwrap_or_default();
        Self {
            extension: extension.to_owned(),
            method: request.method().to_string(),
            url: request.uri().to_string(),
            headers: kept(request.headers()),
            body: RecordedBody::of(request.body()),
        }
    }

    /// The path without the query: a changed timeout does not make it another request.
    pub(super) fn path(&self) -> &str {
        let after_scheme = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let path = after_scheme.find('/').map_or("", |slash| &after_scheme[slash..]);
        path.split_once('?').map_or(path, |(path, _)| path)
    }
}

impl Outcome {
    pub(super) fn of(result: &Result<http::Response<Bytes>, TransportError>) -> Self {
        match result {
            Ok(response) => Self::Response(RecordedResponse {
                status: response.status().as_u16(),
                headers: kept(response.headers()),
                body: RecordedBody::of(response.body()),
            }),
            Err(error) => Self::Error(error.to_string()),
        }
    }
}

impl RecordedResponse {
    /// # Errors
    ///
    /// What is wrong with a recording that was edited.
    pub(super) fn to_response(&self) -> Result<http::Response<Bytes>, String> {
        let mut response = http::Response::builder().status(self.status);
        for (name, value) in &self.headers {
            response = response.header(name, value);
        }
        response.body(self.body.to_bytes()?).map_err(|error| error.to_string())
    }
}

impl RecordedBody {
    pub(super) fn of(body: &Bytes) -> Self {
        if let Ok(json) = serde_json::from_slice(body) {
            return Self::Json(json);
        }
        match std::str::from_utf8(body) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(body)),
        }
    }

    fn to_bytes(&self) -> Result<Bytes, String> {
        Ok(match self {
            Self::Json(json) => json.to_string().into(),
            Self::Text(text) => text.clone().into(),
            Self::Base64(encoded) => STANDARD.decode(encoded).map_err(|error| error.to_string())?.into(),
        })
    }
}

fn kept(headers: &HeaderMap) -> BTreeMap<String, String> {
    let kept = headers.iter().filter(|(name, _)| KEPT_HEADERS.contains(name));
    kept.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_headers_are_not_written_down() {
        let request = http::Request::post("https://h.example:8443/base/discovery?timeout=10s")
            .header("authorization", "Bearer secret")
            .header("cookie", "session=secret")
            .header("x-api-key", "secret")
            .header("content-type", "application/json")
            .body(Bytes::from_static(b"{\"b\":1,\"a\":2}"))
            .unwrap();
        let recorded = RecordedRequest::of(&request);
        let text = serde_json::to_string(&recorded).unwrap();
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(recorded.headers.keys().collect::<Vec<_>>(), ["content-type"]);
        assert_eq!(recorded.path(), "/base/discovery");
    }

    #[test]
    fn every_body_comes_back() {
        for body in [&b"{\"status\":\"Success\"}"[..], b"", b"{\"status\":", b"\xff\xfe"] {
            let body = Bytes::from_static(body);
            assert_eq!(RecordedBody::of(&body).to_bytes(), Ok(body));
        }
    }
}
