//! KubeadmControlPlanes and MachineDeployments.

use serde_json::{Value, json};

use crate::api::{Case, Change, Expected, check_all};
use crate::objects::{control_plane, machine_deployment, with};

use Expected::{Accepted, Refused, RefusedBySchemaToo};

#[tokio::test]
async fn a_control_plane_goes_up_by_one_minor_at_a_time() {
    let to = |rule, from: &str, to: &str, expected| Case {
        rule,
        given: vec![control_plane(from, &[])],
        change: Change::Update(control_plane(to, &[])),
        expected,
    };
    let created = |rule, pointer: &str, value: Value, expected| Case {
        rule,
        given: vec![],
        change: Change::Create(with(&control_plane("v1.30.0", &[]), pointer, value)),
        expected,
    };
    let strategy =
        |surge: Value| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}});
    check_all(vec![
        to("a patch", "v1.30.0", "v1.30.9", Accepted),
        to("a minor", "v1.30.9", "v1.31.0", Accepted),
        to("back", "v1.30.0", "v1.29.0", Accepted),
        to("two minors", "v1.30.0", "v1.32.0", Refused("spec.version", "up to v1.31.x is accepted")),
        to(
            "to a pre-release two minors up",
            "v1.30.0",
            "v1.32.0-rc.0",
            Refused("spec.version", "up to v1.31.x is accepted"),
        ),
        to("another major", "v1.30.0", "v2.0.0", Refused("spec.version", "up to v1.31.x is accepted")),
        created(
            "no version",
            "/spec/version",
            json!("latest"),
            Refused("spec.version", "one such as v1.33.0 is accepted"),
        ),
        created("three machines", "/spec/replicas", json!(3), Accepted),
        created("two machines", "/spec/replicas", json!(2), Refused("spec.replicas", "1 or 3 is accepted")),
        created(
            "no machines",
            "/spec/replicas",
            json!(0),
            Refused("spec.replicas", "an odd number such as 1 or 3 is accepted"),
        ),
        created("a surge", "/spec/rollout", strategy(json!(1)), Accepted),
        created(
            "a surge of two",
            "/spec/rollout",
            strategy(json!(2)),
            Refused("spec.rollout.strategy.rollingUpdate.maxSurge", "2 is not accepted, 0 or 1 is"),
        ),
        created(
            "no surge with one machine",
            "/spec/rollout",
            strategy(json!(0)),
            Refused(
                "spec.rollout.strategy.rollingUpdate.maxSurge",
                "0 needs at least three replicas, and there are 1; 1 is accepted",
            ),
        ),
        created(
            "names of machines",
            "/spec/machineNaming",
            json!({"template": "{{ .kubeadmControlPlane.name | trunc 20 }}-{{ .random }}"}),
            Accepted,
        ),
        created(
            "names with functions that do not exist",
            "/spec/machineNaming",
            json!({"template": "{{ .cluster.name | uper }}-{{ .random }}"}),
            Refused("spec.machineNaming.template", "function \"uper\" does not exist"),
        ),
        created(
            "names that are all the same",
            "/spec/machineNaming",
            json!({"template": "{{ .cluster.name }}-0"}),
            Refused("spec.machineNaming.template", "does not contain {{ .random }}"),
        ),
        created("External alone", "/spec/rollout", json!({"strategy": {"type": "External"}}), Accepted),
        created(
            "External with a fallback",
            "/spec/rollout",
            json!({"strategy": {"type": "External", "fallbackRolling": {"maxSurge": 1}}}),
            Accepted,
        ),
        created(
            "a fallback of two",
            "/spec/rollout",
            json!({"strategy": {"type": "External", "fallbackRolling": {"maxSurge": 2}}}),
            Refused("spec.rollout.strategy.fallbackRolling.maxSurge", "0 or 1 is"),
        ),
        created(
            "a fallback that nothing falls back to",
            "/spec/rollout",
            json!({"strategy": {"type": "RollingUpdate", "fallbackRolling": {"maxSurge": 1}}}),
            Refused("spec.rollout.strategy.fallbackRolling", "is accepted with type External only"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_machine_deployment_selects_its_machines() {
    let good = || machine_deployment("v1.30.0");
    let created = |rule, object: Value, expected| Case {
        rule,
        given: vec![],
        change: Change::Create(object),
        expected,
    };
    let updated = |rule, object: Value, expected| Case {
        rule,
        given: vec![good()],
        change: Change::Update(object),
        expected,
    };
    let rolling = |limits: Value| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}});
    check_all(vec![
        created("a good one", good(), Accepted),
        created(
            "its version",
            machine_deployment("v1.30"),
            Refused("spec.template.spec.version", "a version such as v1.33.0 is accepted"),
        ),
        created("a name as long as a label", with(&good(), "/metadata/name", json!("d".repeat(63))), Accepted),
        created(
            "a name longer than a label",
            with(&good(), "/metadata/name", json!("d".repeat(64))),
            Refused("metadata.name", "of its MachineSets and Machines: at most 63 are accepted"),
        ),
        created(
            "fewer than no machines",
            with(&good(), "/spec/replicas", json!(-1)),
            RefusedBySchemaToo("spec.replicas", "-1 is not accepted, a number of at least 0 is"),
        ),
        created(
            "its names",
            with(&good(), "/spec/machineNaming", json!({"template": "{{ .cluster.name }}-{{ .random }}"})),
            Accepted,
        ),
        created(
            "names that depend on chance",
            with(&good(), "/spec/machineNaming", json!({"template": "{{ .random }}-{{ randAlpha 3 }}"})),
            Refused("spec.machineNaming.template", "function \"randAlpha\" is not available: it depends on chance"),
        ),
        created(
            "names of something else",
            with(&good(), "/spec/machineNaming", json!({"template": "{{ .machinePool.name }}-{{ .random }}"})),
            Refused("spec.machineNaming.template", "there is no key \"machinePool\""),
        ),
        created(
            "its labels",
            with(&good(), "/spec/template/metadata/labels", json!({"cluster.x-k8s.io/cluster-name": "c1"})),
            Refused("spec.template.metadata.labels", "labels that spec.selector matches are accepted"),
        ),
        created(
            "its cluster",
            with(&good(), "/spec/template/spec/clusterName", json!("c2")),
            Refused("spec.template.spec.clusterName", "\"c1\" is accepted, as in spec.clusterName"),
        ),
        created(
            "no cluster",
            with(&good(), "/spec/clusterName", json!("")),
            RefusedBySchemaToo("spec.clusterName", "the name of a Cluster is accepted"),
        ),
        created(
            "its limits",
            with(&good(), "/spec/rollout", rolling(json!({"maxSurge": 0, "maxUnavailable": 1}))),
            Accepted,
        ),
        created(
            "limits that allow nothing",
            with(&good(), "/spec/rollout", rolling(json!({"maxSurge": 0}))),
            Refused(
                "spec.rollout.strategy.rollingUpdate.maxUnavailable",
                "0 is not accepted where maxSurge is 0, 1 or more is",
            ),
        ),
        created(
            "limits of no kind",
            with(&good(), "/spec/rollout", rolling(json!({"maxUnavailable": "some"}))),
            Refused(
                "spec.rollout.strategy.rollingUpdate.maxUnavailable",
                "a number such as 1 or a percentage such as 20% is",
            ),
        ),
        created(
            "External with a fallback",
            with(
                &good(),
                "/spec/rollout",
                json!({"strategy": {"type": "External", "fallbackRolling": {"maxSurge": 1}}}),
            ),
            Accepted,
        ),
        created(
            "External alone",
            with(&good(), "/spec/rollout", json!({"strategy": {"type": "External"}})),
            Accepted,
        ),
        created(
            "External, with what the CRD fills in",
            with(
                &good(),
                "/spec/rollout",
                json!({"strategy": {"type": "External", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}),
            ),
            Accepted,
        ),
        created(
            "External with a surge",
            with(
                &good(),
                "/spec/rollout",
                json!({"strategy": {"type": "External", "rollingUpdate": {"maxSurge": 2}}}),
            ),
            Refused("spec.rollout.strategy.rollingUpdate.maxSurge", "use fallbackRolling.maxSurge"),
        ),
        created(
            "a fallback that allows nothing",
            with(
                &good(),
                "/spec/rollout",
                json!({"strategy": {"type": "External", "fallbackRolling": {"maxSurge": 0, "maxUnavailable": 0}}}),
            ),
            Refused(
                "spec.rollout.strategy.fallbackRolling.maxUnavailable",
                "0 is not accepted where maxSurge is 0",
            ),
        ),
        created(
            "a fallback of no kind",
            with(
                &good(),
                "/spec/rollout",
                json!({"strategy": {"type": "External", "fallbackRolling": {"maxSurge": "many"}}}),
            ),
            Refused(
                "spec.rollout.strategy.fallbackRolling.maxSurge",
                "a number such as 1 or a percentage such as 20% is",
            ),
        ),
        created(
            "a fallback without External",
            with(
                &good(),
                "/spec/rollout",
                json!({"strategy": {"type": "OnDelete", "fallbackRolling": {"maxSurge": 1}}}),
            ),
            Refused("spec.rollout.strategy.fallbackRolling", "is accepted with type External only"),
        ),
        created(
            "taints",
            with(
                &good(),
                "/spec/template/spec/taints",
                json!([{"key": "a b", "effect": "NoSchedule", "propagation": "Always"}]),
            ),
            Refused("spec.template.spec.taints[0].key", "a name, or a domain, a slash and a name, is"),
        ),
        updated("a new version", machine_deployment("v1.31.0"), Accepted),
        updated(
            "another cluster",
            with(
                &with(&good(), "/spec/clusterName", json!("c2")),
                "/spec/template/spec/clusterName",
                json!("c2"),
            ),
            Refused("spec.clusterName", "cannot be changed, \"c1\" is accepted"),
        ),
        updated(
            "another selector",
            with(&good(), "/spec/selector/matchLabels", json!({"cluster.x-k8s.io/cluster-name": "c1"})),
            Refused("spec.selector", "only the selector it was created with is accepted"),
        ),
    ])
    .await;
}
