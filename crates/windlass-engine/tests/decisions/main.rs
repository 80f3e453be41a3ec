//! Decisions as their callers see them: tables of cases, and small worlds in which the decisions of several controllers
//! interleave. One binary, because each one is linked on its own.

mod forecast;
mod in_place;
mod machine_set;
mod readiness;
mod rollout;
mod rollout_world;
mod take_over_writes;
mod topology_admission;
mod topology_desired;
mod topology_simulation;
mod worker_objects;
