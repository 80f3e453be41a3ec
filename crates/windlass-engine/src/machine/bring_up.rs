//! How a Machine comes up: bootstrap data, infrastructure, Node; and what its spec and status become on the way.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::cluster::{
    Machine, MachineAddress, MachineAddressType, MachineDeletionStatus, MachineNodeReference, MachinePhase,
    MachineStatus,
};
use windlass_api::conditions as types;

use super::conditions::{self, Waits};
use super::deletion::Step;
use super::since::{self, Kept};
use super::{NodeSeen, Observed, Updating};
use crate::condition;
use crate::contract::ReadyReport;
use crate::legacy;
use crate::pause::Pause;
use crate::referenced::Referenced;
use crate::waiting::{Wait, WaitingOn};

/// What becomes of a Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What changes in its spec.
    pub spec: SpecChange,
    /// Its status: what the Machine controller has to say, and nothing that others say.
    pub status: MachineStatus,
    /// What it waits on, if anything.
    pub waiting: Option<WaitingOn>,
    /// The same with its beginning.
    pub wait: Option<Wait>,
    /// What has to be written of it, as [`Wait::change`] says it.
    pub keep: Option<Option<String>>,
    /// When to reconcile again, if no event will tell.
    pub again: Option<Duration>,
}

impl Decision {
    /// Whether the status differs from what the Machine has. What others have written there does not count.
    pub fn changes(&self, machine: &Machine) -> bool {
        let says_up_to_date = condition::find(&self.status.conditions, types::UP_TO_DATE).is_some();
        self.status != own(&machine.status, says_up_to_date)
    }

    /// The change of the spec was written, and the Machine is of this generation then: the status is about it too. Unless
    /// another client changed something in between, which was not reconciled.
    pub fn spec_is_written(&mut self, generation: Option<i64>) {
        let Some(before) = self.status.observed_generation else { return };
        if generation != Some(before + 1) {
            return;
        }
        self.status.observed_generation = generation;
        for condition in &mut self.status.conditions {
            if condition.observed_generation == Some(before) {
                condition.observed_generation = generation;
            }
        }
    }
}

/// The status of a Machine that is paused; nothing if it says so already. All else stays as it was.
pub fn paused_status(machine: &Machine, pause: Pause, now: Timestamp) -> Option<MachineStatus> {
    // Control planes say themselves whether their Machines are up to date; saying it for them once more does no harm.
    let mut status = own(&machine.status, true);
    let finding = pause.finding(Machine::KIND);
    condition::set(&mut status.conditions, finding, machine.metadata.generation, now).then_some(status)
}

/// The part of a status that the Machine controller writes.
fn own(status: &MachineStatus, says_up_to_date: bool) -> MachineStatus {
    let mut own = MachineStatus { certificates_expiry_date: None, ..status.clone() };
    own.conditions.retain(|condition| {
        is_own(&condition.type_) && (condition.type_ != types::UP_TO_DATE || says_up_to_date)
    });
    own
}

/// What changes in the spec of a Machine: what providers said, written down once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecChange {
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// `spec.bootstrap.dataSecretName`.
    pub data_secret_name: Option<String>,
    /// `spec.failureDomain`.
    pub failure_domain: Option<String>,
}

impl SpecChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Conditions that this controller sets; all others it only reads.
fn is_own(type_: &str) -> bool {
    const OWN: [&str; 10] = [
        types::AVAILABLE,
        types::READY,
        types::UP_TO_DATE,
        types::UPDATING,
        types::BOOTSTRAP_CONFIG_READY,
        types::INFRASTRUCTURE_READY,
        types::NODE_READY,
        types::NODE_HEALTHY,
        types::DELETING,
        types::PAUSED,
    ];
    OWN.contains(&type_)
}

