//! Deleting a Machine, in order: hooks, drain, volumes, hooks, infrastructure, bootstrap config, Node.
//!
//! [`next`] is asked again after each step with what that step found out, until it waits or lets the Machine go. A
//! step that was done before a crash is found done when it is looked at again, so there is nothing to remember but
//! when draining and detaching began.

use jiff::{SignedDuration, Timestamp};

use super::drain::DrainProgress;
use crate::waiting::{DeletionStep, WaitingOn};

/// What is known when a Machine is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// When deletion was asked for.
    pub requested: Timestamp,
    /// Annotations that hold deletion before the drain.
    pub pre_drain_hooks: Vec<String>,
    /// Annotations that hold deletion before the infrastructure goes.
    pub pre_terminate_hooks: Vec<String>,
    /// Whether the Node is drained and deleted.
    pub node: NodeSteps,
    /// An annotation says not to drain.
    pub drain_excluded: bool,
    /// An annotation says not to wait for volumes.
    pub volumes_excluded: bool,
    /// How long steps may take.
    pub timeouts: Timeouts,
    /// When the drain began, if it did.
    pub drain_since: Option<Timestamp>,
    /// When waiting for volumes began, if it did.
    pub volumes_since: Option<Timestamp>,
    /// What the drain found, if it was looked at in this round.
    pub drain: Option<Drain>,
    /// What became of the volumes, if they were looked at in this round.
    pub volumes: Option<Volumes>,
    /// The infrastructure machine.
    pub infrastructure: Owned,
    /// The bootstrap config.
    pub bootstrap: Owned,
    /// What became of the Node, if its deletion was tried in this round.
    pub node_deletion: Option<NodeDeletion>,
}

/// Whether the steps that concern the Node are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSteps {
    /// They are, for this Node.
    Of(String),
    /// They are not.
    Skipped(NodeSkipped),
}

/// Why nothing is done about the Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeSkipped {
    /// The Machine never had one.
    NoNode,
    /// The whole cluster goes, its Nodes with it.
    ClusterDeleting,
    /// The control plane goes, and the API that knows the Node with it.
    ControlPlaneDeleting,
    /// This is the last control plane Machine: the API that knows the Node goes with it.
    LastControlPlane,
}

/// How long steps may take; nothing means for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Draining, from its beginning.
    pub drain: Option<SignedDuration>,
    /// Detaching of volumes, from its beginning.
    pub volumes: Option<SignedDuration>,
    /// Deletion of the Node, from the request to delete the Machine.
    pub node: Option<SignedDuration>,
}

impl Timeouts {
    /// How long deletion of a Node is tried if the Machine does not say.
    pub const DEFAULT_NODE: SignedDuration = SignedDuration::from_secs(10);

    /// Reads the timeouts of a Machine: absent or zero means for ever, but for the Node, where absent means 10 s.
    pub fn of_seconds(drain: Option<i32>, volumes: Option<i32>, node: Option<i32>) -> Self {
        let limit = |seconds: i32| (seconds > 0).then(|| SignedDuration::from_secs(i64::from(seconds)));
        Self {
            drain: drain.and_then(limit),
            volumes: volumes.and_then(limit),
            node: node.map_or(Some(Self::DEFAULT_NODE), limit),
        }
    }
}

/// What a look at the drain found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drain {
    /// Nothing is left that has to go.
    Done,
    /// The Node does not exist any more.
    NodeGone,
    /// Pods are left.
    Pending(DrainProgress),
    /// The workload cluster does not answer.
    NoAnswer {
        /// What happened instead.
        why: String,
    },
}

/// What became of the volumes of the Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volumes {
    /// None is attached.
    Detached,
    /// Some are.
    Attached(Vec<String>),
    /// The workload cluster does not answer.
    NoAnswer {
        /// What happened instead.
        why: String,
    },
}

/// An object that goes with the Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owned {
    /// It is gone, or never was.
    Gone,
    /// It is there.
    Present {
        /// The kind of the provider's object.
        kind: String,
        /// The name of the provider's object.
        name: String,
    },
    /// It was asked to go.
    Deleting {
        /// The kind of the provider's object.
        kind: String,
        /// The name of the provider's object.
        name: String,
    },
}

/// What became of the deletion of the Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeDeletion {
    /// It is gone.
    Gone,
    /// It was asked to go, or cannot be asked.
    Pending {
        /// What is known about it.
        why: String,
    },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Record that the drain begins now, then ask again.
    BeginDrain,
    /// Cordon the Node, evict its pods, then ask again with what was found.
    Drain {
        /// The Node.
        node: String,
    },
    /// Record that waiting for volumes begins now, then ask again.
    BeginVolumes,
    /// See which volumes are attached to the Node, then ask again.
    LookAtVolumes {
        /// The Node.
        node: String,
    },
    /// Delete the infrastructure machine, then ask again.
    DeleteInfrastructure,
    /// Delete the bootstrap config, then ask again.
    DeleteBootstrap,
    /// Delete the Node, then ask again with what became of it.
    DeleteNode {
        /// The Node.
        node: String,
    },
    /// Nothing now.
    Wait(WaitingOn),
    /// All is done: the finalizer goes, and the Machine with it.
    Release,
}

