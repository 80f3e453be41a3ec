//! KubeadmConfig: what a Machine, or the instances of a MachinePool, boot from.
//!
//! What is decided and rendered is in [`windlass_bootstrap`]; here it is read and written. Data are made once, in this order: what
//! they need is read, a token is made in the workload cluster, the KubeadmConfig says how the control plane is found, the Secret
//! is written, and the status last. A crash between two of these steps repeats the last one, and leaves at most a token that expires.

mod certificates;
mod data;
mod lock;
mod token;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{Cluster, Machine, MachinePool};
use windlass_api::names::{CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL};
use windlass_bootstrap::certificates::CertificateError;
use windlass_bootstrap::decision::{Decision, Observed, Role, Trouble, Waiting, decide};
use windlass_bootstrap::status::{Progress, status};
use windlass_bootstrap::token::{self as tokens, Joining};
use windlass_engine::pause::Pause;
use windlass_runtime::{
    Cache, Context, GroupKind, Incomplete, Manager, NoRandomness, ObjectKey, Outcome, Reconciler, WriteError,
};

use crate::external::{ExternalError, Externals};
use crate::pause;
use crate::status::{self as written, StatusError};
use crate::workload::WorkloadAccess;

/// Reconciles KubeadmConfigs.
pub struct KubeadmConfigs {
    configs: Cache<KubeadmConfig>,
    clusters: Cache<Cluster>,
    machines: Cache<Machine>,
    pools: Cache<MachinePool>,
    externals: Externals,
    access: Arc<dyn WorkloadAccess>,
    /// Clusters, by UID, whose init lock is known to be gone. Only speed depends on it.
    unlocked: Arc<Mutex<BTreeSet<String>>>,
}

/// Why a reconcile of a KubeadmConfig failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Its status cannot be written as a patch.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// An object does not say which one it is.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// A certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The control plane could not be read.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// There is no token without randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// The API did not answer as it should.
    #[error("cannot read {what}: {why}")]
    Read {
        /// What was read.
        what: String,
        /// What went wrong.
        why: String,
    },
    /// A Secret of the name that the data have is there, and belongs to something else.
    #[error("Secret {secret} is controlled by {owner}, and cannot hold the bootstrap data")]
    ForeignSecret {
        /// The Secret.
        secret: String,
        /// What controls it.
        owner: String,
    },
}

/// Why there are no data at the end of a reconcile.
enum NoData {
    Waits(Waiting),
    Troubled(Trouble),
    Failed(BootstrapError),
}

impl<E: Into<BootstrapError>> From<E> for NoData {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Whose bootstrap data it is.
struct Owner {
    cluster: String,
    version: String,
    role: Role,
    /// The Machine; nothing for a pool.
    machine: Option<String>,
    /// The Secret that it boots from.
    data_secret: Option<String>,
    joining: Joining,
}

/// What one reconcile is about.
struct Scope<'a> {
    config: &'a KubeadmConfig,
    owner: &'a Owner,
    cluster: &'a Cluster,
    context: &'a Context,
}

impl Scope<'_> {
    fn namespace(&self) -> String {
        ObjectKey::of(self.config).namespace
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace(), name)
    }

    fn cluster_key(&self) -> ObjectKey {
        self.key(&self.owner.cluster)
    }
}

/// What one reconcile came to.
struct Reached {
    progress: Progress,
    /// The KubeadmConfig, where this reconcile has changed its spec.
    config: Option<KubeadmConfig>,
    next: Outcome,
}

impl KubeadmConfigs {
    /// Adds the KubeadmConfig controller to a manager.
    pub fn register(manager: &Manager, externals: Externals, access: Arc<dyn WorkloadAccess>) {
        let configs: Cache<KubeadmConfig> = manager.cache();
        let (clusters, machines): (Cache<Cluster>, Cache<Machine>) = (manager.cache(), manager.cache());
        let pools: Cache<MachinePool> = manager.cache();
        let unlocked = Arc::<Mutex<BTreeSet<String>>>::default();
        let gone = Arc::clone(&unlocked);
        clusters.on_gone(move |cluster: &Cluster| {
            if let Some(uid) = &cluster.metadata.uid {
                lock::known(&gone).remove(uid);
            }
        });
        let by_cluster = configs.clone();
        let reconciler = Self {
            configs: configs.clone(),
            clusters: clusters.clone(),
            machines: machines.clone(),
            pools: pools.clone(),
            externals,
            access,
            unlocked,
        };
        manager
            .controller("kubeadmconfig", &configs)
            .concurrency(50)
            .watches_changes(&machines, of_machine)
            .watches_changes(&pools, of_pool)
            .watches_changes(&clusters, move |before, after| of_cluster(&by_cluster, before, after))
            .register(reconciler);
    }

    fn owner(&self, config: &KubeadmConfig) -> Option<Owner> {
        let machines = GroupKind::of::<Machine>(&()).owners_of(config);
        if let Some(machine) = machines.iter().find_map(|key| self.machines.get(key)) {
            let is_control_plane = machine.labels().contains_key(CONTROL_PLANE_LABEL);
            return Some(Owner {
                cluster: machine.spec.cluster_name.clone(),
                version: machine.spec.version.clone(),
                role: if is_control_plane { Role::ControlPlane } else { Role::Worker },
                machine: Some(machine.name_any()),
                data_secret: machine.spec.bootstrap.data_secret_name.clone(),
                joining: match &machine.status.node_ref {
                    Some(_) => Joining::JoinedMachine,
                    None => Joining::Machine,
                },
            });
        }
        let pools = GroupKind::of::<MachinePool>(&()).owners_of(config);
        let pool = pools.iter().find_map(|key| self.pools.get(key))?;
        let template = &pool.spec.template.spec;
        let replicas = usize::try_from(pool.spec.replicas.unwrap_or(1)).unwrap_or_default();
        Some(Owner {
            cluster: pool.spec.cluster_name.clone(),
            version: template.version.clone(),
            role: Role::Worker,
            machine: None,
            data_secret: template.bootstrap.data_secret_name.clone(),
            joining: match pool.status.node_refs.len() == replicas {
                true => Joining::JoinedPool,
                false => Joining::Pool,
            },
        })
    }
}

