//! What was recorded can be replayed.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tower::{Layer, ServiceBuilder, service_fn};
use windlass_api::hooks::{BeforeClusterUpgrade, Hook};
use windlass_api::runtime::CaBundle;
use windlass_hooks::transport::{
    BoxTransport, HttpsTransport, InProcess, RecordLayer, Replay, ReplayLayer, TransportError, boxed,
};
use windlass_hooks::{CallError, CallFailure, HookClient};

use crate::certificates::Authority;
use crate::server::{Server, says};
use crate::setup::{SUCCESS, extension, handler, in_process, register, upgrade_request};

const HOOK: Hook = Hook::BeforeClusterUpgrade;

/// Calls a client over a transport some times, and writes down what came of it.
async fn story(transport: BoxTransport, url: &str, bundle: CaBundle, times: usize) -> Vec<String> {
    let client = HookClient::builder(transport).build();
    let mut gate = handler("gate", HOOK, "Fail");
    gate["timeoutSeconds"] = serde_json::json!(30);
    register(&client, &extension("ext1", url, bundle), &[gate]);
    let mut story = Vec::new();
    for _ in 0..times {
        let result = client.call_one::<BeforeClusterUpgrade>("gate.ext1", "ns1", &upgrade_request()).await;
        story.push(match result {
            Ok(answer) => serde_json::to_string(&answer.given().unwrap()).unwrap(),
            Err(error) => error.to_string(),
        });
    }
    story
}

fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn a_recorded_story_is_told_again_without_the_extension() {
    let directory = tempfile::tempdir().unwrap();
    let extension = InProcess::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    in_process(&extension, "ext1", move |_, _| match counter.fetch_add(1, Ordering::SeqCst) {
        0 => r#"{"status":"Success","message":"not yet","retryAfterSeconds":5}"#.to_owned(),
        1 => "garbage".to_owned(),
        _ => SUCCESS.to_owned(),
    });
    let record = RecordLayer::new(directory.path()).unwrap();
    let recorded = story(boxed(record.layer(extension)), "https://h", CaBundle::default(), 3).await;
    assert_eq!(
        files(directory.path()),
        [
            "000001-beforeclusterupgrade-gate.json",
            "000002-beforeclusterupgrade-gate.json",
            "000003-beforeclusterupgrade-gate.json"
        ]
    );
    let replay = boxed(Replay::open(directory.path()).unwrap());
    let replayed = story(replay, "https://elsewhere:8443", CaBundle::default(), 4).await;
    assert_eq!(replayed[..3], recorded);
    assert_eq!(replayed[3], recorded[2], "the last answer is repeated");
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_timed_out_times_out_again() {
    let directory = tempfile::tempdir().unwrap();
    let silent = service_fn(|_| std::future::pending::<Result<_, TransportError>>());
    let record = RecordLayer::new(directory.path()).unwrap();
    let recorded = story(boxed(record.layer(silent)), "https://h", CaBundle::default(), 1).await;
    assert!(recorded[0].ends_with("no answer within 30 s"), "{recorded:?}");
    let replay = boxed(ReplayLayer::open(directory.path()).unwrap().layer(InProcess::new()));
    assert_eq!(story(replay, "https://h", CaBundle::default(), 1).await, recorded);
}

#[tokio::test]
async fn calls_over_the_network_are_recorded_without_what_only_the_network_needs() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let server = Server::start(&authority.issue(&["localhost"]), says(SUCCESS)).await;
    let record = RecordLayer::new(directory.path()).unwrap();
    let transport = ServiceBuilder::new().layer(record).service(HttpsTransport::new());
    let recorded = story(boxed(transport), &server.url("localhost"), authority.bundle(), 1).await;
    let file = directory.path().join("000001-beforeclusterupgrade-gate.json");
    let exchange: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(exchange["request"]["method"], "POST");
    assert_eq!(exchange["request"]["extension"], "ext1");
    assert_eq!(exchange["request"]["body"]["json"]["toKubernetesVersion"], "v1.32.5");
    assert_eq!(exchange["outcome"]["response"]["status"], 200);
    assert_eq!(exchange["outcome"]["response"]["body"]["json"]["status"], "Success");
    drop(server);
    let replay = boxed(Replay::open(directory.path()).unwrap());
    assert_eq!(story(replay, "https://h", CaBundle::default(), 1).await, recorded);
}

#[tokio::test]
async fn what_was_not_recorded_is_said_and_never_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let client = HookClient::builder(boxed(Replay::open(directory.path()).unwrap())).build();
    let config = extension("ext1", "https://h", CaBundle::default());
    register(&client, &config, &[handler("gate", HOOK, "Ignore")]);
    let result = client.call_one::<BeforeClusterUpgrade>("gate.ext1", "ns1", &upgrade_request()).await;
    let Err(CallError::Failed { failure, .. }) = result else { panic!("{result:?}") };
    assert_eq!(
        failure.to_string(),
        "no recorded exchange for POST \
         /hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclusterupgrade/gate with this body"
    );
    assert!(matches!(failure, CallFailure::Transport(TransportError::NotRecorded { .. })));
}

#[test]
fn files_that_are_no_recordings_are_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("000001-discovery.json"), "{}").unwrap();
    let error = Replay::open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("000001-discovery.json is not a recorded hook call"), "{error}");
    assert!(Replay::open(directory.path().join("missing")).is_err());
}
