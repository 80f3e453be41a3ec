//! Conditions of a control plane and of its Machines.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::conditions::ConditionStatus;

use super::decide::{Decision, Step};
use super::etcd::{self, Etcd, quorum};
use super::observed::{Component, Health, Observed, ObservedMachine};
use super::outdated::OutdatedReason;
use super::preflight::Operation;
use super::remediation::{self, RemediationOutcome};
use crate::condition::{Aggregate, Finding, Polarity, Reasons, Source, Verdict, aggregate, is_true};
use crate::rollout::ROLLOUT_BLOCKED;
use crate::waiting::WaitingOn;

/// One Machine with the conditions that are on it.
#[derive(Clone, Copy, Debug)]
pub struct MachineConditions<'a> {
    /// The Machine.
    pub machine: &'a ObservedMachine,
    /// The conditions that the Machine has now, others' included.
    pub conditions: &'a [Condition],
    /// `status.nodeInfo.kubeletVersion`.
    pub kubelet: Option<&'a str>,
}

/// `UpToDate` of a Machine: its specification is what is wanted, and its Node runs what the specification says.
///
/// The kubelet counts, because an in-place update changes the specification before anything happens.
pub fn up_to_date(machine: &ObservedMachine, kubelet: Option<&str>) -> Finding {
    const TYPE: &str = "UpToDate";
    if !machine.outdated.is_empty() {
        return Finding::no(TYPE, "NotUpToDate").because(listed(&machine.outdated));
    }
    if machine.is_updating() {
        return Finding::no(TYPE, "Updating").because("* In-place update in progress");
    }
    match (kubelet.filter(|kubelet| !kubelet.is_empty()), machine.version.as_deref()) {
        (Some(kubelet), Some(version)) if kubelet != version => Finding::no(TYPE, "Updating")
            .because(format!("* Node.status.nodeInfo.kubeletVersion {kubelet}, {version} required")),
        _ => Finding::yes(TYPE, "UpToDate"),
    }
}

/// Counters of `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Machines there are.
    pub replicas: i32,
    /// Those with `Ready`.
    pub ready: i32,
    /// Those with `Available`.
    pub available: i32,
    /// Those with `UpToDate`.
    pub up_to_date: i32,
}

