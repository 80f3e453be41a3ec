//! MachineSet: creates, deletes, adopts, hands over and remediates machines.

mod create;
mod machines;
mod out_of_step;
mod preflight;
mod remediate;
mod sync;
mod update;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};
use windlass_api::names::{
    CLUSTER_NAME_LABEL, MACHINE_SET_FINALIZER, MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION,
};
use windlass_engine::features::Features;
use windlass_engine::machine_set::{
    self, Hold, Observed, Replicas, StatusFacts, annotation, observe, replicas, selector,
};
use windlass_engine::pause::Pause;
use windlass_runtime::{
    Cache, Context, EventType, Lookup, Manager, ObjectKey, Outcome, Reconciler, owner_reference,
};

use crate::external::Externals;
use crate::pause;
use crate::references::part_names;
use crate::status;
use crate::worker_group::{
    Marks, PACE, Templates, WorkerError, controller, rest, uses_template, without_finalizer,
};

use out_of_step::OutOfStep;

/// When checks that failed are made again. There is no event when a control plane becomes stable.
const PREFLIGHT_AGAIN: Duration = Duration::from_secs(15);

/// Registers the controller.
pub fn register(manager: &Manager, externals: &Externals, features: Features) {
    let sets: Cache<MachineSet> = manager.cache();
    let (machines, clusters): (Cache<Machine>, Cache<Cluster>) = (manager.cache(), manager.cache());
    let (selecting, of_cluster, of_object) = (sets.clone(), sets.clone(), sets.clone());
    let planes = clusters.clone();
    let kind = sets.kind().clone();
    let by_part = machines.lookup(part_names);
    let out_of_step = OutOfStep::default();
    let (changed, part_changed, parts) = (out_of_step.clone(), out_of_step.clone(), by_part.clone());
    let controller = Sets {
        sets: sets.clone(),
        machines: machines.clone(),
        by_part,
        out_of_step,
        clusters: clusters.clone(),
        deployments: manager.cache(),
        externals: externals.clone(),
        features,
    };
    manager
        .controller("machineset", &sets)
        .watches(&machines, move |machine| {
            let sets = interested(&selecting, machine);
            changed.note(&sets, &machine.name_any());
            sets
        })
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
            for machine in parts.find(&key.namespace, &key.name) {
                part_changed.note(&controlling(&machine), &machine.name_any());
            }
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
    if controller(&machine.metadata).is_some() {
        return controlling(machine);
    }
    let namespace = ObjectKey::of(machine).namespace;
    let labels = machine.labels();
    let selects =
        |set: &MachineSet| selector(&set.spec.selector).is_ok_and(|selector| selector.matches(labels));
    let all = sets.in_namespace(&namespace).into_iter();
    all.filter(|set| selects(set)).map(|set| ObjectKey::of(set.as_ref())).collect()
}

/// The MachineSet that controls a machine, if it is one.
fn controlling(machine: &Machine) -> Vec<ObjectKey> {
    let owner = controller(&machine.metadata).filter(|owner| owner.kind == MachineSet::KIND);
    owner.map(|owner| ObjectKey::new(ObjectKey::of(machine).namespace, &owner.name)).into_iter().collect()
}

struct Sets {
    sets: Cache<MachineSet>,
    machines: Cache<Machine>,
    /// Machines by the names of what they point to.
    by_part: Lookup<Machine>,
    out_of_step: OutOfStep,
    clusters: Cache<Cluster>,
    deployments: Cache<MachineDeployment>,
    externals: Externals,
    features: Features,
}

/// What one reconcile is about.
struct Scope<'a> {
    context: &'a Context,
    cluster: &'a Cluster,
    set: &'a MachineSet,
}

/// What one reconcile has led to.
#[derive(Default)]
struct Reconciled {
    problems: Vec<String>,
    hold: Option<Hold>,
    /// Machines that are too many and cannot go yet, a line each.
    held: Vec<String>,
    /// Whether machines are still missing after those that were created: the next batch does not wait.
    is_growing: bool,
}

impl Reconciler for Sets {
    type Error = WorkerError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WorkerError> {
        let Some(set) = self.sets.get(key) else {
            self.out_of_step.forget(key);
            return Ok(Outcome::done());
        };
        let cluster = self.clusters.get(&ObjectKey::new(&key.namespace, &set.spec.cluster_name));
        if let Some(pause) = Pause::of(&set.metadata, cluster.as_deref()) {
            return Ok(pause::say(context, set.as_ref(), &set.status.conditions, pause).await?);
        }
        if set.metadata.deletion_timestamp.is_some() {
            return self.delete(context, &set).await;
        }
        // It is reconciled again when its Cluster turns up.
        let Some(cluster) = cluster else { return Ok(Outcome::done()) };
        let marks = Marks {
            finalizer: MACHINE_SET_FINALIZER,
            labels: BTreeMap::from([(CLUSTER_NAME_LABEL, set.spec.cluster_name.as_str())]),
            // One without a controller goes with its Cluster.
            owner: match controller(&set.metadata) {
                Some(_) => None,
                None => Some(owner_reference(cluster.as_ref())?),
            },
        };
        if let Some(patch) = marks.missing(&set.metadata) {
            context.writer().patch(set.as_ref(), patch).await?;
            return Ok(Outcome::done());
        }
        let scope = Scope { context, cluster: &cluster, set: &set };
        let machines = self.belonging(&scope).await?;
        let reconciled = self.reconcile_active(&scope, &machines).await;
        self.conclude(context, &set, &machines, reconciled).await
    }
}

