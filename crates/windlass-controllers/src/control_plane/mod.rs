//! KubeadmControlPlane: Machines of a control plane, one change at a time.
//!
//! A reconcile reads the objects and asks the workload cluster how it is, decides with
//! [`windlass_engine::control_plane`], does the one thing that was decided, and reports. A Machine is written before its
//! KubeadmConfig and its infrastructure: what is missing after a crash is then seen, and made, from the Machine alone.

mod act;
mod ask;
mod certificates;
mod etcd;
mod external_update;
mod health;
mod in_place;
mod parts;
mod report;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::json;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{Cluster, Machine, MachinePool};
use windlass_api::conditions::ROLLING_OUT;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    CLUSTER_GROUP, CLUSTER_NAME_LABEL, CONTROL_PLANE_GROUP, KUBEADM_CONTROL_PLANE_FINALIZER,
};
use windlass_api::object::ObjectError;
use windlass_engine::condition;
use windlass_engine::control_plane::observe::{Inputs, MachineInputs, observe};
use windlass_engine::control_plane::{Action, Decision, Observed, Step};
use windlass_engine::in_place::WhyNotInPlace;
use windlass_engine::in_place::{CAN_UPDATE_IN_PLACE, Said};
use windlass_engine::machine_set::NamingError;
use windlass_engine::pause::Pause;
use windlass_runtime::{
    Cache, Context, EventType, GroupKind, Incomplete, Manager, ObjectKey, Outcome, Reconciler, WriteError,
    uid_of,
};

use crate::certificates::CertificateError;
use crate::external::{ExternalError, Externals};
use crate::in_place::InPlaceExtensions;
use crate::pause;
use crate::status::StatusError;
use crate::workload::{NoAnswer, WorkloadAccess};
pub use etcd::EtcdTrouble;
use health::Inspection;

/// How soon the workload cluster is asked again while something of it is not healthy. There is no event when a pod of it
/// becomes ready.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How often a healthy workload cluster is asked.
const LOOK_NOW_AND_THEN: Duration = Duration::from_secs(60);

/// How much time is between two looks at one control plane. Its Machines change many times a second while they come up,
/// and each look asks the workload cluster.
const PACE: Duration = Duration::from_secs(1);

