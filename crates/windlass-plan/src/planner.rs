//! From a request to the finished plan.

use windlass_version::{Comparison, Distance, MAX_KUBELET_MINORS_BEHIND, Version};

use crate::control_plane::{self, same};
use crate::input_hash::InputHash;
use crate::operation::{Operation, Reason, Step, UpgradeHook};
use crate::proof::prove;
use crate::request::{GroupName, HooksPassed, PlanRequest, Source, SourceKind, WorkerGroup};
use crate::violation::{PlanPart, Refusal, Violation};
use crate::workers;

/// A complete plan: what happens, in which order, how far apart versions get, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradePlan {
    /// Version of the control plane at the start.
    pub from: Version,
    /// The worker groups and their versions at the start, in their order.
    pub workers_from: Vec<WorkerGroup>,
    /// The version that everything reaches.
    pub to: Version,
    /// Where the versions in between came from.
    pub source: SourceKind,
    /// The control plane's versions, the target included, the current one not.
    pub control_plane: Vec<Version>,
    /// The stops of every worker group, in the order of the groups.
    pub workers: Vec<GroupPlan>,
    /// The steps in the order of their execution.
    pub operations: Vec<Operation>,
    /// The largest skew at any point, in minors, the start included.
    pub worst_skew: u64,
    /// Identity of the plan.
    pub input_hash: InputHash,
}

/// The stops of one worker group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// Name of the group.
    pub group: GroupName,
    /// The versions it is upgraded to, the target included, the current one not.
    pub stops: Vec<Version>,
}

impl UpgradePlan {
    /// The workers plan as hooks and the Cluster's status show it: every version that at least one group
    /// stops at, in order.
    pub fn workers_union(&self) -> Vec<Version> {
        std::iter::once(&self.from)
            .chain(&self.control_plane)
            .filter(|version| self.workers.iter().any(|row| row.stops.iter().any(|stop| same(stop, version))))
            .cloned()
            .collect()
    }

    /// The control plane versions that a group does not stop at, in order: those it skips. A version the
    /// group has reached or passed before the start is not skipped, and a pinned group skips none: it takes no part.
    pub fn skipped_by(&self, row: &GroupPlan) -> Vec<&Version> {
        let start = self.workers_from.iter().find(|group| group.name == row.group && !group.pinned);
        self.control_plane
            .iter()
            .filter(|version| !row.stops.iter().any(|stop| same(stop, version)))
            .filter(|version| start.is_some_and(|start| version.compare(&start.version).is_progress()))
            .collect()
    }
}

/// Plans an upgrade, or says everything that stands in its way.
pub fn plan(request: &PlanRequest) -> Result<UpgradePlan, Refusal> {
    let PlanRequest { control_plane, workers: groups, target, source, .. } = request;
    let mut violations = Vec::new();

    check_target(control_plane, target, &mut violations);
    workers::check_start(control_plane, target, groups, &mut violations);

    let chain = control_plane_chain(request, violations.is_empty(), &mut violations);
    let passed: Vec<&Version> = std::iter::once(control_plane).chain(&chain).collect();
    let given = match source {
        Source::Given { workers: texts, .. } => {
            let read = control_plane::read_plan(PlanPart::Workers, texts, &mut violations);
            workers::check_given(control_plane, target, groups, &passed, &read, &mut violations);
            read.into_iter().map(|(_, version)| version).collect()
        }
        _ => Vec::new(),
    };
    if !violations.is_empty() {
        return Err(Refusal { violations });
    }

    let rows: Vec<GroupPlan> = groups
        .iter()
        .map(|group| GroupPlan {
            group: group.name.clone(),
            stops: if group.pinned {
                Vec::new()
            } else if given.is_empty() {
                workers::infer_stops(&group.version, target, &passed)
            } else {
                workers::given_stops(&group.version, target, &given)
            },
        })
        .collect();

    let mut operations = order_operations(request, &passed, &rows);
    place_hooks(request, &mut operations);
    let proof = prove(control_plane, groups, operations.iter().map(|operation| &operation.step))
        .map_err(|broken| Refusal { violations: vec![Violation::NotProven(broken)] })?;
    for (operation, skew) in operations.iter_mut().zip(&proof.skews) {
        operation.skew = *skew;
        if let Reason::WorkersSkip { behind } = &mut operation.reason {
            *behind = *skew;
        }
    }
    Ok(UpgradePlan {
        from: control_plane.clone(),
        workers_from: groups.clone(),
        to: target.clone(),
        source: source.kind(),
        control_plane: chain,
        workers: rows,
        operations,
        worst_skew: proof.worst,
        input_hash: InputHash::of(request),
    })
}

fn check_target(control_plane: &Version, target: &Version, violations: &mut Vec<Violation>) {
    let (control_plane, target) = (control_plane.clone(), target.clone());
    if control_plane.minor().distance_to(target.minor()) == Distance::OtherMajor {
        violations.push(Violation::TargetOfOtherMajor { control_plane, target });
    } else if target.compare(&control_plane) == Comparison::Less {
        violations.push(Violation::Downgrade { control_plane, target });
    }
}

