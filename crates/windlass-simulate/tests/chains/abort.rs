//! The way back from a version that no machine comes up with, and that has no later patch.

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::DevCluster;
use windlass_api::names::PENDING_HOOKS_ANNOTATION;
use windlass_controllers::admission::{LookUp, ObjectLookUp};
use windlass_engine::steer::{Change, Verb};
use windlass_inmemory::knobs::MISSING_IMAGES_ANNOTATION;
use windlass_runtime::ObjectKey;
use windlass_simulate::{TopologyManifests, World, key};
use windlass_version::Version;

use crate::support::Chains;

/// An upgrade that hangs in its step to v1.31.1, because there is no image of it.
async fn hanging(seed: u64, target: &str) -> Chains {
    let manifests = TopologyManifests::new("c1", "v1.30.0", 3)
        .machine_deployment("a", 1)
        .versions(["v1.30.0", "v1.31.0", "v1.31.1"]);
    let mut chains = Chains::with(seed, manifests, "v1.30.0").await;
    let clusters = chains.world.list::<DevCluster>();
    let patch = json!({"metadata": {"annotations": {MISSING_IMAGES_ANNOTATION: "v1.31.1"}}});
    chains.world.patch::<DevCluster>(&ObjectKey::of(&clusters[0]), patch).await.unwrap();
    chains.change_version("c1", target).await;
    let has_begun = |world: &World| {
        let machines = world.list::<Machine>();
        machines.iter().any(|machine| machine.spec.version == "v1.31.1")
    };
    chains.until("a machine of v1.31.1 is made", has_begun).await;
    chains.pass(1800).await;
    chains
}

async fn checked(chains: &Chains, to: Option<&str>) -> Result<String, String> {
    let cluster = chains.world.get::<Cluster>(&key("c1")).unwrap();
    let state = ObjectLookUp::with_client(chains.world.client().clone()).state(&cluster).await.unwrap();
    let to = to.map(|to| Version::parse(to).unwrap());
    state.check_abort(to.as_ref()).map(|to| to.to_string())
}

/// What `windlass upgrade abort --unborn` does.
async fn abort(chains: &Chains, to: &str) {
    for verb in [Verb::Abort(Version::parse(to).unwrap()), Verb::Recheck] {
        let cluster = chains.world.get::<Cluster>(&key("c1")).unwrap();
        let change = Change::of(&verb, &cluster).unwrap();
        chains.world.patch::<Cluster>(&key("c1"), change.patch).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_no_machine_came_up_with_is_given_up() {
    let mut chains = hanging(970, "v1.31.1").await;
    assert_eq!(checked(&chains, None).await, Ok("v1.30.0".to_owned()));
    let refused = checked(&chains, Some("v1.29.0")).await.unwrap_err();
    assert!(refused.contains("v1.30.0 or a version between it and v1.31.1 is"), "{refused}");
    let patch = json!({"spec": {"topology": {"version": "v1.30.0"}}});
    let refused = chains.world.patch::<Cluster>(&key("c1"), patch).await.unwrap_err().to_string();
    assert!(refused.contains("v1.31.1 or newer is accepted"), "{refused}");
    let kept: Vec<String> = old(&chains.world);
    abort(&chains, "v1.30.0").await;
    let is_told = |world: &World| {
        !world.get::<Cluster>(&key("c1")).unwrap().annotations().contains_key(PENDING_HOOKS_ANNOTATION)
    };
    chains.until("AfterClusterUpgrade has passed", is_told).await;
    let left = chains.world.list::<Machine>();
    assert!(left.iter().all(|machine| machine.spec.version == "v1.30.0"), "told before the machine was gone");
    chains.until_at("c1", "v1.30.0").await.unwrap();
    assert_eq!(old(&chains.world), kept, "machines that run are left alone");
    let story = chains.story("c1");
    assert_eq!(story.last().map(String::as_str), Some("AfterClusterUpgrade v1.30.0"), "{story:#?}");
    assert!(!story.iter().any(|entry| entry.starts_with("AfterControlPlaneUpgrade")), "{story:#?}");
    chains.nothing_is_pending("c1");
    let refused = checked(&chains, None).await.unwrap_err();
    assert!(refused.contains("is not on its way to another version"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_no_machine_came_up_with_goes_to_an_earlier_patch() {
    let mut chains = hanging(971, "v1.31.1").await;
    assert_eq!(checked(&chains, Some("v1.31.0")).await, Ok("v1.31.0".to_owned()));
    abort(&chains, "v1.31.0").await;
    chains.until_at("c1", "v1.31.0").await.unwrap();
    let story = chains.story("c1");
    assert!(story.contains(&"BeforeControlPlaneUpgrade v1.30.0 -> v1.31.0".to_owned()), "{story:#?}");
    assert_eq!(story.last().map(String::as_str), Some("AfterClusterUpgrade v1.31.0"), "{story:#?}");
    chains.nothing_is_pending("c1");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_a_machine_came_up_with_is_not_gone_back_from() {
    let manifests = TopologyManifests::new("c1", "v1.30.0", 3).versions(["v1.30.0", "v1.31.0"]);
    let mut chains = Chains::with(972, manifests, "v1.30.0").await;
    chains.change_version("c1", "v1.31.0").await;
    let is_born = |world: &World| {
        let machines = world.list::<Machine>();
        machines.iter().any(|machine| machine.spec.version == "v1.31.0" && machine.status.node_info.is_some())
    };
    chains.until("a machine has come up with v1.31.0", is_born).await;
    let refused = checked(&chains, None).await.unwrap_err();
    assert!(refused.contains("has come up with v1.31.0: going back would be a downgrade"), "{refused}");
    // Also if admission is told not to check: the control plane ends its step, and says what is wrong.
    abort(&chains, "v1.30.0").await;
    chains.pass(3600).await;
    assert_eq!(chains.world.list::<KubeadmControlPlane>()[0].spec.version, "v1.31.0");
    let (status, _, message) = crate::support::condition(&chains.world);
    assert_eq!(status, "False");
    assert!(message.contains("set spec.topology.version to v1.31.0 or newer"), "{message}");
}

/// Names of the machines that have the version from before.
fn old(world: &World) -> Vec<String> {
    let machines = world.list::<Machine>();
    let old = machines.iter().filter(|machine| machine.spec.version == "v1.30.0");
    old.map(|machine| machine.name_any()).collect()
}