impl Sets {
    async fn reconcile_active(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
    ) -> Result<Reconciled, WorkerError> {
        let templates =
            Templates::read(&self.externals, scope.context, scope.cluster, &scope.set.spec.template).await?;
        let observed = self.observed(scope, machines);
        let preflight = self.preflight(scope, &templates, &observed).await?;
        let remediated = self.remediate(scope, machines, &observed, &preflight).await;
        self.sync(scope, machines).await?;
        // What was deleted just now is not in the list as such: who else goes is decided at the next reconcile.
        if remediated? || scope.set.replicas().is_none() {
            return Ok(Reconciled { problems: templates.problems, ..Reconciled::default() });
        }
        self.start_updates(scope, &templates, machines, &observed).await?;
        let decided = replicas(&observed, &preflight)?;
        let missing = match &decided {
            Replicas::Create { count } if templates.problems.is_empty() => *count,
            _ => 0,
        };
        let begun = self.begun(scope, missing).await?;
        let mut reconciled = Reconciled { problems: templates.problems.clone(), ..Reconciled::default() };
        match decided {
            Replicas::Settled => {}
            Replicas::Hold { why, .. } => reconciled.hold = Some(why),
            // Without templates nothing can be made; the condition names them.
            Replicas::Create { .. } if !templates.problems.is_empty() => {}
            Replicas::Create { count } => {
                self.create(scope, &templates, count, begun).await?;
                let there = u32::try_from(observed.machines.len()).unwrap_or(u32::MAX);
                reconciled.is_growing = there.saturating_add(count) < observed.replicas;
            }
            Replicas::Delete { machines: names } => self.delete_machines(scope, machines, &names).await?,
            Replicas::Move(handover) => {
                self.delete_machines(scope, machines, &handover.delete).await?;
                self.hand_over(scope, machines, &handover).await?;
                reconciled.held = handover.passed_over.iter().map(ToString::to_string).collect();
            }
        }
        Ok(reconciled)
    }

    fn observed(&self, scope: &Scope<'_>, machines: &[Arc<Machine>]) -> Observed {
        let target = self.target(scope.set);
        let machines: Vec<&Machine> = machines.iter().map(AsRef::as_ref).collect();
        observe(scope.set, &machines, target.as_deref(), scope.context.now())
    }

    /// The MachineSet that machines are handed over to, if it exists.
    fn target(&self, set: &MachineSet) -> Option<Arc<MachineSet>> {
        let name = annotation(&set.metadata, MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION)?;
        let namespace = &ObjectKey::of(set).namespace;
        self.sets.get(&ObjectKey::new(namespace, name))
    }

    /// Says what was found, whatever it was.
    async fn conclude(
        &self,
        context: &Context,
        set: &MachineSet,
        machines: &[Arc<Machine>],
        reconciled: Result<Reconciled, WorkerError>,
    ) -> Result<Outcome, WorkerError> {
        let (found, error) = match reconciled {
            Ok(reconciled) => (reconciled, None),
            Err(error) => (Reconciled::default(), Some(error)),
        };
        let machines: Vec<&Machine> = machines.iter().map(AsRef::as_ref).collect();
        let selects = selector(&set.spec.selector).map(|selector| selector.to_string());
        let mut problems = found.problems.clone();
        let mut held = found.held.clone();
        match &error {
            Some(error @ WorkerError::Handover(_)) => held.push(error.to_string()),
            Some(error) => problems.extend(error.for_users().map(|text| context.steady(text))),
            None => {}
        }
        let after = machine_set::status(&StatusFacts {
            set,
            machines: &machines,
            problems: &problems,
            hold: found.hold.as_ref(),
            held: &held,
            complete: error.is_none(),
            selector: selects.as_deref().unwrap_or_default(),
            now: context.now(),
        });
        status::write::<_, _, WorkerError>(&context.writer(), set, &set.status, &after).await?;
        let outcome = match error {
            Some(error) => return Err(error),
            None if matches!(found.hold, Some(Hold::Preflight(_))) => Outcome::after(PREFLIGHT_AGAIN),
            None if found.is_growing => return Ok(Outcome::done()),
            None => Outcome::done(),
        };
        Ok(outcome.resting(rest(machines.len())))
    }

    async fn delete(&self, context: &Context, set: &MachineSet) -> Result<Outcome, WorkerError> {
        let machines = self.controlled(set)?;
        if machines.is_empty() {
            if set.metadata.finalizers.iter().flatten().any(|there| there == MACHINE_SET_FINALIZER) {
                let patch = without_finalizer(&set.metadata, MACHINE_SET_FINALIZER);
                context.writer().patch(set, patch).await?;
            }
            return Ok(Outcome::done());
        }
        for machine in machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()) {
            context.writer().delete(machine.as_ref()).await?;
            let name = machine.name_any();
            context.event(set, EventType::Normal, "SuccessfulDelete", format!("Deleted Machine {name}"));
        }
        self.conclude(context, set, &machines, Ok(Reconciled::default())).await
    }
}
