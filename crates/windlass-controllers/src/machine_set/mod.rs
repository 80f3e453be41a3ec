//! MachineSet: creates, deletes, adopts, hands over and remediates machines.

mod create;
mod machines;
mod preflight;
mod remediate;
mod sync;
mod update;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};
use windlass_api::conditions::{PAUSED, reason};
use windlass_api::names::{
    CLUSTER_NAME_LABEL, MACHINE_SET_FINALIZER, MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION,
};
use windlass_engine::condition::{self, Finding};
use windlass_engine::machine_set::{
    self, Hold, Observed, Replicas, StatusFacts, annotation, observe, replicas, selector,
};
use windlass_reconcile::{Cache, Context, EventType, Lookup, Manager, ObjectKey, Outcome, Reconciler};

use crate::external::Externals;
use crate::references::part_names;
use crate::worker_group::{
    Marks, PACE, Templates, WorkerError, controller, is_paused, owned_by_cluster, rest, uses_template,
    without_finalizer, write_status,
};
use sync::InStep;

/// When checks that failed are made again. Nobody says when a control plane becomes stable.
const PREFLIGHT_AGAIN: Duration = Duration::from_secs(15);

/// Registers the controller.
pub fn register(manager: &Manager, externals: &Externals) {
    let sets: Cache<MachineSet> = manager.cache();
    let (machines, clusters): (Cache<Machine>, Cache<Cluster>) = (manager.cache(), manager.cache());
    let (selecting, of_cluster, of_object) = (sets.clone(), sets.clone(), sets.clone());
    let planes = clusters.clone();
    let kind = sets.kind().clone();
    let controller = Sets {
        sets: sets.clone(),
        machines: machines.clone(),
        by_part: machines.lookup(part_names),
        clusters: clusters.clone(),
        deployments: manager.cache(),
        externals: externals.clone(),
        in_step: InStep::default(),
    };
    manager
        .controller("machineset", &sets)
        .watches(&machines, move |machine| interested(&selecting, machine))
        .watches(&clusters, move |cluster| {
            let key = ObjectKey::of(cluster);
            let of = of_cluster.in_namespace(&key.namespace).into_iter();
            of.filter(|set| set.spec.cluster_name == key.name)
                .map(|set| ObjectKey::of(set.as_ref()))
                .collect()
        })
        .on_dynamic(move |object| {
            let key = ObjectKey::of(object);
            let name = object.types.as_ref().map_or("", |types| types.kind.as_str());
            // Machines may wait for a control plane.
            let steered: Vec<String> = planes
                .in_namespace(&key.namespace)
                .iter()
                .filter(|cluster| {
                    let plane = cluster.spec.control_plane_ref.as_ref();
                    plane.is_some_and(|plane| plane.kind == name && plane.name == key.name)
                })
                .filter_map(|cluster| cluster.metadata.name.clone())
                .collect();
            let concerned = of_object.in_namespace(&key.namespace).into_iter().filter(|set| {
                uses_template(&set.spec.template, name, &key.name) || steered.contains(&set.spec.cluster_name)
            });
            concerned.map(|set| ObjectKey::of(set.as_ref())).chain(kind.owners_of(object)).collect()
        })
        .pace(PACE)
        .register(controller);
}

/// The MachineSet that controls a machine, or else those that select it.
fn interested(sets: &Cache<MachineSet>, machine: &Machine) -> Vec<ObjectKey> {
    let namespace = machine.metadata.namespace.clone().unwrap_or_default();
    if let Some(owner) = controller(&machine.metadata) {
        let is_set = owner.kind == MachineSet::KIND;
        return is_set.then(|| ObjectKey::new(namespace, &owner.name)).into_iter().collect();
    }
    let labels = machine.metadata.labels.clone().unwrap_or_default();
    let selects =
        |set: &MachineSet| selector(&set.spec.selector).is_ok_and(|selector| selector.matches(&labels));
    let all = sets.in_namespace(&namespace).into_iter();
    all.filter(|set| selects(set)).map(|set| ObjectKey::of(set.as_ref())).collect()
}

struct Sets {
    sets: Cache<MachineSet>,
    machines: Cache<Machine>,
    /// Machines by the names of what they point to.
    by_part: Lookup<Machine>,
    clusters: Cache<Cluster>,
    deployments: Cache<MachineDeployment>,
    externals: Externals,
    in_step: InStep,
}

/// What a MachineSet is looked at with.
struct Look<'a> {
    context: &'a Context,
    cluster: &'a Cluster,
    set: &'a MachineSet,
}

/// What one look has led to.
#[derive(Default)]
struct Looked {
    obstacles: Vec<String>,
    hold: Option<Hold>,
    /// Machines that are too many and cannot go yet, a line each.
    held: Vec<String>,
}

impl Reconciler for Sets {
    type Error = WorkerError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WorkerError> {
        let Some(set) = self.sets.get(key) else { return Ok(Outcome::done()) };
        let cluster = self.clusters.get(&ObjectKey::new(&key.namespace, &set.spec.cluster_name));
        if is_paused(cluster.as_deref(), &set.metadata) {
            return self.say_paused(context, &set).await;
        }
        if set.metadata.deletion_timestamp.is_some() {
            return self.delete(context, &set).await;
        }
        // It is looked at again when its Cluster turns up.
        let Some(cluster) = cluster else { return Ok(Outcome::done()) };
        let marks = Marks {
            finalizer: MACHINE_SET_FINALIZER,
            labels: BTreeMap::from([(CLUSTER_NAME_LABEL, set.spec.cluster_name.as_str())]),
            // One that nobody controls goes with its Cluster.
            owner: controller(&set.metadata).is_none().then(|| owned_by_cluster(&cluster)),
        };
        if let Some(patch) = marks.missing(&set.metadata) {
            context.writer().patch(set.as_ref(), patch).await?;
            return Ok(Outcome::done());
        }
        let look = Look { context, cluster: &cluster, set: &set };
        let machines = self.belonging(&look).await?;
        let looked = self.look_after(&look, &machines).await;
        self.conclude(context, &set, &machines, looked).await
    }
}

