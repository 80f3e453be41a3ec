//! Every reason for which a plan is refused, each with its evidence.

use std::fmt;

use windlass_version::{MAX_KUBELET_MINORS_BEHIND, Minor, ParseError, Version};

use crate::proof::BrokenStep;
use crate::request::GroupName;

/// Most steps a plan may have: the lists in `Cluster.status` that show it hold no more.
pub const MAX_STEPS: usize = 32;

/// Most versions a list may have: the limit of `ClusterClass.spec.kubernetesVersions`.
pub const MAX_LISTED_VERSIONS: usize = 100;

/// A request that has no safe plan: everything that is wrong with it, in the order of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong; never empty.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.violations.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Which of the two lists of a plan is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanPart {
    /// The control plane's versions.
    ControlPlane,
    /// The workers' versions.
    Workers,
}

impl PlanPart {
    const fn field(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlPlaneUpgrades",
            Self::Workers => "workersUpgrades",
        }
    }
}

impl fmt::Display for PlanPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ControlPlane => "control plane",
            Self::Workers => "workers",
        })
    }
}

/// One broken rule. `index` counts from 0 in the list that the violation is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the nouns of the message above each variant")]
pub enum Violation {
    /// The target is older than the control plane.
    #[error("target {target} is older than control plane {control_plane}: downgrades are not supported")]
    Downgrade { control_plane: Version, target: Version },
    /// The target has another major than the control plane.
    #[error(
        "target {target} has another major than control plane {control_plane}: no upgrade path is defined"
    )]
    TargetOfOtherMajor { control_plane: Version, target: Version },
    /// The target comes before the current version in the list that gives unorderable builds their order.
    #[error(
        "target {target} comes before control plane {control_plane} in the list of versions: \
         downgrades are not supported"
    )]
    TargetListedBeforeCurrent { control_plane: Version, target: Version },

    /// Two worker groups have the same name.
    #[error("worker group {group:?} is given twice")]
    GroupRepeated { group: GroupName },
    /// A worker group is newer than the target.
    #[error("worker group {group} at {version} is newer than target {target}: downgrades are not supported")]
    WorkersAheadOfTarget { group: GroupName, version: Version, target: Version },
    /// A worker group is of a later minor than the control plane.
    #[error(
        "worker group {group} at {version} is newer than control plane {control_plane}: \
         the skew policy does not allow it, and no order of steps repairs it"
    )]
    WorkersAheadOfControlPlane { group: GroupName, version: Version, control_plane: Version },
    /// A worker group is further behind the control plane than the skew policy allows.
    #[error(
        "worker group {group} at {version} is {behind} minors behind control plane {control_plane}, \
         3 are allowed: upgrade it to a version the control plane has passed before going on"
    )]
    WorkersTooFarBehind { group: GroupName, version: Version, control_plane: Version, behind: u64 },
    /// A worker group has another major than the control plane.
    #[error("worker group {group} at {version} has another major than control plane {control_plane}")]
    WorkersOfOtherMajor { group: GroupName, version: Version, control_plane: Version },

    /// A pinned worker group would be further behind the target than the skew policy allows.
    #[error(
        "worker group {group} is pinned to {version} and would be {behind} minors behind target {target}, 3 are \
         allowed: it allows a control plane up to {allowed}.x; raise the pin to {lowest}.0 or newer, or choose an \
         older target", allowed = .version.minor().plus(MAX_KUBELET_MINORS_BEHIND), lowest = lowest_pin(.target)
    )]
    PinTooOld { group: GroupName, version: Version, target: Version, behind: u64 },

    /// Without a list or an extension only the next minor can be reached.
    #[error(
        "{control_plane} to {target} passes through {between} minor{}: without a list of versions or an \
         upgrade plan only the next minor can be reached", if *.between == 1 { "" } else { "s" }
    )]
    VersionsUnknown { control_plane: Version, target: Version, between: u64 },

    /// The list of versions has no entries.
    #[error("the list of versions is empty")]
    ListEmpty,
    /// The list of versions is longer than [`MAX_LISTED_VERSIONS`].
    #[error("the list of versions has {count} entries, {MAX_LISTED_VERSIONS} are allowed")]
    ListTooLong { count: usize },
    /// An entry of the list is not a version.
    #[error("versions[{index}]: {error}")]
    ListedNotAVersion { index: usize, text: String, error: ParseError },
    /// An entry of the list is older than the one before it.
    #[error("versions[{index}]: {version} comes after {previous}: the list must go from old to new")]
    ListNotSorted { index: usize, version: Version, previous: Version },
    /// An entry of the list stands there already.
    #[error("versions[{index}]: {version} is already at versions[{first}]")]
    ListedTwice { index: usize, version: Version, first: usize },
    /// The target is not in the list.
    #[error("target {target} is not in the list of versions{}", nearest_text(.nearest.as_ref()))]
    TargetNotListed { target: Version, nearest: Option<Version> },
    /// A minor on the way is not in the list.
    #[error("no version of {minor} is in the list: the control plane cannot skip that minor")]
    MinorNotListed { minor: Minor },

    /// An item of a plan is not a version.
    #[error("{}[{index}]: {error}", .part.field())]
    NotAVersion { part: PlanPart, index: usize, text: String, error: ParseError },
    /// A plan has more than [`MAX_STEPS`] items.
    #[error("the {part} plan has {count} steps, {MAX_STEPS} are allowed")]
    TooManySteps { part: PlanPart, count: usize },
    /// The control plane is not at the target and has no plan to get there.
    #[error("the control plane plan is empty: it must lead from {control_plane} to {target}")]
    ControlPlanePlanEmpty { control_plane: Version, target: Version },
    /// A plan is given where there is nothing to upgrade.
    #[error("{}[0]: {version} is given, but {}", .part.field(), nothing_to_do(*.part, *.no_workers))]
    PlanNotNeeded { part: PlanPart, version: Version, no_workers: bool },
    /// An item is not greater than the one before it, or than the version at which the plan starts.
    #[error("{}[{index}]: {version} must be greater than the one before it, {previous}", .part.field())]
    NotNewer { part: PlanPart, index: usize, version: Version, previous: Version },
    /// A build of a release stands in the plan already, or is the version at which the plan starts. Builds of one release may
    /// have no order, so that it comes after another build without being less.
    #[error("{}[{index}]: {version} is visited twice, it comes again after {previous}", .part.field())]
    VisitedTwice { part: PlanPart, index: usize, version: Version, previous: Version },
    /// An item is newer than the target.
    #[error("{}[{index}]: {version} is newer than target {target}", .part.field())]
    AboveTarget { part: PlanPart, index: usize, version: Version, target: Version },
    /// The last item is not the target.
    #[error("{}[{index}]: the plan must end with target {target}, it ends with {version}", .part.field())]
    WrongEnd { part: PlanPart, index: usize, version: Version, target: Version },
    /// A control plane step leaves out minors.
    #[error(
        "{}[{index}]: {version} skips {skipped} minor{} after {previous}: \
         a version of every minor in between is needed",
        PlanPart::ControlPlane.field(), if *.skipped == 1 { "" } else { "s" }
    )]
    MinorSkipped { index: usize, version: Version, previous: Version, skipped: u64 },
    /// A step changes the major.
    #[error("{}[{index}]: {version} has another major than {previous} before it", .part.field())]
    MajorChanged { part: PlanPart, index: usize, version: Version, previous: Version },
    /// A worker version is one that the control plane does not pass through.
    #[error(
        "{}[{index}]: {version} is neither the control plane's version {control_plane} nor in its plan",
        PlanPart::Workers.field()
    )]
    NotAControlPlaneVersion { index: usize, version: Version, control_plane: Version },
    /// Two builds of one release come in another order than in the control plane plan.
    #[error(
        "{}[{index}]: {version} comes after {previous}, in the control plane plan it comes before",
        PlanPart::Workers.field()
    )]
    OrderContradicted { index: usize, version: Version, previous: Version },
    /// A worker step is longer than the skew policy allows.
    #[error(
        "{}[{index}]: {version} is {minors} minors after {previous}: the control plane would be more than 3 \
         minors ahead of the workers, a stop in between is needed",
        PlanPart::Workers.field()
    )]
    StopMissing { index: usize, version: Version, previous: Version, minors: u64 },

    /// The finished plan did not pass its own proof. Reaching this is a defect of the planner.
    #[error("the plan is not safe: {0}")]
    NotProven(BrokenStep),
}

