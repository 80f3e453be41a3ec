//! Draws objects of a kind, without what the laws except.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_api::GoDuration;

use crate::shape::{Shapes, group};

/// The group of all that is referred to.
pub(crate) const PROVIDERS: &str = "infrastructure.example.com";
pub(crate) const NAMESPACE: &str = "ns1";

/// Fields of v1beta1 that v1beta2 does not remember.
const LOST: [&str; 5] =
    ["definitionFrom", "revisionHistoryLimit", "progressDeadlineSeconds", "useExperimentalRetryJoin", "uid"];
/// The same, by path.
const LOST_AT: [&str; 8] = [
    "topology.rolloutAfter",
    "clusterConfiguration.apiVersion",
    "clusterConfiguration.kind",
    "clusterConfiguration.clusterName",
    "clusterConfiguration.kubernetesVersion",
    "clusterConfiguration.networking",
    "initConfiguration.apiVersion",
    "joinConfiguration.apiVersion",
];
/// Booleans for which v1beta1 cannot say false.
const FLAGS: [&str; 12] = [
    "paused",
    "infrastructureReady",
    "controlPlaneReady",
    "bootstrapReady",
    "initialized",
    "ready",
    "readOnly",
    "append",
    "unsafeSkipCAVerification",
    "insecureSkipTLSVerify",
    "provideClusterInfo",
    "strict",
];
/// Numbers for which 0 is absence in both versions.
const POSITIVE: [&str; 5] = ["port", "apiServerPort", "bindPort", "observedGeneration", "timeoutSeconds"];

/// Objects of a kind in a version.
pub(crate) fn objects(kind: &str, version: &str) -> BoxedStrategy<Value> {
    let shapes = Shapes::of(version);
    let (spec, status) = (&shapes.kind(kind)["spec"], &shapes.kind(kind)["status"]);
    let part = |name: &str, shape: &Value| match shape {
        Value::Null => Just(Value::Null).boxed(),
        shape => value(&shapes, shape, name),
    };
    let (kind, version) = (kind.to_owned(), version.to_owned());
    (part("spec", spec), part("status", status))
        .prop_map(move |(spec, status)| {
            let mut object = json!({
                "apiVersion": format!("{}/{version}", group(&kind)),
                "kind": kind,
                "metadata": {"name": "a", "namespace": NAMESPACE},
                "spec": spec,
                "status": status,
            });
            if version == "v1beta2" {
                only_v1beta2(&kind, &mut object)
            } else {
                only_v1beta1(&kind, &mut object)
            }
            nothing_empty(&mut object);
            object
        })
        .boxed()
}

fn value(shapes: &Shapes, shape: &Value, name: &str) -> BoxedStrategy<Value> {
    match shapes.resolve(shape) {
        Value::Object(map) if map.contains_key("*") => {
            let inner = value(shapes, &map["*"], name);
            btree_map("[a-d]{1,2}", inner, 1..3)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into())
                .boxed()
        }
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let values: Vec<_> = fields
                .iter()
                .map(|(name, shape)| option::weighted(0.6, value(shapes, shape, name)))
                .collect();
            let object = move |values: Vec<Option<Value>>| {
                let drawn = names.iter().cloned().zip(values);
                drawn.filter_map(|(name, value)| Some((name, value?))).collect::<Map<_, _>>().into()
            };
            values.prop_map(object).boxed()
        }
        Value::Array(element) => {
            let elements = vec(value(shapes, &element[0], name), 1..3);
            elements.prop_map(Value::Array).boxed()
        }
        leaf => scalar(leaf.as_str().unwrap(), name),
    }
}

fn scalar(ty: &str, name: &str) -> BoxedStrategy<Value> {
    let word = || "[a-z]{1,4}".prop_map(Value::String);
    // Whole seconds that an int32 can say: all others are cut.
    let seconds = || 0..=i64::from(i32::MAX);
    match (ty, name) {
        (_, "phase") => prop_oneof![Just(json!("Running")), Just(json!("Updating")), Just(json!("Failed"))].boxed(),
        ("bool", _) => any::<bool>().prop_map(Value::Bool).boxed(),
        ("int", name) => {
            let least = i64::from(POSITIVE.contains(&name));
            seconds().prop_map(move |number| number.max(least).into()).boxed()
        }
        ("duration", _) => seconds()
            .prop_map(|seconds| GoDuration::from_nanos(seconds * 1_000_000_000).to_string().into())
            .boxed(),
        ("intOrString", _) => prop_oneof![(0..100i64).prop_map(Value::from), Just(json!("10%"))].boxed(),
        ("time", _) => Just(json!("2026-01-02T03:04:05Z")).boxed(),
        ("json", _) => {
            prop_oneof![word(), Just(json!("")), Just(json!({})), Just(json!({"a": [0, false]}))].boxed()
        }
        ("schema", _) => schema().boxed(),
        // The version and the namespace of a reference follow from the contract and from the object.
        ("reference", "nodeRef") => word().prop_map(|name| json!({"apiVersion": "v1", "kind": "Node", "name": name})).boxed(),
        ("reference", _) => word()
            .prop_map(|name| {
                json!({"apiVersion": format!("{PROVIDERS}/v1beta7"), "kind": "Thing", "name": name, "namespace": NAMESPACE})
            })
            .boxed(),
        ("providerRef", _) => {
            word().prop_map(|name| json!({"apiGroup": PROVIDERS, "kind": "Thing", "name": name})).boxed()
        }
        ("templateRef", _) => word()
            .prop_map(|name| json!({"apiVersion": format!("{PROVIDERS}/v1"), "kind": "ThingTemplate", "name": name}))
            .boxed(),
        ("map", _) => Just(json!({"a": "b"})).boxed(),
        ("string", _) => word().boxed(),
        (ty, name) => panic!("{name} has the type {ty}"),
    }
}