/// Decides what becomes of a Machine.
pub fn decide(observed: &Observed<'_>, now: Timestamp) -> Decision {
    let machine = observed.machine;
    let mut spec = SpecChange::default();
    let mut status = MachineStatus {
        initialization: machine.status.initialization,
        node_ref: machine.status.node_ref.clone(),
        node_info: machine.status.node_info.clone(),
        last_updated: machine.status.last_updated.clone(),
        failure_domain: machine.status.failure_domain.clone(),
        addresses: machine.status.addresses.clone(),
        observed_generation: machine.metadata.generation,
        deletion: machine.status.deletion.clone(),
        ..MachineStatus::default()
    };
    let waits = Waits {
        bootstrap: bootstrap(observed, &mut spec, &mut status),
        infrastructure: infrastructure(observed, &mut spec, &mut status),
        node: node(observed, &spec, &mut status),
    };
    if matches!(observed.deletion, Some(Step::BeginDrain | Step::BeginVolumes)) {
        begin(&mut status, observed.deletion.as_ref(), now);
    }

    // What others say takes part in the summaries and is then left to them.
    status.conditions = machine.status.conditions.clone();
    let generation = machine.metadata.generation;
    for finding in conditions::findings(observed, &waits, now) {
        condition::set(&mut status.conditions, finding, generation, now);
    }
    let ready = conditions::ready(machine, &status.conditions);
    condition::set(&mut status.conditions, ready, generation, now);
    let (available, min_ready) = conditions::available(machine, &status.conditions, now);
    condition::set(&mut status.conditions, available, generation, now);
    status.deprecated.clone_from(&machine.status.deprecated);
    legacy::machine(&mut status, now);
    let mut status = own(&status, observed.up_to_date.is_some());

    let phase = phase(observed, &status);
    if machine.status.phase.as_ref() != Some(&phase) {
        status.last_updated = Some(Time(condition::to_the_second(now)));
    }
    status.phase = Some(phase);
    let waiting = waiting(observed, waits.clone(), min_ready);
    let all = [&waits.bootstrap, &waits.infrastructure, &waits.node, &waiting];
    let again = all.into_iter().flatten().filter_map(|wait| wait.retry_after(now)).min();
    let Kept { wait, change: keep, again: keep_again } = since::keep(waiting.as_ref(), observed, now);
    let again = [again, keep_again].into_iter().flatten().min();
    Decision { spec, status, waiting, wait, keep, again }
}

fn bootstrap(
    observed: &Observed<'_>,
    spec: &mut SpecChange,
    status: &mut MachineStatus,
) -> Option<WaitingOn> {
    let given = observed.machine.spec.bootstrap.data_secret_name.as_ref();
    if given.is_some() {
        // Written down once, never read again: the config may go before the Machine does.
        status.initialization.bootstrap_data_secret_created = Some(true);
    }
    match &observed.bootstrap {
        Referenced::None if given.is_none() => Some(WaitingOn::BootstrapData),
        Referenced::None => None,
        _ if given.is_some() => None,
        Referenced::Missing(reference) => Some(WaitingOn::Missing(reference.clone())),
        Referenced::Unreadable { reference, why } => {
            Some(WaitingOn::Unreadable { reference: reference.clone(), why: why.clone() })
        }
        Referenced::Found { reference, object, .. } => {
            match (object.data_secret_created, &object.data_secret_name) {
                (true, Some(name)) => {
                    spec.data_secret_name = Some(name.clone());
                    status.initialization.bootstrap_data_secret_created = Some(true);
                    None
                }
                (true, None) => Some(WaitingOn::BrokenContract {
                    reference: reference.clone(),
                    field: "status.dataSecretName",
                }),
                (false, _) => Some(WaitingOn::BootstrapProvider {
                    reference: reference.clone(),
                    says: says(&object.ready),
                }),
            }
        }
    }
}

fn infrastructure(
    observed: &Observed<'_>,
    spec: &mut SpecChange,
    status: &mut MachineStatus,
) -> Option<WaitingOn> {
    let provisioned = status.initialization.infrastructure_provisioned == Some(true);
    let (reference, object) = match &observed.infrastructure {
        Referenced::None => return None,
        Referenced::Missing(_) if provisioned => return None,
        Referenced::Missing(reference) => return Some(WaitingOn::Missing(reference.clone())),
        Referenced::Unreadable { reference, why } => {
            return Some(WaitingOn::Unreadable { reference: reference.clone(), why: why.clone() });
        }
        Referenced::Found { reference, object, .. } => (reference, object),
    };
    if !object.provisioned && !provisioned {
        return Some(WaitingOn::InfrastructureProvider {
            reference: reference.clone(),
            says: says(&object.ready),
        });
    }
    let Some(provider_id) = &object.provider_id else {
        return Some(WaitingOn::BrokenContract { reference: reference.clone(), field: "spec.providerID" });
    };
    let machine = observed.machine;
    if machine.spec.provider_id != *provider_id {
        spec.provider_id = Some(provider_id.clone());
    }
    if let Some(domain) =
        object.legacy_failure_domain.as_ref().filter(|domain| **domain != machine.spec.failure_domain)
    {
        spec.failure_domain = Some(domain.clone());
    }
    status.failure_domain = object.failure_domain.clone().unwrap_or_default();
    status.addresses = object.addresses.iter().map(|(type_, address)| address_of(type_, address)).collect();
    status.initialization.infrastructure_provisioned = Some(true);
    None
}

