//! Pairs of objects, one of each version, and what happens to what only one of the versions can say.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use serde_json::{Value, json};
use windlass_conversion::{ConvertError, Malformed, convert, newest, review};

const DATA: &str = "cluster.x-k8s.io/conversion-data";

fn contracts(group: &str, _kind: &str) -> Option<String> {
    group.ends_with(".example.com").then(|| "v1beta2".to_owned())
}

fn to(object: &Value, api_version: &str) -> Result<Value, ConvertError> {
    convert(object.clone(), api_version, &contracts)
}

fn to_old(object: &Value) -> Value {
    to(object, &object["apiVersion"].as_str().unwrap().replace("v1beta2", "v1beta1")).unwrap()
}

fn cases() -> Vec<Value> {
    serde_saphyr::from_str(include_str!("cases.yaml")).unwrap()
}

#[test]
fn every_pair_is_converted_both_ways() {
    for case in cases() {
        let (old, new) = (&case["v1beta1"], &case["v1beta2"]);
        assert_eq!(&newest(old.clone()).unwrap(), new, "{}", case["name"]);
        let mut back = to(new, old["apiVersion"].as_str().unwrap()).unwrap();
        if let Some(metadata) = back["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
        assert_eq!(&back, old, "{}, back", case["name"]);
    }
}

#[test]
fn false_that_was_said_survives_v1beta1_and_true_is_not_undone() {
    let cluster = |paused: Value| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "a"}, "spec": {"paused": paused, "clusterNetwork": {"serviceDomain": "x"}}})
    };
    let mut old = to_old(&cluster(json!(false)));
    assert_eq!(old["spec"].get("paused"), None);
    assert_eq!(newest(old.clone()).unwrap(), cluster(json!(false)));
    old["spec"]["paused"] = true.into();
    assert_eq!(newest(old).unwrap(), cluster(json!(true)));
    // Paused before, and not any more for a client of v1beta1: its edit counts.
    let mut old = to_old(&cluster(json!(true)));
    old["spec"].as_object_mut().unwrap().remove("paused");
    assert_eq!(newest(old).unwrap()["spec"].get("paused"), None);
}

#[test]
fn an_edit_through_v1beta1_wins_over_the_conversion_data() {
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "a"},
        "spec": {"clusterName": "c", "version": "v1.32.0", "minReadySeconds": 7}, "status": {"phase": "Updating"}});
    let mut old = to_old(&machine);
    assert_eq!(old["spec"].get("minReadySeconds"), None);
    assert_eq!(old["status"]["phase"], "Running");
    old["spec"]["version"] = "v1.33.0".into();
    let new = newest(old).unwrap();
    assert_eq!(new["spec"], json!({"clusterName": "c", "version": "v1.33.0", "minReadySeconds": 7}));
    assert_eq!(new["status"]["phase"], "Updating");
    assert_eq!(new["metadata"], json!({"name": "a"}));
}

#[test]
fn timeouts_of_kubeadm_survive_v1beta1_but_for_those_that_it_edits() {
    let config = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig", "metadata": {},
        "spec": {"initConfiguration": {"timeouts": {"discoverySeconds": 5, "controlPlaneComponentHealthCheckSeconds": 240}}}});
    let mut old = to_old(&config);
    assert_eq!(
        old["spec"],
        json!({"clusterConfiguration": {"apiServer": {"timeoutForControlPlane": "4m0s"}}})
    );
    assert_eq!(newest(old.clone()).unwrap()["spec"], config["spec"], "no joinConfiguration is made up");
    old["spec"]["clusterConfiguration"]["apiServer"]["timeoutForControlPlane"] = "1m".into();
    assert_eq!(
        newest(old.clone()).unwrap()["spec"],
        json!({
            "initConfiguration": {"timeouts": {"discoverySeconds": 5, "controlPlaneComponentHealthCheckSeconds": 60}},
            "joinConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 60}},
        })
    );
    old["spec"].as_object_mut().unwrap().remove("clusterConfiguration");
    assert_eq!(
        newest(old).unwrap()["spec"],
        json!({"initConfiguration": {"timeouts": {"discoverySeconds": 5}}})
    );
}

#[test]
fn durations_are_cut_to_whole_seconds_that_fit() {
    let seconds = |timeout: &str| {
        let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": {},
            "spec": {"nodeDrainTimeout": timeout}});
        newest(machine).map(|machine| machine["spec"]["deletion"]["nodeDrainTimeoutSeconds"].clone())
    };
    assert_eq!(seconds("1m1.9s"), Ok(json!(61)));
    assert_eq!(seconds("-1.9s"), Ok(json!(-1)));
    assert_eq!(seconds("2000000h"), Ok(json!(i32::MAX)));
    assert_eq!(
        seconds("10").unwrap_err().to_string(),
        r#"spec.nodeDrainTimeout: missing unit in duration "10""#
    );
}

