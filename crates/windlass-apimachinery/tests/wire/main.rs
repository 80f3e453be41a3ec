//! Our answers beside those of a real kube-apiserver, taken from the transcripts of the specification.
//!
//! A checkout may lack the transcripts, which are not ours to copy. Then these tests say so and pass.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops")]

mod builtin;
mod errors;
mod server;
mod ssa;
mod transcript;
