//! KubeadmControlPlane: one change at a time, and never one that costs the quorum.
//!
//! [`decide`] takes what was observed and answers with the next [`Step`]: an [`Action`], a typed reason to wait
//! ([`WaitingOn`](crate::waiting::WaitingOn)), or nothing to do. A control plane does one disruptive thing at a time;
//! what comes after it is decided again from what is then observed, so nothing is remembered between two decisions.
//!
//! - [`observe`]: what is looked at, from the objects of the API
//! - [`desired`]: the Machines that are made, and what of them is kept in step without a rollout
//! - [`outdated`]: which Machines need a rollout, and why
//! - [`kubeadm_config`]: when two bootstrap configurations are the same
//! - [`preflight`]: what must be true before a Machine is added, removed or updated
//! - [`placement`]: failure domain of the next Machine, and which Machine goes first
//! - [`etcd`]: whether a member can go
//! - [`remediation`]: replacing one unhealthy Machine
//! - [`admission`]: what a control plane must not say
//! - [`conditions`]: counters and conditions

pub mod admission;
pub mod conditions;
mod decide;
pub mod desired;
pub mod etcd;
pub mod kubeadm_config;
pub mod observe;
pub mod observed;
pub mod outdated;
pub mod placement;
pub mod preflight;
pub mod remediation;
mod rollout;

#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod in_place_tests;
#[cfg(test)]
mod remediation_tests;
#[cfg(test)]
mod world_tests;

pub use decide::{Action, Decision, DeleteReason, JoinReason, Step, decide};
pub use etcd::{Etcd, EtcdMember, UnsafeRemoval};
pub use observed::{Component, Health, MachineDeletion, Observed, ObservedMachine, Strategy, TopologyStep};
pub use outdated::OutdatedReason;
pub use preflight::{Operation, PreflightFailure};
pub use remediation::{RemediationBlock, RemediationOutcome, RemediationPolicy, RemediationRecord};
