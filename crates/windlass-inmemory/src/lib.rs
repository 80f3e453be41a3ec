//! An infrastructure provider whose machines, Nodes and workload clusters exist in this process only.
//!
//! To the controllers it is a provider like any other: it keeps the contract, takes its time, and can fail. A DevCluster
//! becomes a small Kubernetes API of its own ([`WorkloadClusters`]), a DevMachine a Node in it. Knobs ([`knobs`]) make
//! things go wrong on purpose. What matters is written down in the Dev objects, so that after a restart the workload
//! clusters are built anew as they were.
//!
//! ```
//! use windlass_apiserver::Clock;
//! use windlass_inmemory::{Provider, Resolution};
//!
//! let provider = Provider::new(Clock::real(), 1);
//! // `provider.register(&manager)` starts its controllers together with all others.
//! let server = "https://c1.default.dev.windlass.internal:6443";
//! assert!(matches!(provider.workloads().resolve(server), Resolution::Down));
//! assert!(matches!(provider.workloads().resolve("https://10.0.0.1:6443"), Resolution::Elsewhere));
//! ```

mod cluster;
mod durations;
pub mod knobs;
mod machine;
mod pool;
mod provider;
mod startup;
mod workload;

pub use cluster::FINALIZER as CLUSTER_FINALIZER;
pub use durations::{DURATIONS_ANNOTATION, Durations, EVERY_GROUP, group_of};
pub use machine::FINALIZER as MACHINE_FINALIZER;
pub use pool::{FINALIZER as POOL_FINALIZER, INSTANCES_ANNOTATION, Instance, Instances};
pub use provider::{DevError, Provider};
pub use startup::{Draw, Part, Startup};
pub use workload::{DOMAIN, Kubelet, PORT, Resolution, WorkloadCluster, WorkloadClusters, WorkloadError};