impl Reconciler for KubeadmConfigs {
    type Error = BootstrapError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, BootstrapError> {
        let Some(config) = self.configs.get(key) else { return Ok(Outcome::done()) };
        let config = config.as_ref();
        if config.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::done());
        }
        // Its owner claims it, and the Cluster comes: both are events.
        let Some(owner) = self.owner(config) else { return Ok(Outcome::done()) };
        let Some(cluster) = self.clusters.get(&ObjectKey::new(&key.namespace, &owner.cluster)) else {
            return Ok(Outcome::done());
        };
        if let Some(pause) = Pause::of(&config.metadata, Some(&cluster)) {
            return Ok(pause::say(context, config, &config.status.conditions, pause).await?);
        }
        let scope = Scope { config, owner: &owner, cluster: &cluster, context };
        let reached = self.reach(&scope).await?;
        let config = reached.config.as_ref().unwrap_or(config);
        let after = status(&config.status, config.metadata.generation, &reached.progress, context.now());
        let writer = context.writer::<KubeadmConfig>();
        written::write::<_, _, BootstrapError>(&writer, config, &config.status, &after).await?;
        Ok(reached.next)
    }
}

impl KubeadmConfigs {
    async fn reach(&self, scope: &Scope<'_>) -> Result<Reached, BootstrapError> {
        let initialization = &scope.cluster.status.initialization;
        let observed = Observed {
            role: scope.owner.role,
            infrastructure_provisioned: initialization.infrastructure_provisioned == Some(true),
            control_plane_initialized: initialization.control_plane_initialized == Some(true),
            data_secret_created: scope.config.status.initialization.data_secret_created == Some(true),
            secret_of_owner: scope.owner.data_secret.clone().filter(|secret| !secret.is_empty()),
        };
        let mut changed = None;
        let made = match decide(&observed) {
            Decision::Wait(waiting) => Err(NoData::Waits(waiting)),
            Decision::Remember { secret } => Ok((secret, Outcome::done())),
            Decision::LookAfterToken => self.look_after_token(scope, &mut changed).await,
            Decision::Initialize => self.initialize(scope).await.map(|secret| (secret, Outcome::done())),
            Decision::Join(role) => {
                let joined = self.join(scope, role, None, &mut changed).await;
                joined.map(|secret| (secret, Outcome::routinely(upkeep_interval())))
            }
        };
        let retry = |after: Option<Duration>| after.map_or_else(Outcome::done, Outcome::after);
        let (progress, next) = match made {
            Ok((secret, next)) => (Progress::Made { secret }, next),
            Err(NoData::Failed(error)) => return Err(error),
            Err(NoData::Waits(waiting)) => {
                let next = retry(waiting.retry_after());
                (Progress::Waits(waiting), next)
            }
            Err(NoData::Troubled(trouble)) => {
                let next = retry(trouble.retry_after());
                (Progress::Troubled(trouble), next)
            }
        };
        Ok(Reached { progress, config: changed, next })
    }
}

/// How often a token that is needed is looked after.
fn upkeep_interval() -> Duration {
    Duration::try_from(tokens::DEFAULT_TTL / 3).unwrap_or_default()
}

/// The KubeadmConfig of a Machine, when it may have been waiting for the Machine.
fn of_machine(before: Option<&Machine>, after: Option<&Machine>) -> Vec<ObjectKey> {
    let Some(machine) = after.filter(|_| before.is_none()) else { return Vec::new() };
    let config =
        machine.spec.bootstrap.config_ref.as_ref().filter(|config| config.kind == KubeadmConfig::KIND);
    let namespace = ObjectKey::of(machine).namespace;
    config.map(|config| ObjectKey::new(namespace, &config.name)).into_iter().collect()
}

/// The KubeadmConfig of a MachinePool, when the pool comes, or grows: instances that come later need a token that is good.
fn of_pool(before: Option<&MachinePool>, after: Option<&MachinePool>) -> Vec<ObjectKey> {
    let Some(pool) = after else { return Vec::new() };
    if before.is_some_and(|before| before.spec.replicas == pool.spec.replicas) {
        return Vec::new();
    }
    let config = pool.spec.template.spec.bootstrap.config_ref.as_ref();
    let config = config.filter(|config| config.kind == KubeadmConfig::KIND);
    let namespace = ObjectKey::of(pool).namespace;
    config.map(|config| ObjectKey::new(namespace, &config.name)).into_iter().collect()
}

/// The KubeadmConfigs of a Cluster, when something changed in it that they wait for.
fn of_cluster(
    configs: &Cache<KubeadmConfig>,
    before: Option<&Cluster>,
    after: Option<&Cluster>,
) -> Vec<ObjectKey> {
    let Some(cluster) = after else { return Vec::new() };
    let relevant = |cluster: &Cluster| {
        let spec = &cluster.spec;
        (cluster.status.initialization, spec.paused, spec.control_plane_endpoint.clone())
    };
    if before.map(relevant) == Some(relevant(cluster)) {
        return Vec::new();
    }
    let labels = BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), cluster.name_any())]);
    let found = configs.labelled(&ObjectKey::of(cluster).namespace, &labels);
    found.iter().map(|config| ObjectKey::of(config.as_ref())).collect()
}
