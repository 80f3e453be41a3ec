//! The updates that are under way.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::Semaphore;
use windlass_extension::Object;
use windlass_extension::hooks::MachineObjects;

use crate::objects;

/// As much of the end of the output as fits into a message that a person reads.
const TAIL_BYTES: usize = 1024;

/// Machines that are being updated, and those of which the last attempt failed.
pub(crate) struct Updates {
    client: Client,
    command: Vec<String>,
    slots: Semaphore,
    /// By namespace and name. A machine that is done is not in it, and is not asked about any more.
    machines: Mutex<BTreeMap<String, State>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    UnderWay,
    Failed(String),
}

/// How far it is, for people.
pub(crate) struct Progress {
    left: usize,
    failures: Vec<String>,
}

impl Updates {
    pub(crate) fn new(client: Client, command: &str, at_once: usize) -> Result<Self, String> {
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if command.is_empty() {
            return Err("the command is empty".to_owned());
        }
        Ok(Self { client, command, slots: Semaphore::new(at_once), machines: Mutex::default() })
    }

    /// Begins the update of every machine that is not under way. One that failed is tried again: that it is asked about
    /// again means that it is not up to date.
    ///
    /// # Errors
    ///
    /// A machine cannot be updated so that it stays what it is. Nothing is begun then.
    pub(crate) fn begin(
        self: &Arc<Self>,
        machines: &[Object],
        desired: &MachineObjects,
    ) -> Result<Progress, String> {
        let runs = machines.iter().map(|machine| Run::of(machine, desired, &self.command));
        let runs: Vec<Run> = runs.collect::<Result<_, _>>()?;
        let mut known = self.machines();
        let mut failures = Vec::new();
        for run in runs {
            match known.get(&run.key) {
                Some(State::UnderWay) => continue,
                Some(State::Failed(why)) => failures.push(format!("{}: {why}", run.key)),
                None => {}
            }
            known.insert(run.key.clone(), State::UnderWay);
            let updates = Arc::clone(self);
            tokio::spawn(async move { updates.update(run).await });
        }
        Ok(Progress { left: machines.len(), failures })
    }

    async fn update(&self, run: Run) {
        let done = match self.slots.acquire().await {
            Ok(_slot) => run.update(&self.client).await,
            Err(_) => Err("the updater ends".to_owned()),
        };
        match done {
            Ok(()) => {
                tracing::info!(machine = run.key, "updated");
                self.machines().remove(&run.key);
            }
            Err(why) => {
                tracing::warn!(machine = run.key, why, "not updated");
                self.machines().insert(run.key, State::Failed(why));
            }
        }
    }

    fn machines(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The update of one machine.
struct Run {
    key: String,
    command: Vec<String>,
    machine: Object,
    desired: MachineObjects,
}

impl Run {
    fn of(machine: &Object, desired: &MachineObjects, command: &[String]) -> Result<Self, String> {
        let text = |object: &Object, pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (namespace, name) = (text(machine, "/metadata/namespace"), text(machine, "/metadata/name"));
        let provider_id = text(machine, "/spec/providerID");
        if provider_id.is_empty() {
            return Err(format!("Machine {name} has no providerID yet, it is not known which host it is"));
        }
        let wanted = text(&desired.infrastructure_machine, "/spec/providerID");
        if !wanted.is_empty() && wanted != provider_id {
            return Err(format!("Machine {name} would become {wanted}, which is another host"));
        }
        let version = text(&desired.machine, "/spec/version");
        let fill = |word: &String| {
            word.replace("{namespace}", &namespace)
                .replace("{name}", &name)
                // Of the providers that this example is for, a Node has the name of its Machine.
                .replace("{node}", &name)
                .replace("{provider-id}", &provider_id)
                .replace("{version}", &version)
        };
        Ok(Self {
            key: format!("{namespace}/{name}"),
            command: command.iter().map(fill).collect(),
            machine: machine.clone(),
            desired: desired.clone(),
        })
    }

    async fn update(&self, client: &Client) -> Result<(), String> {
        let (program, arguments) = self.command.split_first().ok_or("the command is empty")?;
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
        let output = output.await.map_err(|error| format!("cannot run {program}: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let start = text.len().saturating_sub(TAIL_BYTES);
            let tail: String = text.char_indices().filter(|(at, _)| *at >= start).map(|(_, c)| c).collect();
            return Err(format!("{}: {}", output.status, tail.trim()));
        }
        objects::write(client, &self.machine, &self.desired).await
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} machines are left", self.left)?;
        for failure in &self.failures {
            write!(f, "; tried again: {failure}")?;
        }
        Ok(())
    }
}
