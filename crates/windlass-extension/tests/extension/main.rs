//! The server as callers see it: over real TLS sockets, and the examples as real processes.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod calls;
mod connections;
mod discovery;
mod examples;
mod support;
mod tls;
