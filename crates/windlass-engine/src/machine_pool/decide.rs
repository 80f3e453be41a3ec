//! What becomes of a MachinePool's spec and status.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use windlass_api::cluster::{MachinePool, MachinePoolPhase, MachinePoolStatus};
use windlass_api::conditions as types;
use windlass_api::conditions::ConditionStatus;
use windlass_api::conditions::reason;

use super::{Counts, NodesSeen, count};
use crate::condition::{self, Finding};
use crate::contract::{BootstrapConfig, InfrastructureMachinePool, ReadyReport};
use crate::machine::Referenced;
use crate::pause::not_paused;

/// What is known about a MachinePool.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The pool itself.
    pub pool: &'a MachinePool,
    /// Its bootstrap config.
    pub bootstrap: Referenced<BootstrapConfig>,
    /// Its infrastructure.
    pub infrastructure: Referenced<InfrastructureMachinePool>,
    /// The Nodes of its Cluster.
    pub nodes: NodesSeen<'a>,
}

/// What becomes of a MachinePool.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What changes in its spec.
    pub spec: SpecChange,
    /// Its status.
    pub status: MachinePoolStatus,
    /// When to look again, if nothing happens before.
    pub look_again: Option<Timestamp>,
}

/// What providers tell a MachinePool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecChange {
    /// The Secret with its bootstrap data.
    pub data_secret_name: Option<String>,
    /// The identities of its instances.
    pub provider_ids: Option<Vec<String>>,
}

impl SpecChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Decides what becomes of a MachinePool. What was reached once is not taken back.
pub fn decide(observed: &Observed<'_>, now: Timestamp) -> Decision {
    let pool = observed.pool;
    let template = &pool.spec.template.spec;
    let bootstrap = observed.bootstrap.object();
    let infrastructure = observed.infrastructure.object();

    let mut spec = SpecChange::default();
    let has_secret = template.bootstrap.data_secret_name.is_some();
    // A new version or a changed config has new data, in another Secret: unlike a Machine, a pool follows it.
    let told = bootstrap
        .filter(|config| config.data_secret_created)
        .and_then(|config| config.data_secret_name.clone());
    if told.is_some() && told != template.bootstrap.data_secret_name {
        spec.data_secret_name = told.clone();
    }
    let provisioned = infrastructure.is_some_and(|infrastructure| infrastructure.provisioned);
    let told_ids = infrastructure.filter(|_| provisioned).map(|infrastructure| &infrastructure.provider_ids);
    if let Some(ids) = told_ids.filter(|ids| **ids != pool.spec.provider_id_list) {
        spec.provider_ids = Some(ids.clone());
    }
    let ids = spec.provider_ids.as_ref().unwrap_or(&pool.spec.provider_id_list);

    let mut status = pool.status.clone();
    if told.is_some() || (has_secret && template.bootstrap.config_ref.is_none()) {
        status.initialization.bootstrap_data_secret_created = Some(true);
    }
    if provisioned {
        status.initialization.infrastructure_provisioned = Some(true);
    }
    let min_ready = SignedDuration::from_secs(template.min_ready_seconds.unwrap_or_default().into());
    let mut look_again = None;
    if let NodesSeen::Found(nodes) = observed.nodes {
        let counts = count(nodes, ids, &template.version, min_ready, now);
        look_again = counts.look_again;
        counted(&mut status, counts);
    }
    status.replicas = infrastructure
        .and_then(|infrastructure| infrastructure.replicas)
        .or_else(|| i32::try_from(ids.len()).ok())
        .or(status.replicas);
    status.phase = Some(phase(pool, &status));
    status.observed_generation = pool.metadata.generation;
    for finding in findings(observed, &status) {
        condition::set(&mut status.conditions, finding, pool.metadata.generation, now);
    }
    Decision { spec, status, look_again }
}

fn counted(status: &mut MachinePoolStatus, counts: Counts) {
    status.node_refs = counts.references;
    status.ready_replicas = Some(counts.ready);
    status.available_replicas = Some(counts.available);
    status.up_to_date_replicas = Some(counts.up_to_date);
    status.versions = counts.versions;
}

fn phase(pool: &MachinePool, status: &MachinePoolStatus) -> MachinePoolPhase {
    let wanted = pool.spec.replicas.unwrap_or_default();
    let ready = status.ready_replicas.unwrap_or_default();
    let initialization = status.initialization;
    if pool.metadata.deletion_timestamp.is_some() {
        MachinePoolPhase::Deleting
    } else if initialization.bootstrap_data_secret_created != Some(true) {
        MachinePoolPhase::Pending
    } else if initialization.infrastructure_provisioned != Some(true) {
        MachinePoolPhase::Provisioning
    } else if status.node_refs.is_empty() && wanted > 0 {
        MachinePoolPhase::Provisioned
    } else if ready < wanted {
        MachinePoolPhase::ScalingUp
    } else if ready > wanted {
        MachinePoolPhase::ScalingDown
    } else {
        MachinePoolPhase::Running
    }
}

