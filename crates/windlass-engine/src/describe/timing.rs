//! When the steps of an upgrade began, how long they took, and how much longer they take.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;
use windlass_api::cluster::{Machine, MachineDeployment};
use windlass_api::conditions::NODE_READY;
use windlass_api::names::UPGRADE_CONCURRENCY_ANNOTATION;
use windlass_version::Version;

use super::{Described, StepDescription, StepState, VersionChange, version_of};
use crate::condition;
use crate::progress::{Estimate, Part, Samples, moved, passed, shown_skew};
use crate::rollout;

/// Gives steps their times.
pub(super) fn add(objects: Described<'_>, steps: &mut [StepDescription], now: Timestamp) {
    let history = objects.history();
    let samples = Samples::of(objects.my_machines());
    let concurrency = concurrency(objects);
    for step in steps {
        let change = history.iter().position(|change| is_of(objects, change, step));
        let started = change.and_then(|place| history.get(place)).map(|change| change.at);
        let ended = match step.state {
            StepState::Done => {
                let next = change.and_then(|place| history.get(place + 1)).map(|next| next.at);
                ready(objects, step).or(next)
            }
            StepState::Running => Some(now),
            StepState::ToCome => None,
        };
        step.elapsed_seconds = started.zip(ended).map(|(started, ended)| passed(started, ended));
        step.started = started.map(Time);
        step.left = left(objects, step, &samples, concurrency, now);
    }
}

/// Whether a change of a version began a step.
fn is_of(objects: Described<'_>, change: &VersionChange, step: &StepDescription) -> bool {
    change.to == step.version
        && objects.part_of(&change.kind, &change.name).is_some_and(|part| step.parts().any(|of| *of == part))
}

/// When the last machine of a step was ready, as long as its machines are there.
fn ready(objects: Described<'_>, step: &StepDescription) -> Option<Timestamp> {
    let is_of = |machine: &&Machine| {
        let part = Part::of(machine.labels());
        version_of(machine) == step.version && part.is_some_and(|part| step.parts().any(|of| *of == part))
    };
    let ready = objects.my_machines().filter(is_of).filter_map(|machine| {
        let found = condition::find(&machine.status.conditions, NODE_READY)?;
        Some(found.last_transition_time.0)
    });
    ready.max()
}

fn left(
    objects: Described<'_>,
    step: &StepDescription,
    samples: &Samples,
    concurrency: u64,
    now: Timestamp,
) -> Option<Estimate> {
    match step.state {
        StepState::Done => None,
        StepState::Running => {
            let of = std::slice::from_ref(step);
            let passed =
                moved(objects, of, None, step.started.as_ref()).map_or(0, |moved| passed(moved, now));
            let parts = step.work.iter().map(|(part, rounds)| {
                // The machine that is on its way has taken some time already.
                let rest = samples.machine(part).times(rounds.saturating_sub(1));
                samples.left(part, passed).and(rest)
            });
            parts.reduce(Estimate::and)
        }
        StepState::ToCome => {
            let parts = step.work.iter().map(|(part, rounds)| samples.machine(part).times(*rounds));
            let all = parts.reduce(Estimate::and)?;
            let groups = concurrency.min(step.work.len() as u64).max(1);
            Some(Estimate {
                p50_seconds: all.p50_seconds.div_ceil(groups),
                p95_seconds: all.p95_seconds.div_ceil(groups),
            })
        }
    }
}

/// How many worker groups are upgraded at a time.
fn concurrency(objects: Described<'_>) -> u64 {
    let topology = objects.cluster.spec.topology.as_ref();
    let given = topology
        .and_then(|_| objects.cluster.metadata.annotations.as_ref()?.get(UPGRADE_CONCURRENCY_ANNOTATION));
    given.and_then(|given| given.parse().ok()).unwrap_or(1).max(1)
}

/// How many machines of a MachineDeployment are replaced or updated at a time.
pub(super) fn at_once(group: &MachineDeployment) -> u64 {
    let replicas = group.replicas().and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or(1);
    let limits = rollout::strategy(group).map(|strategy| strategy.limits(replicas));
    limits.map_or(1, |limits| u64::from(limits.surge + limits.unavailable)).max(1)
}

/// How many minors kubelets were behind at worst, as the steps that were taken tell.
pub(super) fn worst_skew(objects: Described<'_>, history: &[&VersionChange]) -> u64 {
    let part = |change: &VersionChange| objects.part_of(&change.kind, &change.name);
    let mut groups: Vec<(Part, Version)> = Vec::new();
    let mut worst = 0;
    for change in history {
        if let (Some(part), Ok(from)) = (part(change), Version::parse(&change.from))
            && part != Part::ControlPlane
            && !groups.iter().any(|(of, _)| *of == part)
        {
            groups.push((part, from));
        }
    }
    for change in history {
        let Ok(to) = Version::parse(&change.to) else { continue };
        match part(change) {
            Some(Part::ControlPlane) => {
                let behind = groups.iter().map(|(_, at)| shown_skew(&to, at)).max().unwrap_or_default();
                worst = worst.max(behind);
            }
            Some(part) => {
                groups.iter_mut().filter(|(of, _)| *of == part).for_each(|(_, at)| *at = to.clone())
            }
            None => {}
        }
    }
    worst
}
