//! What upstream's schemas refuse is never written: empty objects and lists, counts and generations of zero.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineDeployment};
use windlass_apiserver::{Admission, Denial, Review};
use windlass_simulate::{TopologyManifests, World, WorldOptions, key};

use crate::{LONG, is_settled, rest, stored};

/// Objects and lists that may be empty: being there is what they say.
const MAY_BE_EMPTY: [&str; 2] = [".joinConfiguration.controlPlane", ".nodeRegistration.taints"];

/// Looks at every object of the kinds that upstream has schemas of, as it is going to be stored.
#[derive(Default)]
struct UpstreamsRules(Mutex<Vec<String>>);

impl Admission for UpstreamsRules {
    fn handles(&self, group: &str, _resource: &str) -> bool {
        ["cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io"].contains(&group)
    }

    fn validate<'a>(
        &'a self,
        review: &'a Review<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Vec<String>, Denial>> {
        let mut found = Vec::new();
        for part in ["spec", "status"] {
            if let Some(value) = object.get(part) {
                broken_rules(value, part, &mut found);
            }
        }
        let found = found.into_iter().map(|rule| format!("{} {}: {rule}", review.kind, review.name));
        self.0.lock().unwrap().extend(found);
        async { Ok(Vec::new()) }.boxed()
    }
}

fn broken_rules(value: &Value, path: &str, found: &mut Vec<String>) {
    let is_empty = match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null => true,
        _ => false,
    };
    if is_empty && !MAY_BE_EMPTY.iter().any(|end| path.ends_with(end)) {
        found.push(format!("{path} is {value}"));
    }
    let is_counted = path.ends_with("versions[].replicas") || path.ends_with("observedGeneration");
    if is_counted && value.as_i64().is_none_or(|number| number < 1) {
        found.push(format!("{path} is {value}"));
    }
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| broken_rules(value, &format!("{path}.{key}"), found));
        }
        Value::Array(items) => items.iter().for_each(|item| broken_rules(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

/// Manifests as upstream's schemas take them.
pub(crate) fn manifests(version: &str) -> Vec<Value> {
    let manifests = TopologyManifests::new("c1", version, 3)
        .machine_deployment("a", 2)
        .machine_pool("p", 1)
        .versions((30..=33).map(|minor| format!("v1.{minor}.0")));
    let mut objects = manifests.objects();
    let label = json!([{"name": "node-labels", "value": "a=b"}]);
    for object in &mut objects {
        let kind = object["kind"].clone();
        if kind == "KubeadmControlPlaneTemplate" {
            object["spec"]["template"]["spec"] =
                json!({"kubeadmConfigSpec": {"files": [{"path": "/a", "content": "b"}]}});
        } else if kind == "KubeadmConfigTemplate" {
            object["spec"]["template"]["spec"] =
                json!({"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": label}}});
        }
    }
    objects
}

#[tokio::test(start_paused = true)]
async fn nothing_empty_is_written_in_the_whole_life_of_a_cluster() {
    let rules = Arc::new(UpstreamsRules::default());
    let mut options = WorldOptions::new(1);
    options.admission.push(Arc::clone(&rules) as Arc<dyn Admission>);
    let mut world = World::begin(options).await.unwrap();
    world.apply_objects(&manifests("v1.30.0")).await.unwrap();
    world.run_until("created", LONG, |world| is_settled(world, 5)).await.unwrap();

    let patch = json!({"spec": {"topology": {"version": "v1.33.0"}}});
    world.patch::<Cluster>(&key("c1"), patch).await.unwrap();
    let is_upgraded = |world: &World| {
        world.list::<Machine>().iter().all(|machine| machine.spec.version == "v1.33.0")
            && is_settled(world, 5)
    };
    world.run_until("upgraded", LONG, is_upgraded).await.unwrap();

    let unnamed: Vec<String> = stored(&world)
        .into_iter()
        .filter(|(_, object)| object["metadata"]["managedFields"].to_string().contains("\"unknown\""))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(unnamed, [""; 0], "everything that is written says who has written it");

    let groups = json!([{"class": "default", "name": "a", "replicas": 0}]);
    let patch = json!({"spec": {"topology": {"workers": {"machineDeployments": groups}}}});
    world.patch::<Cluster>(&key("c1"), patch).await.unwrap();
    world.run_until("scaled down", LONG, |world| is_settled(world, 3)).await.unwrap();
    rest(&mut world).await;
    assert_eq!(world.list::<MachineDeployment>().len(), 1);
    world.delete::<Cluster>(&key("c1")).await.unwrap();
    world.run_until("deleted", LONG, |world| world.list::<Cluster>().is_empty()).await.unwrap();

    let mut broken = std::mem::take(&mut *rules.0.lock().unwrap());
    broken.sort();
    broken.dedup();
    assert_eq!(broken, [""; 0]);
}
