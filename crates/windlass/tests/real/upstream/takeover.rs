//! Windlass takes a Cluster over that Cluster API made, is restarted, loses its leader, and hands the Cluster back. No machine is
//! touched, and nothing that machines are made from is written.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{Api, ListParams};
use serde_json::Value;
use windlass_api::cluster::{Cluster, Machine};
use windlass_testkit::touched;

use crate::components::{Asked, figure};
use crate::management::{ACCOUNT, apply_all, documents};
use crate::site::Site;

const CORE: (&str, &str) = ("capi-system", "controller-leader-election-capi");
const CONTROL_PLANE: (&str, &str) =
    ("capi-kubeadm-control-plane-system", "kubeadm-control-plane-manager-leader-election-capi");

/// Long enough for every controller to have reconciled everything, and for what it wrote to have been seen by all others.
const SETTLING: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_taken_over_and_handed_back_without_touching_a_machine() {
    let mut site = Site::start().await;
    apply_all(&site.admin, documents(include_str!("cluster.yaml"))).await;
    site.until("Cluster API has created the Cluster", Duration::from_mins(4), || is_settled(&site, 3)).await;
    tokio::time::sleep(SETTLING).await;
    let made = site.objects().await;

    site.follow("Instead of Cluster API's controllers").await;
    assert_eq!(site.checks(), [3, 0], "Cluster API runs before, and rests afterwards");
    tokio::time::sleep(SETTLING).await;
    let taken = site.objects().await;
    assert_eq!(touched(&made, &taken), [""; 0], "\n{}", site.logs());
    for change in changed_metadata(&made, &taken) {
        println!("  {change}");
    }
    let writes = written(&site.cluster.requests_of(ACCOUNT));
    figure("take-over of 3 machines: writes, Leases and Events left out", writes.values().sum::<usize>());
    figure("take-over of 3 machines: objects written", writes.len());
    for (object, count) in &writes {
        println!("  {count:3} {object}");
    }

    // The process that leads is killed; the other one leads, and not Cluster API, which waits for the same Leases.
    let before = site.cluster.requests_of(ACCOUNT).len();
    site.kill_first("windlass-system");
    site.sync().await;
    tokio::time::sleep(Duration::from_secs(10) + SETTLING).await;
    for (namespace, name) in [CORE, CONTROL_PLANE] {
        assert_eq!(site.holder(namespace, name).await, "windlass-system/windlass", "\n{}", site.logs());
    }
    let again = site.objects().await;
    assert_eq!(touched(&taken, &again), [""; 0]);
    let writes = written(&site.cluster.requests_of(ACCOUNT)[before..]);
    figure("change of the leader after a take-over: writes", writes.values().sum::<usize>());
    assert_eq!(revisions(&taken), revisions(&again), "a new leader has nothing to write");

    // And back.
    site.follow("Back again").await;
    site.until("Cluster API leads again", Duration::from_mins(1), || async {
        let mut holders = Vec::new();
        for (namespace, name) in [CORE, CONTROL_PLANE] {
            holders.push(site.holder(namespace, name).await);
        }
        holders.iter().all(|holder| holder.contains("_") && !holder.contains("windlass"))
    })
    .await;
    tokio::time::sleep(SETTLING * 2).await;
    let back = site.objects().await;
    assert_eq!(touched(&taken, &back), [""; 0], "\n{}", site.logs());
    assert!(is_settled(&site, 3).await, "\n{}", site.logs());
}

/// Whether all Machines have Nodes, and the topology wants nothing more.
pub(super) async fn is_settled(site: &Site, machines: usize) -> bool {
    let all: Api<Machine> = Api::default_namespaced(site.admin.clone());
    let clusters: Api<Cluster> = Api::default_namespaced(site.admin.clone());
    let (Ok(all), Ok(cluster)) = (all.list(&ListParams::default()).await, clusters.get("shared").await)
    else {
        return false;
    };
    let conditions = serde_json::to_value(&cluster.status).unwrap()["conditions"].clone();
    let is = |kind: &str| {
        let mut all = conditions.as_array().into_iter().flatten();
        all.any(|found| found["type"] == kind && found["status"] == "True")
    };
    all.items.len() == machines
        && all.items.iter().all(|machine| machine.status.node_ref.is_some())
        && is("TopologyReconciled")
        && is("Available")
}

/// Labels, annotations, owners and finalizers that are not as they were, and who applies what.
fn changed_metadata(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<String> {
    let mut changed = Vec::new();
    for (name, object) in after {
        let Some(before) = before.get(name) else { continue };
        for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
            let (one, other) = (&before["metadata"][field], &object["metadata"][field]);
            if one != other {
                changed.push(format!("{name}: {field} {one} -> {other}"));
            }
        }
    }
    changed
}

fn revisions(objects: &BTreeMap<String, Value>) -> BTreeMap<&String, &Value> {
    objects.iter().map(|(name, object)| (name, &object["metadata"]["resourceVersion"])).collect()
}

/// How often each object was written, Leases and Events left out.
fn written(requests: &[Asked]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests.iter().filter(|request| request.is_write() && request.code < 300) {
        let (path, query) = request.uri.split_once('?').unwrap_or((&request.uri, ""));
        if !query.contains("dryRun") && !["leases", "events"].contains(&request.resource.as_str()) {
            let place = path.split("/default/").last().unwrap_or(path);
            *counts.entry(format!("{} {place}", request.verb)).or_default() += 1;
        }
    }
    counts
}
