//! The `TopologyReconciled` condition: one word for programs, lines for people.

use std::fmt::Write as _;

use windlass_api::cluster::Cluster;
use windlass_api::hooks::Hook;
use windlass_api::names::{DEFER_UPGRADE_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION};
use windlass_version::Version;

use super::control_plane::ControlPlanePhase;
use super::observed::{Observed, WorkerKind};
use super::takeover::Lost;
use super::upgrade::Decision;
use super::workers::{GroupAction, GroupDecision};
use crate::features::WORKER_VERSION_PINNING;
use crate::pause::Pause;
use crate::waiting::WaitingOn;

/// How the line begins that says what the upgrade waits on.
pub(crate) const HELD: &str = "The upgrade waits for ";

/// How the line begins that says that a feature gate is off.
pub(crate) const PINS_IGNORED: &str = "Pins have no effect";

/// Reason of `TopologyReconciled` where a take-over would take away what upstream applied.
pub const TAKE_OVER_REFUSED: &str = "TakeOverRefused";

/// How the reconcile of a topology ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Nothing was done, because the Cluster is paused.
    Paused(Pause),
    /// Something failed before a decision, or while it was carried out.
    Failed(String),
    /// Applying it would take away what upstream applied.
    Refused(&'a Lost),
    /// The Cluster is being deleted.
    Deleting {
        /// What holds the deletion.
        waiting: Option<&'a WaitingOn>,
    },
    /// The class has changes that were not reconciled yet.
    ClassNotReconciled {
        /// Name of the class.
        class: String,
    },
    /// A decision was made and carried out.
    Decided {
        /// What was observed.
        observed: &'a Observed,
        /// What was decided.
        decision: &'a Decision,
    },
}

impl Outcome<'_> {
    /// Whether it was decided what is waited on. If not, a wait that was kept stays as it is: an error or a pause in
    /// between does not make it begin anew.
    pub const fn tells_waiting(&self) -> bool {
        matches!(self, Self::Deleting { .. } | Self::Decided { .. })
    }

    /// What the topology waits on.
    pub fn waiting(&self) -> Option<WaitingOn> {
        match self {
            Self::Deleting { waiting } => waiting.cloned(),
            Self::Decided { observed, decision } => decision.waiting(observed),
            Self::Paused { .. } | Self::Failed(_) | Self::Refused(_) | Self::ClassNotReconciled { .. } => {
                None
            }
        }
    }
}

/// A condition without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyReconciled {
    /// Whether everything is as the topology describes it.
    pub status: bool,
    /// A word for programs.
    pub reason: &'static str,
    /// Lines for people; empty if there is nothing to say.
    pub message: String,
}

impl TopologyReconciled {
    /// The condition for an outcome.
    pub fn of(outcome: &Outcome<'_>) -> Self {
        match outcome {
            Outcome::Paused(pause) => Self::negative("Paused", pause.message(Cluster::KIND)),
            Outcome::Failed(error) => Self::negative("ReconcileFailed", error.clone()),
            Outcome::Refused(lost) => Self::negative(TAKE_OVER_REFUSED, lost.to_string()),
            Outcome::Deleting { waiting: None } => {
                Self::negative("Deleting", "The Cluster is being deleted".to_owned())
            }
            Outcome::Deleting { waiting: Some(waiting) } => Self::negative(
                "Deleting",
                format!("The Cluster is being deleted\n  * Deletion waits for {waiting}"),
            ),
            Outcome::ClassNotReconciled { class } => Self::negative(
                "ClusterClassNotReconciled",
                format!("ClusterClass {class} has changes that were not reconciled yet, see its conditions"),
            ),
            Outcome::Decided { observed, decision } => Self::of_decision(observed, decision),
        }
    }

    fn of_decision(observed: &Observed, decision: &Decision) -> Self {
        let failures: Vec<String> = decision.failures().iter().map(ToString::to_string).collect();
        if !failures.is_empty() {
            return Self::negative("ReconcileFailed", failures.join("; "));
        }
        if let Some(waiting) = &decision.creation {
            return Self::negative(
                "ClusterCreating",
                format!("Creation of the topology waits for {waiting}"),
            );
        }
        if !is_upgrading(decision) {
            let message = pins_ignored(observed).unwrap_or_default();
            return Self { status: true, reason: "ReconcileSucceeded", message };
        }
        Self::negative(upgrade_reason(observed, decision), upgrade_message(observed, decision))
    }

