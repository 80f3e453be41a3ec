//! Whether Windlass can run on a management cluster, from what was read of it.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use windlass_engine::readiness::{CalledService, Level, Management, Objects, Report, assess, leads_instead};

/// Every controller.
const ALL: [&str; 10] = [
    "topology",
    "extensionconfig",
    "cluster",
    "kubeadmcontrolplane",
    "machinedeployment",
    "machineset",
    "machine",
    "machinepool",
    "machinehealthcheck",
    "clusterresourceset",
];

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn crd(group: &str, kind: &str, versions: &[(&str, bool)], schema: &Value) -> CustomResourceDefinition {
    let plural = format!("{}s", kind.to_lowercase());
    let versions: Vec<Value> = versions
        .iter()
        .map(|(name, served)| {
            json!({"name": name, "served": served, "storage": *name == versions.last().unwrap().0,
                "schema": {"openAPIV3Schema": schema}})
        })
        .collect();
    serde_json::from_value(json!({"metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": versions}}))
    .unwrap()
}

/// Core kinds as the newest release has them.
fn current() -> Vec<CustomResourceDefinition> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    ["Cluster", "ClusterClass", "Machine", "MachineDeployment", "MachineSet", "MachineHealthCheck"]
        .into_iter()
        .map(|kind| crd("cluster.x-k8s.io", kind, &[("v1beta1", true), ("v1beta2", true)], &anything))
        .collect()
}

fn lease(name: &str, renewed: &str) -> Lease {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "capi-system"},
        "spec": {"holderIdentity": "capi-0", "leaseDurationSeconds": 15, "renewTime": renewed}}))
    .unwrap()
}

fn lines(report: &Report) -> Vec<String> {
    report
        .findings
        .iter()
        .map(|finding| format!("{} {}: {}", finding.level, finding.about, finding.what))
        .collect()
}

fn objects(clusters: Value, machines: Value) -> Objects {
    let list = |value: Value| value.as_array().unwrap().clone();
    Objects { clusters: list(clusters), machines: list(machines), ..Objects::default() }
}

#[test]
fn an_empty_cluster_needs_crds() {
    let report = assess(&Management::default(), &ALL, now());
    assert_eq!(report.worst(), Some(Level::Blocks));
    assert_eq!(report.findings[0].remedy, "windlass crds | kubectl apply --server-side -f -");
}

#[test]
fn the_newest_crds_and_no_other_manager_are_fine() {
    let management = Management { crds: current(), ..Management::default() };
    let report = assess(&management, &ALL, now());
    assert_eq!(lines(&report), Vec::<String>::new());
    assert_eq!(report.kinds[0].served, ["v1beta1", "v1beta2"]);
    assert_eq!(report.kinds[0].stored, "v1beta2");
}

#[test]
fn what_older_crds_lack_is_said() {
    let mut crds = current();
    let spec = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"variables": {"type": "array"}}}}});
    crds[1] = crd("cluster.x-k8s.io", "ClusterClass", &[("v1beta2", true)], &spec);
    crds[2] = crd("cluster.x-k8s.io", "Machine", &[("v1beta1", true)], &spec);
    let report = assess(&Management { crds, ..Management::default() }, &ALL, now());
    assert_eq!(
        lines(&report),
        [
            "blocks CRD machines.cluster.x-k8s.io: serves v1beta1 and no v1beta2",
            "warning CRD clusterclasss.cluster.x-k8s.io: has no spec.kubernetesVersions: a class cannot list its versions: \
             upgrades go one minor at a time, or as an extension plans them",
        ]
    );
}