/// Why a reconcile of a control plane failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Something of a provider could not be read.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// Its status cannot be written as a patch.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// An object does not say which one it is.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// An object cannot be sent to an extension.
    #[error("an object for an extension: {0}")]
    Object(#[from] ObjectError),
    /// A certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The API did not answer as it should.
    #[error("cannot read {what}: {why}")]
    Read {
        /// What was read.
        what: String,
        /// What went wrong.
        why: String,
    },
    /// The infrastructure template is missing.
    #[error("there is no {0}, which Machines are made from")]
    NoTemplate(String),
    /// The template of names cannot be used.
    #[error("spec.machineNaming.template: {0}")]
    Naming(#[from] NamingError),
    /// The template of names gives a name that exists.
    #[error("spec.machineNaming.template gives the name {0}, which a Machine has already")]
    NameTaken(String),
    /// The workload cluster did not do what it was asked.
    #[error("workload cluster: {0}")]
    Workload(#[from] NoAnswer),
    /// etcd did not do what was to be done about a member.
    #[error("etcd member {member}: {why}")]
    EtcdMember {
        /// The member.
        member: String,
        /// Why not.
        why: EtcdTrouble,
    },
}

/// Reconciles KubeadmControlPlanes.
pub struct ControlPlaneReconciler {
    control_planes: Cache<KubeadmControlPlane>,
    clusters: Cache<Cluster>,
    machines: Cache<Machine>,
    configs: Cache<KubeadmConfig>,
    pools: Cache<MachinePool>,
    externals: Externals,
    workload: Arc<dyn WorkloadAccess>,
    in_place: InPlaceExtensions,
    /// When the Secrets of a cluster were last seen complete, by control plane. Only speed depends on it.
    certified: Mutex<BTreeMap<String, Timestamp>>,
    /// The version that a workload cluster was last seen maintained for, by control plane. Only speed depends on it.
    maintained: Mutex<BTreeMap<String, String>>,
}

impl ControlPlaneReconciler {
    /// Registers the controller.
    pub fn register(
        manager: &Manager,
        externals: Externals,
        workload: Arc<dyn WorkloadAccess>,
        in_place: InPlaceExtensions,
    ) {
        let control_planes: Cache<KubeadmControlPlane> = manager.cache();
        let (clusters, machines): (Cache<Cluster>, Cache<Machine>) = (manager.cache(), manager.cache());
        let reconciler = Self {
            control_planes: control_planes.clone(),
            clusters: clusters.clone(),
            machines: machines.clone(),
            configs: manager.cache(),
            pools: manager.cache(),
            externals,
            workload,
            in_place: in_place.clone(),
            certified: Mutex::default(),
            maintained: Mutex::default(),
        };
        let mut registered = manager.controller("kubeadmcontrolplane", &control_planes);
        if let Some(configs) = in_place.configs() {
            // An extension that was registered or changed may cover what no extension covered before.
            let of_extensions = control_planes.clone();
            registered = registered.watches(&configs, move |_| {
                let waiting = of_extensions.list().into_iter().filter(|kcp| waits_for_extensions(kcp));
                waiting.map(|kcp| ObjectKey::of(kcp.as_ref())).collect()
            });
        }
        registered
            .pace(PACE)
            .owns(&machines)
            .watches(&clusters, control_plane_of)
            .watches(&reconciler.configs, |config| {
                GroupKind::new(CONTROL_PLANE_GROUP, KubeadmControlPlane::KIND).owners_of(config)
            })
            .register(reconciler);
    }

    fn cluster_of(&self, control_plane: &KubeadmControlPlane) -> Option<Arc<Cluster>> {
        let owner = GroupKind::new(CLUSTER_GROUP, Cluster::KIND).owners_of(control_plane).into_iter().next();
        let labelled = || {
            let name = control_plane.labels().get(CLUSTER_NAME_LABEL)?;
            Some(ObjectKey::new(ObjectKey::of(control_plane).namespace, name))
        };
        self.clusters.get(&owner.or_else(labelled)?)
    }

    /// A control plane that is deleted after its Cluster, and has no Machines, has nothing left to wait for.
    async fn finish_orphan(
        &self,
        control_plane: &KubeadmControlPlane,
        context: &Context,
    ) -> Result<(), ControlPlaneError> {
        if control_plane.meta().deletion_timestamp.is_some() && self.machines_of(control_plane)?.is_empty() {
            act::remove_finalizer(control_plane, context).await?;
            self.forget(control_plane)?;
        }
        Ok(())
    }

    /// The Machines that this control plane controls, oldest first.
    fn machines_of(&self, control_plane: &KubeadmControlPlane) -> Result<Vec<Arc<Machine>>, Incomplete> {
        let uid = uid_of(control_plane)?;
        let mut machines = self.machines.owned_by(uid);
        machines.retain(|machine| {
            machine.owner_references().iter().any(|owner| owner.uid == uid && owner.controller == Some(true))
        });
        machines.sort_by_key(|machine| (machine.creation_timestamp().map(|time| time.0), machine.name_any()));
        Ok(machines)
    }

    /// Everything else of the Cluster that is or has Machines.
    fn workers_of(
        &self,
        control_plane: &KubeadmControlPlane,
        cluster: &str,
    ) -> Result<Vec<String>, Incomplete> {
        let namespace = ObjectKey::of(control_plane).namespace;
        let uid = uid_of(control_plane)?;
        let labels = BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned())]);
        let machines = self.machines.labelled(&namespace, &labels);
        let others = machines
            .iter()
            .filter(|machine| machine.owner_references().iter().all(|owner| owner.uid != uid))
            .map(|machine| machine.name_any());
        let pools = self.pools.labelled(&namespace, &labels);
        Ok(others.chain(pools.iter().map(|pool| pool.name_any())).collect())
    }
}

