//! Extensions that update machines in place: they are asked what they can do, and later to do it.
//!
//! What their answers mean is decided in [`windlass_engine::in_place`]; here they are called.

mod ask;
mod external_update;
mod preview;
mod update;

pub use ask::{CanUpdate, InPlaceError};
pub(crate) use external_update::{Update, desired_part, forget_record, record_of};
pub use preview::{PreviewError, preview};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::time::Instant;
use windlass_api::Object;
use windlass_api::object::ObjectError;
use windlass_api::runtime::ExtensionConfig;
use windlass_engine::in_place::Verdict;
use windlass_engine::waiting::Retry;
use windlass_hooks::HookClient;
use windlass_runtime::Cache;

use crate::extension_config::Extensions;

/// The extensions that update machines in place. Cheap to clone; all clones share what they know.
#[derive(Clone, Default)]
pub struct InPlaceExtensions {
    called: Option<Called>,
    /// Verdicts by what they are about, until when they count.
    known: Arc<Mutex<BTreeMap<String, (Instant, Verdict)>>>,
}

#[derive(Clone)]
struct Called {
    hooks: HookClient,
    /// Discovered before the first call; none where the maker of the client did that.
    extensions: Option<Extensions>,
}

impl InPlaceExtensions {
    /// No extension updates machines in place.
    pub fn none() -> Self {
        Self::default()
    }

    /// The extensions of a management cluster.
    pub fn of(extensions: Extensions) -> Self {
        let called = Called { hooks: extensions.hooks().clone(), extensions: Some(extensions) };
        Self { called: Some(called), known: Arc::default() }
    }

    /// Extensions that a client has discovered already.
    pub fn discovered(hooks: HookClient) -> Self {
        Self { called: Some(Called { hooks, extensions: None }), known: Arc::default() }
    }

    /// The ExtensionConfigs, for controllers that have to know when they change.
    pub(crate) fn configs(&self) -> Option<Cache<ExtensionConfig>> {
        self.called.as_ref()?.extensions.as_ref().map(|extensions| extensions.configs().clone())
    }

    /// The client, once it knows whom to call.
    async fn hooks(&self) -> Option<&HookClient> {
        let called = self.called.as_ref()?;
        if let Some(extensions) = &called.extensions {
            extensions.warm_up().await;
        }
        Some(&called.hooks)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Verdict)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a hook is called again, as decisions have it.
pub(crate) const fn of_engine(retry: windlass_hooks::cache::Retry) -> Retry {
    Retry { left: retry.left, interval: retry.interval }
}

/// An object as extensions get to see it.
pub(crate) fn view(object: &impl Serialize) -> Result<Object, ObjectError> {
    Object::from_typed(object).map(|object| object.in_place_view())
}
