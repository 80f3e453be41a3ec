//! Extensions that misbehave at every hook in the life of a cluster: it waits, says on what and why, and goes on.

use windlass_api::cluster::{Cluster, Machine};
use windlass_api::hooks::Hook;
use windlass_simulate::{Misbehaviour, TopologyManifests, World, key};

use crate::support::{Chains, condition, planned, releases};

/// Every position of the example of the documentation: which hook, and the version it is about.
const POSITIONS: [(Hook, Option<&str>); 17] = [
    (Hook::BeforeClusterCreate, None),
    (Hook::AfterControlPlaneInitialized, None),
    (Hook::BeforeClusterUpgrade, Some("v1.33.0")),
    (Hook::BeforeControlPlaneUpgrade, Some("v1.30.0")),
    (Hook::AfterControlPlaneUpgrade, Some("v1.30.0")),
    (Hook::BeforeControlPlaneUpgrade, Some("v1.31.0")),
    (Hook::AfterControlPlaneUpgrade, Some("v1.31.0")),
    (Hook::BeforeControlPlaneUpgrade, Some("v1.32.0")),
    (Hook::AfterControlPlaneUpgrade, Some("v1.32.0")),
    (Hook::BeforeWorkersUpgrade, Some("v1.32.0")),
    (Hook::AfterWorkersUpgrade, Some("v1.32.0")),
    (Hook::BeforeControlPlaneUpgrade, Some("v1.33.0")),
    (Hook::AfterControlPlaneUpgrade, Some("v1.33.0")),
    (Hook::BeforeWorkersUpgrade, Some("v1.33.0")),
    (Hook::AfterWorkersUpgrade, Some("v1.33.0")),
    (Hook::AfterClusterUpgrade, Some("v1.33.0")),
    (Hook::BeforeClusterDelete, None),
];

/// Whether it makes no difference that a hook asks to wait: there is nothing that could wait.
fn never_waits(position: (Hook, Option<&str>)) -> bool {
    matches!(position, (Hook::AfterControlPlaneInitialized, _) | (Hook::AfterWorkersUpgrade, Some("v1.33.0")))
}

async fn misbehaves_everywhere(how: Misbehaviour, why: &str) {
    let mut chains = Chains::begin(11).await;
    chains.extension.misbehave(how);
    let may_ask_to_wait = matches!(how, Misbehaviour::Blocks(_) | Misbehaviour::Flaps);
    for (hook, version) in POSITIONS.into_iter().filter(|position| may_ask_to_wait && never_waits(*position))
    {
        chains.extension.relent(hook, version);
    }
    let versions = releases(29..=33);
    let manifests =
        TopologyManifests::new("c1", "v1.29.0", 1).machine_deployment("a", 1).versions(versions.clone());
    chains.world.apply_objects(&manifests.objects()).await.unwrap();
    for position in POSITIONS {
        let (hook, version) = position;
        match hook {
            Hook::BeforeClusterUpgrade => {
                chains.until_at("c1", "v1.29.0").await.unwrap();
                chains.chronicle.begin("c1");
                chains.change_version("c1", "v1.33.0").await;
            }
            Hook::BeforeClusterDelete => {
                chains.until_at("c1", "v1.33.0").await.unwrap();
                chains.world.delete::<Cluster>(&key("c1")).await.unwrap();
            }
            _ => {}
        }
        if may_ask_to_wait && never_waits(position) {
            continue;
        }
        let told = |world: &World| {
            let message = condition(world).2;
            message.contains(hook.name()) && message.contains(why)
        };
        let error = chains.world.run_until("it is told", crate::support::LONG, told).await.err();
        assert!(error.is_none(), "{hook} {version:?}: {}: {}", error.unwrap(), condition(&chains.world).2);
        let before = chains.chronicle.facts("c1");
        chains.pass(90).await;
        let (status, _, message) = condition(&chains.world);
        assert_eq!(status, "False", "{hook}");
        assert!(message.contains(hook.name()), "{hook} is still named: {message}");
        if hook != Hook::AfterControlPlaneInitialized {
            assert_eq!(
                chains.chronicle.facts("c1"),
                before,
                "nothing moves while {hook} {version:?} holds it"
            );
        }
        chains.extension.relent(hook, version);
    }
    let gone = |world: &World| world.get::<Cluster>(&key("c1")).is_none();
    chains.until("the cluster is gone", gone).await;
    assert!(chains.world.list::<Machine>().is_empty());
    let story = chains.story("c1");
    let upgrade: Vec<&String> =
        story.iter().filter(|entry| !entry.contains("Create") && !entry.contains("Initialized")).collect();
    let mut expected = planned("v1.29.0", "v1.33.0", &["a"], &versions);
    expected.push("BeforeClusterDelete".to_owned());
    assert_eq!(upgrade, expected.iter().collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn hooks_that_ask_to_wait_are_waited_for() {
    misbehaves_everywhere(Misbehaviour::Blocks(20), "not yet").await;
}

#[tokio::test(start_paused = true)]
async fn hooks_that_fail_are_called_again() {
    misbehaves_everywhere(Misbehaviour::Fails, "out of order").await;
}

#[tokio::test(start_paused = true)]
async fn hooks_that_do_not_answer_in_time_are_called_again() {
    misbehaves_everywhere(Misbehaviour::Hangs, "no answer within 10 s").await;
}

#[tokio::test(start_paused = true)]
async fn hooks_that_answer_with_something_else_are_called_again() {
    misbehaves_everywhere(Misbehaviour::Babbles, "the answer cannot be decoded").await;
}

#[tokio::test(start_paused = true)]
async fn hooks_that_do_now_this_and_now_that_are_called_until_they_pass() {
    misbehaves_everywhere(Misbehaviour::Flaps, "").await;
}
