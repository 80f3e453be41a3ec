//! The extension of the demo: it lets everything pass, after it has asked to wait once, and remembers its calls.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_extension::hooks::{
    AfterClusterUpgrade, AfterControlPlaneUpgrade, AfterWorkersUpgrade, BeforeClusterUpgrade,
    BeforeControlPlaneUpgrade, BeforeWorkersUpgrade, HookResponse, RetryResponse,
};
use windlass_extension::{Extension, Handler, RegistrationErrors};

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
}

impl Calls {
    /// Counts time from now on.
    pub(crate) fn begin(&self, now: Instant) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).begun = Some(now);
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
}

/// An extension with a handler for each hook of an upgrade.
pub(crate) fn extension(calls: &Calls) -> Result<Extension, RegistrationErrors> {
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
    builder.build()
}
