//! Connections to members: TLS as kubeadm's etcd has it, and what happens when they break.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod authority;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::ExtendedKeyUsagePurpose;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use windlass_etcd::{Channel, ConnectionError, Credentials, EtcdClient, EtcdError, MemoryEtcd, Refusal};

use authority::Authority;

/// A server that wants certificates of an authority, as kubeadm's etcd does.
fn server(authority: &Authority) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    // The names that kubeadm writes: not the name of the pod, by which a member is asked for.
    let (certificate, key) =
        authority.signed(&["node-1", "localhost", "127.0.0.1"], &[ExtendedKeyUsagePurpose::ServerAuth]);
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Answers on a stream as member `a` does, with the status in trailers, where gRPC has it.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, etcd: MemoryEtcd) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let channel = etcd.channel("a");
        async move {
            let (parts, body) = request.into_parts();
            assert_eq!(parts.headers["content-type"], "application/grpc");
            let request = Request::from_parts(parts, body.collect().await.unwrap().to_bytes());
            let (mut parts, body) = channel.oneshot(request).await.unwrap().into_parts();
            let mut trailers = HeaderMap::new();
            for name in ["grpc-status", "grpc-message"] {
                if let Some(value) = parts.headers.remove(name) {
                    trailers.insert(HeaderName::from_static(name), value);
                }
            }
            let body = Full::new(body).with_trailers(async { Some(Ok(trailers)) });
            Ok::<_, Infallible>(Response::from_parts(parts, BoxBody::<Bytes, Infallible>::new(body)))
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer);
    // Ends with the client, or because TLS was refused.
    drop(connection.await);
}

fn etcd() -> MemoryEtcd {
    let etcd = MemoryEtcd::new();
    for name in ["a", "b", "c"] {
        etcd.join(name).unwrap();
    }
    etcd
}

/// A stream that leads to member `a` behind TLS.
fn behind_tls(server: TlsAcceptor, etcd: &MemoryEtcd) -> DuplexStream {
    let (near, far) = duplex(64 << 10);
    let etcd = etcd.clone();
    tokio::spawn(async move {
        if let Ok(stream) = server.accept(far).await {
            serve(stream, etcd).await;
        }
    });
    near
}

#[tokio::test]
async fn a_member_is_believed_by_its_authority_whatever_its_name() {
    let (authority, etcd) = (Authority::new(), etcd());
    let long = format!("etcd-{}", "n".repeat(63));
    for name in ["etcd-node-1", long.as_str()] {
        let stream = behind_tls(server(&authority), &etcd);
        let channel = Channel::tls(stream, &authority.credentials(&authority), name).await.unwrap();
        let client = EtcdClient::new(channel);
        let members = client.members().await.unwrap();
        let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, BTreeSet::from(["a", "b", "c"]));
        let status = client.status().await.unwrap();
        assert_eq!(status.leader, Some(status.member));
        client.health().await.unwrap();
        let refused = client.remove(windlass_etcd::MemberId(7)).await.unwrap_err();
        assert_eq!(refused.refusal(), Some(&Refusal::MemberNotFound), "the status comes in trailers");
    }
}

#[tokio::test]
async fn a_member_of_another_authority_is_refused_and_refuses_us() {
    let (authority, other, etcd) = (Authority::new(), Authority::new(), etcd());
    let stream = behind_tls(server(&other), &etcd);
    let error = Channel::tls(stream, &authority.credentials(&other), "etcd-node-1").await.unwrap_err();
    assert!(
        matches!(&error, ConnectionError::Tls(why) if why.contains("invalid peer certificate")),
        "{error}"
    );
    // Since TLS 1.3 a server says only after the handshake that it does not take a certificate.
    let stream = behind_tls(server(&authority), &etcd);
    match Channel::tls(stream, &authority.credentials(&other), "etcd-node-1").await {
        Err(ConnectionError::Tls(_) | ConnectionError::Broken(_)) => {}
        Err(other) => unreachable!("{other}"),
        Ok(channel) => {
            let error = EtcdClient::new(channel).status().await.unwrap_err();
            assert!(matches!(error, EtcdError::Connection { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn certificates_that_are_none_are_named() {
    let authority = Authority::new();
    let (certificate, key) = authority.signed(&[], &[ExtendedKeyUsagePurpose::ClientAuth]);
    for (authority, certificate, key, what) in [
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &*certificate,
            &*key,
            "the authority",
        ),
        ("", &*certificate, &*key, "the authority"),
        (&*authority.pem, "", &*key, "the client certificate"),
        (&*authority.pem, &*certificate, "", "the private key"),
    ] {
        let error = Credentials::from_pem(authority, certificate, key).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_an_error_of_the_next_call() {
    let (near, far) = duplex(64 << 10);
    let etcd = etcd();
    let server = tokio::spawn(serve(far, etcd.clone()));
    let client = EtcdClient::new(Channel::plain(near).await.unwrap());
    client.health().await.unwrap();
    server.abort();
    assert!(server.await.unwrap_err().is_cancelled());
    let error = client.status().await.unwrap_err();
    assert!(matches!(&error, EtcdError::Connection { why: ConnectionError::Broken(_), .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_never_answers_is_given_up() {
    // The other end is open, and silent.
    let (near, _far) = duplex(64 << 10);
    let client = EtcdClient::new(Channel::plain(near).await.unwrap()).patience(Duration::from_secs(3));
    let error = client.status().await.unwrap_err();
    assert_eq!(error.to_string(), "/etcdserverpb.Maintenance/Status: no answer within 3 s");
    let (near, _far) = duplex(64 << 10);
    let authority = Authority::new();
    let error = Channel::tls(near, &authority.credentials(&authority), "etcd-a").await.unwrap_err();
    assert_eq!(error, ConnectionError::TimedOut(Duration::from_secs(10)));
}
