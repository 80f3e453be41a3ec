//! ExtensionConfigs: certificates from a Secret, extensions that are not there yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};
use windlass_hooks::transport::InProcess;
use windlass_simulate::{SimulatedExtension, World, WorldOptions};

use crate::recorder::{Log, RealServer, config, options, recorder};

const LONG: Duration = Duration::from_secs(3600);

fn discovered(world: &World) -> (Option<bool>, String) {
    let condition = world
        .extension_config("recorder")
        .and_then(|config| config.condition("Discovered").map(|condition| json!(condition)));
    let condition = condition.unwrap_or_default();
    let message = condition["message"].as_str().unwrap_or_default().to_owned();
    (condition["status"].as_str().map(|status| status == "True"), message)
}

fn handlers(world: &World) -> usize {
    world.extension_config("recorder").map_or(0, |config| config.status.handlers.len())
}

#[tokio::test(start_paused = true)]
async fn certificates_come_from_a_secret_and_are_used() {
    let log = Log::default();
    let server = RealServer::start(recorder(&log));
    let live = SimulatedExtension::live().unwrap();
    let mut world = World::begin(WorldOptions::extended_by(1, &live)).await.unwrap();
    let mut config = server.config("recorder");
    config["spec"]["clientConfig"].as_object_mut().unwrap().remove("caBundle");
    config["metadata"]["annotations"] =
        json!({"runtime.cluster.x-k8s.io/inject-ca-from-secret": "default/ca"});
    world.apply_object(&config).await.unwrap();
    world.run_until("the secret is missed", LONG, |world| discovered(world).0 == Some(false)).await.unwrap();
    assert_eq!(discovered(&world).1, "secret default/ca: it does not exist");

    let secret = |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ca", "namespace": "default"}, "stringData": data});
    world.apply_object(&secret(json!({"tls.crt": "x"}))).await.unwrap();
    world
        .run_until("the key is missed", LONG, |world| discovered(world).1.contains("it has no key ca.crt"))
        .await
        .unwrap();
    world.apply_object(&secret(json!({"ca.crt": server.ca_pem}))).await.unwrap();
    world.run_until("it is discovered", LONG, |world| discovered(world).0 == Some(true)).await.unwrap();
    let stored = world.extension_config("recorder").unwrap();
    assert_eq!(stored.spec.client_config.ca_bundle.as_pem(), server.ca_pem.as_bytes());
    assert_eq!(handlers(&world), 9);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_down_says_so_and_recovers() {
    let log = Log::default();
    let transport = InProcess::new();
    let mut world = World::begin(options(1, &transport)).await.unwrap();
    world.apply_object(&config("recorder")).await.unwrap();
    world.run_until("it is missed", LONG, |world| discovered(world).0 == Some(false)).await.unwrap();
    let (_, message) = discovered(&world);
    assert!(message.contains("no extension in this process answers for \"recorder.invalid\""), "{message}");
    assert_eq!(handlers(&world), 0);
    transport.add("recorder", recorder(&log));
    world.run_until("it is discovered", LONG, |world| discovered(world).0 == Some(true)).await.unwrap();
    assert_eq!((discovered(&world).1.as_str(), handlers(&world)), ("", 9));
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_goes_down_and_comes_back_is_reported_within_a_minute() {
    let log = Log::default();
    let transport = InProcess::new();
    transport.add("recorder", recorder(&log));
    let mut world = World::begin(options(1, &transport)).await.unwrap();
    world.apply_object(&config("recorder")).await.unwrap();
    world.run_until("it is discovered", LONG, |world| discovered(world).0 == Some(true)).await.unwrap();
    let minute = Duration::from_secs(60);
    for _ in 0..3 {
        transport.remove("recorder");
        world.run_until("it is missed", minute, |world| discovered(world).0 == Some(false)).await.unwrap();
        assert_eq!(handlers(&world), 9, "what it was known for is kept");
        // Long enough that it is asked as rarely as it ever is.
        let error = world.run_until("never", 10 * minute, |_| false).await.unwrap_err();
        assert!(error.to_string().contains("not reached"), "{error}");
        transport.add("recorder", recorder(&log));
        world.run_until("it is back", minute, |world| discovered(world).0 == Some(true)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_is_discovered_twice_a_minute_at_most() {
    let calls: Arc<AtomicUsize> = Arc::default();
    let (log, transport) = (Log::default(), InProcess::new());
    let (counted, extension) = (Arc::clone(&calls), recorder(&log));
    let counting = service_fn(move |request: Request<Bytes>| {
        counted.fetch_add(1, Ordering::SeqCst);
        extension.clone().oneshot(request)
    });
    transport.add("recorder", counting);
    let mut world = World::begin(options(1, &transport)).await.unwrap();
    world.apply_object(&config("recorder")).await.unwrap();
    world.run_until("it is discovered", LONG, |world| discovered(world).0 == Some(true)).await.unwrap();
    let before = calls.load(Ordering::SeqCst);
    let error = world.run_until("never", Duration::from_secs(600), |_| false).await.unwrap_err();
    assert!(error.to_string().contains("not reached"), "{error}");
    let asked = calls.load(Ordering::SeqCst) - before;
    assert!((19..=20).contains(&asked), "asked {asked} times in ten minutes");
}
