//! Clusters: what is checked whenever one is written.

use serde_json::{Value, json};

use crate::api::{Case, Change, Expected, check_all};
use crate::objects::{class, cluster, cluster_with_control_plane, control_plane, with, without};

use Expected::{Accepted, Refused, RefusedBySchemaToo, Warned};

const TOPOLOGY: &str = "/spec/topology";
const WEB: &str = "/spec/topology/workers/machineDeployments/0";
const BATCH: &str = "/spec/topology/workers/machinePools/0";

fn created(rule: &'static str, object: Value, expected: Expected) -> Case {
    Case { rule, given: vec![class()], change: Change::Create(object), expected }
}

/// A Cluster that differs from a good one in one field.
fn broken(rule: &'static str, pointer: &str, value: Value, expected: Expected) -> Case {
    created(rule, with(&cluster("v1.30.0"), pointer, value), expected)
}

#[tokio::test]
async fn a_cluster_is_checked_when_it_is_created() {
    let concurrency = "/metadata/annotations/topology.cluster.x-k8s.io~1upgrade-concurrency";
    let scaled = json!({"annotations": {
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "3"}});
    check_all(vec![
        created("a good cluster", cluster("v1.30.0"), Accepted),
        broken(
            "version is a version",
            "/spec/topology/version",
            json!("v1.30"),
            Refused("spec.topology.version", "a version such as v1.33.0 is accepted"),
        ),
        broken(
            "version is strict",
            "/spec/topology/version",
            json!("v1.030.0"),
            Refused("spec.topology.version", "a version such as v1.33.0 is accepted"),
        ),
        broken(
            "initial version is listed",
            "/spec/topology/version",
            json!("v1.28.0"),
            Refused(
                "spec.topology.version",
                "v1.29.0, v1.30.0, v1.31.0, v1.32.0, v1.33.0, v1.34.0 are accepted",
            ),
        ),
        broken("concurrency is a number", concurrency, json!("2"), Accepted),
        broken(
            "concurrency is at least 1",
            concurrency,
            json!("0"),
            Refused(
                "metadata.annotations[topology.cluster.x-k8s.io/upgrade-concurrency]",
                "a whole number of at least 1 is",
            ),
        ),
        broken(
            "concurrency is whole",
            concurrency,
            json!("1.5"),
            Refused(
                "metadata.annotations[topology.cluster.x-k8s.io/upgrade-concurrency]",
                "a whole number of at least 1 is",
            ),
        ),
        broken("a name as long as a label", "/metadata/name", json!("c".repeat(63)), Accepted),
        broken(
            "a name longer than a label",
            "/metadata/name",
            json!("c".repeat(64)),
            Refused(
                "metadata.name",
                "has 64 characters and is the value of label cluster.x-k8s.io/cluster-name of everything that belongs \
                 to the Cluster: at most 63 are accepted",
            ),
        ),
        broken("no machines", &format!("{WEB}/replicas"), json!(0), Accepted),
        broken(
            "fewer than no control plane machines",
            "/spec/topology/controlPlane/replicas",
            json!(-1),
            RefusedBySchemaToo("spec.topology.controlPlane.replicas", "a number of at least 0 is"),
        ),
        broken(
            "fewer than no machines",
            &format!("{WEB}/replicas"),
            json!(-1),
            RefusedBySchemaToo(
                "spec.topology.workers.machineDeployments[0].replicas",
                "a number of at least 0 is",
            ),
        ),
        broken(
            "fewer than no machines of a pool",
            &format!("{BATCH}/replicas"),
            json!(-3),
            RefusedBySchemaToo("spec.topology.workers.machinePools[0].replicas", "-3 is not accepted"),
        ),
        broken(
            "classRef has a name",
            "/spec/topology/classRef",
            json!({"name": ""}),
            RefusedBySchemaToo("spec.topology.classRef.name", "the name of a ClusterClass is accepted"),
        ),
        Case {
            rule: "a class may come later",
            given: vec![],
            change: Change::Create(cluster("v1.30.0")),
            expected: Warned("ClusterClass quick does not exist yet"),
        },
        Case {
            rule: "a class may be looked at later",
            given: vec![without(&class(), "", "status")],
            change: Change::Create(cluster("v1.30.0")),
            expected: Warned("ClusterClass quick was not reconciled yet"),
        },
        Case {
            rule: "a cluster without a topology is not held to its rules",
            given: vec![],
            change: Change::Create(with(
                &without(&cluster("v1.30.0"), "/spec", "topology"),
                "/spec/paused",
                json!(true),
            )),
            expected: Accepted,
        },
        broken(
            "groups have their own names",
            "/spec/topology/workers/machineDeployments",
            json!([{"class": "default", "name": "web"}, {"class": "default", "name": "web"}]),
            RefusedBySchemaToo(
                "spec.topology.workers.machineDeployments[1].name",
                "is used twice, a name that no other group has is accepted",
            ),
        ),
        broken(
            "groups have names",
            &format!("{BATCH}/name"),
            json!("Batch_1"),
            RefusedBySchemaToo(
                "spec.topology.workers.machinePools[0].name",
                "lower case letters, digits and dashes, at most 63, are",
            ),
        ),
        broken(
            "classes of MachineDeployments exist",
            &format!("{WEB}/class"),
            json!("gpu"),
            Refused(
                "spec.topology.workers.machineDeployments[0].class",
                "does not exist in the ClusterClass, default is accepted",
            ),
        ),
        broken(
            "classes of MachinePools exist",
            &format!("{BATCH}/class"),
            json!("gpu"),
            Refused(
                "spec.topology.workers.machinePools[0].class",
                "does not exist in the ClusterClass, default is accepted",
            ),
        ),
        created(
            "an autoscaler decides alone",
            with(&without(&cluster("v1.30.0"), WEB, "replicas"), &format!("{WEB}/metadata"), scaled.clone()),
            Accepted,
        ),
        broken(
            "an autoscaler and replicas do not agree",
            &format!("{WEB}/metadata"),
            scaled,
            Refused(
                "spec.topology.workers.machineDeployments[0].replicas",
                "must not be set where an autoscaler decides",
            ),
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_a_cluster_says_about_machines_makes_sense() {
    let checks = json!({"checks": {"nodeStartupTimeoutSeconds": 60}});
    let label_value = "up to 63 letters, digits, dashes, dots and underscores are";
    check_all(vec![
        broken("labels", &format!("{WEB}/metadata"), json!({"labels": {"a.b/c": "d"}}), Accepted),
        broken(
            "keys of labels",
            &format!("{WEB}/metadata"),
            json!({"labels": {"a/b/c": "d"}}),
            Refused("spec.topology.workers.machineDeployments[0].metadata.labels", "a name, or a domain, a slash and a name, is"),
        ),
        broken(
            "values of labels",
            "/spec/topology/controlPlane/metadata",
            json!({"labels": {"a": "not this"}}),
            Refused("spec.topology.controlPlane.metadata.labels[a]", label_value),
        ),
        broken(
            "keys of annotations",
            &format!("{BATCH}/metadata"),
            json!({"annotations": {"a b": "anything goes here"}}),
            Refused("spec.topology.workers.machinePools[0].metadata.annotations", "a name, or a domain, a slash and a name, is"),
        ),
        broken(
            "taints",
            &format!("{WEB}/taints"),
            json!([{"key": "a", "value": "b", "effect": "NoSchedule", "propagation": "Always"}]),
            Accepted,
        ),
        broken(
            "keys of taints",
            &format!("{WEB}/taints"),
            json!([{"key": "-a", "effect": "NoSchedule", "propagation": "Always"}]),
            Refused("spec.topology.workers.machineDeployments[0].taints[0].key", "a name, or a domain, a slash and a name, is"),
        ),
        broken(
            "values of taints",
            "/spec/topology/controlPlane/taints",
            json!([{"key": "a", "value": "b c", "effect": "NoSchedule", "propagation": "Always"}]),
            Refused("spec.topology.controlPlane.taints[0].value", label_value),
        ),
        broken(
            "rollouts can go on",
            &format!("{WEB}/rollout"),
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "20%"}}}),
            Accepted,
        ),
        broken(
            "rollouts that cannot",
            &format!("{WEB}/rollout"),
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}),
            Refused(
                "spec.topology.workers.machineDeployments[0].rollout.strategy.rollingUpdate.maxUnavailable",
                "1 or more is",
            ),
        ),
        broken(
            "limits are numbers or percentages",
            &format!("{WEB}/rollout"),
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "few"}}}),
            Refused(
                "spec.topology.workers.machineDeployments[0].rollout.strategy.rollingUpdate.maxSurge",
                "a number such as 1 or a percentage such as 20% is",
            ),
        ),
        broken(
            "External with a surge",
            &format!("{WEB}/rollout"),
            json!({"strategy": {"type": "External", "rollingUpdate": {"maxSurge": "50%"}}}),
            Refused(
                "spec.topology.workers.machineDeployments[0].rollout.strategy.rollingUpdate.maxSurge",
                "use fallbackRolling.maxSurge",
            ),
        ),
        broken(
            "External with a fallback",
            &format!("{WEB}/rollout"),
            json!({"strategy": {"type": "External", "fallbackRolling": {"maxSurge": 1, "maxUnavailable": "10%"}}}),
            Accepted,
        ),
        broken(
            "a fallback belongs to External",
            &format!("{WEB}/rollout"),
            json!({"strategy": {"type": "RollingUpdate", "fallbackRolling": {"maxSurge": 1}}}),
            Refused(
                "spec.topology.workers.machineDeployments[0].rollout.strategy.fallbackRolling",
                "is accepted with type External only",
            ),
        ),
        broken("health checks", &format!("{WEB}/healthCheck"), checks.clone(), Accepted),
        broken(
            "a health check needs checks",
            &format!("{WEB}/healthCheck"),
            json!({"enabled": true}),
            Refused(
                "spec.topology.workers.machineDeployments[0].healthCheck.enabled",
                "true is accepted only with checks, here or in the ClusterClass",
            ),
        ),
        Case {
            rule: "the class may have the checks",
            given: vec![with(&class(), "/spec/workers/machineDeployments/0/healthCheck", checks.clone())],
            change: Change::Create(with(&cluster("v1.30.0"), &format!("{WEB}/healthCheck"), json!({"enabled": true}))),
            expected: Accepted,
        },
        broken(
            "a health check of the control plane needs checks",
            "/spec/topology/controlPlane/healthCheck",
            json!({"enabled": true}),
            Refused("spec.topology.controlPlane.healthCheck.enabled", "true is accepted only with checks"),
        ),
        broken("a health check of the control plane", "/spec/topology/controlPlane/healthCheck", checks.clone(), Accepted),
        Case {
            rule: "a control plane without machines has no health check",
            given: vec![without(&class(), "/spec/controlPlane", "machineInfrastructure")],
            change: Change::Create(with(&cluster("v1.30.0"), "/spec/topology/controlPlane/healthCheck", checks)),
            expected: Refused(
                "spec.topology.controlPlane.healthCheck",
                "is accepted only where the control plane of the ClusterClass has machineInfrastructure",
            ),
        },
        broken(
            "machines get time to start",
            &format!("{WEB}/healthCheck"),
            json!({"checks": {"nodeStartupTimeoutSeconds": 5}}),
            Refused(
                "spec.topology.workers.machineDeployments[0].healthCheck.checks.nodeStartupTimeoutSeconds",
                "0 or at least 30 is",
            ),
        ),
        broken(
            "ranges go up",
            "/spec/topology/controlPlane/healthCheck",
            json!({"checks": {"nodeStartupTimeoutSeconds": 60}, "remediation": {"triggerIf": {"unhealthyInRange": "[5-3]"}}}),
            Refused(
                "spec.topology.controlPlane.healthCheck.remediation.triggerIf.unhealthyInRange",
                "a range such as [3-5] is",
            ),
        ),
        broken(
            "how many may be unhealthy",
            "/spec/topology/controlPlane/healthCheck",
            json!({"checks": {"nodeStartupTimeoutSeconds": 60},
                "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "half"}}}),
            Refused(
                "spec.topology.controlPlane.healthCheck.remediation.triggerIf.unhealthyLessThanOrEqualTo",
                "a number such as 1 or a percentage such as 40% is",
            ),
        ),
        broken(
            "remediation is made from a template",
            "/spec/topology/controlPlane/healthCheck",
            json!({"checks": {"nodeStartupTimeoutSeconds": 60},
                "remediation": {"templateRef": {"apiVersion": "x.y/v1", "kind": "Fixer", "name": "f"}}}),
            Refused(
                "spec.topology.controlPlane.healthCheck.remediation.templateRef.kind",
                "a kind that ends in Template is",
            ),
        ),
    ])
    .await;
}

