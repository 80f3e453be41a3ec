//! Versions that worker groups are kept at.

use windlass_api::cluster::{ClusterClass, Topology};
use windlass_version::{Comparison, Distance, MAX_KUBELET_MINORS_BEHIND, Version};

use super::version_change::UpgradeState;
use super::{Verdict, accepted, strict_version};
use crate::features::WORKER_VERSION_PINNING;
use crate::topology::{Entry, WorkerGroup};

/// Whether the pins of a topology are others than they were.
pub fn pins_change(old: &Topology, new: &Topology) -> bool {
    let pins = |topology| {
        let all: Vec<_> = Entry::all(topology)
            .into_iter()
            .map(|entry| (entry.kind, entry.name.to_owned(), entry.pin().ok().flatten()))
            .filter(|(_, _, pin)| pin.is_some())
            .collect();
        all
    };
    pins(old) != pins(new)
}

/// Checks the pins of a topology: the version must be one that the group can have beside the control plane, and a group
/// never goes back.
pub(super) fn check(
    topology: &Topology,
    old: Option<&Topology>,
    class: Option<&ClusterClass>,
    state: Option<&UpgradeState>,
    verdict: &mut Verdict,
) {
    let old_entries = old.map(Entry::all).unwrap_or_default();
    for entry in Entry::all(topology) {
        let before = old_entries.iter().find(|old| (old.kind, old.name) == (entry.kind, entry.name));
        let was = before.and_then(|before| before.pin().ok().flatten());
        let written = entry.written_pins();
        if let [one, other] = written.as_slice()
            && one.version != other.version
        {
            verdict.refuse(
                format!("{}.{}", entry.field(), other.field),
                format!(
                    "{} is not accepted beside {} {}, {} is",
                    other.version, one.field, one.version, one.version
                ),
            );
            continue;
        }
        let Some(pin) = written.first() else {
            if let Some(was) = was {
                check_unset(&entry, &was, topology, state, verdict);
            }
            continue;
        };
        let field = format!("{}.{}", entry.field(), pin.field);
        let version = match strict_version(pin.version) {
            Ok(version) if pin.version.starts_with('v') => version,
            Ok(_) => {
                verdict.refuse(
                    field,
                    format!("{:?} does not begin with v, a version such as v1.33.0 is accepted", pin.version),
                );
                continue;
            }
            Err(error) => {
                verdict.refuse(field, format!("{error}; a version such as v1.33.0 is accepted"));
                continue;
            }
        };
        if entry.defers() || entry.holds() {
            verdict.refuse(
                field.clone(),
                "is not accepted together with the annotations that defer or hold the upgrade of the entry, one of them is",
            );
        }
        let listed = class.map(|class| class.spec.kubernetes_versions.as_slice()).unwrap_or_default();
        if !listed.is_empty() && !listed.iter().any(|listed| listed == pin.version) {
            let problem = format!(
                "{version} is not in spec.kubernetesVersions of the ClusterClass, {}",
                accepted(listed)
            );
            verdict.refuse(field.clone(), problem);
        }
        check_window(&field, &version, topology, verdict);
        if was.as_ref() != Some(&version) {
            check_change(&entry, &field, &version, was.as_ref(), state, verdict);
        }
    }
}

/// With the feature off, pins that are there have no effect, which is told; none is set or changed. One may be removed:
/// nothing follows from it.
pub(super) fn refuse_changes(topology: &Topology, old: Option<&Topology>, verdict: &mut Verdict) {
    let old_entries = old.map(Entry::all).unwrap_or_default();
    for entry in Entry::all(topology) {
        let before = old_entries.iter().find(|old| (old.kind, old.name) == (entry.kind, entry.name));
        let (was, is) = (before.map(Entry::written_pins).unwrap_or_default(), entry.written_pins());
        let Some(pin) = is.first() else { continue };
        let field = format!("{}.{}", entry.field(), pin.field);
        if was == is {
            let version = pin.version;
            verdict.warn(format!(
                "{field}: {version} has no effect, because feature gate {WORKER_VERSION_PINNING} is off"
            ));
        } else {
            let accepted = was.first().map(|was| format!("{} or ", was.version)).unwrap_or_default();
            verdict.refuse(
                field,
                format!(
                    "{} is not accepted while feature gate {WORKER_VERSION_PINNING} is off, {accepted}none is",
                    pin.version
                ),
            );
        }
    }
}

