//! Changes of `spec.topology.version`.

use windlass_api::cluster::ClusterClass;
use windlass_api::hooks::Hook;
use windlass_plan::{PlanRequest, Refusal, Source, UpgradePlan, plan};
use windlass_version::{Comparison, Version};

use super::{Verdict, accepted};
use crate::topology::PendingHooks;
use crate::topology::{ControlPlane, WorkerGroup};

const FIELD: &str = "spec.topology.version";

/// What is known about the parts of a Cluster whose version is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradeState {
    /// The control plane, if it exists.
    pub control_plane: Option<ControlPlane>,
    /// The worker groups.
    pub workers: Vec<WorkerGroup>,
    /// Hooks that are still to be called.
    pub pending_hooks: PendingHooks,
}

/// Checks that a Cluster may go from one version to another.
///
/// As long as nothing has moved, the version may be changed again or taken back: an upgrade that only waits is
/// no reason to insist on it.
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
    if state.pending_hooks.contains(Hook::AfterClusterUpgrade) {
        verdict.refuse(
            FIELD,
            format!(
                "cannot be changed to {new} before the upgrade to {old} is done and AfterClusterUpgrade has \
                 passed; {old} is accepted"
            ),
        );
        return;
    }
    let Some(control_plane) = &state.control_plane else {
        if new.compare(old) == Comparison::Less {
            verdict.refuse(FIELD, format!("{new} is older than {old}; {old} or newer is accepted"));
        }
        return;
    };
    let current = &control_plane.version;
    let moving = moving(control_plane, &state.workers);
    if !moving.is_empty() {
        verdict.refuse(
            FIELD,
            format!("cannot be changed to {new} while {} at {old}; {old} is accepted", moving.join(", ")),
        );
        return;
    }
    // Pre-releases and builds count: where it is known which is older, going back is a downgrade.
    if new.compare(current) == Comparison::Less {
        verdict.refuse(
            FIELD,
            format!(
                "{new} is older than {current}, which the control plane has; {current} or newer is accepted"
            ),
        );
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
    if let Err(refusal) = path(current, new, listed, &state.workers) {
        let accepted = accepted(reachable(current, old, listed, &state.workers));
        verdict.refuse(
            FIELD,
            format!("there is no upgrade path from {current} to {new}: {refusal}; {accepted}"),
        );
    }
}

fn path(
    from: &Version,
    to: &Version,
    listed: &[String],
    workers: &[WorkerGroup],
) -> Result<UpgradePlan, Refusal> {
    let groups = workers.iter().filter_map(|group| {
        Some(windlass_plan::WorkerGroup::new(group.id().to_string(), group.version()?.clone()))
    });
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

/// What is on its way, in words.
fn moving(control_plane: &ControlPlane, workers: &[WorkerGroup]) -> Vec<String> {
    let mut moving = Vec::new();
    let name = format!("{} {}", control_plane.kind, control_plane.name);
    if control_plane.is_provisioning() {
        moving.push(format!("{name} is provisioning"));
    } else if control_plane.is_upgrading() {
        moving.push(format!("{name} is upgrading"));
    }
    let groups = workers.iter().filter(|group| group.is_upgrading());
    moving.extend(groups.map(|group| format!("{} is upgrading", group.id())));
    moving
}
