//! Whether a worker Machine is what its MachineDeployment wants.

use jiff::Timestamp;
use windlass_api::cluster::{Machine, MachineDeployment, MachineSet, MachineSpec};

/// The MachineSet and the MachineDeployment that a Machine belongs to.
#[derive(Clone, Copy, Debug)]
pub struct WorkerRevision<'a> {
    /// The MachineSet.
    pub machine_set: &'a MachineSet,
    /// Its MachineDeployment.
    pub deployment: &'a MachineDeployment,
}

/// How a Machine stands to what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpToDate {
    /// It is what it should be.
    Yes,
    /// It has to be replaced or updated, for these reasons.
    No(Vec<String>),
    /// It is on its way.
    Updating(Vec<String>),
}

/// Compares the MachineSet of a Machine with what the MachineDeployment wants, then the Node with the Machine.
pub fn up_to_date(
    machine: &Machine,
    revision: WorkerRevision<'_>,
    update_in_progress: bool,
    now: Timestamp,
) -> UpToDate {
    let mut reasons =
        differences(&revision.machine_set.spec.template.spec, &revision.deployment.spec.template.spec);
    let after =
        revision.deployment.spec.rollout.after.as_ref().map(|after| after.0).filter(|after| *after <= now);
    let created = revision.machine_set.metadata.creation_timestamp.as_ref().map(|created| created.0);
    if let (Some(after), Some(created)) = (after, created)
        && created < after
    {
        reasons.push("* MachineDeployment spec.rolloutAfter expired".to_owned());
    }
    if !reasons.is_empty() {
        return UpToDate::No(reasons);
    }
    if update_in_progress {
        return UpToDate::Updating(Vec::new());
    }
    let kubelet = machine.status.node_info.as_ref().map_or("", |info| info.kubelet_version.as_str());
    let wanted = machine.spec.version.as_str();
    if !kubelet.is_empty() && !wanted.is_empty() && kubelet != wanted {
        let line = format!("* Node.status.nodeInfo.kubeletVersion {kubelet}, {wanted} required");
        return UpToDate::Updating(vec![line]);
    }
    UpToDate::Yes
}

/// What differs in the fields that make Machines be replaced, one line each, the version first.
fn differences(current: &MachineSpec, desired: &MachineSpec) -> Vec<String> {
    let mut lines = Vec::new();
    if current.version != desired.version {
        lines.push(format!("* Version {}, {} required", current.version, desired.version));
    }
    if current.bootstrap != desired.bootstrap {
        let kind = desired.bootstrap.config_ref.as_ref().or(current.bootstrap.config_ref.as_ref());
        let kind = kind.map_or("Bootstrap data", |reference| made_from(&reference.kind));
        lines.push(format!("* {kind} is not up-to-date"));
    }
    if current.infrastructure_ref != desired.infrastructure_ref {
        lines.push(format!("* {} is not up-to-date", made_from(&desired.infrastructure_ref.kind)));
    }
    if current.failure_domain != desired.failure_domain {
        let (from, to) = (&current.failure_domain, &desired.failure_domain);
        lines.push(format!("* Failure domain {from}, {to} required"));
    }
    lines
}

fn made_from(template: &str) -> &str {
    template.strip_suffix("Template").unwrap_or(template)
}
