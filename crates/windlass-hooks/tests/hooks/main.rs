//! The client against servers that behave, and against servers that do not. Network tests use real sockets
//! and real TLS on the loopback interface.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]

mod caches;
mod calls;
mod certificates;
mod discovery;
mod https;
mod recording;
mod server;
mod setup;
mod tls;
mod traces;
