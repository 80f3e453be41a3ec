//! Updating a Machine in place: what the Machine controller does about it, as a table.
//!
//! The owner of a Machine (MachineSet or control plane) writes the desired specs, marks the three objects with
//! `update-in-progress` and leaves the hook `UpdateMachine` pending; the Machine controller calls the hook until it is
//! done and removes the marks. Everything is decided from what the objects say, so a crash between any two writes is
//! healed by the next reconcile.

use std::fmt;

use jiff::Timestamp;
use windlass_api::cluster::Machine;
use windlass_api::conditions::UPDATING;

use super::deadline::DeadlineError;
use super::deletion::{Facts, NodeSteps, Owned, Step, Timeouts, node_empties};
use super::observed::annotation;
use crate::condition;
use crate::in_place::{Effect, Requirement};

/// What the objects of a Machine say about an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The Machine has `update-in-progress`.
    pub machine: bool,
    /// `UpdateMachine` is among its pending hooks.
    pub hook_pending: bool,
    /// Its infrastructure is provisioned.
    pub infrastructure_provisioned: bool,
    /// Its bootstrap data is there.
    pub bootstrap_data_created: bool,
    /// It has a Node.
    pub has_node: bool,
    /// The mark on the infrastructure machine; nothing if there is no such object.
    pub infrastructure: Option<bool>,
    /// The mark on the bootstrap config; nothing if the Machine has none.
    pub bootstrap: Option<bool>,
}

impl Marks {
    /// Whether an update is under way. Both halves matter: they are neither set nor removed together.
    pub fn update_in_progress(&self) -> bool {
        self.machine || self.hook_pending
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// No update is under way.
    Nothing,
    /// Wait.
    Wait(InPlaceWait),
    /// It cannot go on.
    Failed(InPlaceFailure),
    /// Call the hook.
    Call,
    /// Remove the marks, the pending hook last.
    Complete,
}

/// What an update waits on before the hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlaceWait {
    /// The owner has marked the Machine and not yet released it.
    Owner,
    /// The Machine has not come up yet.
    Provisioning,
    /// The owner has not marked the infrastructure machine yet.
    InfrastructureMark,
    /// The owner has not marked the bootstrap config yet.
    BootstrapMark,
}

/// Why an update cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InPlaceFailure {
    /// There is no infrastructure machine to be updated.
    #[error("in-place update not possible: InfraMachine not found")]
    InfrastructureMissing,
    /// No extension is registered for the hook.
    #[error("in-place update not possible: no extension for UpdateMachine")]
    NoHandler,
    /// The hook failed, or its handler was not reached: a machine that no extension has touched must not count as updated.
    #[error("UpdateMachine failed: {message}")]
    Hook {
        /// What it said.
        message: String,
        /// When it is called again, if at a known time.
        again: Option<Timestamp>,
    },
    /// How long the update may take cannot be read.
    #[error(transparent)]
    Deadline(#[from] DeadlineError),
}

impl InPlaceFailure {
    /// When it is tried again, if at a known time.
    pub const fn again(&self) -> Option<Timestamp> {
        match self {
            Self::Hook { again, .. } => *again,
            Self::InfrastructureMissing | Self::NoHandler | Self::Deadline(_) => None,
        }
    }
}

/// Decides from the marks alone, before the hook is asked.
pub fn decide(marks: &Marks) -> InPlace {
    match (marks.machine, marks.hook_pending) {
        (false, false) => return InPlace::Nothing,
        // The marks were removed and the pending hook was not: the process stopped in between.
        (false, true) => return InPlace::Complete,
        (true, false) => return InPlace::Wait(InPlaceWait::Owner),
        (true, true) => {}
    }
    if !(marks.infrastructure_provisioned && marks.bootstrap_data_created && marks.has_node) {
        return InPlace::Wait(InPlaceWait::Provisioning);
    }
    match (marks.infrastructure, marks.bootstrap) {
        (None, _) => InPlace::Failed(InPlaceFailure::InfrastructureMissing),
        (Some(false), _) => InPlace::Wait(InPlaceWait::InfrastructureMark),
        (_, Some(false)) => InPlace::Wait(InPlaceWait::BootstrapMark),
        (Some(true), None | Some(true)) => InPlace::Call,
    }
}

/// What has to be done before the hook is called, because an extension asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    facts: Facts,
    node: String,
    requirements: Vec<Requirement>,
}

/// Annotations of a Machine that say what of its Node is left alone, whatever is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftAlone {
    /// Its pods.
    pub drain: bool,
    /// Its volumes.
    pub volumes: bool,
}

