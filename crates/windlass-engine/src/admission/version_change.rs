//! Changes of `spec.topology.version`, also while an upgrade runs.

use windlass_api::cluster::{ClusterClass, Topology};
use windlass_api::hooks::Hook;
use windlass_plan::{PlanRequest, Refusal, Source, UpgradePlan, plan};
use windlass_version::{Comparison, Version};

use super::{Verdict, accepted};
use crate::topology::{ControlPlane, Entry, PendingHooks, WorkerGroup, planned};
use crate::waiting::Wait;

const FIELD: &str = "spec.topology.version";

/// What is known about the parts of a Cluster whose version is changed, and what was promised about them.
///
/// What was promised is read from the Cluster as it is stored: a client that writes a whole object without these
/// annotations changes nothing about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradeState {
    /// The control plane, if it exists.
    pub control_plane: Option<ControlPlane>,
    /// The worker groups.
    pub workers: Vec<WorkerGroup>,
    /// Hooks that are still to be called.
    pub pending_hooks: PendingHooks,
    /// The step that was promised or taken last, while an upgrade runs.
    pub upgrade_step: Option<Version>,
    /// What the upgrade waits on.
    pub waiting: Option<Wait>,
}

impl UpgradeState {
    /// Whether an upgrade runs.
    pub fn is_running(&self) -> bool {
        self.pending_hooks.contains(Hook::AfterClusterUpgrade)
    }

    /// The same with what the entries of a topology say about their groups.
    #[must_use]
    pub fn with_entries(mut self, topology: &Topology) -> Self {
        let entries = Entry::all(topology);
        for group in &mut self.workers {
            let entry = entries
                .iter()
                .find(|entry| (entry.kind, entry.name) == (group.kind, group.topology_name.as_str()));
            if let Some(entry) = entry {
                group.pin = entry.pin().ok().flatten();
                (group.defer, group.hold) = (entry.defers(), entry.holds());
            }
        }
        self
    }

    /// The lowest version that may be the target, and the part of the Cluster that is there or on its way there. Nothing
    /// if there is no control plane yet.
    pub fn lowest_target(&self) -> Option<(Version, String)> {
        self.control_plane.as_ref().map(|control_plane| self.floor(control_plane))
    }

    /// Where a step of the control plane that no machine came up with can go back to: to what machines run, or to a version
    /// between that and the step.
    ///
    /// # Errors
    ///
    /// Why it cannot go back.
    pub fn check_abort(&self, to: Option<&Version>) -> Result<Version, String> {
        let control_plane = self.control_plane.as_ref().ok_or("there is no control plane yet")?;
        let name = format!("{} {}", control_plane.kind, control_plane.name);
        let step = &control_plane.version;
        let runs =
            control_plane.oldest_running().filter(|_| self.is_running() && control_plane.is_upgrading());
        let Some(runs) = runs else { return Err(format!("{name} is not on its way to another version")) };
        if !control_plane.unborn {
            return Err(format!(
                "a machine of {name} has come up with {step}: going back would be a downgrade, {step} or newer is accepted"
            ));
        }
        let to = to.unwrap_or(runs);
        if to.compare(step) != Comparison::Less || to.compare(runs) == Comparison::Less {
            return Err(format!("{to} is not accepted, {runs} or a version between it and {step} is"));
        }
        Ok(to.clone())
    }

    /// What remains to be done to reach a version, from where the parts are.
    ///
    /// # Errors
    ///
    /// When there is no path.
    pub fn plan(&self, class: &ClusterClass, to: &Version) -> Result<UpgradePlan, Refusal> {
        let from = self.control_plane.as_ref().map_or(to, |control_plane| &control_plane.version);
        path(from, to, &class.spec.kubernetes_versions, &self.workers)
    }

    /// The part of the Cluster that is furthest, and its version: nothing goes below it.
    fn floor(&self, control_plane: &ControlPlane) -> (Version, String) {
        let name = format!("{} {}", control_plane.kind, control_plane.name);
        let verb = if control_plane.is_upgrading() { "is moving to" } else { "is at" };
        let mut floor = control_plane.version.clone();
        let mut why = format!("{name} {verb} {floor}");
        if let Some(step) =
            self.upgrade_step.as_ref().filter(|step| step.compare(&floor) == Comparison::Greater)
        {
            floor = step.clone();
            why = format!("the step of {name} to {floor} has begun");
        }
        for group in self.workers.iter().filter(|group| !group.is_pinned()) {
            if let Some(at) = group.version().filter(|at| at.compare(&floor) == Comparison::Greater) {
                floor = at.clone();
                why = format!("{} is at {floor}", group.id());
            }
        }
        (floor, why)
    }

    /// Whether everything is at a version, and only AfterClusterUpgrade is still to pass.
    fn is_finishing(&self, control_plane: &ControlPlane, at: &Version) -> bool {
        let others = [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade, Hook::AfterWorkersUpgrade];
        let is_there = |group: &WorkerGroup| {
            group.is_pinned()
                || (!group.is_upgrading() && group.version().is_none_or(|version| version == at))
        };
        self.is_running()
            && others.into_iter().all(|hook| !self.pending_hooks.contains(hook))
            && &control_plane.version == at
            && !control_plane.is_upgrading()
            && self.workers.iter().all(is_there)
    }
}

