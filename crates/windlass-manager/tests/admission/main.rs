//! Every rule of admission, kept and broken: asked in the process by the embedded API, and over HTTP with reviews as a
//! kube-apiserver sends them. Both must say the same.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

mod api;
mod classes;
mod clusters;
mod defaults;
mod extensions;
mod machines;
mod objects;
mod versions;
