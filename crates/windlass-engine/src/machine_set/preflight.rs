//! Whether now is the time for a new machine of a version.
//!
//! A machine that is created while the control plane is on its way to another version might come up with a kubelet that
//! the control plane does not support, or join with the wrong kubeadm. Machines are then created later.

use std::collections::BTreeSet;
use std::fmt;

use windlass_version::{ParseError, Version, kubelet_skew};

/// What the checks look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preflight<'a> {
    /// The control plane, if the Cluster has one with a version. Without one there is nothing to check.
    pub control_plane: Option<ControlPlane<'a>>,
    /// What a managed topology asks for, if the Cluster has one.
    pub topology: Option<Topology<'a>>,
    /// The version of the machine, if it has one.
    pub version: Option<&'a str>,
    /// Whether the machine is bootstrapped by kubeadm.
    pub kubeadm: bool,
    /// The checks that users switched off.
    pub skipped: BTreeSet<Check>,
}

/// A control plane as the checks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlPlane<'a> {
    /// `spec.version`.
    pub version: &'a str,
    /// Whether no version is in its status yet.
    pub provisioning: bool,
    /// Whether its machines are not all at its version yet.
    pub upgrading: bool,
}

/// What a managed topology asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology<'a> {
    /// `spec.topology.version`.
    pub version: &'a str,
    /// The version of the upgrade step in progress, if one is.
    pub upgrade_step: Option<&'a str>,
    /// Whether the upgrade to that version has not begun, because it waits for rollouts that are in progress.
    pub waits_for_rollouts: bool,
}

/// A check, by the name that annotations use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The control plane is at its version, and that is the one that the topology is at.
    ControlPlaneIsStable,
    /// The kubelet is not newer than the control plane, and not too old.
    KubernetesVersionSkew,
    /// kubeadm is of the minor of the control plane.
    KubeadmVersionSkew,
    /// In a managed topology, the machine has the version of the control plane.
    ControlPlaneVersionSkew,
}

impl Check {
    const ALL: [Self; 4] = [
        Self::ControlPlaneIsStable,
        Self::KubernetesVersionSkew,
        Self::KubeadmVersionSkew,
        Self::ControlPlaneVersionSkew,
    ];

    /// The checks that an annotation switches off: a list with commas, or `All`. Unknown names are ignored.
    pub fn skipped(annotation: &str) -> BTreeSet<Self> {
        let names: BTreeSet<&str> = annotation.split(',').map(str::trim).collect();
        let skipped =
            Self::ALL.into_iter().filter(|check| names.contains("All") || names.contains(check.name()));
        skipped.collect()
    }

    /// Its name in annotations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ControlPlaneIsStable => "ControlPlaneIsStable",
            Self::KubernetesVersionSkew => "KubernetesVersionSkew",
            Self::KubeadmVersionSkew => "KubeadmVersionSkew",
            Self::ControlPlaneVersionSkew => "ControlPlaneVersionSkew",
        }
    }
}

/// A check that fails now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub check: Check,
    /// What it found.
    pub problem: Problem,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A version that cannot be read: nothing can be said of it.
    Unreadable {
        /// Whose version.
        of: &'static str,
        /// The version, and what is wrong with it.
        error: ParseError,
    },
    /// The topology asks for another version, which the control plane was not told yet.
    Propagating {
        /// The version of the control plane.
        control_plane: String,
        /// The version that it will be told.
        topology: String,
    },
    /// The control plane is not there yet.
    Provisioning,
    /// The control plane is on its way to its version.
    Upgrading {
        /// That version.
        to: String,
    },
    /// The control plane does not support such a kubelet.
    Skew(windlass_version::SkewViolation),
    /// kubeadm is of another minor than the control plane.
    Kubeadm {
        /// The version of the machine.
        version: String,
        /// The version of the control plane.
        control_plane: String,
    },
    /// The machine is not of the version of the control plane.
    NotTheControlPlane {
        /// The version of the machine.
        version: String,
        /// The version of the control plane.
        control_plane: String,
    },
}

/// The checks that fail; empty if a machine may be created.
pub fn preflight(facts: &Preflight<'_>) -> Vec<Failure> {
    let Some(control_plane) = facts.control_plane else { return Vec::new() };
    let mut failures: Vec<Failure> = Vec::new();
    for check in Check::ALL.into_iter().filter(|check| !facts.skipped.contains(check)) {
        let problem = match check {
            Check::ControlPlaneIsStable => unstable(control_plane, facts.topology),
            Check::KubernetesVersionSkew => compare(facts, control_plane, |machine, control_plane| {
                kubelet_skew(control_plane, machine).err().map(Problem::Skew)
            }),
            Check::KubeadmVersionSkew if facts.kubeadm => {
                compare(facts, control_plane, |machine, control_plane| {
                    (machine.minor() != control_plane.minor()).then(|| Problem::Kubeadm {
                        version: machine.to_string(),
                        control_plane: control_plane.to_string(),
                    })
                })
            }
            Check::KubeadmVersionSkew => None,
            Check::ControlPlaneVersionSkew => facts.topology.and(facts.version).and_then(|version| {
                (version != control_plane.version).then(|| Problem::NotTheControlPlane {
                    version: version.to_owned(),
                    control_plane: control_plane.version.to_owned(),
                })
            }),
        };
        failures.extend(problem.map(|problem| Failure { check, problem }));
    }
    failures
}

fn unstable(control_plane: ControlPlane<'_>, topology: Option<Topology<'_>>) -> Option<Problem> {
    let version = control_plane.version;
    if let Some(topology) = topology
        && topology.version != version
        && topology.upgrade_step != Some(version)
        && !topology.waits_for_rollouts
    {
        let told = topology.upgrade_step.unwrap_or(topology.version).to_owned();
        return Some(Problem::Propagating { control_plane: version.to_owned(), topology: told });
    }
    match control_plane {
        ControlPlane { provisioning: true, .. } => Some(Problem::Provisioning),
        ControlPlane { upgrading: true, .. } => Some(Problem::Upgrading { to: version.to_owned() }),
        _ => None,
    }
}

fn compare(
    facts: &Preflight<'_>,
    control_plane: ControlPlane<'_>,
    check: impl Fn(&Version, &Version) -> Option<Problem>,
) -> Option<Problem> {
    let version = facts.version?;
    let parse =
        |of, version: &str| Version::parse(version).map_err(|error| Problem::Unreadable { of, error });
    match (parse("MachineSet", version), parse("control plane", control_plane.version)) {
        (Ok(machine), Ok(control_plane)) => check(&machine, &control_plane),
        (Err(problem), _) | (_, Err(problem)) => Some(problem),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.check.name();
        match &self.problem {
            Problem::Unreadable { of, error } => write!(f, "{of}: {error}")?,
            Problem::Propagating { control_plane, topology } => {
                write!(f, "control plane {control_plane} was not told of version {topology} yet")?;
            }
            Problem::Provisioning => f.write_str("control plane is being provisioned")?,
            Problem::Upgrading { to } => write!(f, "control plane is being upgraded to {to}")?,
            Problem::Skew(violation) => violation.fmt(f)?,
            Problem::Kubeadm { version, control_plane } => {
                write!(f, "kubeadm {version} and control plane {control_plane} are of different minors")?;
            }
            Problem::NotTheControlPlane { version, control_plane } => {
                write!(f, "MachineSet version {version} and control plane version {control_plane} differ")?;
            }
        }
        write!(f, " ({name} preflight check)")
    }
}
