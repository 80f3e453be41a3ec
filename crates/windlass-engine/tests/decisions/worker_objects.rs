//! MachineDeployments, MachineSets and Machines as objects: what is read of them, and what they become.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::cluster::{Machine, MachineDeployment, MachineSet};
use windlass_engine::condition;
use windlass_engine::machine_set::{self, Hold, Parts};
use windlass_engine::rollout::{
    self, Amount, FactsError, InPlaceAnswers, Limits, RollingUpdate, Strategy, WhyCreate, desired_set,
    next_set, plan,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn merge(mut base: Value, over: Value) -> Value {
    fn into(base: &mut Value, over: Value) {
        match (base, over) {
            (Value::Object(base), Value::Object(over)) => {
                for (key, value) in over {
                    into(base.entry(key).or_insert(Value::Null), value);
                }
            }
            (base, over) => *base = over,
        }
    }
    into(&mut base, over);
    base
}

fn template(version: &str) -> Value {
    json!({
        "metadata": {"labels": {"pool": "a"}, "annotations": {"note": "x"}},
        "spec": {
            "clusterName": "c1", "version": version,
            "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfigTemplate", "name": "b"}},
            "infrastructureRef":
                {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "i"},
            "minReadySeconds": 5,
        },
    })
}

fn deployment(over: Value) -> MachineDeployment {
    let base = json!({
        "metadata": {"name": "md", "namespace": "ns", "uid": "u-md", "generation": 3,
            "annotations": {"team": "blue", "machinedeployment.clusters.x-k8s.io/revision": "7",
                "kubectl.kubernetes.io/last-applied-configuration": "{}", "cluster.x-k8s.io/paused": ""}},
        "spec": {
            "clusterName": "c1", "replicas": 3, "selector": {"matchLabels": {"pool": "a"}},
            "rollout": {"strategy": {"type": "RollingUpdate"}},
            "machineNaming": {"template": "x-{{ .random }}"}, "deletion": {"order": "Oldest"},
            "template": template("v1.32.0"),
        },
    });
    serde_json::from_value(merge(base, over)).unwrap()
}

fn set(name: &str, version: &str, over: Value) -> MachineSet {
    let base = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("u-{name}"), "generation": 2,
            "labels": {"machine-template-hash": format!("123-{name}")},
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"clusterName": "c1", "replicas": 3, "selector": {"matchLabels": {"pool": "a"}},
            "template": template(version)},
    });
    serde_json::from_value(merge(base, over)).unwrap()
}

fn machine(name: &str, over: Value) -> Machine {
    let base = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("u-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"clusterName": "c1", "version": "v1.31.0", "providerID": "p://1",
            "bootstrap": {"dataSecretName": "s",
                "configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name}},
        "status": {"nodeRef": {"name": name}},
    });
    serde_json::from_value(merge(base, over)).unwrap()
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "R", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

#[test]
fn strategies_are_read_with_their_defaults() {
    let read = |strategy: Value| {
        let mut md = deployment(json!({}));
        md.spec.rollout.strategy = serde_json::from_value(strategy).unwrap();
        rollout::strategy(&md)
    };
    let rolling = |max_surge, max_unavailable| RollingUpdate { max_surge, max_unavailable };
    let (count, percent) = (Amount::Count, Amount::Percent);
    for (given, expected) in [
        (json!({}), Strategy::RollingUpdate(rolling(count(1), count(0)))),
        (json!({"type": "RollingUpdate"}), Strategy::RollingUpdate(rolling(count(1), count(0)))),
        (
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 2}}),
            Strategy::RollingUpdate(rolling(percent(30), count(2))),
        ),
        (json!({"type": "OnDelete"}), Strategy::OnDelete),
        (json!({"type": "External"}), Strategy::External { max_unavailable: count(1), fallback: None }),
        (
            json!({"type": "External", "rollingUpdate": {"maxUnavailable": "50%"}, "fallbackRolling": {}}),
            Strategy::External { max_unavailable: percent(50), fallback: Some(rolling(count(1), count(0))) },
        ),
    ] {
        assert_eq!(read(given.clone()).unwrap(), expected, "{given}");
    }
    assert_eq!(read(json!({"type": "Recreate"})), Err(FactsError::Strategy("Recreate".to_owned())));
    let error = read(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "many"}})).unwrap_err();
    assert_eq!(error.to_string(), "maxSurge: \"many\" is not a number and not a percentage");
}

