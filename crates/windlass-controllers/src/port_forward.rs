//! A connection to a port of a pod, through the API server: WebSocket, with the channels that Kubernetes puts into it.
//!
//! The protocol is `v4.channel.k8s.io`, which kubelets have spoken for as long as there are port-forwards: a message begins with the
//! number of its channel, 0 for data and 1 for errors, and the first message of each channel is the port. Text of the error
//! channel ends the connection. Frames are written by hand: there are four kinds of them.

use std::fmt;
use std::io;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::timeout;
use windlass_runtime::describe_error;

const PROTOCOL: &str = "v4.channel.k8s.io";
/// How long the connection may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is in one frame at most, and between the two sides.
const BUFFER: usize = 64 * 1024;
/// A frame of more than this is none of a kubelet.
const LONGEST: u64 = 4 << 20;

/// Why there is no connection to a pod.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPortForward {
    /// The request failed.
    #[error("{}", describe_error(.0))]
    Request(#[from] kube::Error),
    /// The API server did not switch to another protocol.
    #[error("the API server does not forward ports: it answers {0}")]
    Refused(StatusCode),
    /// It switched to another one.
    #[error("the API server forwards ports by {0:?}, not by {PROTOCOL}")]
    Protocol(String),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// It took too long.
    #[error("no connection within {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// A stream to a port of a pod. It ends when either side is closed.
pub(crate) async fn port_forward(
    client: &Client,
    namespace: &str,
    pod: &str,
    port: u16,
) -> Result<DuplexStream, NoPortForward> {
    let connect = async {
        let key = STANDARD.encode(mask(pod.len()).map(|byte| byte.wrapping_add(1)).repeat(4));
        let request =
            Request::get(format!("/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"))
                .header(CONNECTION, "Upgrade")
                .header(UPGRADE, "websocket")
                .header(SEC_WEBSOCKET_VERSION, "13")
                .header(SEC_WEBSOCKET_KEY, key)
                .header(SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
                .body(Body::empty())
                .map_err(|error| NoPortForward::Broken(error.to_string()))?;
        let answer = client.send(request).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(NoPortForward::Refused(answer.status()));
        }
        let protocol = answer.headers().get(SEC_WEBSOCKET_PROTOCOL);
        let protocol = protocol.and_then(|protocol| protocol.to_str().ok()).unwrap_or_default();
        if protocol != PROTOCOL {
            return Err(NoPortForward::Protocol(protocol.to_owned()));
        }
        let upgraded = hyper::upgrade::on(answer).await;
        Ok(TokioIo::new(upgraded.map_err(|error| NoPortForward::Broken(error.to_string()))?))
    };
    let socket = timeout(PATIENCE, connect).await.map_err(|_| NoPortForward::TimedOut(PATIENCE))??;
    Ok(forwarded(socket))
}

/// The data of a connection that has been upgraded.
fn forwarded(socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let (from_pod, to_pod) = tokio::io::split(socket);
    let (from_us, to_us) = tokio::io::split(theirs);
    let (pongs, asked) = tokio::sync::mpsc::channel(1);
    tokio::spawn(send(from_us, to_pod, asked));
    tokio::spawn(async move {
        if let Err(error) = receive(from_pod, to_us, pongs).await {
            tracing::debug!(%error, "a port-forward ended");
        }
    });
    ours
}

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Part of a message, or a whole one.
    Data,
    Close,
    Ping,
    Pong,
}

impl Kind {
    const fn of(opcode: u8) -> Option<Self> {
        match opcode {
            0..=2 => Some(Self::Data),
            8 => Some(Self::Close),
            9 => Some(Self::Ping),
            10 => Some(Self::Pong),
            _ => None,
        }
    }

