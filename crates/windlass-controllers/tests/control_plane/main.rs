//! Control planes on the embedded API, in virtual time.
#![expect(clippy::unwrap_used, reason = "test helpers are outside of test functions")]

mod etcd;
mod lifecycle;
mod provider;
mod rollout;
mod trouble;
mod world;