#[test]
fn a_machine_set_gets_everything_that_needs_no_rollout_from_its_deployment() {
    let md = deployment(json!({"spec": {"template": {
        "metadata": {"labels": {"new": "label"}},
        "spec": {"minReadySeconds": 9, "deletion": {"nodeDrainTimeoutSeconds": 4}},
    }}}));
    let old = set(
        "old",
        "v1.31.0",
        json!({"metadata": {"annotations": {
            "machinedeployment.clusters.x-k8s.io/revision": "1", "gone": "soon",
            "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset": "before",
        }}}),
    );
    let sets = [&old];
    let fresh = next_set(&md, &sets, &BTreeSet::from(["old".to_owned()])).unwrap();
    let observed = rollout::observe(&md, &sets, &[], &fresh.name, at(0)).unwrap();
    let plan = plan(&observed, &InPlaceAnswers::new());
    assert_eq!(plan.create, Some(WhyCreate::NoMatch));

    let new = desired_set(&md, None, plan.new.as_ref().unwrap(), plan.limits, &fresh.hash).unwrap();
    let template_labels = json!({
        "pool": "a", "new": "label", "machine-template-hash": fresh.hash, "cluster.x-k8s.io/cluster-name": "c1",
    });
    let mut labels = template_labels.clone();
    labels["cluster.x-k8s.io/deployment-name"] = json!("md");
    let wire = serde_json::to_value(&new).unwrap();
    assert_eq!(
        wire["metadata"],
        json!({
            "name": fresh.name, "namespace": "ns", "labels": labels,
            "annotations": {
                "team": "blue", "cluster.x-k8s.io/disable-machine-create": "false",
                "machinedeployment.clusters.x-k8s.io/revision": "2",
                "machinedeployment.clusters.x-k8s.io/desired-replicas": "3",
                "machinedeployment.clusters.x-k8s.io/max-replicas": "4",
            },
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
                "name": "md", "uid": "u-md", "controller": true, "blockOwnerDeletion": true}],
        })
    );
    assert_eq!(wire["spec"]["replicas"], 1);
    assert_eq!(
        wire["spec"]["selector"]["matchLabels"],
        json!({"pool": "a", "machine-template-hash": fresh.hash})
    );
    assert_eq!(
        wire["spec"]["template"]["metadata"],
        json!({"labels": template_labels, "annotations": {"note": "x"}})
    );
    assert_eq!(
        machine_set::machine_labels(&new).unwrap()["cluster.x-k8s.io/deployment-name"],
        "md",
        "machines have it from the set"
    );
    assert_eq!(wire["spec"]["template"]["spec"]["version"], "v1.32.0");
    assert_eq!(wire["spec"]["deletion"]["order"], "Oldest");
    assert_eq!(wire["spec"]["machineNaming"]["template"], "x-{{ .random }}");

    let old =
        serde_json::to_value(desired_set(&md, Some(&old), &plan.old[0], plan.limits, "unused").unwrap())
            .unwrap();
    assert_eq!(old["metadata"]["uid"], "u-old");
    assert_eq!(old["metadata"]["labels"]["machine-template-hash"], "123-old");
    let annotations = old["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations["machinedeployment.clusters.x-k8s.io/revision"], "1");
    assert!(!annotations.keys().any(|key| key.contains("move-machines") || key == "gone"));
    let spec = &old["spec"]["template"]["spec"];
    assert_eq!((&spec["version"], &spec["minReadySeconds"]), (&json!("v1.31.0"), &json!(9)));
    assert_eq!(spec["deletion"], json!({"nodeDrainTimeoutSeconds": 4}));
    assert_eq!(old["spec"]["template"]["metadata"]["labels"]["new"], "label");
}

