//! Changes of a Cluster's version.

use serde_json::{Value, json};

use crate::api::{Case, Change, Expected, check_all};
use crate::objects::{
    class, class_without_versions, cluster, cluster_with_control_plane, control_plane, machine,
    machine_deployment, with,
};

use Expected::{Accepted, Refused, Warned};

const FIELD: &str = "spec.topology.version";

/// A Cluster of a class, at rest at a version, whose version is changed.
fn changed(rule: &'static str, class: Value, from: &str, to: &str, expected: Expected) -> Case {
    let given = vec![
        class,
        control_plane(from, &[from]),
        machine_deployment(from),
        machine(from),
        cluster_with_control_plane(from),
    ];
    Case { rule, given, change: Change::Update(cluster_with_control_plane(to)), expected }
}

fn listing(versions: &[&str]) -> Value {
    with(&class(), "/spec/kubernetesVersions", json!(versions))
}

#[tokio::test]
async fn versions_go_forward_along_a_path() {
    let extension = json!({"external": {"generateUpgradePlanExtension": "plan.ext1"}});
    check_all(vec![
        changed("many minors with a list", class(), "v1.29.0", "v1.34.0", Accepted),
        changed(
            "the target is listed",
            class(),
            "v1.29.0",
            "v1.30.1",
            Refused(FIELD, "v1.29.0, v1.30.0, v1.31.0, v1.32.0, v1.33.0, v1.34.0 are accepted"),
        ),
        changed("one minor without a list", class_without_versions(), "v1.29.0", "v1.30.7", Accepted),
        changed(
            "two minors without a list",
            class_without_versions(),
            "v1.29.0",
            "v1.31.0",
            Refused(FIELD, "a version up to v1.30.x is accepted"),
        ),
        changed(
            "another major",
            class_without_versions(),
            "v1.29.0",
            "v2.0.0",
            Refused(FIELD, "a version up to v1.30.x is accepted"),
        ),
        changed(
            "an extension plans, and is not asked here",
            with(&class_without_versions(), "/spec/upgrade", extension),
            "v1.29.0",
            "v1.34.0",
            Accepted,
        ),
        changed(
            "back by a minor",
            class(),
            "v1.30.0",
            "v1.29.0",
            Refused(FIELD, "v1.30.0 or newer is accepted"),
        ),
        changed(
            "back by a patch",
            class_without_versions(),
            "v1.30.2",
            "v1.30.1",
            Refused(FIELD, "v1.30.2 or newer is accepted"),
        ),
        changed(
            "back by a pre-release",
            listing(&["v1.30.0-beta.1", "v1.30.0-rc.0"]),
            "v1.30.0-rc.0",
            "v1.30.0-beta.1",
            Refused(FIELD, "v1.30.0-rc.0 or newer is accepted"),
        ),
        changed(
            "back to a pre-release",
            class_without_versions(),
            "v1.30.0",
            "v1.30.0-rc.0",
            Refused(FIELD, "v1.30.0 or newer is accepted"),
        ),
        changed("on from a pre-release", class_without_versions(), "v1.30.0-rc.0", "v1.30.0", Accepted),
        changed(
            "back by a build whose order is known",
            class_without_versions(),
            "v1.30.0+build.2",
            "v1.30.0+build.1",
            Refused(FIELD, "v1.30.0+build.2 or newer is accepted"),
        ),
        changed(
            "on by a build whose order is known",
            class_without_versions(),
            "v1.30.0+build.1",
            "v1.30.0+build.2",
            Accepted,
        ),
        changed(
            "to a build whose order is not known",
            class_without_versions(),
            "v1.30.0+red",
            "v1.30.0+blue",
            Accepted,
        ),
    ])
    .await;
}

