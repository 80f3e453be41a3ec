//! Extensions behind real HTTPS, called from a simulation in virtual time.

use serde_json::{Value, json};
use windlass_simulate::{TopologyManifests, UpgradeError, UpgradeRequest, UpgradeSteering, simulate_upgrade};

use crate::recorder::{Log, RealServer, recorder};

pub(crate) fn request(from: &str, extension: Value) -> UpgradeRequest {
    let manifests = TopologyManifests::new("c1", from, 1)
        .machine_deployment("web", 1)
        .versions((29..=33).map(|minor| format!("v1.{minor}.0")));
    let manifests = [vec![extension], manifests.objects()].concat();
    UpgradeRequest {
        manifests,
        to: "v1.33.0".to_owned(),
        seed: 1,
        live_extensions: true,
        steering: UpgradeSteering::default(),
    }
}

/// Hook, from, to, control plane plan, workers plan: the table of the facts, section 3.8.
pub(crate) type Row = (&'static str, Option<u64>, Option<u64>, &'static [u64], &'static [u64]);

pub(crate) const EXPECTED: [Row; 14] = [
    ("BeforeClusterUpgrade", Some(29), Some(33), &[30, 31, 32, 33], &[32, 33]),
    ("BeforeControlPlaneUpgrade", Some(29), Some(30), &[30, 31, 32, 33], &[32, 33]),
    ("AfterControlPlaneUpgrade", None, Some(30), &[31, 32, 33], &[32, 33]),
    ("BeforeControlPlaneUpgrade", Some(30), Some(31), &[31, 32, 33], &[32, 33]),
    ("AfterControlPlaneUpgrade", None, Some(31), &[32, 33], &[32, 33]),
    ("BeforeControlPlaneUpgrade", Some(31), Some(32), &[32, 33], &[32, 33]),
    ("AfterControlPlaneUpgrade", None, Some(32), &[33], &[32, 33]),
    ("BeforeWorkersUpgrade", Some(29), Some(32), &[33], &[32, 33]),
    ("AfterWorkersUpgrade", None, Some(32), &[33], &[33]),
    ("BeforeControlPlaneUpgrade", Some(32), Some(33), &[33], &[33]),
    ("AfterControlPlaneUpgrade", None, Some(33), &[], &[33]),
    ("BeforeWorkersUpgrade", Some(32), Some(33), &[], &[33]),
    ("AfterWorkersUpgrade", None, Some(33), &[], &[]),
    ("AfterClusterUpgrade", None, Some(33), &[], &[]),
];

/// The hook, and what its request says besides what all requests say.
pub(crate) fn expected(row: &Row) -> (String, Value) {
    let (hook, from, to, control_plane, workers) = row;
    let version = |minor: &u64| format!("v1.{minor}.0");
    let mut payload = json!({});
    match (from, to) {
        (Some(from), Some(to)) => {
            payload["fromKubernetesVersion"] = json!(version(from));
            payload["toKubernetesVersion"] = json!(version(to));
        }
        (_, to) => payload["kubernetesVersion"] = json!(to.as_ref().map(version)),
    }
    // The plan travels in two forms, and each is left out where nothing remains.
    let mut plan = json!({});
    for (short, long, minors) in
        [("controlPlane", "controlPlaneUpgrades", control_plane), ("workers", "workersUpgrades", workers)]
    {
        if !minors.is_empty() {
            plan[short] = minors.iter().map(version).collect();
            payload[long] = minors.iter().map(|minor| json!({"version": version(minor)})).collect();
        }
    }
    if plan != json!({}) {
        payload["upgradePlan"] = plan;
    }
    ((*hook).to_owned(), payload)
}

/// What a request says besides what all requests say.
fn payload(mut request: Value) -> Value {
    let fields = request.as_object_mut().unwrap();
    for field in ["kind", "apiVersion", "cluster", "settings"] {
        fields.remove(field);
    }
    if let Some(plan) = fields.get_mut("upgradePlan").and_then(Value::as_object_mut) {
        plan.retain(|_, versions| versions.as_array().is_some_and(|versions| !versions.is_empty()));
        if plan.is_empty() {
            fields.remove("upgradePlan");
        }
    }
    request
}

#[test]
fn the_seeds_example_calls_the_hooks_of_the_facts_with_their_payloads() {
    let log = Log::default();
    let server = RealServer::start(recorder(&log));
    let report = simulate_upgrade(&request("v1.29.0", server.config("recorder"))).unwrap();

    let operations: Vec<String> = report
        .operations
        .iter()
        .map(|step| format!("{} {} -> {}", step.group.as_deref().unwrap_or("cp"), step.from, step.to))
        .collect();
    assert_eq!(
        operations,
        [
            "cp v1.29.0 -> v1.30.0",
            "cp v1.30.0 -> v1.31.0",
            "cp v1.31.0 -> v1.32.0",
            "web v1.29.0 -> v1.32.0",
            "cp v1.32.0 -> v1.33.0",
            "web v1.32.0 -> v1.33.0",
        ]
    );
    let asked = log.asked();
    for (hook, request) in &asked {
        assert_eq!(request["kind"], format!("{hook}Request"));
        assert_eq!(request["apiVersion"], "hooks.runtime.cluster.x-k8s.io/v1alpha1");
        assert_eq!(request["cluster"]["apiVersion"], "cluster.x-k8s.io/v1beta2");
        assert_eq!(request["cluster"]["metadata"]["name"], "c1");
        assert_eq!(request["cluster"]["metadata"].get("managedFields"), None);
    }
    let (creation, upgrade) = asked.split_at(2);
    let creation: Vec<&str> = creation.iter().map(|(hook, _)| hook.as_str()).collect();
    assert_eq!(creation, ["BeforeClusterCreate", "AfterControlPlaneInitialized"]);
    let upgrade: Vec<(String, Value)> =
        upgrade.iter().map(|(hook, request)| (hook.clone(), payload(request.clone()))).collect();
    let expected: Vec<(String, Value)> = EXPECTED.iter().map(expected).collect();
    assert_eq!(upgrade, expected);
    let reported: Vec<&str> = report.hooks.iter().map(|call| call.hook).collect();
    assert_eq!(reported, EXPECTED.map(|row| row.0));
    assert!(report.hooks.iter().all(|call| call.handler.ends_with(".recorder") && call.status == "Success"));
}

#[test]
fn a_live_extension_that_asks_to_wait_is_called_again_in_virtual_time() {
    let log = Log::default();
    log.wait("BeforeWorkersUpgrade", 2, 300, "not before the change window");
    let server = RealServer::start(recorder(&log));
    let report = simulate_upgrade(&request("v1.32.0", server.config("recorder"))).unwrap();
    let waits: Vec<u32> = report
        .hooks
        .iter()
        .filter(|call| call.hook == "BeforeWorkersUpgrade")
        .map(|call| call.retry_after_seconds)
        .collect();
    assert_eq!(waits, [300, 300, 0]);
    assert!(report.virtual_seconds >= 2 * 300, "{}", report.virtual_seconds);
}

#[test]
fn a_live_extension_that_is_not_there_is_told_at_once() {
    let log = Log::default();
    let gone = RealServer::start(recorder(&log)).config("recorder");
    let error = simulate_upgrade(&request("v1.32.0", gone)).unwrap_err();
    assert!(matches!(&error, UpgradeError::Extension { name, .. } if name == "recorder"), "{error}");
    assert!(error.to_string().contains("cannot connect to"), "{error}");
    let distrusted = {
        let server = RealServer::start(recorder(&log));
        let mut config = server.config("recorder");
        config["spec"]["clientConfig"]["caBundle"] =
            RealServer::start(recorder(&log)).config("x")["spec"]["clientConfig"]["caBundle"].clone();
        simulate_upgrade(&request("v1.32.0", config)).unwrap_err()
    };
    assert!(distrusted.to_string().contains("TLS with"), "{distrusted}");
    assert_eq!(log.hooks(), Vec::<String>::new());
}