/// Decides what comes next.
pub fn next(facts: &Facts, now: Timestamp) -> Step {
    if let NodeSteps::Of(node) = &facts.node
        && let Some(step) = node_empties(facts, node, now)
    {
        return step;
    }
    if !facts.pre_terminate_hooks.is_empty() {
        return Step::Wait(WaitingOn::PreTerminateHooks(facts.pre_terminate_hooks.clone()));
    }
    match &facts.infrastructure {
        Owned::Gone => {}
        Owned::Present { .. } => return Step::DeleteInfrastructure,
        Owned::Deleting { kind, name } => {
            return Step::Wait(WaitingOn::InfrastructureDeletion { kind: kind.clone(), name: name.clone() });
        }
    }
    match &facts.bootstrap {
        Owned::Gone => {}
        Owned::Present { .. } => return Step::DeleteBootstrap,
        Owned::Deleting { kind, name } => {
            return Step::Wait(WaitingOn::BootstrapDeletion { kind: kind.clone(), name: name.clone() });
        }
    }
    let NodeSteps::Of(node) = &facts.node else { return Step::Release };
    match &facts.node_deletion {
        // At least one attempt is made, however late it is.
        None => Step::DeleteNode { node: node.clone() },
        Some(NodeDeletion::Gone) => Step::Release,
        Some(NodeDeletion::Pending { why }) => {
            let until = deadline(facts.requested, facts.timeouts.node);
            if passed(until, now) {
                return Step::Release;
            }
            Step::Wait(WaitingOn::NodeDeletion { name: node.clone(), until, why: why.clone() })
        }
    }
}

/// The step that is left before nothing runs on a Node and nothing is attached to it; none if all are done. The first half
/// of a deletion, also used before a Machine is updated in place.
pub(super) fn node_empties(facts: &Facts, node: &str, now: Timestamp) -> Option<Step> {
    if !facts.pre_drain_hooks.is_empty() {
        return Some(Step::Wait(WaitingOn::PreDrainHooks(facts.pre_drain_hooks.clone())));
    }
    // Without a machine there is nothing that could still run or be attached.
    if facts.infrastructure == Owned::Gone {
        return None;
    }
    if !facts.drain_excluded
        && let Some(step) = drain(facts, node, now)
    {
        return Some(step);
    }
    if facts.volumes_excluded || facts.drain == Some(Drain::NodeGone) {
        return None;
    }
    let Some(since) = facts.volumes_since else { return Some(Step::BeginVolumes) };
    let until = deadline(since, facts.timeouts.volumes);
    if passed(until, now) {
        return None;
    }
    match &facts.volumes {
        None => Some(Step::LookAtVolumes { node: node.to_owned() }),
        Some(Volumes::Detached) => None,
        Some(Volumes::Attached(attached)) => {
            Some(Step::Wait(WaitingOn::Volumes { since, until, attached: attached.clone() }))
        }
        Some(Volumes::NoAnswer { why }) => Some(Step::Wait(WaitingOn::WorkloadOfDeletion {
            step: DeletionStep::Volumes,
            since,
            until,
            why: why.clone(),
        })),
    }
}

fn drain(facts: &Facts, node: &str, now: Timestamp) -> Option<Step> {
    let Some(since) = facts.drain_since else { return Some(Step::BeginDrain) };
    let until = deadline(since, facts.timeouts.drain);
    if passed(until, now) {
        return None;
    }
    match &facts.drain {
        None => Some(Step::Drain { node: node.to_owned() }),
        Some(Drain::Done | Drain::NodeGone) => None,
        Some(Drain::Pending(progress)) => {
            Some(Step::Wait(WaitingOn::Drain { since, until, progress: Box::new(progress.clone()) }))
        }
        Some(Drain::NoAnswer { why }) => Some(Step::Wait(WaitingOn::WorkloadOfDeletion {
            step: DeletionStep::Drain,
            since,
            until,
            why: why.clone(),
        })),
    }
}

fn deadline(since: Timestamp, limit: Option<SignedDuration>) -> Option<Timestamp> {
    since.checked_add(limit?).ok()
}

