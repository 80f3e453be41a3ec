//! What a plan is asked for.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_version::Version;

/// Everything a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// Version of the control plane now.
    pub control_plane: Version,
    /// The worker groups in the order in which they are upgraded. Empty: a cluster without workers.
    pub workers: Vec<WorkerGroup>,
    /// Version that everything shall reach.
    pub target: Version,
    /// Where the versions in between come from.
    pub source: Source,
    /// Which hooks of this upgrade were called already; decides only which are still to be called.
    pub hooks_passed: HooksPassed,
    /// The target for which `BeforeClusterUpgrade` passed, if it has: a step beyond it needs the hook again. Without it,
    /// a hook that passed has passed for this target.
    pub acknowledged_target: Option<Version>,
}

impl PlanRequest {
    /// A cluster without workers that may go one minor at most; add to it with the `with_` functions.
    pub fn new(control_plane: Version, target: Version) -> Self {
        Self {
            control_plane,
            workers: Vec::new(),
            target,
            source: Source::OneMinor,
            hooks_passed: HooksPassed::default(),
            acknowledged_target: None,
        }
    }

    /// Sets the worker groups.
    #[must_use]
    pub fn with_workers(mut self, workers: impl IntoIterator<Item = WorkerGroup>) -> Self {
        self.workers = workers.into_iter().collect();
        self
    }

    /// Sets the source of versions.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Sets which hooks were called already.
    #[must_use]
    pub fn with_hooks_passed(mut self, hooks_passed: HooksPassed) -> Self {
        self.hooks_passed = hooks_passed;
        self
    }

    /// Sets the target for which `BeforeClusterUpgrade` passed.
    #[must_use]
    pub fn with_acknowledged_target(mut self, target: Option<Version>) -> Self {
        self.acknowledged_target = target;
        self
    }
}

/// A set of workers that is upgraded as one: a MachineDeployment or a MachinePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerGroup {
    /// Its name, unique in a request.
    pub name: GroupName,
    /// Version of its slowest machine now.
    pub version: Version,
    /// Whether its owner keeps it at that version. It takes no part in the upgrade, and no step may leave it further
    /// behind than the skew policy allows.
    pub pinned: bool,
}

impl WorkerGroup {
    /// A group of that name at that version.
    pub fn new(name: impl Into<GroupName>, version: Version) -> Self {
        Self { name: name.into(), version, pinned: false }
    }

    /// The same group, kept at its version.
    #[must_use]
    pub fn pinned(self) -> Self {
        Self { pinned: true, ..self }
    }
}

/// Name of a worker group. Cheap to clone: a plan repeats it in every operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupName(Arc<str>);

impl GroupName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for GroupName {
    fn from(name: T) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where the versions between here and the target come from.
///
/// Versions are kept as texts: they come from manifests and from extensions, and what is wrong with each
/// of them is part of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nothing is known: one minor at most.
    OneMinor,
    /// The versions that may be used, old to new, as in `ClusterClass.spec.kubernetesVersions`.
    Versions(Vec<String>),
    /// A plan made elsewhere, as an upgrade plan extension answers it: followed if it is valid.
    Given {
        /// Control plane versions, the target included, the current one not.
        control_plane: Vec<String>,
        /// Worker versions; empty lets the planner choose the fewest.
        workers: Vec<String>,
    },
}

impl Source {
    /// A list of versions.
    pub fn versions<T: Into<String>>(versions: impl IntoIterator<Item = T>) -> Self {
        Self::Versions(versions.into_iter().map(Into::into).collect())
    }

    /// A plan given by an extension.
    pub fn given<T: Into<String>>(
        control_plane: impl IntoIterator<Item = T>,
        workers: impl IntoIterator<Item = T>,
    ) -> Self {
        Self::Given {
            control_plane: control_plane.into_iter().map(Into::into).collect(),
            workers: workers.into_iter().map(Into::into).collect(),
        }
    }

    /// The source that counts where several are known: what an extension answered, else a list that has
    /// entries, else one minor.
    pub fn first_of(extension: Option<(Vec<String>, Vec<String>)>, versions: Vec<String>) -> Self {
        match extension {
            Some((control_plane, workers)) => Self::Given { control_plane, workers },
            None if !versions.is_empty() => Self::Versions(versions),
            None => Self::OneMinor,
        }
    }

    /// Which kind of source this is.
    pub const fn kind(&self) -> SourceKind {
        match self {
            Self::OneMinor => SourceKind::OneMinor,
            Self::Versions(_) => SourceKind::List,
            Self::Given { .. } => SourceKind::Extension,
        }
    }
}

/// The kind of a [`Source`], as plans report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceKind {
    /// [`Source::OneMinor`].
    OneMinor,
    /// [`Source::Versions`].
    List,
    /// [`Source::Given`].
    Extension,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneMinor => "one minor at most",
            Self::List => "list of versions",
            Self::Extension => "given plan",
        })
    }
}

/// The hooks that are called once per upgrade or once per workers step, and passed before this plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HooksPassed {
    /// `BeforeClusterUpgrade` of this upgrade.
    pub before_cluster_upgrade: bool,
    /// `BeforeWorkersUpgrade` of the workers step at the control plane's current version.
    pub before_workers_upgrade: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_beats_the_list_and_the_list_beats_one_minor() {
        let list = vec!["v1.31.0".to_owned()];
        let answer = Some((vec!["v1.32.0".to_owned()], Vec::new()));
        assert_eq!(Source::first_of(answer.clone(), list.clone()).kind(), SourceKind::Extension);
        assert_eq!(Source::first_of(answer, Vec::new()).kind(), SourceKind::Extension);
        assert_eq!(Source::first_of(None, list).kind(), SourceKind::List);
        assert_eq!(Source::first_of(None, Vec::new()).kind(), SourceKind::OneMinor);
    }
}
