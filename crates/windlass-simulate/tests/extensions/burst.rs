//! Many clusters at once: an extension gets a bounded number of calls at the same time, and one that is slow holds up none
//! of the clusters that are not its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use windlass_extension::hooks::{
    BeforeClusterCreate, BeforeClusterCreateRequest, BeforeClusterCreateResponse, RetryResponse,
};
use windlass_extension::{Context, Extension};
use windlass_hooks::transport::InProcess;
use windlass_simulate::{TopologyManifests, World};

use crate::recorder::{config, options};

const CLUSTERS: usize = 40;
const EXTENSIONS: [&str; 5] = ["slow", "a", "b", "c", "d"];
/// How long the slow one takes: less than the ten seconds that a call may take.
const SLOW: Duration = Duration::from_secs(8);

/// How many calls of an extension there were, and are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Calls {
    under_way: usize,
    most: usize,
    answered: usize,
}

/// Asks every Cluster to wait before it is created, for so long that nothing else happens.
fn extension(calls: &Arc<Mutex<Calls>>, takes: Duration) -> Extension {
    let calls = Arc::clone(calls);
    let answer = move |_: Context, _: BeforeClusterCreateRequest| {
        let calls = Arc::clone(&calls);
        async move {
            {
                let mut calls = calls.lock().unwrap();
                calls.under_way += 1;
                calls.most = calls.most.max(calls.under_way);
            }
            sleep(takes).await;
            let mut calls = calls.lock().unwrap();
            calls.under_way -= 1;
            calls.answered += 1;
            BeforeClusterCreateResponse::blocking("not today", 36_000)
        }
    };
    Extension::new("burst").on(BeforeClusterCreate, "create", answer).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn two_hundred_clusters_with_five_extensions_do_not_queue_behind_the_slow_one() {
    let transport = InProcess::new();
    let mut world = World::begin(options(1, &transport)).await.unwrap();
    let mut calls = Vec::new();
    for name in EXTENSIONS {
        let counted = Arc::default();
        let takes = if name == "slow" { SLOW } else { Duration::ZERO };
        transport.add(name, extension(&counted, takes));
        calls.push(counted);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        world.apply_object(&namespace).await.unwrap();
        let mut config = config(name);
        let labels = json!({"kubernetes.io/metadata.name": name});
        config["spec"]["namespaceSelector"] = json!({"matchLabels": labels});
        world.apply_object(&config).await.unwrap();
    }
    let discovered = |world: &World| {
        EXTENSIONS
            .iter()
            .all(|name| world.extension_config(name).is_some_and(|config| !config.status.handlers.is_empty()))
    };
    world.run_until("all are discovered", Duration::from_secs(60), discovered).await.unwrap();
    for name in EXTENSIONS {
        for number in 0..CLUSTERS {
            let manifests = TopologyManifests::new(&format!("c{number}"), "v1.30.0", 1);
            let mut objects = manifests.objects();
            // The class and its templates once, then only Clusters.
            if number > 0 {
                objects.drain(..objects.len() - 1);
            }
            for object in &mut objects {
                object["metadata"]["namespace"] = json!(name);
            }
            world.apply_objects(&objects).await.unwrap();
        }
    }
    let now = |at: usize| *calls[at].lock().unwrap();
    let others = |_: &World| (1..EXTENSIONS.len()).all(|at| now(at).answered == CLUSTERS);
    world.run_until("all Clusters of the others are asked about", SLOW, others).await.unwrap();
    assert!(now(0).answered < CLUSTERS, "the slow one is not done: {:?}", now(0));
    let slow = |_: &World| now(0).answered == CLUSTERS;
    world.run_until("those of the slow one, too", SLOW * 4, slow).await.unwrap();
    assert_eq!(now(0), Calls { under_way: 0, most: 16, answered: CLUSTERS }, "16 at the same time");
}
