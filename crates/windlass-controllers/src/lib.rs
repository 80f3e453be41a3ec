//! The controllers: each watches its objects, asks `windlass-engine` what to do, and does it.
//!
//! A controller here is a thin shell. What it decides is in `windlass-engine`, how it is run in
//! `windlass-runtime`.

pub mod admission;
pub mod bootstrap;
pub mod cluster;
pub mod cluster_resource_set;
pub mod control_plane;
pub mod conversion;
pub mod describe;
mod etcd_credentials;
pub mod extension_config;
pub mod external;
pub mod fleet;
pub mod health_check;
pub mod in_place;
pub mod machine;
pub mod machine_deployment;
pub mod machine_pool;
pub mod machine_set;
mod pause;
mod port_forward;
mod references;
mod status;
pub mod steer;
pub mod topology;
mod waits;
mod worker_group;
pub mod workload;
pub mod workload_nodes;
mod workload_objects;

pub use references::ReferrerError;
pub use status::StatusError;
pub use windlass_bootstrap::certificates;