/// Counts Machines by their conditions. `UpToDate` is computed, not read: the one on the object may be of before.
pub fn counters(machines: &[MachineConditions<'_>]) -> Counters {
    let count = |counts: &dyn Fn(&MachineConditions<'_>) -> bool| {
        i32::try_from(machines.iter().filter(|machine| counts(machine)).count()).unwrap_or(i32::MAX)
    };
    Counters {
        replicas: count(&|_| true),
        ready: count(&|machine| is_true(machine.conditions, "Ready")),
        available: count(&|machine| is_true(machine.conditions, "Available")),
        up_to_date: count(&|machine| {
            up_to_date(machine.machine, machine.kubelet).status == ConditionStatus::True
        }),
    }
}

/// All conditions of the control plane.
pub fn conditions(
    observed: &Observed,
    decision: &Decision,
    machines: &[MachineConditions<'_>],
) -> Vec<Finding> {
    let mut findings = vec![
        available(observed),
        if observed.initialized {
            Finding::yes("Initialized", "Initialized")
        } else {
            Finding::no("Initialized", "NotInitialized")
        },
        if observed.certificates_available {
            Finding::yes("CertificatesAvailable", "Available")
        } else {
            Finding::no("CertificatesAvailable", "NotAvailable")
        },
        components("ControlPlaneComponentsHealthy", observed, false),
        machines_aggregate("MachinesReady", "Ready", ["Ready", "NotReady", "ReadyUnknown"], machines),
        machines_up_to_date(machines),
        rolling_out(decision, machines),
        scaling_up(observed, decision),
        scaling_down(observed, decision),
        remediating(observed, decision),
        deleting(observed, decision),
    ];
    if observed.etcd.is_managed() {
        findings.push(components("EtcdClusterHealthy", observed, true));
    }
    findings
}

fn available(observed: &Observed) -> Finding {
    const TYPE: &str = "Available";
    let mut issues = Vec::new();
    if observed.deleting {
        issues.push("* the control plane is being deleted".to_owned());
    }
    if !observed.initialized {
        issues.push("* the control plane is not initialized".to_owned());
        return Finding::no(TYPE, "NotAvailable").because(issues.join("\n"));
    }
    if !observed.certificates_available {
        issues.push("* cluster certificates are missing".to_owned());
    }
    let serves = |machine: &ObservedMachine| {
        Component::of(&observed.etcd).all(|component| machine.health(component) == Health::Healthy)
    };
    if !observed.machines.iter().any(serves) {
        issues.push("* no Machine has all its control plane components healthy".to_owned());
    }
    match &observed.etcd {
        Etcd::External => {}
        Etcd::Managed { members: None } => issues.push("* the members of etcd are not known".to_owned()),
        Etcd::Managed { members: Some(members) } => {
            let voting = members.iter().filter(|member| !member.learner).count();
            let healthy =
                members.iter().filter(|member| etcd::is_healthy(member, &observed.machines)).count();
            if healthy < quorum(voting) {
                issues.push(format!(
                    "* {healthy} of {voting} etcd members are healthy, {} are needed",
                    quorum(voting)
                ));
            }
        }
    }
    if issues.is_empty() {
        Finding::yes(TYPE, "Available")
    } else {
        Finding::no(TYPE, "NotAvailable").because(issues.join("\n"))
    }
}

/// Sums up the components of all Machines: those of etcd, or all others.
fn components(type_: &str, observed: &Observed, etcd: bool) -> Finding {
    if !observed.initialized {
        return Finding::unknown(type_, "HealthUnknown")
            .because("Waiting for the control plane to be initialized");
    }
    let mut lines: Vec<(Verdict, String)> = Vec::new();
    for machine in &observed.machines {
        for component in Component::of(&observed.etcd).filter(|component| component.is_etcd() == etcd) {
            let health = machine.health(component);
            let verdict = match health {
                Health::Healthy => continue,
                Health::Unhealthy => Verdict::Issue,
                Health::Unknown => Verdict::Unknown,
            };
            lines.push((verdict, format!("* Machine {}: {component} is {health}", machine.name)));
        }
    }
    if let (true, Some(members)) = (etcd, observed.etcd.members()) {
        for member in etcd::without_machine(&observed.machines, members) {
            lines.push((Verdict::Issue, format!("* etcd member {} has no Machine", member.label())));
        }
    }
    lines.sort();
    let message: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    match lines.first() {
        None => Finding::yes(type_, "Healthy"),
        Some((Verdict::Unknown, _)) => Finding::unknown(type_, "HealthUnknown").because(message.join("\n")),
        Some(_) => Finding::no(type_, "NotHealthy").because(message.join("\n")),
    }
}

fn machines_aggregate(
    type_: &str,
    of: &str,
    [good, issue, unknown]: [&str; 3],
    machines: &[MachineConditions<'_>],
) -> Finding {
    let sources: Vec<Source<'_>> = machines
        .iter()
        .map(|machine| Source { name: &machine.machine.name, conditions: machine.conditions })
        .collect();
    aggregate(
        &Aggregate {
            type_,
            kind: "Machine",
            of,
            polarity: Polarity::Positive,
            reasons: Reasons { good, issue, unknown },
            none: "NoReplicas",
        },
        &sources,
    )
}

/// From what is computed: the conditions on the Machines may be of the decision before.
fn machines_up_to_date(machines: &[MachineConditions<'_>]) -> Finding {
    const TYPE: &str = "MachinesUpToDate";
    if machines.is_empty() {
        return Finding::yes(TYPE, "NoReplicas");
    }
    let lines: Vec<String> = machines
        .iter()
        .map(|machine| (machine, up_to_date(machine.machine, machine.kubelet)))
        .filter(|(_, finding)| finding.status != ConditionStatus::True)
        .map(|(machine, finding)| {
            let reasons: Vec<&str> =
                finding.message.lines().map(|line| line.trim_start_matches("* ")).collect();
            format!("* Machine {}: {}", machine.machine.name, reasons.join("; "))
        })
        .collect();
    if lines.is_empty() {
        Finding::yes(TYPE, "UpToDate")
    } else {
        Finding::no(TYPE, "NotUpToDate").because(lines.join("\n"))
    }
}

fn rolling_out(decision: &Decision, machines: &[MachineConditions<'_>]) -> Finding {
    const TYPE: &str = "RollingOut";
    let behind: Vec<(&MachineConditions<'_>, Finding)> = machines
        .iter()
        .map(|machine| (machine, up_to_date(machine.machine, machine.kubelet)))
        .filter(|(_, finding)| finding.status != ConditionStatus::True)
        .collect();
    if behind.is_empty() {
        return Finding::no(TYPE, "NotRollingOut");
    }
    let mut lines = vec![format!("Rolling out {} not up-to-date replicas", behind.len())];
    let is_version = |line: &&str| line.starts_with("* Version ");
    let reasons: BTreeSet<&str> = behind.iter().flat_map(|(_, finding)| finding.message.lines()).collect();
    lines.extend(reasons.iter().copied().filter(is_version).map(str::to_owned));
    lines.extend(reasons.iter().copied().filter(|line| !is_version(line)).map(str::to_owned));
    if let Step::Wait(waiting) = &decision.step {
        lines.push(format!("* {}", waiting.sentence()));
    }
    let blocked = matches!(decision.step, Step::Wait(WaitingOn::InPlaceRefused { .. }));
    Finding::yes(TYPE, if blocked { ROLLOUT_BLOCKED } else { "RollingOut" }).because(lines.join("\n"))
}

fn scaling_up(observed: &Observed, decision: &Decision) -> Finding {
    const TYPE: &str = "ScalingUp";
    let present = observed.machines.len();
    if observed.deleting || present >= observed.replicas as usize {
        return Finding::no(TYPE, "NotScalingUp");
    }
    let mut message = format!("Scaling up from {present} to {} replicas", observed.replicas);
    match &decision.step {
        Step::Wait(WaitingOn::Preflight { operation: Operation::ScaleUp, failures }) => {
            for failure in failures {
                message.push_str(&format!("\n* {failure}"));
            }
        }
        Step::Wait(waiting) => message.push_str(&format!("\n* {}", waiting.sentence())),
        Step::Act(_) | Step::Settled => {}
    }
    Finding::yes(TYPE, "ScalingUp").because(message)
}

fn scaling_down(observed: &Observed, decision: &Decision) -> Finding {
    const TYPE: &str = "ScalingDown";
    let wanted = if observed.deleting { 0 } else { observed.replicas as usize };
    let present = observed.machines.len();
    if present <= wanted {
        return Finding::no(TYPE, "NotScalingDown");
    }
    let mut message = format!("Scaling down from {present} to {wanted} replicas");
    match &decision.step {
        Step::Wait(WaitingOn::Preflight { operation: Operation::ScaleDown, failures }) => {
            for failure in failures {
                message.push_str(&format!("\n* {failure}"));
            }
        }
        Step::Wait(waiting) => message.push_str(&format!("\n* {}", waiting.sentence())),
        Step::Act(_) | Step::Settled => {}
    }
    Finding::yes(TYPE, "ScalingDown").because(message)
}

fn remediating(observed: &Observed, decision: &Decision) -> Finding {
    const TYPE: &str = "Remediating";
    if let Some(record) = remediation::pending(observed) {
        return Finding::yes(TYPE, "Remediating")
            .because(format!("* Machine {} is being replaced", record.machine));
    }
    match &decision.remediation {
        None => Finding::no(TYPE, "NotRemediating"),
        Some(RemediationOutcome::Start(record)) => Finding::yes(TYPE, "Remediating")
            .because(format!("* Machine {} is being replaced", record.machine)),
        Some(RemediationOutcome::Blocked { machine, why }) => Finding::yes(TYPE, "Remediating")
            .because(format!("* Machine {machine} is not healthy, and not replaced: {why}")),
    }
}

fn deleting(observed: &Observed, decision: &Decision) -> Finding {
    const TYPE: &str = "Deleting";
    if !observed.deleting {
        return Finding::no(TYPE, "NotDeleting");
    }
    match &decision.step {
        Step::Wait(waiting @ WaitingOn::WorkersDeletion { .. }) => {
            Finding::yes(TYPE, "WaitingForWorkersDeletion").because(waiting.sentence())
        }
        Step::Wait(waiting) => Finding::yes(TYPE, "WaitingForMachineDeletion").because(waiting.sentence()),
        _ if observed.machines.is_empty() => Finding::yes(TYPE, "DeletionCompleted"),
        _ => Finding::yes(TYPE, "WaitingForMachineDeletion"),
    }
}

fn listed(reasons: &[OutdatedReason]) -> String {
    let lines: Vec<String> = reasons.iter().map(|reason| format!("* {reason}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::super::*;
    use super::*;
    use crate::condition::set;

    fn found(observed: &Observed, type_: &str) -> (ConditionStatus, String, String) {
        let decision = decide(observed, at(1000));
        let machines: Vec<_> = observed
            .machines
            .iter()
            .map(|machine| MachineConditions { machine, conditions: &[], kubelet: None })
            .collect();
        let findings = conditions(observed, &decision, &machines);
        match findings.into_iter().find(|finding| finding.type_ == type_) {
            Some(finding) => (finding.status, finding.reason, finding.message),
            None => (ConditionStatus::Unknown, "absent".to_owned(), String::new()),
        }
    }

    fn case(observed: &Observed, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let found = found(observed, type_);
        assert_eq!(found, (status, reason.to_owned(), message.to_owned()), "{type_}");
    }

    use ConditionStatus::{False, True, Unknown};

    #[test]
    fn a_healthy_control_plane_says_so() {
        let observed = healthy(3);
        for (type_, status, reason) in [
            ("Available", True, "Available"),
            ("Initialized", True, "Initialized"),
            ("CertificatesAvailable", True, "Available"),
            ("EtcdClusterHealthy", True, "Healthy"),
            ("ControlPlaneComponentsHealthy", True, "Healthy"),
            ("MachinesUpToDate", True, "UpToDate"),
            ("RollingOut", False, "NotRollingOut"),
            ("ScalingUp", False, "NotScalingUp"),
            ("ScalingDown", False, "NotScalingDown"),
            ("Remediating", False, "NotRemediating"),
            ("Deleting", False, "NotDeleting"),
        ] {
            case(&observed, type_, status, reason, "");
        }
    }

    #[test]
    fn availability_needs_one_sound_machine_and_a_quorum() {
        let mut observed = healthy(3);
        observed.machines[0].components.insert(Component::EtcdMember, Health::Unhealthy);
        case(&observed, "Available", True, "Available", "");
        case(
            &observed,
            "EtcdClusterHealthy",
            False,
            "NotHealthy",
            "* Machine m1: etcd member is not healthy",
        );
        observed.machines[1].components.insert(Component::EtcdMember, Health::Unknown);
        case(
            &observed,
            "Available",
            False,
            "NotAvailable",
            "* 1 of 3 etcd members are healthy, 2 are needed",
        );
        observed.etcd = Etcd::External;
        case(&observed, "Available", True, "Available", "");
        assert_eq!(found(&observed, "EtcdClusterHealthy").1, "absent");
        for machine in &mut observed.machines {
            machine.components.insert(Component::ApiServer, Health::Unknown);
        }
        assert_eq!(found(&observed, "ControlPlaneComponentsHealthy").0, Unknown);
        case(
            &observed,
            "Available",
            False,
            "NotAvailable",
            "* no Machine has all its control plane components healthy",
        );
    }

    #[test]
    fn a_rollout_says_how_many_why_and_what_it_waits_on() {
        let mut observed = upgrading();
        observed.strategy = Strategy::External { fallback_surge: None };
        observed.machines[0].outdated.insert(0, OutdatedReason::RolloutAfter { after: at(0) });
        case(
            &observed,
            "RollingOut",
            True,
            "RolloutBlocked",
            "Rolling out 3 not up-to-date replicas\n\
             * Version v1.32.0, v1.33.0 required\n\
             * KubeadmControlPlane spec.rollout.after 1970-01-01T00:00:00Z has passed\n\
             * the rollout stops: Machine m1 cannot be updated in place, and the strategy has no fallback: \
             only a new Machine helps: KubeadmControlPlane spec.rollout.after 1970-01-01T00:00:00Z has passed",
        );
    }

    #[test]
    fn scaling_says_what_is_in_its_way() {
        let mut observed = healthy(3);
        observed.replicas = 5;
        case(&observed, "ScalingUp", True, "ScalingUp", "Scaling up from 3 to 5 replicas");
        observed.machines[2].node = None;
        case(
            &observed,
            "ScalingUp",
            True,
            "ScalingUp",
            "Scaling up from 3 to 5 replicas\n* Machine m3 has no Node yet",
        );
        observed.replicas = 1;
        case(
            &observed,
            "ScalingDown",
            True,
            "ScalingDown",
            "Scaling down from 3 to 1 replicas\n* Machine m3 has no Node yet",
        );
    }

    #[test]
    fn deletion_has_its_stages() {
        let mut observed = healthy(1);
        observed.deleting = true;
        observed.workers = vec!["w1".to_owned()];
        case(
            &observed,
            "Deleting",
            True,
            "WaitingForWorkersDeletion",
            "waiting for the deletion of workers: w1",
        );
        observed.workers.clear();
        assert_eq!(found(&observed, "Deleting").1, "WaitingForMachineDeletion");
        observed.machines.clear();
        case(&observed, "Deleting", True, "DeletionCompleted", "");
    }

    #[test]
    fn a_machine_is_up_to_date_only_when_its_node_is() {
        let mut updated = machine(1);
        let text = |machine: &ObservedMachine, kubelet| {
            let finding = up_to_date(machine, kubelet);
            format!("{} {}", finding.reason, finding.message)
        };
        assert_eq!(text(&updated, Some(V1)), "UpToDate ");
        assert_eq!(text(&updated, None), "UpToDate ");
        assert_eq!(
            text(&updated, Some("v1.31.0")),
            "Updating * Node.status.nodeInfo.kubeletVersion v1.31.0, v1.32.0 required"
        );
        updated.update_hook_pending = true;
        assert_eq!(text(&updated, Some(V1)), "Updating * In-place update in progress");
        outdate(&mut updated);
        assert_eq!(text(&updated, Some(V1)), "NotUpToDate * Version v1.32.0, v1.33.0 required");
    }

    #[test]
    fn machines_are_counted_by_their_conditions() {
        let machines = [machine(1), machine(2)];
        let mut ready = Vec::new();
        set(&mut ready, Finding::yes("Ready", "Ready"), None, at(0));
        let views = [
            MachineConditions { machine: &machines[0], conditions: &ready, kubelet: Some(V1) },
            MachineConditions { machine: &machines[1], conditions: &[], kubelet: Some("v1.31.0") },
        ];
        assert_eq!(counters(&views), Counters { replicas: 2, ready: 1, available: 0, up_to_date: 1 });
    }
}
