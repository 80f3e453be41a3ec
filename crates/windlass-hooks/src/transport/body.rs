//! Reading an answer without trusting its size.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::{MAX_BODY_BYTES, TransportError};

/// Reads the whole answer, decompresses it on the way and stops as soon as it is too large in either form.
pub(super) async fn collect(
    response: http::Response<Incoming>,
) -> Result<http::Response<Bytes>, TransportError> {
    let (mut head, mut body) = response.into_parts();
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > MAX_BODY_BYTES {
        return Err(TransportError::AnswerTooLarge);
    }
    let mut sink = match head.headers.get(CONTENT_ENCODING).map(|value| value.as_bytes()) {
        None | Some(b"") | Some(b"identity") => Sink::Plain(Bounded::with_capacity(announced)),
        Some(encoding) if encoding.eq_ignore_ascii_case(b"gzip") => {
            Sink::Gzip(MultiGzDecoder::new(Bounded::default()))
        }
        Some(other) => {
            let other = String::from_utf8_lossy(other).into_owned();
            return Err(TransportError::Encoding(format!("unknown encoding {other:?}")));
        }
    };
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken_answer(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        received += data.len();
        if received > MAX_BODY_BYTES {
            return Err(TransportError::AnswerTooLarge);
        }
        sink.write(&data)?;
    }
    if head.headers.remove(CONTENT_ENCODING).is_some() {
        head.headers.remove(CONTENT_LENGTH);
    }
    Ok(http::Response::from_parts(head, sink.finish(received)?))
}

fn broken_answer(error: &hyper::Error) -> TransportError {
    if let Some(problem) = super::TlsProblem::find(error) {
        return TransportError::Broken(format!("TLS failed in the middle of the answer: {problem}"));
    }
    TransportError::Broken("the connection ended in the middle of the answer".to_owned())
}

enum Sink {
    Plain(Bounded),
    Gzip(MultiGzDecoder<Bounded>),
}

impl Sink {
    fn write(&mut self, data: &[u8]) -> Result<(), TransportError> {
        match self {
            Self::Plain(bounded) => {
                bounded.write_all(data).map_err(|error| undecodable(bounded.overflowed, &error))
            }
            Self::Gzip(decoder) => {
                decoder.write_all(data).map_err(|error| undecodable(decoder.get_ref().overflowed, &error))
            }
        }
    }

    fn finish(self, received: usize) -> Result<Bytes, TransportError> {
        match self {
            Self::Plain(bounded) => Ok(bounded.bytes.into()),
            // Nothing at all is not even an empty gzip stream, but servers send it with empty answers.
            Self::Gzip(_) if received == 0 => Ok(Bytes::new()),
            Self::Gzip(mut decoder) => match decoder.try_finish() {
                Ok(()) => Ok(std::mem::take(&mut decoder.get_mut().bytes).into()),
                Err(error) => Err(undecodable(decoder.get_ref().overflowed, &error)),
            },
        }
    }
}

fn undecodable(overflowed: bool, error: &io::Error) -> TransportError {
    if overflowed {
        TransportError::AnswerTooLarge
    } else {
        TransportError::Encoding(format!("gzip: {}", error.kind()))
    }
}

/// Bytes up to the limit. Refuses what goes beyond, so that a small answer cannot unpack to a huge one.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    overflowed: bool,
}

impl Bounded {
    fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity), overflowed: false }
    }
}

impl Write for Bounded {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + data.len() > MAX_BODY_BYTES {
            self.overflowed = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(compressed: &[u8]) -> Result<Bytes, TransportError> {
        let mut sink = Sink::Gzip(MultiGzDecoder::new(Bounded::default()));
        for chunk in compressed.chunks(7) {
            sink.write(chunk)?;
        }
        sink.finish(compressed.len())
    }

    #[test]
    fn what_was_compressed_comes_back() {
        assert_eq!(unpack(&gzip(b"{}")).unwrap(), "{}");
        assert_eq!(unpack(&[gzip(b"{"), gzip(b"}")].concat()).unwrap(), "{}");
        assert_eq!(unpack(b"").unwrap(), "");
    }

    #[test]
    fn the_limit_is_exact() {
        let largest = gzip(&vec![b' '; MAX_BODY_BYTES]);
        assert_eq!(unpack(&largest).unwrap().len(), MAX_BODY_BYTES);
        let too_large = gzip(&vec![b' '; MAX_BODY_BYTES + 1]);
        assert_eq!(unpack(&too_large), Err(TransportError::AnswerTooLarge));
    }

    #[test]
    fn damaged_streams_are_errors() {
        let whole = gzip(b"{\"status\":\"Success\"}");
        for damaged in [&whole[..whole.len() - 3], &whole[..5], b"plain text"] {
            let error = unpack(damaged).unwrap_err();
            assert!(matches!(error, TransportError::Encoding(_)), "{error}");
        }
    }
}