#[tokio::test]
async fn values_of_variables_fit_their_schemas() {
    let variables = format!("{TOPOLOGY}/variables");
    let zone = |value: &str| {
        with(&cluster("v1.30.0"), "/spec/topology/variables", json!([{"name": "zone", "value": value}]))
    };
    check_all(vec![
        broken("a value", &variables, json!([{"name": "image", "value": "large"}]), Accepted),
        broken(
            "a value that does not fit",
            &variables,
            json!([{"name": "image", "value": "huge"}]),
            Refused("spec.topology.variables[image].value", "\"large\", \"small\""),
        ),
        broken(
            "a variable that is not defined",
            &variables,
            json!([{"name": "colour", "value": "red"}]),
            Refused("spec.topology.variables[colour]", "are accepted: image, zone"),
        ),
        broken(
            "an override that does not fit",
            &format!("{WEB}/variables"),
            json!({"overrides": [{"name": "image", "value": 3}]}),
            Refused(
                "spec.topology.workers.machineDeployments[web].variables.overrides[image].value",
                "string",
            ),
        ),
        Case {
            rule: "a variable that must be given",
            given: vec![with(
                &class(),
                "/spec/variables/1",
                json!({"name": "zone", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}}),
            )],
            change: Change::Create(cluster("v1.30.0")),
            expected: Refused("spec.topology.variables", "variable \"zone\" is required"),
        },
        Case {
            rule: "a transition that a rule allows",
            given: vec![class(), zone("a")],
            change: Change::Update(zone("a")),
            expected: Accepted,
        },
        Case {
            rule: "a transition that a rule forbids",
            given: vec![class(), zone("a")],
            change: Change::Update(zone("b")),
            expected: Refused("spec.topology.variables[zone].value", "zone is forever"),
        },
    ])
    .await;
}