/// Checks that a Cluster may go to another version than before, from where its parts are.
///
/// An upgrade that runs may be given another target: a higher one, a lower one that nothing has passed, the version
/// that the control plane is at. What was reached or promised is never gone below.
pub(super) fn check(
    old: &Version,
    new: &Version,
    class: Option<&ClusterClass>,
    state: &UpgradeState,
    verdict: &mut Verdict,
) {
    if old == new {
        return;
    }
    let Some(control_plane) = &state.control_plane else {
        if new.compare(old) == Comparison::Less {
            verdict.refuse(FIELD, format!("{new} is older than {old}; {old} or newer is accepted"));
        }
        return;
    };
    if control_plane.is_provisioning() {
        verdict.refuse(
            FIELD,
            format!(
                "cannot be changed to {new} while {} {} is provisioning; {old} is accepted",
                control_plane.kind, control_plane.name
            ),
        );
        return;
    }
    if state.is_finishing(control_plane, old) {
        let waits = state
            .waiting
            .as_ref()
            .filter(|wait| wait.hook.as_deref() == Some(Hook::AfterClusterUpgrade.name()));
        let waits = waits.map(|wait| format!(" ({wait}, since {})", wait.since.0)).unwrap_or_default();
        verdict.refuse(
            FIELD,
            format!(
                "cannot be changed to {new} before AfterClusterUpgrade of the upgrade to {old} has passed{waits}; {old} \
                 is accepted until then"
            ),
        );
        return;
    }
    // Pre-releases and builds count: where it is known which is older, going back is a downgrade.
    let (floor, why) = state.floor(control_plane);
    if new.compare(&floor) == Comparison::Less {
        verdict
            .refuse(FIELD, format!("{new} is older than {floor}, and {why}; {floor} or newer is accepted"));
        return;
    }
    let Some(class) = class else { return };
    let is_external = class
        .spec
        .upgrade
        .external
        .as_ref()
        .is_some_and(|external| !external.generate_upgrade_plan_extension.is_empty());
    if is_external {
        return;
    }
    let listed = &class.spec.kubernetes_versions;
    // What the list does not have was refused for that; that no path leads there follows from it.
    if !listed.is_empty()
        && !listed.iter().any(|text| Version::parse(text).is_ok_and(|listed| &listed == new))
    {
        return;
    }
    let current = &control_plane.version;
    match path(current, new, listed, &state.workers) {
        Err(refusal) => {
            let accepted = accepted(reachable(current, old, listed, &state.workers));
            verdict.refuse(
                FIELD,
                format!("there is no upgrade path from {current} to {new}: {refusal}; {accepted}"),
            );
        }
        Ok(path_to_new) if state.is_running() => {
            let path_to_old = path(current, old, listed, &state.workers).ok();
            for consequence in consequences(old, &path_to_new, path_to_old.as_ref(), &state.workers) {
                verdict.warn(consequence);
            }
        }
        Ok(_) => {}
    }
}

/// What a change of the target changes about an upgrade that runs.
fn consequences(
    old: &Version,
    new: &UpgradePlan,
    before: Option<&UpgradePlan>,
    groups: &[WorkerGroup],
) -> Vec<String> {
    let list = |versions: &[Version]| match versions {
        [] => "none".to_owned(),
        some => some.iter().map(Version::to_string).collect::<Vec<_>>().join(", "),
    };
    let empty = Vec::new();
    let steps_before = before.map_or(&empty, |before| &before.control_plane);
    let only = |these: &[Version], those: &[Version]| -> Vec<Version> {
        these.iter().filter(|version| !those.contains(version)).cloned().collect()
    };
    let target = &new.to;
    let mut said = vec![format!(
        "the upgrade to {old} goes to {target} instead; steps of the control plane that are added: {}; dropped: {}",
        list(&only(&new.control_plane, steps_before)),
        list(&only(steps_before, &new.control_plane)),
    )];
    for row in &new.workers {
        let was = before.and_then(|before| before.workers.iter().find(|other| other.group == row.group));
        let was = was.map_or(&empty, |was| &was.stops);
        if was != &row.stops {
            said.push(format!("{} stops at {} instead of {}", row.group, list(&row.stops), list(was)));
        }
        let group = groups.iter().find(|group| group.id().to_string() == row.group.as_str());
        if let (Some(stop), true) = (row.stops.first(), group.is_some_and(|group| group.defer || group.hold))
            && stop != target
        {
            said.push(format!(
                "{} is deferred or held: the control plane waits at {stop} until it has that version",
                row.group
            ));
        }
    }
    if target.compare(old) == Comparison::Greater {
        said.push(format!("BeforeClusterUpgrade is called again before the control plane goes beyond {old}"));
    }
    said
}

fn path(
    from: &Version,
    to: &Version,
    listed: &[String],
    workers: &[WorkerGroup],
) -> Result<UpgradePlan, Refusal> {
    let groups = workers
        .iter()
        .filter_map(|group| Some(planned(group, group.id().to_string().into(), group.version()?)));
    let request = PlanRequest::new(from.clone(), to.clone())
        .with_workers(groups)
        .with_source(Source::first_of(None, listed.to_vec()));
    plan(&request)
}

/// The versions that a path leads to, or the one that is there if there are none.
fn reachable(current: &Version, old: &Version, listed: &[String], workers: &[WorkerGroup]) -> Vec<String> {
    let next = current.minor().next();
    let candidates: Vec<(Version, String)> = match listed {
        [] => vec![(Version::new(next.major, next.minor, 0), format!("a version up to {next}.x"))],
        _ => listed.iter().filter_map(|text| Some((Version::parse(text).ok()?, text.clone()))).collect(),
    };
    let is_reached =
        |to: &Version| to.compare(current).is_progress() && path(current, to, listed, workers).is_ok();
    let reached: Vec<String> =
        candidates.into_iter().filter(|(to, _)| is_reached(to)).map(|(_, text)| text).collect();
    if reached.is_empty() { vec![old.to_string()] } else { reached }
}
