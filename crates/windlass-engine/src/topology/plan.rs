//! The upgrade plan, computed anew from live state whenever something is decided.

use std::fmt;

use windlass_api::hooks::Hook;
use windlass_plan::{
    GroupName, HooksPassed, Operation, PlanRequest, Refusal, Source, Step, UpgradeHook, UpgradePlan,
    Violation, plan,
};
use windlass_version::Version;

use super::observed::{Observed, PlanSource, WorkerGroup};
use crate::pending_hooks::PendingHooks;

/// What remains to be done, or why nothing can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// There is no control plane yet, or everything is at the target.
    NotNeeded,
    /// The steps that remain.
    Steps(Box<UpgradePlan>),
    /// There is no safe way.
    None(NoPath),
}

/// The first of the plan's operations that is not done.
#[derive(Clone, Copy, Debug)]
pub(super) enum NextStep<'a> {
    /// The control plane goes to a version.
    ControlPlane {
        /// The version.
        to: &'a Version,
        /// The operation.
        operation: &'a Operation,
    },
    /// Worker groups go to the version of the control plane. Which of them now, and how many at a time, is not the plan's
    /// to say: groups are deferred and held by annotations.
    Workers {
        /// One operation per group.
        operations: &'a [Operation],
    },
}

impl NextStep<'_> {
    /// Whether the plan puts a hook around the step.
    pub(super) fn has(&self, hook: Hook) -> bool {
        let operations = match self {
            Self::ControlPlane { operation, .. } => std::slice::from_ref(*operation),
            Self::Workers { operations } => operations,
        };
        operations.iter().flat_map(|operation| &operation.hooks).any(|placed| hook_of(*placed) == hook)
    }
}

/// Why there is no way to the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPath {
    /// The planner refused.
    Refused(Refusal),
    /// The source of versions is not known.
    SourceUnavailable(String),
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => {
                write!(f, "no upgrade path: {refusal}")?;
                refusal.violations.iter().try_for_each(|violation| match violation {
                    Violation::Downgrade { control_plane, .. } => {
                        write!(f, "; set spec.topology.version to {control_plane} or newer")
                    }
                    _ => Ok(()),
                })
            }
            Self::SourceUnavailable(reason) => write!(f, "no upgrade plan: {reason}"),
        }
    }
}

/// What an extension that plans is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanQuery {
    /// Version of the control plane.
    pub control_plane: Version,
    /// Oldest version of the workers, if there are any.
    pub workers: Option<Version>,
    /// Where everything shall go.
    pub target: Version,
}

impl PlanQuery {
    /// The question, if an answer is needed at all.
    pub fn of(observed: &Observed) -> Option<Self> {
        let control_plane = &observed.control_plane.as_ref()?.version;
        let mut taking_part = observed.workers.iter().filter(|group| !group.is_pinned());
        let at_target = control_plane == &observed.version
            && taking_part.all(|group| group.version().is_none_or(|at| at == &observed.version));
        (!at_target).then(|| Self {
            control_plane: control_plane.clone(),
            workers: observed.oldest_workers().cloned(),
            target: observed.version.clone(),
        })
    }
}

impl Plan {
    /// Plans from what is observed.
    pub fn compute(observed: &Observed) -> Self {
        let Some(query) = PlanQuery::of(observed) else {
            return Self::NotNeeded;
        };
        match &observed.source {
            PlanSource::Unavailable(reason) => Self::None(NoPath::SourceUnavailable(reason.clone())),
            PlanSource::Known(source) => match plan(&request(observed, &query, source.clone())) {
                Ok(steps) => Self::Steps(Box::new(steps)),
                Err(refusal) => Self::None(NoPath::Refused(refusal)),
            },
        }
    }