#[test]
fn a_machine_set_that_becomes_current_again_remembers_its_revisions() {
    let md = deployment(json!({}));
    let revision = |revision: &str| {
        json!({"metadata": {"annotations": {
        "machinedeployment.clusters.x-k8s.io/revision": revision,
        "machinedeployment.clusters.x-k8s.io/revision-history": "1"}}})
    };
    let (back, other) = (set("back", "v1.32.0", revision("2")), set("other", "v1.31.0", revision("3")));
    let observed = rollout::observe(&md, &[&back, &other], &[], "unused", at(0)).unwrap();
    let plan = plan(&observed, &InPlaceAnswers::new());
    let new =
        desired_set(&md, Some(&back), plan.new.as_ref().unwrap(), Limits { surge: 0, unavailable: 0 }, "")
            .unwrap();
    let annotations = new.metadata.annotations.unwrap();
    assert_eq!(annotations["machinedeployment.clusters.x-k8s.io/revision"], "4");
    assert_eq!(annotations["machinedeployment.clusters.x-k8s.io/revision-history"], "1,2");
}

#[test]
fn a_deployment_without_replicas_counts_as_one_machine() {
    let md = deployment(json!({"spec": {"replicas": null}}));
    assert_eq!(rollout::observe(&md, &[], &[], "x", at(0)).unwrap().replicas, 1);
}

#[test]
fn a_machine_gets_what_needs_no_rollout_and_keeps_the_rest() {
    let ms = set("ms", "v1.32.0", json!({}));
    let reference = |kind: &str, name: &str| {
        serde_json::from_value(json!({"apiGroup": "g", "kind": kind, "name": name})).unwrap()
    };
    let parts = Parts {
        bootstrap: Some(reference("KubeadmConfig", "m1")),
        infrastructure: reference("DevMachine", "m1"),
    };
    let new = serde_json::to_value(machine_set::new_machine(&ms, "m1", parts).unwrap()).unwrap();
    assert_eq!(new["spec"]["version"], "v1.32.0");
    assert_eq!(new["spec"]["bootstrap"]["configRef"]["name"], "m1");
    assert_eq!(new["spec"]["infrastructureRef"]["kind"], "DevMachine");
    assert_eq!(
        new["metadata"]["labels"],
        json!({"pool": "a", "cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/set-name": "ms"})
    );
    assert_eq!(new["metadata"]["ownerReferences"][0]["controller"], true);

    let there = machine("m1", json!({}));
    let intent = machine_set::synced_machine(&ms, &there).unwrap();
    let wire = serde_json::to_value(&intent).unwrap();
    assert_eq!((&wire["spec"]["version"], &wire["spec"]["minReadySeconds"]), (&json!("v1.31.0"), &json!(5)));
    assert_eq!(wire["metadata"]["uid"], "u-m1");
    // What the controller of the machine fills in is not claimed.
    assert!(
        wire["spec"].get("providerID").is_none() && wire["spec"]["bootstrap"].get("dataSecretName").is_none()
    );
    let mut synced = there.clone();
    synced.metadata.labels = intent.metadata.labels.clone();
    synced.metadata.annotations = intent.metadata.annotations.clone();
    synced.metadata.owner_references = intent.metadata.owner_references.clone();
    synced.spec.min_ready_seconds = Some(5);
    assert_ne!(synced, there);
    assert_eq!(
        machine_set::synced_machine(&ms, &synced).unwrap(),
        intent,
        "once applied, it stays what is wanted"
    );

    // On its way out its labels stay as they are.
    let leaving = machine(
        "m1",
        json!({"metadata":
        {"deletionTimestamp": "2026-01-02T00:00:00Z", "labels": {"pool": "other", "mine": "x"}}}),
    );
    let intent = machine_set::synced_machine(&ms, &leaving).unwrap();
    assert_eq!(serde_json::to_value(intent.metadata.labels).unwrap(), json!({"pool": "other"}));
    assert_eq!(intent.spec.min_ready_seconds, Some(5));
}