/// A schema in which flags are true, false or absent, at several depths.
fn schema() -> impl Strategy<Value = Value> {
    let flag = || option::of(any::<bool>());
    let leaf = (flag(), flag()).prop_map(|(unique, free)| {
        let mut leaf = json!({"type": "string", "default": ""});
        set(&mut leaf, "uniqueItems", unique);
        set(&mut leaf, "x-kubernetes-preserve-unknown-fields", free);
        leaf
    });
    (leaf.clone(), leaf.clone(), leaf, flag()).prop_map(|(one, two, three, flag)| {
        let mut schema = json!({"type": "object", "properties": {"a": one, "b": {"type": "array", "items": two}},
            "anyOf": [three]});
        set(&mut schema, "x-kubernetes-int-or-string", flag);
        schema
    })
}

fn set(object: &mut Value, name: &str, flag: Option<bool>) {
    if let Some(flag) = flag {
        object[name] = flag.into();
    }
}

/// Takes away what v1beta2 does not remember of v1beta1, and what v1beta1 does not print.
fn only_v1beta1(kind: &str, object: &mut Value) {
    each_field(object, "", &mut |path, name, value| {
        let lost = LOST.contains(&name) || LOST_AT.iter().any(|lost| path.ends_with(lost));
        if *value == "Updating" {
            *value = "Running".into();
        }
        let lost =
            lost || path.ends_with("initConfiguration.kind") || path.ends_with("joinConfiguration.kind");
        // In `matchResources` they are flags, in failure domains they are not.
        let flag = FLAGS.contains(&name)
            || name == "definitionsConflict"
            || path.contains("matchResources") && value.is_boolean()
            || path.contains("openAPIV3Schema") && value.is_boolean();
        let zero = (name == "retryPeriod" && *value == "0s")
            || (kind == "MachineHealthCheck" || name == "minReadySeconds" || name.ends_with("Replicas"))
                && *value == 0;
        let unsaid = flag && *value == false;
        !(lost || unsaid || zero)
    });
    if kind == "KubeadmControlPlane" {
        let ready = object["status"]["readyReplicas"].as_i64().is_some_and(|ready| ready > 0);
        if let Some(status) = object["status"].as_object_mut() {
            status.remove("ready");
            if ready {
                status.insert("ready".to_owned(), true.into());
            }
        }
    }
    strategy_has_a_type(object, "rolloutStrategy");
}

/// Lists that are maps in v1beta1 are sorted and name everything once; old counters come all together; elements that are
/// found again by a key have one of their own.
fn only_v1beta2(kind: &str, object: &mut Value) {
    each_field(object, "", &mut |path, name, value| {
        if let (Some(key), Value::Array(elements)) = (key(path, name), &mut *value) {
            for (index, element) in elements.iter_mut().enumerate().filter(|(_, element)| element.is_object())
            {
                element[key] = format!("k{index}").into();
                if name.ends_with("Args") {
                    element["value"] = "".into();
                }
            }
        }
        !(kind == "MachineSet" && name == "minReadySeconds" && *value == 0)
    });
    if let Some(old) = object["status"].pointer_mut("/deprecated/v1beta1") {
        let counters: &[&str] = match kind {
            "MachineDeployment" => {
                &["updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"]
            }
            "MachineSet" => &["readyReplicas", "availableReplicas", "fullyLabeledReplicas"],
            "MachinePool" => &["readyReplicas", "availableReplicas", "unavailableReplicas"],
            "KubeadmControlPlane" => &["updatedReplicas", "readyReplicas", "unavailableReplicas"],
            _ => &[],
        };
        for counter in counters {
            if old[counter].is_null() {
                old[counter] = 0.into();
            }
        }
    }
    if let Some(rollout) = object.pointer_mut("/spec/template/spec/rollout") {
        let mut around = json!({"spec": {"template": {"spec": {"strategy": rollout["strategy"].take()}}}});
        strategy_has_a_type(&mut around, "strategy");
        rollout["strategy"] = around["spec"]["template"]["spec"]["strategy"].take();
    }
}

/// In templates of control planes a strategy without a type gets one.
fn strategy_has_a_type(object: &mut Value, name: &str) {
    if let Some(strategy) =
        object.pointer_mut(&format!("/spec/template/spec/{name}")).filter(|found| found.is_object())
    {
        strategy["type"] = "RollingUpdate".into();
    }
}

fn key(path: &str, name: &str) -> Option<&'static str> {
    match name {
        "extraArgs" | "kubeletExtraArgs" | "failureDomains" => Some("name"),
        "files" => Some("path"),
        "extraVolumes" => Some("hostPath"),
        "patches" | "variables" if path == "spec.patches" || path.ends_with("variables") => Some("name"),
        "definitions" if path.starts_with("status") => Some("from"),
        _ => None,
    }
}

/// Visits every field from the outside in; those for which the visitor says no are removed.
fn each_field(value: &mut Value, path: &str, keep: &mut impl FnMut(&str, &str, &mut Value) -> bool) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let kept = keep(&path, name, value);
            each_field(value, &path, keep);
            kept
        }),
        Value::Array(elements) => elements.iter_mut().for_each(|element| each_field(element, path, keep)),
        _ => {}
    }
}

/// Absent and empty are the same, and neither version prints what is empty, but for values of users.
fn nothing_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            if name == "value" || name == "openAPIV3Schema" {
                return true;
            }
            nothing_empty(value);
            let empty = value.is_null()
                || value.as_object().is_some_and(Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty);
            !empty
        }),
        Value::Array(elements) => elements.iter_mut().for_each(nothing_empty),
        _ => {}
    }
}
