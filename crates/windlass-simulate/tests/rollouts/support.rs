//! A cluster with one group of workers, in a world.

use std::time::Duration;

use kube::ResourceExt;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};
use windlass_api::names::{CLUSTER_NAME_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL};
use windlass_simulate::{
    ClusterManifests, Population, WorkerGroup, World, WorldError, WorldOptions, is_complete, key,
};

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) struct Workers {
    pub(crate) world: World,
    pub(crate) cluster: String,
    pub(crate) manifests: ClusterManifests,
    pub(crate) group: WorkerGroup,
    pub(crate) population: Population,
    generation: u32,
}

impl Workers {
    /// A cluster whose workers are all available.
    pub(crate) async fn new(seed: u64, group: WorkerGroup) -> Self {
        let world = World::begin(WorldOptions::new(seed)).await.unwrap();
        Self::in_world(world, "c", group).await
    }

    /// Another cluster in a world, which is less work than another world.
    pub(crate) async fn in_world(world: World, cluster: &str, group: WorkerGroup) -> Self {
        let mut workers = Self::begun(world, cluster, group).await;
        workers.until_complete().await.unwrap();
        workers.population.begin(workers.world.now());
        workers
    }

    /// A cluster that has just been applied.
    pub(crate) async fn begun(world: World, cluster: &str, group: WorkerGroup) -> Self {
        let manifests = ClusterManifests::new(cluster, "v1.33.0", 1).workers(group.clone());
        let population = Population::of(&group.deployment_name(cluster));
        world.observe(population.clone());
        world.apply_objects(&manifests.objects()).await.unwrap();
        let cluster = cluster.to_owned();
        Self { world, cluster, manifests, group, population, generation: 1 }
    }

    pub(crate) fn deployment_name(&self) -> String {
        self.group.deployment_name(&self.cluster)
    }

    /// The templates that its machines are made from.
    pub(crate) fn template_name(&self) -> String {
        format!("{}-{}", self.deployment_name(), self.generation)
    }

    pub(crate) fn deployment(&self) -> MachineDeployment {
        self.world.get(&key(&self.deployment_name())).unwrap()
    }

    /// Makes the group as `change` has it.
    pub(crate) async fn change(&mut self, change: impl FnOnce(WorkerGroup) -> WorkerGroup) {
        self.group = change(self.group.clone());
        self.world.apply_objects(&self.manifests.worker_objects(&self.group)).await.unwrap();
    }

    /// Wants other machines.
    pub(crate) async fn change_spec(&mut self) {
        self.generation += 1;
        let generation = self.generation;
        self.change(|group| group.generation(generation)).await;
    }

    pub(crate) async fn until_complete(&mut self) -> Result<(), WorldError> {
        let (deployment, population) = (self.deployment_name(), self.population.clone());
        let complete =
            move |world: &World| population.counts().deleting == 0 && is_complete(world, &deployment);
        self.world.run_until("all workers are as they should be", LONG, complete).await
    }

    /// The machines of the group, in the order of their names.
    pub(crate) fn machines(&self) -> Vec<Machine> {
        let deployment = self.deployment_name();
        let all = self.world.list::<Machine>().into_iter();
        all.filter(|machine| machine.labels().get(MACHINE_DEPLOYMENT_NAME_LABEL) == Some(&deployment))
            .collect()
    }

    pub(crate) fn sets(&self) -> Vec<MachineSet> {
        let all = self.world.list::<MachineSet>().into_iter();
        all.filter(|set| set.spec.cluster_name == self.cluster).collect()
    }

    /// What there is of the group, without the names that chance made: for each MachineSet the templates it is made
    /// from, how many machines it wants, and how many there are.
    pub(crate) fn shape(&self) -> Vec<(String, Option<i32>, usize)> {
        let machines = self.machines();
        let shape = self.sets().into_iter().map(|set| {
            let uid = set.uid().unwrap();
            let owned = machines
                .iter()
                .filter(|machine| machine.owner_references().iter().any(|owner| owner.uid == uid));
            (set.spec.template.spec.infrastructure_ref.name.clone(), set.spec.replicas, owned.count())
        });
        let mut shape: Vec<_> = shape.collect();
        shape.sort();
        shape
    }

    /// Deletes the whole cluster and waits until nothing of it is left.
    pub(crate) async fn delete(mut self) -> World {
        let cluster = self.cluster.clone();
        self.world.delete::<Cluster>(&key(&cluster)).await.unwrap();
        let gone = move |world: &World| {
            let of_cluster = |machine: &Machine| machine.labels().get(CLUSTER_NAME_LABEL) == Some(&cluster);
            world.get::<Cluster>(&key(&cluster)).is_none() && !world.list::<Machine>().iter().any(of_cluster)
        };
        self.world.run_until("nothing is left of the cluster", LONG, gone).await.unwrap();
        self.world
    }
}