impl Preparation {
    /// What is left to be done for a Machine; none if nothing was asked for, or all is done. What is done is written into the
    /// annotation that asks for it, as the time: during the update itself the workload cluster may not answer, and the
    /// extension has to be called on.
    pub fn left(machine: &Machine, left_alone: LeftAlone, now: Timestamp) -> Option<Self> {
        let asked = Effect::written_in(machine.metadata.annotations.as_ref()).requirements;
        let node = machine.status.node_ref.as_ref()?.name.clone();
        let done = |requirement: Requirement| -> Option<Timestamp> {
            annotation(machine, requirement.annotation())?.parse().ok()
        };
        let requirements: Vec<Requirement> =
            asked.into_iter().filter(|requirement| done(*requirement).is_none()).collect();
        if requirements.is_empty() {
            return None;
        }
        let began = condition::find(&machine.status.conditions, UPDATING)
            .filter(|_| condition::is_true(&machine.status.conditions, UPDATING))
            .map_or(now, condition::since);
        let timeouts = &machine.spec.deletion;
        let drained = done(Requirement::Drain);
        let facts = Facts {
            requested: began,
            pre_drain_hooks: Vec::new(),
            pre_terminate_hooks: Vec::new(),
            node: NodeSteps::Of(node.clone()),
            drain_excluded: left_alone.drain || drained.is_some(),
            volumes_excluded: left_alone.volumes || !requirements.contains(&Requirement::VolumeDetach),
            timeouts: Timeouts::of_seconds(
                timeouts.node_drain_timeout_seconds,
                timeouts.node_volume_detach_timeout_seconds,
                None,
            ),
            drain_since: Some(began),
            volumes_since: Some(drained.unwrap_or(began)),
            drain: None,
            volumes: None,
            // The infrastructure stays.
            infrastructure: Owned::Present { kind: String::new(), name: String::new() },
            bootstrap: Owned::Gone,
            node_deletion: None,
        };
        Some(Self { facts, node, requirements })
    }

    /// The Node that is prepared.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What comes next; none once all is done.
    pub fn next(&self, now: Timestamp) -> Option<Step> {
        node_empties(&self.facts, &self.node, now)
    }

    /// Takes what a look at the pods or the volumes found into account.
    pub fn found(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// What of it is done now that `step` comes next, by the annotations that ask for it. The drain is done as soon as it is
    /// the turn of the volumes: from then on they have their own time.
    pub fn done_before(&self, step: Option<&Step>) -> Vec<&'static str> {
        let is_done = |requirement: &&Requirement| match step {
            None => true,
            Some(Step::LookAtVolumes { .. }) => **requirement == Requirement::Drain,
            Some(_) => false,
        };
        self.requirements.iter().filter(is_done).map(|requirement| requirement.annotation()).collect()
    }
}

impl fmt::Display for InPlaceWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Owner => "waiting for the owner of the Machine to release the update",
            Self::Provisioning => "waiting for the Machine to come up before it is updated",
            Self::InfrastructureMark => {
                "waiting for the owner of the Machine to mark its infrastructure machine"
            }
            Self::BootstrapMark => "waiting for the owner of the Machine to mark its bootstrap config",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use windlass_api::hooks::Hook;

    use super::*;
    use crate::machine::Updating;
    use crate::waiting::{HeldByHook, Retry};

    const READY: Marks = Marks {
        machine: true,
        hook_pending: true,
        infrastructure_provisioned: true,
        bootstrap_data_created: true,
        has_node: true,
        infrastructure: Some(true),
        bootstrap: Some(true),
    };

    #[test]
    fn the_table_of_marks() {
        let cases = [
            (Marks { machine: false, hook_pending: false, ..READY }, InPlace::Nothing),
            (Marks { machine: false, ..READY }, InPlace::Complete),
            (Marks { hook_pending: false, ..READY }, InPlace::Wait(InPlaceWait::Owner)),
            (Marks { has_node: false, ..READY }, InPlace::Wait(InPlaceWait::Provisioning)),
            (Marks { bootstrap_data_created: false, ..READY }, InPlace::Wait(InPlaceWait::Provisioning)),
            (Marks { infrastructure_provisioned: false, ..READY }, InPlace::Wait(InPlaceWait::Provisioning)),
            (Marks { infrastructure: None, ..READY }, InPlace::Failed(InPlaceFailure::InfrastructureMissing)),
            (Marks { infrastructure: Some(false), ..READY }, InPlace::Wait(InPlaceWait::InfrastructureMark)),
            (Marks { bootstrap: Some(false), ..READY }, InPlace::Wait(InPlaceWait::BootstrapMark)),
            (Marks { bootstrap: None, ..READY }, InPlace::Call),
            (READY, InPlace::Call),
        ];
        for (marks, expected) in cases {
            assert_eq!(decide(&marks), expected, "{marks:?}");
        }
    }

    #[test]
    fn an_update_stays_in_progress_until_the_hook_is_no_longer_pending() {
        // The order in which completion removes the marks.
        let without_mark = Marks { machine: false, ..READY };
        assert!(READY.update_in_progress() && without_mark.update_in_progress());
        assert!(!Marks { hook_pending: false, ..without_mark }.update_in_progress());
    }

    #[test]
    fn only_success_without_a_retry_time_is_done() {
        let now = Timestamp::from_second(100).unwrap();
        let after = |answer| Updating::after(answer, now);
        assert_eq!(after(Ok(None)), Updating::Done);
        let again = Some(Timestamp::from_second(105).unwrap());
        let retry = Retry { left: Duration::from_secs(5), interval: Duration::from_secs(30) };
        let held = HeldByHook {
            hook: Hook::UpdateMachine,
            from: None,
            to: None,
            handlers: vec!["update.e".to_owned()],
            message: "rebooting".to_owned(),
            retry,
            asked_seconds: 30,
        };
        assert_eq!(
            after(Ok(Some(held))),
            Updating::InProgress {
                message: "UpdateMachine (update.e): rebooting; asked again after 30s".to_owned(),
                again
            }
        );
        let hook = |again| InPlaceFailure::Hook { message: "no disk".to_owned(), again };
        for failure in [InPlaceFailure::NoHandler, hook(None), hook(again)] {
            let known = failure.again();
            assert_eq!(after(Err(failure.clone())), Updating::Failed(failure.clone()));
            assert_eq!(known, if failure == hook(again) { again } else { None });
        }
    }
}