#[tokio::test]
async fn what_a_cluster_has_stays() {
    let full = || cluster_with_control_plane("v1.30.0");
    let stored = || vec![class(), control_plane("v1.30.0", &["v1.30.0"]), full()];
    let other = |pointer: &str, value: Value| {
        let named = with(&class(), "/metadata/name", json!("other"));
        if pointer.is_empty() { named } else { with(&named, pointer, value) }
    };
    let moved = || with(&full(), "/spec/topology/classRef", json!({"name": "other"}));
    let update = |rule, object: Value, expected| Case {
        rule,
        given: stored(),
        change: Change::Update(object),
        expected,
    };
    let change = |rule, class: Value, expected| Case {
        rule,
        given: [stored(), vec![class]].concat(),
        change: Change::Update(moved()),
        expected,
    };
    let kind = json!("OtherTemplate");
    let unmanaged = || with(&without(&cluster("v1.30.0"), "/spec", "topology"), "/spec/paused", json!(true));
    let adopted = |annotations: Value| with(&full(), "/metadata/annotations", annotations);
    check_all(vec![
        update("nothing changes", full(), Accepted),
        update(
            "infrastructureRef",
            without(&full(), "/spec", "infrastructureRef"),
            Refused("spec.infrastructureRef", "cannot be removed, only what it refers to is accepted"),
        ),
        update(
            "controlPlaneRef",
            without(&full(), "/spec", "controlPlaneRef"),
            Refused("spec.controlPlaneRef", "cannot be removed, only what it refers to is accepted"),
        ),
        update(
            "topology",
            without(&full(), "/spec", "topology"),
            Refused("spec.topology", "cannot be removed from a Cluster that has it"),
        ),
        Case {
            rule: "a topology is not added",
            given: vec![class(), unmanaged()],
            change: Change::Update(cluster("v1.30.0")),
            expected: Refused(
                "spec.topology",
                "with annotation unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check",
            ),
        },
        Case {
            rule: "unless asked for",
            given: vec![class(), unmanaged()],
            change: Change::Update(adopted(
                json!({"unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check": ""}),
            )),
            expected: Warned("taken over without further checks"),
        },
        update(
            "the class exists",
            moved(),
            Refused("spec.topology.classRef", "ClusterClass other does not exist"),
        ),
        change("a class of the same kinds", other("", Value::Null), Accepted),
        change(
            "another bootstrap",
            other("/spec/workers/machineDeployments/0/bootstrap/templateRef/kind", kind.clone()),
            Accepted,
        ),
        change(
            "other infrastructure",
            other("/spec/infrastructure/templateRef/kind", kind.clone()),
            Refused(
                "spec.topology.classRef",
                "a DevClusterTemplate of infrastructure.cluster.x-k8s.io is accepted",
            ),
        ),
        change(
            "another control plane",
            other("/spec/controlPlane/templateRef/kind", kind.clone()),
            Refused(
                "spec.topology.classRef",
                "a KubeadmControlPlaneTemplate of controlplane.cluster.x-k8s.io is accepted",
            ),
        ),
        change(
            "other machines of the control plane",
            other("/spec/controlPlane/machineInfrastructure/templateRef/kind", kind.clone()),
            Refused(
                "spec.topology.classRef",
                "the infrastructure of control plane machines of the new class",
            ),
        ),
        change(
            "other machines of workers",
            other("/spec/workers/machineDeployments/0/infrastructure/templateRef/kind", kind.clone()),
            Refused("spec.topology.classRef", "the infrastructure of machineDeployments \"default\""),
        ),
        change(
            "other pools",
            other("/spec/workers/machinePools/0/infrastructure/templateRef/kind", kind),
            Refused("spec.topology.classRef", "the infrastructure of machinePools \"default\""),
        ),
    ])
    .await;
}
