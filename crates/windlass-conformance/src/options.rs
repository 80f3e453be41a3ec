//! How far a test goes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use windlass_api::Hook;
use windlass_api::hooks::{ClusterClassVariable, Settings, UnknownHook, Variable};
use windlass_api::object::Object;
use windlass_version::Version;

use crate::check::CheckId;
use crate::operations::Operations;

/// How far a test goes. The default calls discovery and sends requests that no handler can act on.
#[derive(Clone)]
pub struct Options {
    /// Hooks whose handlers are called. Calls may have side effects, so none is called unless named.
    pub hooks: HookSelection,
    /// Checks that are left out, for example T8, which uploads 20 MiB.
    pub leave_out: BTreeSet<CheckId>,
    /// Limits of time.
    pub timing: Timing,
    /// Certificates that expire within this many days are reported.
    pub certificate_warning_days: u32,
    /// Releases of Cluster API that shall be able to use the extension.
    pub capi_versions: Vec<CapiVersion>,
    /// How many calls are made in parallel to see whether the extension stands it.
    pub concurrency: usize,
    /// How often a request is repeated to see whether the answer stays the same.
    pub repetitions: usize,
    /// Kubernetes versions, old to new, between which upgrade plans are asked for.
    pub kubernetes_versions: Vec<Version>,
    /// Variables of the synthetic Cluster, sent with topology mutation hooks.
    pub variables: Vec<Variable>,
    /// Templates of your provider, sent to topology mutation hooks next to the synthetic ones.
    pub templates: Vec<Object>,
    /// Settings that make handlers block, sent on top of the others to see how they do it.
    pub block_settings: Option<Settings>,
    /// How long blocking handlers are polled until they let go. `None`: not at all.
    pub poll_for: Option<Duration>,
    /// Variables per handler as an earlier report had them, to find breaking changes.
    pub variables_baseline: BTreeMap<String, Vec<ClusterClassVariable>>,
    /// Addresses of the single replicas behind the URL.
    pub replicas: Vec<SocketAddr>,
    /// Readiness endpoint, `http://` or `https://`.
    pub readiness_url: Option<String>,
    /// Starts and stops the extension and its siblings. `None`: nothing is stopped.
    pub operations: Option<Arc<dyn Operations>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hooks: HookSelection::none(),
            leave_out: BTreeSet::new(),
            timing: Timing::default(),
            certificate_warning_days: 30,
            capi_versions: vec![CapiVersion::NEWEST],
            concurrency: 50,
            repetitions: 3,
            kubernetes_versions: (30..=34).map(|minor| Version::new(1, minor, 0)).collect(),
            variables: Vec::new(),
            templates: Vec::new(),
            block_settings: None,
            poll_for: None,
            variables_baseline: BTreeMap::new(),
            replicas: Vec::new(),
            readiness_url: None,
            operations: None,
        }
    }
}

/// Limits of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long discovery and harmless requests may take. Callers give discovery 10 seconds.
    pub discovery: Duration,
    /// Discovery that takes longer is reported as slow.
    pub slow_discovery: Duration,
    /// Calls whose 95th percentile is above this are reported as slow.
    pub slow_call: Duration,
    /// The same for hooks that are called on every reconcile of a topology.
    pub slow_mutation: Duration,
    /// How long an extension may take to answer again after it was started.
    pub cold_start: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            discovery: Duration::from_secs(10),
            slow_discovery: Duration::from_secs(2),
            slow_call: Duration::from_secs(1),
            slow_mutation: Duration::from_millis(200),
            cold_start: Duration::from_secs(60),
        }
    }
}

/// Hooks that may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookSelection(BTreeSet<Hook>);

impl HookSelection {
    /// No hook: discovery and harmless requests only.
    pub const fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Every hook.
    pub fn all() -> Self {
        Self(Hook::ALL.into_iter().filter(|hook| !hook.is_singleton()).collect())
    }