    fn negative(reason: &'static str, message: String) -> Self {
        Self { status: false, reason, message }
    }
}

fn control_plane_moves(decision: &Decision) -> bool {
    matches!(decision.control_plane.phase, ControlPlanePhase::Starting | ControlPlanePhase::Upgrading)
}

pub(super) fn is_upgrading(decision: &Decision) -> bool {
    decision.control_plane.pending
        || control_plane_moves(decision)
        || decision.workers.iter().any(|group| group.is_unfinished() || group.is_pending())
        || decision.pending_hooks.contains(Hook::AfterClusterUpgrade)
}

/// Says so when nothing but the owner of the Cluster or of a worker group can make the upgrade go on.
fn upgrade_reason(observed: &Observed, decision: &Decision) -> &'static str {
    match decision.waiting(observed) {
        Some(WaitingOn::Held { .. } | WaitingOn::HeldAt { .. }) => return "UpgradeHeld",
        Some(WaitingOn::Approval { .. }) => return "UpgradeApprovalNeeded",
        _ => {}
    }
    let stuck = |kind| {
        let mut deferred = false;
        for group in decision.workers.iter().filter(|group| group.id.kind == kind) {
            if group.is_upgrading() || (group.is_pending() && !group.is_deferred()) {
                return false;
            }
            deferred |= group.is_deferred();
        }
        deferred && decision.held.is_empty() && !control_plane_moves(decision)
    };
    if stuck(WorkerKind::MachineDeployment) {
        "MachineDeploymentsUpgradeDeferred"
    } else if stuck(WorkerKind::MachinePool) {
        "MachinePoolsUpgradeDeferred"
    } else {
        "ClusterUpgrading"
    }
}

fn upgrade_message(observed: &Observed, decision: &Decision) -> String {
    let mut message = match decision.control_plane.pending
        || control_plane_moves(decision)
        || decision.workers.iter().any(GroupDecision::is_unfinished)
        || decision.pending_hooks.contains(Hook::AfterClusterUpgrade)
    {
        true => format!("The Cluster is upgrading to {}", observed.version),
        false => "Pinned worker groups are not at their versions".to_owned(),
    };
    let mut line = |text: String| {
        // Writing to a String does not fail.
        let _ = write!(message, "\n  * {text}");
    };
    let waiting = decision.waiting(observed);
    let others = decision.held.iter().filter(|held| Some(*held) != waiting.as_ref());
    let waits: Vec<String> = waiting.iter().chain(others).map(ToString::to_string).collect();
    if !waits.is_empty() {
        line(format!("{HELD}{}", waits.join("; ")));
    }
    let kind = observed.control_plane.as_ref().map_or("control plane", |current| current.kind.as_str());
    let remaining = decision.plan.control_plane();
    if control_plane_moves(decision) {
        let to = &decision.control_plane.version;
        line(format!("{kind} is upgrading to {to}{}", then(remaining, to)));
    } else if !remaining.is_empty() {
        line(format!("{kind} will upgrade to {}", list(remaining)));
    }
    for kind in [WorkerKind::MachineDeployment, WorkerKind::MachinePool] {
        let groups: Vec<&GroupDecision> =
            decision.workers.iter().filter(|group| group.id.kind == kind).collect();
        for text in group_lines(kind, &groups, decision) {
            line(text);
        }
    }
    pins_ignored(observed).into_iter().for_each(line);
    message
}

/// That pins have no effect, also while nothing else is to be said: whoever reads the Cluster takes them for what they were.
fn pins_ignored(observed: &Observed) -> Option<String> {
    let pins = observed.ignored_pins.join(", ");
    let is_off = || format!("{PINS_IGNORED}, because feature gate {WORKER_VERSION_PINNING} is off: {pins}");
    (!pins.is_empty()).then(is_off)
}

