//! Where an upgrade will stop until its owner lets it go on.
//!
//! The decision is made over and over, as if every step were done at once and every hook let it pass. Where nothing
//! happens any more, what is waited on is what the owner of the Cluster has asked for.

use kube_core::ResourceExt;
use windlass_api::cluster::Cluster;
use windlass_api::hooks::Hook;
use windlass_version::{ParseError, Version};

use super::hooks::{HookAnswer, HookAnswers};
use super::observed::{ControlPlane, GroupObject, Observed, PlanSource, WorkerGroup};
use super::pin::Entry;
use super::plan::{NextStep, Plan};
use super::step_name::StepName;
use super::upgrade::{Decision, Next, decide};
use super::workers::GroupDecision;
use crate::waiting::WaitingOn;

/// How often is decided at most. Each decision takes a step or lifts a hold; there are far fewer of both.
const MOST_DECISIONS: usize = 10_000;

/// A place where an upgrade stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The step that does not start.
    pub before: StepName,
    /// What it waits for.
    pub waiting: WaitingOn,
}

/// All places where an upgrade stops, in their order; each is lifted before the next is looked for. What moves is taken
/// as done, and hooks as passed. An upgrade that has no path stops there for good.
pub fn stops(observed: &Observed) -> Vec<Stop> {
    let mut world = arrived(observed.clone());
    let mut stops = Vec::new();
    for _ in 0..MOST_DECISIONS {
        let decision = decided(&world);
        if advance(&mut world, &decision) {
            continue;
        }
        let Some(waiting) = decision.waiting(&world) else { break };
        let Some(before) = step_before(&world, &decision, &waiting) else { break };
        let is_lifted = lift(&mut world, &decision, &waiting);
        stops.push(Stop { before, waiting });
        if !is_lifted {
            break;
        }
    }
    stops
}

impl Observed {
    /// A Cluster that runs, with everything at one version except worker groups that are kept at another, as its manifest
    /// describes it. What was promised about an earlier upgrade is left out.
    ///
    /// # Errors
    ///
    /// When a worker group is kept at what is no version.
    pub fn of_manifest(
        cluster: &Cluster,
        from: &Version,
        to: &Version,
        source: PlanSource,
    ) -> Result<Self, ParseError> {
        let annotated = Self::with_annotations(to.clone(), cluster);
        let entries = cluster.spec.topology.as_ref().map(Entry::all).unwrap_or_default();
        let group = |entry: &Entry<'_>| -> Result<WorkerGroup, ParseError> {
            let pin = entry.pin()?;
            let object = GroupObject {
                name: entry.name.to_owned(),
                version: Some(pin.as_ref().unwrap_or(from).clone()),
                upgrading: false,
                rolling_out: false,
                blocked: None,
            };
            Ok(WorkerGroup {
                kind: entry.kind,
                topology_name: entry.name.to_owned(),
                in_topology: true,
                defer: entry.defers(),
                hold: entry.holds(),
                pin,
                object: Some(object),
            })
        };
        let control_plane = ControlPlane {
            kind: "ControlPlane".to_owned(),
            name: cluster.name_any(),
            version: from.clone(),
            running: vec![from.clone()],
            unborn: false,
            leaves_step: false,
            updating_in_place: false,
            blocked: None,
        };
        Ok(Self {
            source,
            control_plane: Some(control_plane),
            workers: entries.iter().map(group).collect::<Result<_, _>>()?,
            created: true,
            control_plane_initialized: true,
            steering: annotated.steering,
            concurrency: annotated.concurrency,
            upgrade_holds: annotated.upgrade_holds,
            ..Self::new(to.clone())
        })
    }
}

/// The same with everything that moves where it goes.
fn arrived(mut world: Observed) -> Observed {
    if let Some(control_plane) = &mut world.control_plane {
        control_plane.running = vec![control_plane.version.clone()];
        (control_plane.unborn, control_plane.leaves_step) = (false, false);
        control_plane.updating_in_place = false;
    }
    for object in world.workers.iter_mut().filter_map(|group| group.object.as_mut()) {
        (object.upgrading, object.rolling_out) = (false, false);
    }
    world
}