#[test]
fn machines_are_observed_with_their_marks() {
    let ms = set(
        "ms",
        "v1.32.0",
        json!({"metadata": {"annotations": {
        "cluster.x-k8s.io/disable-machine-create": "true",
        "in-place-updates.internal.cluster.x-k8s.io/acknowledged-move": "a, b",
        "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset": "next",
    }}, "spec": {"deletion": {"order": "Newest"}}}),
    );
    let next = set(
        "next",
        "v1.33.0",
        json!({"metadata": {"annotations":
        {"in-place-updates.internal.cluster.x-k8s.io/receive-machines-from-machinesets": "ms"}}}),
    );
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    let machines = [
        machine("plain", json!({})),
        machine("marked", annotated("cluster.x-k8s.io/delete-machine", "")),
        machine("hook", annotated("runtime.cluster.x-k8s.io/pending-hooks", "Other,UpdateMachine")),
        machine("mark", annotated("in-place-updates.internal.cluster.x-k8s.io/update-in-progress", "")),
        machine(
            "sick",
            json!({"status": {"conditions": [
            condition("HealthCheckSucceeded", "False", ""), condition("OwnerRemediated", "False", "")]}}),
        ),
    ];
    let machines: Vec<&Machine> = machines.iter().collect();
    let observed = machine_set::observe(&ms, &machines, Some(&next), at(0));
    assert!(observed.create_disabled);
    assert_eq!(observed.order, machine_set::DeletionOrder::Newest);
    assert_eq!(observed.acknowledged, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    let target = observed.moves_to.unwrap();
    assert!(target.receives_from.unwrap().contains("ms"));
    let marks: Vec<_> = observed
        .machines
        .iter()
        .map(|machine| {
            (machine.marked, machine.updating, machine.update_started, machine.waits_for_remediation())
        })
        .collect();
    let no = (false, false, false, false);
    assert_eq!(
        marks,
        [
            no,
            (true, false, false, false),
            (false, true, true, false),
            (false, true, false, false),
            (false, false, false, true)
        ]
    );
    let missing = machine_set::observe(&ms, &[], None, at(0));
    assert_eq!(missing.moves_to.unwrap().receives_from, None);
}

#[test]
fn an_empty_selector_selects_nothing() {
    let matches = |selector: Value, labels: Value| {
        let selector = machine_set::selector(&serde_json::from_value(selector).unwrap()).unwrap();
        selector.matches(&serde_json::from_value(labels).unwrap())
    };
    assert!(!matches(json!({}), json!({"a": "b"})));
    assert!(matches(json!({"matchLabels": {"a": "b"}}), json!({"a": "b", "c": "d"})));
    assert!(!matches(json!({"matchLabels": {"a": "b"}}), json!({"a": "c"})));
    let exists = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    assert!(matches(exists, json!({"a": "c"})));
    let broken = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
    assert!(machine_set::selector(&serde_json::from_value(broken).unwrap()).is_err());
}

fn ready(name: &str, over: Value) -> Machine {
    let conditions = ["Ready", "Available", "UpToDate"].map(|type_| condition(type_, "True", ""));
    machine(name, merge(json!({"status": {"conditions": conditions}}), over))
}

#[test]
fn a_machine_set_counts_its_machines_and_says_what_it_does() {
    let updating = json!({"metadata": {"annotations":
        {"in-place-updates.internal.cluster.x-k8s.io/update-in-progress": ""}}});
    let machines = [
        ready("m1", json!({"status": {"nodeInfo": {"kubeletVersion": "v1.31.9"}}})),
        ready("m2", updating),
        machine("m3", json!({"status": {"conditions": [condition("Ready", "False", "no disk")]}})),
    ];
    let machines: Vec<&Machine> = machines.iter().collect();
    let ms = |over: Value| set("ms", "v1.31.0", over);
    let facts = |ms: &MachineSet, problems: &[String], hold: Option<&Hold>| {
        machine_set::status(&machine_set::StatusFacts {
            set: ms,
            machines: &machines,
            problems,
            hold,
            held: &[],
            complete: true,
            selector: "pool=a",
            now: at(1_800_000_000),
        })
    };
    let said = |status: &windlass_api::cluster::MachineSetStatus, type_: &str| {
        let condition = condition::find(&status.conditions, type_).unwrap();
        (condition.status.clone(), condition.reason.clone(), condition.message.clone())
    };
    let is = |status: &str, reason: &str, message: &str| {
        (status.to_owned(), reason.to_owned(), message.to_owned())
    };

    let status = facts(&ms(json!({})), &[], None);
    let counts =
        (status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas);
    assert_eq!(counts, (Some(3), Some(1), Some(1), Some(1)));
    assert_eq!((status.observed_generation, status.selector.as_str()), (Some(2), "pool=a"));
    let versions: Vec<_> = status.versions.iter().map(|v| (v.version.as_str(), v.replicas)).collect();
    assert_eq!(versions, [("v1.31.0", Some(2)), ("v1.31.9", Some(1))]);
    assert_eq!(said(&status, "ScalingUp"), is("False", "NotScalingUp", ""));
    assert_eq!(said(&status, "ScalingDown"), is("False", "NotScalingDown", ""));
    assert_eq!(said(&status, "MachinesReady"), is("False", "NotReady", "* Machine m3: no disk"));
    assert_eq!(said(&status, "MachinesUpToDate").0, "Unknown");
    assert_eq!(said(&status, "Remediating"), is("False", "NotRemediating", ""));
    assert_eq!(said(&status, "Deleting"), is("False", "NotDeleting", ""));

    let problem = ["DevMachineTemplate i does not exist".to_owned()];
    for (over, problems, hold, type_, expected) in [
        (
            json!({"spec": {"replicas": 5}}),
            &[][..],
            None,
            "ScalingUp",
            is("True", "ScalingUp", "Scaling up from 3 to 5 replicas"),
        ),
        (
            json!({"spec": {"replicas": 5}}),
            &problem[..],
            Some(Hold::CreateDisabled),
            "ScalingUp",
            is(
                "True",
                "ScalingUp",
                "Scaling up from 3 to 5 replicas is blocked because:\n* DevMachineTemplate i does not \
                exist\n* Machines are created by the current MachineSet only",
            ),
        ),
        (
            json!({}),
            &problem[..],
            None,
            "ScalingUp",
            is(
                "False",
                "NotScalingUp",
                "Scaling up would be blocked because:\n* DevMachineTemplate i does not exist",
            ),
        ),
        (
            json!({"spec": {"replicas": 1}}),
            &[][..],
            None,
            "ScalingDown",
            is("True", "ScalingDown", "Scaling down from 3 to 1 replicas"),
        ),
        (
            json!({"spec": {"replicas": 1}}),
            &[][..],
            Some(Hold::CreateDisabled),
            "ScalingDown",
            is(
                "True",
                "ScalingDown",
                "Scaling down from 3 to 1 replicas\n* Machines are created by the current MachineSet only",
            ),
        ),
        (
            json!({"spec": {"replicas": null}}),
            &[][..],
            None,
            "ScalingDown",
            is("True", "ScalingDown", "Scaling down from 3 to 1 replicas"),
        ),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}),
            &[][..],
            None,
            "Deleting",
            is("True", "Deleting", "Deleting 3 Machines"),
        ),
    ] {
        assert_eq!(said(&facts(&ms(over.clone()), problems, hold.as_ref()), type_), expected, "{over}");
    }
}

