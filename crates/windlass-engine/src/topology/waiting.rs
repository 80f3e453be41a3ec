//! What a part of a topology waits for, with the evidence.

use std::fmt;

use windlass_api::hooks::Hook;
use windlass_api::names::{DEFER_UPGRADE_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION};
use windlass_version::Version;

use super::observed::GroupId;
use super::plan::NoPath;

/// How long an annotation that holds an upgrade is not looked at again if nothing else happens. Taking it away
/// is an event of its own, so this is only a safety net.
pub const UPGRADE_HOLD_RETRY_SECONDS: u32 = 1200;

/// Why something does not happen now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// An extension asked to wait.
    Hook(HeldByHook),
    /// An extension failed, and nothing goes on without its answer.
    HookFailed {
        /// Which hook.
        hook: Hook,
        /// What went wrong.
        error: String,
    },
    /// Annotations on the Cluster hold the upgrade.
    UpgradeHolds {
        /// Their keys, sorted.
        keys: Vec<String>,
    },
    /// There is no safe way to the target.
    Path(NoPath),
    /// The control plane does not run yet.
    ControlPlaneProvisioning {
        /// Kind and name of the control plane.
        control_plane: String,
    },
    /// Machines of the control plane are behind.
    ControlPlaneUpgrade {
        /// Kind and name of the control plane.
        control_plane: String,
        /// The version it goes to.
        to: Version,
        /// The versions its machines have.
        running: Vec<Version>,
    },
    /// The control plane must reach a version before the workers may.
    ControlPlaneVersion {
        /// The version that the workers go to next.
        next: Version,
    },
    /// The control plane must be at the target, with nothing under way, before new workers are created.
    ControlPlaneAtTarget {
        /// The target.
        target: Version,
    },
    /// Workers must reach the version of the control plane before it goes on.
    WorkersVersion {
        /// The version.
        version: Version,
        /// Which groups are missing.
        groups: Vec<GroupId>,
    },
    /// Machines of workers are being replaced or updated.
    WorkersRollout {
        /// Of which groups.
        groups: Vec<GroupId>,
    },
    /// Other groups upgrade first.
    Turn {
        /// How many may upgrade at the same time.
        concurrency: usize,
        /// Which do.
        upgrading: Vec<GroupId>,
    },
    /// MachinePools come after MachineDeployments.
    MachineDeployments {
        /// Those that are not done.
        groups: Vec<GroupId>,
    },
    /// The entry asks to be left out for now.
    Deferred,
    /// The entry, or one before it, asks to stop the sequence there.
    SequenceHeld {
        /// The entry that asks.
        by: String,
    },
}

/// A hook that asked to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldByHook {
    /// Which hook.
    pub hook: Hook,
    /// The version that is left, for hooks that are told.
    pub from: Option<Version>,
    /// The version that is gone to, or that was reached.
    pub to: Option<Version>,
    /// What the handlers said.
    pub message: String,
    /// When it is called again.
    pub retry_after_seconds: u32,
}

impl WaitingOn {
    /// The hook that is waited for.
    pub const fn hook(&self) -> Option<Hook> {
        match self {
            Self::Hook(held) => Some(held.hook),
            Self::HookFailed { hook, .. } => Some(*hook),
            Self::UpgradeHolds { .. } => Some(Hook::BeforeClusterUpgrade),
            _ => None,
        }
    }

    /// Whether this is an error that somebody has to repair, rather than a wait.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::HookFailed { .. } | Self::Path(_))
    }

    /// When to look again, if nothing happens before.
    pub const fn retry_after_seconds(&self) -> Option<u32> {
        match self {
            Self::Hook(held) => Some(held.retry_after_seconds),
            Self::UpgradeHolds { .. } => Some(UPGRADE_HOLD_RETRY_SECONDS),
            _ => None,
        }
    }

    /// Whether a worker group waits because its owner asked for it.
    pub const fn is_deferral(&self) -> bool {
        matches!(self, Self::Deferred | Self::SequenceHeld { .. })
    }
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hook(held) if held.message.is_empty() => write!(f, "{}", held.hook),
            Self::Hook(held) => write!(f, "{}: {}", held.hook, held.message),
            Self::HookFailed { hook, error } => write!(f, "{hook} failed: {error}"),
            Self::UpgradeHolds { keys } => {
                write!(f, "{}: removal of annotation {}", Hook::BeforeClusterUpgrade, keys.join(", "))
            }
            Self::Path(no_path) => no_path.fmt(f),
            Self::ControlPlaneProvisioning { control_plane } => {
                write!(f, "{control_plane} to be provisioned")
            }
            Self::ControlPlaneUpgrade { control_plane, to, running } => {
                let running: Vec<String> = running.iter().map(Version::to_string).collect();
                write!(f, "{control_plane} to reach {to}, it runs {}", running.join(", "))
            }
            Self::ControlPlaneVersion { next } => write!(f, "the control plane to reach {next}"),
            Self::ControlPlaneAtTarget { target } => {
                write!(f, "the control plane to be stable at {target}")
            }
            Self::WorkersVersion { version, groups } => write!(f, "{} to reach {version}", join(groups)),
            Self::WorkersRollout { groups } => write!(f, "machines of {} to be upgraded", join(groups)),
            Self::Turn { concurrency, upgrading } => {
                write!(f, "{} to finish, {concurrency} may upgrade at a time", join(upgrading))
            }
            Self::MachineDeployments { groups } => {
                write!(f, "{} to finish, MachinePools come after MachineDeployments", join(groups))
            }
            Self::Deferred => write!(f, "removal of annotation {DEFER_UPGRADE_ANNOTATION}"),
            Self::SequenceHeld { by } => {
                write!(f, "removal of annotation {HOLD_UPGRADE_SEQUENCE_ANNOTATION} of {by}")
            }
        }
    }
}

fn join(groups: &[GroupId]) -> String {
    groups.iter().map(GroupId::to_string).collect::<Vec<_>>().join(", ")
}