fn decided(world: &Observed) -> Decision {
    let mut answers = HookAnswers::new();
    loop {
        match decide(world, &answers) {
            Next::Act(decision) => return *decision,
            Next::Call(call) => answers.insert(&call, HookAnswer::Passed),
        }
    }
}

/// Does what a decision says, at once. Tells whether there was anything to do.
fn advance(world: &mut Observed, decision: &Decision) -> bool {
    let before = world.clone();
    world.pending_hooks = decision.pending_hooks.clone();
    world.upgrade_step = decision.upgrade_step.clone();
    world.acknowledged_target = decision.acknowledged_target.clone();
    if let Some(control_plane) = &mut world.control_plane {
        control_plane.version = decision.control_plane.version.clone();
    }
    for decided in &decision.workers {
        let same = |group: &&mut WorkerGroup| is_same(group, decided);
        let object = world.workers.iter_mut().find(same).and_then(|group| group.object.as_mut());
        if let Some(object) = object {
            object.version = Some(decided.version.clone());
        }
    }
    *world = arrived(world.clone());
    *world != before
}

fn is_same(group: &WorkerGroup, decided: &GroupDecision) -> bool {
    group.kind == decided.id.kind && group.topology_name == decided.topology_name
}

/// The step that would start if nothing were waited for.
fn step_before(world: &Observed, decision: &Decision, waiting: &WaitingOn) -> Option<StepName> {
    if let WaitingOn::Approval { step } = waiting {
        return Some(step.clone());
    }
    let held_group = decision.workers.iter().find(|group| group.waiting() == Some(waiting));
    let plan = Plan::compute(world);
    match (plan.next_step(), held_group) {
        (Some(NextStep::ControlPlane { to, .. }), _) => {
            let is_running = world.pending_hooks.contains(Hook::AfterClusterUpgrade);
            let holds_beginning = !is_running && !matches!(waiting, WaitingOn::HeldAt { .. });
            Some(if holds_beginning {
                StepName::Cluster(world.version.clone())
            } else {
                StepName::ControlPlane(to.clone())
            })
        }
        (Some(NextStep::Workers { operations }), None) => {
            operations.first().map(|operation| StepName::Workers(operation.step.to().clone()))
        }
        (Some(NextStep::Workers { .. }) | None, Some(_))
            if decision.control_plane.holds_workers.is_some() =>
        {
            world.control_plane.as_ref().map(|current| StepName::Workers(current.version.clone()))
        }
        (Some(NextStep::Workers { .. }) | None, Some(group)) => {
            let version = group.pin.as_ref().or_else(|| group.stops.first())?;
            let (kind, entry) = (group.id.kind, group.topology_name.clone());
            Some(StepName::Group { kind, entry, version: version.clone() })
        }
        (None, None) => Some(StepName::Cluster(world.version.clone())),
    }
}

/// Takes away what is waited for. Tells whether that is up to the owner of the Cluster.
fn lift(world: &mut Observed, decision: &Decision, waiting: &WaitingOn) -> bool {
    match waiting {
        WaitingOn::Held { .. } => world.steering.hold.take().is_some(),
        WaitingOn::HeldAt { .. } => world.steering.hold_at.take().is_some(),
        WaitingOn::Approval { step } => world.steering.approved.insert(step.to_string()),
        WaitingOn::UpgradeHolds { .. } => !std::mem::take(&mut world.upgrade_holds).is_empty(),
        WaitingOn::Deferred => {
            let deferred = decision.workers.iter().find(|group| group.waiting() == Some(waiting));
            let group =
                deferred.and_then(|deferred| world.workers.iter_mut().find(|group| is_same(group, deferred)));
            group.is_some_and(|group| std::mem::take(&mut group.defer))
        }
        WaitingOn::SequenceHeld { by } => {
            let held = world.workers.iter_mut().find(|group| group.hold && group.topology_name == *by);
            held.is_some_and(|group| std::mem::take(&mut group.hold))
        }
        _ => false,
    }
}
