//! Windlass on a real kube-apiserver, with the manifests of `deploy/` and the rights that they give. `cargo xtask real` builds
//! the components and runs these tests; `cargo test` leaves them out.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]
#![expect(clippy::print_stdout, reason = "figures are what the run is for")]

mod alone;
#[path = "../commands/apply.rs"]
mod apply;
mod components;
mod management;
mod site;
mod upstream;

use std::time::{Duration, Instant};

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine};

use components::{Asked, counted, figure};
use management::{ACCOUNT, Crds, Machines, Management};

/// 3 control plane machines in 5 versions, and 2 workers in the 3 versions that the skew policy needs.
const MACHINES: usize = 3 * 5 + 2 * 3;

const CHAIN: [&str; 16] = [
    "BeforeClusterCreate",
    "AfterControlPlaneInitialized",
    "BeforeClusterUpgrade v1.33.0",
    "BeforeControlPlaneUpgrade v1.30.4",
    "AfterControlPlaneUpgrade v1.30.4",
    "BeforeControlPlaneUpgrade v1.31.2",
    "AfterControlPlaneUpgrade v1.31.2",
    "BeforeControlPlaneUpgrade v1.32.0",
    "AfterControlPlaneUpgrade v1.32.0",
    "BeforeWorkersUpgrade v1.32.0",
    "AfterWorkersUpgrade v1.32.0",
    "BeforeControlPlaneUpgrade v1.33.0",
    "AfterControlPlaneUpgrade v1.33.0",
    "BeforeWorkersUpgrade v1.33.0",
    "AfterWorkersUpgrade v1.33.0",
    "AfterClusterUpgrade v1.33.0",
];

/// Creation, a chained upgrade with hooks, rest and deletion, with webhooks and exactly the rights of `deploy/`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_created_upgraded_and_deleted() {
    let (management, windlass) = Management::running(Crds::Own).await;
    let mut machines = Machines::default();
    management.create_quickstart(&mut machines).await;
    let before = management.cluster.requests_of(ACCOUNT);

    let (begun, cpu) = (Instant::now(), windlass.cpu());
    management.upgrade_to("v1.33.0").await;
    management.until_at("v1.33.0", &mut machines, |_| {}).await;
    let (took, cpu) = (begun.elapsed(), windlass.cpu() - cpu);
    assert_eq!(management.calls(), CHAIN);
    assert_eq!(machines.seen.len(), MACHINES, "every machine is replaced once per stop: {:?}", machines.seen);
    let asked = management.cluster.requests_of(ACCOUNT).split_off(before.len());
    let count = |is: fn(&Asked) -> bool| asked.iter().filter(|request| is(request)).count();
    figure("creation of 5 machines: requests", before.len());
    figure("upgrade by 4 minors, 21 machines: seconds", format!("{:.1}", took.as_secs_f64()));
    figure("upgrade by 4 minors, 21 machines: CPU seconds", format!("{:.1}", cpu.as_secs_f64()));
    figure("upgrade by 4 minors, 21 machines: requests", asked.len());
    figure("upgrade by 4 minors, 21 machines: writes", count(Asked::is_write));
    figure("upgrade by 4 minors, 21 machines: writes of the in-memory provider", count(is_of_the_provider));
    figure(
        "upgrade by 4 minors, 21 machines: renewals of the Lease",
        count(|asked| asked.resource == "leases"),
    );
    figure("upgrade by 4 minors, 21 machines: lists", count(|asked| asked.verb == "list"));
    for (what, count) in counted(&asked) {
        println!("  {count:5} {what}");
    }
    management.everything_has_a_known_manager().await;

    management.at_rest().await;

    let clusters: Api<Cluster> = Api::default_namespaced(management.admin.clone());
    clusters.delete("quickstart", &DeleteParams::default()).await.unwrap();
    let begun = Instant::now();
    while clusters.get_opt("quickstart").await.unwrap().is_some() {
        assert!(begun.elapsed() < Duration::from_mins(2), "the Cluster is still there");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let left: Api<Machine> = Api::default_namespaced(management.admin.clone());
    assert_eq!(left.list(&ListParams::default()).await.unwrap().items.len(), 0);
    assert_eq!(management.calls().last().map(String::as_str), Some("BeforeClusterDelete"));
    management.rights_were_enough();
}

/// The in-memory provider runs in the same process, and its requests are counted with those of the controllers.
fn is_of_the_provider(request: &Asked) -> bool {
    request.is_write() && request.manager() == "windlass-inmemory"
}

