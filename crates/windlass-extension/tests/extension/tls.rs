//! Certificates: shown, asked for, and exchanged under load.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use windlass_extension::hooks::{BeforeClusterUpgrade, BeforeClusterUpgradeResponse, HookResponse};
use windlass_extension::{DevelopmentCertificate, Extension, Server, Tls};

use crate::support::{Caller, H1, H2, REQUEST, Running, certificate, eventually, gate_path};

fn extension() -> Extension {
    Extension::new("tls")
        .on(BeforeClusterUpgrade, "pass", |_, _| async { BeforeClusterUpgradeResponse::success() })
        .build()
        .unwrap()
}

fn der(certificate: &DevelopmentCertificate) -> Vec<u8> {
    CertificateDer::from_pem_slice(certificate.certificate_pem().as_bytes()).unwrap().to_vec()
}

struct Files {
    _directory: tempfile::TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn with(certificate: &DevelopmentCertificate) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = Self {
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
            _directory: directory,
        };
        files.write(certificate);
        files
    }

    fn write(&self, certificate: &DevelopmentCertificate) {
        std::fs::write(&self.certificate, certificate.certificate_pem()).unwrap();
        std::fs::write(&self.key, certificate.key_pem()).unwrap();
    }

    fn tls(&self) -> Tls {
        Tls::files(&self.certificate, &self.key).reload_every(Duration::from_millis(20))
    }
}

#[tokio::test]
async fn either_protocol_is_agreed_on_and_http1_is_preferred() {
    let (running, caller) = Running::with(extension()).await;
    for (offered, agreed) in [
        (&[b"h2".as_slice(), b"http/1.1"][..], Some(b"http/1.1".as_slice())),
        (H2, Some(b"h2")),
        (H1, Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = caller.handshake(running.address, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed);
        let mut connection = caller.connect(running.address, offered).await.unwrap();
        assert_eq!(connection.post(&gate_path("pass"), REQUEST).await.outcome().0, "Success");
    }
}

#[tokio::test]
async fn a_caller_that_trusts_somebody_else_does_not_get_through() {
    let (running, _) = Running::with(extension()).await;
    let stranger = Caller::trusting(&certificate());
    assert!(stranger.connect(running.address, H2).await.is_err());
}

#[tokio::test]
async fn a_certificate_is_exchanged_under_load_without_a_failed_call() {
    let (old, new) = (certificate(), certificate());
    let files = Files::with(&old);
    let running = Running::start(Server::new(extension(), files.tls())).await;
    let address = running.address;
    let caller = Caller::trusting(&old).and_trusting(new.ca_pem());
    let mut kept = caller.connect(address, H2).await.unwrap();
    assert_eq!(kept.server_certificate, der(&old));

    let mut load = tokio::task::JoinSet::new();
    for alpn in [H1, H2, H1, H2] {
        let (caller, new) = (caller.clone(), der(&new));
        load.spawn(async move {
            let mut calls = 0;
            loop {
                let mut connection = caller.connect(address, alpn).await.unwrap();
                for _ in 0..5 {
                    assert_eq!(connection.post(&gate_path("pass"), REQUEST).await.outcome().0, "Success");
                    calls += 1;
                }
                if connection.server_certificate == new {
                    return calls;
                }
            }
        });
    }
    files.write(&new);
    while let Some(calls) = load.join_next().await {
        assert!(calls.unwrap() > 0);
    }
    assert_eq!(kept.post(&gate_path("pass"), REQUEST).await.outcome().0, "Success");
}

#[tokio::test]
async fn rubbish_in_the_files_leaves_the_old_certificate_in_use() {
    let (old, new) = (certificate(), certificate());
    let files = Files::with(&old);
    let running = Running::start(Server::new(extension(), files.tls())).await;
    let caller = Caller::trusting(&old).and_trusting(new.ca_pem());
    std::fs::write(&files.certificate, "rubbish").unwrap();
    std::fs::remove_file(&files.key).unwrap();
    for _ in 0..10 {
        let connection = caller.connect(running.address, H2).await.unwrap();
        assert_eq!(connection.server_certificate, der(&old));
    }
    files.write(&new);
    eventually(|| async {
        let connection = caller.connect(running.address, H2).await.unwrap();
        (connection.server_certificate == der(&new)).then_some(())
    })
    .await;
}

/// An authority, and a certificate for a caller that it signed.
fn identity() -> (String, String, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let mut caller = CertificateParams::new(Vec::new()).unwrap();
    caller.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = caller.signed_by(&key, &authority).unwrap();
    (authority.pem(), certificate.pem(), key.serialize_pem())
}

async fn gets_through(caller: &Caller, address: std::net::SocketAddr) -> bool {
    // With TLS 1.3 a caller learns that it was refused only after its own handshake.
    match caller.connect(address, H2).await {
        Ok(mut connection) => connection.request("POST", &gate_path("pass"), REQUEST).await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn only_callers_with_a_certificate_of_the_client_ca_get_through() {
    let (server, (ca, certificate, key), (other_ca, other, other_key)) =
        (certificate(), identity(), identity());
    let directory = tempfile::tempdir().unwrap();
    let file: &Path = &directory.path().join("ca.crt");
    std::fs::write(file, &ca).unwrap();
    let tls = Tls::development(server.clone()).client_ca_file(file).reload_every(Duration::from_millis(20));
    let running = Running::start(Server::new(extension(), tls)).await;
    let anonymous = Caller::trusting(&server);
    let known = anonymous.clone().with_identity(&certificate, &key);
    let stranger = anonymous.clone().with_identity(&other, &other_key);
    assert!(!gets_through(&anonymous, running.address).await);
    assert!(gets_through(&known, running.address).await);
    assert!(!gets_through(&stranger, running.address).await);

    std::fs::write(file, &other_ca).unwrap();
    eventually(|| async { gets_through(&stranger, running.address).await.then_some(()) }).await;
    assert!(!gets_through(&known, running.address).await);
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let server = Server::new(extension(), Tls::development(certificate()));
    let error = server.bind(address).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");

    let server = Server::new(extension(), Tls::files("/does/not/exist.crt", "/does/not/exist.key"));
    let error = server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot read /does/not/exist.crt: "), "{error}");
}

#[tokio::test]
async fn the_manifest_names_the_bound_port_the_base_path_and_the_authority() {
    let certificate = certificate();
    let extension = Extension::new("described").base_path("/base").build().unwrap();
    let server = Server::new(extension, Tls::development(certificate.clone()))
        .bind("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let port = server.local_address().port();
    assert_eq!(server.url("::1"), format!("https://[::1]:{port}/base"));
    let manifest = server.manifest("localhost");
    assert!(manifest.contains(&format!("url: https://localhost:{port}/base\n")), "{manifest}");
    assert!(manifest.contains(&format!("caBundle: {}\n", certificate.ca_bundle())), "{manifest}");
}