fn passed(until: Option<Timestamp>, now: Timestamp) -> bool {
    until.is_some_and(|until| now >= until)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn machine(name: &str) -> Owned {
        Owned::Present { kind: "DevMachine".to_owned(), name: name.to_owned() }
    }

    fn facts() -> Facts {
        Facts {
            requested: at(0),
            pre_drain_hooks: Vec::new(),
            pre_terminate_hooks: Vec::new(),
            node: NodeSteps::Of("n1".to_owned()),
            drain_excluded: false,
            volumes_excluded: false,
            timeouts: Timeouts::of_seconds(Some(60), Some(60), None),
            drain_since: None,
            volumes_since: None,
            drain: None,
            volumes: None,
            infrastructure: machine("m1"),
            bootstrap: Owned::Present { kind: "KubeadmConfig".to_owned(), name: "m1".to_owned() },
            node_deletion: None,
        }
    }

    /// Takes every step as if it succeeded, and returns their names.
    fn run(mut facts: Facts) -> Vec<String> {
        let mut steps = Vec::new();
        loop {
            let step = next(&facts, at(1));
            steps.push(format!("{step:?}").split([' ', '(']).next().unwrap_or_default().to_owned());
            match step {
                Step::BeginDrain => facts.drain_since = Some(at(1)),
                Step::Drain { .. } => facts.drain = Some(Drain::Done),
                Step::BeginVolumes => facts.volumes_since = Some(at(1)),
                Step::LookAtVolumes { .. } => facts.volumes = Some(Volumes::Detached),
                Step::DeleteInfrastructure => facts.infrastructure = Owned::Gone,
                Step::DeleteBootstrap => facts.bootstrap = Owned::Gone,
                Step::DeleteNode { .. } => facts.node_deletion = Some(NodeDeletion::Gone),
                Step::Wait(_) | Step::Release => return steps,
            }
        }
    }

    #[test]
    fn all_steps_are_taken_in_order() {
        let expected = [
            "BeginDrain",
            "Drain",
            "BeginVolumes",
            "LookAtVolumes",
            "DeleteInfrastructure",
            "DeleteBootstrap",
            "DeleteNode",
            "Release",
        ];
        assert_eq!(run(facts()), expected);
    }

    #[test]
    fn a_machine_without_a_node_skips_what_concerns_nodes_but_not_the_last_hook() {
        let without = Facts { node: NodeSteps::Skipped(NodeSkipped::NoNode), ..facts() };
        assert_eq!(run(without.clone()), ["DeleteInfrastructure", "DeleteBootstrap", "Release"]);
        let hooks = vec!["a".to_owned()];
        let held = Facts { pre_drain_hooks: hooks.clone(), pre_terminate_hooks: hooks.clone(), ..without };
        assert_eq!(next(&held, at(1)), Step::Wait(WaitingOn::PreTerminateHooks(hooks)));
    }

    #[test]
    fn a_machine_excluded_from_draining_still_waits_for_volumes() {
        let excluded = Facts { drain_excluded: true, ..facts() };
        assert_eq!(run(excluded)[..2], ["BeginVolumes", "LookAtVolumes"]);
        let both = Facts { drain_excluded: true, volumes_excluded: true, ..facts() };
        assert_eq!(run(both)[0], "DeleteInfrastructure");
    }

    #[test]
    fn a_drain_ends_with_its_timeout_whatever_is_left() {
        let left = Drain::Pending(DrainProgress::default());
        let waiting =
            Facts { drain_since: Some(at(0)), drain: Some(left), volumes_excluded: true, ..facts() };
        let Step::Wait(wait) = next(&waiting, at(50)) else { panic!("does not wait") };
        assert_eq!(
            (wait.reason(), wait.retry_after(at(50))),
            ("DrainingNode", Some(std::time::Duration::from_secs(10)))
        );
        assert_eq!(next(&waiting, at(60)), Step::DeleteInfrastructure);
        let patient = Facts { timeouts: Timeouts::of_seconds(Some(0), None, None), ..waiting };
        assert!(matches!(next(&patient, at(1_000_000)), Step::Wait(_)));
    }

    #[test]
    fn a_cluster_that_does_not_answer_holds_the_drain_until_its_timeout() {
        let silent = Facts {
            drain_since: Some(at(0)),
            drain: Some(Drain::NoAnswer { why: "connection refused".to_owned() }),
            ..facts()
        };
        let Step::Wait(wait) = next(&silent, at(1)) else { panic!("does not wait") };
        assert_eq!(wait.reason(), "DrainingNode");
        assert!(wait.to_string().contains("connection refused"), "{wait}");
        assert_eq!(next(&silent, at(61)), Step::BeginVolumes);
    }

    #[test]
    fn a_node_that_stays_is_given_up_after_its_timeout_but_not_untried() {
        let late = Facts { infrastructure: Owned::Gone, bootstrap: Owned::Gone, ..facts() };
        assert_eq!(next(&late, at(100)), Step::DeleteNode { node: "n1".to_owned() });
        let why = "no answer".to_owned();
        let tried = Facts { node_deletion: Some(NodeDeletion::Pending { why }), ..late };
        assert!(matches!(next(&tried, at(9)), Step::Wait(WaitingOn::NodeDeletion { .. })));
        assert_eq!(next(&tried, at(10)), Step::Release);
        let patient = Facts { timeouts: Timeouts::of_seconds(None, None, Some(0)), ..tried };
        assert!(matches!(next(&patient, at(1_000_000)), Step::Wait(WaitingOn::NodeDeletion { .. })));
    }
}
