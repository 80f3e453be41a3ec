//! What is observed, from the objects of the API.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::ResourceExt;
use windlass_api::cluster::{self, MachineDeployment, MachineSet, RolloutStrategyType};
use windlass_api::identity::Incomplete;
use windlass_api::names::{
    ACKNOWLEDGED_MOVE_ANNOTATION, DESIRED_REPLICAS_ANNOTATION, HAND_OVER_UPDATED_MACHINES_ANNOTATION,
    MAX_REPLICAS_ANNOTATION, MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION, PENDING_ACKNOWLEDGE_MOVE_ANNOTATION,
    RECEIVE_MACHINES_FROM_MACHINE_SETS_ANNOTATION, REVISION_ANNOTATION,
};

use super::{
    Amount, AmountError, FreshSet, Machine, Observed, RollingUpdate, Set, Strategy, fresh_set, same_machines,
};
use crate::annotated_strategy::Annotated;
use crate::machine_set::{annotation, is_updating, names_in, needs_remediation};

/// Why a rollout cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactsError {
    /// An object does not say how many machines it wants.
    #[error("{0} has no spec.replicas")]
    NoReplicas(String),
    /// A limit makes no sense.
    #[error("{field}: {error}")]
    Limit {
        /// Which.
        field: &'static str,
        /// What is wrong with it.
        error: AmountError,
    },
    /// An unknown strategy.
    #[error("spec.rollout.strategy.type {0:?} is unknown")]
    Strategy(String),
}

/// What a rollout is planned from. `machines` are those that the MachineSets control, or that the MachineDeployment
/// selects; `fresh_name` is that of [`next_set`].
///
/// # Errors
///
/// Something that has to be known is not there.
pub fn observe(
    deployment: &MachineDeployment,
    sets: &[&MachineSet],
    machines: &[&cluster::Machine],
    fresh_name: &str,
    now: Timestamp,
) -> Result<Observed, FactsError> {
    let replicas = replicas(deployment.replicas(), "MachineDeployment", &deployment.name_any())?;
    let sets: Vec<Set> = sets.iter().map(|set| observe_set(deployment, set)).collect::<Result<_, _>>()?;
    Ok(Observed {
        replicas,
        strategy: strategy(deployment)?,
        after: deployment.spec.rollout.after.as_ref().map(|after| after.0),
        paused: deployment.spec.paused == Some(true),
        sets,
        machines: machines.iter().map(|machine| observe_machine(machine)).collect(),
        fresh_name: fresh_name.to_owned(),
        now,
    })
}

/// How a MachineDeployment rolls out.
///
/// # Errors
///
/// The strategy or a limit of it makes no sense.
pub fn strategy(deployment: &MachineDeployment) -> Result<Strategy, FactsError> {
    let strategy = &deployment.spec.rollout.strategy;
    let rolling = strategy.rolling_update.as_ref();
    let annotated = Annotated::of(deployment.metadata.annotations.as_ref());
    let is_rolling = match &strategy.type_ {
        RolloutStrategyType::RollingUpdate => true,
        RolloutStrategyType::Unknown(text) => text.is_empty(),
        _ => false,
    };
    if is_rolling && annotated.external {
        let given = rolling.and_then(|limits| limits.max_unavailable.as_ref());
        let max_unavailable = amount("maxUnavailable", given)?.unwrap_or(Amount::Count(1));
        let fallback = annotated.falls_back.then(|| limits(rolling)).transpose()?;
        return Ok(Strategy::External { max_unavailable, fallback });
    }
    match &strategy.type_ {
        RolloutStrategyType::RollingUpdate => Ok(Strategy::RollingUpdate(limits(rolling)?)),
        RolloutStrategyType::OnDelete => Ok(Strategy::OnDelete),
        RolloutStrategyType::External => {
            let fallback = strategy.fallback_rolling.as_ref();
            let given = rolling.or(fallback).and_then(|limits| limits.max_unavailable.as_ref());
            let max_unavailable = amount("maxUnavailable", given)?.unwrap_or(Amount::Count(1));
            let fallback = fallback.map(|fallback| limits(Some(fallback))).transpose()?;
            Ok(Strategy::External { max_unavailable, fallback })
        }
        // Without one it is the default of the CRD.
        RolloutStrategyType::Unknown(text) if text.is_empty() => {
            Ok(Strategy::RollingUpdate(limits(rolling)?))
        }
        RolloutStrategyType::Unknown(text) => Err(FactsError::Strategy(text.clone())),
    }
}

