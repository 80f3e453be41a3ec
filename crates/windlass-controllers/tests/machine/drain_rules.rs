//! MachineDrainRules: what becomes of pods while a Machine goes.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::world::{World, message};

async fn rule(world: &World, name: &str, spec: Value) {
    let rule = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
        "metadata": {"name": name}, "spec": spec});
    world.create_dynamic(rule).await;
}

fn labelled(app: &str) -> Value {
    json!({"labels": {"app": app}})
}

fn pods_of(app: &str) -> Value {
    json!([{"selector": {"matchLabels": {"app": app}}}])
}

#[tokio::test(start_paused = true)]
async fn rules_order_a_drain_leave_pods_alone_and_wait_for_others() {
    let world = World::start().await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;
    rule(&world, "jobs", json!({"drain": {"behavior": "WaitCompleted"}, "pods": pods_of("job")})).await;
    rule(&world, "late", json!({"drain": {"behavior": "Drain", "order": 5}, "pods": pods_of("db")})).await;
    let in_default = json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
    let kept = json!([{"selector": {"matchLabels": {"app": "agent"}}, "namespaceSelector": in_default}]);
    rule(&world, "kept", json!({"drain": {"behavior": "Skip"}, "pods": kept})).await;
    // Another Machine's.
    let elsewhere = json!([{"selector": {"matchLabels": {"os": "windows"}}}]);
    let others = json!({"drain": {"behavior": "Skip"}, "machines": elsewhere});
    rule(&world, "a-rule-for-others", others).await;
    for app in ["web", "job", "db", "agent"] {
        world.pod_on("w1", app, labelled(app)).await;
    }
    world.delete("w1").await;

    let pods: Api<Pod> = Api::namespaced(world.workload().inside().clone(), "default");
    let machine = world.until_reason("w1", "Deleting", "DrainingNode").await;
    let says = message(&machine, "Deleting");
    assert!(says.contains("Pod default/job: running to completion"), "{says}");
    assert!(says.contains("Pod default/db: to be evicted when those before are gone"), "{says}");
    assert!(!says.contains("agent"), "{says}");
    world.seconds(1200).await;
    assert!(pods.get_opt("web").await.unwrap().is_none(), "it has no rule and is evicted at once");
    for app in ["job", "db", "agent"] {
        assert!(pods.get_opt(app).await.unwrap().is_some(), "{app}");
    }

    let done = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("job", &PatchParams::default(), &done).await.unwrap();
    world.until_gone("w1").await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_makes_no_sense_holds_the_drain_and_is_named() {
    let world = World::start().await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "Like"}]});
    rule(&world, "odd", json!({"drain": {"behavior": "Skip"}, "pods": [{"selector": selector}]})).await;
    world.pod_on("w1", "web", labelled("web")).await;
    world.delete("w1").await;
    world.seconds(300).await;
    let says = message(&world.machine("w1").await.unwrap(), "Deleting");
    assert!(says.contains("MachineDrainRule odd: spec.pods[0].selector"), "{says}");
    let pods: Api<Pod> = Api::namespaced(world.workload().inside().clone(), "default");
    assert!(
        pods.get_opt("web").await.unwrap().is_some(),
        "nothing is evicted while it is not known what is protected"
    );
}
