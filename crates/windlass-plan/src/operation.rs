//! One operation of a plan: what it does, the hooks around it, and why it is there.

use std::fmt;

use windlass_version::Version;

use crate::request::GroupName;

/// One step, as it will be executed, with what is known about it beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What happens.
    pub step: Step,
    /// How many minors the slowest workers are behind the control plane once the step is done.
    pub skew: u64,
    /// The lifecycle hooks called around the step, in the order of their calls.
    pub hooks: Vec<UpgradeHook>,
    /// Why the step is needed, or what it lets the workers skip.
    pub reason: Reason,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The control plane goes from one version to another.
    ControlPlane {
        /// Version before.
        from: Version,
        /// Version after.
        to: Version,
    },
    /// A worker group goes from one version to another.
    Workers {
        /// Which group.
        group: GroupName,
        /// Version before.
        from: Version,
        /// Version after.
        to: Version,
    },
}

impl Step {
    /// Version before.
    pub const fn from(&self) -> &Version {
        match self {
            Self::ControlPlane { from, .. } | Self::Workers { from, .. } => from,
        }
    }

    /// Version after.
    pub const fn to(&self) -> &Version {
        match self {
            Self::ControlPlane { to, .. } | Self::Workers { to, .. } => to,
        }
    }

    /// The worker group, if it is a step of workers.
    pub const fn group(&self) -> Option<&GroupName> {
        match self {
            Self::ControlPlane { .. } => None,
            Self::Workers { group, .. } => Some(group),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlPlane { from, to } => write!(f, "control plane {from} -> {to}"),
            Self::Workers { group, from, to } => write!(f, "workers {group} {from} -> {to}"),
        }
    }
}

/// A lifecycle hook of an upgrade. Named as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the Runtime SDK")]
pub enum UpgradeHook {
    BeforeClusterUpgrade,
    BeforeControlPlaneUpgrade,
    AfterControlPlaneUpgrade,
    BeforeWorkersUpgrade,
    AfterWorkersUpgrade,
    AfterClusterUpgrade,
}

impl UpgradeHook {
    /// All of them, in the order in which the first of each is called.
    pub const ALL: [Self; 6] = [
        Self::BeforeClusterUpgrade,
        Self::BeforeControlPlaneUpgrade,
        Self::AfterControlPlaneUpgrade,
        Self::BeforeWorkersUpgrade,
        Self::AfterWorkersUpgrade,
        Self::AfterClusterUpgrade,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeClusterUpgrade => "BeforeClusterUpgrade",
            Self::BeforeControlPlaneUpgrade => "BeforeControlPlaneUpgrade",
            Self::AfterControlPlaneUpgrade => "AfterControlPlaneUpgrade",
            Self::BeforeWorkersUpgrade => "BeforeWorkersUpgrade",
            Self::AfterWorkersUpgrade => "AfterWorkersUpgrade",
            Self::AfterClusterUpgrade => "AfterClusterUpgrade",
        }
    }
}

impl fmt::Display for UpgradeHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why an operation is in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A control plane step in a cluster without workers.
    NoWorkers,
    /// A control plane step in a cluster whose worker groups are all kept at their versions.
    AllPinned {
        /// How many groups there are.
        groups: usize,
    },
    /// A control plane step after which every group may stay where it is.
    WorkersSkip {
        /// How far behind the slowest group is afterwards.
        behind: u64,
    },
    /// A control plane step after which some groups are upgraded.
    WorkersFollow {
        /// How many groups are upgraded next.
        groups: usize,
        /// How many groups skip this version.
        skipping: usize,
    },
    /// A stop without which the next control plane step would leave the group too far behind.
    SkewLimit {
        /// The control plane version that the group could not stay under.
        next: Version,
        /// How many minors behind it would be.
        behind: u64,
    },
    /// A stop that the skew policy does not need, but the given workers plan demands.
    Given,
    /// The last stop.
    Target,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minors = |count: u64| if count == 1 { "minor" } else { "minors" };
        match self {
            Self::NoWorkers => f.write_str("no workers to consider"),
            Self::AllPinned { groups } => {
                let verb = if *groups == 1 { "group is" } else { "groups are" };
                write!(f, "{groups} worker {verb} pinned")
            }
            Self::WorkersSkip { behind: 0 } => f.write_str("no worker is behind"),
            Self::WorkersSkip { behind } => {
                write!(f, "workers can stay, at most {behind} {} behind", minors(*behind))
            }
            Self::WorkersFollow { groups: _, skipping: 0 } => f.write_str("workers follow"),
            Self::WorkersFollow { groups, skipping } => {
                let verb = if *groups == 1 { "group follows" } else { "groups follow" };
                write!(f, "{groups} {verb}, {skipping} can stay")
            }
            Self::SkewLimit { next, behind } => {
                write!(f, "needed: they would be {behind} {} behind at {next}", minors(*behind))
            }
            Self::Given => f.write_str("demanded by the given workers plan"),
            Self::Target => f.write_str("target"),
        }
    }
}