#[tokio::test]
async fn versions_change_also_in_mid_chain_and_never_below_what_was_reached_or_promised() {
    let pending = |version: &str| {
        let hooks = json!({"runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade"});
        with(&cluster_with_control_plane(version), "/metadata/annotations", hooks)
    };
    let promised = |version: &str, step: &str| {
        let marks = json!({
            "runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade",
            "topology.internal.cluster.x-k8s.io/upgrade-step": step,
        });
        with(&cluster_with_control_plane(version), "/metadata/annotations", marks)
    };
    let at_rest = || vec![class(), control_plane("v1.30.0", &["v1.30.0"])];
    let to = |version: &str| Change::Update(cluster_with_control_plane(version));
    let given = |objects: Vec<Value>, cluster: Value| [objects, vec![cluster]].concat();
    check_all(vec![
        Case {
            rule: "an upgrade of which only AfterClusterUpgrade is left",
            given: given(at_rest(), pending("v1.30.0")),
            change: Change::Update(pending("v1.31.0")),
            expected: Refused(FIELD, "before AfterClusterUpgrade of the upgrade to v1.30.0 has passed; v1.30.0 is accepted until then"),
        },
        Case {
            rule: "the same by a client that leaves out what was promised",
            given: given(at_rest(), pending("v1.30.0")),
            change: to("v1.31.0"),
            expected: Refused(FIELD, "before AfterClusterUpgrade of the upgrade to v1.30.0 has passed; v1.30.0 is accepted until then"),
        },
        Case {
            rule: "a higher target of an upgrade that runs",
            given: given(at_rest(), pending("v1.32.0")),
            change: Change::Update(pending("v1.33.0")),
            expected: Warned("the upgrade to v1.32.0 goes to v1.33.0 instead; steps of the control plane that are added: v1.33.0; dropped: none"),
        },
        Case {
            rule: "a target that is lowered to where the control plane is",
            given: given(at_rest(), pending("v1.32.0")),
            change: Change::Update(pending("v1.30.0")),
            expected: Warned("dropped: v1.31.0, v1.32.0"),
        },
        Case {
            rule: "a target below a step that was promised, also without the promise in the update",
            given: given(at_rest(), promised("v1.32.0", "v1.31.0")),
            change: to("v1.30.0"),
            expected: Refused(FIELD, "the step of KubeadmControlPlane cp to v1.31.0 has begun; v1.31.0 or newer is accepted"),
        },
        Case {
            rule: "other changes while an upgrade is under way",
            given: given(at_rest(), pending("v1.30.0")),
            change: Change::Update(with(&pending("v1.30.0"), "/spec/topology/workers/machineDeployments/0/replicas", json!(4))),
            expected: Accepted,
        },
        Case {
            rule: "a control plane that does not run yet",
            given: given(vec![class(), control_plane("v1.30.0", &[])], cluster_with_control_plane("v1.30.0")),
            change: to("v1.31.0"),
            expected: Refused(FIELD, "while KubeadmControlPlane cp is provisioning; v1.30.0 is accepted"),
        },
        Case {
            rule: "a control plane that upgrades",
            given: given(
                vec![class(), control_plane("v1.30.0", &["v1.29.0", "v1.30.0"])],
                cluster_with_control_plane("v1.30.0"),
            ),
            change: to("v1.31.0"),
            expected: Accepted,
        },
        Case {
            rule: "back to what a control plane that upgrades has left",
            given: given(
                vec![class(), control_plane("v1.30.0", &["v1.29.0", "v1.30.0"])],
                cluster_with_control_plane("v1.30.0"),
            ),
            change: to("v1.29.0"),
            expected: Refused(FIELD, "KubeadmControlPlane cp is moving to v1.30.0; v1.30.0 or newer is accepted"),
        },
        Case {
            rule: "workers that upgrade",
            given: given(
                [at_rest(), vec![machine_deployment("v1.30.0"), machine("v1.29.0")]].concat(),
                cluster_with_control_plane("v1.30.0"),
            ),
            change: to("v1.31.0"),
            expected: Accepted,
        },
        Case {
            rule: "workers that are too far behind",
            given: given(
                vec![class(), control_plane("v1.33.0", &["v1.33.0"]), machine_deployment("v1.29.0"), machine("v1.29.0")],
                cluster_with_control_plane("v1.33.0"),
            ),
            change: to("v1.34.0"),
            expected: Refused(FIELD, "there is no upgrade path from v1.33.0 to v1.34.0"),
        },
        Case {
            rule: "an upgrade that only waits may be taken back",
            given: given(at_rest(), cluster_with_control_plane("v1.33.0")),
            change: to("v1.30.0"),
            expected: Accepted,
        },
        Case {
            rule: "before there is a control plane",
            given: vec![class(), cluster("v1.30.0")],
            change: Change::Update(cluster("v1.31.0")),
            expected: Accepted,
        },
        Case {
            rule: "back before there is a control plane",
            given: vec![class(), cluster("v1.30.0")],
            change: Change::Update(cluster("v1.29.0")),
            expected: Refused(FIELD, "v1.29.0 is older than v1.30.0; v1.30.0 or newer is accepted"),
        },
        Case {
            rule: "whoever insists",
            given: given(at_rest(), pending("v1.30.0")),
            change: Change::Update(with(
                &cluster_with_control_plane("v1.29.0"),
                "/metadata/annotations",
                json!({"unsafe.topology.cluster.x-k8s.io/disable-update-version-check": ""}),
            )),
            expected: Warned("is not checked, as annotation unsafe.topology.cluster.x-k8s.io/disable-update-version-check asks for"),
        },
        Case {
            rule: "whoever insists still takes a version of the list",
            given: given(at_rest(), cluster_with_control_plane("v1.30.0")),
            change: Change::Update(with(
                &cluster_with_control_plane("v1.28.0"),
                "/metadata/annotations",
                json!({"unsafe.topology.cluster.x-k8s.io/disable-update-version-check": ""}),
            )),
            expected: Refused(FIELD, "is not in spec.kubernetesVersions of the ClusterClass"),
        },
    ])
    .await;
}
