//! MachineDeployment: plans the rollout of workers, and writes the sizes of its MachineSets.

mod external_update;
mod in_place;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};
use windlass_api::conditions::ROLLING_OUT;
use windlass_api::names::{
    CLUSTER_NAME_LABEL, EXTERNAL_UPDATE_ANNOTATION, MACHINE_DEPLOYMENT_FINALIZER,
    MACHINE_DEPLOYMENT_NAME_LABEL,
};
use windlass_engine::condition;
use windlass_engine::in_place::{CAN_UPDATE_IN_PLACE, Said};
use windlass_engine::machine_set::{annotation, is_updating, selector};
use windlass_engine::pause::Pause;
use windlass_engine::rollout::{
    self, Blocked, Leftover, StatusFacts, finished_sets, in_place_questions, next_set, observe, plan,
    progress, roles,
};
use windlass_runtime::{
    Cache, Context, EventType, Incomplete, Manager, ObjectKey, Outcome, Reconciler, controller_reference,
    owner_reference, uid_of,
};

use crate::external::Externals;
use crate::in_place::InPlaceExtensions;
use crate::pause;
use crate::status;
use crate::worker_group::{
    Marks, PACE, Templates, WorkerError, adoption, controller, rest, select, uses_template, without_finalizer,
};
use in_place::{Asked, Scope};

/// How often extensions are asked again while a rollout stands still because of what they left open.
const ASK_AGAIN: Duration = Duration::from_secs(10 * 60);

/// Registers the controller.
pub fn register(manager: &Manager, externals: &Externals, in_place: &InPlaceExtensions) {
    let deployments: Cache<MachineDeployment> = manager.cache();
    let (sets, machines): (Cache<MachineSet>, Cache<Machine>) = (manager.cache(), manager.cache());
    let clusters: Cache<Cluster> = manager.cache();
    let (of_cluster, of_template, of_part) = (deployments.clone(), deployments.clone(), machines.clone());
    let reconciler = Deployments {
        deployments: deployments.clone(),
        sets: sets.clone(),
        machines: machines.clone(),
        clusters: clusters.clone(),
        externals: externals.clone(),
        in_place: in_place.clone(),
    };
    let mut registered = manager.controller("machinedeployment", &deployments);
    if let Some(configs) = in_place.configs() {
        // An extension that was registered or changed may cover what no extension covered before.
        let of_extensions = deployments.clone();
        registered = registered.watches(&configs, move |_| {
            let waiting = of_extensions.list().into_iter().filter(|md| waits_for_extensions(md));
            waiting.map(|md| ObjectKey::of(md.as_ref())).collect()
        });
    }
    registered
        .owns(&sets)
        // What machines say of themselves is part of what their MachineDeployment says.
        .watches(&machines, |machine| {
            let name =
                machine.metadata.labels.as_ref().and_then(|labels| labels.get(MACHINE_DEPLOYMENT_NAME_LABEL));
            let namespace = ObjectKey::of(machine).namespace;
            name.map(|name| ObjectKey::new(namespace, name)).into_iter().collect()
        })
        .watches(&clusters, move |cluster| {
            let key = ObjectKey::of(cluster);
            let of = of_cluster.in_namespace(&key.namespace).into_iter();
            of.filter(|md| md.spec.cluster_name == key.name).map(|md| ObjectKey::of(md.as_ref())).collect()
        })
        .on_dynamic(move |object| {
            let key = ObjectKey::of(object);
            let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
            // An external updater says in the objects of machines what is done.
            let owner = controller(&object.metadata).filter(|owner| owner.kind == Machine::KIND);
            let machine = owner.and_then(|owner| of_part.get(&ObjectKey::new(&key.namespace, &owner.name)));
            let updated = machine.as_deref().and_then(|machine| {
                machine.metadata.labels.as_ref()?.get(MACHINE_DEPLOYMENT_NAME_LABEL).cloned()
            });
            let is_its = |md: &MachineDeployment| {
                updated.is_some()
                    && md.metadata.name == updated
                    && annotation(&md.metadata, EXTERNAL_UPDATE_ANNOTATION).is_some()
            };
            let of = of_template.in_namespace(&key.namespace).into_iter();
            of.filter(|md| is_its(md) || uses_template(&md.spec.template, kind, &key.name))
                .map(|md| ObjectKey::of(md.as_ref()))
                .collect()
        })
        .pace(PACE)
        .register(reconciler);
}

