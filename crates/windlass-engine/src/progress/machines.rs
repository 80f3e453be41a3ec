//! Machines as views see them, and the skew between their kubelets and API servers.

use std::collections::BTreeMap;

use kube_core::ResourceExt;
use serde::Serialize;
use windlass_api::cluster::Machine;
use windlass_api::conditions::{AVAILABLE, UP_TO_DATE};
use windlass_api::names::{
    CONTROL_PLANE_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL, MACHINE_POOL_NAME_LABEL,
    TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL, UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_version::{Version, kubelet_skew};

use crate::condition;

/// What is upgraded as a whole. A MachineDeployment and a MachinePool may have the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The control plane.
    ControlPlane,
    /// A MachineDeployment, by its name in the topology; without a topology, by its own.
    MachineDeployment(String),
    /// A MachinePool, by its name in the topology; without a topology, by its own.
    MachinePool(String),
}

impl Part {
    /// `controlPlane` or `workers`, as in records.
    pub fn kind(&self) -> &'static str {
        if *self == Self::ControlPlane { "controlPlane" } else { "workers" }
    }

    /// The name of a worker group.
    pub fn group(&self) -> Option<&String> {
        match self {
            Self::ControlPlane => None,
            Self::MachineDeployment(name) | Self::MachinePool(name) => Some(name),
        }
    }
}

/// A machine, or an instance of a pool, as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it belongs to.
    pub part: Part,
    /// The version that it shall have.
    pub version: String,
    /// The version that its kubelet and, on control planes, its API server run; nothing before they do.
    pub running: Option<Version>,
    /// Whether it is available.
    pub available: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is being updated in place.
    pub updating: bool,
    /// Why it is not up to date, if it says so.
    pub outdated: Option<String>,
}

/// Machines by their names, with the versions that run counted for each part: there are few of them, however many machines
/// there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Machines {
    pub(super) all: BTreeMap<String, Seen>,
    running: BTreeMap<Part, Vec<(Version, usize)>>,
    has_changed: bool,
}

impl Machines {
    pub(super) fn insert(&mut self, name: String, seen: Seen) -> Option<Seen> {
        let before = self.all.get(&name).map(|before| (before.part.clone(), before.running.clone()));
        if before.as_ref().is_none_or(|(part, running)| (part, running) != (&seen.part, &seen.running)) {
            self.has_changed = true;
            if let Some((part, running)) = &before {
                self.forget(part, running.as_ref());
            }
            self.count(&seen.part, seen.running.as_ref());
        }
        self.all.insert(name, seen)
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Seen> {
        let gone = self.all.remove(name)?;
        self.has_changed = true;
        self.forget(&gone.part, gone.running.as_ref());
        Some(gone)
    }

    fn count(&mut self, part: &Part, running: Option<&Version>) {
        let Some(running) = running else { return };
        let counted = self.running.entry(part.clone()).or_default();
        match counted.iter_mut().find(|(version, _)| version == running) {
            Some((_, count)) => *count += 1,
            None => counted.push((running.clone(), 1)),
        }
    }

    fn forget(&mut self, part: &Part, running: Option<&Version>) {
        let (Some(running), Some(counted)) = (running, self.running.get_mut(part)) else { return };
        for (_, count) in counted.iter_mut().filter(|(version, _)| version == running) {
            *count -= 1;
        }
        counted.retain(|(_, count)| *count > 0);
    }

    /// The versions that run in a part.
    fn versions(&self, part: &Part) -> impl Iterator<Item = &Version> {
        self.running.get(part).into_iter().flatten().map(|(version, _)| version)
    }

    /// Versions of kubelets of workers, each with the versions of API servers that they talk to.
    fn pairs(&self) -> impl Iterator<Item = (&Version, &Version)> {
        let workers = self.running.keys().filter(|part| **part != Part::ControlPlane);
        let kubelets = workers.flat_map(|part| self.versions(part));
        kubelets.flat_map(|kubelet| self.versions(&Part::ControlPlane).map(move |server| (kubelet, server)))
    }

    /// The largest skew between any kubelet of a worker and any API server, or the rule that is broken.
    pub(super) fn skew(&self) -> Result<u64, String> {
        let mut worst = 0;
        for (kubelet, api_server) in self.pairs() {
            let behind = kubelet_skew(api_server, kubelet).map_err(|violation| {
                let (name, server) = (self.first(false, kubelet), self.first(true, api_server));
                format!("{name} under {server}: {violation}")
            })?;
            worst = worst.max(behind);
        }
        Ok(worst)
    }

    /// The same where nothing can be done about a broken rule but to show it: what is more than allowed is shown as it is.
    pub(super) fn shown_skew(&self) -> u64 {
        self.pairs().map(|(kubelet, server)| shown_skew(server, kubelet)).max().unwrap_or_default()
    }

    /// Whether what runs has changed since the last time.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// The oldest and the newest version that run in a part.
    pub(super) fn range(&self, part: &Part) -> Option<(String, String)> {
        let oldest = self.versions(part).min_by(|a, b| a.precedence(b))?;
        let newest = self.versions(part).max_by(|a, b| a.precedence(b))?;
        Some((oldest.to_string(), newest.to_string()))
    }

    /// The machines of a part.
    pub(super) fn of(&self, part: &Part) -> impl Iterator<Item = (String, Seen)> {
        let machines = self.all.iter().filter(move |(_, seen)| seen.part == *part);
        machines.map(|(name, seen)| (name.clone(), seen.clone()))
    }

    /// The first machine that runs a version.
    fn first(&self, control_plane: bool, version: &Version) -> &str {
        let mut running = self.all.iter().filter(|(_, seen)| {
            (seen.part == Part::ControlPlane) == control_plane && seen.running.as_ref() == Some(version)
        });
        running.next().map_or("", |(name, _)| name.as_str())
    }
}

/// How many minors a kubelet and an API server are apart, in whichever direction.
pub fn shown_skew(api_server: &Version, kubelet: &Version) -> u64 {
    kubelet_skew(api_server, kubelet)
        .unwrap_or_else(|_| api_server.minor().minor.abs_diff(kubelet.minor().minor))
}

impl Part {
    /// What a machine or a worker group belongs to, by its labels; nothing for one that stands alone.
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Self> {
        let label = |names: [&str; 2]| names.iter().find_map(|name| labels.get(*name)).cloned();
        if labels.contains_key(CONTROL_PLANE_LABEL) {
            return Some(Self::ControlPlane);
        }
        let deployment = label([TOPOLOGY_DEPLOYMENT_NAME_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL]);
        let pool = || label([TOPOLOGY_POOL_NAME_LABEL, MACHINE_POOL_NAME_LABEL]);
        deployment.map(Self::MachineDeployment).or_else(|| pool().map(Self::MachinePool))
    }
}

impl Seen {
    /// A machine as it is now; nothing for one that stands alone.
    pub fn of(machine: &Machine) -> Option<Self> {
        let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
        Some(Self {
            part: Part::of(machine.labels())?,
            version: machine.spec.version.clone(),
            running: kubelet.and_then(|version| Version::parse(version).ok()),
            available: condition::is_true(&machine.status.conditions, AVAILABLE),
            deleting: machine.metadata.deletion_timestamp.is_some(),
            updating: machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION),
            outdated: condition::find(&machine.status.conditions, UP_TO_DATE)
                .filter(|found| found.status == "False" && !found.message.is_empty())
                .map(|found| found.message.clone()),
        })
    }

