//! The extension of the demo: it lets everything pass, after it has asked to wait once, and remembers its calls.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_extension::hooks::{
    AfterClusterUpgrade, AfterControlPlaneUpgrade, AfterWorkersUpgrade, BeforeClusterUpgrade,
    BeforeControlPlaneUpgrade, BeforeWorkersUpgrade, CanUpdateMachine, CanUpdateMachineRequest,
    CanUpdateMachineResponse, CanUpdateMachineSet, CanUpdateMachineSetRequest, CanUpdateMachineSetResponse,
    HookResponse, Patch, RetryResponse, UpdateMachine, UpdateMachineRequest, UpdateMachineResponse,
};
use windlass_extension::{Extension, ExtensionBuilder, Handler, Object, RegistrationErrors, patch};

use crate::model::HookLine;

/// How long the first call asks to wait, so that one sees what that looks like.
const WAIT_SECONDS: u32 = 2;

/// What the extension was asked. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub(crate) struct Calls {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Inner {
    begun: Option<Instant>,
    lines: Vec<HookLine>,
    /// Updates in place that have begun: machine and version.
    updates: BTreeSet<(String, String)>,
}

impl Calls {
    /// Counts time from now on.
    pub(crate) fn begin(&self, now: Instant) {
        *self.inner.lock().unwrap_or_else(PoisonError::into_inner) =
            Inner { begun: Some(now), ..Inner::default() };
    }

    pub(crate) fn lines(&self) -> Vec<HookLine> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).lines.clone()
    }

    /// Waits for the next call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Remembers a call; true if it is the first of all.
    fn called(&self, hook: &str, versions: String, wait: u32) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let at = inner.begun.map(|begun| begun.elapsed()).unwrap_or_default();
        let first = inner.lines.is_empty();
        let wait = if first { wait } else { 0 };
        inner.lines.push(HookLine { at, hook: hook.to_owned(), versions, wait });
        drop(inner);
        self.changed.notify_one();
        first
    }

    /// Whether an update in place is asked for the first time.
    fn begins(&self, machine: &str, version: &str) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.updates.insert((machine.to_owned(), version.to_owned()))
    }
}

/// An extension with a handler for each hook of an upgrade; with those that update machines in place, if asked for.
pub(crate) fn extension(calls: &Calls, in_place: bool) -> Result<Extension, RegistrationErrors> {
    macro_rules! passes {
        ($builder:expr, $hook:ident, $name:literal, $versions:expr) => {{
            let calls = calls.clone();
            $builder.on($hook, Handler::named($name).timeout_seconds(5), move |_, request| {
                calls.called(stringify!($hook), $versions(&request), 0);
                std::future::ready(<$hook as windlass_extension::hooks::HookType>::Response::success())
            })
        }};
    }
    let gate = calls.clone();
    let builder = Extension::new("demo").on(
        BeforeClusterUpgrade,
        Handler::named("backup-first").timeout_seconds(5),
        move |_, request: windlass_extension::hooks::BeforeClusterUpgradeRequest| {
            let versions =
                format!("{} -> {}", request.from_kubernetes_version, request.to_kubernetes_version);
            let first = gate.called("BeforeClusterUpgrade", versions, WAIT_SECONDS);
            std::future::ready(if first {
                RetryResponse::blocking("the demo takes a backup first", WAIT_SECONDS)
            } else {
                windlass_extension::hooks::BeforeClusterUpgradeResponse::success()
            })
        },
    );
    let builder = passes!(
        builder,
        BeforeControlPlaneUpgrade,
        "before-control-plane",
        |request: &windlass_extension::hooks::BeforeControlPlaneUpgradeRequest| {
            format!("{} -> {}", request.from_kubernetes_version, request.to_kubernetes_version)
        }
    );
    let builder = passes!(
        builder,
        AfterControlPlaneUpgrade,
        "after-control-plane",
        |request: &windlass_extension::hooks::AfterControlPlaneUpgradeRequest| {
            request.kubernetes_version.clone()
        }
    );
    let builder = passes!(
        builder,
        BeforeWorkersUpgrade,
        "before-workers",
        |request: &windlass_extension::hooks::BeforeWorkersUpgradeRequest| {
            format!("{} -> {}", request.from_kubernetes_version, request.to_kubernetes_version)
        }
    );
    let builder = passes!(
        builder,
        AfterWorkersUpgrade,
        "after-workers",
        |request: &windlass_extension::hooks::AfterWorkersUpgradeRequest| request.kubernetes_version.clone()
    );
    let builder = passes!(
        builder,
        AfterClusterUpgrade,
        "after-cluster",
        |request: &windlass_extension::hooks::AfterClusterUpgradeRequest| request.kubernetes_version.clone()
    );
    let builder = if in_place { updater(builder, calls) } else { builder };
    builder.build()
}

