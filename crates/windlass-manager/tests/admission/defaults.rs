//! What is filled in, by the embedded API and by the webhook alike.

use serde_json::{Value, json};

use crate::api::TestApi;
use crate::objects::{class, cluster, control_plane, extension_config, machine_deployment, with, without};

#[tokio::test]
async fn what_may_be_left_out_is_filled_in() {
    let api = TestApi::start().await;
    api.create_or_panic("default", &class()).await;
    let mut short = cluster("1.30.0");
    short["spec"]["topology"]["workers"]["machineDeployments"][0]["metadata"] = json!({"labels": {"a": "b"}});
    let deployment = {
        let bare = machine_deployment("1.30.0");
        let bare = with(&bare, "/spec/selector", json!({}));
        let bare = without(&bare, "/spec/template", "metadata");
        with(&bare, "/metadata/name", json!("md"))
    };
    let extension = without(&extension_config(), "/spec", "namespaceSelector");
    for object in [&short, &deployment, &extension] {
        let mutated = api.mutated("default", object).await;
        api.create_or_panic("default", object).await;
        let stored = api.stored("default", object).await;
        match object["kind"].as_str().unwrap() {
            "Cluster" => {
                for topology in [&mutated["spec"]["topology"], &stored["spec"]["topology"]] {
                    assert_eq!(topology["version"], "v1.30.0");
                    assert_eq!(topology["variables"], json!([{"name": "image", "value": "small"}]));
                    assert_eq!(
                        topology["workers"]["machineDeployments"][0]["metadata"],
                        json!({"labels": {"a": "b"}})
                    );
                }
            }
            "MachineDeployment" => {
                let labels =
                    json!({"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/deployment-name": "md"});
                for spec in [&mutated["spec"], &stored["spec"]] {
                    assert_eq!(spec["selector"]["matchLabels"], labels);
                    assert_eq!(spec["template"]["metadata"]["labels"], labels);
                    assert_eq!(spec["template"]["spec"]["version"], "v1.30.0");
                }
            }
            _ => {
                assert_eq!(mutated["spec"]["namespaceSelector"], json!({}));
                assert_eq!(stored["spec"]["namespaceSelector"], json!({}));
            }
        }
    }
}

#[tokio::test]
async fn sizes_and_strategies_are_filled_in() {
    let api = TestApi::start().await;
    let deployment = without(&machine_deployment("v1.30.0"), "/spec", "replicas");
    let group = |kind: &str| {
        let mut group = deployment.clone();
        group["kind"] = json!(kind);
        group
    };
    let autoscaled = json!({
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "3",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "10",
    });
    for kind in ["MachineDeployment", "MachineSet", "MachinePool"] {
        let bare = group(kind);
        let handed_over = with(&bare, "/metadata/annotations", autoscaled.clone());
        let size = async |object: &Value, replicas: Option<u32>| {
            let old = replicas.map(|replicas| with(&bare, "/spec/replicas", json!(replicas)));
            api.mutated_from("default", object, old.as_ref()).await["spec"]["replicas"].clone()
        };
        assert_eq!(size(&bare, None).await, 1, "{kind}");
        assert_eq!(size(&bare, Some(50)).await, 1, "{kind}");
        assert_eq!(size(&handed_over, None).await, 3, "{kind}");
        assert_eq!(size(&handed_over, Some(7)).await, 7, "{kind}");
        assert_eq!(size(&handed_over, Some(50)).await, 10, "{kind}");
    }
    let strategy = |object: Value| object["spec"]["rollout"]["strategy"].clone();
    let of_deployment = strategy(api.mutated("default", &deployment).await);
    let limits = json!({"maxSurge": 1, "maxUnavailable": 0});
    assert_eq!(of_deployment, json!({"type": "RollingUpdate", "rollingUpdate": limits}));
    let plane = without(&control_plane("1.30.0", &[]), "/spec", "replicas");
    let plane = api.mutated("default", &plane).await;
    assert_eq!((&plane["spec"]["replicas"], &plane["spec"]["version"]), (&json!(1), &json!("v1.30.0")));
    assert_eq!(strategy(plane), json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}));
}

#[tokio::test]
async fn the_order_of_a_drain_is_for_pods_that_are_evicted() {
    let api = TestApi::start().await;
    let rule = |name: &str, drain: Value| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
            "metadata": {"name": name}, "spec": {"drain": drain}})
    };
    api.create_or_panic("default", &rule("a", json!({"behavior": "Drain", "order": 3}))).await;
    api.create_or_panic("default", &rule("b", json!({"behavior": "Skip"}))).await;
    let refused = api.refusal_of("default", &rule("c", json!({"behavior": "Skip", "order": 3}))).await;
    assert!(refused.contains("order is accepted with behavior Drain only"), "{refused}");
}

#[tokio::test]
async fn variables_are_left_alone_without_their_class() {
    let api = TestApi::start().await;
    let mutated = api.mutated("default", &cluster("1.30.0")).await;
    assert_eq!(mutated["spec"]["topology"]["version"], "v1.30.0");
    assert_eq!(mutated["spec"]["topology"].get("variables"), None);
}

#[tokio::test]
async fn what_was_promised_survives_a_client_that_writes_the_whole_cluster() {
    let marks = json!({
        "runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade",
        "topology.internal.cluster.x-k8s.io/upgrade-step": "v1.30.0",
        "upgrade.windlass.dev/acknowledged-target": "v1.31.0",
    });
    let api = TestApi::start().await;
    api.create_or_panic("default", &class()).await;
    let promised = with(&cluster("v1.30.0"), "/metadata/annotations", marks.clone());
    api.create_or_panic("default", &promised).await;
    let stored = api.stored("default", &promised).await;
    // What a tool has in its repository.
    let bare = with(&cluster("v1.30.0"), "/metadata/annotations", json!({"team": "a"}));
    let mut expected = marks.clone();
    expected["team"] = json!("a");
    let mutated = api.mutated_from("default", &bare, Some(&stored)).await;
    assert_eq!(mutated["metadata"]["annotations"], expected);
    api.update_or_panic("default", &bare).await;
    assert_eq!(api.stored("default", &bare).await["metadata"]["annotations"], expected);
    // The controller takes a mark away by an empty value, and a person with the annotation for emergencies by leaving it out.
    let mut emptied = expected.clone();
    emptied["upgrade.windlass.dev/acknowledged-target"] = json!("");
    api.update_or_panic("default", &with(&bare, "/metadata/annotations", emptied)).await;
    expected.as_object_mut().unwrap().remove("upgrade.windlass.dev/acknowledged-target");
    assert_eq!(api.stored("default", &bare).await["metadata"]["annotations"], expected);
    let insisted = json!({"unsafe.topology.cluster.x-k8s.io/disable-update-version-check": ""});
    api.update_or_panic("default", &with(&bare, "/metadata/annotations", insisted.clone())).await;
    assert_eq!(api.stored("default", &bare).await["metadata"]["annotations"], insisted);
}
