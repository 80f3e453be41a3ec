//! Templates beside a webhook that fills in, in dry runs alone, what older releases stored.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::bootstrap::KubeadmConfigTemplate;
use windlass_api::infrastructure::DevMachineTemplate;
use windlass_api::names::TOPOLOGY_DRY_RUN_ANNOTATION;
use windlass_apiserver::{Admission, Denial, Review};
use windlass_runtime::Kind;
use windlass_simulate::{TopologyManifests, World, WorldOptions, key};
use windlass_testkit::touched;

use crate::{LONG, everything, is_settled, rest};

/// What upstream's bootstrap provider has since 1.11: it stores no defaults, and compares as if it did.
struct OldDefaults;

impl Admission for OldDefaults {
    fn handles(&self, _group: &str, resource: &str) -> bool {
        resource == "kubeadmconfigtemplates"
    }

    fn mutate<'a>(
        &'a self,
        review: &'a Review<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Denial>> {
        let annotations = &object["metadata"]["annotations"];
        if review.dry_run && annotations.get(TOPOLOGY_DRY_RUN_ANNOTATION).is_some() {
            let spec = &mut object["spec"]["template"]["spec"];
            spec["format"] = json!("cloud-config");
            for part in ["initConfiguration", "joinConfiguration"] {
                spec[part]["nodeRegistration"]["imagePullPolicy"] = json!("IfNotPresent");
            }
        }
        async { Ok(()) }.boxed()
    }
}

async fn world(seed: u64) -> World {
    let mut options = WorldOptions::new(seed);
    options.admission.push(Arc::new(OldDefaults));
    let mut world = World::begin(options).await.unwrap();
    let manifests = TopologyManifests::new("c1", "v1.33.0", 1).machine_deployment("a", 2);
    world.apply_objects(&manifests.objects()).await.unwrap();
    world.run_until("created", LONG, |world| is_settled(world, 3)).await.unwrap();
    rest(&mut world).await;
    world
}

/// Takes away who applied what, as an API server does that drops `managedFields`.
async fn disown<K: Kind>(world: &World)
where
    K::DynamicType: Default,
{
    for template in world.list::<K>() {
        let patch = json!({"metadata": {"managedFields": [{}]}});
        world.patch::<K>(&key(&template.name_any()), patch).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_default_of_dry_runs_is_no_change_however_often_the_process_starts() {
    let mut world = world(1).await;
    let before = everything(&world);
    for _ in 0..3 {
        world.kill().await;
        disown::<KubeadmConfigTemplate>(&world).await;
        disown::<DevMachineTemplate>(&world).await;
        world.restart().await;
        rest(&mut world).await;
        assert_eq!(touched(&before, &everything(&world)), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_class_is_still_rolled_out_beside_a_webhook_with_defaults() {
    let mut world = world(2).await;
    let templates = || world.list::<KubeadmConfigTemplate>().len();
    assert_eq!(templates(), 2, "one of the class, one of the group");
    let before = everything(&world);
    let patch =
        json!({"spec": {"template": {"spec": {"joinConfiguration": {"nodeRegistration": {"name": "n"}}}}}});
    world.patch::<KubeadmConfigTemplate>(&key("quick-worker"), patch).await.unwrap();
    world
        .run_until("rolled out", LONG, |world| {
            is_settled(world, 3)
                && touched(&before, &everything(world))
                    .iter()
                    .filter(|what| {
                        what.starts_with("cluster.x-k8s.io/machines ") && what.ends_with("is gone")
                    })
                    .count()
                    == 2
        })
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_template_that_lost_its_managers_can_still_lose_a_field() {
    let mut world = world(3).await;
    world.kill().await;
    disown::<DevMachineTemplate>(&world).await;
    world.restart().await;
    rest(&mut world).await;
    let patch = json!({"spec": {"template": {"spec": {"backend": {"inMemory": {"etcd": null}}}}}});
    world.patch::<DevMachineTemplate>(&key("quick-worker"), patch).await.unwrap();
    let is_without = |template: &DevMachineTemplate| {
        let template = serde_json::to_value(template).unwrap();
        template.pointer("/spec/template/spec/backend/inMemory/etcd").is_none()
    };
    world
        .run_until("the field is gone", LONG, |world| {
            world.list::<DevMachineTemplate>().iter().filter(|template| is_without(template)).count() == 2
        })
        .await
        .unwrap();
}
