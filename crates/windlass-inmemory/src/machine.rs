//! DevMachine: a machine that takes its time to start, and becomes a Node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Machine, MachineAddress, MachineAddressType};
use windlass_api::infrastructure::{
    DevInitializationStatus, DevMachine, DevMachineStatus, InMemoryMachineBackendSpec,
};
use windlass_api::names::CONTROL_PLANE_LABEL;
use windlass_engine::condition::{self, Finding, Part as Summand, Reasons};
use windlass_engine::machine_set::is_updating;
use windlass_engine::pause::Pause;
use windlass_runtime::{Context, GroupKind, Manager, ObjectKey, Outcome, Reconciler};

use crate::durations::{Durations, group_of};
use crate::knobs::{KUBELET_VERSION_ANNOTATION, Knobs, MACHINE_VERSION_ANNOTATION, NODE_NAME_ANNOTATION};
use crate::provider::{
    DevError, FIELD_MANAGER, Hold, Home, World, add_finalizer, cluster_name, concerned,
    concerned_by_infrastructure, dev_machine_of, remove_finalizer, status_intent,
};
use crate::startup::{Draw, Part, Startup};
use crate::workload::{Kubelet, WorkloadCluster, address};

/// Finalizer of what it provides: gone with the infrastructure.
pub const FINALIZER: &str = "devmachine.infrastructure.cluster.x-k8s.io";

/// Reconciles DevMachines.
pub(crate) struct DevMachines {
    world: World,
    done: Mutex<BTreeMap<ObjectKey, Done>>,
}

/// What is in the workload cluster already. Only saves work: everything can be put there again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Done {
    kubelet: Kubelet,
    parts: Vec<Part>,
    stubborn: bool,
}

impl DevMachines {
    pub(crate) fn register(manager: &Manager, world: &World) {
        let (by_cluster, by_infrastructure) = (world.dev_machines.clone(), world.dev_machines.clone());
        manager
            .controller("dev-machine", &world.dev_machines)
            .concurrency(50)
            .watches_changes(&world.machines, dev_machine_of)
            .watches_changes(&world.clusters, move |before, after| concerned(&by_cluster, before, after))
            .watches_changes(&world.dev_clusters, move |before, after| {
                concerned_by_infrastructure(&by_infrastructure, before, after)
            })
            .register(Self { world: world.clone(), done: Mutex::default() });
    }
}

impl Reconciler for DevMachines {
    type Error = DevError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, DevError> {
        let Some(dev_machine) = self.world.dev_machines.get(key) else {
            self.done().remove(key);
            return Ok(Outcome::done());
        };
        let dev_machine = dev_machine.as_ref();
        let machine = self.owner(dev_machine);
        let cluster = machine.as_ref().map(|machine| machine.spec.cluster_name.clone());
        let cluster = cluster.or_else(|| cluster_name(dev_machine).cloned()).unwrap_or_default();
        let home = self.world.home(&key.namespace, &cluster);
        if Pause::of(&dev_machine.metadata, home.as_ref().map(|home| home.cluster.as_ref())).is_some() {
            return self.restore(context, dev_machine, machine.as_deref(), home.as_ref()).await;
        }
        if dev_machine.metadata.deletion_timestamp.is_some() {
            if let Some(workload) = self.world.workload_to_leave(&key.namespace, &cluster).await? {
                let durations = Durations::of(&home.map(|home| home.annotations()).unwrap_or_default());
                let draw = Draw { seed: self.world.seed, namespace: &key.namespace, name: &key.name };
                let takes = durations.delete(group_of(dev_machine.labels()).as_deref(), draw);
                let begun = dev_machine.metadata.deletion_timestamp.as_ref().map(|time| time.0);
                if let Some(left) = time_left(begun, takes, context.now()) {
                    return Ok(Outcome::after(left));
                }
                workload.remove_machine(&node_name(dev_machine)).await?;
            }
            self.done().remove(key);
            return Ok(remove_finalizer(context, dev_machine, FINALIZER).await?);
        }
        if add_finalizer(context, dev_machine, FINALIZER).await? {
            return Ok(Outcome::done());
        }
        let spec = &dev_machine.spec.backend.in_memory();
        let (Some(machine), Some(home)) = (machine, home) else {
            return self.hold(context, dev_machine, Hold::Owner).await;
        };
        self.run(context, Scope { dev_machine, spec, machine: &machine, home: &home }).await
    }
}

/// What one reconcile of a machine is about.
struct Scope<'a> {
    dev_machine: &'a DevMachine,
    spec: &'a InMemoryMachineBackendSpec,
    machine: &'a Machine,
    home: &'a Home,
}

impl Scope<'_> {
    fn control_plane(&self) -> bool {
        self.machine.labels().contains_key(CONTROL_PLANE_LABEL)
    }
}

