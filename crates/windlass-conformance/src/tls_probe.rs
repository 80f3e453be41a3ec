//! Finds out whether a server still speaks TLS 1.0 or 1.1, which rustls cannot ask.
//!
//! A ClientHello by hand is enough: a server that refuses the version answers with an alert or hangs up, and
//! one that accepts it answers with a ServerHello. Nothing secret is ever exchanged.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A version that no server should speak any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldTls {
    V1_0,
    V1_1,
}

impl OldTls {
    pub(crate) const ALL: [Self; 2] = [Self::V1_0, Self::V1_1];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::V1_0 => "TLS 1.0",
            Self::V1_1 => "TLS 1.1",
        }
    }

    const fn wire(self) -> [u8; 2] {
        match self {
            Self::V1_0 => [3, 1],
            Self::V1_1 => [3, 2],
        }
    }
}

const RECORD_HANDSHAKE: u8 = 22;
const MESSAGE_CLIENT_HELLO: u8 = 1;
const MESSAGE_SERVER_HELLO: u8 = 2;
/// Record header, message header and version of a ServerHello.
const SERVER_HELLO_START: usize = 5 + 4 + 2;

/// Whether the server answers a ClientHello of that version with a ServerHello.
pub(crate) async fn accepts(
    mut stream: TcpStream,
    version: OldTls,
    server_name: Option<&str>,
    limit: Duration,
) -> bool {
    let talk = async {
        stream.write_all(&client_hello(version, server_name)).await.ok()?;
        let mut start = [0; SERVER_HELLO_START];
        // An alert ends after seven bytes: asking for more at once would wait for what never comes.
        let (kind, rest) = start.split_at_mut(6);
        stream.read_exact(kind).await.ok()?;
        if kind[0] == RECORD_HANDSHAKE {
            stream.read_exact(rest).await.ok()?;
        }
        Some(start)
    };
    // Silence, a reset and an alert all mean no.
    match timeout(limit, talk).await {
        Ok(Some(start)) => is_server_hello(&start, version),
        _ => false,
    }
}

fn is_server_hello(start: &[u8; SERVER_HELLO_START], version: OldTls) -> bool {
    start[0] == RECORD_HANDSHAKE && start[5] == MESSAGE_SERVER_HELLO && start[9..] <= version.wire()[..]
}

/// A ClientHello with the cipher suites that every stack of that time had.
fn client_hello(version: OldTls, server_name: Option<&str>) -> Vec<u8> {
    // ECDHE and plain RSA with AES and 3DES, all with CBC and SHA-1.
    const CIPHER_SUITES: [u16; 8] = [0xc009, 0xc00a, 0xc013, 0xc014, 0x002f, 0x0035, 0x000a, 0x00ff];
    // supported_groups: x25519, P-256, P-384; ec_point_formats: uncompressed.
    const CURVES: [u8; 18] = [0, 10, 0, 8, 0, 6, 0, 29, 0, 23, 0, 24, 0, 11, 0, 2, 1, 0];

    let mut extensions = CURVES.to_vec();
    if let Some(name) = server_name {
        let entry = [&[0][..], &length16(name.len()), name.as_bytes()].concat();
        let list = [&length16(entry.len())[..], &entry].concat();
        extensions.extend([&[0, 0][..], &length16(list.len()), &list].concat());
    }

    let mut hello = version.wire().to_vec();
    // The random need not be random: no key is ever derived from it.
    hello.extend([0x57; 32]);
    hello.push(0);
    hello.extend(length16(CIPHER_SUITES.len() * 2));
    hello.extend(CIPHER_SUITES.iter().flat_map(|suite| suite.to_be_bytes()));
    hello.extend([1, 0]);
    hello.extend(length16(extensions.len()));
    hello.extend(extensions);

    let [high, low] = length16(hello.len());
    let message = [&[MESSAGE_CLIENT_HELLO, 0, high, low][..], &hello].concat();
    // The record says TLS 1.0, as clients did for the sake of old middleboxes.
    [&[RECORD_HANDSHAKE, 3, 1][..], &length16(message.len()), &message].concat()
}

fn length16(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use rustls::server::Acceptor;

    use super::*;

    #[test]
    fn the_hello_is_well_formed() {
        let hello = client_hello(OldTls::V1_1, Some("ext.ns.svc"));
        assert_eq!(usize::from(u16::from_be_bytes([hello[3], hello[4]])), hello.len() - 5);
        // A strict parser reads it whole and finds nothing wrong but the version.
        let mut acceptor = Acceptor::default();
        acceptor.read_tls(&mut hello.as_slice()).unwrap();
        match acceptor.accept() {
            Ok(Some(accepted)) => assert_eq!(accepted.client_hello().server_name(), Some("ext.ns.svc")),
            Ok(None) => panic!("the hello is not complete"),
            Err((error, _)) => {
                let text = error.to_string();
                assert!(!text.contains("InvalidMessage") && !text.contains("corrupt"), "{text}");
            }
        }
    }

    #[test]
    fn only_a_server_hello_of_that_version_counts() {
        let start = |record, message, minor| [record, 3, 1, 0, 40, message, 0, 0, 36, 3, minor];
        assert!(is_server_hello(&start(22, 2, 2), OldTls::V1_1));
        assert!(is_server_hello(&start(22, 2, 1), OldTls::V1_1));
        assert!(!is_server_hello(&start(22, 2, 3), OldTls::V1_1));
        assert!(!is_server_hello(&start(21, 2, 2), OldTls::V1_1));
        assert!(!is_server_hello(&start(22, 1, 2), OldTls::V1_1));
    }
}
