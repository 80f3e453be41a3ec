use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

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
    let report = assess(&Management::default(), now());
    assert_eq!(report.worst(), Some(Level::Blocks));
    assert_eq!(report.findings[0].remedy, "windlass crds | kubectl apply --server-side -f -");
}

#[test]
fn the_newest_crds_and_no_other_manager_are_fine() {
    let management = Management { crds: current(), ..Management::default() };
    let report = assess(&management, now());
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
    let report = assess(&Management { crds, ..Management::default() }, now());
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
    let report = assess(&Management { crds, ..Management::default() }, now());
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
    let report = assess(&Management { crds: current(), leases, ..Management::default() }, now());
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
        let report = assess(&management, now());
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
        assert_eq!(assess(&management, now()).worst(), worst, "{has_endpoints:?}");
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
    let report = assess(&Management { crds: current(), objects: found, ..Management::default() }, now());
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
    let machine = json!({"metadata": {"name": "m", "namespace": "a"}, "spec": {"clusterName": "c", "version": "v1.33.0"},
        "status": {"conditions": [{"type": "OwnerRemediated", "status": "False"}]}});
    let cluster = json!({"metadata": {"name": "c", "namespace": "a"}, "spec": {}});
    let mut found = objects(json!([cluster]), json!([machine]));
    found.extension_configs = vec![json!({"metadata": {"name": "down"}})];
    found.machine_pools = vec![json!({"metadata": {"name": "p", "namespace": "a",
        "annotations": {"cluster.x-k8s.io/replicas-managed-by": "autoscaler"}}})];
    let report = assess(&Management { crds: current(), objects: found, ..Management::default() }, now());
    let about: Vec<(Level, &str)> =
        report.findings.iter().map(|finding| (finding.level, &*finding.about)).collect();
    assert_eq!(
        about,
        [
            (Level::Warning, "ExtensionConfig down"),
            (Level::Warning, "Machine a/m"),
            (Level::Note, "Cluster a/c"),
            (Level::Note, "MachinePool a/p"),
        ]
    );
}
