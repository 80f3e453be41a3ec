//! Which hooks exist, what they are called and where they are served.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api_version;
use crate::handler_name::HandlerName;
use crate::names::{HOOKS_API_VERSION, HOOKS_GROUP, HOOKS_VERSION};

/// A hook of the Runtime SDK.
///
/// Ordered by name, which is the order of names in the pending-hooks annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// The whole Cluster has reached its target version.
    AfterClusterUpgrade,
    /// The control plane can be reached for the first time. Cannot block.
    AfterControlPlaneInitialized,
    /// The control plane has finished one step of an upgrade.
    AfterControlPlaneUpgrade,
    /// The workers have finished one step of an upgrade.
    AfterWorkersUpgrade,
    /// The objects of a managed topology are about to be created.
    BeforeClusterCreate,
    /// A Cluster is being deleted; nothing it owns has been deleted yet.
    BeforeClusterDelete,
    /// An upgrade is about to start. Called once, however many steps the upgrade has.
    BeforeClusterUpgrade,
    /// The control plane is about to take the next step of an upgrade.
    BeforeControlPlaneUpgrade,
    /// The workers are about to take the next step of an upgrade.
    BeforeWorkersUpgrade,
    /// Which part of a change of one Machine can be made in place.
    CanUpdateMachine,
    /// Which part of a change of all Machines of a MachineSet can be made in place.
    CanUpdateMachineSet,
    /// Which variables an external patch defines.
    DiscoverVariables,
    /// Which handlers an extension has. The only hook that has no handler name in its path.
    Discovery,
    /// Take over the update of the Machines of one owner. Only with strategy `External`.
    ExternalUpdate,
    /// Patches for the templates of a topology.
    GeneratePatches,
    /// The versions an upgrade goes through.
    GenerateUpgradePlan,
    /// Change one Machine in place.
    UpdateMachine,
    /// Whether the patched templates of a topology are valid.
    ValidateTopology,
}

impl Hook {
    /// Every hook, in the order in which the Runtime SDK documents them.
    pub const ALL: [Self; 18] = [
        Self::Discovery,
        Self::BeforeClusterCreate,
        Self::AfterControlPlaneInitialized,
        Self::BeforeClusterUpgrade,
        Self::BeforeControlPlaneUpgrade,
        Self::AfterControlPlaneUpgrade,
        Self::BeforeWorkersUpgrade,
        Self::AfterWorkersUpgrade,
        Self::AfterClusterUpgrade,
        Self::BeforeClusterDelete,
        Self::GeneratePatches,
        Self::ValidateTopology,
        Self::DiscoverVariables,
        Self::GenerateUpgradePlan,
        Self::CanUpdateMachine,
        Self::CanUpdateMachineSet,
        Self::UpdateMachine,
        Self::ExternalUpdate,
    ];

