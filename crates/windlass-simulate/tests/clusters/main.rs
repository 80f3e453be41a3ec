//! Whole clusters: what is brought up, upgraded, changed by users and read by other programs. One binary, because each one
//! links everything there is.

mod groups;
mod https;
mod in_place_https;
mod manifests;
mod mistakes;
mod readers;
mod refusals;
mod support;
mod topology;
mod upgrade;
mod world;

/// That of the `windlass` binary: simulations make and drop many small values, and end a fifth sooner with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
