//! Who is trusted, and who we are.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Barrier;
use tower::ServiceExt;
use windlass_api::hooks::{BeforeClusterUpgrade, Hook};
use windlass_api::runtime::{CaBundle, ServiceReference};
use windlass_hooks::transport::{
    ClientIdentityFiles, Endpoint, HttpsTransport, HttpsTransportBuilder, TlsProblem, TransportError, boxed,
};
use windlass_hooks::{CallError, CallFailure, HookClient};

use crate::certificates::{Authority, Leaf};
use crate::server::{Options, Server, Speaks, answers, says};
use crate::setup::{SUCCESS, extension, handler, https_client, register, register_as, upgrade_request};

/// The failure of a call, or nothing if it worked.
async fn call(client: &HookClient) -> Result<(), CallFailure> {
    match client.call_one::<BeforeClusterUpgrade>("gate.ext1", "ns1", &upgrade_request()).await {
        Ok(answer) => {
            assert!(answer.given().is_some());
            Ok(())
        }
        Err(CallError::Failed { failure, .. }) => Err(failure),
        Err(other) => panic!("{other}"),
    }
}

/// A handler that is patient, because machines that run tests are busy.
fn gate() -> serde_json::Value {
    let mut gate = handler("gate", Hook::BeforeClusterUpgrade, "Fail");
    gate["timeoutSeconds"] = serde_json::json!(30);
    gate
}

