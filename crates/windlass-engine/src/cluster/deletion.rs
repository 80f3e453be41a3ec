//! How a Cluster goes: workers, then the control plane, then the infrastructure, then the Cluster itself.
//!
//! Each is gone before the next is touched: workers drain while there is an API server to ask, and a control plane
//! leaves etcd while there are machines. Only what the Cluster owns is deleted; what merely carries its name is waited
//! for, because its owner deletes it.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachinePool, MachineSet};
use windlass_api::conditions::reason;
use windlass_api::identity::{Incomplete, uid_of};
use windlass_api::names::OK_TO_DELETE_ANNOTATION;

use super::Descendants;
use crate::referenced::{Leaving, MayBeGone, Referenced};

/// What stands between a Cluster and its end. The first thing that applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The BeforeClusterDelete hook has not passed.
    Hook,
    /// These workers have to go.
    Workers(Vec<Descendant>),
    /// These Machines have to go: there is no control plane that would look after them.
    ControlPlaneMachines(Vec<Descendant>),
    /// The control plane has to go.
    ControlPlane(Leaving),
    /// The infrastructure has to go.
    Infrastructure(Leaving),
    /// Something could not be read, so it is unknown whether it is gone.
    Unknown(MayBeGone),
    /// Nothing.
    Release,
}

/// Something that belongs to a Cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Descendant {
    /// Which kind it is of: kinds go one after the other.
    pub kind: DescendantKind,
    /// Its name, for the message that says what is left.
    pub name: String,
    /// Whether the Cluster is to delete it: it owns it, and it is not being deleted.
    pub delete: bool,
}

/// Kinds of what belongs to a Cluster, in the order in which they are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DescendantKind {
    /// A MachineDeployment.
    MachineDeployment,
    /// A MachineSet.
    MachineSet,
    /// A MachinePool.
    MachinePool,
    /// A Machine.
    Machine,
}

impl DescendantKind {
    /// The kind, as manifests name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MachineDeployment => MachineDeployment::KIND,
            Self::MachineSet => MachineSet::KIND,
            Self::MachinePool => MachinePool::KIND,
            Self::Machine => Machine::KIND,
        }
    }
}

/// Whether a hook is asked before anything is deleted. Only Clusters with a topology have hooks, and only where
/// extensions are called.
pub fn awaits_hook(cluster: &Cluster, extensions: bool) -> bool {
    let passed = cluster
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key(OK_TO_DELETE_ANNOTATION));
    extensions && cluster.spec.topology.is_some() && !passed
}

/// What comes next in the deletion of a Cluster.
///
/// # Errors
///
/// The Cluster has no UID: then it is unknown what it owns.
pub fn next<I, C>(
    cluster: &Cluster,
    descendants: &Descendants<'_>,
    control_plane: &Referenced<C>,
    infrastructure: &Referenced<I>,
    awaits_hook: bool,
) -> Result<Deletion, Incomplete> {
    if awaits_hook {
        return Ok(Deletion::Hook);
    }
    let uid = uid_of(cluster)?;
    let mut workers: Vec<Descendant> = Vec::new();
    workers.extend(of(
        DescendantKind::MachineDeployment,
        descendants.machine_deployments.iter().copied(),
        uid,
    ));
    workers.extend(of(DescendantKind::MachineSet, descendants.machine_sets.iter().copied(), uid));
    workers.extend(of(DescendantKind::MachinePool, descendants.machine_pools.iter().copied(), uid));
    workers.extend(of(DescendantKind::Machine, descendants.worker_machines(), uid));
    if !workers.is_empty() {
        return Ok(Deletion::Workers(workers));
    }
    if let Some(leaving) = control_plane.leaving() {
        return Ok(leaving.map_or_else(Deletion::Unknown, Deletion::ControlPlane));
    }
    let machines: Vec<Descendant> =
        of(DescendantKind::Machine, descendants.control_plane_machines(), uid).collect();
    if !machines.is_empty() {
        return Ok(Deletion::ControlPlaneMachines(machines));
    }
    Ok(match infrastructure.leaving() {
        Some(leaving) => leaving.map_or_else(Deletion::Unknown, Deletion::Infrastructure),
        None => Deletion::Release,
    })
}

fn of<'a, K: Resource + 'a>(
    kind: DescendantKind,
    objects: impl Iterator<Item = &'a K>,
    owner: &str,
) -> impl Iterator<Item = Descendant> {
    objects.map(move |object| {
        let metadata = object.meta();
        let owned = metadata.owner_references.iter().flatten().any(|reference| reference.uid == owner);
        Descendant { kind, name: name(metadata), delete: owned && metadata.deletion_timestamp.is_none() }
    })
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

impl Deletion {
    /// The reason of condition `Deleting`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Hook => reason::WAITING_FOR_BEFORE_DELETE_HOOK,
            Self::Workers(_) => reason::WAITING_FOR_WORKERS_DELETION,
            Self::ControlPlane(_) | Self::ControlPlaneMachines(_) => {
                reason::WAITING_FOR_CONTROL_PLANE_DELETION
            }
            Self::Infrastructure(_) => reason::WAITING_FOR_INFRASTRUCTURE_DELETION,
            Self::Unknown(_) => reason::INTERNAL_ERROR,
            Self::Release => reason::DELETION_COMPLETED,
        }
    }
}

/// How many names a line has: enough to start looking.
const NAMES: usize = 3;

impl fmt::Display for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hook => f.write_str("Waiting for the BeforeClusterDelete hook to pass"),
            Self::Workers(descendants) | Self::ControlPlaneMachines(descendants) => {
                let mut kinds: Vec<DescendantKind> =
                    descendants.iter().map(|descendant| descendant.kind).collect();
                kinds.sort_unstable();
                kinds.dedup();
                for (index, kind) in kinds.into_iter().enumerate() {
                    let names: Vec<&str> = descendants
                        .iter()
                        .filter(|descendant| descendant.kind == kind)
                        .map(|descendant| descendant.name.as_str())
                        .collect();
                    let more = names.len().saturating_sub(NAMES);
                    let plural = if names.len() == 1 { "" } else { "s" };
                    let separator = if index == 0 { "" } else { "\n" };
                    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
                    write!(f, "{separator}* {}{plural}: {shown}", kind.as_str())?;
                    if more > 0 {
                        write!(f, " and {more} more")?;
                    }
                }
                Ok(())
            }
            Self::ControlPlane(leaving) | Self::Infrastructure(leaving) => leaving.fmt(f),
            Self::Unknown(unread) => unread.fmt(f),
            Self::Release => Ok(()),
        }
    }
}
