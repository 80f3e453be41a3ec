//! What is said of a group of machines, whichever kind of group it is.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use windlass_api::cluster::{Machine, StatusVersion};
use windlass_api::conditions::{
    HEALTH_CHECK_SUCCEEDED, MACHINES_READY, MACHINES_UP_TO_DATE, OWNER_REMEDIATED, READY, REMEDIATING,
    SCALING_DOWN, SCALING_UP, UP_TO_DATE, reason,
};

use super::needs_remediation;
use crate::condition::{self, Aggregate, Finding, Polarity, Reasons, Source};
use crate::versions::VersionCount;

/// How long a machine may be without a condition that its own controller has yet to set.
const GRACE: SignedDuration = SignedDuration::from_secs(10);
/// How long a machine may take to go before it is pointed out.
const SLOW_DELETION: SignedDuration = SignedDuration::from_mins(15);
/// How many slow ones are named.
const NAMES: usize = 3;

/// Condition `MachinesReady`.
pub(crate) fn machines_ready(machines: &[&Machine]) -> Finding {
    let aggregate = Aggregate {
        type_: MACHINES_READY,
        kind: Machine::KIND,
        of: READY,
        polarity: Polarity::Positive,
        reasons: Reasons { good: reason::READY, issue: reason::NOT_READY, unknown: reason::READY_UNKNOWN },
        none: reason::NO_REPLICAS,
    };
    condition::aggregate(&aggregate, &sources(machines.iter().copied()))
}

/// Condition `MachinesUpToDate`. Machines that were created just now have not been looked at yet.
pub(crate) fn machines_up_to_date(machines: &[&Machine], now: Timestamp) -> Finding {
    let aggregate = Aggregate {
        type_: MACHINES_UP_TO_DATE,
        kind: Machine::KIND,
        of: UP_TO_DATE,
        polarity: Polarity::Positive,
        reasons: Reasons {
            good: reason::UP_TO_DATE,
            issue: reason::NOT_UP_TO_DATE,
            unknown: reason::UP_TO_DATE_UNKNOWN,
        },
        none: reason::NO_REPLICAS,
    };
    let looked_at = machines.iter().copied().filter(|machine| {
        let created = machine.metadata.creation_timestamp.as_ref();
        let young = created.is_some_and(|created| now.duration_since(created.0) < GRACE);
        !young || condition::find(&machine.status.conditions, UP_TO_DATE).is_some()
    });
    condition::aggregate(&aggregate, &sources(looked_at))
}

/// Condition `Remediating`: a machine is being replaced because a health check wants it.
pub(crate) fn remediating(machines: &[&Machine]) -> Finding {
    let waiting: Vec<&Machine> =
        machines.iter().copied().filter(|machine| needs_remediation(machine)).collect();
    if !waiting.is_empty() {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for machine in waiting {
            let remediated = condition::find(&machine.status.conditions, OWNER_REMEDIATED);
            let text = remediated.map_or("", |condition| match condition.message.as_str() {
                "" => condition.reason.as_str(),
                message => message,
            });
            groups.entry(text).or_default().push(name(machine));
        }
        let lines = groups.iter().map(|(text, names)| format!("* {}: {text}", named(names)));
        return Finding::yes(REMEDIATING, reason::REMEDIATING).because(lines.collect::<Vec<_>>().join("\n"));
    }
    let unhealthy: Vec<&str> = machines
        .iter()
        .filter(|machine| condition::is_false(&machine.status.conditions, HEALTH_CHECK_SUCCEEDED))
        .map(|machine| name(machine))
        .collect();
    let finding = Finding::no(REMEDIATING, reason::NOT_REMEDIATING);
    if unhealthy.is_empty() {
        return finding;
    }
    finding.because(format!("{} not healthy (not to be remediated)", named(&unhealthy)))
}

/// Condition `ScalingUp`, from how many machines there are and how many are wanted.
pub(crate) fn scaling_up(there: u32, wanted: Option<u32>, blocked: &[String]) -> Finding {
    let Some(wanted) = wanted else {
        return Finding::unknown(SCALING_UP, reason::WAITING_FOR_REPLICAS_SET)
            .because("Waiting for spec.replicas to be set");
    };
    let lines = || blocked.iter().map(|line| format!("\n* {line}")).collect::<String>();
    if there >= wanted {
        let finding = Finding::no(SCALING_UP, reason::NOT_SCALING_UP);
        return match blocked {
            [] => finding,
            // Who wants nothing needs no template.
            _ if wanted == 0 => finding,
            _ => finding.because(format!("Scaling up would be blocked because:{}", lines())),
        };
    }
    let finding = Finding::yes(SCALING_UP, reason::SCALING_UP);
    let from_to = format!("Scaling up from {there} to {wanted} replicas");
    match blocked {
        [] => finding.because(from_to),
        _ => finding.because(format!("{from_to} is blocked because:{}", lines())),
    }
}

/// Condition `ScalingDown`, from how many machines there are and how many are wanted.
pub(crate) fn scaling_down(
    there: u32,
    wanted: Option<u32>,
    machines: &[&Machine],
    held: &[String],
    now: Timestamp,
) -> Finding {
    let Some(wanted) = wanted else {
        return Finding::unknown(SCALING_DOWN, reason::WAITING_FOR_REPLICAS_SET)
            .because("Waiting for spec.replicas to be set");
    };
    if there <= wanted {
        return Finding::no(SCALING_DOWN, reason::NOT_SCALING_DOWN);
    }
    let mut message = format!("Scaling down from {there} to {wanted} replicas");
    held.iter().for_each(|line| message.push_str(&format!("\n* {line}")));
    message.push_str(&slow_deletions(machines, now));
    Finding::yes(SCALING_DOWN, reason::SCALING_DOWN).because(message)
}

/// A line for the machines that have been on their way out for long; empty if there are none.
pub(crate) fn slow_deletions(machines: &[&Machine], now: Timestamp) -> String {
    let slow: Vec<&str> = machines
        .iter()
        .filter(|machine| {
            let since = machine.metadata.deletion_timestamp.as_ref();
            since.is_some_and(|since| now.duration_since(since.0) > SLOW_DELETION)
        })
        .map(|machine| name(machine))
        .collect();
    if slow.is_empty() {
        return String::new();
    }
    format!("\n* {} in deletion since more than {} minutes", named(&slow), SLOW_DELETION.as_mins())
}

/// `status.versions` as the API has it.
pub(crate) fn status_versions(counts: Vec<VersionCount>) -> Vec<StatusVersion> {
    let entry = |count: VersionCount| StatusVersion {
        version: count.version,
        replicas: Some(i32::try_from(count.replicas).unwrap_or(i32::MAX)),
    };
    counts.into_iter().map(entry).collect()
}

fn sources<'a>(machines: impl Iterator<Item = &'a Machine>) -> Vec<Source<'a>> {
    machines.map(|machine| Source { name: name(machine), conditions: &machine.status.conditions }).collect()
}

fn name(machine: &Machine) -> &str {
    machine.metadata.name.as_deref().unwrap_or_default()
}

fn named(names: &[&str]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => format!("Machine{plural} {shown}"),
        more => format!("Machine{plural} {shown} and {more} more"),
    }
}