    /// These hooks.
    pub fn of(hooks: impl IntoIterator<Item = Hook>) -> Self {
        Self(hooks.into_iter().collect())
    }

    /// Whether the hook may be called.
    pub fn contains(&self, hook: Hook) -> bool {
        self.0.contains(&hook)
    }

    /// Whether no hook may be called.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `all`, or names of hooks joined with commas, in any case.
impl FromStr for HookSelection {
    type Err = UnknownHook;

    fn from_str(text: &str) -> Result<Self, UnknownHook> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self::all());
        }
        let named = |name: &str| {
            let known = Hook::ALL.into_iter().find(|hook| hook.name().eq_ignore_ascii_case(name));
            known.map_or_else(|| name.parse(), Ok)
        };
        text.split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(named)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// A release of Cluster API, for example `1.12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapiVersion {
    /// Minor of the release; the major is 1.
    pub minor: u32,
}

impl CapiVersion {
    /// The newest release whose hooks are known here.
    pub const NEWEST: Self = Self { minor: 15 };

    /// The release that introduced a hook; none for the one that Windlass alone calls.
    pub const fn that_introduced(hook: Hook) -> Option<Self> {
        let minor = match hook {
            Hook::Discovery
            | Hook::BeforeClusterCreate
            | Hook::AfterControlPlaneInitialized
            | Hook::BeforeClusterUpgrade
            | Hook::AfterControlPlaneUpgrade
            | Hook::AfterClusterUpgrade
            | Hook::BeforeClusterDelete
            | Hook::GeneratePatches
            | Hook::ValidateTopology => 2,
            Hook::DiscoverVariables => 4,
            Hook::BeforeControlPlaneUpgrade
            | Hook::BeforeWorkersUpgrade
            | Hook::AfterWorkersUpgrade
            | Hook::GenerateUpgradePlan
            | Hook::CanUpdateMachine
            | Hook::CanUpdateMachineSet
            | Hook::UpdateMachine => 12,
            Hook::ExternalUpdate => return None,
        };
        Some(Self { minor })
    }
}

impl std::fmt::Display for CapiVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v1.{}", self.minor)
    }
}

impl FromStr for CapiVersion {
    type Err = CapiVersionError;

    fn from_str(text: &str) -> Result<Self, CapiVersionError> {
        let error = || CapiVersionError { text: text.to_owned() };
        let minor = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.").ok_or_else(error)?;
        let minor = minor.split('.').next().unwrap_or(minor);
        Ok(Self { minor: minor.parse().map_err(|_| error())? })
    }
}

/// A text that is no release of Cluster API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a release of Cluster API such as 1.12")]
pub struct CapiVersionError {
    /// The text.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_selected_by_name_in_any_case() {
        let two = HookSelection::of([Hook::UpdateMachine, Hook::BeforeClusterUpgrade]);
        assert_eq!("updatemachine, BeforeClusterUpgrade,".parse(), Ok(two));
        assert_eq!("all".parse(), Ok(HookSelection::all()));
        assert_eq!("".parse(), Ok(HookSelection::none()));
        assert!(!HookSelection::all().contains(Hook::Discovery));
        assert!("BeforeLunch".parse::<HookSelection>().is_err());
    }

    #[test]
    fn releases_are_written_with_and_without_v_and_patch() {
        for text in ["1.12", "v1.12", "v1.12.3"] {
            assert_eq!(text.parse(), Ok(CapiVersion { minor: 12 }));
        }
        assert!("2.0".parse::<CapiVersion>().is_err());
        assert!("1.x".parse::<CapiVersion>().is_err());
        let known =
            |hook: &Hook| CapiVersion::that_introduced(*hook).is_some_and(|v| v <= CapiVersion::NEWEST);
        let unknown: Vec<Hook> = Hook::ALL.into_iter().filter(|hook| !known(hook)).collect();
        assert_eq!(unknown, [Hook::ExternalUpdate]);
    }
}