    /// Whether a plan from elsewhere can be followed from here. For callers that remember only good answers.
    pub fn check(observed: &Observed, source: Source) -> Result<(), Refusal> {
        match PlanQuery::of(observed) {
            Some(query) => plan(&request(observed, &query, source)).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Versions that the control plane still goes through.
    pub fn control_plane(&self) -> &[Version] {
        match self {
            Self::Steps(steps) => &steps.control_plane,
            Self::NotNeeded | Self::None(_) => &[],
        }
    }

    /// Versions that any group still goes through, in order.
    pub fn workers(&self) -> Vec<Version> {
        match self {
            Self::Steps(steps) => steps.workers_union(),
            Self::NotNeeded | Self::None(_) => Vec::new(),
        }
    }

    /// What happens next, in the order of the plan.
    pub(super) fn next_step(&self) -> Option<NextStep<'_>> {
        let (first, _) = self.operations().split_first()?;
        Some(match &first.step {
            Step::ControlPlane { to, .. } => NextStep::ControlPlane { to, operation: first },
            Step::Workers { .. } => NextStep::Workers { operations: run_of_workers(self.operations()) },
        })
    }

    /// The hooks that the step of the control plane promises: those after it, and those around the workers that follow
    /// it. They must be on record before it begins.
    pub(super) fn promised_by_control_plane(&self) -> impl Iterator<Item = Hook> {
        let called_before = [Hook::BeforeClusterUpgrade, Hook::BeforeControlPlaneUpgrade];
        let operations = self.operations();
        let workers = run_of_workers(operations.get(1..).unwrap_or_default());
        let around = operations.iter().take(1).chain(workers).flat_map(|operation| &operation.hooks);
        around.map(|hook| hook_of(*hook)).filter(move |hook| !called_before.contains(hook))
    }

    /// Whether BeforeClusterUpgrade is still to be called for a step of the plan, now or later.
    pub(super) fn has_before_cluster_upgrade(&self) -> bool {
        let mut hooks = self.operations().iter().flat_map(|operation| &operation.hooks);
        hooks.any(|hook| *hook == UpgradeHook::BeforeClusterUpgrade)
    }

    /// The version that a group goes to before the control plane moves on, if it does.
    pub(super) fn due(&self, group: &WorkerGroup) -> Option<&Version> {
        let name = group_name(group);
        let operation =
            run_of_workers(self.operations()).iter().find(|operation| operation.step.group() == Some(&name));
        operation.map(|operation| operation.step.to())
    }

    fn operations(&self) -> &[Operation] {
        match self {
            Self::Steps(steps) => &steps.operations,
            Self::NotNeeded | Self::None(_) => &[],
        }
    }

    /// The versions that a group still goes through.
    pub fn stops(&self, group: &WorkerGroup) -> &[Version] {
        let Self::Steps(steps) = self else { return &[] };
        let name = group_name(group);
        steps.workers.iter().find(|row| row.group == name).map_or(&[], |row| &row.stops)
    }

    /// Why there is no way, if so.
    pub const fn no_path(&self) -> Option<&NoPath> {
        match self {
            Self::None(no_path) => Some(no_path),
            Self::NotNeeded | Self::Steps(_) => None,
        }
    }
}

fn request(observed: &Observed, query: &PlanQuery, source: Source) -> PlanRequest {
    let groups =
        observed.workers.iter().filter_map(|group| Some(planned(group, group_name(group), group.version()?)));
    PlanRequest::new(query.control_plane.clone(), query.target.clone())
        .with_workers(groups)
        .with_source(source)
        .with_hooks_passed(hooks_passed(&observed.pending_hooks))
        .with_acknowledged_target(observed.acknowledged_target.clone())
}

/// A group as the planner sees it. A pinned one goes to its pin by itself, so that is where it counts.
pub(crate) fn planned(group: &WorkerGroup, name: GroupName, version: &Version) -> windlass_plan::WorkerGroup {
    match &group.pin {
        Some(pin) if pin.compare(version).is_progress() => {
            windlass_plan::WorkerGroup::new(name, pin.clone()).pinned()
        }
        Some(_) => windlass_plan::WorkerGroup::new(name, version.clone()).pinned(),
        None => windlass_plan::WorkerGroup::new(name, version.clone()),
    }
}

/// A hook before something has passed when the one after it is on record, and it is not itself.
fn hooks_passed(pending: &PendingHooks) -> HooksPassed {
    HooksPassed {
        before_cluster_upgrade: pending.contains(Hook::AfterClusterUpgrade),
        before_workers_upgrade: pending.contains(Hook::AfterWorkersUpgrade)
            && !pending.contains(Hook::BeforeWorkersUpgrade),
    }
}

/// The worker groups at the beginning of some operations, up to the next step of the control plane.
fn run_of_workers(operations: &[Operation]) -> &[Operation] {
    let is_of_workers = |operation: &Operation| operation.step.group().is_some();
    let end = operations.iter().position(|operation| !is_of_workers(operation)).unwrap_or(operations.len());
    &operations[..end]
}

/// The hook of the Runtime SDK.
const fn hook_of(hook: UpgradeHook) -> Hook {
    match hook {
        UpgradeHook::BeforeClusterUpgrade => Hook::BeforeClusterUpgrade,
        UpgradeHook::BeforeControlPlaneUpgrade => Hook::BeforeControlPlaneUpgrade,
        UpgradeHook::AfterControlPlaneUpgrade => Hook::AfterControlPlaneUpgrade,
        UpgradeHook::BeforeWorkersUpgrade => Hook::BeforeWorkersUpgrade,
        UpgradeHook::AfterWorkersUpgrade => Hook::AfterWorkersUpgrade,
        UpgradeHook::AfterClusterUpgrade => Hook::AfterClusterUpgrade,
    }
}

/// Unique over both kinds.
fn group_name(group: &WorkerGroup) -> GroupName {
    group.id().to_string().into()
}
