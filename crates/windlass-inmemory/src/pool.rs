//! DevMachinePool: instances that the provider looks after itself, one version after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_api::cluster::{MachineAddress, MachineAddressType, MachinePool};
use windlass_api::infrastructure::{
    DevInitializationStatus, DevMachinePool, DevMachinePoolInstanceStatus, DevMachinePoolStatus,
    InMemoryMachineBackendSpec,
};
use windlass_engine::condition::{self, Finding};
use windlass_engine::machine_set::batch;
use windlass_engine::pause::Pause;
use windlass_runtime::{Context, GroupKind, Manager, ObjectKey, Outcome, Reconciler};

use crate::durations::{Durations, group_of};
use crate::knobs::Knobs;
use crate::provider::{
    DevError, FIELD_MANAGER, Hold, Home, World, add_finalizer, cluster_name, concerned,
    concerned_by_infrastructure, remove_finalizer, status_intent,
};
use crate::startup::{Draw, Part, Startup};
use crate::workload::{Kubelet, address, hash};

/// Finalizer of what it provides: gone with the infrastructure.
pub const FINALIZER: &str = "devmachinepool.infrastructure.cluster.x-k8s.io";
/// What the instances of a pool are: all that is needed to build them anew. The value is [`Instances`] as JSON.
pub const INSTANCES_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/instances";

/// Reconciles DevMachinePools.
pub(crate) struct DevMachinePools {
    world: World,
    /// Instances whose Nodes are in the workload cluster already. Only saves work.
    done: Mutex<BTreeMap<ObjectKey, BTreeMap<String, Kubelet>>>,
}

/// The instances of a pool, as written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instances {
    /// Number of the next instance. Names are never used twice.
    pub next: u64,
    /// Those that there are.
    pub instances: Vec<Instance>,
}

/// An instance of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Its name, which is that of its Node.
    pub name: String,
    /// The version that it runs.
    pub version: String,
    /// When it began to start.
    pub started: Timestamp,
    /// Its identity, where it is not the one that it gets from its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

impl Instance {
    fn identity(&self) -> String {
        self.provider_id.clone().unwrap_or_else(|| provider_id(&self.name))
    }
}

/// What a pool should be.
struct Wanted<'a> {
    replicas: usize,
    version: &'a str,
    prefix: &'a str,
}

impl Instances {
    /// One step closer to what is wanted: the right number first, a batch at a time, then one outdated instance at a time
    /// is replaced, and only while all others run.
    fn step(&self, wanted: &Wanted<'_>, runs: impl Fn(&Instance) -> bool, now: Timestamp) -> Self {
        let mut record = self.clone();
        let outdated = |instance: &Instance| instance.version != wanted.version;
        while record.instances.len() > wanted.replicas {
            // Outdated ones go first, then the youngest.
            let index = record.instances.iter().position(outdated).unwrap_or(record.instances.len() - 1);
            record.instances.remove(index);
        }
        let complete = record.instances.len() == wanted.replicas;
        if complete
            && record.instances.iter().all(&runs)
            && let Some(index) = record.instances.iter().position(outdated)
        {
            record.instances.remove(index);
        }
        let there = u32::try_from(record.instances.len()).unwrap_or(u32::MAX);
        let most = record.instances.len() + usize::try_from(batch(there)).unwrap_or(usize::MAX);
        while record.instances.len() < wanted.replicas.min(most) {
            let name = instance_name(wanted.prefix, record.next);
            record.next += 1;
            record.instances.push(Instance {
                name,
                version: wanted.version.to_owned(),
                started: now,
                provider_id: None,
            });
        }
        record
    }
}

impl DevMachinePools {
    pub(crate) fn register(manager: &Manager, world: &World) {
        let (by_cluster, by_infrastructure) = (world.dev_pools.clone(), world.dev_pools.clone());
        manager
            .controller("dev-machine-pool", &world.dev_pools)
            .watches_changes(&world.pools, dev_pool_of)
            .watches_changes(&world.clusters, move |before, after| concerned(&by_cluster, before, after))
            .watches_changes(&world.dev_clusters, move |before, after| {
                concerned_by_infrastructure(&by_infrastructure, before, after)
            })
            .register(Self { world: world.clone(), done: Mutex::default() });
    }

