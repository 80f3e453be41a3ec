//! A step of the control plane that gets another version while its machines are on their way: the way out of a version
//! that no machine comes up with.

use windlass_plan::Source;
use windlass_version::{Comparison, Version};

use super::observed::{ControlPlane, Observed, PlanSource};
use super::plan::Plan;

/// Where a step goes instead.
pub(super) struct Redirect {
    /// The version that the step leaves: what machines run if it goes back, else the one that it goes to now.
    pub(super) from: Version,
    /// A later version of the same minor, or an earlier one if no machine came up with the version of the step.
    pub(super) to: Version,
    /// What remains from before the step: it begins with that version, unless the step is given up.
    pub(super) plan: Plan,
}

impl Redirect {
    /// Whether the step is given up: the control plane stays at what its machines run.
    pub(super) fn is_given_up(&self) -> bool {
        self.from == self.to
    }
}

/// Whether the step that the control plane takes goes to a later version of its minor instead, and to which.
///
/// It does if the target itself is of that minor, since then that is what was asked for; if the version of the step is no
/// longer listed; or if no machine runs it yet. Otherwise machines that have the version of the step would be replaced
/// twice, so the step ends first. A machine that is being updated in place is never given another version meanwhile.
pub(super) fn redirect(observed: &Observed, current: &ControlPlane) -> Option<Redirect> {
    if current.updating_in_place {
        return None;
    }
    let step = &current.version;
    let plan = plan_before_the_step(observed, current)?;
    if observed.version.compare(step) == Comparison::Less {
        return back(observed, current, plan);
    }
    let to = plan.control_plane().first()?.clone();
    if to.minor() != step.minor() || to.compare(step) != Comparison::Greater {
        return None;
    }
    let is_asked_for = observed.version.minor() == step.minor();
    let is_unborn = current.unborn || !current.running.contains(step);
    let from = step.clone();
    (is_asked_for || is_unborn || is_unlisted(observed, step)).then_some(Redirect { from, to, plan })
}

/// The target is below the version of the step, which admission lets pass only if it is told not to check. If no machine
/// came up with that version, nothing that ran is downgraded: the step goes to the target's patch, or is given up.
fn back(observed: &Observed, current: &ControlPlane, plan: Plan) -> Option<Redirect> {
    let from = current.oldest_running()?.clone();
    if !current.unborn || plan.no_path().is_some() || observed.version.compare(&from) == Comparison::Less {
        return None;
    }
    let to = plan.control_plane().first().unwrap_or(&from).clone();
    (to.compare(&current.version) == Comparison::Less).then_some(Redirect { from, to, plan })
}

/// The plan as if the step had not begun. What an extension has planned begins after the step, and is taken as it is.
fn plan_before_the_step(observed: &Observed, current: &ControlPlane) -> Option<Plan> {
    if let PlanSource::Known(Source::Given { .. }) = &observed.source {
        return Some(Plan::compute(observed));
    }
    let before = current.oldest_running()?.clone();
    let control_plane = ControlPlane { version: before, ..current.clone() };
    Some(Plan::compute(&Observed { control_plane: Some(control_plane), ..observed.clone() }))
}

fn is_unlisted(observed: &Observed, version: &Version) -> bool {
    let PlanSource::Known(Source::Versions(listed)) = &observed.source else { return false };
    !listed.iter().any(|text| Version::parse(text).is_ok_and(|listed| &listed == version))
}