#[test]
fn providers_say_which_contract_they_keep() {
    let mut crds = current();
    for (kind, label) in
        [("GoodMachine", Some("v1beta2")), ("OldMachine", Some("v1beta1")), ("OtherMachine", None)]
    {
        let mut found =
            crd("infrastructure.cluster.x-k8s.io", kind, &[("v1", true)], &json!({"type": "object"}));
        found.metadata.labels =
            label.map(|version| BTreeMap::from([(format!("cluster.x-k8s.io/{version}"), "v1".to_owned())]));
        crds.push(found);
    }
    let report = assess(&Management { crds, ..Management::default() }, &ALL, now());
    let found = lines(&report);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("warning CRD othermachines"), "{found:?}");
    assert!(found[1].starts_with("note CRD oldmachines"), "{found:?}");
    let contracts: Vec<_> = report.kinds.iter().filter_map(|kind| kind.contract.as_deref()).collect();
    assert_eq!(contracts, ["v1beta2", "v1beta1"]);
}

#[test]
fn a_manager_that_runs_blocks_and_one_that_is_gone_does_not() {
    let running = lease("controller-leader-election-capi", "2026-01-01T11:59:50.000000Z");
    let gone = lease("kubeadm-control-plane-manager-leader-election-capi", "2026-01-01T11:00:00.000000Z");
    let bootstrap = lease("kubeadm-bootstrap-manager-leader-election-capi", "2026-01-01T11:59:55.000000Z");
    let leases = vec![running, gone, bootstrap];
    let report = assess(&Management { crds: current(), leases, ..Management::default() }, &ALL, now());
    let held: Vec<bool> = report.components.iter().map(|component| component.holder.is_some()).collect();
    assert_eq!(held, [true, false, true]);
    let found = lines(&report);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("blocks Lease capi-system/controller-leader-election-capi"), "{found:?}");
    assert!(found[1].starts_with("note Lease"), "its work is not done by Windlass: {found:?}");
}

#[test]
fn a_lease_that_windlass_holds_for_another_manager_blocks_nothing() {
    let mut leases = vec![
        lease("controller-leader-election-capi", "2026-01-01T11:59:50.000000Z"),
        lease("windlass", "2026-01-01T11:59:50.000000Z"),
    ];
    leases[1].metadata.namespace = Some("windlass-system".to_owned());
    for (holder, blocks) in [("windlass-system/windlass", false), ("elsewhere/windlass", true)] {
        leases[0].spec.as_mut().unwrap().holder_identity = Some(holder.to_owned());
        let management = Management { crds: current(), leases: leases.clone(), ..Management::default() };
        let report = assess(&management, &ALL, now());
        assert_eq!(report.worst() == Some(Level::Blocks), blocks, "{:?}", lines(&report));
    }
}

#[test]
fn a_webhook_that_nothing_answers_blocks() {
    let service = |has_endpoints| CalledService {
        called_by: "conversion of clusters.cluster.x-k8s.io".to_owned(),
        namespace: "capi-system".to_owned(),
        name: "capi-webhook-service".to_owned(),
        has_endpoints,
    };
    for (has_endpoints, worst) in
        [(Some(true), None), (Some(false), Some(Level::Blocks)), (None, Some(Level::Warning))]
    {
        let management =
            Management { crds: current(), services: vec![service(has_endpoints)], ..Management::default() };
        assert_eq!(assess(&management, &ALL, now()).worst(), worst, "{has_endpoints:?}");
    }
}

