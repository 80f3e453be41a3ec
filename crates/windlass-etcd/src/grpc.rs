//! One request and one answer of gRPC: a message with five bytes before it, and a status after it.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

use crate::error::{Refusal, code};

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// A request of a call. Which host it goes to is the channel's to say.
pub(crate) fn request(method: &'static str, message: &[u8]) -> Request<Bytes> {
    let mut request = Request::new(frame(message));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(method);
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    // A proxy that does not pass trailers on would lose the status.
    headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
    request
}

/// An answer, in which the trailers are among the headers.
pub(crate) fn response(answer: Result<Vec<u8>, Refusal>) -> Response<Bytes> {
    let (status, message, body) = match &answer {
        Ok(message) => (code::OK, "", frame(message)),
        Err(refusal) => {
            let (status, message) = refusal.status();
            (status, message, Bytes::new())
        }
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert(STATUS, HeaderValue::from(status));
    if let (false, Ok(message)) = (message.is_empty(), HeaderValue::from_str(&percent_encoded(message))) {
        headers.insert(MESSAGE, message);
    }
    response
}

/// Why an answer has no message.
#[derive(Debug)]
pub(crate) enum NoMessage {
    Refused(Refusal),
    Malformed(String),
}

/// The message of an answer.
pub(crate) fn message(response: Response<Bytes>) -> Result<Bytes, NoMessage> {
    let (parts, body) = response.into_parts();
    let Some(status) = status(&parts.headers) else {
        return Err(NoMessage::Malformed(match parts.status {
            StatusCode::OK => "it has no status".to_owned(),
            status => format!("HTTP status {status}"),
        }));
    };
    if status != code::OK {
        let message = parts.headers.get(MESSAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        return Err(NoMessage::Refused(Refusal::of(status, &percent_decoded(message))));
    }
    framed(&body)
}

/// The message of a request or an answer, without what is before it.
pub(crate) fn framed(body: &Bytes) -> Result<Bytes, NoMessage> {
    let [compressed, a, b, c, d, ..] = body[..] else {
        return Err(NoMessage::Malformed("it is empty".to_owned()));
    };
    if compressed != 0 {
        return Err(NoMessage::Malformed("it is compressed, which was not asked for".to_owned()));
    }
    let (length, rest) = (u32::from_be_bytes([a, b, c, d]) as usize, body.slice(5..));
    match rest.len() == length {
        true => Ok(rest),
        false => Err(NoMessage::Malformed(format!("it has {} bytes instead of {length}", rest.len()))),
    }
}

fn frame(message: &[u8]) -> Bytes {
    // Messages here have some hundred bytes.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat().into()
}

fn status(headers: &HeaderMap) -> Option<u16> {
    headers.get(STATUS)?.to_str().ok()?.parse().ok()
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'%' | 0..=0x1f | 0x7f.. => format!("%{byte:02X}"),
        byte => char::from(byte).to_string(),
    };
    text.bytes().map(encode).collect()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let hex = (*byte == b'%').then(|| after.get(..2)).flatten();
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(hex.unwrap_or(*byte));
        rest = if hex.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_message_or_a_refusal() {
        assert_eq!(message(response(Ok(vec![1, 2]))).unwrap(), [1, 2][..]);
        let Err(NoMessage::Refused(refusal)) = message(response(Err(Refusal::NotLeader))) else {
            panic!("it was refused");
        };
        assert_eq!(refusal, Refusal::NotLeader);
    }

    #[test]
    fn answers_that_are_not_of_grpc_say_what_is_wrong_with_them() {
        let with = |status: u16, grpc: Option<&'static str>, body: &'static [u8]| {
            let mut response = Response::builder().status(status);
            if let Some(grpc) = grpc {
                response = response.header(STATUS, grpc);
            }
            match message(response.body(Bytes::from_static(body)).unwrap()) {
                Err(NoMessage::Malformed(why)) => why,
                other => format!("{other:?}"),
            }
        };
        assert_eq!(with(200, None, b""), "it has no status");
        assert_eq!(with(502, None, b"bad gateway"), "HTTP status 502 Bad Gateway");
        assert_eq!(with(200, Some("0"), b""), "it is empty");
        assert_eq!(with(200, Some("0"), b"\x01\0\0\0\0"), "it is compressed, which was not asked for");
        assert_eq!(with(200, Some("0"), b"\0\0\0\0\x03ab"), "it has 2 bytes instead of 3");
    }

    #[test]
    fn messages_of_a_status_survive_the_way() {
        for text in ["etcdserver: not leader", "100% of ä\n", "%zz %4"] {
            assert_eq!(percent_decoded(&percent_encoded(text)), text);
        }
        assert_eq!(percent_decoded("a%20b"), "a b");
    }
}
