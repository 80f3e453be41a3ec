//! Names of the steps of an upgrade, the same in conditions, approvals, on the command line and in JSON.

use std::fmt;
use std::str::FromStr;

use windlass_version::Version;

use super::observed::WorkerKind;

/// Something of an upgrade that starts. The name has the version, so that what is said about one step never counts for
/// another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StepName {
    /// The upgrade of the whole Cluster: `cluster/v1.33.0`.
    Cluster(Version),
    /// The control plane goes to a version: `control-plane/v1.31.2`.
    ControlPlane(Version),
    /// Workers begin to go to a version: `workers/v1.32.0`.
    Workers(Version),
    /// One worker group goes to a version: `MachineDeployment/md-0/v1.32.0`.
    Group {
        /// Whether it is a MachineDeployment or a MachinePool.
        kind: WorkerKind,
        /// Its entry in the topology.
        entry: String,
        /// The version.
        version: Version,
    },
}

impl StepName {
    /// The version that the step leads to.
    pub const fn version(&self) -> &Version {
        match self {
            Self::Cluster(version)
            | Self::ControlPlane(version)
            | Self::Workers(version)
            | Self::Group { version, .. } => version,
        }
    }

    /// What an approval of it is required by.
    pub const fn scope(&self) -> StepScope {
        match self {
            Self::Cluster(_) => StepScope::Cluster,
            Self::ControlPlane(_) => StepScope::ControlPlane,
            Self::Workers(_) => StepScope::Workers,
            Self::Group { .. } => StepScope::Groups,
        }
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(version) => write!(f, "cluster/{version}"),
            Self::ControlPlane(version) => write!(f, "control-plane/{version}"),
            Self::Workers(version) => write!(f, "workers/{version}"),
            Self::Group { kind, entry, version } => write!(f, "{kind}/{entry}/{version}"),
        }
    }
}

/// A string that names no step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not the name of a step; names such as cluster/v1.33.0, control-plane/v1.31.2, workers/v1.32.0 or \
     MachineDeployment/md-0/v1.32.0 are accepted"
)]
pub struct NotAStep {
    /// The string.
    pub name: String,
}

impl FromStr for StepName {
    type Err = NotAStep;

    fn from_str(name: &str) -> Result<Self, NotAStep> {
        let refuse = || NotAStep { name: name.to_owned() };
        let version = |text: &str| {
            let number = text.strip_prefix('v').ok_or_else(refuse)?;
            Version::parse_strict(number).map_err(|_| refuse())
        };
        let parts: Vec<&str> = name.split('/').collect();
        match parts.as_slice() {
            ["cluster", text] => Ok(Self::Cluster(version(text)?)),
            ["control-plane", text] => Ok(Self::ControlPlane(version(text)?)),
            ["workers", text] => Ok(Self::Workers(version(text)?)),
            [kind, entry, text] if !entry.is_empty() => {
                let kinds = [WorkerKind::MachineDeployment, WorkerKind::MachinePool];
                let kind = kinds.into_iter().find(|known| known.name() == *kind).ok_or_else(refuse)?;
                Ok(Self::Group { kind, entry: (*entry).to_owned(), version: version(text)? })
            }
            _ => Err(refuse()),
        }
    }
}

/// Which starts need an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepScope {
    /// The beginning of an upgrade, and a target that is raised.
    Cluster,
    /// Every step of the control plane.
    ControlPlane,
    /// Every step of the workers.
    Workers,
    /// Every worker group of a step.
    Groups,
}

impl StepScope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cluster, Self::ControlPlane, Self::Workers, Self::Groups];

    /// The word in annotations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::ControlPlane => "control-plane",
            Self::Workers => "workers",
            Self::Groups => "groups",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [
            "cluster/v1.33.0",
            "control-plane/v1.31.2",
            "workers/v1.32.0-rc.1",
            "MachineDeployment/md-0/v1.32.0",
            "MachinePool/mp.0/v1.32.0+build.1",
        ] {
            assert_eq!(name.parse::<StepName>().map(|step| step.to_string()), Ok(name.to_owned()));
        }
    }

    #[test]
    fn what_has_no_version_or_no_such_part_is_no_step() {
        for name in [
            "",
            "cluster",
            "cluster/",
            "cluster/1.33",
            "cluster/latest",
            "workers/v1.32.0/md-0",
            "MachineSet/md-0/v1.32.0",
            "MachineDeployment//v1.32.0",
            "control-plane/v1.32.0/x/y",
        ] {
            assert!(name.parse::<StepName>().is_err(), "{name}");
        }
    }
}