fn limits(given: Option<&cluster::RollingUpdate>) -> Result<RollingUpdate, FactsError> {
    let default = RollingUpdate::default();
    let max_surge = amount("maxSurge", given.and_then(|given| given.max_surge.as_ref()))?;
    let max_unavailable = amount("maxUnavailable", given.and_then(|given| given.max_unavailable.as_ref()))?;
    Ok(RollingUpdate {
        max_surge: max_surge.unwrap_or(default.max_surge),
        max_unavailable: max_unavailable.unwrap_or(default.max_unavailable),
    })
}

/// A number or a percentage, as the API has them.
///
/// # Errors
///
/// It makes no sense; the error names `field`.
pub fn amount(field: &'static str, given: Option<&IntOrString>) -> Result<Option<Amount>, FactsError> {
    let amount = match given {
        None => return Ok(None),
        Some(IntOrString::Int(number)) => Amount::count(*number),
        Some(IntOrString::String(text)) => Amount::percentage(text),
    };
    amount.map(Some).map_err(|error| FactsError::Limit { field, error })
}

fn replicas(given: Option<i32>, kind: &str, name: &str) -> Result<u32, FactsError> {
    given.map(count).ok_or_else(|| FactsError::NoReplicas(format!("{kind} {name}")))
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn observe_set(deployment: &MachineDeployment, set: &MachineSet) -> Result<Set, FactsError> {
    let name = set.name_any();
    let text = |key| annotation(&set.metadata, key);
    let number = |key| text(key).and_then(|text| text.parse().ok());
    let names = |key| text(key).map(names_in).unwrap_or_default();
    Ok(Set {
        created: created(set.metadata.creation_timestamp.as_ref()),
        matches: same_machines(&set.spec.template, &deployment.spec.template),
        deleting: set.metadata.deletion_timestamp.is_some(),
        spec: replicas(set.replicas(), "MachineSet", &name)?,
        status: count(set.status.replicas.unwrap_or(0)),
        available: count(set.status.available_replicas.unwrap_or(0)),
        up_to_date: count(set.status.up_to_date_replicas.unwrap_or(0)),
        revision: text(REVISION_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(0),
        moves_to: text(MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION).map(str::to_owned),
        updated: text(HAND_OVER_UPDATED_MACHINES_ANNOTATION).map(names_in),
        receives_from: names(RECEIVE_MACHINES_FROM_MACHINE_SETS_ANNOTATION),
        acknowledged: names(ACKNOWLEDGED_MOVE_ANNOTATION),
        desired_replicas: number(DESIRED_REPLICAS_ANNOTATION),
        max_replicas: number(MAX_REPLICAS_ANNOTATION),
        name,
    })
}

fn observe_machine(machine: &cluster::Machine) -> Machine {
    let owners = machine.metadata.owner_references.iter().flatten();
    let controller = owners.filter(|owner| owner.controller == Some(true) && owner.kind == MachineSet::KIND);
    Machine {
        name: machine.name_any(),
        set: controller.map(|owner| owner.name.clone()).next(),
        pending_acknowledge: annotation(&machine.metadata, PENDING_ACKNOWLEDGE_MOVE_ANNOTATION).is_some(),
        updating: is_updating(machine),
        needs_remediation: needs_remediation(machine),
        // Whether it is takes more than the machine to know.
        reached: false,
    }
}

/// Before everything, for objects without a time: they are older than any that has one.
fn created(time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>) -> Timestamp {
    time.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// The name that the next MachineSet gets, from those that there are. `taken` has the names of all MachineSets of the
/// namespace, whatever they belong to.
///
/// # Errors
///
/// The MachineDeployment does not say which one it is.
pub fn next_set(
    deployment: &MachineDeployment,
    sets: &[&MachineSet],
    taken: &BTreeSet<String>,
) -> Result<FreshSet, Incomplete> {
    let revisions =
        sets.iter().filter_map(|set| annotation(&set.metadata, REVISION_ANNOTATION)?.parse().ok());
    fresh_set(deployment, revisions.max().unwrap_or(0u64).saturating_add(1), taken)
}