    fn owner(&self, dev_pool: &DevMachinePool) -> Option<Arc<MachinePool>> {
        let owners = GroupKind::of::<MachinePool>(&()).owners_of(dev_pool);
        owners.iter().find_map(|owner| self.world.pools.get(owner))
    }

    fn done(&self) -> std::sync::MutexGuard<'_, BTreeMap<ObjectKey, BTreeMap<String, Kubelet>>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconciler for DevMachinePools {
    type Error = DevError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, DevError> {
        let Some(dev_pool) = self.world.dev_pools.get(key) else {
            self.done().remove(key);
            return Ok(Outcome::done());
        };
        let dev_pool = dev_pool.as_ref();
        let pool = self.owner(dev_pool);
        let cluster = pool.as_ref().map(|pool| pool.spec.cluster_name.clone());
        let cluster = cluster.or_else(|| cluster_name(dev_pool).cloned()).unwrap_or_default();
        let home = self.world.home(&key.namespace, &cluster);
        if Pause::of(&dev_pool.metadata, home.as_ref().map(|home| home.cluster.as_ref())).is_some() {
            // Instances of a pool that is paused run on. After a restart of the process they have to be put back.
            if let Some(home) = &home {
                let group = group_of(dev_pool.labels());
                let knobs = Knobs::of(dev_pool.annotations(), group.as_deref(), &home.annotations());
                let ready: BTreeSet<&String> = dev_pool
                    .status
                    .instances
                    .iter()
                    .filter(|instance| instance.ready == Some(true))
                    .map(|instance| &instance.instance_name)
                    .collect();
                let record = record(dev_pool);
                let running = record.instances.iter().filter(|instance| ready.contains(&instance.name));
                self.build(key, home, &knobs, running).await?;
            }
            return Ok(Outcome::done());
        }
        if dev_pool.metadata.deletion_timestamp.is_some() {
            if let Some(workload) = self.world.workload_to_leave(&key.namespace, &cluster).await? {
                for instance in record(dev_pool).instances {
                    workload.remove_machine(&instance.name).await?;
                }
            }
            self.done().remove(key);
            return Ok(remove_finalizer(context, dev_pool, FINALIZER).await?);
        }
        if add_finalizer(context, dev_pool, FINALIZER).await? {
            return Ok(Outcome::done());
        }
        if let (Some(pool), Some(home)) = (pool, home) {
            let spec = dev_pool.spec.in_memory();
            return self.run(context, dev_pool, &pool, &home, &spec).await;
        }
        let finding = Finding::no("Ready", Hold::Owner.reason()).because(Hold::Owner.message());
        say(context, dev_pool, finding, dev_pool.status.clone()).await?;
        Ok(Outcome::done())
    }
}