#[test]
fn a_deployment_sums_up_its_machine_sets_and_says_what_it_rolls_out() {
    let counted = |name: &str, version: &str, all: i32, good: i32| {
        set(
            name,
            version,
            json!({"spec": {"replicas": all}, "status": {"replicas": all, "readyReplicas": good, "availableReplicas": good,
            "upToDateReplicas": good, "versions": [{"version": version, "replicas": all}]}}),
        )
    };
    let (new, old) = (counted("new", "v1.32.0", 1, 1), counted("old", "v1.31.0", 2, 1));
    let outdated = "* DevMachine is not up-to-date\n* Version v1.31.0, v1.32.0 required";
    let machines = [
        ready("m1", json!({})),
        machine("m2", json!({"status": {"conditions": [condition("UpToDate", "False", outdated)]}})),
        machine("m3", json!({"status": {"conditions": [condition("UpToDate", "False", outdated)]}})),
    ];
    let machines: Vec<&Machine> = machines.iter().collect();
    let status = |md: &MachineDeployment, machines: &[&Machine], blocked| {
        rollout::status(&rollout::StatusFacts {
            deployment: md,
            sets: &[&old, &new],
            machines,
            problems: &[],
            blocked,
            in_place: &windlass_engine::in_place::Said::AsBefore,
            external_update: &windlass_engine::in_place::Said::AsBefore,
            complete: true,
            selector: "pool=a",
            now: at(1_800_000_000),
        })
    };
    let said = |status: &windlass_api::cluster::MachineDeploymentStatus, type_: &str| {
        let condition = condition::find(&status.conditions, type_).unwrap();
        (condition.status.clone(), condition.reason.clone(), condition.message.clone())
    };
    let md = deployment(json!({}));
    let found = status(&md, &machines, None);
    let counts = (found.replicas, found.ready_replicas, found.available_replicas, found.up_to_date_replicas);
    assert_eq!(counts, (Some(3), Some(2), Some(2), Some(2)));
    let versions: Vec<_> = found.versions.iter().map(|v| (v.version.as_str(), v.replicas)).collect();
    assert_eq!(versions, [("v1.31.0", Some(2)), ("v1.32.0", Some(1))]);
    assert_eq!(found.phase.as_ref().unwrap().to_string(), "ScalingUp");
    let (state, reason, message) = said(&found, "Available");
    assert_eq!((state.as_str(), reason.as_str()), ("False", "NotAvailable"));
    assert_eq!(message, "2 available replicas, at least 3 required (3 replicas, 0 may be unavailable)");
    let (state, reason, message) = said(&found, "RollingOut");
    assert_eq!((state.as_str(), reason.as_str()), ("True", "RollingOut"));
    assert_eq!(
        message,
        "Rolling out 2 not up-to-date replicas\n* Version v1.31.0, v1.32.0 required\n* DevMachine is not up-to-date"
    );
    assert!(!rollout::is_complete(rollout::progress(&md, &found)));

    // A rollout that stands still says so, in the same place.
    let external = deployment(json!({"spec": {"rollout": {"strategy": {"type": "External"}}}}));
    let observed = rollout::observe(&external, &[&old, &new], &[], "x", at(0)).unwrap();
    let blocked = plan(&observed, &InPlaceAnswers::new()).blocked.unwrap();
    let (state, reason, message) = said(&status(&external, &machines, Some(&blocked)), "RollingOut");
    assert_eq!((state.as_str(), reason.as_str()), ("True", rollout::ROLLOUT_BLOCKED));
    assert!(message.contains("2 Machines of MachineSet old cannot be updated in place"), "{message}");
    // One machine may be missing there.
    assert_eq!(said(&status(&external, &machines, None), "Available").0, "True");

    let two = deployment(json!({"spec": {"replicas": 2}}));
    let found = status(&two, &machines[..1], None);
    assert_eq!(said(&found, "RollingOut").1, "NotRollingOut");
    assert_eq!(said(&found, "Available").0, "True");
    assert_eq!(found.phase.unwrap().to_string(), "Running");
    let none = deployment(json!({"spec": {"replicas": null}}));
    assert_eq!(said(&status(&none, &machines, None), "Available").1, "Available", "it counts as one");
}

#[test]
fn remediation_is_told_with_what_it_waits_on() {
    let sick = |name: &str, message: &str| {
        machine(
            name,
            json!({"status": {"conditions": [condition("HealthCheckSucceeded", "False", ""),
            condition("OwnerRemediated", "False", message)]}}),
        )
    };
    let machines = [sick("m1", "waiting"), sick("m2", "waiting"), sick("m3", "deleting")];
    let machines: Vec<&Machine> = machines.iter().collect();
    let status = machine_set::status(&machine_set::StatusFacts {
        set: &set("ms", "v1.31.0", json!({})),
        machines: &machines,
        problems: &[],
        hold: None,
        held: &[],
        complete: false,
        selector: "pool=a",
        now: at(1_800_000_000),
    });
    let remediating = condition::find(&status.conditions, "Remediating").unwrap();
    assert_eq!(
        (remediating.status.as_str(), remediating.message.as_str()),
        ("True", "* Machine m3: deleting\n* Machines m1, m2: waiting",)
    );
    assert_eq!(status.observed_generation, None, "what went wrong is not observed");
}