fn tls_problem(result: Result<(), CallFailure>) -> TlsProblem {
    match result {
        Err(CallFailure::Transport(TransportError::Tls { problem, .. })) => problem,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_is_trusted_by_name_and_by_address() {
    let authority = Authority::new("ca");
    let leaf = authority.issue(&["localhost", "127.0.0.1"]);
    let server = Server::start(&leaf, says(SUCCESS)).await;
    for host in ["localhost", "127.0.0.1"] {
        let client = https_client(&server.url(host), authority.bundle(), "Fail");
        assert_eq!(call(&client).await, Ok(()), "{host}");
    }
}

#[tokio::test]
async fn an_address_needs_a_certificate_for_addresses() {
    let authority = Authority::new("ca");
    let server = Server::start(&authority.issue(&["localhost"]), says(SUCCESS)).await;
    let client = https_client(&server.url("127.0.0.1"), authority.bundle(), "Fail");
    let problem = tls_problem(call(&client).await);
    assert!(matches!(problem, TlsProblem::WrongName { .. }), "{problem}");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let authority = Authority::new("ca");
    let server = Server::start(&authority.issue(&["localhost"]), says(SUCCESS)).await;
    let client = https_client(&server.url("localhost"), Authority::new("other").bundle(), "Fail");
    let failure = call(&client).await.unwrap_err();
    let port = server.address.port();
    assert_eq!(
        failure.to_string(),
        format!(
            "TLS with \"localhost:{port}\": its certificate is not signed by an authority of the caBundle"
        )
    );
    assert_eq!(call(&client).await, Err(failure), "the same failure has the same text");
}

#[tokio::test]
async fn the_roots_of_the_system_do_not_help_a_server_of_our_own_making() {
    let authority = Authority::new("ca");
    let server = Server::start(&authority.issue(&["localhost"]), says(SUCCESS)).await;
    let client = https_client(&server.url("localhost"), CaBundle::default(), "Fail");
    match call(&client).await {
        Err(CallFailure::Transport(TransportError::Tls { problem: TlsProblem::UnknownIssuer, .. })) => {}
        // Where the tests run there may be no roots at all.
        Err(CallFailure::Transport(TransportError::Misconfigured(_))) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new("ca");
    let server = Server::start(&authority.issue_expired(&["localhost"]), says(SUCCESS)).await;
    let client = https_client(&server.url("localhost"), authority.bundle(), "Fail");
    assert_eq!(tls_problem(call(&client).await), TlsProblem::Expired);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new("ca");
    let server = Server::start(&authority.issue(&["other.example"]), says(SUCCESS)).await;
    let client = https_client(&server.url("localhost"), authority.bundle(), "Fail");
    let failure = call(&client).await.unwrap_err().to_string();
    assert!(failure.contains("its certificate is not for this host but for"), "{failure}");
    assert!(failure.contains("other.example"), "{failure}");
}

#[tokio::test]
async fn a_connection_is_not_shared_with_somebody_who_trusts_another_authority() {
    let authority = Authority::new("ca");
    let server = Server::start(&authority.issue(&["localhost"]), says(SUCCESS)).await;
    let client = HookClient::builder(boxed(HttpsTransport::new())).build();
    let gate = [gate()];
    register(&client, &extension("ext1", &server.url("localhost"), authority.bundle()), &gate);
    assert_eq!(call(&client).await, Ok(()));
    let other = Authority::new("other");
    register(&client, &extension("ext1", &server.url("localhost"), other.bundle()), &gate);
    assert_eq!(tls_problem(call(&client).await), TlsProblem::UnknownIssuer);
}

#[tokio::test]
async fn through_a_tunnel_the_certificate_is_for_another_name_than_the_url() {
    let authority = Authority::new("ca");
    let server = Server::start(&authority.issue(&["s1.n1.svc"]), says(SUCCESS)).await;
    let call = async |endpoint: Endpoint| {
        let mut request = http::Request::post(server.url("127.0.0.1")).body(Bytes::new()).unwrap();
        request.extensions_mut().insert(endpoint);
        HttpsTransport::new().oneshot(request).await
    };
    let endpoint = Endpoint::new("ext1", authority.bundle());
    assert!(call(endpoint.clone()).await.is_err());
    assert_eq!(call(endpoint.with_server_name("s1.n1.svc")).await.unwrap().body(), SUCCESS);
}

#[tokio::test]
async fn a_service_is_verified_under_its_name_in_the_cluster() {
    let authority = Authority::new("ca");
    let leaf = authority.issue(&["s1.n1.svc"]);
    let server = Server::start(
        &leaf,
        answers(|request| {
            assert!(request.uri().path().starts_with("/base/hooks.runtime.cluster.x-k8s.io/"));
            http::Response::new(Bytes::from(SUCCESS))
        }),
    )
    .await;
    let transport = HttpsTransport::builder().resolve("s1.n1.svc", IpAddr::V4(Ipv4Addr::LOCALHOST)).build();
    let client = HookClient::builder(boxed(transport)).build();
    let mut config = extension("ext1", "", authority.bundle());
    config.spec.client_config.url = None;
    config.spec.client_config.service = Some(ServiceReference {
        namespace: "n1".to_owned(),
        name: "s1".to_owned(),
        path: Some("/base/".to_owned()),
        port: Some(server.address.port().into()),
    });
    register(&client, &config, &[gate()]);
    assert_eq!(call(&client).await, Ok(()));
}

#[tokio::test]
async fn a_self_signed_certificate_in_the_bundle_is_trusted_for_what_it_says() {
    for (hosts, expired, expected) in [
        (["localhost"], false, None),
        (["localhost"], true, Some(TlsProblem::Expired)),
        (["other.example"], false, Some(TlsProblem::WrongName { presented: vec![] })),
    ] {
        let leaf = Leaf::self_signed(&hosts, expired);
        let server = Server::start(&leaf, says(SUCCESS)).await;
        let bundle = CaBundle::new(leaf.certificate_pem.as_str());
        let result = call(&https_client(&server.url("localhost"), bundle, "Fail")).await;
        match (expected, result) {
            (None, Ok(())) => {}
            (Some(TlsProblem::WrongName { .. }), result) => {
                assert!(matches!(tls_problem(result), TlsProblem::WrongName { .. }));
            }
            (Some(expected), result) => assert_eq!(tls_problem(result), expected),
            (None, Err(failure)) => panic!("{failure}"),
        }
        let other = Leaf::self_signed(&["localhost"], false);
        let bundle = CaBundle::new(other.certificate_pem.as_str());
        let result = call(&https_client(&server.url("localhost"), bundle, "Fail")).await;
        assert!(result.is_err(), "another certificate of the same kind is not trusted");
    }
}

#[tokio::test]
async fn a_bundle_without_certificates_is_our_own_mistake_and_never_ignored() {
    let client = https_client("https://localhost:1", CaBundle::new("nothing in here"), "Ignore");
    let failure = call(&client).await.unwrap_err();
    assert_eq!(failure.to_string(), "cannot call over TLS: caBundle has no usable certificate");
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_not_spoken_to() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    });
    let result = call(&https_client(&url, Authority::new("ca").bundle(), "Fail")).await;
    assert!(matches!(tls_problem(result), TlsProblem::Other(_)));
    serving.await.unwrap();
}

/// A server that knows only clients of one authority.
async fn demanding(authority: &Authority, clients: &Authority) -> Server {
    let leaf = authority.issue(&["localhost"]);
    let clients = Some(clients.client_verifier());
    Server::start_with(Options {
        leaf: &leaf,
        protocols: &["h2", "http/1.1"],
        clients,
        speaks: says(SUCCESS),
    })
    .await
}

fn client_with(builder: HttpsTransportBuilder) -> HookClient {
    HookClient::builder(boxed(builder.build())).build()
}

#[tokio::test]
async fn a_server_may_demand_a_client_certificate() {
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let server = demanding(&authority, &clients).await;
    let config = extension("ext1", &server.url("localhost"), authority.bundle());
    let gate = [gate()];

    let nobody = client_with(HttpsTransport::builder());
    register(&nobody, &config, &gate);
    assert_eq!(tls_problem(call(&nobody).await), TlsProblem::ClientCertificateRequired);

    let known = clients.issue(&["windlass"]).identity();
    let process = client_with(HttpsTransport::builder().client_identity(known.clone()));
    register(&process, &config, &gate);
    assert_eq!(call(&process).await, Ok(()));

    let stranger = Authority::new("strangers").issue(&["windlass"]).identity();
    let extension_wins = client_with(HttpsTransport::builder().client_identity(stranger));
    register_as(&extension_wins, &config, &gate, Some(known));
    assert_eq!(call(&extension_wins).await, Ok(()));
    register(&extension_wins, &config, &gate);
    let problem = tls_problem(call(&extension_wins).await);
    assert!(matches!(problem, TlsProblem::Refused(_)), "{problem}");
}

#[tokio::test]
async fn a_rotated_client_certificate_is_used_for_the_next_call() {
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let server = demanding(&authority, &clients).await;
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    let write = |leaf: Leaf| {
        fs::write(&certificate, leaf.certificate_pem).unwrap();
        fs::write(&key, leaf.key_pem).unwrap();
    };
    write(Authority::new("strangers").issue(&["windlass"]));
    let files = ClientIdentityFiles::load(&certificate, &key).unwrap();
    let client = client_with(HttpsTransport::builder().client_identity_files(files));
    let config = extension("ext1", &server.url("localhost"), authority.bundle());
    register(&client, &config, &[gate()]);
    assert!(call(&client).await.is_err());
    write(clients.issue(&["windlass-rotated"]));
    assert_eq!(call(&client).await, Ok(()));
}

#[tokio::test]
async fn a_server_certificate_may_rotate_under_load() {
    const CALLS: usize = 8;
    let authority = Authority::new("ca");
    let leaf = authority.issue(&["localhost"]);
    // Both sides of the rotation wait for each other, so that calls are in flight while it happens.
    let (arrived, released) = (Arc::new(Barrier::new(CALLS + 1)), Arc::new(Barrier::new(CALLS + 1)));
    let barriers = (Arc::clone(&arrived), Arc::clone(&released));
    let holds = Speaks::Http(Arc::new(move |_| {
        let (arrived, released) = barriers.clone();
        Box::pin(async move {
            arrived.wait().await;
            released.wait().await;
            http::Response::new(Bytes::from(SUCCESS))
        })
    }));
    let protocols = &["http/1.1"][..];
    let server = Server::start_with(Options { leaf: &leaf, protocols, clients: None, speaks: holds }).await;
    let client = https_client(&server.url("localhost"), authority.bundle(), "Fail");
    let wave = || {
        let calls: Vec<_> = (0..CALLS)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { call(&client).await })
            })
            .collect();
        calls
    };

    let in_flight = wave();
    arrived.wait().await;
    server.rotate(&Authority::new("new ca").issue(&["localhost"]));
    released.wait().await;
    for call in in_flight {
        assert_eq!(call.await.unwrap(), Ok(()));
    }
    let before = server.connections();
    let second = wave();
    arrived.wait().await;
    released.wait().await;
    for call in second {
        assert_eq!(call.await.unwrap(), Ok(()), "connections that stand are not asked again");
    }
    assert_eq!(server.connections(), before);

    let fresh = https_client(&server.url("localhost"), authority.bundle(), "Fail");
    assert_eq!(
        tls_problem(call(&fresh).await),
        TlsProblem::UnknownIssuer,
        "a new connection sees the new one"
    );
    server.rotate(&authority.issue(&["localhost"]));
    let third: Vec<_> = (0..CALLS)
        .map(|_| {
            let fresh = fresh.clone();
            tokio::spawn(async move { call(&fresh).await })
        })
        .collect();
    arrived.wait().await;
    released.wait().await;
    for call in third {
        assert_eq!(call.await.unwrap(), Ok(()));
    }
}
