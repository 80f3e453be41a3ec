//! What admission fills in and refuses: every rule, once kept and once broken.
#![expect(clippy::unwrap_used, reason = "test helpers")]

use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, ClusterClass, MachineDeployment};
use windlass_api::hooks::Hook;
use windlass_engine::admission::{
    ClassUse, ClusterContext, UpgradeState, Verdict, default_cluster, default_machine_deployment,
    validate_class, validate_class_deletion, validate_cluster, validate_machine_deployment,
};
use windlass_engine::features::Features;
use windlass_engine::topology::{ControlPlane, GroupObject, WorkerGroup, WorkerKind};

fn cluster(topology: Value) -> Cluster {
    serde_json::from_value(json!({"metadata": {"name": "c1"}, "spec": {"topology": topology}})).unwrap()
}

fn at(version: &str) -> Cluster {
    cluster(json!({"classRef": {"name": "quick"}, "version": version}))
}

fn class(spec: Value) -> ClusterClass {
    let reference = |kind: &str| json!({"apiVersion": "x.y/v1", "kind": kind, "name": "t"});
    let mut all = json!({
        "infrastructure": {"templateRef": reference("DevClusterTemplate")},
        "controlPlane": {"templateRef": reference("KubeadmControlPlaneTemplate")},
        "workers": {"machineDeployments": [{"class": "default",
            "bootstrap": {"templateRef": reference("KubeadmConfigTemplate")},
            "infrastructure": {"templateRef": reference("DevMachineTemplate")}}]},
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": "quick"}, "spec": all})).unwrap()
}

fn listed() -> ClusterClass {
    let versions: Vec<String> = (29..=34).map(|minor| format!("v1.{minor}.0")).collect();
    class(json!({"kubernetesVersions": versions}))
}

fn told(verdict: &Verdict) -> String {
    verdict.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn state(version: &str, running: &[&str], workers: &[&str], pending: &[Hook]) -> UpgradeState {
    let groups = workers.iter().enumerate().map(|(index, version)| {
        let name = format!("g{index}");
        let object = GroupObject {
            name: name.clone(),
            version: Some(version.parse().unwrap()),
            upgrading: false,
            rolling_out: false,
            blocked: None,
        };
        WorkerGroup::of(WorkerKind::MachineDeployment, &name, Some(object))
    });
    UpgradeState {
        control_plane: Some(ControlPlane {
            kind: "KubeadmControlPlane".to_owned(),
            name: "cp".to_owned(),
            version: version.parse().unwrap(),
            running: running.iter().map(|text| text.parse().unwrap()).collect(),
            unborn: false,
            leaves_step: false,
            updating_in_place: false,
            blocked: None,
        }),
        workers: groups.collect(),
        pending_hooks: pending.iter().copied().collect(),
        ..UpgradeState::default()
    }
}

#[test]
fn a_version_gets_its_v() {
    let mut cluster = at("1.33.0");
    default_cluster(&mut cluster);
    assert_eq!(cluster.spec.topology.unwrap().version, "v1.33.0");
}

#[test]
fn clusters_are_checked_when_they_are_created() {
    let class = listed();
    let context = ClusterContext { class: Some(&class), ..ClusterContext::default() };
    assert!(validate_cluster(&at("v1.33.0"), context).is_accepted());
    for (topology, part) in [
        (
            json!({"classRef": {"name": "quick"}, "version": "1.33.0"}),
            "spec.topology.version: \"1.33.0\" does not begin with v",
        ),
        (json!({"classRef": {"name": "quick"}, "version": "v1.33"}), "a version such as v1.33.0 is accepted"),
        (
            json!({"classRef": {"name": "quick"}, "version": "v1.40.0"}),
            "spec.topology.version: v1.40.0 is not in spec.kubernetesVersions",
        ),
        (json!({"version": "v1.33.0"}), "spec.topology.classRef.name: is empty, the name"),
        (
            json!({"classRef": {"name": "quick"}, "version": "v1.33.0", "workers": {"machineDeployments": [
                {"class": "default", "name": "a"}, {"class": "gpu", "name": "a"}, {"class": "default", "name": "B"}]}}),
            "spec.topology.workers.machineDeployments[1].name: \"a\" is used twice, a name that no other group has is accepted",
        ),
        (
            json!({"classRef": {"name": "quick"}, "version": "v1.33.0", "workers": {"machineDeployments": [{"class": "gpu", "name": "a"}]}}),
            "machineDeployments[0].class: \"gpu\" does not exist in the ClusterClass, default is accepted",
        ),
        (
            json!({"classRef": {"name": "quick"}, "version": "v1.33.0", "workers": {"machinePools": [{"class": "p", "name": "a"}]}}),
            "machinePools[0].class: \"p\" does not exist in the ClusterClass, none is accepted",
        ),
        (
            json!({"classRef": {"name": "quick"}, "version": "v1.33.0", "workers": {"machineDeployments": [
                {"class": "default", "name": "a", "healthCheck": {"enabled": true}}]}}),
            "healthCheck.enabled: true is accepted only with checks",
        ),
        (
            json!({"classRef": {"name": "quick"}, "version": "v1.33.0", "workers": {"machineDeployments": [
                {"class": "default", "name": "a", "replicas": 2, "metadata": {"annotations": {
                    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1",
                    "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "3"}}}]}}),
            "machineDeployments[0].replicas: must not be set where an autoscaler decides",
        ),
    ] {
        let verdict = validate_cluster(&cluster(topology), context);
        assert!(told(&verdict).contains(part), "{part}\nnot in\n{}", told(&verdict));
    }
    let mut hurried = at("v1.33.0");
    hurried.metadata.annotations =
        Some([("topology.cluster.x-k8s.io/upgrade-concurrency".to_owned(), "0".to_owned())].into());
    assert!(told(&validate_cluster(&hurried, context)).contains("a whole number of at least 1 is"));
    let unknown = validate_cluster(&at("v1.33.0"), ClusterContext::default());
    assert!(unknown.is_accepted() && unknown.warnings.len() == 1);
}

#[test]
fn versions_change_along_paths_that_exist_and_never_below_what_was_reached_or_promised() {
    let (listed, bare) = (listed(), class(json!({})));
    let external = class(json!({"upgrade": {"external": {"generateUpgradePlanExtension": "plan.ext"}}}));
    let idle = state("v1.30.0", &["v1.30.0"], &["v1.30.0"], &[]);
    let moving = state("v1.31.0", &["v1.30.0", "v1.31.0"], &["v1.30.0"], &[]);
    let begun = state("v1.31.0", &["v1.31.0"], &["v1.30.0"], &[Hook::AfterClusterUpgrade]);
    let promised = UpgradeState { upgrade_step: Some("v1.32.0".parse().unwrap()), ..begun.clone() };
    let finishing = state("v1.31.0", &["v1.31.0"], &["v1.31.0"], &[Hook::AfterClusterUpgrade]);
    let provisioning = state("v1.31.0", &[], &[], &[]);
    let ahead = state("v1.32.0", &["v1.32.0"], &["v1.33.0"], &[]);
    let old_workers = state("v1.32.0", &["v1.32.0"], &["v1.28.0"], &[]);
    for (from, to, class, state, part) in [
        ("v1.30.0", "v1.34.0", &listed, &idle, ""),
        ("v1.30.0", "v1.31.0", &bare, &idle, ""),
        ("v1.30.0", "v1.34.0", &external, &idle, ""),
        (
            "v1.30.0",
            "v1.34.0",
            &bare,
            &idle,
            "spec.topology.version: there is no upgrade path from v1.30.0 to v1.34.0",
        ),
        ("v1.30.0", "v1.29.0", &listed, &idle, "v1.30.0 or newer is accepted"),
        // While it moves, another target is fine too, but none below what was reached or promised.
        ("v1.31.0", "v1.33.0", &listed, &moving, ""),
        (
            "v1.33.0",
            "v1.30.0",
            &listed,
            &moving,
            "v1.30.0 is older than v1.31.0, and KubeadmControlPlane cp is moving to v1.31.0; v1.31.0 or newer is accepted",
        ),
        ("v1.33.0", "v1.34.0", &listed, &begun, ""),
        ("v1.33.0", "v1.31.0", &listed, &begun, ""),
        ("v1.33.0", "v1.31.0", &listed, &promised, "the step of KubeadmControlPlane cp to v1.32.0 has begun"),
        ("v1.33.0", "v1.32.0", &listed, &promised, ""),
        (
            "v1.31.0",
            "v1.34.0",
            &listed,
            &finishing,
            "before AfterClusterUpgrade of the upgrade to v1.31.0 has passed",
        ),
        ("v1.31.0", "v1.32.0", &listed, &provisioning, "while KubeadmControlPlane cp is provisioning"),
        (
            "v1.33.0",
            "v1.32.0",
            &listed,
            &ahead,
            "MachineDeployment/g0 is at v1.33.0; v1.33.0 or newer is accepted",
        ),
        // Nothing has moved yet: another target, or the way back, is fine.
        ("v1.33.0", "v1.34.0", &listed, &idle, ""),
        ("v1.33.0", "v1.30.0", &listed, &idle, ""),
        ("v1.32.0", "v1.33.0", &listed, &old_workers, "4 minors behind control plane"),
    ] {
        let (old, new) = (at(from), at(to));
        let context = ClusterContext {
            old: Some(&old),
            class: Some(class),
            state: Some(state),
            ..ClusterContext::default()
        };
        let verdict = validate_cluster(&new, context);
        let told = told(&verdict);
        assert_eq!(verdict.is_accepted(), part.is_empty(), "{from} to {to}: {told}");
        assert!(told.contains(part), "{part}\nnot in\n{told}");
        let mut forced = new.clone();
        let key = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
        forced.metadata.annotations = Some([(key.to_owned(), String::new())].into());
        let verdict = validate_cluster(&forced, context);
        assert!(verdict.is_accepted() && !verdict.warnings.is_empty(), "{from} to {to}");
    }
}

#[test]
fn a_new_target_says_what_it_changes_about_the_upgrade_that_runs() {
    let listed = listed();
    let state = state("v1.30.0", &["v1.30.0"], &["v1.29.0"], &[Hook::AfterClusterUpgrade]);
    for (from, to, said) in [
        (
            "v1.33.0",
            "v1.34.0",
            vec![
                "the upgrade to v1.33.0 goes to v1.34.0 instead; steps of the control plane that are added: v1.34.0; \
                 dropped: none",
                "MachineDeployment/g0 stops at v1.32.0, v1.34.0 instead of v1.32.0, v1.33.0",
                "BeforeClusterUpgrade is called again before the control plane goes beyond v1.33.0",
            ],
        ),
        (
            "v1.33.0",
            "v1.30.0",
            vec![
                "the upgrade to v1.33.0 goes to v1.30.0 instead; steps of the control plane that are added: none; \
                 dropped: v1.31.0, v1.32.0, v1.33.0",
                "MachineDeployment/g0 stops at v1.30.0 instead of v1.32.0, v1.33.0",
            ],
        ),
    ] {
        let (old, new) = (at(from), at(to));
        let context = ClusterContext {
            old: Some(&old),
            class: Some(&listed),
            state: Some(&state),
            ..ClusterContext::default()
        };
        let verdict = validate_cluster(&new, context);
        assert!(verdict.is_accepted(), "{}", told(&verdict));
        assert_eq!(verdict.warnings, said);
    }
}

/// A Cluster whose one group has a pin, by the field or by the annotation.
fn pinned(version: &str, field: &str, annotations: Value) -> Cluster {
    cluster(json!({"classRef": {"name": "quick"}, "version": version, "workers": {"machineDeployments": [
        {"class": "default", "name": "g0", "version": field, "metadata": {"annotations": annotations}}]}}))
}

#[test]
fn pins_stay_in_their_window_and_never_go_back() {
    const KEY: &str = "upgrade.windlass.dev/version";
    let listed = listed();
    let idle = state("v1.32.0", &["v1.32.0"], &["v1.31.0"], &[]);
    let mut rolling = idle.clone();
    rolling.workers[0].object.as_mut().unwrap().upgrading = true;
    let moving = state("v1.33.0", &["v1.32.0"], &["v1.31.0"], &[Hook::AfterClusterUpgrade]);
    let between = state("v1.33.0", &["v1.33.0"], &["v1.31.0"], &[Hook::AfterClusterUpgrade]);
    // Rolls out machines of v1.32.0 that cannot join the control plane.
    let mut stuck = state("v1.33.0", &["v1.33.0"], &["v1.32.0"], &[Hook::AfterClusterUpgrade]);
    stuck.workers[0].object.as_mut().unwrap().upgrading = true;
    let none = || json!({});
    let free = |version| pinned(version, "", none());
    for (old, new, state, part) in [
        (free("v1.32.0"), pinned("v1.32.0", "v1.31.0", none()), &idle, ""),
        (free("v1.32.0"), pinned("v1.32.0", "v1.32.0", none()), &idle, ""),
        (free("v1.32.0"), pinned("v1.32.0", "", json!({KEY: "v1.31.0"})), &idle, ""),
        (pinned("v1.32.0", "v1.31.0", none()), pinned("v1.34.0", "v1.31.0", none()), &idle, ""),
        (
            pinned("v1.32.0", "v1.30.0", none()),
            pinned("v1.34.0", "v1.30.0", none()),
            &idle,
            "machineDeployments[0].version: v1.30.0 is 4 minors behind spec.topology.version v1.34.0, at most 3 are accepted",
        ),
        (
            free("v1.33.0"),
            pinned("v1.33.0", "v1.34.0", none()),
            &idle,
            "v1.34.0 is newer than spec.topology.version, v1.33.0 or older is accepted",
        ),
        (
            free("v1.33.0"),
            pinned("v1.33.0", "v1.33.0", none()),
            &moving,
            "v1.33.0 was not reached by the control plane, v1.32.0 or older is accepted",
        ),
        (free("v1.34.0"), pinned("v1.34.0", "v1.33.0", none()), &between, ""),
        (free("v1.34.0"), pinned("v1.34.0", "v1.31.0", none()), &between, ""),
        (
            free("v1.34.0"),
            pinned("v1.34.0", "v1.32.0", none()),
            &between,
            "machines of v1.32.0 cannot join the control plane, which has or goes to v1.33.0; v1.31.0, which the group has, is \
             accepted, or v1.33.0 once the control plane has reached it",
        ),
        (pinned("v1.34.0", "v1.32.0", none()), pinned("v1.34.0", "v1.33.0", none()), &stuck, ""),
        (pinned("v1.34.0", "v1.32.0", none()), free("v1.34.0"), &stuck, ""),
        (
            free("v1.32.0"),
            pinned("v1.32.0", "v1.30.0", none()),
            &idle,
            "v1.30.0 is older than v1.31.0, which the group has",
        ),
        (
            pinned("v1.32.0", "v1.32.0", none()),
            pinned("v1.32.0", "v1.31.0", none()),
            &idle,
            "v1.31.0 is older than v1.32.0, which it was; v1.32.0 or newer is accepted",
        ),
        (
            free("v1.32.0"),
            pinned("v1.32.0", "v1.32.1", none()),
            &idle,
            "v1.32.1 is not in spec.kubernetesVersions",
        ),
        (
            free("v1.32.0"),
            pinned("v1.32.0", "latest", none()),
            &idle,
            "a version such as v1.33.0 is accepted",
        ),
        (
            free("v1.32.0"),
            pinned("v1.32.0", "v1.31.0", json!({KEY: "v1.32.0"})),
            &idle,
            "v1.32.0 is not accepted beside version v1.31.0, v1.31.0 is",
        ),
        (
            free("v1.32.0"),
            pinned("v1.32.0", "v1.31.0", json!({"topology.cluster.x-k8s.io/defer-upgrade": ""})),
            &idle,
            "is not accepted together with the annotations that defer or hold",
        ),
        (
            free("v1.32.0"),
            pinned("v1.32.0", "v1.31.0", none()),
            &rolling,
            "cannot be changed while MachineDeployment/g0 is upgrading",
        ),
        (
            pinned("v1.32.0", "v1.31.0", none()),
            free("v1.32.0"),
            &idle,
            "cannot be removed while it is v1.31.0 and spec.topology.version is v1.32.0; raising it to v1.32.0 first",
        ),
        (pinned("v1.32.0", "v1.32.0", none()), free("v1.32.0"), &idle, ""),
    ] {
        let context = ClusterContext {
            old: Some(&old),
            class: Some(&listed),
            state: Some(state),
            ..ClusterContext::default()
        };
        let verdict = validate_cluster(&new, context);
        let told = told(&verdict);
        assert_eq!(verdict.is_accepted(), part.is_empty(), "{part}: {told}");
        assert!(told.contains(part), "{part}\nnot in\n{told}");
    }
    let off = Features { worker_version_pinning: false };
    for (old, new, refusal, warnings) in [
        (
            free("v1.32.0"),
            pinned("v1.32.0", "v1.32.0", none()),
            "gate ClusterTopologyWorkerVersionPinning is off, none is",
            0,
        ),
        (
            pinned("v1.32.0", "v1.31.0", none()),
            pinned("v1.32.0", "v1.32.0", none()),
            "is off, v1.31.0 or none is",
            0,
        ),
        // What is there already stays and has no effect: also beside a target that a pin would not allow.
        (pinned("v1.32.0", "v1.31.0", none()), pinned("v1.32.0", "v1.31.0", none()), "", 1),
        (pinned("v1.32.0", "v1.31.0", none()), free("v1.32.0"), "", 0),
    ] {
        let context = ClusterContext {
            old: Some(&old),
            class: Some(&listed),
            state: Some(&idle),
            features: off,
            ..ClusterContext::default()
        };
        let verdict = validate_cluster(&new, context);
        let told = told(&verdict);
        assert_eq!(verdict.is_accepted(), refusal.is_empty(), "{refusal}: {told}");
        assert!(told.contains(refusal), "{refusal}\nnot in\n{told}");
        assert_eq!(verdict.warnings.len(), warnings, "{:?}", verdict.warnings);
    }
    let mut short = pinned("v1.32.0", "1.31.0", none());
    default_cluster(&mut short);
    assert_eq!(short.spec.topology.unwrap().workers.machine_deployments[0].version, "v1.31.0");
    let users = [pinned("v1.34.0", "v1.31.0", none())];
    let without = class(json!({"kubernetesVersions": ["v1.32.0", "v1.33.0", "v1.34.0"]}));
    let verdict = validate_class(&without, ClassUse { old: None, clusters: &users });
    assert!(
        told(&verdict).contains("v1.31.0 must stay, MachineDeployment g0 of Cluster c1 is pinned to it"),
        "{}",
        told(&verdict)
    );
}

#[test]
fn annotations_that_steer_an_upgrade_must_be_understood() {
    let class = listed();
    let context = ClusterContext { class: Some(&class), ..ClusterContext::default() };
    for (key, value, part) in [
        ("hold", "until Monday", ""),
        ("hold-at", "v1.32.0", ""),
        ("hold-at", "1.x", "metadata.annotations[upgrade.windlass.dev/hold-at]: "),
        ("require-approval", "cluster, control-plane,workers,groups", ""),
        ("require-approval", "machines", "a list of cluster, control-plane, workers and groups, or all, is"),
        ("approved", "control-plane/v1.32.0,MachinePool/a/v1.33.0", ""),
        ("approved", "yes", "\"yes\" is not the name of a step; names such as cluster/v1.33.0"),
    ] {
        let mut steered = at("v1.33.0");
        steered.metadata.annotations =
            Some([(format!("upgrade.windlass.dev/{key}"), value.to_owned())].into());
        let told = told(&validate_cluster(&steered, context));
        assert_eq!(told.is_empty(), part.is_empty(), "{key}={value}: {told}");
        assert!(told.contains(part), "{part}\nnot in\n{told}");
    }
}

#[test]
fn a_version_that_is_not_listed_is_refused_for_that_alone() {
    let (listed, old, new) = (listed(), at("v1.30.0"), at("v1.40.0"));
    let idle = state("v1.30.0", &["v1.30.0"], &["v1.30.0"], &[]);
    let context = ClusterContext {
        old: Some(&old),
        class: Some(&listed),
        state: Some(&idle),
        ..ClusterContext::default()
    };
    assert_eq!(
        told(&validate_cluster(&new, context)),
        "spec.topology.version: v1.40.0 is not in spec.kubernetesVersions of the ClusterClass, v1.29.0, v1.30.0, \
         v1.31.0, v1.32.0, v1.33.0, v1.34.0 are accepted"
    );
}

#[test]
fn what_a_cluster_has_cannot_be_taken_away() {
    let class = listed();
    let reference = json!({"apiGroup": "x.y", "kind": "K", "name": "n"});
    let old: Cluster = serde_json::from_value(json!({"spec": {
        "infrastructureRef": reference, "controlPlaneRef": reference,
        "topology": {"classRef": {"name": "quick"}, "version": "v1.33.0"}}}))
    .unwrap();
    let context = ClusterContext { old: Some(&old), class: Some(&class), ..ClusterContext::default() };
    let told_all = told(&validate_cluster(&Cluster::default(), context));
    for field in ["spec.infrastructureRef: ", "spec.controlPlaneRef: ", "spec.topology: "] {
        assert!(told_all.contains(field), "{told_all}");
    }
    let none = Cluster::default();
    let context = ClusterContext { old: Some(&none), class: Some(&class), ..ClusterContext::default() };
    assert!(
        told(&validate_cluster(&at("v1.33.0"), context))
            .contains("for migrations, it is accepted with annotation")
    );
    let context = ClusterContext { old: Some(&old), ..ClusterContext::default() };
    assert!(told(&validate_cluster(&old, context)).contains("ClusterClass quick does not exist"));
}

#[test]
fn a_class_change_keeps_the_kinds() {
    let (old_class, cluster) = (listed(), at("v1.33.0"));
    let new_class = class(
        json!({"infrastructure": {"templateRef": {"apiVersion": "x.y/v1", "kind": "OtherTemplate", "name": "t"}}}),
    );
    let context = ClusterContext {
        old: Some(&cluster),
        class: Some(&new_class),
        old_class: Some(&old_class),
        ..ClusterContext::default()
    };
    assert!(told(&validate_cluster(&cluster, context)).contains(
        "spec.topology.classRef: the infrastructure of the new class is a OtherTemplate of x.y, a DevClusterTemplate of x.y is accepted"
    ));
}

#[test]
fn classes_are_checked() {
    assert_eq!(told(&validate_class(&listed(), ClassUse::default())), "");
    for (spec, part) in [
        (
            json!({"kubernetesVersions": ["v1.30.0", "v1.29.0"]}),
            "spec.kubernetesVersions[1]: v1.29.0 is not newer than v1.30.0",
        ),
        (
            json!({"kubernetesVersions": ["v1.30.0", "v1.32.0"]}),
            "spec.kubernetesVersions[1]: v1.32.0 leaves out v1.31",
        ),
        (json!({"kubernetesVersions": ["v1.30.0", "x"]}), "spec.kubernetesVersions[1]: "),
        (
            json!({"infrastructure": {"templateRef": {"apiVersion": "v1", "kind": "Dev", "name": ""}}}),
            "spec.infrastructure.templateRef.kind: \"Dev\" is not accepted",
        ),
        (
            json!({"workers": {"machineDeployments": [{"class": "a"}, {"class": "a"}]}}),
            "machineDeployments[1].class: \"a\" is used twice",
        ),
        (
            json!({"infrastructure": {"naming": {"template": "{{ .cluster.name }}-{{ .radnom }}"}}}),
            "spec.infrastructure.naming.template: template, line 1: there is no key \"radnom\"",
        ),
        (
            json!({"infrastructure": {"naming": {"template": "UP_{{ .random }}"}}}),
            "it makes names such as \"UP_a1b2c\"",
        ),
        (json!({"patches": [{"name": "p"}]}), "spec.patches[0]: one of definitions and external is accepted"),
        (
            json!({"patches": [{"name": "p", "enabledIf": "{{ if }}", "definitions": [{"selector": {}, "jsonPatches": [
                {"op": "add", "path": "/metadata/x", "value": 1}, {"op": "add", "path": "/spec/x"}, {"op": "remove", "path": "/spec/x", "value": 1}]}]}]}),
            "jsonPatches[0].path: \"/metadata/x\" is not accepted, a path below /spec is",
        ),
    ] {
        let verdict = validate_class(&class(spec), ClassUse::default());
        assert!(told(&verdict).contains(part), "{part}\nnot in\n{}", told(&verdict));
    }
}

#[test]
fn what_clusters_use_stays_in_the_class() {
    let old = listed();
    let clusters = [cluster(json!({"classRef": {"name": "quick"}, "version": "v1.29.0",
        "workers": {"machineDeployments": [{"class": "default", "name": "a"}]}}))];
    let used = ClassUse { old: Some(&old), clusters: &clusters };
    let new = class(json!({"kubernetesVersions": ["v1.30.0"], "workers": {},
        "infrastructure": {"templateRef": {"apiVersion": "x.y/v1", "kind": "OtherTemplate", "name": "t"}}}));
    let all = told(&validate_class(&new, used));
    for part in [
        "v1.29.0 must stay, Cluster c1 has it",
        "class \"default\" must stay",
        "a DevClusterTemplate of x.y is accepted while Clusters use",
    ] {
        assert!(all.contains(part), "{part}\nnot in\n{all}");
    }
    assert!(told(&validate_class_deletion("quick", &clusters)).contains("while Clusters use it: c1"));
    assert!(validate_class_deletion("quick", &[]).is_accepted());
}

#[test]
fn machine_deployments_select_their_machines() {
    let mut deployment: MachineDeployment = serde_json::from_value(json!({
        "metadata": {"name": "md"}, "spec": {"clusterName": "c1", "template": {"spec": {"version": "1.33.0"}}}}))
    .unwrap();
    default_machine_deployment(&mut deployment, None).unwrap();
    assert_eq!(deployment.spec.template.spec.version, "v1.33.0");
    assert_eq!(deployment.spec.template.metadata.labels["cluster.x-k8s.io/deployment-name"], "md");
    assert_eq!(told(&validate_machine_deployment(&deployment, None)), "");
    let mut broken = deployment.clone();
    broken.spec.template.metadata.labels.clear();
    broken.spec.template.spec.version = "latest".to_owned();
    broken.spec.cluster_name = "c2".to_owned();
    let all = told(&validate_machine_deployment(&broken, Some(&deployment)));
    for part in [
        "spec.template.spec.version: ",
        "spec.clusterName: cannot be changed, \"c1\"",
        "spec.template.metadata.labels: ",
    ] {
        assert!(all.contains(part), "{part}\nnot in\n{all}");
    }
}
