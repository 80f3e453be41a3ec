//! Runs controllers against a Kubernetes API, in real or in virtual time.
//!
//! A controller is a [`Reconciler`]: it reads [`Cache`]s, decides, and writes with the [`Writer`]s of its [`Context`].
//! A [`Manager`] runs any number of them on one `kube::Client`, be that a real cluster or the embedded API.
//!
//! - **Read your writes.** A key is reconciled again only when the caches show what its last reconcile wrote. So a
//!   decision made from caches never does a thing twice. If a write may or may not have happened, the kind is listed
//!   anew before.
//! - **Nothing is written twice.** [`Writer::ensure_applied`] takes a field manager, an intent and the object that was
//!   read, and writes only what is not up to date. What it remembers saves work; after a restart the object tells.
//! - **One at a time.** A key is never reconciled twice at once; different keys are. Failures back off per key, and what
//!   a reconcile that failed wrote itself does not hurry its next try.
//! - **Virtual time.** With [`Clock::starting_at`] under tokio's paused clock, on a current-thread runtime, hours pass
//!   at once, and the order of everything depends on the seed alone. [`Manager::idle`] tells that nothing will happen
//!   before a time.
//! - **Faults on purpose.** [`Faults`] fails writes, stops everything at a write, and holds events back; [`Layer`]s of it
//!   make watches, lists, reads and writes go wrong at a rate and for a while.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::Resource;
//! use serde_json::json;
//! use windlass_runtime::{Cache, Context, Manager, ObjectKey, Outcome, Reconciler, WriteError};
//!
//! /// Gives every ConfigMap a label.
//! struct Labels {
//!     maps: Cache<ConfigMap>,
//! }
//!
//! impl Reconciler for Labels {
//!     type Error = WriteError;
//!
//!     async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
//!         let Some(map) = self.maps.get(key) else { return Ok(Outcome::done()) };
//!         if map.meta().labels.is_none() {
//!             context.writer().patch(map.as_ref(), json!({"metadata": {"labels": {"seen": "yes"}}})).await?;
//!         }
//!         Ok(Outcome::done())
//!     }
//! }
//!
//! fn register(manager: &Manager) {
//!     let maps = manager.cache();
//!     manager.controller("labels", &maps).concurrency(4).register(Labels { maps: maps.clone() });
//! }
//! ```

mod applied;
mod cache;
mod cause;
mod conditional_patch;
mod context;
mod controller;
mod dispatch;
mod elsewhere;
mod events;
mod expectation;
mod faults;
mod intent;
mod key;
mod manager;
mod managers;
mod metrics;
mod queue;
mod queues;
mod reconciler;
mod sender;
mod shared;
mod trigger;
mod trouble;
mod user_agent;
mod write_error;
mod writer;

pub use applied::Applied;
pub use cache::{Cache, Lookup, SelectorError, WatchHealth};
pub use context::{Context, NoRandomness, WatchKindError, describe_error};
pub use controller::ControllerBuilder;
pub use elsewhere::elsewhere;
pub use events::EventType;
pub use faults::{Faults, Verb, Write, WriteFault};
pub use key::{GroupKind, ObjectKey};
pub use manager::{Ended, Manager, Options, Running};
pub use metrics::{ControllerMetrics, Failing};
pub use queue::Backoff;
pub use reconciler::{Outcome, Reconciler};
pub use shared::Idle;
pub use trigger::Trigger;
pub use trouble::{Layer, Trouble, Troubled, UnknownTrouble};
pub use user_agent::{AGENT, Named, named};
pub use windlass_api::identity::{
    Incomplete, controller_reference, generation_of, name_of, namespace_of, owner_reference, uid_of,
};
pub use windlass_clock::Clock;
pub use write_error::WriteError;
pub use writer::Writer;

/// What a kind must be to be cached and written: every type of `k8s_openapi`, every custom resource, and
/// `DynamicObject` are.
pub trait Kind:
    kube::Resource<DynamicType: Clone + std::fmt::Debug + Send + Sync + 'static>
    + Clone
    + std::fmt::Debug
    + serde::de::DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Kind for K where
    K: kube::Resource<DynamicType: Clone + std::fmt::Debug + Send + Sync + 'static>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static
{
}