fn findings(observed: &Observed<'_>, status: &MachinePoolStatus) -> Vec<Finding> {
    let pool = observed.pool;
    let wanted = pool.spec.replicas.unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default();
    let there = status.replicas.unwrap_or_default();
    let availability = if let NodesSeen::NoAnswer(why) = observed.nodes {
        Finding::unknown(types::AVAILABLE, reason::CONNECTION_DOWN)
            .because(format!("the workload cluster does not answer: {why}"))
    } else if available >= wanted {
        Finding::yes(types::AVAILABLE, reason::AVAILABLE)
    } else {
        Finding::no(types::AVAILABLE, reason::NOT_AVAILABLE)
            .because(format!("{available} of {wanted} instances are available"))
    };
    let outdated = there - status.up_to_date_replicas.unwrap_or_default();
    let rolling = if outdated > 0 {
        Finding::yes(types::ROLLING_OUT, reason::ROLLING_OUT).because(format!(
            "{outdated} of {there} instances are not at {}",
            pool.spec.template.spec.version
        ))
    } else {
        Finding::no(types::ROLLING_OUT, reason::NOT_ROLLING_OUT)
    };
    let scaling = |type_: &str, is: bool, yes: &str, no: &str| match is {
        true => Finding::yes(type_, yes).because(format!("from {there} to {wanted} instances")),
        false => Finding::no(type_, no),
    };
    let deleting = match pool.metadata.deletion_timestamp.is_some() {
        true => {
            let step = deletion(&observed.infrastructure, &observed.bootstrap);
            Finding::yes(types::DELETING, step.reason()).because(step)
        }
        false => Finding::no(types::DELETING, reason::NOT_DELETING),
    };
    let initialization = pool.status.initialization;
    vec![
        availability,
        rolling,
        scaling(types::SCALING_UP, there < wanted, reason::SCALING_UP, reason::NOT_SCALING_UP),
        scaling(types::SCALING_DOWN, there > wanted, reason::SCALING_DOWN, reason::NOT_SCALING_DOWN),
        referenced(
            types::BOOTSTRAP_CONFIG_READY,
            &observed.bootstrap,
            observed.bootstrap.object().map(|config| (&config.ready, config.data_secret_created)),
            initialization.bootstrap_data_secret_created == Some(true),
        ),
        referenced(
            types::INFRASTRUCTURE_READY,
            &observed.infrastructure,
            observed.infrastructure.object().map(|pool| (&pool.ready, pool.provisioned)),
            initialization.infrastructure_provisioned == Some(true),
        ),
        deleting,
        not_paused(),
    ]
}

fn referenced<T>(
    type_: &str,
    referenced: &Referenced<T>,
    report: Option<(&ReadyReport, bool)>,
    was: bool,
) -> Finding {
    match (referenced, report) {
        (Referenced::None, _) => Finding::yes(type_, reason::DATA_SECRET_PROVIDED),
        (Referenced::Missing(reference), _) if was => {
            Finding::no(type_, reason::OBJECT_DELETED).because(format!("{reference} has been deleted"))
        }
        (Referenced::Missing(reference), _) => {
            Finding::no(type_, reason::OBJECT_DOES_NOT_EXIST).because(format!("{reference} does not exist"))
        }
        (Referenced::Unreadable { reference, why }, _) => {
            Finding::unknown(type_, reason::INTERNAL_ERROR).because(format!("cannot read {reference}: {why}"))
        }
        (_, Some((ReadyReport::Reported { status, reason: word, message }, _))) => {
            let word = match (word.as_str(), status) {
                ("", ConditionStatus::True) => reason::READY,
                ("", ConditionStatus::False) => reason::NOT_READY,
                ("", ConditionStatus::Unknown) => reason::READY_UNKNOWN,
                (word, _) => word,
            };
            Finding::new(type_, *status, word).because(message)
        }
        (_, Some((ReadyReport::Invalid { status }, _))) => {
            Finding::unknown(type_, reason::INVALID_CONDITION_REPORTED)
                .because(format!("condition Ready has the status {status:?}"))
        }
        (_, Some((ReadyReport::Absent, true))) => Finding::yes(type_, reason::READY),
        (Referenced::Found { reference, .. }, _) => {
            Finding::no(type_, reason::NOT_READY).because(format!("{reference} is not done"))
        }
    }
}

/// What stands between a MachinePool and its end: first the infrastructure goes, then the bootstrap config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The infrastructure has to go.
    Infrastructure {
        /// Kind and name.
        what: String,
        /// Whether it is not being deleted.
        delete: bool,
    },
    /// The bootstrap config has to go.
    Bootstrap {
        /// Kind and name.
        what: String,
        /// Whether it is not being deleted.
        delete: bool,
    },
    /// Something could not be read, so it is unknown whether it is gone.
    Unknown {
        /// Kind and name.
        what: String,
        /// What went wrong.
        why: String,
    },
    /// Nothing.
    Release,
}

/// What comes next in the deletion of a MachinePool.
pub fn deletion<I, B>(infrastructure: &Referenced<I>, bootstrap: &Referenced<B>) -> Deletion {
    match (infrastructure, bootstrap) {
        (Referenced::Found { reference, deleting, .. }, _) => {
            Deletion::Infrastructure { what: reference.to_string(), delete: !deleting }
        }
        (Referenced::Unreadable { reference, why }, _) | (_, Referenced::Unreadable { reference, why }) => {
            Deletion::Unknown { what: reference.to_string(), why: why.clone() }
        }
        (_, Referenced::Found { reference, deleting, .. }) => {
            Deletion::Bootstrap { what: reference.to_string(), delete: !deleting }
        }
        (Referenced::Missing(_) | Referenced::None, Referenced::Missing(_) | Referenced::None) => {
            Deletion::Release
        }
    }
}

impl Deletion {
    /// The reason of condition `Deleting`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Infrastructure { .. } => reason::WAITING_FOR_INFRASTRUCTURE_DELETION,
            Self::Bootstrap { .. } => reason::WAITING_FOR_BOOTSTRAP_DELETION,
            Self::Unknown { .. } => reason::INTERNAL_ERROR,
            Self::Release => reason::DELETION_COMPLETED,
        }
    }
}

impl fmt::Display for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infrastructure { what, .. } | Self::Bootstrap { what, .. } => write!(f, "* {what}"),
            Self::Unknown { what, why } => write!(f, "cannot tell whether {what} is gone: {why}"),
            Self::Release => Ok(()),
        }
    }
}
