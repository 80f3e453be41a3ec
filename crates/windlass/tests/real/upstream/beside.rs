//! Windlass reconciles topologies, and Cluster API's managers everything else.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine};
use windlass_testkit::touched;

use super::takeover::is_settled;
use crate::components::{counted, figure};
use crate::management::{ACCOUNT, apply_all, documents};
use crate::site::Site;

const CORE_ACCOUNT: &str = "system:serviceaccount:capi-system:capi-manager";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topology_is_upgraded_beside_upstreams_managers() {
    let mut site = Site::start().await;
    apply_all(&site.admin, documents(include_str!("cluster.yaml"))).await;
    site.until("Cluster API has created the Cluster", Duration::from_mins(4), || is_settled(&site, 3)).await;
    let made = site.objects().await;

    site.follow("Beside Cluster API").await;
    assert_eq!(site.checks(), [0], "with its topology controllers off, the core manager blocks nothing");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(touched(&made, &site.objects().await), [""; 0], "\n{}", site.logs());

    let before = site.cluster.requests_of(ACCOUNT).len();
    let begun = Instant::now();
    let clusters: Api<Cluster> = Api::default_namespaced(site.admin.clone());
    let patch = json!({"spec": {"topology": {"version": "v1.34.0"}}});
    clusters.patch("shared", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    site.until("the upgrade is done", Duration::from_mins(4), || async {
        is_settled(&site, 3).await && versions(&site).await == BTreeSet::from(["v1.34.0".to_owned()])
    })
    .await;
    let took = begun.elapsed();
    // Cluster API's MachineSets have a finalizer of the topology controllers, which are Windlass's now.
    site.until("nothing is left of what was replaced", Duration::from_mins(1), || async {
        site.objects().await.values().all(|object| object["metadata"]["deletionTimestamp"].is_null())
    })
    .await;
    let asked = site.cluster.requests_of(ACCOUNT).split_off(before);
    figure("upgrade of 3 machines beside Cluster API: seconds", format!("{:.1}", took.as_secs_f64()));
    figure("upgrade of 3 machines beside Cluster API: requests", asked.len());
    for (what, count) in counted(&asked) {
        println!("  {count:5} {what}");
    }
    let not_ours = ["machines", "devmachines", "kubeadmconfigs"];
    let wrong: Vec<String> = asked
        .iter()
        .filter(|request| request.is_write() && not_ours.contains(&request.resource.as_str()))
        .map(crate::components::Asked::line)
        .collect();
    assert_eq!(wrong, [""; 0], "these are Cluster API's");
    let theirs = site.cluster.requests_of(CORE_ACCOUNT);
    assert!(theirs.iter().any(|request| request.is_write() && request.resource == "machines"));
}

/// The versions that Machines were made for: Nodes of Cluster API's in-memory provider do not say what their kubelet is.
async fn versions(site: &Site) -> BTreeSet<String> {
    let machines: Api<Machine> = Api::default_namespaced(site.admin.clone());
    let machines = machines.list(&ListParams::default()).await.unwrap().items;
    machines.into_iter().map(|machine| machine.spec.version).collect()
}