impl DevMachinePools {
    async fn run(
        &self,
        context: &Context,
        dev_pool: &DevMachinePool,
        pool: &MachinePool,
        home: &Home,
        spec: &InMemoryMachineBackendSpec,
    ) -> Result<Outcome, DevError> {
        let template = &pool.spec.template.spec;
        if let Some(hold) = home.hold(false, template.bootstrap.data_secret_name.as_ref()) {
            let finding = Finding::no("Ready", hold.reason()).because(hold.message());
            say(context, dev_pool, finding, dev_pool.status.clone()).await?;
            return Ok(Outcome::done());
        }
        let (key, now) = (ObjectKey::of(dev_pool), context.now());
        let group = group_of(dev_pool.labels());
        let knobs = Knobs::of(dev_pool.annotations(), group.as_deref(), &home.annotations());
        let durations = Durations::of(&home.annotations());
        let startup = |instance: &Instance| {
            let draw = Draw { seed: self.world.seed, namespace: &key.namespace, name: &instance.name };
            if !dev_pool.spec.has_in_memory()
                && let Some(time) = durations.create(group_of(pool.labels()).as_deref(), draw)
            {
                return Startup::taking(time, false, instance.started);
            }
            Startup::of(spec, false, instance.started, draw)
        };
        // Instances of a version without an image are started and never come up.
        let runs = |instance: &Instance| {
            knobs.provisioning_failure(&instance.version).is_none() && startup(instance).has(Part::Node, now)
        };
        let before = record(dev_pool);
        let wanted = Wanted {
            replicas: usize::try_from(pool.replicas().or(pool.status.replicas).unwrap_or(1))
                .unwrap_or_default(),
            version: &template.version,
            prefix: &key.name,
        };
        let after = before.step(&wanted, runs, now);
        if after != before {
            // Instances that go are taken away first: once they are no longer in the status, they are unknown.
            if let Some(workload) =
                self.world.workload_to_leave(&key.namespace, &pool.spec.cluster_name).await?
            {
                for gone in before.instances.iter().filter(|instance| !after.instances.contains(instance)) {
                    workload.remove_machine(&gone.name).await?;
                }
            }
            let text = serde_json::to_string(&after).unwrap_or_default();
            let patch = json!({"metadata": {"annotations": {INSTANCES_ANNOTATION: text}}});
            context.writer::<DevMachinePool>().patch(dev_pool, patch).await?;
            return Ok(Outcome::done());
        }
        let ids: Vec<String> =
            after.instances.iter().filter(|instance| runs(instance)).map(Instance::identity).collect();
        self.build(&key, home, &knobs, after.instances.iter().filter(|instance| runs(instance))).await?;
        if dev_pool.spec.provider_id_list != ids {
            let patch = json!({"spec": {"providerIDList": ids}});
            context.writer::<DevMachinePool>().patch(dev_pool, patch).await?;
            return Ok(Outcome::done());
        }
        let provisioned =
            dev_pool.status.initialization.provisioned == Some(true) || ids.len() == wanted.replicas;
        let provisioned = provisioned.then_some(true);
        let status = DevMachinePoolStatus {
            conditions: dev_pool.status.conditions.clone(),
            initialization: DevInitializationStatus { provisioned },
            ready: provisioned,
            infrastructure_machine_kind: String::new(),
            replicas: i32::try_from(ids.len()).ok(),
            instances: after
                .instances
                .iter()
                .map(|instance| instance_status(instance, runs(instance)))
                .collect(),
            observed_generation: dev_pool.metadata.generation,
            deprecated: None,
        };
        let failure =
            after.instances.iter().find_map(|instance| knobs.provisioning_failure(&instance.version));
        let finding = match failure {
            Some((reason, why)) => Finding::no("Ready", reason).because(why),
            None if ids.len() == wanted.replicas => Finding::yes("Ready", "Ready"),
            None => Finding::no("Ready", "NotReady").because(format!(
                "{} of {} instances run",
                ids.len(),
                wanted.replicas
            )),
        };
        say(context, dev_pool, finding, status).await?;
        let next = after.instances.iter().filter_map(|instance| startup(instance).next(now)).min();
        Ok(Outcome::at(next, now))
    }

    async fn build<'a>(
        &self,
        key: &ObjectKey,
        home: &Home,
        knobs: &Knobs,
        running: impl Iterator<Item = &'a Instance>,
    ) -> Result<(), DevError> {
        let Some(dev_cluster) = &home.dev_cluster else { return Ok(()) };
        let workload = self.world.workload(dev_cluster).await?;
        let mut nodes = BTreeMap::new();
        for instance in running {
            let kubelet = Kubelet {
                name: instance.name.clone(),
                provider_id: instance.identity(),
                version: instance.version.clone(),
                control_plane: false,
                failure_domain: String::new(),
                not_ready: knobs.never_ready.clone(),
            };
            let known = self.done().get(key).and_then(|nodes| nodes.get(&instance.name)).cloned();
            if known.as_ref() != Some(&kubelet) {
                workload.put_node(&kubelet).await?;
            }
            nodes.insert(instance.name.clone(), kubelet);
        }
        self.done().insert(key.clone(), nodes);
        Ok(())
    }
}

async fn say(
    context: &Context,
    dev_pool: &DevMachinePool,
    finding: Finding,
    mut status: DevMachinePoolStatus,
) -> Result<(), DevError> {
    condition::set(&mut status.conditions, finding, dev_pool.metadata.generation, context.now());
    if status != dev_pool.status {
        let writer = context.writer::<DevMachinePool>();
        writer.apply_status(FIELD_MANAGER, &status_intent(dev_pool, status)).await?;
    }
    Ok(())
}