struct Deployments {
    deployments: Cache<MachineDeployment>,
    sets: Cache<MachineSet>,
    machines: Cache<Machine>,
    clusters: Cache<Cluster>,
    externals: Externals,
    in_place: InPlaceExtensions,
}

/// What one reconcile has led to.
#[derive(Default)]
struct Reconciled {
    blocked: Option<Blocked>,
    problems: Vec<String>,
    /// What was found out about updating machines in place.
    in_place: Said,
    /// What there is to say about external updaters.
    external_update: Said,
    /// When to reconcile again because of them.
    again: Option<Timestamp>,
    /// What went wrong, although there is something to say.
    failure: Option<WorkerError>,
    /// Whether MachineSets were written: what follows from it is decided at the next reconcile.
    wrote: bool,
    /// The name of the MachineSet that machines are brought to.
    new: Option<String>,
}

impl Reconciler for Deployments {
    type Error = WorkerError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WorkerError> {
        let Some(deployment) = self.deployments.get(key) else { return Ok(Outcome::done()) };
        let cluster = self.clusters.get(&ObjectKey::new(&key.namespace, &deployment.spec.cluster_name));
        if let Some(pause) = Pause::of(&deployment.metadata, cluster.as_deref()) {
            return Ok(pause::say(context, deployment.as_ref(), &deployment.status.conditions, pause).await?);
        }
        if deployment.metadata.deletion_timestamp.is_some() {
            return self.delete(context, &deployment).await;
        }
        // It is reconciled again when its Cluster turns up.
        let Some(cluster) = cluster else { return Ok(Outcome::done()) };
        let marks = Marks {
            finalizer: MACHINE_DEPLOYMENT_FINALIZER,
            labels: BTreeMap::from([(CLUSTER_NAME_LABEL, deployment.spec.cluster_name.as_str())]),
            owner: Some(owner_reference(cluster.as_ref())?),
        };
        if let Some(patch) = marks.missing(&deployment.metadata) {
            context.writer().patch(deployment.as_ref(), patch).await?;
            return Ok(Outcome::done());
        }
        let sets = self.sets_of(context, &deployment).await?;
        let machines = self.machines_of(&sets)?;
        let reconciled = self.roll_out(context, &cluster, &deployment, &sets, &machines).await;
        self.conclude(context, &deployment, &sets, &machines, reconciled).await
    }
}

impl Deployments {
    /// The MachineSets that the MachineDeployment controls; those that it selects and that have no controller are adopted.
    async fn sets_of(
        &self,
        context: &Context,
        deployment: &MachineDeployment,
    ) -> Result<Vec<Arc<MachineSet>>, WorkerError> {
        let mut sets = self.controlled(deployment)?;
        let namespace = &ObjectKey::of(deployment).namespace;
        let orphans = select(&self.sets, namespace, &deployment.spec.selector)?
            .into_iter()
            .filter(|set| controller(&set.metadata).is_none() && set.metadata.deletion_timestamp.is_none());
        for orphan in orphans {
            let patch = adoption(&orphan.metadata, &controller_reference(deployment)?);
            let adopted = context.writer::<MachineSet>().patch(&orphan, patch).await?;
            let name = ObjectKey::of(&adopted).name;
            context.event(
                deployment,
                EventType::Normal,
                "SuccessfulAdopt",
                format!("Adopted MachineSet {name}"),
            );
            sets.push(Arc::new(adopted));
        }
        Ok(sets)
    }

    fn controlled(&self, deployment: &MachineDeployment) -> Result<Vec<Arc<MachineSet>>, Incomplete> {
        let uid = uid_of(deployment)?;
        let owned = self.sets.owned_by(uid).into_iter();
        Ok(owned.filter(|set| controller(&set.metadata).is_some_and(|owner| owner.uid == uid)).collect())
    }

