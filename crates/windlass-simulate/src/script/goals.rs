//! Whether what a story waits for is true.

use std::fmt;

use kube::api::{ApiResource, DynamicObject};
use windlass_api::api_version;
use windlass_api::cluster::{Cluster, Machine, MachinePool};
use windlass_api::names::{CLUSTER_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL};
use windlass_runtime::ObjectKey;
use windlass_version::Version;

use kube::ResourceExt as _;

use super::statement::{Goal, Group, ObjectKind, ObjectName, Part};
use super::view::{is_available, is_of};
use crate::upgrade::is_at;
use crate::world::{World, key};

impl ObjectKind {
    /// What requests need to know of it.
    pub(super) fn resource(&self) -> ApiResource {
        ApiResource::from_gvk(&api_version::kind(self.api_version, self.kind))
    }
}

impl ObjectName {
    /// By what the store finds the object.
    pub(super) fn key(&self) -> ObjectKey {
        if self.kind.is_namespaced { key(&self.name) } else { ObjectKey::new("", &self.name) }
    }

    /// The object, if there is one.
    pub(super) fn find(&self, world: &World) -> Option<DynamicObject> {
        world.get_of(&self.kind.resource(), &self.key())
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.name)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group {
            None => f.write_str(&self.cluster),
            Some(Group::ControlPlane) => write!(f, "{}/control-plane", self.cluster),
            Some(Group::Workers(group)) => write!(f, "{}/{group}", self.cluster),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsAt { part, version } => write!(f, "{part} is at {version}"),
            Self::Machines { count, part, version } => write!(f, "{count} machines of {part} at {version}"),
            Self::AllMachines { version } => write!(f, "all machines are at {version}"),
            Self::Condition { object, condition, status, says } => {
                write!(f, "{object}: {condition}")?;
                status.iter().try_for_each(|status| write!(f, " is {status}"))?;
                says.iter().try_for_each(|says| write!(f, " says {says:?}"))
            }
            Self::Gone(object) => write!(f, "{object} is gone"),
            Self::HookCalled { hook, times: 1 } => write!(f, "hook {hook} is called"),
            Self::HookCalled { hook, times } => write!(f, "hook {hook} is called {times} times"),
            Self::Idle => f.write_str("nothing is left to do"),
        }
    }
}

/// Whether a goal is reached. Calls of hooks are counted by the caller.
pub(super) fn is_reached(goal: &Goal, world: &World) -> bool {
    let at = |part: &Part, text: &str| match (&part.group, Version::parse(text)) {
        (None, Ok(version)) => is_at(world, &key(&part.cluster), &version),
        _ => part_is_at(world, part, text),
    };
    match goal {
        Goal::IsAt { part, version } => at(part, version),
        Goal::Machines { count, part, version } => {
            let machines = world.list::<Machine>();
            let with_version = machines.iter().filter(|machine| {
                is_of(machine, Some(part))
                    && machine.spec.version == *version
                    && machine.metadata.deletion_timestamp.is_none()
            });
            with_version.count() >= *count
        }
        Goal::AllMachines { version } => {
            let clusters = world.list::<Cluster>();
            !clusters.is_empty()
                && clusters
                    .iter()
                    .all(|cluster| at(&Part { cluster: cluster.name_any(), group: None }, version))
        }
        Goal::Condition { object, condition, status, says } => object.find(world).is_some_and(|found| {
            let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().filter(|found| found["type"] == condition.as_str()).any(|found| {
                let said = format!("{}: {}", found["reason"], found["message"].as_str().unwrap_or_default());
                status.as_ref().is_none_or(|status| found["status"] == status.as_str())
                    && says.as_ref().is_none_or(|says| said.contains(says.as_str()))
            })
        }),
        Goal::Gone(object) => object.find(world).is_none(),
        Goal::HookCalled { .. } | Goal::Idle => false,
    }
}

/// Whether all machines of a group have a version and are available.
fn part_is_at(world: &World, part: &Part, version: &str) -> bool {
    if let Some(Group::Workers(name)) = &part.group
        && let Some(pool) = world.list::<MachinePool>().into_iter().find(|pool| {
            pool.labels().get(TOPOLOGY_POOL_NAME_LABEL) == Some(name)
                && pool.labels().get(CLUSTER_NAME_LABEL) == Some(&part.cluster)
        })
    {
        return pool.status.ready_replicas == pool.replicas()
            && !pool.status.versions.is_empty()
            && pool.status.versions.iter().all(|running| running.version == version);
    }
    let machines = world.list::<Machine>();
    let mut mine = machines.iter().filter(|machine| is_of(machine, Some(part))).peekable();
    mine.peek().is_some() && mine.all(|machine| machine.spec.version == version && is_available(machine))
}