impl DevMachines {
    /// A machine that is paused runs on. After a restart of the process it has to be put back.
    async fn restore(
        &self,
        context: &Context,
        dev_machine: &DevMachine,
        machine: Option<&Machine>,
        home: Option<&Home>,
    ) -> Result<Outcome, DevError> {
        let version = dev_machine.annotations().get(KUBELET_VERSION_ANNOTATION);
        if let (Some(version), Some(began), Some(machine), Some(home)) =
            (version, began(&dev_machine.status), machine, home)
            && condition::is_true(&dev_machine.status.conditions, Part::Node.condition())
        {
            let spec = &dev_machine.spec.backend.in_memory();
            let scope = Scope { dev_machine, spec, machine, home };
            let startup = self.startup(&scope, began);
            self.build(&scope, version, &startup, context.now()).await?;
        }
        Ok(Outcome::done())
    }

    fn startup(&self, scope: &Scope<'_>, began: Timestamp) -> Startup {
        let key = ObjectKey::of(scope.dev_machine);
        let draw = Draw { seed: self.world.seed, namespace: &key.namespace, name: &key.name };
        if scope.dev_machine.spec.backend.in_memory.is_none() {
            let durations = Durations::of(&scope.home.annotations());
            let group = group_of(scope.machine.labels());
            if let Some(time) = durations.create(group.as_deref(), draw) {
                return Startup::taking(time, scope.control_plane(), began);
            }
        }
        Startup::of(scope.spec, scope.control_plane(), began, draw)
    }

    async fn run(&self, context: &Context, scope: Scope<'_>) -> Result<Outcome, DevError> {
        let Scope { dev_machine, machine, home, .. } = &scope;
        let (control_plane, now) = (scope.control_plane(), context.now());
        let mut status = dev_machine.status.clone();
        let began = match began(&status) {
            Some(began) => began,
            None => {
                let data = machine.spec.bootstrap.data_secret_name.as_ref();
                if let Some(hold) = home.hold(control_plane, data) {
                    return self.hold(context, dev_machine, hold).await;
                }
                let group = group_of(machine.labels());
                let knobs = Knobs::of(dev_machine.annotations(), group.as_deref(), &home.annotations());
                if let Some((reason, why)) = knobs.provisioning_failure(&machine.spec.version) {
                    let failed = Finding::no(Part::Vm.condition(), reason).because(why);
                    self.say(context, dev_machine, control_plane, vec![failed], status).await?;
                    return Ok(Outcome::done());
                }
                now
            }
        };
        let backend = json!({"inMemory": {"started": began.to_string()}});
        status.backend = serde_json::from_value(backend).ok();
        let name = dev_machine.name_any();
        let startup = self.startup(&scope, began);

        if startup.has(Part::Vm, now) {
            // A machine that has an identity keeps it.
            if dev_machine.spec.provider_id.is_empty() {
                let patch = json!({"spec": {"providerID": format!("in-memory://{name}")}});
                context.writer::<DevMachine>().patch(dev_machine, patch).await?;
                // The rest follows when the caches show it.
                return Ok(Outcome::done());
            }
            status.initialization = DevInitializationStatus { provisioned: Some(true) };
            status.failure_domain = machine.spec.failure_domain.clone();
            if status.addresses.is_empty() {
                let ip = MachineAddress { type_: MachineAddressType::InternalIp, address: address(&name) };
                let host = MachineAddress { type_: MachineAddressType::Hostname, address: name.clone() };
                status.addresses = vec![ip, host];
            }
        }
        if startup.has(Part::Node, now) {
            let wanted = &machine.spec.version;
            let annotation = |key| dev_machine.annotations().get(key);
            // There is no system in this machine that an updater could work on. Once the update of the Machine is done, it
            // runs what the Machine asks for.
            let updated = annotation(MACHINE_VERSION_ANNOTATION).is_some_and(|version| version != wanted)
                && !is_updating(machine);
            let Some(version) = annotation(KUBELET_VERSION_ANNOTATION).filter(|_| !updated) else {
                // Written down before the Node is there: after a crash the Node must not come back newer.
                let patch = json!({"metadata": {"annotations":
                    {KUBELET_VERSION_ANNOTATION: wanted, MACHINE_VERSION_ANNOTATION: wanted}}});
                context.writer::<DevMachine>().patch(dev_machine, patch).await?;
                return Ok(Outcome::done());
            };
            self.build(&scope, version, &startup, now).await?;
        }
        let findings = Part::of_machine(control_plane).map(|part| {
            if startup.has(part, now) {
                Finding::yes(part.condition(), "Provisioned")
            } else {
                Finding::no(part.condition(), "WaitingForStartupTimeout").because("starting")
            }
        });
        self.say(context, dev_machine, control_plane, findings.collect(), status).await?;
        Ok(Outcome::at(startup.next(now), now))
    }