#[test]
fn clusters_say_what_they_are_in_the_middle_of() {
    let cluster = |name: &str, more: Value| {
        let mut cluster = json!({"metadata": {"name": name, "namespace": "a"},
            "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.33.0"}}});
        windlass_patch::merge_patch::apply_to(&mut cluster, &more);
        cluster
    };
    let machine = |name: &str, cluster: &str, version: &str, control_plane: bool| {
        let labels = if control_plane { json!({"cluster.x-k8s.io/control-plane": ""}) } else { json!({}) };
        json!({"metadata": {"name": name, "namespace": "a", "labels": labels},
            "spec": {"clusterName": cluster, "version": version}})
    };
    let found = objects(
        json!([
            cluster("settled", json!({})),
            cluster("paused", json!({"spec": {"paused": true}})),
            cluster("going", json!({})),
            cluster(
                "marked",
                json!({"metadata": {"annotations": {"runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade"}}})
            ),
            cluster("gone", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        ]),
        json!([
            machine("s1", "settled", "v1.33.0", true),
            machine("g1", "going", "v1.33.0", true),
            machine("g2", "going", "v1.29.0", false),
            machine("lost", "nothing", "v1.29.0", false),
        ]),
    );
    let report =
        assess(&Management { crds: current(), objects: found, ..Management::default() }, &ALL, now());
    let states: Vec<(&str, &str, usize)> =
        report.clusters.iter().map(|cluster| (&*cluster.name, cluster.state, cluster.machines)).collect();
    assert_eq!(
        states,
        [
            ("a/going", "upgrading", 2),
            ("a/gone", "being deleted", 0),
            ("a/marked", "upgrading", 0),
            ("a/paused", "paused", 0),
            ("a/settled", "settled", 1),
        ]
    );
    assert_eq!(
        lines(&report),
        [
            "warning Cluster a/going: an upgrade is under way: Machine g2 is at v1.29.0, the topology asks for v1.33.0",
            "warning Cluster a/going: the version skew is broken already: kubelet v1.29.0 is 4 minors behind control plane \
             v1.33.0, 3 are allowed (Machine g2)",
            "warning Cluster a/marked: an upgrade is under way: annotation runtime.cluster.x-k8s.io/pending-hooks is \
             \"AfterClusterUpgrade\"",
            "warning Machine a/lost: its Cluster \"nothing\" does not exist",
            "note Cluster a/paused: is paused and stays untouched",
        ]
    );
}

#[test]
fn machines_that_would_be_replaced_and_extensions_that_are_down_are_named() {
    let machine = |name: &str, condition: &str, annotation: &str| {
        json!({"metadata": {"name": name, "namespace": "a", "annotations": {annotation: ""}},
            "spec": {"clusterName": "c", "version": "v1.33.0"},
            "status": {"conditions": [{"type": condition, "status": "False"}]}})
    };
    let cluster = json!({"metadata": {"name": "c", "namespace": "a"}, "spec": {}});
    let machines = json!([
        machine("marked", "OwnerRemediated", "x"),
        machine("failed", "HealthCheckSucceeded", "x"),
        machine("kept", "OwnerRemediated", "cluster.x-k8s.io/skip-remediation"),
        machine("paused", "OwnerRemediated", "cluster.x-k8s.io/paused"),
    ]);
    let mut found = objects(json!([cluster]), machines);
    found.extension_configs = vec![json!({"metadata": {"name": "down"}})];
    let report =
        assess(&Management { crds: current(), objects: found, ..Management::default() }, &ALL, now());
    assert_eq!(
        lines(&report),
        [
            "warning ExtensionConfig down: is not discovered: hooks that it handles hold upgrades back",
            "warning Machine a/failed: has failed its health check (HealthCheckSucceeded is False): it is remediated in the \
             first minute",
            "warning Machine a/marked: is marked for remediation (OwnerRemediated is False): it is remediated in the first minute",
            "note Cluster a/c: has no topology: its objects are reconciled one by one, upgrades are not chained",
            "note Machine a/paused: is paused and stays untouched",
        ]
    );
}

/// A report about one object, in a namespace with a Cluster `c`.
fn about(change: impl FnOnce(&mut Objects)) -> Vec<String> {
    let cluster = json!({"metadata": {"name": "c", "namespace": "a"},
        "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.33.0"}}});
    let mut found = objects(json!([cluster]), json!([]));
    change(&mut found);
    lines(&assess(&Management { crds: current(), objects: found, ..Management::default() }, &ALL, now()))
}

