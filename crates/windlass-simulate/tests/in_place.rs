//! Machines that are updated in place, with the real controllers in virtual time.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::time::Duration;

use kube::ResourceExt;
use windlass_api::cluster::{Machine, MachineDeployment};
use windlass_simulate::{
    Amount, ClusterManifests, Population, SimulatedExtension, WorkerGroup, World, WorldOptions, is_complete,
    key,
};

const LONG: Duration = Duration::from_secs(24 * 3600);

struct Scene {
    world: World,
    manifests: ClusterManifests,
    group: WorkerGroup,
    population: Population,
}

impl Scene {
    /// A cluster with so many workers, and whoever updates them.
    async fn new(group: WorkerGroup, extension: &SimulatedExtension, configs: &[serde_json::Value]) -> Self {
        let manifests = ClusterManifests::new("c", "v1.33.0", 1).workers(group.clone());
        let population = Population::of(&group.deployment_name("c"));
        let mut world = World::begin(WorldOptions::extended_by(1, extension)).await.unwrap();
        world.observe(population.clone());
        world.apply_objects(configs).await.unwrap();
        world.apply_objects(&manifests.objects()).await.unwrap();
        let deployment = group.deployment_name("c");
        world.run_until("all workers are up", LONG, |world| is_complete(world, &deployment)).await.unwrap();
        population.begin(world.now());
        Self { world, manifests, group, population }
    }

    async fn change(&mut self, group: WorkerGroup) {
        self.group = group;
        self.world.apply_objects(&self.manifests.worker_objects(&self.group)).await.unwrap();
    }

    async fn complete(&mut self) {
        let deployment = self.group.deployment_name("c");
        self.world
            .run_until("the rollout is complete", LONG, |world| is_complete(world, &deployment))
            .await
            .unwrap();
    }

    fn deployment(&self) -> MachineDeployment {
        self.world.get(&key(&self.group.deployment_name("c"))).unwrap()
    }

    fn machines(&self) -> Vec<Machine> {
        let all = self.world.list::<Machine>().into_iter();
        all.filter(|machine| machine.labels().get("group").is_some_and(|group| group == "w")).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn workers_are_updated_in_place_and_run_the_new_version() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(90));
    let group = WorkerGroup::new("w", 3).rolling_update(Amount::Number(0), Amount::Number(1));
    let mut scene = Scene::new(group.clone(), &extension, &[updater.config()]).await;
    let before: Vec<String> = scene.machines().iter().map(ResourceExt::name_any).collect();
    scene.change(group.version("v1.33.1").generation(2)).await;
    scene.complete().await;
    let after = scene.machines();
    assert_eq!(after.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), before);
    for machine in &after {
        assert_eq!(machine.spec.version, "v1.33.1");
        assert_eq!(machine.status.node_info.as_ref().unwrap().kubelet_version, "v1.33.1");
    }
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted, bounds.updated_in_place), (0, 0, 3));
    assert_eq!((bounds.max_machines, bounds.min_available), (3, 2));
    assert_eq!(updater.finished(), 3);
    assert!(updater.calls().iter().all(|call| !call.after_completion));
    let _ = scene.deployment();
}
