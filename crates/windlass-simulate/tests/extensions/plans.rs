//! Plans of an extension: asked for anew before every step, and at a pace otherwise.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass_api::cluster::ClusterClass;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_extension::hooks::{
    BeforeControlPlaneUpgrade, BeforeControlPlaneUpgradeRequest, BeforeControlPlaneUpgradeResponse,
    GenerateUpgradePlan, GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, HookResponse,
    RetryResponse, UpgradeStep,
};
use windlass_extension::{Context, Extension};
use windlass_hooks::transport::InProcess;
use windlass_simulate::{TopologyManifests, World, key};

use crate::cluster::{LONG, is_reconciled, pass, told, upgrade_to};
use crate::recorder::{config, options};

/// An extension that plans as it is told, and holds the control plane until it is told otherwise.
#[derive(Clone, Default)]
pub(crate) struct Planner {
    /// The version through which the next minor is reached.
    pub(crate) through: Arc<Mutex<String>>,
    holds: Arc<Mutex<Option<u32>>>,
    /// From which version a plan was asked for.
    planned: Arc<Mutex<Vec<String>>>,
    /// Which versions the control plane was announced for.
    announced: Arc<Mutex<Vec<String>>>,
}

impl Planner {
    pub(crate) fn extension(&self) -> Extension {
        let (planner, gate) = (self.clone(), self.clone());
        Extension::new("planner")
            .on(GenerateUpgradePlan, "plan", move |_: Context, request: GenerateUpgradePlanRequest| {
                std::future::ready(planner.plan(&request))
            })
            .on(
                BeforeControlPlaneUpgrade,
                "gate",
                move |_: Context, request: BeforeControlPlaneUpgradeRequest| {
                    gate.announced.lock().unwrap().push(request.to_kubernetes_version);
                    std::future::ready(match *gate.holds.lock().unwrap() {
                        Some(seconds) => {
                            BeforeControlPlaneUpgradeResponse::blocking("a backup runs", seconds)
                        }
                        None => BeforeControlPlaneUpgradeResponse::success(),
                    })
                },
            )
            .build()
            .unwrap()
    }

    fn plan(&self, request: &GenerateUpgradePlanRequest) -> GenerateUpgradePlanResponse {
        let from = request.from_control_plane_kubernetes_version.clone();
        let through = self.through.lock().unwrap().clone();
        let chain = [through.as_str(), "v1.32.0"];
        let left = chain.into_iter().filter(|version| *version > from.as_str());
        let steps = left.map(|version| UpgradeStep { version: version.to_owned() }).collect();
        self.planned.lock().unwrap().push(from);
        GenerateUpgradePlanResponse {
            control_plane_upgrades: steps,
            ..GenerateUpgradePlanResponse::success()
        }
    }

    fn plans(&self) -> usize {
        self.planned.lock().unwrap().len()
    }
}

async fn world(planner: &Planner) -> World {
    let transport = InProcess::new();
    transport.add("planner", planner.extension());
    let mut world = World::begin(options(1, &transport)).await.unwrap();
    world.apply_object(&config("planner")).await.unwrap();
    let manifests = TopologyManifests::new("c1", "v1.30.0", 1).machine_deployment("web", 1);
    world.apply_objects(&manifests.objects()).await.unwrap();
    let external =
        json!({"spec": {"upgrade": {"external": {"generateUpgradePlanExtension": "plan.planner"}}}});
    world.patch::<ClusterClass>(&key("quick"), external).await.unwrap();
    world.run_until("the cluster is ready", LONG, is_reconciled).await.unwrap();
    world
}

fn control_plane(world: &World) -> Value {
    json!(world.list::<KubeadmControlPlane>().pop().unwrap())["spec"]["version"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_changes_while_a_hook_holds_is_followed_once_the_hook_passes() {
    let planner = Planner::default();
    *planner.through.lock().unwrap() = "v1.31.0".to_owned();
    *planner.holds.lock().unwrap() = Some(20);
    let mut world = world(&planner).await;
    upgrade_to(&world, "v1.32.0").await;
    world.run_until("it holds", LONG, |world| told(world).contains("a backup runs")).await.unwrap();
    // The hook is asked next when the plan that was remembered is 20 s old.
    *planner.through.lock().unwrap() = "v1.31.2".to_owned();
    *planner.holds.lock().unwrap() = None;
    let moved = |world: &World| control_plane(world) != "v1.30.0";
    world.run_until("the control plane moves", LONG, moved).await.unwrap();
    assert_eq!(control_plane(&world), "v1.31.2");
    let announced = planner.announced.lock().unwrap().clone();
    assert_eq!(announced.last().unwrap(), "v1.31.2", "the hook has passed for that version: {announced:?}");
    world.run_until("the upgrade is done", LONG, is_reconciled).await.unwrap();
    assert_eq!(control_plane(&world), "v1.32.0");
}

#[tokio::test(start_paused = true)]
async fn every_step_begins_with_a_plan_that_was_asked_for_from_where_it_begins() {
    let planner = Planner::default();
    *planner.through.lock().unwrap() = "v1.31.0".to_owned();
    let mut world = world(&planner).await;
    upgrade_to(&world, "v1.32.0").await;
    world.run_until("the upgrade is done", LONG, is_reconciled).await.unwrap();
    let planned = planner.planned.lock().unwrap().clone();
    for from in ["v1.30.0", "v1.31.0", "v1.32.0"] {
        assert!(planned.iter().any(|planned| planned == from), "{planned:?} from {from}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_in_a_long_wait_asks_for_its_plan_once_a_minute_at_most() {
    let planner = Planner::default();
    *planner.through.lock().unwrap() = "v1.31.0".to_owned();
    *planner.holds.lock().unwrap() = Some(5);
    let mut world = world(&planner).await;
    upgrade_to(&world, "v1.32.0").await;
    world.run_until("it holds", LONG, |world| told(world).contains("a backup runs")).await.unwrap();
    let before = planner.plans();
    pass(&mut world, 1800).await;
    let asked = planner.plans() - before;
    assert!((20..=31).contains(&asked), "asked {asked} times in half an hour");
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_goes_back_is_refused_with_the_rule_that_it_breaks() {
    let planner = Planner::default();
    // From v1.30.0: v1.32.1, then v1.32.0.
    *planner.through.lock().unwrap() = "v1.31.5".to_owned();
    let mut world = world(&planner).await;
    *planner.through.lock().unwrap() = "v1.32.1".to_owned();
    upgrade_to(&world, "v1.32.0").await;
    let refused = |world: &World| told(world).contains("must be greater");
    world.run_until("it is refused", LONG, refused).await.unwrap();
    let message = told(&world);
    let rule = "controlPlaneUpgrades[1]: v1.32.0 must be greater than the one before it, v1.32.1";
    assert!(message.contains("handler \"plan.planner\": ") && message.contains(rule), "{message}");
    assert!(message.contains("; tried again after "), "{message}");
    assert_eq!(control_plane(&world), "v1.30.0");
    *planner.through.lock().unwrap() = "v1.31.5".to_owned();
    world.run_until("the upgrade is done", LONG, is_reconciled).await.unwrap();
}
