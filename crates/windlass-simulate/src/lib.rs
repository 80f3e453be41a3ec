//! Whole clusters in virtual time: the real controllers, the embedded API, the in-memory provider.
//!
//! A [`World`] is everything that `windlass up` runs, in one thread and under tokio's paused clock: hours pass in
//! milliseconds, and the same seed gives the same story. It can be killed at any write and started again, and
//! [`Observer`]s see every state that was ever written.

mod manifests;
mod population;
mod recorder;
mod waiting;
mod world;

pub use manifests::{ClusterManifests, Startup, WorkerGroup};
pub use population::{Bounds, Counts, Limits, Population, Step, StepEvent};
pub use recorder::{Observer, Violation, Written};
pub use world::{NotReached, Setup, Start, World, WorldError, WorldOptions, key};