fn group_lines(kind: WorkerKind, groups: &[&GroupDecision], decision: &Decision) -> Vec<String> {
    let mut lines = Vec::new();
    let named = |pick: &dyn Fn(&GroupDecision) -> bool| -> Vec<&str> {
        let mut names: Vec<&str> =
            groups.iter().filter(|group| pick(group)).map(|group| group.id.name.as_str()).collect();
        names.sort_unstable();
        names
    };
    let deferred = named(&|group| !group.is_upgrading() && group.is_deferred());
    let is_pending =
        |group: &GroupDecision| !group.is_upgrading() && !group.is_deferred() && group.is_pending();
    let mut later: Vec<&str> = groups
        .iter()
        .filter(|group| matches!(group.action, GroupAction::CreateLater(_)))
        .map(|group| group.topology_name.as_str())
        .collect();
    later.sort_unstable();
    let to = &decision.control_plane.version;
    // Groups have their own stops, and those that have the same are named together.
    for (version, stops) in ways(groups, &|group| group.is_upgrading()) {
        let names = named(&|group| group.is_upgrading() && way(group) == (&version, stops.as_slice()));
        let verb = if names.len() == 1 { "is" } else { "are" };
        lines.push(format!(
            "{} {verb} upgrading to {version}{}",
            name_list(kind, &names),
            then(&stops, &version)
        ));
    }
    for (version, stops) in ways(groups, &is_pending) {
        let names = named(&|group| is_pending(group) && way(group) == (&version, stops.as_slice()));
        let rest = match stops.as_slice() {
            [] => format!("stay at {version} for now"),
            stops => format!("will upgrade to {}", list(stops)),
        };
        let rest =
            if names.len() == 1 && stops.is_empty() { rest.replacen("stay", "stays", 1) } else { rest };
        lines.push(format!("{} {rest}", name_list(kind, &names)));
    }
    if !deferred.is_empty() {
        let verb = if deferred.len() == 1 { "waits" } else { "wait" };
        lines.push(format!(
            "{} {verb} with the upgrade to {to} until annotation {DEFER_UPGRADE_ANNOTATION} or \
             {HOLD_UPGRADE_SEQUENCE_ANNOTATION} is removed",
            name_list(kind, &deferred)
        ));
    }
    if !later.is_empty() {
        lines.push(format!("{} will be created when the control plane is ready", name_list(kind, &later)));
    }
    lines
}

/// The version that a group goes to or is at, and what remains for it.
fn way(group: &GroupDecision) -> (&Version, &[Version]) {
    match (&group.pin, group.is_pending()) {
        (Some(pin), true) => (&group.version, std::slice::from_ref(pin)),
        _ => (&group.version, &group.stops),
    }
}

/// The different ways of some groups, in the order of the groups.
fn ways(groups: &[&GroupDecision], pick: &dyn Fn(&GroupDecision) -> bool) -> Vec<(Version, Vec<Version>)> {
    let mut ways: Vec<(Version, Vec<Version>)> = Vec::new();
    for group in groups.iter().filter(|group| pick(group)) {
        let (version, stops) = way(group);
        if !ways.iter().any(|(known, rest)| known == version && rest == stops) {
            ways.push((version.clone(), stops.to_vec()));
        }
    }
    ways
}

fn list(versions: &[Version]) -> String {
    versions.iter().map(Version::to_string).collect::<Vec<_>>().join(", ")
}

fn then(plan: &[Version], now: &Version) -> String {
    let rest: Vec<Version> = plan.iter().filter(|version| *version != now).cloned().collect();
    if rest.is_empty() { String::new() } else { format!(" ({} to follow)", list(&rest)) }
}

/// At most three names: a condition is read on one screen.
fn name_list(kind: WorkerKind, names: &[&str]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    match names {
        [a, b, c, rest @ ..] if !rest.is_empty() => {
            format!("{kind}{plural} {a}, {b}, {c}, ... ({} more)", rest.len())
        }
        _ => format!("{kind}{plural} {}", names.join(", ")),
    }
}