    /// How it is, in one word.
    pub fn state(&self) -> MachineState {
        match () {
            () if self.deleting => MachineState::Deleting,
            () if self.updating => MachineState::Updating,
            () if self.available => MachineState::Available,
            () => MachineState::Starting,
        }
    }
}

/// How a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MachineState {
    /// Being created, or not available for another reason.
    Starting,
    /// Available.
    Available,
    /// Being updated in place.
    Updating,
    /// Being deleted.
    Deleting,
}

/// The oldest version that machines are still to leave, if any are.
pub(super) fn outdated(machines: &[(String, Seen)], to: &str) -> Option<String> {
    let is_outdated = |seen: &Seen| {
        seen.version != to || seen.running.as_ref().is_some_and(|running| running.to_string() != to)
    };
    let left = machines.iter().filter(|(_, seen)| is_outdated(seen));
    let versions = left.map(|(_, seen)| match &seen.running {
        Some(running) => running.to_string(),
        None => seen.version.clone(),
    });
    versions.min_by(|a, b| match (Version::parse(a), Version::parse(b)) {
        (Ok(a), Ok(b)) => a.precedence(&b),
        _ => a.cmp(b),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(part: Part, running: &str) -> Seen {
        let version = running.to_owned();
        let running = Version::parse(running).ok();
        Seen { part, version, running, available: true, deleting: false, updating: false, outdated: None }
    }

    #[test]
    fn the_skew_is_that_of_what_runs_now() {
        let mut machines = Machines::default();
        let workers = || Part::MachineDeployment("a".to_owned());
        machines.insert("cp".to_owned(), machine(Part::ControlPlane, "v1.31.0"));
        machines.insert("w1".to_owned(), machine(workers(), "v1.29.0"));
        machines.insert("w2".to_owned(), machine(workers(), "v1.29.0"));
        assert_eq!(machines.skew(), Ok(2));
        machines.insert("w1".to_owned(), machine(workers(), "v1.31.0"));
        assert_eq!(machines.skew(), Ok(2), "w2 is still behind");
        machines.insert("w2".to_owned(), machine(workers(), ""));
        assert_eq!(machines.skew(), Ok(0), "w2 does not run");
        machines.insert("w2".to_owned(), machine(workers(), "v1.32.0"));
        assert_eq!(machines.shown_skew(), 1, "shown as it is");
        let broken = machines.skew().unwrap_err();
        assert!(broken.starts_with("w2 under cp: "), "{broken}");
        assert!(machines.remove("w2").is_some() && machines.remove("w2").is_none());
        assert_eq!(machines.skew(), Ok(0));
    }
}
