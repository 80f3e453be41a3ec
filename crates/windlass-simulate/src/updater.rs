//! An extension in the simulation that updates machines in place, or is in the way of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::hooks::Hook;
use windlass_api::names::{HOOKS_API_VERSION, RUNTIME_API_VERSION};
use windlass_hooks::transport::InProcess;

use crate::in_process::answer;

/// An extension that updates machines in place. Cheap to clone; all clones are one, also across restarts of the world.
#[derive(Clone)]
pub struct SimulatedUpdater {
    name: String,
    inner: Arc<Mutex<Inner>>,
}

/// A field that it covers: of which object, and the name of the field in `spec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Covered {
    /// Of the Machine.
    Machine(Cow<'static, str>),
    /// Of the infrastructure machine.
    Infrastructure(Cow<'static, str>),
    /// Of the bootstrap config.
    Bootstrap(Cow<'static, str>),
}

/// A call of UpdateMachine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateCall {
    /// Name of the Machine.
    pub machine: String,
    /// The version that it shall have.
    pub version: String,
    /// When.
    pub at: Instant,
    /// Whether the same update had been answered as done before: a second time is one too many.
    pub after_completion: bool,
}

#[derive(Default)]
struct Inner {
    /// None covers everything.
    covers: Option<Vec<Covered>>,
    takes: Duration,
    /// How long it asks to wait while an update runs; none is as long as the update still takes, a minute at most.
    retry: Option<u32>,
    failing: Option<String>,
    silent: Vec<Hook>,
    ignorable: bool,
    answer: Option<Value>,
    /// What it says besides its patches.
    effect: serde_json::Map<String, Value>,
    /// When an update began, by what it is.
    begun: BTreeMap<String, Instant>,
    done: BTreeMap<String, u32>,
    calls: Vec<UpdateCall>,
    asked: Vec<Instant>,
}

impl SimulatedUpdater {
    /// Adds one to a transport, under the name of its ExtensionConfig.
    pub fn add_to(transport: &InProcess, name: &str) -> Self {
        let updater = Self { name: name.to_owned(), inner: Arc::default() };
        let inner = Arc::clone(&updater.inner);
        answer(transport, name, move |request| lock(&inner).answer(request));
        updater
    }

    /// Covers these fields only.
    #[must_use]
    pub fn covering(self, fields: impl IntoIterator<Item = Covered>) -> Self {
        self.cover(Some(fields.into_iter().collect()));
        self
    }

    /// Covers these fields only from now on, or everything.
    pub fn cover(&self, fields: Option<Vec<Covered>>) {
        lock(&self.inner).covers = fields;
    }

    /// An update takes so long.
    #[must_use]
    pub fn taking(self, duration: Duration) -> Self {
        self.take(duration);
        self
    }

    /// An update takes so long from now on.
    pub fn take(&self, duration: Duration) {
        lock(&self.inner).takes = duration;
    }

    /// Asks to wait so many seconds while an update runs, whatever it takes.
    #[must_use]
    pub fn asking_to_wait(self, seconds: u32) -> Self {
        lock(&self.inner).retry = Some(seconds);
        self
    }

    /// Says that its updates do not affect availability.
    #[must_use]
    pub fn harmless(self) -> Self {
        lock(&self.inner).effect.insert("affectsAvailability".to_owned(), json!(false));
        self
    }

    /// Asks for this to be done before a machine is updated.
    #[must_use]
    pub fn requiring(self, requirements: &[&str]) -> Self {
        lock(&self.inner).effect.insert("requirements".to_owned(), json!(requirements));
        self
    }

    /// Its failures to answer are not minded.
    #[must_use]
    pub fn ignorable(self) -> Self {
        lock(&self.inner).ignorable = true;
        self
    }

    /// Lets updates fail until further notice, or not any more.
    pub fn fail(&self, message: Option<&str>) {
        lock(&self.inner).failing = message.map(str::to_owned);
    }

    /// Does not answer these hooks.
    pub fn silence(&self, hooks: &[Hook]) {
        lock(&self.inner).silent = hooks.to_vec();
    }

    /// Answers exactly this when it is asked what it can do, whatever it is asked about.
    pub fn answer_with(&self, answer: Option<Value>) {
        lock(&self.inner).answer = answer;
    }

    /// How often it was asked what it can do.
    pub fn asked(&self) -> usize {
        lock(&self.inner).asked.len()
    }

    /// When it was asked what it can do.
    pub fn asked_at(&self) -> Vec<Instant> {
        lock(&self.inner).asked.clone()
    }

    /// What it was asked to update, in order.
    pub fn calls(&self) -> Vec<UpdateCall> {
        lock(&self.inner).calls.clone()
    }

    /// How many updates it has finished.
    pub fn finished(&self) -> usize {
        lock(&self.inner).done.len()
    }

    /// The object that registers it.
    pub fn config(&self) -> Value {
        json!({"apiVersion": RUNTIME_API_VERSION, "kind": "ExtensionConfig", "metadata": {"name": self.name},
            "spec": {"clientConfig": {"url": format!("https://{}.invalid", self.name)}, "namespaceSelector": {}}})
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn answer(&mut self, request: &Request<Bytes>) -> Option<Value> {
        let Some((hook, _)) = Hook::from_path(request.uri().path()) else {
            return Some(json!({"status": "Failure", "message": "there is no such hook"}));
        };
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let is_silent = self.silent.contains(&hook);
        match hook {
            Hook::Discovery => Some(self.discovery()),
            Hook::CanUpdateMachine | Hook::CanUpdateMachineSet => {
                self.asked.push(Instant::now());
                (!is_silent).then(|| self.claims(hook, &body))
            }
            Hook::UpdateMachine if is_silent => None,
            Hook::UpdateMachine => Some(self.update(&body["desired"])),
            _ => Some(json!({"status": "Failure", "message": "that is not what this extension is for"})),
        }
    }

    fn discovery(&self) -> Value {
        let policy = if self.ignorable { "Ignore" } else { "Fail" };
        let hooks = [Hook::CanUpdateMachine, Hook::CanUpdateMachineSet, Hook::UpdateMachine];
        let handlers = hooks.map(|hook| {
            json!({"name": hook.path_segment(), "failurePolicy": policy,
                "requestHook": {"apiVersion": HOOKS_API_VERSION, "hook": hook.name()}})
        });
        json!({"status": "Success", "handlers": handlers})
    }

    fn claims(&self, hook: Hook, body: &Value) -> Value {
        if let Some(answer) = &self.answer {
            return answer.clone();
        }
        let (objects, root) = match hook {
            Hook::CanUpdateMachine => (["machine", "infrastructureMachine", "bootstrapConfig"], "/spec"),
            _ => (
                ["machineSet", "infrastructureMachineTemplate", "bootstrapConfigTemplate"],
                "/spec/template/spec",
            ),
        };
        let mut answer = json!({"status": "Success"});
        for (key, value) in &self.effect {
            answer[key] = value.clone();
        }
        for (index, object) in objects.into_iter().enumerate() {
            let (current, desired) = (&body["current"][object], &body["desired"][object]);
            if current.is_null() || current.pointer(root) == desired.pointer(root) {
                continue;
            }
            let steps = match &self.covers {
                // The references that a Machine has to its parts are nothing that is updated.
                None if index == 0 => self.steps(current, desired, root, &["version", "failureDomain"]),
                None => vec![json!({"op": "add", "path": root, "value": desired.pointer(root)})],
                Some(fields) => {
                    let names = fields.iter().filter_map(|field| match (field, index) {
                        (Covered::Machine(name), 0)
                        | (Covered::Infrastructure(name), 1)
                        | (Covered::Bootstrap(name), 2) => Some(name.as_ref()),
                        _ => None,
                    });
                    self.steps(current, desired, root, &names.collect::<Vec<_>>())
                }
            };
            if !steps.is_empty() {
                answer[format!("{object}Patch")] = json!({"patchType": "JSONPatch", "patch": steps});
            }
        }
        answer
    }

    fn steps(&self, current: &Value, desired: &Value, root: &str, fields: &[&str]) -> Vec<Value> {
        let steps = fields.iter().filter_map(|field| {
            let path = format!("{root}/{field}");
            match (current.pointer(&path), desired.pointer(&path)) {
                (current, desired) if current == desired => None,
                (_, Some(value)) => Some(json!({"op": "add", "path": path, "value": value})),
                (_, None) => Some(json!({"op": "remove", "path": path})),
            }
        });
        steps.collect()
    }

    fn update(&mut self, desired: &Value) -> Value {
        let text =
            |pointer: &str| desired.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (machine, version) = (text("/machine/metadata/name"), text("/machine/spec/version"));
        let specs =
            ["machine", "infrastructureMachine", "bootstrapConfig"].map(|object| &desired[object]["spec"]);
        let update = json!([machine, specs]).to_string();
        let after_completion = self.done.contains_key(&update);
        self.calls.push(UpdateCall { machine, version, at: Instant::now(), after_completion });
        if let Some(message) = &self.failing {
            return json!({"status": "Failure", "message": message});
        }
        let begun = *self.begun.entry(update.clone()).or_insert_with(Instant::now);
        let left = self.takes.saturating_sub(begun.elapsed());
        if left.is_zero() {
            *self.done.entry(update).or_default() += 1;
            return json!({"status": "Success", "retryAfterSeconds": 0});
        }
        // Asks to come back now and then, as one would that reports its progress.
        let retry = self.retry.unwrap_or(left.as_secs_f64().ceil().clamp(1.0, 60.0) as u32);
        json!({"status": "Success", "message": "installing", "retryAfterSeconds": retry})
    }
}