    /// The name in CamelCase, as discovery and the pending-hooks annotation spell it.
    pub const fn name(self) -> &'static str {
        self.spellings().0
    }

    /// The name as it appears in paths.
    pub const fn path_segment(self) -> &'static str {
        self.spellings().1
    }

    const fn spellings(self) -> (&'static str, &'static str) {
        match self {
            Self::AfterClusterUpgrade => ("AfterClusterUpgrade", "afterclusterupgrade"),
            Self::AfterControlPlaneInitialized => {
                ("AfterControlPlaneInitialized", "aftercontrolplaneinitialized")
            }
            Self::AfterControlPlaneUpgrade => ("AfterControlPlaneUpgrade", "aftercontrolplaneupgrade"),
            Self::AfterWorkersUpgrade => ("AfterWorkersUpgrade", "afterworkersupgrade"),
            Self::BeforeClusterCreate => ("BeforeClusterCreate", "beforeclustercreate"),
            Self::BeforeClusterDelete => ("BeforeClusterDelete", "beforeclusterdelete"),
            Self::BeforeClusterUpgrade => ("BeforeClusterUpgrade", "beforeclusterupgrade"),
            Self::BeforeControlPlaneUpgrade => ("BeforeControlPlaneUpgrade", "beforecontrolplaneupgrade"),
            Self::BeforeWorkersUpgrade => ("BeforeWorkersUpgrade", "beforeworkersupgrade"),
            Self::CanUpdateMachine => ("CanUpdateMachine", "canupdatemachine"),
            Self::CanUpdateMachineSet => ("CanUpdateMachineSet", "canupdatemachineset"),
            Self::DiscoverVariables => ("DiscoverVariables", "discovervariables"),
            Self::Discovery => ("Discovery", "discovery"),
            Self::ExternalUpdate => ("ExternalUpdate", "externalupdate"),
            Self::GeneratePatches => ("GeneratePatches", "generatepatches"),
            Self::GenerateUpgradePlan => ("GenerateUpgradePlan", "generateupgradeplan"),
            Self::UpdateMachine => ("UpdateMachine", "updatemachine"),
            Self::ValidateTopology => ("ValidateTopology", "validatetopology"),
        }
    }

    /// The chapter of the documentation that the hook belongs to.
    pub const fn tag(self) -> HookTag {
        match self {
            Self::Discovery => HookTag::Discovery,
            Self::BeforeClusterCreate
            | Self::AfterControlPlaneInitialized
            | Self::BeforeClusterUpgrade
            | Self::BeforeControlPlaneUpgrade
            | Self::AfterControlPlaneUpgrade
            | Self::BeforeWorkersUpgrade
            | Self::AfterWorkersUpgrade
            | Self::AfterClusterUpgrade
            | Self::BeforeClusterDelete => HookTag::Lifecycle,
            Self::GeneratePatches | Self::ValidateTopology | Self::DiscoverVariables => {
                HookTag::TopologyMutation
            }
            Self::GenerateUpgradePlan => HookTag::ChainedUpgrade,
            Self::CanUpdateMachine
            | Self::CanUpdateMachineSet
            | Self::UpdateMachine
            | Self::ExternalUpdate => HookTag::InPlaceUpdate,
        }
    }

    /// Whether an extension has at most one handler of the hook, without a name. Only Discovery.
    pub const fn is_singleton(self) -> bool {
        matches!(self, Self::Discovery)
    }

    /// Whether the response has `retryAfterSeconds`, so that an extension can make the caller wait.
    pub const fn may_block(self) -> bool {
        match self.tag() {
            HookTag::Lifecycle => !matches!(self, Self::AfterControlPlaneInitialized),
            HookTag::InPlaceUpdate => matches!(self, Self::UpdateMachine | Self::ExternalUpdate),
            HookTag::Discovery | HookTag::TopologyMutation | HookTag::ChainedUpgrade => false,
        }
    }

    /// `kind` of the request.
    pub fn request_kind(self) -> String {
        format!("{}Request", self.name())
    }

    /// `kind` of the response.
    pub fn response_kind(self) -> String {
        format!("{}Response", self.name())
    }

    /// The hook regardless of its version, as it appears in errors and conditions: `<name>.<group>`.
    pub fn group_hook(self) -> String {
        format!("{}.{HOOKS_GROUP}", self.name())
    }

    /// Path below which the handlers of the hook are served; for a singleton, the path itself.
    pub fn base_path(self) -> String {
        format!("/{HOOKS_GROUP}/{HOOKS_VERSION}/{}", self.path_segment())
    }

    /// Path at which a handler of the hook is served. A singleton has no handler name in it.
    pub fn path(self, handler: &HandlerName) -> String {
        if self.is_singleton() { self.base_path() } else { format!("{}/{handler}", self.base_path()) }
    }

    /// Finds the hook and the handler that a path belongs to. Exact: a trailing slash, a doubled slash or
    /// an upper-case letter makes it another path, as it does for servers written in Go.
    pub fn from_path(path: &str) -> Option<(Self, Option<HandlerName>)> {
        let mut segments = path.strip_prefix('/')?.split('/');
        if (segments.next(), segments.next()) != (Some(HOOKS_GROUP), Some(HOOKS_VERSION)) {
            return None;
        }
        let segment = segments.next()?;
        let hook = Self::ALL.into_iter().find(|hook| hook.path_segment() == segment)?;
        match (hook.is_singleton(), segments.next(), segments.next()) {
            (true, None, _) => Some((hook, None)),
            (false, Some(handler), None) => Some((hook, Some(HandlerName::new(handler).ok()?))),
            _ => None,
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Hook {
    type Err = UnknownHook;

    fn from_str(name: &str) -> Result<Self, UnknownHook> {
        Self::ALL
            .into_iter()
            .find(|hook| hook.name() == name)
            .ok_or_else(|| UnknownHook { api_version: HOOKS_API_VERSION.to_owned(), hook: name.to_owned() })
    }
}

impl Serialize for Hook {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Hook {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A hook or a version of a hook that this crate does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown hook {hook:?} of {api_version:?}")]
pub struct UnknownHook {
    /// Group and version that were asked for.
    pub api_version: String,
    /// Name that was asked for.
    pub hook: String,
}

/// Chapters that hooks are grouped into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookTag {
    /// How extensions are found.
    Discovery,
    /// Called along the life of a Cluster.
    Lifecycle,
    /// External patches of a ClusterClass.
    TopologyMutation,
    /// Upgrade plans.
    ChainedUpgrade,
    /// Updates of Machines without replacement.
    InPlaceUpdate,
}

impl HookTag {
    /// The tag of OpenAPI operations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "Discovery",
            Self::Lifecycle => "Lifecycle Hooks",
            Self::TopologyMutation => "Topology Mutation Hook",
            Self::ChainedUpgrade => "Chained Upgrade Hook",
            Self::InPlaceUpdate => "In-Place Update Hooks",
        }
    }
}

impl fmt::Display for HookTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

crate::kind::resource_struct! {
    /// A hook as discovery names it.
    ///
    /// Holds names of hooks that this crate does not know, so that a registry can say which ones they were.
    #[derive(Eq, PartialOrd, Ord, Hash)]
    #[schemars(extend("required" = ["apiVersion", "hook"]))]
    pub struct GroupVersionHook {
        /// Group and version of the hook.
        #[serde(deserialize_with = "crate::kind::null_is_default")]
        #[schemars(length(min = 1, max = 512))]
        pub api_version: String,
        /// Name of the hook, in CamelCase.
        #[serde(deserialize_with = "crate::kind::null_is_default")]
        #[schemars(length(min = 1, max = 256))]
        pub hook: String,
    }
}

impl GroupVersionHook {
    /// The hook that is meant.
    ///
    /// # Errors
    ///
    /// When this crate knows no such hook in that group and version.
    pub fn resolve(&self) -> Result<Hook, UnknownHook> {
        let unknown = || UnknownHook { api_version: self.api_version.clone(), hook: self.hook.clone() };
        if self.api_version == HOOKS_API_VERSION { self.hook.parse() } else { Err(unknown()) }
    }

    /// Group and version, if `apiVersion` is made of both.
    pub fn group_version(&self) -> Option<(&str, &str)> {
        let (group, version) = api_version::split(&self.api_version);
        (!group.is_empty() && !version.is_empty() && !version.contains('/')).then_some((group, version))
    }
}

impl From<Hook> for GroupVersionHook {
    fn from(hook: Hook) -> Self {
        Self { api_version: HOOKS_API_VERSION.to_owned(), hook: hook.name().to_owned() }
    }
}

impl fmt::Display for GroupVersionHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.hook, self.api_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, path segment, tag, whether the response has `retryAfterSeconds`: the contract's own table, and the hook of
    /// strategy `External`.
    const CONTRACT: [(&str, &str, &str, bool); 18] = [
        ("Discovery", "discovery", "Discovery", false),
        ("BeforeClusterCreate", "beforeclustercreate", "Lifecycle Hooks", true),
        ("AfterControlPlaneInitialized", "aftercontrolplaneinitialized", "Lifecycle Hooks", false),
        ("BeforeClusterUpgrade", "beforeclusterupgrade", "Lifecycle Hooks", true),
        ("BeforeControlPlaneUpgrade", "beforecontrolplaneupgrade", "Lifecycle Hooks", true),
        ("AfterControlPlaneUpgrade", "aftercontrolplaneupgrade", "Lifecycle Hooks", true),
        ("BeforeWorkersUpgrade", "beforeworkersupgrade", "Lifecycle Hooks", true),
        ("AfterWorkersUpgrade", "afterworkersupgrade", "Lifecycle Hooks", true),
        ("AfterClusterUpgrade", "afterclusterupgrade", "Lifecycle Hooks", true),
        ("BeforeClusterDelete", "beforeclusterdelete", "Lifecycle Hooks", true),
        ("GeneratePatches", "generatepatches", "Topology Mutation Hook", false),
        ("ValidateTopology", "validatetopology", "Topology Mutation Hook", false),
        ("DiscoverVariables", "discovervariables", "Topology Mutation Hook", false),
        ("GenerateUpgradePlan", "generateupgradeplan", "Chained Upgrade Hook", false),
        ("CanUpdateMachine", "canupdatemachine", "In-Place Update Hooks", false),
        ("CanUpdateMachineSet", "canupdatemachineset", "In-Place Update Hooks", false),
        ("UpdateMachine", "updatemachine", "In-Place Update Hooks", true),
        ("ExternalUpdate", "externalupdate", "In-Place Update Hooks", true),
    ];

    #[test]
    fn hooks_are_those_of_the_contract_in_its_order() {
        let ours =
            Hook::ALL.map(|hook| (hook.name(), hook.path_segment(), hook.tag().as_str(), hook.may_block()));
        assert_eq!(ours, CONTRACT);
        assert!(Hook::ALL.iter().all(|hook| hook.is_singleton() == (*hook == Hook::Discovery)));
    }

    #[test]
    fn hooks_are_ordered_by_name() {
        let mut by_hook = Hook::ALL;
        by_hook.sort();
        let mut by_name = Hook::ALL.map(Hook::name);
        by_name.sort();
        assert_eq!(by_hook.map(Hook::name), by_name);
    }

    #[test]
    fn names_parse_exactly() {
        for hook in Hook::ALL {
            assert_eq!(hook.to_string().parse(), Ok(hook));
        }
        let error = "beforeClusterCreate".parse::<Hook>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown hook \"beforeClusterCreate\" of \"hooks.runtime.cluster.x-k8s.io/v1alpha1\""
        );
    }

    #[test]
    fn paths_lead_back_to_hook_and_handler() {
        let handler = HandlerName::new("gate-upgrade").unwrap();
        for hook in Hook::ALL {
            let expected = if hook.is_singleton() { None } else { Some(handler.clone()) };
            assert_eq!(Hook::from_path(&hook.path(&handler)), Some((hook, expected)));
        }
        assert_eq!(
            Hook::GeneratePatches.path(&handler),
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/generatepatches/gate-upgrade"
        );
        assert_eq!(Hook::Discovery.path(&handler), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery");
    }

    #[test]
    fn other_paths_belong_to_no_hook() {
        for path in [
            "",
            "/",
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1",
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery/",
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery/name",
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/Discovery",
            "/hooks.runtime.cluster.x-k8s.io/v1alpha2/discovery",
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine",
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/",
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/a/b",
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/a.b",
            "//hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery",
        ] {
            assert_eq!(Hook::from_path(path), None, "{path}");
        }
    }

    #[test]
    fn only_hooks_of_the_known_version_resolve() {
        for hook in Hook::ALL {
            assert_eq!(GroupVersionHook::from(hook).resolve(), Ok(hook));
        }
        for (api_version, hook) in [
            ("hooks.runtime.cluster.x-k8s.io/v1beta1", "Discovery"),
            ("runtime.cluster.x-k8s.io/v1alpha1", "Discovery"),
            ("", "Discovery"),
            ("hooks.runtime.cluster.x-k8s.io/v1alpha1", "AfterClusterDelete"),
        ] {
            let named = GroupVersionHook { api_version: api_version.to_owned(), hook: hook.to_owned() };
            let expected = UnknownHook { api_version: api_version.to_owned(), hook: hook.to_owned() };
            assert_eq!(named.resolve(), Err(expected));
        }
    }

    #[test]
    fn an_api_version_is_a_group_and_a_version() {
        for (api_version, expected) in [
            ("g.example/v1", Some(("g.example", "v1"))),
            ("v1", None),
            ("/v1", None),
            ("g/", None),
            ("a/b/c", None),
        ] {
            let named = GroupVersionHook { api_version: api_version.to_owned(), hook: String::new() };
            assert_eq!(named.group_version(), expected, "{api_version}");
        }
    }

    #[test]
    fn errors_name_hook_and_group() {
        assert_eq!(
            Hook::BeforeClusterCreate.group_hook(),
            "BeforeClusterCreate.hooks.runtime.cluster.x-k8s.io"
        );
    }
}