/// At most three minors behind the target, and not ahead of it.
fn check_window(field: &str, pin: &Version, topology: &Topology, verdict: &mut Verdict) {
    let Ok(target) = strict_version(&topology.version) else { return };
    if pin.compare(&target) == Comparison::Greater {
        verdict.refuse(
            field,
            format!("{pin} is newer than spec.topology.version, {target} or older is accepted"),
        );
    }
    match pin.minor().distance_to(target.minor()) {
        Distance::Forward(behind) if behind > MAX_KUBELET_MINORS_BEHIND => verdict.refuse(
            field,
            format!(
                "{pin} is {behind} minors behind spec.topology.version {target}, at most {MAX_KUBELET_MINORS_BEHIND} \
                 are accepted: raise the pin first, to a version that the control plane has"
            ),
        ),
        Distance::OtherMajor => verdict
            .refuse(field, format!("{pin} has another major than spec.topology.version, one of {target}'s is accepted")),
        _ => {}
    }
}

/// A pin that is set or raised.
fn check_change(
    entry: &Entry<'_>,
    field: &str,
    pin: &Version,
    was: Option<&Version>,
    state: Option<&UpgradeState>,
    verdict: &mut Verdict,
) {
    if let Some(was) = was.filter(|was| pin.compare(was) == Comparison::Less) {
        verdict.refuse(field, format!("{pin} is older than {was}, which it was; {was} or newer is accepted"));
        return;
    }
    let Some(state) = state else { return };
    if let Some(control_plane) = &state.control_plane
        && !control_plane.has_reached(pin)
    {
        let reached = control_plane.oldest_running().unwrap_or(&control_plane.version);
        verdict.refuse(
            field,
            format!("{pin} was not reached by the control plane, {reached} or older is accepted"),
        );
    }
    let Some(group) = group(state, entry) else { return };
    if let (Some(control_plane), Some(at)) = (&state.control_plane, group.version())
        && state.is_running()
        && pin.compare(at).is_progress()
        && control_plane.version.minor() != pin.minor()
    {
        let to = &control_plane.version;
        verdict.refuse(
            field,
            format!(
                "machines of {pin} cannot join the control plane, which has or goes to {to}; {at}, which the group has, is \
                 accepted, or {to} once the control plane has reached it"
            ),
        );
    }
    if let Some(at) = group.version().filter(|at| pin.compare(at) == Comparison::Less) {
        verdict.refuse(
            field,
            format!("{pin} is older than {at}, which the group has; {at} or newer is accepted"),
        );
    }
    if !(is_stuck(group, state) && joins(pin, state)) {
        refuse_while_moving(field, group, verdict);
    }
}

/// Whether a group rolls out machines of another minor than the control plane's, which do not join it: then another version
/// is the way out.
fn is_stuck(group: &WorkerGroup, state: &UpgradeState) -> bool {
    group.is_upgrading() && group.version().is_some_and(|at| !joins(at, state))
}

fn joins(version: &Version, state: &UpgradeState) -> bool {
    state.control_plane.as_ref().is_none_or(|control_plane| control_plane.version.minor() == version.minor())
}

/// A pin that is taken away: the group takes part in upgrades again. On a Cluster at rest nothing must follow from it.
fn check_unset(
    entry: &Entry<'_>,
    was: &Version,
    topology: &Topology,
    state: Option<&UpgradeState>,
    verdict: &mut Verdict,
) {
    let field = format!("{}.version", entry.field());
    let is_running = state.is_some_and(UpgradeState::is_running);
    let at_target = strict_version(&topology.version).is_ok_and(|target| &target == was);
    if !at_target && !is_running {
        verdict.refuse(
            &field,
            format!(
                "cannot be removed while it is {was} and spec.topology.version is {}; raising it to {} first is accepted",
                topology.version, topology.version
            ),
        );
    }
    let found = state.and_then(|state| Some((state, group(state, entry)?)));
    if let Some((_, group)) = found.filter(|(state, group)| !is_stuck(group, state)) {
        refuse_while_moving(&field, group, verdict);
    }
}

fn refuse_while_moving(field: &str, group: &WorkerGroup, verdict: &mut Verdict) {
    if group.is_upgrading() {
        let at = group.version().map(|at| format!(" to {at}")).unwrap_or_default();
        verdict.refuse(
            field,
            format!("cannot be changed while {} is upgrading{at}; it is accepted then", group.id()),
        );
    }
}

fn group<'a>(state: &'a UpgradeState, entry: &Entry<'_>) -> Option<&'a WorkerGroup> {
    state.workers.iter().find(|group| (group.kind, group.topology_name.as_str()) == (entry.kind, entry.name))
}