#[test]
fn an_update_in_place_that_is_half_done_is_finished() {
    let machine = |pending: &str| {
        json!({"metadata": {"name": "m", "namespace": "a", "annotations": {
                "in-place-updates.internal.cluster.x-k8s.io/update-in-progress": "",
                "runtime.cluster.x-k8s.io/pending-hooks": pending}},
            "spec": {"clusterName": "c", "version": "v1.33.0"}})
    };
    for (pending, expected) in [
        ("UpdateMachine", "note Machine a/m: is being updated in place: Windlass finishes the update"),
        (
            "",
            "note Machine a/m: is marked for an update in place that has not begun: Windlass begins and finishes it",
        ),
    ] {
        assert_eq!(about(|found| found.machines = vec![machine(pending)]), [expected]);
    }
}

#[test]
fn a_rollout_is_an_upgrade_under_way() {
    let group = |status: &str| {
        json!({"metadata": {"name": "md", "namespace": "a"}, "spec": {"clusterName": "c"},
            "status": {"conditions": [{"type": "RollingOut", "status": status}]}})
    };
    assert_eq!(about(|found| found.machine_deployments = vec![group("False")]), [""; 0]);
    assert_eq!(
        about(|found| found.machine_deployments = vec![group("True")]),
        ["warning Cluster a/c: an upgrade is under way: MachineDeployment md is rolling out"]
    );
}

#[test]
fn a_class_that_leaves_out_the_next_minor_is_named() {
    let class = |versions: Value| json!({"metadata": {"name": "quick", "namespace": "a"}, "spec": {"kubernetesVersions": versions}});
    let control_plane = json!({"metadata": {"name": "cp", "namespace": "a",
        "labels": {"cluster.x-k8s.io/cluster-name": "c"}}, "spec": {"version": "v1.33.0"}});
    let found = |versions| {
        about(|found| {
            found.cluster_classes = vec![class(versions)];
            found.control_planes = vec![control_plane.clone()];
        })
    };
    for fine in [json!(["v1.33.0", "v1.34.0"]), json!(["v1.32.0"]), json!(null), json!(["v1.33.0"])] {
        assert_eq!(found(fine), [""; 0]);
    }
    assert_eq!(
        found(json!(["v1.33.0", "v1.35.0"])),
        [
            "warning Cluster a/c: the control plane is at v1.33.0, and the next version that ClusterClass quick lists is \
          v1.35.0: it skips 1 minor"
        ]
    );
}

#[test]
fn pools_say_whether_their_progress_can_be_seen() {
    let pool = |status: Value, annotations: Value| {
        vec![json!({"metadata": {"name": "p", "namespace": "a", "annotations": annotations},
            "spec": {"clusterName": "c"}, "status": status})]
    };
    let managed = json!({"cluster.x-k8s.io/replicas-managed-by": "autoscaler"});
    for (status, annotations, expected) in [
        (json!({"replicas": 1, "versions": [{"version": "v1.33.0", "replicas": 1}]}), json!({}), None),
        (json!({"replicas": 0}), json!({}), None),
        (
            json!({"replicas": 0}),
            managed,
            Some("note MachinePool a/p: its replicas are managed by \"autoscaler\" and are not written"),
        ),
        (
            json!({"replicas": 1, "nodeRefs": [{"name": "n"}]}),
            json!({}),
            Some("note MachinePool a/p: does not say which versions it runs: upgrades ask its Nodes instead"),
        ),
        (
            json!({"replicas": 1}),
            json!({}),
            Some(
                "warning MachinePool a/p: says neither which versions it runs nor which Nodes it has: its progress cannot be \
                 seen, and the next step of an upgrade waits for its Nodes",
            ),
        ),
    ] {
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(about(|found| found.machine_pools = pool(status, annotations)), expected);
    }
}