/// The oldest minor that workers may have below a target.
fn lowest_pin(target: &Version) -> Minor {
    let minor = target.minor();
    Minor { minor: minor.minor.saturating_sub(MAX_KUBELET_MINORS_BEHIND), ..minor }
}

fn nearest_text(nearest: Option<&Version>) -> String {
    nearest.map_or_else(String::new, |version| format!("; the newest of its minor is {version}"))
}

fn nothing_to_do(part: PlanPart, no_workers: bool) -> &'static str {
    match (part, no_workers) {
        (PlanPart::ControlPlane, _) => "the control plane is at the target already",
        (PlanPart::Workers, true) => "there are no workers",
        (PlanPart::Workers, false) => "all workers are at the target already",
    }
}

impl Violation {
    /// A stable identifier of the rule.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Downgrade { .. } => "Downgrade",
            Self::TargetOfOtherMajor { .. } => "TargetOfOtherMajor",
            Self::TargetListedBeforeCurrent { .. } => "TargetListedBeforeCurrent",
            Self::GroupRepeated { .. } => "GroupRepeated",
            Self::WorkersAheadOfTarget { .. } => "WorkersAheadOfTarget",
            Self::WorkersAheadOfControlPlane { .. } => "WorkersAheadOfControlPlane",
            Self::WorkersTooFarBehind { .. } => "WorkersTooFarBehind",
            Self::WorkersOfOtherMajor { .. } => "WorkersOfOtherMajor",
            Self::PinTooOld { .. } => "PinTooOld",
            Self::VersionsUnknown { .. } => "VersionsUnknown",
            Self::ListEmpty => "ListEmpty",
            Self::ListTooLong { .. } => "ListTooLong",
            Self::ListedNotAVersion { .. } => "ListedNotAVersion",
            Self::ListNotSorted { .. } => "ListNotSorted",
            Self::ListedTwice { .. } => "ListedTwice",
            Self::TargetNotListed { .. } => "TargetNotListed",
            Self::MinorNotListed { .. } => "MinorNotListed",
            Self::NotAVersion { .. } => "NotAVersion",
            Self::TooManySteps { .. } => "TooManySteps",
            Self::ControlPlanePlanEmpty { .. } => "ControlPlanePlanEmpty",
            Self::PlanNotNeeded { .. } => "PlanNotNeeded",
            Self::NotNewer { .. } => "NotNewer",
            Self::VisitedTwice { .. } => "VisitedTwice",
            Self::AboveTarget { .. } => "AboveTarget",
            Self::WrongEnd { .. } => "WrongEnd",
            Self::MinorSkipped { .. } => "MinorSkipped",
            Self::MajorChanged { .. } => "MajorChanged",
            Self::NotAControlPlaneVersion { .. } => "NotAControlPlaneVersion",
            Self::OrderContradicted { .. } => "OrderContradicted",
            Self::StopMissing { .. } => "StopMissing",
            Self::NotProven(_) => "NotProven",
        }
    }

    /// Whether the input itself is malformed, rather than well formed and refused.
    pub const fn is_invalid_input(&self) -> bool {
        matches!(
            self,
            Self::GroupRepeated { .. }
                | Self::ListEmpty
                | Self::ListTooLong { .. }
                | Self::ListedNotAVersion { .. }
                | Self::ListNotSorted { .. }
                | Self::ListedTwice { .. }
                | Self::NotAVersion { .. }
        )
    }

    /// The plan that the violation is about, if it is about one.
    pub const fn part(&self) -> Option<PlanPart> {
        match self {
            Self::NotAVersion { part, .. }
            | Self::TooManySteps { part, .. }
            | Self::PlanNotNeeded { part, .. }
            | Self::NotNewer { part, .. }
            | Self::VisitedTwice { part, .. }
            | Self::AboveTarget { part, .. }
            | Self::WrongEnd { part, .. }
            | Self::MajorChanged { part, .. } => Some(*part),
            Self::ControlPlanePlanEmpty { .. } | Self::MinorSkipped { .. } => Some(PlanPart::ControlPlane),
            Self::NotAControlPlaneVersion { .. }
            | Self::OrderContradicted { .. }
            | Self::StopMissing { .. } => Some(PlanPart::Workers),
            _ => None,
        }
    }

    /// The item that the violation is about, counted from 0 in its list.
    pub const fn index(&self) -> Option<usize> {
        match self {
            Self::ListedNotAVersion { index, .. }
            | Self::ListNotSorted { index, .. }
            | Self::ListedTwice { index, .. }
            | Self::NotAVersion { index, .. }
            | Self::NotNewer { index, .. }
            | Self::VisitedTwice { index, .. }
            | Self::AboveTarget { index, .. }
            | Self::WrongEnd { index, .. }
            | Self::MinorSkipped { index, .. }
            | Self::MajorChanged { index, .. }
            | Self::NotAControlPlaneVersion { index, .. }
            | Self::OrderContradicted { index, .. }
            | Self::StopMissing { index, .. } => Some(*index),
            Self::PlanNotNeeded { .. } => Some(0),
            _ => None,
        }
    }

    /// The version (or text that should be one) that the violation is about.
    pub fn version(&self) -> Option<String> {
        match self {
            Self::Downgrade { target: version, .. }
            | Self::TargetOfOtherMajor { target: version, .. }
            | Self::TargetListedBeforeCurrent { target: version, .. }
            | Self::VersionsUnknown { target: version, .. }
            | Self::TargetNotListed { target: version, .. }
            | Self::ControlPlanePlanEmpty { target: version, .. }
            | Self::WorkersAheadOfTarget { version, .. }
            | Self::WorkersAheadOfControlPlane { version, .. }
            | Self::WorkersTooFarBehind { version, .. }
            | Self::WorkersOfOtherMajor { version, .. }
            | Self::PinTooOld { version, .. }
            | Self::ListNotSorted { version, .. }
            | Self::ListedTwice { version, .. }
            | Self::PlanNotNeeded { version, .. }
            | Self::NotNewer { version, .. }
            | Self::VisitedTwice { version, .. }
            | Self::AboveTarget { version, .. }
            | Self::WrongEnd { version, .. }
            | Self::MinorSkipped { version, .. }
            | Self::MajorChanged { version, .. }
            | Self::NotAControlPlaneVersion { version, .. }
            | Self::OrderContradicted { version, .. }
            | Self::StopMissing { version, .. } => Some(version.to_string()),
            // The parse error keeps a text that is short enough to show.
            Self::ListedNotAVersion { error, .. } | Self::NotAVersion { error, .. } => {
                Some(error.input.clone())
            }
            Self::MinorNotListed { minor } => Some(minor.to_string()),
            Self::GroupRepeated { .. }
            | Self::ListEmpty
            | Self::ListTooLong { .. }
            | Self::TooManySteps { .. }
            | Self::NotProven(_) => None,
        }
    }
}
