//! What a controller waits on: one value, with its evidence, which every view prints.
//!
//! A decision that does not act has a [`WaitingOn`]: what is waited on, and the evidence. A [`Wait`] is that value with
//! the time when it began, in a form that can be kept on the object that waits. Conditions, events, logs, `describe`,
//! the demo and metrics print its `what` and its `since`; nothing else makes words for a wait.
//!
//! # Since when
//!
//! `since` is when *this* wait began. It is not the age of a condition: the time of a condition moves when its status
//! does, and stays while one wait follows another. Two waits are the same if reason, object, hook and version are the
//! same. What the evidence says besides (the message of an extension, the checks that fail, the pods that are left) may
//! change without a new beginning.
//!
//! Where the evidence has a beginning of its own (a deletion that was asked for, a drain), that is it. Otherwise it is
//! when a reconcile first decided to wait for it, kept in the annotation [`WAITING_ON_ANNOTATION`] of the object that
//! waits. The annotation is written when the wait changes, not when it goes on, so that a wait costs no writes and a
//! restart loses nothing. That of a Machine is written when the wait has lasted for a minute: see `machine/since.rs`.

mod command;
mod display;
mod identity;
mod on;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use windlass_api::cluster::Cluster;
use windlass_api::conditions::TOPOLOGY_RECONCILED;
use windlass_api::conditions::reason::CLUSTER_UPGRADING;
use windlass_api::names::WAITING_ON_ANNOTATION;

use crate::condition::{self, to_the_second};
pub use display::Sentence;
pub use identity::ObjectName;
pub use on::{DeletionStep, HeldByHook, Retry, UPGRADE_HOLD_RETRY_SECONDS, WaitingOn};

/// A wait: what is waited on, since when, and how often it is tried again.
///
/// This is the value that is printed. As JSON it is the annotation of the object that waits, so its fields are a
/// contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// A word for programs, of [`WaitingOn::reason`].
    pub reason: String,
    /// What is waited on, in words.
    pub what: String,
    /// The objects that are waited on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectName>,
    /// The hook that is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// The handlers that are waited for, by their full names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<String>,
    /// The version that is waited for, or that the hook is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The step that needs an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// When this wait began.
    pub since: Time,
    /// How often it is tried again, if no event comes before. Nothing if only an event helps.
    ///
    /// This is the interval and not the time of the next try: that would be another write at every try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

impl Wait {
    /// The wait that is decided on now. It goes on if it is the one that was kept before.
    pub fn of(on: &WaitingOn, before: Option<&Self>, now: Timestamp) -> Self {
        let before = before.filter(|before| before.is_on(on)).map(|before| before.since.0);
        Self::since(on, on.began().or(before).unwrap_or(now))
    }

    /// A wait whose beginning is known.
    pub fn since(on: &WaitingOn, since: Timestamp) -> Self {
        Self {
            reason: on.reason().to_owned(),
            what: on.to_string(),
            objects: on.objects(),
            hook: on.hook().map(|hook| hook.name().to_owned()),
            handlers: on.handlers(),
            version: on.version().map(ToString::to_string),
            step: on.step().map(ToString::to_string),
            since: Time(to_the_second(since)),
            retry_after_seconds: on.interval().map(|interval| interval.as_secs()),
        }
    }

    /// Whether this is the wait for something, whatever else is known about it.
    pub fn is_on(&self, on: &WaitingOn) -> bool {
        self.reason == on.reason()
            && self.hook.as_deref() == on.hook().map(|hook| hook.name())
            && self.version == on.version().map(ToString::to_string)
            && self.step == on.step().map(ToString::to_string)
            && (on.is_of_many() || self.objects == on.objects())
    }

    /// Whether only the owner of the Cluster ends it: by an approval, or by removing an annotation.
    pub fn is_for_owner(&self) -> bool {
        identity::FOR_OWNER.contains(&self.reason.as_str())
    }

    /// Whether an upgrade that has not begun waits for rollouts from before.
    pub fn is_for_rollouts(&self) -> bool {
        self.reason == identity::ROLLOUTS_BEFORE
    }

    /// Whether machines are at work on it: nothing else has to be done but to let them. Of controllers that keep no wait, only
    /// what they say in a condition is known.
    pub fn is_for_machines(&self) -> bool {
        let is_told = self.reason == CLUSTER_UPGRADING && self.hook.is_none() && !self.what.contains("hook");
        identity::FOR_MACHINES.contains(&self.reason.as_str()) || is_told
    }

    /// Reads the wait that an object keeps. One that cannot be read counts as none: the wait then begins now.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Option<Self> {
        serde_json::from_str(annotations?.get(WAITING_ON_ANNOTATION)?).ok()
    }

    /// The wait of a topology, if it is the one of now. A wait that the condition `TopologyReconciled` does not tell of is
    /// not: the next write removes it, or another controller has taken the Cluster over.
    pub fn of_cluster(cluster: &Cluster) -> Option<Self> {
        let told = condition::find(&cluster.status.conditions, TOPOLOGY_RECONCILED)?;
        let wait = Self::read(cluster.metadata.annotations.as_ref())?;
        (told.status != "True" && told.message.contains(&wait.what)).then_some(wait)
    }

    /// The annotation that keeps the wait, if it has to be written: nothing if `annotations` have it already, and
    /// `Some(None)` if it has to be removed.
    pub fn change(
        wait: Option<&Self>,
        annotations: Option<&BTreeMap<String, String>>,
    ) -> Option<Option<String>> {
        let kept = annotations.and_then(|annotations| annotations.get(WAITING_ON_ANNOTATION));
        // Strings, numbers and times are JSON; they do not fail to be written as such.
        let wanted = wait.and_then(|wait| serde_json::to_string(wait).ok());
        (kept != wanted.as_ref()).then_some(wanted)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