fn address_of(type_: &str, address: &str) -> MachineAddress {
    MachineAddress { type_: MachineAddressType::from(type_), address: address.to_owned() }
}

fn node(observed: &Observed<'_>, spec: &SpecChange, status: &mut MachineStatus) -> Option<WaitingOn> {
    match &observed.node {
        NodeSeen::NotSought { why } => Some(WaitingOn::NodeLookup { why: why.clone() }),
        NodeSeen::NoAnswer { why, since } => Some(WaitingOn::Workload { why: why.clone(), since: *since }),
        NodeSeen::Absent => {
            let provider_id = spec.provider_id.as_ref().unwrap_or(&observed.machine.spec.provider_id);
            Some(WaitingOn::Node { provider_id: provider_id.clone() })
        }
        NodeSeen::Found(node) => {
            status.node_ref = Some(MachineNodeReference { name: node.name.clone() });
            status.node_info = Some(node.info.clone());
            if status.addresses.is_empty() {
                let addresses = node.addresses.iter();
                status.addresses = addresses.map(|found| address_of(&found.type_, &found.address)).collect();
            }
            None
        }
    }
}

/// Records when a step of a deletion began.
fn begin(status: &mut MachineStatus, step: Option<&Step>, now: Timestamp) {
    let deletion = status.deletion.get_or_insert_with(MachineDeletionStatus::default);
    let now = Some(Time(condition::to_the_second(now)));
    match step {
        Some(Step::BeginDrain) => deletion.node_drain_start_time = now,
        _ => deletion.wait_for_node_volume_detach_start_time = now,
    }
}

fn phase(observed: &Observed<'_>, status: &MachineStatus) -> MachinePhase {
    if observed.machine.metadata.deletion_timestamp.is_some() {
        return MachinePhase::Deleting;
    }
    if condition::is_true(&status.conditions, types::UPDATING) {
        return MachinePhase::Updating;
    }
    match &status.initialization {
        initialization if initialization.infrastructure_provisioned == Some(true) => {
            if status.node_ref.is_some() { MachinePhase::Running } else { MachinePhase::Provisioned }
        }
        initialization if initialization.bootstrap_data_secret_created == Some(true) => {
            MachinePhase::Provisioning
        }
        _ => MachinePhase::Pending,
    }
}

/// The one thing that is waited on: the first that is missing, in the order in which a Machine comes up.
fn waiting(observed: &Observed<'_>, waits: Waits, min_ready: Option<SignedDuration>) -> Option<WaitingOn> {
    match &observed.deletion {
        Some(Step::Wait(wait)) => return Some(wait.clone()),
        Some(_) => return None,
        None => {}
    }
    let unhealthy = || match &observed.node {
        NodeSeen::Found(node) => {
            let ready = node.conditions.iter().find(|condition| condition.type_ == "Ready");
            let is_ready = ready.is_some_and(|ready| ready.status == "True");
            let says = ready.and_then(|ready| ready.message.clone()).unwrap_or_default();
            (!is_ready).then(|| WaitingOn::NodeHealthy { name: node.name.clone(), says })
        }
        _ => None,
    };
    let update = || match (&observed.updating, observed.marks().update_in_progress()) {
        (Some(Updating::Preparing(on)), _) => Some(on.clone()),
        (Some(updating), _) => Some(WaitingOn::Update { says: updating.message() }),
        (None, true) => Some(WaitingOn::Update { says: String::new() }),
        (None, false) => None,
    };
    waits
        .bootstrap
        .or(waits.infrastructure)
        .or(waits.node)
        .or_else(update)
        .or_else(unhealthy)
        .or(min_ready.map(|left| WaitingOn::MinReady { left }))
}

fn says(ready: &ReadyReport) -> String {
    match ready {
        ReadyReport::Reported { message, .. } if !message.is_empty() => message.clone(),
        ReadyReport::Reported { reason, .. } => reason.clone(),
        ReadyReport::Absent | ReadyReport::Invalid { .. } => String::new(),
    }
}
