//! The two laws of conversion, on objects drawn from the fields of every kind: there and back is where one was, from either
//! side. What the versions cannot say to each other is said here, by not drawing it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

mod draw;
mod shape;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use serde_json::{Value, json};
use windlass_conversion::convert;

use crate::draw::{NAMESPACE, PROVIDERS, objects};
use crate::shape::{Shapes, kinds};

/// Every kind of every provider is at this version.
fn contracts(group: &str, _kind: &str) -> Option<String> {
    (group == PROVIDERS).then(|| "v1beta7".to_owned())
}

fn to(object: &Value, version: &str) -> Value {
    let api_version = object["apiVersion"].as_str().unwrap();
    let desired = format!("{}/{version}", api_version.split_once('/').unwrap().0);
    convert(object.clone(), &desired, &contracts).unwrap_or_else(|error| panic!("{error}\n{object:#}"))
}

fn data(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"]["cluster.x-k8s.io/conversion-data"].as_str()
}

fn without_data(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("annotations");
    object
}

/// v1beta1 leaves counters out that are 0, and v1beta2 requires them.
fn without_zero_counters(mut object: Value) -> Value {
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|name, value| !(name.ends_with("Replicas") && *value == 0));
    }
    object
}

/// The first place where two objects differ, and what they have there.
fn difference(left: &Value, right: &Value, path: String) -> Option<String> {
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => one.keys().chain(other.keys()).find_map(|name| {
            difference(&left[name.as_str()], &right[name.as_str()], format!("{path}.{name}"))
        }),
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            one.iter().zip(other).find_map(|(left, right)| difference(left, right, format!("{path}[]")))
        }
        _ => (left != right).then(|| format!("{path}: {left}, not {right}")),
    }
}

fn check(cases: u32, kind: &str, version: &str, law: impl Fn(Value) -> Result<(), TestCaseError>) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    match runner.run(&objects(kind, version), law) {
        Ok(()) => {}
        Err(TestError::Fail(reason, object)) => panic!("{kind}: {reason}\n{object:#}"),
        Err(error) => panic!("{kind}: {error}"),
    }
}

#[test]
fn v1beta1_there_and_back_is_the_identity() {
    let known = Shapes::of("v1beta2");
    for (kind, older) in kinds() {
        check(48, kind, older, |object| {
            let hub = to(&object, "v1beta2");
            prop_assert_eq!(known.unknown_field(kind, &hub), None, "v1beta2 has no such field");
            let back = without_zero_counters(without_data(to(&hub, older)));
            prop_assert_eq!(difference(&back, &object, String::new()), None);
            Ok(())
        });
    }
}

#[test]
fn v1beta2_there_and_back_is_the_identity() {
    let known = Shapes::of("v1beta1");
    for (kind, older) in kinds() {
        check(48, kind, "v1beta2", |object| {
            let spoke = to(&object, older);
            let keeps = ["MachineSet", "MachineDrainRule", "ExtensionConfig"].contains(&kind)
                || kind.starts_with("ClusterResourceSet")
                || kind.starts_with("IPAddress")
                || ["DevClusterTemplate", "DevMachineTemplate"].contains(&kind);
            let has_body = object.get("spec").is_some() || object.get("status").is_some();
            prop_assert_eq!(data(&spoke).is_some(), !keeps && has_body);
            prop_assert_eq!(known.unknown_field(kind, &spoke), None, "v1beta1 has no such field");
            prop_assert_eq!(difference(&to(&spoke, "v1beta2"), &object, String::new()), None);
            Ok(())
        });
    }
}

#[test]
fn the_conversion_data_are_the_object_without_its_metadata() {
    for (kind, older) in kinds() {
        check(8, kind, "v1beta2", |object| {
            let spoke = to(&object, older);
            if let Some(data) = data(&spoke) {
                let mut expected = object;
                expected.as_object_mut().unwrap().remove("metadata");
                prop_assert_eq!(serde_json::from_str::<Value>(data).unwrap(), expected);
            }
            Ok(())
        });
    }
}

/// A client of v1beta1 prints structs with nothing in them, nulls and empty strings; v1beta2 refuses all of them.
#[test]
fn nothing_empty_reaches_v1beta2() {
    fn empty(path: String, value: &Value) -> Option<String> {
        let fields: Vec<(String, &Value)> = match value {
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (format!("{path}.{name}"), value)).collect()
            }
            Value::Array(elements) => elements.iter().map(|value| (format!("{path}[]"), value)).collect(),
            _ => return None,
        };
        fields.into_iter().find_map(|(path, value)| match value {
            Value::Null => Some(path),
            Value::String(text) if text.is_empty() => Some(path),
            Value::Object(fields) if fields.is_empty() => Some(path),
            value => empty(path, value),
        })
    }
    let empties = json!({"metadata": {"name": "a", "namespace": NAMESPACE}, "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Cluster", "spec": {"controlPlaneEndpoint": {"host": "", "port": 0}, "infrastructureRef": {},
        "clusterNetwork": null, "paused": false, "topology": {"class": "c", "version": "v1.33.0", "rolloutAfter": null,
        "controlPlane": {"metadata": {}, "machineHealthCheck": {"maxUnhealthy": null}},
        "workers": {"machineDeployments": [{"class": "a", "name": "b", "strategy": {}, "metadata": {}}]}}},
        "status": {"infrastructureReady": false, "controlPlaneReady": false}});
    let hub = to(&empties, "v1beta2");
    assert_eq!(empty(String::new(), &hub), None);
    assert_eq!(
        hub["spec"],
        json!({"topology": {"classRef": {"name": "c"}, "version": "v1.33.0",
            "workers": {"machineDeployments": [{"class": "a", "name": "b"}]}}})
    );
    assert!(hub.get("status").is_none());
}
