//! What becomes of a MachinePool's spec and status.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use windlass_api::cluster::{MachinePool, MachinePoolPhase, MachinePoolStatus};
use windlass_api::conditions as types;
use windlass_api::conditions::reason;

use super::{Counts, NodesSeen, count};
use crate::condition::{self, Finding};
use crate::contract::{BootstrapConfig, InfrastructureMachinePool, ReadyReport};
use crate::legacy;
use crate::pause::not_paused;
use crate::referenced::{Leaving, MayBeGone, Mirrored, Referenced, Words};

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
    /// The whole status of the pool.
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
    // No identities and yet instances: the provider has not found out who they are. That is no reason to forget any.
    let is_told = |pool: &&InfrastructureMachinePool| {
        provisioned && (!pool.provider_ids.is_empty() || pool.replicas.unwrap_or_default() == 0)
    };
    let told_ids = infrastructure.filter(is_told).map(|infrastructure| &infrastructure.provider_ids);
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
    legacy::machine_pool(&mut status, now);
    Decision { spec, status, look_again }
}

impl Decision {
    /// The identities of the instances, the change of the spec included.
    pub fn provider_ids<'a>(&'a self, pool: &'a MachinePool) -> &'a [String] {
        self.spec.provider_ids.as_ref().unwrap_or(&pool.spec.provider_id_list)
    }
}

fn counted(status: &mut MachinePoolStatus, counts: Counts) {
    status.node_refs = counts.references;
    status.ready_replicas = Some(counts.ready);
    status.available_replicas = Some(counts.available);
    status.up_to_date_replicas = Some(counts.up_to_date);
    status.versions = counts.versions;
}

/// How many instances there shall be; as many as there are if that is decided elsewhere.
fn wanted_of(pool: &MachinePool, status: &MachinePoolStatus) -> i32 {
    pool.replicas().or(status.replicas).unwrap_or_default()
}

fn phase(pool: &MachinePool, status: &MachinePoolStatus) -> MachinePoolPhase {
    let wanted = wanted_of(pool, status);
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
    let wanted = wanted_of(pool, status);
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
        mirrored(
            types::BOOTSTRAP_CONFIG_READY,
            &observed.bootstrap,
            observed.bootstrap.object().map(|config| (&config.ready, config.data_secret_created)),
            initialization.bootstrap_data_secret_created == Some(true),
        ),
        mirrored(
            types::INFRASTRUCTURE_READY,
            &observed.infrastructure,
            observed.infrastructure.object().map(|pool| (&pool.ready, pool.provisioned)),
            initialization.infrastructure_provisioned == Some(true),
        ),
        deleting,
        not_paused(),
    ]
}

fn mirrored<T>(
    type_: &str,
    referenced: &Referenced<T>,
    report: Option<(&ReadyReport, bool)>,
    was: bool,
) -> Finding {
    match referenced {
        Referenced::None => Finding::yes(type_, reason::DATA_SECRET_PROVIDED),
        referenced => {
            let mirrored =
                Mirrored { type_, words: &Words::READY, was, silent: "is not done", instead: None };
            mirrored.finding(referenced, report)
        }
    }
}

/// What stands between a MachinePool and its end: first the infrastructure goes, then the bootstrap config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The infrastructure has to go.
    Infrastructure(Leaving),
    /// The bootstrap config has to go.
    Bootstrap(Leaving),
    /// Something could not be read, so it is unknown whether it is gone.
    Unknown(MayBeGone),
    /// Nothing.
    Release,
}

/// What comes next in the deletion of a MachinePool.
pub fn deletion<I, B>(infrastructure: &Referenced<I>, bootstrap: &Referenced<B>) -> Deletion {
    let infrastructure = infrastructure.leaving().map(|leaving| leaving.map(Deletion::Infrastructure));
    let first = infrastructure.or_else(|| Some(bootstrap.leaving()?.map(Deletion::Bootstrap)));
    first.map_or(Deletion::Release, |first| first.unwrap_or_else(Deletion::Unknown))
}

impl Deletion {
    /// The reason of condition `Deleting`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Infrastructure(_) => reason::WAITING_FOR_INFRASTRUCTURE_DELETION,
            Self::Bootstrap(_) => reason::WAITING_FOR_BOOTSTRAP_DELETION,
            Self::Unknown(_) => reason::INTERNAL_ERROR,
            Self::Release => reason::DELETION_COMPLETED,
        }
    }
}

impl fmt::Display for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infrastructure(leaving) | Self::Bootstrap(leaving) => leaving.fmt(f),
            Self::Unknown(unread) => unread.fmt(f),
            Self::Release => Ok(()),
        }
    }
}