/// Adds handlers that can change everything about a machine, and take a moment to do it.
fn updater(builder: ExtensionBuilder, calls: &Calls) -> ExtensionBuilder {
    let (machines, sets, updates) = (calls.clone(), calls.clone(), calls.clone());
    builder
        .on(CanUpdateMachine, "can-update-machine", move |_, request: CanUpdateMachineRequest| {
            let (current, desired) = (&request.current, &request.desired);
            machines.called("CanUpdateMachine", version(&desired.machine), 0);
            std::future::ready(CanUpdateMachineResponse {
                machine_patch: covered(Some(&current.machine), Some(&desired.machine), "/spec/version"),
                infrastructure_machine_patch: covered(
                    Some(&current.infrastructure_machine),
                    Some(&desired.infrastructure_machine),
                    "/spec",
                ),
                bootstrap_config_patch: covered(
                    current.bootstrap_config.as_ref(),
                    desired.bootstrap_config.as_ref(),
                    "/spec",
                ),
                ..CanUpdateMachineResponse::success()
            })
        })
        .on(CanUpdateMachineSet, "can-update-machine-set", move |_, request: CanUpdateMachineSetRequest| {
            let (current, desired) = (&request.current, &request.desired);
            let path = "/spec/template/spec";
            let to = desired.machine_set.pointer("/spec/template/spec/version");
            let to = to.and_then(serde_json::Value::as_str).unwrap_or_default();
            sets.called("CanUpdateMachineSet", to.to_owned(), 0);
            std::future::ready(CanUpdateMachineSetResponse {
                machine_set_patch: covered(
                    Some(&current.machine_set),
                    Some(&desired.machine_set),
                    "/spec/template/spec/version",
                ),
                infrastructure_machine_template_patch: covered(
                    Some(&current.infrastructure_machine_template),
                    Some(&desired.infrastructure_machine_template),
                    path,
                ),
                bootstrap_config_template_patch: covered(
                    current.bootstrap_config_template.as_ref(),
                    desired.bootstrap_config_template.as_ref(),
                    path,
                ),
                ..CanUpdateMachineSetResponse::success()
            })
        })
        .on(UpdateMachine, "update-machine", move |_, request: UpdateMachineRequest| {
            let machine = &request.desired.machine;
            let to = version(machine);
            let begins = updates.begins(machine.name().unwrap_or_default(), &to);
            updates.called("UpdateMachine", to, 0);
            std::future::ready(if begins {
                RetryResponse::blocking("the demo installs the new version", 1)
            } else {
                UpdateMachineResponse::success()
            })
        })
}

fn version(machine: &Object) -> String {
    machine.pointer("/spec/version").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

/// The patch that gives an object everything below a path that it should have.
fn covered(current: Option<&Object>, desired: Option<&Object>, path: &str) -> Option<Patch> {
    let (current, desired) = current.zip(desired)?;
    let mut updated = serde_json::Value::from(current.clone());
    *updated.pointer_mut(path)? = desired.pointer(path)?.clone();
    patch::between(current, &Object::try_from(updated).ok()?)
}