#[test]
fn a_reference_needs_a_version_that_can_be_read_or_a_contract() {
    let mut cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {},
        "spec": {"controlPlaneRef": {"apiVersion": "a/b/c", "kind": "K", "name": "n"}}});
    assert_eq!(
        newest(cluster.clone()).unwrap_err().to_string(),
        r#"spec.controlPlaneRef.apiVersion: invalid apiVersion "a/b/c""#
    );
    cluster["apiVersion"] = "cluster.x-k8s.io/v1beta2".into();
    cluster["spec"]["controlPlaneRef"] = json!({"apiGroup": "unknown.io", "kind": "K", "name": "n"});
    assert_eq!(
        to(&cluster, "cluster.x-k8s.io/v1beta1").unwrap_err().to_string(),
        r#"spec.controlPlaneRef: no CRD of K in group "unknown.io" says which version keeps a contract"#
    );
}

#[test]
fn fragments_are_converted_without_what_they_lack() {
    for kind in ["Cluster", "Machine", "ClusterClass", "MachineDeployment"] {
        let fragment = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind});
        let old = to_old(&fragment);
        assert_eq!(old, json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind}), "no annotation");
        assert_eq!(newest(old).unwrap(), fragment);
    }
    let fragment = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "spec": {"infrastructureRef": {"kind": "K"}}});
    assert_eq!(to_old(&fragment)["spec"], json!({"infrastructureRef": {"kind": "K"}}));
}

#[test]
fn what_is_not_json_in_the_annotation_is_an_error() {
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
        "metadata": {"annotations": {DATA: "{"}}, "spec": {}});
    let error = newest(cluster).unwrap_err();
    assert!(matches!(error, ConvertError::ConversionData { .. }), "{error}");
}

#[test]
fn kinds_and_versions_that_are_not_there_are_refused() {
    let of = |api_version: &str, kind: &str, to: &str| {
        let object = json!({"apiVersion": api_version, "kind": kind});
        convert(object, to, &contracts).unwrap_err().to_string()
    };
    assert_eq!(
        of("apps/v1", "Deployment", "apps/v2"),
        r#"Deployment of "apps" has no versions that are known here"#
    );
    assert_eq!(
        of("cluster.x-k8s.io/v1alpha4", "Cluster", "cluster.x-k8s.io/v1beta2"),
        r#"Cluster has no version "cluster.x-k8s.io/v1alpha4": there are v1beta1, v1beta2"#
    );
    assert_eq!(
        of("runtime.cluster.x-k8s.io/v1beta2", "ExtensionConfig", "runtime.cluster.x-k8s.io/v1beta1"),
        r#"ExtensionConfig has no version "runtime.cluster.x-k8s.io/v1beta1": there are v1alpha1, v1beta2"#
    );
}

#[test]
fn a_review_is_answered_in_order_or_with_the_first_problem() {
    let ask = |objects: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {"uid": "u-1",
            "desiredAPIVersion": "cluster.x-k8s.io/v1beta2", "objects": objects}})
    };
    let machine = |version: &str, name: &str, timeout: &str| {
        json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Machine",
            "metadata": {"name": name, "namespace": "ns1"}, "spec": {"nodeDrainTimeout": timeout}})
    };
    let mixed = ask(json!([
        machine("v1beta1", "b", "1s"),
        machine("v1beta2", "a", "-"),
        machine("v1beta1", "c", "2s")
    ]));
    let answer = review(&mixed, &contracts).unwrap();
    let response = &answer["response"];
    assert_eq!(answer["kind"], "ConversionReview");
    assert_eq!((&response["uid"], &response["result"]), (&json!("u-1"), &json!({"status": "Success"})));
    let names: Vec<_> =
        response["convertedObjects"].as_array().unwrap().iter().map(|o| &o["metadata"]["name"]).collect();
    assert_eq!(names, ["b", "a", "c"]);
    let bad = review(&ask(json!([machine("v1beta1", "b", "1s"), machine("v1beta1", "c", "1x")])), &contracts)
        .unwrap();
    assert_eq!(
        bad["response"]["result"],
        json!({"status": "Failure", "message": "Machine ns1/c cannot be converted to cluster.x-k8s.io/v1beta2: \
            spec.nodeDrainTimeout: unknown unit \"x\" in duration \"1x\": the units are ns, us, ms, s, m and h"})
    );
    assert_eq!(review(&json!({"kind": "AdmissionReview"}), &contracts), Err(Malformed::NotAReview));
}

#[test]
fn a_condition_keeps_a_message_that_says_nothing() {
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {}, "status": {
        "conditions": [{"type": "Available", "status": "True", "reason": "Available", "message": ""}]}});
    let old = to_old(&cluster);
    assert_eq!(old["status"]["v1beta2"]["conditions"], cluster["status"]["conditions"]);
    assert_eq!(newest(old).unwrap()["status"], cluster["status"]);
}
