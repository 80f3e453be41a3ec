//! Decisions of the controllers, as pure functions: `decide(&observed, now) -> Decision`.
//!
//! Nothing here reads a clock, a network or a random number. A decision that does not act says what it waits
//! for, as a value with its evidence; text is made from it in one place, by `Display`.

pub mod admission;
mod annotated_strategy;
pub mod cluster;
pub mod cluster_resource_set;
pub mod condition;
mod condition_order;
pub mod contract;
pub mod control_plane;
pub mod describe;
pub mod external_update;
pub mod features;
mod hash;
pub mod health_check;
pub mod in_place;
pub mod legacy;
pub mod machine;
pub mod machine_pool;
pub mod machine_set;
pub mod pause;
pub mod pending_hooks;
pub mod progress;
pub mod readiness;
pub mod referenced;
pub mod rollout;
pub mod steer;
pub mod topology;
pub mod versions;
pub mod waiting;