impl Reconciler for ControlPlaneReconciler {
    type Error = ControlPlaneError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, ControlPlaneError> {
        let Some(control_plane) = self.control_planes.get(key) else { return Ok(Outcome::done()) };
        let cluster = self.cluster_of(&control_plane);
        if let Some(pause) = Pause::of(&control_plane.metadata, cluster.as_deref()) {
            let conditions = &control_plane.status.conditions;
            return Ok(pause::say(context, control_plane.as_ref(), conditions, pause).await?);
        }
        // Its Cluster becomes its owner, which is an event.
        let Some(cluster) = cluster else {
            self.finish_orphan(&control_plane, context).await?;
            return Ok(Outcome::done());
        };
        let deleting = control_plane.meta().deletion_timestamp.is_some();
        if !deleting && !control_plane.finalizers().iter().any(|f| f == KUBEADM_CONTROL_PLANE_FINALIZER) {
            let mut finalizers = control_plane.finalizers().to_vec();
            finalizers.push(KUBEADM_CONTROL_PLANE_FINALIZER.to_owned());
            let patch = json!({"metadata": {"finalizers": finalizers}});
            context.writer::<KubeadmControlPlane>().patch(&control_plane, patch).await?;
            return Ok(Outcome::done());
        }
        let scope = Scope { control_plane: &control_plane, cluster: &cluster, context };
        self.reconcile_active(&scope).await
    }
}

/// What one reconcile is about.
struct Scope<'a> {
    control_plane: &'a KubeadmControlPlane,
    cluster: &'a Cluster,
    context: &'a Context,
}

impl Scope<'_> {
    fn namespace(&self) -> String {
        ObjectKey::of(self.control_plane).namespace
    }

    fn cluster_name(&self) -> String {
        self.cluster.name_any()
    }

    fn is_deleting(&self) -> bool {
        self.control_plane.meta().deletion_timestamp.is_some()
    }
}

impl ControlPlaneReconciler {
    async fn reconcile_active(&self, scope: &Scope<'_>) -> Result<Outcome, ControlPlaneError> {
        let machines = self.machines_of(scope.control_plane)?;
        let certificates_available = self.reconcile_certificates(scope).await?;
        let mut problem = None;
        if !scope.is_deleting()
            && let Err(error) = self.complete_and_sync(scope, &machines).await
        {
            // A Machine whose parts cannot be made is no reason not to look after the others.
            problem = Some(error);
        }
        let inspection = self.inspect(scope, &machines).await;
        let mut observed = self.observe(scope, &machines, &inspection, certificates_available).await?;
        let decided = self.decide(scope, &machines, &mut observed).await?;
        let decision = &decided.decision;
        // What is going to happen is told before it happens.
        let told = decided.said.is_told(&scope.control_plane.status.conditions);
        if let (Said::Now(finding), false) = (&decided.said, told) {
            let message = finding.message.clone();
            scope.context.event(scope.control_plane, EventType::Normal, CAN_UPDATE_IN_PLACE, message);
        }
        // A workload cluster that cannot be maintained is not upgraded either.
        let acted = match self.maintain_workload(scope, &observed, decision).await {
            Ok(()) if !told => Ok(()),
            Ok(()) => self.act(scope, &machines, &observed, &decided).await,
            Err(error) => Err(error),
        };
        let finished = matches!(decision.step, Step::Act(Action::Finish)) && acted.is_ok();
        if !finished {
            report::machines(scope, &machines, &observed, decision, &inspection).await?;
            report::control_plane(scope, &machines, &observed, &decided).await?;
        }
        acted?;
        match problem {
            Some(error) => Err(error),
            None if !told => Ok(Outcome::after(PACE)),
            None => {
                let now = scope.context.now();
                Ok(next_look(&observed, decision, now).or(again(decided.again, now)))
            }
        }
    }