impl Sets {
    async fn look_after(&self, look: &Look<'_>, machines: &[Arc<Machine>]) -> Result<Looked, WorkerError> {
        let templates =
            Templates::read(&self.externals, look.context, look.cluster, &look.set.spec.template).await?;
        let observed = self.observed(look, machines);
        let preflight = self.preflight(look, &templates, &observed).await?;
        let remediated = self.remediate(look, machines, &observed, &preflight).await;
        self.sync(look, machines).await?;
        // What was deleted just now is not in the list as such: who else goes is decided at the next look.
        if remediated? || look.set.spec.replicas.is_none() {
            return Ok(Looked { obstacles: templates.obstacles, ..Looked::default() });
        }
        self.start_updates(look, &templates, machines, &observed).await?;
        let decided = replicas(&observed, &preflight)?;
        let missing = match &decided {
            Replicas::Create { count } if templates.obstacles.is_empty() => *count,
            _ => 0,
        };
        let begun = self.begun(look, missing).await?;
        let mut looked = Looked { obstacles: templates.obstacles.clone(), ..Looked::default() };
        match decided {
            Replicas::Settled => {}
            Replicas::Hold { why, .. } => looked.hold = Some(why),
            // Without templates nothing can be made; the condition names them.
            Replicas::Create { .. } if !templates.obstacles.is_empty() => {}
            Replicas::Create { count } => self.create(look, &templates, count, begun).await?,
            Replicas::Delete { machines: names } => self.delete_machines(look, machines, &names).await?,
            Replicas::Move(handover) => {
                self.delete_machines(look, machines, &handover.delete).await?;
                self.hand_over(look, machines, &handover).await?;
                looked.held = handover.passed_over.iter().map(ToString::to_string).collect();
            }
        }
        Ok(looked)
    }

    fn observed(&self, look: &Look<'_>, machines: &[Arc<Machine>]) -> Observed {
        let target = self.target(look.set);
        let machines: Vec<&Machine> = machines.iter().map(AsRef::as_ref).collect();
        observe(look.set, &machines, target.as_deref(), look.context.now())
    }

    /// The MachineSet that machines are handed over to, if it exists.
    fn target(&self, set: &MachineSet) -> Option<Arc<MachineSet>> {
        let name = annotation(&set.metadata, MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION)?;
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        self.sets.get(&ObjectKey::new(namespace, name))
    }

    /// Says what was found, whatever it was.
    async fn conclude(
        &self,
        context: &Context,
        set: &MachineSet,
        machines: &[Arc<Machine>],
        looked: Result<Looked, WorkerError>,
    ) -> Result<Outcome, WorkerError> {
        let (found, error) = match looked {
            Ok(looked) => (looked, None),
            Err(error) => (Looked::default(), Some(error)),
        };
        let machines: Vec<&Machine> = machines.iter().map(AsRef::as_ref).collect();
        let selects = selector(&set.spec.selector).map(|selector| selector.to_string());
        let mut obstacles = found.obstacles.clone();
        let mut held = found.held.clone();
        match &error {
            Some(error @ WorkerError::Handover(_)) => held.push(error.to_string()),
            Some(error) => obstacles.extend(error.for_users()),
            None => {}
        }
        let after = machine_set::status(&StatusFacts {
            set,
            machines: &machines,
            obstacles: &obstacles,
            hold: found.hold.as_ref(),
            held: &held,
            complete: error.is_none(),
            selector: selects.as_deref().unwrap_or_default(),
            now: context.now(),
        });
        write_status(&context.writer(), set, &set.status, &after).await?;
        let outcome = match error {
            Some(error) => return Err(error),
            None if matches!(found.hold, Some(Hold::Preflight(_))) => Outcome::after(PREFLIGHT_AGAIN),
            None => Outcome::done(),
        };
        Ok(outcome.resting(rest(machines.len())))
    }

    async fn delete(&self, context: &Context, set: &MachineSet) -> Result<Outcome, WorkerError> {
        self.in_step.forget(set);
        let machines = self.controlled(set);
        if machines.is_empty() {
            if set.metadata.finalizers.iter().flatten().any(|there| there == MACHINE_SET_FINALIZER) {
                let patch = without_finalizer(&set.metadata, MACHINE_SET_FINALIZER);
                context.writer().patch(set, patch).await?;
            }
            return Ok(Outcome::done());
        }
        for machine in machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()) {
            context.writer().delete(machine.as_ref()).await?;
            let name = machine.metadata.name.as_deref().unwrap_or_default();
            context.event(set, EventType::Normal, "SuccessfulDelete", format!("Deleted Machine {name}"));
        }
        self.conclude(context, set, &machines, Ok(Looked::default())).await
    }

    async fn say_paused(&self, context: &Context, set: &MachineSet) -> Result<Outcome, WorkerError> {
        let mut after = set.status.clone();
        let paused = Finding::yes(PAUSED, reason::PAUSED);
        condition::set(&mut after.conditions, paused, set.metadata.generation, context.now());
        write_status(&context.writer(), set, &set.status, &after).await?;
        Ok(Outcome::done())
    }
}