fn record(dev_pool: &DevMachinePool) -> Instances {
    let text = dev_pool.annotations().get(INSTANCES_ANNOTATION);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The name of an instance, which is that of its Node, a label of it, and so has 63 characters at most. Of a pool with too long a
/// name, its beginning and a number that tells it from others.
fn instance_name(pool: &str, number: u64) -> String {
    const LONGEST: usize = 63;
    let name = format!("{pool}-{number}");
    if name.len() <= LONGEST {
        return name;
    }
    let end = format!("-{:08x}-{number}", hash(&[pool]) & 0xffff_ffff);
    let beginning: String = pool.chars().take(LONGEST - end.len()).collect();
    format!("{}{end}", beginning.trim_end_matches(['-', '.']))
}

fn provider_id(name: &str) -> String {
    format!("in-memory://{name}")
}

fn instance_status(instance: &Instance, runs: bool) -> DevMachinePoolInstanceStatus {
    let ip = MachineAddress { type_: MachineAddressType::InternalIp, address: address(&instance.name) };
    DevMachinePoolInstanceStatus {
        instance_name: instance.name.clone(),
        version: instance.version.clone(),
        provider_id: instance.identity(),
        ready: Some(runs),
        addresses: vec![ip],
    }
}

/// The DevMachinePool of a MachinePool, when something changed that it looks at.
fn dev_pool_of(before: Option<&MachinePool>, after: Option<&MachinePool>) -> Vec<ObjectKey> {
    let relevant = |pool: &MachinePool| (pool.spec.clone(), pool.metadata.deletion_timestamp.is_some());
    if before.map(relevant) == after.map(relevant) {
        return Vec::new();
    }
    let Some(pool) = after.or(before) else { return Vec::new() };
    let reference = &pool.spec.template.spec.infrastructure_ref;
    if reference.kind != DevMachinePool::KIND {
        return Vec::new();
    }
    vec![ObjectKey::new(ObjectKey::of(pool).namespace, &reference.name)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_pool_is_replaced_one_instance_at_a_time() {
        let wanted = |version| Wanted { replicas: 3, version, prefix: "p" };
        let mut record = Instances::default().step(&wanted("v1"), |_| true, at(0));
        let names: Vec<&str> = record.instances.iter().map(|instance| instance.name.as_str()).collect();
        assert_eq!(names, ["p-0", "p-1", "p-2"]);
        for second in 1..=3 {
            let held = record.step(&wanted("v2"), |_| false, at(second));
            assert_eq!(held, record, "nothing is taken away while something does not run");
            record = record.step(&wanted("v2"), |_| true, at(second));
            let new = record.instances.iter().filter(|instance| instance.version == "v2").count();
            assert_eq!((record.instances.len(), new), (3, second as usize));
        }
        assert_eq!(record.step(&wanted("v2"), |_| true, at(9)), record);
        assert_eq!(record.next, 6);
    }

    #[test]
    fn names_of_instances_are_labels() {
        assert_eq!(instance_name("pool", 12), "pool-12");
        let long = |end: &str| instance_name(&format!("{}{end}", "p".repeat(60)), 1234);
        assert_eq!((long("abc").len(), long("abc") == long("abd")), (63, false));
        assert!(long("abc").ends_with("-1234"));
    }

    #[test]
    fn a_pool_grows_in_batches_and_shrinks_at_once() {
        let of = |replicas| Wanted { replicas, version: "v1", prefix: "p" };
        let mut record = Instances::default();
        let mut sizes = Vec::new();
        for second in 0..4 {
            record = record.step(&of(5000), |_| false, at(second));
            sizes.push(record.instances.len());
        }
        assert_eq!(sizes, [50, 100, 200, 400]);
        assert_eq!(record.step(&of(2), |_| false, at(9)).instances.len(), 2);
    }

    #[test]
    fn outdated_instances_go_first_when_a_pool_shrinks() {
        let of = |replicas, version| Wanted { replicas, version, prefix: "p" };
        let record =
            Instances::default().step(&of(2, "v1"), |_| true, at(0)).step(&of(2, "v2"), |_| true, at(1));
        let shrunk = record.step(&of(1, "v2"), |_| false, at(2));
        assert_eq!(shrunk.instances[0].version, "v2");
        assert!(record.step(&of(0, "v2"), |_| true, at(3)).instances.is_empty());
    }
}
