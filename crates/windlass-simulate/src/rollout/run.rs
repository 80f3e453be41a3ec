//! Runs a rollout.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use kube::ResourceExt;
use tokio::runtime::Builder;
use windlass_api::cluster::{Machine, MachineSet};
use windlass_api::names::{MACHINE_DEPLOYMENT_NAME_LABEL, MACHINE_TEMPLATE_HASH_LABEL};

use super::limits::limits;
use super::{ChangeKind, Progress, RolloutError, RolloutOptions, RolloutReport, Strategy};
use crate::extension::SimulatedExtension;
use crate::manifests::{ClusterManifests, WorkerGroup};
use crate::population::Population;
use crate::progress::{is_complete, is_settled};
use crate::world::{World, WorldError, WorldOptions, key};

/// The cluster that is rolled out.
const CLUSTER: &str = "c";

/// How long the update of a machine in place takes: about as long as it takes to make a new one.
const UPDATE_TAKES: Duration = Duration::from_secs(15);

/// Runs a rollout of the real controllers in virtual time, on a runtime of its own, and tells every step as it happens.
///
/// # Errors
///
/// If it does not come to its end, with what is waited on; if there were ever too many or too few machines.
pub fn rollout(
    options: &RolloutOptions,
    mut tell: impl FnMut(Progress<'_>),
) -> Result<RolloutReport, RolloutError> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.map_err(RolloutError::Runtime)?.block_on(rollout_with(options, &mut tell))
}

/// Runs a rollout on the runtime of the caller, which must be a current-thread one with a paused clock.
pub fn rollout_with<'a>(
    options: &'a RolloutOptions,
    tell: &'a mut dyn FnMut(Progress<'_>),
) -> LocalBoxFuture<'a, Result<RolloutReport, RolloutError>> {
    Box::pin(async move {
        let mut rollout = Rollout::prepare(options, tell).await?;
        rollout.run(tell).await
    })
}

struct Rollout<'a> {
    options: &'a RolloutOptions,
    world: World,
    manifests: ClusterManifests,
    group: WorkerGroup,
    generation: u32,
    population: Population,
    told: usize,
}

impl<'a> Rollout<'a> {
    /// A cluster with all its workers, before anything is changed.
    async fn prepare(
        options: &'a RolloutOptions,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, RolloutError> {
        let group = WorkerGroup::new("workers", options.replicas);
        let group = match options.strategy {
            Strategy::RollingUpdate { max_surge, max_unavailable } => {
                group.rolling_update(max_surge, max_unavailable)
            }
            Strategy::OnDelete => group.on_delete(),
        };
        let manifests = ClusterManifests::new(CLUSTER, "v1.33.0", 1).workers(group.clone());
        let population = Population::of(&group.deployment_name(CLUSTER));
        let extension = SimulatedExtension::new();
        let mut world = World::begin(WorldOptions::extended_by(options.seed, &extension)).await?;
        world.observe(population.clone());
        if options.in_place {
            let updater = extension.add_updater("updater").taking(UPDATE_TAKES);
            world.apply_objects(&[updater.config()]).await?;
        }
        world.apply_objects(&manifests.objects()).await?;
        let deployment = group.deployment_name(CLUSTER);
        let goal = format!("all {} machines of {deployment} are available", options.replicas);
        let reached = |world: &World| {
            tell(Progress::Preparing(population.counts()));
            is_complete(world, &deployment)
        };
        world.run_until(&goal, options.limit, reached).await?;
        population.begin(world.now());
        Ok(Self { options, world, manifests, group, generation: 1, population, told: 0 })
    }