/// The control plane's versions. `reachable` says whether the ends are in order: looking for a way
/// between ends that are not would only repeat that they are not.
fn control_plane_chain(
    request: &PlanRequest,
    reachable: bool,
    violations: &mut Vec<Violation>,
) -> Vec<Version> {
    let PlanRequest { control_plane: from, target, .. } = request;
    match &request.source {
        Source::OneMinor if reachable => control_plane::one_minor(from, target, violations),
        Source::Versions(list) if reachable => control_plane::from_list(from, target, list, violations),
        Source::OneMinor | Source::Versions(_) => Vec::new(),
        Source::Given { control_plane: texts, .. } => {
            let before = violations.len();
            let read = control_plane::read_plan(PlanPart::ControlPlane, texts, violations);
            let unreadable = violations.len() > before;
            control_plane::check_given(from, target, &read, unreadable, violations);
            read.into_iter().map(|(_, version)| version).collect()
        }
    }
}

/// Interleaves control plane steps and worker steps: workers move as soon as the control plane is at the
/// version they stop at, and the control plane goes on when all of them have.
fn order_operations(request: &PlanRequest, passed: &[&Version], rows: &[GroupPlan]) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut at: Vec<&Version> = request.workers.iter().map(|group| &group.version).collect();
    let mut next_stop = vec![0; rows.len()];
    let taking_part = request.workers.iter().filter(|group| !group.pinned).count();
    for (place, version) in passed.iter().enumerate() {
        let stopping: Vec<usize> = rows
            .iter()
            .enumerate()
            .filter(|(row, plan)| plan.stops.get(next_stop[*row]).is_some_and(|stop| same(stop, version)))
            .map(|(row, _)| row)
            .collect();
        if place > 0 {
            operations.push(Operation {
                step: Step::ControlPlane { from: passed[place - 1].clone(), to: (*version).clone() },
                skew: 0,
                hooks: Vec::new(),
                reason: match (taking_part, stopping.len()) {
                    _ if rows.is_empty() => Reason::NoWorkers,
                    (0, _) => Reason::AllPinned { groups: rows.len() },
                    (_, 0) => Reason::WorkersSkip { behind: 0 },
                    (all, groups) => Reason::WorkersFollow { groups, skipping: all - groups },
                },
            });
        }
        for row in stopping {
            let stop = &rows[row].stops[next_stop[row]];
            operations.push(Operation {
                step: Step::Workers {
                    group: rows[row].group.clone(),
                    from: at[row].clone(),
                    to: stop.clone(),
                },
                skew: 0,
                hooks: Vec::new(),
                reason: why_stop(at[row], stop, &request.target, &passed[place + 1..]),
            });
            at[row] = stop;
            next_stop[row] += 1;
        }
    }
    operations
}

fn why_stop(from: &Version, stop: &Version, target: &Version, coming: &[&Version]) -> Reason {
    if same(stop, target) {
        return Reason::Target;
    }
    let next = coming.iter().find(|version| version.minor() > stop.minor());
    match next.map(|next| (next, from.minor().distance_to(next.minor()))) {
        Some((next, Distance::Forward(behind))) if behind > MAX_KUBELET_MINORS_BEHIND => {
            Reason::SkewLimit { next: (*next).clone(), behind }
        }
        _ => Reason::Given,
    }
}

/// Puts the lifecycle hooks around the operations. `BeforeClusterUpgrade` comes before the first control
/// plane step of an upgrade, and once more before the first one beyond the target that it passed for; the workers
/// hooks come around each run of worker steps at one version, and `AfterClusterUpgrade` after the last step of an upgrade
/// that `BeforeClusterUpgrade` began.
fn place_hooks(request: &PlanRequest, operations: &mut [Operation]) {
    use UpgradeHook::*;
    let HooksPassed {
        before_cluster_upgrade: mut cluster_started,
        before_workers_upgrade: mut workers_started,
    } = request.hooks_passed;
    let mut acknowledged = request.acknowledged_target.as_ref().filter(|_| cluster_started);
    let last = operations.len().saturating_sub(1);
    for index in 0..operations.len() {
        let (before, rest) = operations.split_at_mut(index);
        let Some((operation, after)) = rest.split_first_mut() else { break };
        let hooks = &mut operation.hooks;
        match &operation.step {
            Step::ControlPlane { to, .. } => {
                let is_beyond = acknowledged.is_some_and(|target| to.compare(target).is_progress());
                if !cluster_started || is_beyond {
                    hooks.push(BeforeClusterUpgrade);
                    cluster_started = true;
                    acknowledged = None;
                }
                hooks.extend([BeforeControlPlaneUpgrade, AfterControlPlaneUpgrade]);
                workers_started = false;
            }
            Step::Workers { .. } => {
                let follows_workers = before.last().is_some_and(|before| before.step.group().is_some());
                if !follows_workers && !workers_started {
                    hooks.push(BeforeWorkersUpgrade);
                }
                if after.first().is_none_or(|after| after.step.group().is_none()) {
                    hooks.push(AfterWorkersUpgrade);
                }
            }
        }
        // It is called at the end of what BeforeClusterUpgrade began, and of nothing else.
        if index == last && cluster_started {
            hooks.push(AfterClusterUpgrade);
        }
    }
}
