//! A stand-in for everything between a Machine of a worker group and its Node.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Machine, MachineDeployment};
use windlass_engine::condition::{self, Finding};
use windlass_runtime::{Cache, Context, Manager, ObjectKey, Outcome, Reconciler, WriteError};

/// How long a machine takes to come up.
const BOOT: Duration = Duration::from_secs(60);

/// What the stand-in saw of the machines.
#[derive(Default, Debug)]
pub struct Seen {
    /// The names of all machines that ever were.
    pub names: BTreeSet<String>,
    /// The most that were there together.
    pub most: usize,
    /// The fewest that were available since [`watch_availability`](Self::watch_availability).
    pub least_available: Option<usize>,
    watching: bool,
}

impl Seen {
    /// Counts from now on how few machines are available, and how many there are at most.
    pub fn watch_availability(&mut self) {
        (self.watching, self.least_available, self.most) = (true, None, 0);
    }
}

/// Brings machines up after a minute, and says of them whether they are up to date.
pub struct WorkerMachines {
    machines: Cache<Machine>,
    deployments: Cache<MachineDeployment>,
    seen: Arc<Mutex<Seen>>,
}

impl Reconciler for WorkerMachines {
    type Error = WriteError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
        self.count();
        let Some(machine) = self.machines.get(key) else { return Ok(Outcome::done()) };
        let created = machine.metadata.creation_timestamp.as_ref().unwrap().0;
        let age = context.now().duration_since(created);
        let up_after = Duration::from_secs(u64::try_from(age.as_secs()).unwrap());
        let up = up_after >= BOOT;
        let mut conditions = machine.status.conditions.clone();
        let mut set = |finding: Finding| {
            condition::set(&mut conditions, finding, machine.metadata.generation, context.now());
        };
        for type_ in ["Ready", "Available"] {
            set(if up { Finding::yes(type_, type_) } else { Finding::no(type_, "NotReady") });
        }
        let label = machine.metadata.labels.as_ref().and_then(|l| l.get("cluster.x-k8s.io/deployment-name"));
        if let Some(md) = label.and_then(|name| self.deployments.get(&ObjectKey::new(&key.namespace, name))) {
            let (is, wanted) = (&machine.spec.version, &md.spec.template.spec.version);
            let message = format!("* Version {is}, {wanted} required");
            let not = Finding::no("UpToDate", "NotUpToDate").because(message);
            set(if is == wanted { Finding::yes("UpToDate", "UpToDate") } else { not });
        }
        if conditions != machine.status.conditions {
            let node = up.then(|| json!({"name": key.name}));
            let patch = json!({"status": {"conditions": conditions, "nodeRef": node}});
            context.writer::<Machine>().patch_status(&machine, patch).await?;
        }
        Ok(if up { Outcome::done() } else { Outcome::after(BOOT.saturating_sub(up_after)) })
    }
}

impl WorkerMachines {
    /// Adds it to a manager. What it sees is added to `seen`.
    pub fn register(manager: &Manager, seen: &Arc<Mutex<Seen>>) {
        let (machines, deployments): (Cache<Machine>, Cache<MachineDeployment>) =
            (manager.cache(), manager.cache());
        let all = machines.clone();
        manager
            .controller("fake", &machines)
            .watches(&deployments, move |_| {
                all.list().iter().map(|machine| ObjectKey::of(machine.as_ref())).collect()
            })
            .register(Self { machines: machines.clone(), deployments, seen: Arc::clone(seen) });
    }

    fn count(&self) {
        let machines = self.machines.list();
        let available = |machine: &&Arc<Machine>| {
            condition::is_true(&machine.status.conditions, "Available")
                && machine.metadata.deletion_timestamp.is_none()
        };
        let available = machines.iter().filter(available).count();
        let mut seen = self.seen.lock().unwrap();
        seen.most = seen.most.max(machines.len());
        seen.names.extend(machines.iter().map(|machine| machine.name_any()));
        if seen.watching {
            seen.least_available = Some(seen.least_available.map_or(available, |least| least.min(available)));
        }
    }
}
