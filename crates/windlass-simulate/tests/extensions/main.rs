//! Extensions and the topology: what they are asked, when, and what their answers do. Extensions are real ones, in the
//! process or behind HTTPS.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod burst;
mod cluster;
mod https;
mod lifecycle;
mod pace;
mod patches;
mod plans;
mod recorder;
mod registration;
mod requests;
mod waiting;
mod wire;