#[test]
fn health_checks_without_a_limit_and_remediation_by_others_are_named() {
    let check = |remediation: Value| {
        vec![json!({"metadata": {"name": "h", "namespace": "a"},
            "spec": {"clusterName": "c", "remediation": remediation}})]
    };
    let unlimited = |limit: &str| {
        format!(
            "note MachineHealthCheck a/h: {limit}: all of its Machines may be remediated if Nodes cannot be seen"
        )
    };
    let template = json!({"kind": "Metal3RemediationTemplate", "name": "t"});
    for (remediation, expected) in [
        (json!(null), vec![unlimited("has no limit (spec.remediation.triggerIf)")]),
        (json!({"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}}), vec![]),
        (json!({"triggerIf": {"unhealthyLessThanOrEqualTo": 2}}), vec![]),
        (json!({"triggerIf": {"unhealthyInRange": "[1-3]"}}), vec![]),
        (json!({"triggerIf": {"unhealthyLessThanOrEqualTo": "100%"}}), vec![unlimited("its limit is 100%")]),
        (
            json!({"triggerIf": {"unhealthyInRange": "[1-3]"}, "templateRef": template}),
            vec![
                "note MachineHealthCheck a/h: remediates by Metal3RemediationTemplate t: the controller of that kind must go on \
                 running"
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(about(|found| found.machine_health_checks = check(remediation)), expected);
    }
}

#[test]
fn a_strategy_by_annotation_says_which_side_wins() {
    let external = json!({"annotations": {"rollout.windlass.dev/strategy": "External"}});
    let says = |about: &str| {
        format!(
            "note {about}: has rollout.windlass.dev/strategy: External. Windlass follows it; for Cluster API, whose webhook keeps \
             the field at RollingUpdate, machines are replaced"
        )
    };
    let mut group = json!({"metadata": external, "spec": {"clusterName": "c"}});
    group["metadata"]["name"] = json!("md");
    group["metadata"]["namespace"] = json!("a");
    let found = about(|found| {
        found.machine_deployments = vec![group];
        found.clusters[0]["spec"]["topology"]["workers"]["machineDeployments"] =
            json!([{"name": "w", "metadata": external}, {"name": "x"}]);
    });
    assert_eq!(found, [says("Cluster a/c, topology entry w"), says("MachineDeployment a/md")]);
}

#[test]
fn owners_that_cannot_be_found_are_named() {
    let machine = |version: &str| {
        json!({"metadata": {"name": "m", "namespace": "a", "ownerReferences": [
                {"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "MachineSet", "name": "ms"},
                {"apiVersion": "example.dev/v1", "kind": "Other", "name": "o"}]},
            "spec": {"clusterName": "c", "version": "v1.33.0"}})
    };
    assert_eq!(about(|found| found.machines = vec![machine("v1beta1")]), [""; 0]);
    assert_eq!(
        about(|found| found.machines = vec![machine("v1alpha4")]),
        [
            "warning Machine a/m: its owner MachineSet ms (cluster.x-k8s.io/v1alpha4) is in a version that is not served: the \
          garbage collector cannot find it"
        ]
    );
}

#[test]
fn add_ons_that_nothing_applies_any_more_are_named() {
    let set = json!({"metadata": {"name": "cni", "namespace": "a"}});
    let found = Objects { cluster_resource_sets: vec![set], ..Objects::default() };
    let mut management = Management { crds: current(), objects: found, ..Management::default() };
    let named = |management: &Management, controllers: &[&str]| {
        let report = assess(management, controllers, now());
        report.findings.iter().any(|finding| finding.about == "ClusterResourceSet a/cni")
    };
    assert!(!named(&management, &ALL));
    assert!(named(&management, &ALL[..2]), "nothing else runs");
    management.leases = vec![lease("controller-leader-election-capi", "2026-01-01T11:59:50.000000Z")];
    assert!(!named(&management, &ALL[..2]), "Cluster API applies them");
}

#[test]
fn topologies_beside_a_core_whose_gate_is_off_block_nothing() {
    let deployment = |gates: &str| -> Deployment {
        serde_json::from_value(
            json!({"metadata": {"name": "capi-controller-manager", "namespace": "capi-system"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "manager",
                "args": ["--leader-elect", format!("--feature-gates={gates}")]}]}}}}),
        )
        .unwrap()
    };
    let worst = |gates: Option<&str>, controllers: &[&str]| {
        let management = Management {
            crds: current(),
            leases: vec![lease("controller-leader-election-capi", "2026-01-01T11:59:50.000000Z")],
            deployments: gates.map(deployment).into_iter().collect(),
            ..Management::default()
        };
        assess(&management, controllers, now()).worst()
    };
    let beside = &ALL[..2];
    assert_eq!(worst(None, beside), Some(Level::Blocks), "what is not known may be on");
    assert_eq!(worst(Some("ClusterTopology=true,RuntimeSDK=false"), beside), Some(Level::Blocks));
    assert_eq!(
        worst(Some("MachinePool=true,ClusterTopology=false"), beside),
        Some(Level::Blocks),
        "extensions"
    );
    assert_eq!(worst(Some("ClusterTopology=false,RuntimeSDK=false"), beside), Some(Level::Note));
    assert_eq!(worst(Some("ClusterTopology=false,RuntimeSDK=false"), &ALL), Some(Level::Blocks));
}

#[test]
fn a_start_is_refused_where_cluster_api_leads() {
    let running = lease("controller-leader-election-capi", "2026-01-01T11:59:50.000000Z");
    let leads = |lease: &Lease, controllers: &[&str]| {
        leads_instead(lease, controllers, "windlass-system/windlass", now())
            .map(|(holder, same)| (holder.identity, same))
    };
    assert_eq!(leads(&running, &["machine", "topology"]), Some(("capi-0".to_owned(), vec!["machine"])));
    assert_eq!(leads(&running, &ALL[..2]), None, "gates say whether these run");
    assert_eq!(leads(&running, &["kubeadmcontrolplane"]), None, "another manager does that");
    let gone = lease("controller-leader-election-capi", "2026-01-01T11:00:00.000000Z");
    assert_eq!(leads(&gone, &ALL), None);
    let mut held = running.clone();
    held.spec.as_mut().unwrap().holder_identity = Some("windlass-system/windlass".to_owned());
    assert_eq!(leads(&held, &ALL), None, "by Windlass itself");
}

#[test]
fn releases_and_who_wrote_last_are_shown() {
    let provider = |name: &str, kind: &str, version: &str| json!({"metadata": {"name": name, "namespace": "capi-system"}, "providerName": name, "type": kind, "version": version});
    let cluster =
        |managers: Value| json!({"metadata": {"name": "c", "namespace": "a", "managedFields": managers}});
    let managers = json!([{"manager": "manager", "time": "2026-01-01T10:00:00Z"},
        {"manager": "kubectl-edit", "time": "2025-01-01T10:00:00Z"}]);
    let mut found = objects(json!([cluster(managers)]), json!([]));
    let mut management = Management { crds: current(), objects: found.clone(), ..Management::default() };
    let wrote = |management: &Management| assess(management, &ALL, now()).clusters[0].last_written_by.clone();
    assert_eq!(wrote(&management), "Cluster API at 2026-01-01T10:00:00Z");
    found.providers = vec![
        provider("kubeadm", "BootstrapProvider", "v1.13.1"),
        provider("cluster-api", "CoreProvider", "v1.13.0"),
    ];
    management.objects = found;
    assert_eq!(wrote(&management), "Cluster API v1.13.0 at 2026-01-01T10:00:00Z");
    let report = assess(&management, &ALL, now());
    let releases: Vec<(&str, &str)> =
        report.providers.iter().map(|found| (&*found.name, &*found.version)).collect();
    assert_eq!(releases, [("kubeadm", "v1.13.1"), ("cluster-api", "v1.13.0")]);
    management.objects.clusters[0]["metadata"]["managedFields"] = json!(null);
    assert_eq!(wrote(&management), "");
}