    async fn run(&mut self, tell: &mut dyn FnMut(Progress<'_>)) -> Result<RolloutReport, RolloutError> {
        let began = self.world.now();
        let before = (self.world.reconciles(), self.world.faults().writes(), self.world.events());
        self.population.limit(Some(limits(self.options)));
        self.change_spec().await?;
        let mut changes = self.options.changes.clone();
        changes.sort_by_key(|change| change.at_step);
        for change in changes {
            self.until_step(change.at_step, tell).await?;
            match change.what {
                ChangeKind::Spec => self.change_spec().await?,
                ChangeKind::Scale(replicas) => {
                    self.group = self.group.clone().replicas(replicas);
                    self.apply().await?;
                }
            }
        }
        match self.options.strategy {
            Strategy::RollingUpdate { .. } => self.until_complete(tell).await?,
            Strategy::OnDelete => self.delete_one_by_one(tell).await?,
        }
        let ended = self.world.now();
        let mut report = RolloutReport::new(self.population.bounds(), self.population.steps(), began, ended);
        report.reconciles = self.world.reconciles() - before.0;
        report.writes = self.world.faults().writes() - before.1;
        report.events = self.world.events() - before.2;
        Ok(report)
    }

    async fn change_spec(&mut self) -> Result<(), WorldError> {
        self.generation += 1;
        self.group = self.group.clone().generation(self.generation);
        self.apply().await
    }

    async fn apply(&self) -> Result<(), WorldError> {
        self.world.apply_objects(&self.manifests.worker_objects(&self.group)).await
    }

    async fn until_step(
        &mut self,
        step: usize,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), WorldError> {
        let (deployment, population) = (self.deployment(), self.population.clone());
        let reached = |world: &World| population.step_count() >= step || is_complete(world, &deployment);
        self.until(&format!("the rollout is at step {step}"), reached, tell).await
    }

    async fn until_complete(&mut self, tell: &mut dyn FnMut(Progress<'_>)) -> Result<(), WorldError> {
        let (deployment, population) = (self.deployment(), self.population.clone());
        let reached = |world: &World| population.counts().deleting == 0 && is_complete(world, &deployment);
        self.until("the rollout is complete", reached, tell).await
    }

    async fn until(
        &mut self,
        goal: &str,
        mut reached: impl FnMut(&World) -> bool,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), WorldError> {
        let (population, told) = (self.population.clone(), &mut self.told);
        let mut catch_up = || {
            for step in population.steps_from(*told) {
                tell(Progress::Step(&step));
                *told += 1;
            }
        };
        let looked = |world: &World| {
            catch_up();
            reached(world)
        };
        let result = self.world.run_until(goal, self.options.limit, looked).await;
        catch_up();
        result
    }

    /// What a user does who wants to see each machine replaced before the next one goes.
    async fn delete_one_by_one(&mut self, tell: &mut dyn FnMut(Progress<'_>)) -> Result<(), WorldError> {
        let deployment = self.deployment();
        loop {
            let population = self.population.clone();
            let settled = |world: &World| population.counts().deleting == 0 && is_settled(world, &deployment);
            self.until("every machine that was deleted is replaced", settled, tell).await?;
            let Some(next) = self.outdated() else { return Ok(()) };
            self.world.delete::<Machine>(&key(&next)).await?;
        }
    }

    /// A machine that is not made from the newest templates.
    fn outdated(&self) -> Option<String> {
        let deployment = self.deployment();
        let template = self.group.template_name(CLUSTER);
        let mut sets = self.world.list::<MachineSet>().into_iter();
        let newest = sets.rfind(|set| set.spec.template.spec.infrastructure_ref.name == template);
        let hash = newest.and_then(|set| set.labels().get(MACHINE_TEMPLATE_HASH_LABEL).cloned());
        let machines = self.world.list::<Machine>().into_iter();
        let mut outdated = machines.filter(|machine| {
            let labels = machine.labels();
            labels.get(MACHINE_DEPLOYMENT_NAME_LABEL) == Some(&deployment)
                && labels.get(MACHINE_TEMPLATE_HASH_LABEL) != hash.as_ref()
        });
        outdated.next().map(|machine| machine.name_any())
    }

    fn deployment(&self) -> String {
        self.group.deployment_name(CLUSTER)
    }
}
