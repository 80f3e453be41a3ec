//! Extensions written with our own SDK keep the contract: one made here, and the examples as real processes.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod example;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use example::Example;
use tokio::sync::oneshot;
use windlass_api::Hook;
use windlass_conformance::{
    CheckId, HookSelection, Level, Options, Progress, Report, Status, Target, Timing, lint, run,
};
use windlass_extension::hooks::{
    AfterClusterUpgrade, AfterControlPlaneInitialized, AfterControlPlaneUpgrade, AfterWorkersUpgrade,
    BeforeClusterCreate, BeforeClusterDelete, BeforeClusterUpgrade, BeforeClusterUpgradeResponse,
    BeforeControlPlaneUpgrade, BeforeWorkersUpgrade, CanUpdateMachine, CanUpdateMachineSet,
    DiscoverVariables, ExternalUpdate, ExternalUpdateResponse, GeneratePatches, GenerateUpgradePlan,
    HookResponse, HookType, RetryResponse, UpdateMachine, ValidateTopology,
};
use windlass_extension::{Context, DevelopmentCertificate, Extension, Handler, Server, Tls, upgrade_plan};
use windlass_version::Version;

fn options(hooks: HookSelection) -> Options {
    let long = Duration::from_secs(20);
    Options {
        hooks,
        timing: Timing { slow_discovery: long, slow_call: long, slow_mutation: long, ..Timing::default() },
        repetitions: 2,
        concurrency: 20,
        kubernetes_versions: versions(),
        ..Options::default()
    }
}

fn versions() -> Vec<Version> {
    (31..=33).map(|minor| Version::new(1, minor, 0)).collect()
}

async fn test(target: &Target, options: &Options) -> Report {
    run(target, options, &|_: &Progress| {}).await.unwrap()
}

fn assert_clean(report: &Report) {
    let bad = report.findings().filter(|finding| finding.level() >= Level::Warning).count();
    assert_eq!(bad, 0, "{}", report.to_table());
}

fn assert_checked(report: &Report, checks: &[CheckId]) {
    for &check in checks {
        let status = report.result(check).unwrap().status();
        assert_ne!(status, Status::Skipped, "{check} was skipped\n{}", report.to_table());
    }
}

async fn success<H: HookType>(_: Context, _: H::Request) -> H::Response {
    H::Response::success()
}

fn every_hook() -> Extension {
    Extension::new("everything")
        .on(BeforeClusterCreate, "before-cluster-create", success::<BeforeClusterCreate>)
        .on(AfterControlPlaneInitialized, "initialized", success::<AfterControlPlaneInitialized>)
        .on(BeforeClusterUpgrade, Handler::named("gate").timeout_seconds(5), async |_, _| {
            BeforeClusterUpgradeResponse::blocking("waiting for the backup", 30)
        })
        .on(BeforeControlPlaneUpgrade, "before-control-plane", success::<BeforeControlPlaneUpgrade>)
        .on(AfterControlPlaneUpgrade, "after-control-plane", success::<AfterControlPlaneUpgrade>)
        .on(BeforeWorkersUpgrade, "before-workers", success::<BeforeWorkersUpgrade>)
        .on(AfterWorkersUpgrade, "after-workers", success::<AfterWorkersUpgrade>)
        .on(AfterClusterUpgrade, "after-cluster", success::<AfterClusterUpgrade>)
        .on(BeforeClusterDelete, "before-delete", success::<BeforeClusterDelete>)
        .on(GeneratePatches, "patches", success::<GeneratePatches>)
        .on(ValidateTopology, "validate", success::<ValidateTopology>)
        .on(DiscoverVariables, "variables", success::<DiscoverVariables>)
        .on(GenerateUpgradePlan, "plan", async |_, request| {
            upgrade_plan::from_list(&request, versions().iter().map(ToString::to_string))
        })
        .on(CanUpdateMachine, "can-update-machine", success::<CanUpdateMachine>)
        .on(CanUpdateMachineSet, "can-update-machine-set", success::<CanUpdateMachineSet>)
        .on(UpdateMachine, "update-machine", success::<UpdateMachine>)
        .on(ExternalUpdate, "external-update", async |_, _| ExternalUpdateResponse::refuse("not mine"))
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_made_with_the_sdk_is_clean_and_so_is_its_manifest() {
    let certificate = DevelopmentCertificate::generate(["127.0.0.1"]).unwrap();
    let ca = certificate.ca_pem().to_owned();
    let server = Server::new(every_hook(), Tls::development(certificate))
        .health_address("127.0.0.1:0".parse().unwrap())
        .bind("127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let manifest = lint("manifest.yaml", &server.manifest("127.0.0.1"));
    assert_clean(&manifest);
    assert_eq!(manifest.exit_code(), 0);

    let target = Target::new(format!("https://{}", server.local_address())).with_ca_bundle(ca);
    let mut options = options(HookSelection::all());
    options.readiness_url = Some(format!("http://{}/readyz", server.health_address().unwrap()));
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run_until(async {
        let _ = stopped.await;
    }));
    let report = test(&target, &options).await;
    assert_clean(&report);
    let skipped: BTreeSet<&str> = report
        .results
        .iter()
        .filter(|result| result.status() == Status::Skipped)
        .map(|result| result.check.as_str())
        .collect();
    // What takes a client certificate, polling, replicas or a restart.
    assert_eq!(skipped, BTreeSet::from(["T10", "B3", "A3", "A4", "A5", "I6"]), "{}", report.to_table());
    stop.send(()).unwrap();
    let _ = running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_approve_upgrade_example_is_clean_across_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let kept = tempfile::tempdir().unwrap();
    let approvals = directory.path().to_str().unwrap();
    let keep = kept.path().to_str().unwrap();
    let example =
        Example::start("approve-upgrade", &["--approvals", approvals, "--keep-certificate", keep]).await;
    let mut options = options(HookSelection::of([Hook::BeforeClusterUpgrade]));
    let example = Arc::new(example);
    options.operations = Some(example.clone());
    let report = test(&example.target, &options).await;
    assert_clean(&report);
    assert_checked(
        &report,
        &[CheckId::C6, CheckId::I1, CheckId::B1, CheckId::B2, CheckId::A4, CheckId::A5, CheckId::I6],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_upgrade_plan_example_is_clean() {
    let directory = tempfile::tempdir().unwrap();
    let catalogue = directory.path().join("versions");
    let lines: Vec<String> = versions().iter().map(ToString::to_string).collect();
    std::fs::write(&catalogue, lines.join("\n")).unwrap();
    let example = Example::start("upgrade-plan", &["--catalogue", catalogue.to_str().unwrap()]).await;
    let report = test(&example.target, &options(HookSelection::all())).await;
    assert_clean(&report);
    assert_checked(&report, &[CheckId::U1, CheckId::U2, CheckId::U3]);
    assert_eq!(report.findings().count(), 0, "{}", report.to_table());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_place_updater_example_is_clean() {
    let state = tempfile::tempdir().unwrap();
    let arguments = ["--state", state.path().to_str().unwrap(), "--command", "true"];
    let example = Example::start("in-place-updater", &arguments).await;
    let report = test(&example.target, &options(HookSelection::all())).await;
    assert_clean(&report);
    assert_checked(&report, &[CheckId::N1, CheckId::N2, CheckId::N3, CheckId::N4, CheckId::N5, CheckId::N6]);
}
