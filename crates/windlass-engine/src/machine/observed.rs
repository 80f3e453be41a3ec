//! What is known about a Machine when it is decided upon.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use kube_core::ResourceExt;
use windlass_api::cluster::Machine;
use windlass_api::hooks::Hook;
use windlass_api::names::UPDATE_IN_PROGRESS_ANNOTATION;

use super::UpToDate;
use super::deletion::Step;
use super::in_place::{InPlaceFailure, Marks};
use crate::contract::{BootstrapConfig, InfrastructureMachine};
use crate::pending_hooks::PendingHooks;
use crate::referenced::Referenced;
use crate::waiting::{HeldByHook, Wait, WaitingOn};

/// What is known about a Machine.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The Machine itself.
    pub machine: &'a Machine,
    /// Its bootstrap config.
    pub bootstrap: Referenced<BootstrapConfig>,
    /// Its infrastructure machine.
    pub infrastructure: Referenced<InfrastructureMachine>,
    /// Its Node.
    pub node: NodeSeen,
    /// How it stands to its MachineDeployment; nothing if it belongs to none.
    pub up_to_date: Option<UpToDate>,
    /// What an update in place says about itself in this round.
    pub updating: Option<Updating>,
    /// How far its deletion is, if it is being deleted.
    pub deletion: Option<Step>,
    /// What it waited on when it was reconciled last, as far as the controller remembers.
    pub waited: Option<&'a Wait>,
}

/// What is known about the Node of a Machine.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeSeen {
    /// Not checked: there is nothing yet that a Node could be found by, or no control plane to ask.
    NotSought {
        /// Why.
        why: String,
    },
    /// The workload cluster does not answer.
    NoAnswer {
        /// What happened instead.
        why: String,
        /// Since when it has not.
        since: Timestamp,
    },
    /// There is no Node of this Machine.
    Absent,
    /// There is one.
    Found(Box<Node>),
}

/// A Node, as far as a Machine is concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The name of the Node, which goes into `status.nodeRef`.
    pub name: String,
    /// What it reports about itself.
    pub info: core::NodeSystemInfo,
    /// What the kubelet and others report, `Ready` among it.
    pub conditions: Vec<core::NodeCondition>,
    /// Its addresses.
    pub addresses: Vec<core::NodeAddress>,
}

impl Node {
    /// Takes from a Node what a Machine looks at.
    pub fn of(node: &core::Node) -> Self {
        let status = node.status.as_ref();
        Self {
            name: node.name_any(),
            info: status.and_then(|status| status.node_info.clone()).unwrap_or_default(),
            conditions: status.and_then(|status| status.conditions.clone()).unwrap_or_default(),
            addresses: status.and_then(|status| status.addresses.clone()).unwrap_or_default(),
        }
    }
}

/// Where an update in place stands: what follows from the marks and from the answer of the hook, and what the condition
/// tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Updating {
    /// It goes on.
    InProgress {
        /// What the extension says, or what is waited on; may be empty.
        message: String,
        /// When the extension wants to be asked again; none while something else is waited on.
        again: Option<Timestamp>,
    },
    /// No extension is called before the Node is drained and its volumes are detached.
    Preparing(WaitingOn),
    /// It is done: the marks go, the pending hook last.
    Done,
    /// It failed, and is tried again with growing pauses: there is no way back.
    Failed(InPlaceFailure),
    /// It takes longer than the user allows.
    Overdue {
        /// Since when, and what happens now.
        message: String,
    },
}

impl Updating {
    /// What follows from the answer to `UpdateMachine`: a handler asks to wait, all are done, or one failed.
    pub fn after(answer: Result<Option<HeldByHook>, InPlaceFailure>, now: Timestamp) -> Self {
        match answer {
            Ok(Some(held)) => {
                let again = now.checked_add(held.retry.left).unwrap_or(Timestamp::MAX);
                Self::InProgress { message: held.to_string(), again: Some(again) }
            }
            Ok(None) => Self::Done,
            Err(failure) => Self::Failed(failure),
        }
    }

    /// It goes on, and waits for something that is not an extension.
    pub fn waiting(message: impl Into<String>) -> Self {
        Self::InProgress { message: message.into(), again: None }
    }

    /// What there is to say about it; may be empty.
    pub fn message(&self) -> String {
        match self {
            Self::InProgress { message, .. } | Self::Overdue { message } => message.clone(),
            Self::Done => String::new(),
            Self::Preparing(on) => on.sentence().to_string(),
            Self::Failed(failure) => failure.to_string(),
        }
    }
}

impl Observed<'_> {
    /// What the objects say about an update in place.
    pub fn marks(&self) -> Marks {
        let status = &self.machine.status;
        let has_config = self.machine.spec.bootstrap.config_ref.is_some();
        Marks {
            machine: annotation(self.machine, UPDATE_IN_PROGRESS_ANNOTATION).is_some(),
            hook_pending: PendingHooks::of(&self.machine.metadata).contains(Hook::UpdateMachine),
            infrastructure_provisioned: status.initialization.infrastructure_provisioned == Some(true),
            bootstrap_data_created: status.initialization.bootstrap_data_secret_created == Some(true),
            has_node: status.node_ref.is_some(),
            infrastructure: self.infrastructure.mark(),
            bootstrap: if has_config { Some(self.bootstrap.mark().unwrap_or_default()) } else { None },
        }
    }
}

pub(super) fn annotation<'a>(machine: &'a Machine, key: &str) -> Option<&'a str> {
    machine.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
