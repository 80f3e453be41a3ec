//! The API over real connections.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod access;
mod hostile;
mod server;