    async fn observe(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        inspection: &Inspection,
        certificates_available: bool,
    ) -> Result<Observed, ControlPlaneError> {
        let mut inputs = Vec::with_capacity(machines.len());
        for machine in machines {
            inputs.push(MachineInputs {
                machine,
                kubeadm_config: self.kubeadm_config_of(machine),
                template: self.template_of(scope, machine).await?,
                components: inspection.components(&machine.name_any()),
                in_place: Err(WhyNotInPlace::NotAsked),
            });
        }
        let known = scope.control_plane.status.initialization.control_plane_initialized == Some(true);
        let workers = if scope.is_deleting() {
            self.workers_of(scope.control_plane, &scope.cluster_name())?
        } else {
            Vec::new()
        };
        let inputs = Inputs {
            control_plane: scope.control_plane,
            cluster: scope.cluster,
            machines: inputs,
            certificates_available,
            initialized: known || inspection.initialized,
            etcd_members: inspection.members.clone(),
            workers,
        };
        Ok(observe(inputs, scope.context.now()))
    }

    fn kubeadm_config_of(&self, machine: &Machine) -> Option<serde_json::Value> {
        let name = &machine.spec.bootstrap.config_ref.as_ref()?.name;
        let config = self.configs.get(&ObjectKey::new(machine.namespace()?, name))?;
        serde_json::to_value(&config.spec).ok()
    }

    fn is_maintained(&self, scope: &Scope<'_>, version: &str) -> bool {
        let maintained = self.maintained.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = scope.control_plane.metadata.uid.as_ref();
        uid.and_then(|uid| maintained.get(uid)).is_some_and(|known| known == version)
    }

    fn note_maintained(&self, scope: &Scope<'_>, version: &str) -> Result<(), Incomplete> {
        let uid = uid_of(scope.control_plane)?.to_owned();
        self.maintained.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, version.to_owned());
        Ok(())
    }

    /// Forgets what was remembered of a control plane that is gone.
    fn forget(&self, control_plane: &KubeadmControlPlane) -> Result<(), Incomplete> {
        let uid = uid_of(control_plane)?;
        self.certified.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.maintained.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        Ok(())
    }
}

/// When an external updater wants to be asked again.
fn again(at: Option<Timestamp>, now: Timestamp) -> Outcome {
    let until = Outcome::at(at, now).wait();
    until.map_or_else(Outcome::done, |until| Outcome::after(until.max(PACE)))
}

/// When to look again: when what is waited for says so, and at the workload cluster from time to time.
fn next_look(observed: &Observed, decision: &Decision, now: Timestamp) -> Outcome {
    use windlass_engine::control_plane::{Component, Health};
    let waiting = match &decision.step {
        Step::Wait(waiting) => waiting.retry_after(now).map_or_else(Outcome::done, Outcome::after),
        Step::Act(_) | Step::Settled => Outcome::done(),
    };
    let sound = |machine: &windlass_engine::control_plane::ObservedMachine| {
        Component::of(&observed.etcd).all(|component| machine.health(component) == Health::Healthy)
    };
    let nodes = || observed.machines.iter().filter(|machine| machine.node.is_some());
    let workload = if observed.machines.is_empty() {
        Outcome::done()
    } else if observed.initialized && nodes().all(sound) {
        Outcome::after(LOOK_NOW_AND_THEN)
    } else {
        Outcome::after(LOOK_AGAIN)
    };
    waiting.or(workload)
}

/// Whether what extensions say matters to a control plane now.
fn waits_for_extensions(control_plane: &KubeadmControlPlane) -> bool {
    let conditions = &control_plane.status.conditions;
    condition::find(conditions, CAN_UPDATE_IN_PLACE).is_some() || condition::is_true(conditions, ROLLING_OUT)
}

fn control_plane_of(cluster: &Cluster) -> Vec<ObjectKey> {
    let reference = cluster.spec.control_plane_ref.as_ref();
    let ours = reference.filter(|reference| {
        reference.api_group == CONTROL_PLANE_GROUP && reference.kind == KubeadmControlPlane::KIND
    });
    let namespace = ObjectKey::of(cluster).namespace;
    ours.map(|reference| ObjectKey::new(namespace, &reference.name)).into_iter().collect()
}