    fn machines_of(&self, sets: &[Arc<MachineSet>]) -> Result<Vec<Arc<Machine>>, Incomplete> {
        let mut machines = Vec::new();
        for set in sets {
            let uid = uid_of(set.as_ref())?;
            let owned = self.machines.owned_by(uid).into_iter();
            machines.extend(
                owned.filter(|machine| controller(&machine.metadata).is_some_and(|owner| owner.uid == uid)),
            );
        }
        Ok(machines)
    }

    async fn roll_out(
        &self,
        context: &Context,
        cluster: &Cluster,
        deployment: &MachineDeployment,
        sets: &[Arc<MachineSet>],
        machines: &[Arc<Machine>],
    ) -> Result<Reconciled, WorkerError> {
        let templates = Templates::read(&self.externals, context, cluster, &deployment.spec.template).await?;
        // An autoscaler decides: until it has, there is nothing to plan.
        if deployment.replicas().is_none() {
            return Ok(Reconciled { problems: templates.problems, ..Reconciled::default() });
        }
        let namespace = &ObjectKey::of(deployment).namespace;
        let taken: BTreeSet<String> =
            self.sets.in_namespace(namespace).iter().filter_map(|set| set.metadata.name.clone()).collect();
        let sets: Vec<&MachineSet> = sets.iter().map(AsRef::as_ref).collect();
        let machines: Vec<&Machine> = machines.iter().map(AsRef::as_ref).collect();
        let fresh = next_set(deployment, &sets, &taken)?;
        let mut observed = observe(deployment, &sets, &machines, &fresh.name, context.now())?;
        let questions = in_place_questions(&observed);
        let scope = Scope { context, cluster, deployment, sets: &sets, fresh: &fresh, questions: &questions };
        let external = self.external_updaters(deployment, &observed).await?;
        let mut asked = match external.is_held() {
            true => Asked::default(),
            false => self.ask(&scope, &roles(&observed)).await?,
        };
        let in_place =
            asked.said(questions.is_empty() && !machines.iter().any(|machine| is_updating(machine)));
        if let Some(failure) = asked.failure {
            let problems = templates.problems;
            return Ok(Reconciled { problems, in_place, failure: Some(failure), ..Reconciled::default() });
        }
        let external = self
            .ask_external_updaters(
                &scope,
                &machines,
                &templates,
                &external,
                &mut observed,
                &mut asked.answers,
            )
            .await?;
        if external.wait {
            let (problems, external_update, again) = (templates.problems, external.said, external.again);
            return Ok(Reconciled { problems, in_place, external_update, again, ..Reconciled::default() });
        }
        let mut plan = plan(&observed, &asked.answers);
        if let Some(blocked) = &mut plan.blocked {
            blocked.refusals = external.refusals;
        }
        let mut reconciled = Reconciled {
            blocked: plan.blocked.clone(),
            problems: templates.problems,
            new: plan.new.as_ref().map(|new| new.name.clone()),
            in_place,
            external_update: external.said,
            again: external.again,
            ..Reconciled::default()
        };
        // What is going to happen is told before it happens.
        if let (Said::Now(finding), false) =
            (&reconciled.in_place, reconciled.in_place.is_told(&deployment.status.conditions))
        {
            context.event(deployment, EventType::Normal, CAN_UPDATE_IN_PLACE, finding.message.clone());
            reconciled.wrote = true;
            return Ok(reconciled);
        }
        // A MachineSet whose machines cannot be made would only be in the way.
        if plan.create.is_some() && !reconciled.problems.is_empty() {
            return Ok(reconciled);
        }
        reconciled.wrote = write::sets(context, deployment, &sets, &plan, &fresh).await?;
        Ok(reconciled)
    }

