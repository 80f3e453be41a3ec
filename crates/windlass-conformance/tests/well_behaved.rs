//! Extensions that keep the contract have a clean report.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod support;

use std::sync::Mutex;
use std::time::Duration;

use support::{Below, Extension};
use windlass_api::hooks::Settings;
use windlass_api::runtime::{CaBundle, ExtensionConfig, ExtensionConfigSpec};
use windlass_conformance::{HookSelection, Level, Options, Progress, Report, Status, Timing, run};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{HttpsTransport, boxed};

/// Generous, because the machine that runs the tests may be busy.
fn options() -> Options {
    let long = Duration::from_secs(20);
    Options {
        hooks: HookSelection::all(),
        timing: Timing { slow_discovery: long, slow_call: long, slow_mutation: long, ..Timing::default() },
        // Fewer than usual: what is shown here does not depend on how often it is asked.
        repetitions: 2,
        concurrency: 20,
        kubernetes_versions: (31..=33).map(|minor| windlass_version::Version::new(1, minor, 0)).collect(),
        ..Options::default()
    }
}

fn assert_clean(report: &Report) {
    let bad = report.findings().filter(|finding| finding.level() >= Level::Warning).count();
    assert_eq!(bad, 0, "{}", report.to_table());
    assert_eq!(report.exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_check_passes_when_everything_is_opted_into() {
    let extension = Extension::start(
        Below { require_client_certificate: true, ..Below::default() },
        std::sync::Arc::new(|_, reply| reply),
    )
    .await;
    let mut target = extension.target();
    target.client_identity = Some(extension.pki.client_identity());
    let options = Options {
        block_settings: Some(Settings::from([("block".to_owned(), "true".to_owned())])),
        replicas: vec![extension.address, extension.address],
        readiness_url: Some(format!("https://{}/readyz", extension.address)),
        operations: Some(extension.operations()),
        ..options()
    };
    let report = run(&target, &options, &|_: &Progress| {}).await.unwrap();
    assert_clean(&report);
    // B2 and B3 need a handler that blocks on its own.
    let skipped: Vec<&str> = report
        .results
        .iter()
        .filter(|result| result.status() == Status::Skipped)
        .map(|result| result.check.as_str())
        .collect();
    assert_eq!(skipped, ["B2", "B3"], "{}", report.to_table());
}

/// As Go and the controllers do: `openssl req -x509` marks a certificate as an authority, other tools say nothing about it
/// or say that it is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_self_signed_certificate_in_the_bundle_is_trusted_as_a_server() {
    use rcgen::{BasicConstraints, IsCa};
    for is_ca in [IsCa::Ca(BasicConstraints::Unconstrained), IsCa::NoCa, IsCa::ExplicitNoCa] {
        let below = Below { self_signed: Some(is_ca), ..Below::default() };
        let extension = Extension::start(below, std::sync::Arc::new(|_, reply| reply)).await;
        let target = extension.target();
        let options = Options { hooks: HookSelection::none(), ..options() };
        let report = run(&target, &options, &|_: &Progress| {}).await.unwrap();
        assert_clean(&report);

        let client = HookClient::builder(boxed(HttpsTransport::new())).build();
        let mut config = ExtensionConfig::new("e", ExtensionConfigSpec::default());
        config.spec.client_config.url = Some(target.url.clone());
        config.spec.client_config.ca_bundle = CaBundle::new(extension.pki.ca_pem.clone());
        let discovered = client.discover(&config, None).await;
        assert!(discovered.is_ok(), "the controllers do not agree about {is_ca:?}: {discovered:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_default_no_handler_is_called_with_anything_it_could_act_on() {
    let called: &'static Mutex<Vec<String>> = Box::leak(Box::default());
    let twist = std::sync::Arc::new(|ask: &support::Ask, reply| {
        if ask.is_call() {
            called.lock().unwrap().push(ask.path.clone());
        }
        reply
    });
    let extension = Extension::start(Below::default(), twist).await;
    let groups = Mutex::new(0);
    let sink = |progress: &Progress| {
        if matches!(progress, Progress::Group(_)) {
            *groups.lock().unwrap() += 1;
        }
    };
    let report = run(&extension.target(), &Options { hooks: HookSelection::none(), ..options() }, &sink)
        .await
        .unwrap();
    assert_clean(&report);
    // The probe of an unknown path is the only object that is sent anywhere but to discovery.
    let called = called.lock().unwrap().clone();
    assert!(called.iter().all(|path| path.ends_with("handler")), "{called:?}");
    assert_eq!(*groups.lock().unwrap(), 9);
    let c1 = report.result(windlass_conformance::CheckId::C1).unwrap();
    assert!(c1.skipped.as_ref().unwrap().opt_in.as_ref().unwrap().contains("--hooks"));
}
