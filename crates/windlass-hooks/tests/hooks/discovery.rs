//! Extensions that are down, slow, lying or garbled are not ready, and nothing else stops.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tower::service_fn;
use windlass_api::hooks::{BeforeClusterUpgrade, Hook};
use windlass_api::runtime::CaBundle;
use windlass_hooks::transport::{InProcess, boxed};
use windlass_hooks::{CallError, HookClient, NotReadyReason, Readiness};

use crate::certificates::Authority;
use crate::server::{Server, answers};
use crate::setup::{SUCCESS, discovery, extension, handler, in_process, upgrade_request};

const HOOK: Hook = Hook::BeforeClusterUpgrade;

fn config(name: &str) -> windlass_api::runtime::ExtensionConfig {
    extension(name, &format!("https://{name}.example"), CaBundle::default())
}

fn client(transport: &InProcess) -> HookClient {
    HookClient::builder(boxed(transport.clone())).build()
}

/// An extension that answers discovery with this.
fn discoverable(transport: &InProcess, name: &str, answer: impl Into<String>) {
    let answer = answer.into();
    in_process(transport, name, move |call, _| match call {
        "discovery" => answer.clone(),
        _ => SUCCESS.to_owned(),
    });
}

#[tokio::test(start_paused = true)]
async fn each_extension_is_ready_or_says_why_not() {
    let transport = InProcess::new();
    let mut future_hook = handler("a", HOOK, "Fail");
    future_hook["requestHook"]["hook"] = json!("BeforeLunch");
    discoverable(&transport, "good", discovery(&[handler("gate", HOOK, "Fail")]));
    discoverable(&transport, "failing", r#"{"status":"Failure","message":"no database"}"#);
    discoverable(&transport, "lying", r#"{"status":"Perhaps"}"#);
    discoverable(&transport, "garbled", r#"{"status":"Success","handlers":[{"na"#);
    discoverable(&transport, "future", discovery(&[future_hook, handler("Bad", HOOK, "Fail")]));
    discoverable(&transport, "twins", discovery(&[handler("a", HOOK, "Fail"), handler("a", HOOK, "Fail")]));
    transport.add("slow", service_fn(|_| std::future::pending::<Result<_, std::convert::Infallible>>()));
    transport.add(
        "broken",
        service_fn(|_| async {
            Ok::<_, std::convert::Infallible>(
                http::Response::builder().status(503).body(Bytes::from("starting")).unwrap(),
            )
        }),
    );
    let mut plain = config("plain");
    plain.spec.client_config.url = Some("http://h".to_owned());

    let client = client(&transport);
    let started = tokio::time::Instant::now();
    let configs = ["good", "failing", "lying", "garbled", "future", "twins", "slow", "broken", "down"];
    let configs = configs.map(config).into_iter().chain([plain]);
    let results = client.warm_up(configs.map(|config| (config, None))).await;
    assert_eq!(started.elapsed().as_secs(), 10, "they are asked at the same time");
    assert_eq!(results["good"].as_ref().unwrap()[0].name, "gate.good");

    let readiness = client.registry().readiness();
    let texts: Vec<_> = readiness.iter().map(|(name, readiness)| format!("{name}: {readiness}")).collect();
    assert_eq!(
        texts,
        [
            "broken: not ready (HttpStatus): discovery failed: HTTP status 503: \"starting\"",
            "down: not ready (Unreachable): discovery failed: \
             no extension in this process answers for \"down.example\"",
            "failing: not ready (Failure): discovery failed: answered Failure: no database",
            "future: not ready (InvalidHandlers): discovery answered handlers that cannot be used: \
             handler \"a\": unknown hook \"BeforeLunch\" of \"hooks.runtime.cluster.x-k8s.io/v1alpha1\"; \
             invalid handler name \"Bad\": must consist of lower-case letters, digits and '-', not 'B'",
            "garbled: not ready (Garbled): discovery failed: \
             the answer cannot be decoded: EOF while parsing a string at line 1 column 36",
            "good: ready with 1 handler",
            "lying: not ready (Garbled): discovery failed: answered unknown status \"Perhaps\"",
            "plain: not ready (Misconfigured): discovery failed: \
             url must start with https://, not with \"http\"",
            "slow: not ready (TimedOut): discovery failed: no answer within 10 s",
            "twins: not ready (InvalidHandlers): discovery answered handlers that cannot be used: \
             there is more than one handler \"a\"",
        ]
    );
    let answers = client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await.unwrap();
    assert_eq!(answers.handlers.len(), 1, "the good one is called");
}

#[tokio::test]
async fn before_the_extensions_were_looked_at_nothing_passes() {
    let client = client(&InProcess::new());
    let error = client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await.unwrap_err();
    assert_eq!(error, CallError::NotWarm { hook: HOOK });
    client.warm_up([]).await;
    assert!(client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await.is_ok());
}

#[tokio::test]
async fn handlers_of_an_extension_that_went_down_are_still_called_and_still_hold() {
    let transport = InProcess::new();
    discoverable(&transport, "ext1", discovery(&[handler("gate", HOOK, "Fail")]));
    let client = client(&transport);
    client.warm_up([(config("ext1"), None)]).await;
    transport.remove("ext1");
    client.refresh(&config("ext1"), None).await.unwrap_err();
    assert!(!client.registry().readiness()["ext1"].is_ready());
    let error = client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await.unwrap_err();
    assert!(matches!(error, CallError::Failed { .. }), "{error}");
}

#[tokio::test]
async fn after_a_restart_an_extension_that_is_down_holds_by_its_status() {
    let client = client(&InProcess::new());
    let mut known = config("ext1");
    let gate = known.handler_status(&serde_json::from_value(handler("gate", HOOK, "Fail")).unwrap()).unwrap();
    known.status.handlers = vec![gate];
    client.warm_up([(known, None)]).await;
    assert!(client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await.is_err());
}

#[tokio::test]
async fn a_handler_that_was_removed_is_not_called_any_more() {
    let transport = InProcess::new();
    let (gate, other) = (handler("gate", HOOK, "Fail"), handler("other", HOOK, "Fail"));
    discoverable(&transport, "ext1", discovery(&[gate.clone(), other]));
    let client = client(&transport);
    client.warm_up([(config("ext1"), None)]).await;
    assert_eq!(client.handlers(HOOK, "ns1").await.unwrap().len(), 2);

    discoverable(&transport, "ext1", discovery(&[gate]));
    client.refresh(&config("ext1"), None).await.unwrap();
    let error = client.call_one::<BeforeClusterUpgrade>("other.ext1", "ns1", &upgrade_request()).await;
    assert_eq!(error, Err(CallError::UnknownHandler { name: "other.ext1".to_owned() }));
    let answers = client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await.unwrap();
    assert_eq!(answers.handlers.len(), 1);

    client.registry().unregister("ext1");
    assert!(client.handlers(HOOK, "ns1").await.unwrap().is_empty());
    assert!(client.registry().readiness().is_empty());
}

#[tokio::test]
async fn discovery_works_over_tls_and_says_whom_it_does_not_trust() {
    let authority = Authority::new("ca");
    let answer = discovery(&[handler("gate", HOOK, "Fail")]);
    let speaks = answers(move |request| {
        let target = request.uri().path_and_query().unwrap();
        assert_eq!(target, "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery?timeout=25s");
        let golden = r#"{"kind":"DiscoveryRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1"}"#;
        assert_eq!(request.body(), golden);
        http::Response::new(Bytes::from(answer.clone()))
    });
    let server = Server::start(&authority.issue(&["localhost"]), speaks).await;
    let transport = windlass_hooks::transport::HttpsTransport::new();
    let client = HookClient::builder(boxed(transport)).discovery_timeout(Duration::from_secs(25)).build();
    let trusted = extension("ext1", &server.url("localhost"), authority.bundle());
    let untrusted = extension("ext2", &server.url("localhost"), Authority::new("other").bundle());
    client.warm_up([(trusted, None), (untrusted, None)]).await;
    let readiness = client.registry().readiness();
    assert_eq!(readiness["ext1"], Readiness::Ready { handlers: 1 });
    let Readiness::NotReady(error) = &readiness["ext2"] else { panic!("{readiness:?}") };
    assert_eq!(error.reason(), NotReadyReason::Untrusted);
}