    /// Says what was found, whatever it was, and cleans up after a rollout that is over.
    async fn conclude(
        &self,
        context: &Context,
        deployment: &MachineDeployment,
        sets: &[Arc<MachineSet>],
        machines: &[Arc<Machine>],
        reconciled: Result<Reconciled, WorkerError>,
    ) -> Result<Outcome, WorkerError> {
        let (found, error) = match reconciled {
            Ok(mut reconciled) => {
                let failure = reconciled.failure.take();
                (reconciled, failure)
            }
            Err(error) => (Reconciled::default(), Some(error)),
        };
        let set_refs: Vec<&MachineSet> = sets.iter().map(AsRef::as_ref).collect();
        let machine_refs: Vec<&Machine> = machines.iter().map(AsRef::as_ref).collect();
        let selects = selector(&deployment.spec.selector).map(|selector| selector.to_string());
        let mut problems = found.problems.clone();
        problems.extend(error.as_ref().and_then(WorkerError::for_users));
        let after = rollout::status(&StatusFacts {
            deployment,
            sets: &set_refs,
            machines: &machine_refs,
            problems: &problems,
            blocked: found.blocked.as_ref(),
            in_place: &found.in_place,
            external_update: &found.external_update,
            complete: error.is_none(),
            // One that cannot be used is said as a problem.
            selector: selects.as_deref().unwrap_or_default(),
            now: context.now(),
        });
        status::write::<_, _, WorkerError>(&context.writer(), deployment, &deployment.status, &after).await?;
        if let Some(error) = error {
            // A hook that failed has a pace of its own.
            return error.retry_after().map(Outcome::after).ok_or(error);
        }
        if !found.wrote && found.new.is_some() {
            let old = set_refs.iter().filter(|set| set.metadata.name != found.new);
            let leftovers: Vec<Leftover> = old.map(|set| leftover(set)).collect();
            for name in finished_sets(progress(deployment, &after), &leftovers) {
                if let Some(set) = set_refs.iter().find(|set| set.metadata.name.as_ref() == Some(&name)) {
                    context.writer().delete_unchanged(*set).await?;
                    let message = format!("Deleted MachineSet {name}, it has no Machines any more");
                    context.event(deployment, EventType::Normal, "SuccessfulDelete", message);
                }
            }
        }
        // Extensions that leave something open may learn; nothing says when they have.
        let learning = found.blocked.is_some().then_some(ASK_AGAIN);
        // Nothing else says that the time has come to replace machines.
        let until = deployment.spec.rollout.after.as_ref().map(|after| after.0.duration_since(context.now()));
        let wait = until.and_then(|until| Duration::try_from(until).ok()).filter(|until| !until.is_zero());
        // They say when they want to be asked again.
        let external = Outcome::at(found.again, context.now()).wait().map(|until| until.max(PACE));
        let wait = wait.into_iter().chain(learning).chain(external).min();
        Ok(wait.map_or_else(Outcome::done, Outcome::after).resting(rest(machines.len())))
    }

    async fn delete(
        &self,
        context: &Context,
        deployment: &MachineDeployment,
    ) -> Result<Outcome, WorkerError> {
        let sets = self.controlled(deployment)?;
        if sets.is_empty() {
            let finalizers = deployment.metadata.finalizers.iter().flatten();
            if finalizers.into_iter().any(|there| there == MACHINE_DEPLOYMENT_FINALIZER) {
                let patch = without_finalizer(&deployment.metadata, MACHINE_DEPLOYMENT_FINALIZER);
                context.writer().patch(deployment, patch).await?;
            }
            return Ok(Outcome::done());
        }
        for set in sets.iter().filter(|set| set.metadata.deletion_timestamp.is_none()) {
            context.writer().delete(set.as_ref()).await?;
        }
        let machines = self.machines_of(&sets)?;
        self.conclude(context, deployment, &sets, &machines, Ok(Reconciled::default())).await
    }
}

/// Whether what extensions say matters to a MachineDeployment now.
fn waits_for_extensions(deployment: &MachineDeployment) -> bool {
    let conditions = &deployment.status.conditions;
    condition::find(conditions, CAN_UPDATE_IN_PLACE).is_some() || condition::is_true(conditions, ROLLING_OUT)
}

fn leftover(set: &MachineSet) -> Leftover {
    let count = |number: Option<i32>| u32::try_from(number.unwrap_or(0)).unwrap_or(0);
    Leftover {
        name: ObjectKey::of(set).name,
        spec: count(set.replicas()),
        status: count(set.status.replicas),
        observed: set.status.observed_generation >= set.metadata.generation,
        deleting: set.metadata.deletion_timestamp.is_some(),
    }
}