    /// Puts what has started into the workload cluster.
    async fn build(
        &self,
        scope: &Scope<'_>,
        version: &str,
        startup: &Startup,
        now: Timestamp,
    ) -> Result<(), DevError> {
        let Scope { dev_machine, machine, home, .. } = scope;
        let Some(dev_cluster) = &home.dev_cluster else { return Ok(()) };
        let group = group_of(machine.labels());
        let knobs = Knobs::of(dev_machine.annotations(), group.as_deref(), &home.annotations());
        let wanted = Done {
            kubelet: Kubelet {
                name: node_name(dev_machine),
                provider_id: dev_machine.spec.provider_id.clone(),
                version: version.to_owned(),
                control_plane: scope.control_plane(),
                failure_domain: machine.spec.failure_domain.clone(),
                not_ready: knobs.never_ready,
            },
            parts: Part::of_machine(scope.control_plane()).filter(|part| startup.has(*part, now)).collect(),
            stubborn: knobs.drain_never_ends,
        };
        let key = ObjectKey::of(*dev_machine);
        if self.done().get(&key) == Some(&wanted) {
            return Ok(());
        }
        let workload: WorkloadCluster = self.world.workload(dev_cluster).await?;
        workload.put_node(&wanted.kubelet).await?;
        if wanted.stubborn {
            workload.put_stubborn_pod(&wanted.kubelet.name).await?;
        } else {
            workload.release_stubborn_pod(&wanted.kubelet.name).await?;
        }
        if wanted.parts.contains(&Part::Etcd) {
            workload.put_etcd(&wanted.kubelet).await?;
        }
        if wanted.parts.contains(&Part::ApiServer) {
            workload.put_control_plane(&wanted.kubelet).await?;
        }
        self.done().insert(key, wanted);
        Ok(())
    }

    async fn hold(
        &self,
        context: &Context,
        dev_machine: &DevMachine,
        hold: Hold,
    ) -> Result<Outcome, DevError> {
        let finding = Finding::no(Part::Vm.condition(), hold.reason()).because(hold.message());
        self.say(context, dev_machine, false, vec![finding], dev_machine.status.clone()).await?;
        Ok(Outcome::done())
    }

    /// Writes the status, if it changed: what was found, and `Ready` as the summary of it.
    async fn say(
        &self,
        context: &Context,
        dev_machine: &DevMachine,
        control_plane: bool,
        findings: Vec<Finding>,
        mut status: DevMachineStatus,
    ) -> Result<(), DevError> {
        let (generation, now) = (dev_machine.metadata.generation, context.now());
        for finding in findings {
            condition::set(&mut status.conditions, finding, generation, now);
        }
        let parts: Vec<Summand<'_>> =
            Part::of_machine(control_plane).map(|part| Summand::required(part.condition())).collect();
        let reasons = Reasons { good: "Ready", issue: "NotReady", unknown: "NotReady" };
        let ready = condition::summary("Ready", &status.conditions, &parts, reasons);
        // A machine that has not begun is not ready; nothing about that is unknown.
        let ready = match ready.status {
            windlass_api::conditions::ConditionStatus::Unknown => {
                Finding::no("Ready", "NotReady").because(ready.message)
            }
            _ => ready,
        };
        condition::set(&mut status.conditions, ready, generation, now);
        if status != dev_machine.status {
            status.deprecated = None;
            let writer = context.writer::<DevMachine>();
            writer.apply_status(FIELD_MANAGER, &status_intent(dev_machine, status)).await?;
        }
        Ok(())
    }

    fn owner(&self, dev_machine: &DevMachine) -> Option<Arc<Machine>> {
        let owners = GroupKind::of::<Machine>(&()).owners_of(dev_machine);
        owners.iter().find_map(|owner| self.world.machines.get(owner))
    }

    fn done(&self) -> std::sync::MutexGuard<'_, BTreeMap<ObjectKey, Done>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the Node of a machine.
pub(crate) fn node_name(dev_machine: &DevMachine) -> String {
    dev_machine.annotations().get(NODE_NAME_ANNOTATION).cloned().unwrap_or_else(|| dev_machine.name_any())
}

/// How much is left of what takes a time, if anything.
fn time_left(begun: Option<Timestamp>, takes: Option<Duration>, now: Timestamp) -> Option<Duration> {
    let passed = Duration::try_from(now.duration_since(begun?)).unwrap_or_default();
    takes?.checked_sub(passed).filter(|left| !left.is_zero())
}

/// When a machine began to start.
fn began(status: &DevMachineStatus) -> Option<Timestamp> {
    status.backend.as_ref()?.0.get("inMemory")?.get("started")?.as_str()?.parse().ok()
}