    const fn opcode(self) -> u8 {
        match self {
            Self::Data => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }
}

/// The other side broke the rules, or said why it ends.
#[derive(Debug)]
struct Ended(String);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Takes data out of the frames of the pod. Both sides are closed when it returns.
async fn receive<S, T>(
    mut socket: ReadHalf<S>,
    mut to_us: WriteHalf<T>,
    pongs: tokio::sync::mpsc::Sender<Vec<u8>>,
) -> Result<(), Ended>
where
    S: AsyncRead + Unpin,
    T: AsyncWrite + Unpin,
{
    let (mut message, mut named) = (Vec::new(), [false; 2]);
    loop {
        let (is_last, kind, payload) = read_frame(&mut socket).await?;
        match kind {
            Kind::Close => break,
            Kind::Ping => pongs.send(payload).await.map_err(|_| Ended("closed".to_owned()))?,
            Kind::Pong => {}
            Kind::Data => {
                message.extend(payload);
                if !is_last {
                    continue;
                }
                match std::mem::take(&mut message).split_first() {
                    // The first message of each channel is the port.
                    Some((channel @ (0 | 1), _)) if !named[usize::from(*channel)] => {
                        named[usize::from(*channel)] = true;
                    }
                    Some((0, data)) => to_us.write_all(data).await?,
                    Some((1, why)) => return Err(Ended(String::from_utf8_lossy(why).into_owned())),
                    Some((channel, _)) => return Err(Ended(format!("there is no channel {channel}"))),
                    None => {}
                }
            }
        }
    }
    to_us.shutdown().await?;
    Ok(())
}

/// Puts data into frames for the pod, until there are no more.
async fn send<S, T>(
    mut from_us: ReadHalf<T>,
    mut socket: WriteHalf<S>,
    mut asked: tokio::sync::mpsc::Receiver<Vec<u8>>,
) where
    S: AsyncWrite + Unpin,
    T: AsyncRead + Unpin,
{
    // The channel of data comes first.
    let mut buffer = vec![0; BUFFER];
    loop {
        let frame = tokio::select! {
            read = from_us.read(&mut buffer[1..]) => match read {
                Ok(0) | Err(_) => break,
                Ok(count) => frame(Kind::Data, &buffer[..=count]),
            },
            ping = asked.recv() => match ping {
                Some(payload) => frame(Kind::Pong, &payload),
                None => break,
            },
        };
        if socket.write_all(&frame).await.is_err() {
            return;
        }
    }
    let _ = socket.write_all(&frame(Kind::Close, &[])).await;
    let _ = socket.shutdown().await;
}

/// Whether it ends its message, what it is, and what is in it. A server does not mask.
async fn read_frame(socket: &mut (impl AsyncRead + Unpin)) -> Result<(bool, Kind, Vec<u8>), Ended> {
    let first = socket.read_u8().await?;
    let second = socket.read_u8().await?;
    let kind =
        Kind::of(first & 0x0f).ok_or_else(|| Ended(format!("there is no frame of kind {}", first & 0x0f)))?;
    let length = match second & 0x7f {
        126 => u64::from(socket.read_u16().await?),
        127 => socket.read_u64().await?,
        short => u64::from(short),
    };
    if second & 0x80 != 0 || length > LONGEST {
        return Err(Ended("a frame that no server sends".to_owned()));
    }
    let mut payload = Vec::new();
    (&mut *socket).take(length).read_to_end(&mut payload).await?;
    if payload.len() as u64 != length {
        return Err(Ended("the connection ended in the middle of a frame".to_owned()));
    }
    Ok((first & 0x80 != 0, kind, payload))
}

/// A whole message in one frame. A client masks what it sends, so that no proxy takes it for something else; this connection is
/// encrypted, so which mask it is does not matter.
fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | kind.opcode()];
    match payload.len() {
        // Each conversion fits, by the arm that it is in.
        short @ 0..126 => frame.push(0x80 | u8::try_from(short).unwrap_or_default()),
        medium @ 126..0x1_0000 => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(medium).unwrap_or_default().to_be_bytes());
        }
        long => {
            frame.push(0x80 | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    let mask = mask(payload.len());
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

const fn mask(length: usize) -> [u8; 4] {
    (length as u32).wrapping_mul(0x9e37_79b9).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kubelet makes of frames: it reads them, and answers with data twice as long in two frames.
    async fn kubelet(mut socket: DuplexStream) -> Vec<Vec<u8>> {
        let port = 2379u16.to_le_bytes();
        for channel in [0, 1] {
            socket.write_all(&[0x82, 3, channel, port[0], port[1]]).await.unwrap();
        }
        socket.write_all(&[0x89, 2, b'h', b'i']).await.unwrap();
        let mut seen = Vec::new();
        loop {
            let opcode = socket.read_u8().await.unwrap();
            let length = match socket.read_u8().await.unwrap() & 0x7f {
                126 => usize::from(socket.read_u16().await.unwrap()),
                127 => socket.read_u64().await.unwrap() as usize,
                short => usize::from(short),
            };
            let mut mask = [0; 4];
            socket.read_exact(&mut mask).await.unwrap();
            let mut payload = vec![0; length];
            socket.read_exact(&mut payload).await.unwrap();
            let payload: Vec<u8> =
                payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
            match opcode {
                0x88 => return seen,
                0x8a => assert_eq!(payload, b"hi", "a ping is answered with what it has"),
                _ => {
                    assert_eq!((opcode, payload[0]), (0x82, 0));
                    let data = payload[1..].to_vec();
                    let mut first = vec![0x02, 0x7e];
                    first.extend(u16::try_from(data.len() + 1).unwrap().to_be_bytes());
                    first.push(0);
                    first.extend(&data);
                    socket.write_all(&first).await.unwrap();
                    let mut second = vec![0x80, 0x7e];
                    second.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
                    second.extend(&data);
                    socket.write_all(&second).await.unwrap();
                    seen.push(data);
                }
            }
        }
    }

    #[tokio::test]
    async fn data_goes_through_in_both_directions_until_it_is_closed() {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (mut stream, kubelet) = (forwarded(near), tokio::spawn(kubelet(far)));
        for length in [1, 125, 200, 40_000] {
            let sent: Vec<u8> = (0..length).map(|index| u8::try_from(index % 251).unwrap()).collect();
            stream.write_all(&sent).await.unwrap();
            let mut twice = vec![0; 2 * sent.len()];
            stream.read_exact(&mut twice).await.unwrap();
            assert_eq!(twice, [sent.clone(), sent].concat());
        }
        drop(stream);
        let lengths: usize = kubelet.await.unwrap().iter().map(Vec::len).sum();
        assert_eq!(lengths, 1 + 125 + 200 + 40_000);
    }

    #[tokio::test]
    async fn an_error_of_the_kubelet_ends_the_stream() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let mut stream = forwarded(near);
        far.write_all(&[0x82, 3, 1, 0x4b, 9, 0x82, 5, 1, b'g', b'o', b'n', b'e']).await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"");
    }
}
