//! KubeadmConfigs on the embedded API, in virtual time: certificates, init lock, tokens, data, conditions, crashes.
#![expect(clippy::unwrap_used, reason = "test helpers are outside of test functions")]

mod crash;
mod init;
mod join;
mod world;