/// v1beta1 is what most manifests are written in: it is read, written, applied and listed through the conversion webhook.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_versions_are_served_by_the_webhook() {
    let (management, _windlass) = Management::running(Crds::Own).await;
    management.create_quickstart(&mut Machines::default()).await;
    let resource = |version: &str, kind: &str| {
        ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", version, kind))
    };
    let api = |version: &str, kind: &str| -> Api<DynamicObject> {
        Api::default_namespaced_with(management.admin.clone(), &resource(version, kind))
    };
    let old = api("v1beta1", "Cluster").get("quickstart").await.unwrap();
    assert_eq!(old.data["spec"]["topology"]["class"], "quickstart");
    assert_eq!(api("v1beta1", "Cluster").list(&ListParams::default()).await.unwrap().items.len(), 1);

    // A class as v1beta1 writes it, applied.
    let template = |kind: &str, group: &str| json!({"ref": {"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta1"), "kind": kind, "name": "quickstart"}});
    let mut control_plane = template("KubeadmControlPlaneTemplate", "controlplane");
    control_plane["machineInfrastructure"] = template("DevMachineTemplate", "infrastructure");
    control_plane["nodeDrainTimeout"] = json!("1m30s");
    let class = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "ClusterClass",
        "metadata": {"name": "older", "namespace": "default"},
        "spec": {"infrastructure": template("DevClusterTemplate", "infrastructure"), "controlPlane": control_plane}});
    apply::apply(&management.admin, &class).await.unwrap();
    let new = api("v1beta2", "ClusterClass").get("older").await.unwrap();
    assert_eq!(new.data["spec"]["controlPlane"]["deletion"]["nodeDrainTimeoutSeconds"], 90);
    assert_eq!(new.data["spec"]["infrastructure"]["templateRef"]["kind"], "DevClusterTemplate");

    // A client of v1beta1 asks for an upgrade, and loses nothing that v1beta1 cannot say.
    let paused = json!({"spec": {"paused": false}});
    let clusters = api("v1beta2", "Cluster");
    clusters.patch("quickstart", &PatchParams::default(), &Patch::Merge(&paused)).await.unwrap();
    let patch = json!({"spec": {"topology": {"version": "v1.30.4"}}});
    api("v1beta1", "Cluster")
        .patch("quickstart", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let new = clusters.get("quickstart").await.unwrap();
    assert_eq!(new.data["spec"]["topology"]["version"], "v1.30.4");
    assert_eq!(new.data["spec"]["paused"], false, "said explicitly, which v1beta1 cannot");
    let is_there =
        new.metadata.annotations.is_some_and(|all| all.contains_key("cluster.x-k8s.io/conversion-data"));
    assert!(!is_there, "it is not stored");
    management.until_at("v1.30.4", &mut Machines::default(), |_| {}).await;
}

/// The process that leads is killed, the API server is killed, and etcd forgets its history, in the middle of an upgrade.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_twice_whatever_is_killed() {
    let mut management = Management::install(Crds::Own).await;
    let mut first = management.run("first", &[]);
    first.says("Leading");
    let mut second = management.run("second", &[]);
    second.says("Ready");
    management.extend().await;
    let mut machines = Machines::default();
    management.create_quickstart(&mut machines).await;

    management.upgrade_to("v1.30.4").await;
    let mut is_killed = false;
    management
        .until_at("v1.30.4", &mut machines, |seen| {
            // The second new machine has just been created.
            if seen >= 7 && !is_killed {
                first.kill();
                is_killed = true;
            }
        })
        .await;
    assert!(is_killed);
    // 3 control plane machines once more; the workers go along because it is the last step.
    assert_eq!(machines.seen.len(), 10, "{:?}", machines.seen);

    let mut machines = Machines::default();
    management.upgrade_to("v1.31.2").await;
    management.cluster.restart_api().await;
    let revision = management.cluster.compact();
    management.cluster.restart_api().await;
    println!("compacted at revision {revision}");
    // A process that cannot renew its Lease ends, and is started again, as a Deployment would.
    let (directory, mut restarts) = (management.cluster.directory().to_owned(), 0);
    let restart = |_| {
        if second.has_ended() {
            second.start_again(&directory);
            restarts += 1;
        }
    };
    management.until_at("v1.31.2", &mut machines, restart).await;
    figure("API server killed twice in an upgrade: restarts of the process", restarts);
    assert_eq!(machines.seen.len(), 10, "{:?}", machines.seen);
    management.everything_has_a_known_manager().await;
    management.rights_were_enough();
}

/// The CRDs that Cluster API releases, instead of those of `deploy/`: nothing that Windlass writes is refused or lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstreams_crds_are_enough() {
    let (management, _windlass) = Management::running(Crds::Upstream).await;
    let mut machines = Machines::default();
    management.create_quickstart(&mut machines).await;
    management.upgrade_to("v1.33.0").await;
    management.until_at("v1.33.0", &mut machines, |_| {}).await;
    assert_eq!(management.calls(), CHAIN);
    assert_eq!(machines.seen.len(), MACHINES, "{:?}", machines.seen);
    management.everything_has_a_known_manager().await;
    management.at_rest().await;
    management.rights_were_enough();
}
