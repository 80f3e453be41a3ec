//! Lifecycle hooks as values: which are pending, which is to be called, what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use windlass_api::hooks::Hook;
use windlass_version::Version;

use super::waiting::{HeldByHook, WaitingOn};

/// The hooks that are still to be called, as the `pending-hooks` annotation keeps them.
///
/// Names that are not hooks are kept: whoever wrote them knows what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingHooks(BTreeSet<String>);

impl PendingHooks {
    /// Reads the annotation. Order, repetitions and empty items do not matter.
    pub fn parse(annotation: Option<&str>) -> Self {
        let names = annotation.unwrap_or_default().split(',').map(str::trim);
        Self(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// The annotation: sorted, joined with commas; nothing if no hook is pending.
    pub fn annotation(&self) -> Option<String> {
        let names: Vec<&str> = self.0.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// Whether a hook is pending.
    pub fn contains(&self, hook: Hook) -> bool {
        self.0.contains(hook.name())
    }

    /// Marks a hook.
    pub fn insert(&mut self, hook: Hook) {
        self.0.insert(hook.name().to_owned());
    }

    /// Takes a mark away.
    pub fn remove(&mut self, hook: Hook) {
        self.0.remove(hook.name());
    }
}

impl FromIterator<Hook> for PendingHooks {
    fn from_iter<T: IntoIterator<Item = Hook>>(hooks: T) -> Self {
        Self(hooks.into_iter().map(|hook| hook.name().to_owned()).collect())
    }
}

/// A hook that must be called before anything else is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCall {
    /// Which hook.
    pub hook: Hook,
    /// `fromKubernetesVersion`, for hooks that have it.
    pub from: Option<Version>,
    /// `toKubernetesVersion` or `kubernetesVersion`, for hooks that have either.
    pub to: Option<Version>,
    /// Control plane versions that remain.
    pub control_plane_plan: Vec<Version>,
    /// Worker versions that remain, over all groups.
    pub workers_plan: Vec<Version>,
}

impl HookCall {
    /// A call of a hook that is not about versions.
    pub fn bare(hook: Hook) -> Self {
        Self { hook, from: None, to: None, control_plane_plan: Vec::new(), workers_plan: Vec::new() }
    }

    /// The versions that the call is about: a wait for one pair of versions says nothing about another.
    pub fn versions(&self) -> Vec<String> {
        self.from.iter().chain(&self.to).map(Version::to_string).collect()
    }
}

impl fmt::Display for HookCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{} {from} -> {to}", self.hook),
            (None, Some(version)) | (Some(version), None) => write!(f, "{} {version}", self.hook),
            (None, None) => write!(f, "{}", self.hook),
        }
    }
}

/// What calling a hook came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// Every handler let it pass, or there is none.
    Passed,
    /// A handler asks to wait.
    Blocked {
        /// When to ask again; never 0.
        retry_after_seconds: u32,
        /// What the handlers said.
        message: String,
    },
    /// A handler failed. Versions stay as they are until it is repaired.
    Failed {
        /// What went wrong.
        error: String,
    },
}

/// The answers of one reconcile. Every hook is called once at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswers(BTreeMap<Hook, HookAnswer>);

impl HookAnswers {
    /// Nothing was called yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an answer.
    pub fn insert(&mut self, hook: Hook, answer: HookAnswer) {
        self.0.insert(hook, answer);
    }
}

/// The hooks while a decision is made: what was answered, what is still pending, what holds something.
pub(super) struct HookLedger<'a> {
    answers: &'a HookAnswers,
    pub(super) pending: PendingHooks,
    pub(super) held: Vec<WaitingOn>,
}

impl<'a> HookLedger<'a> {
    pub(super) fn new(pending: PendingHooks, answers: &'a HookAnswers) -> Self {
        Self { answers, pending, held: Vec::new() }
    }

    /// Whether a hook lets pass. `Err` is the call to make before that is known.
    pub(super) fn passes(&mut self, call: HookCall) -> Result<bool, Box<HookCall>> {
        let hook = call.hook;
        let waiting = match self.answers.0.get(&hook) {
            None => return Err(Box::new(call)),
            Some(HookAnswer::Passed) => return Ok(true),
            Some(HookAnswer::Blocked { retry_after_seconds, message }) => WaitingOn::Hook(HeldByHook {
                hook,
                from: call.from,
                to: call.to,
                message: message.clone(),
                retry_after_seconds: *retry_after_seconds,
            }),
            Some(HookAnswer::Failed { error }) => WaitingOn::HookFailed { hook, error: error.clone() },
        };
        self.held.push(waiting);
        Ok(false)
    }

    /// As [`passes`](Self::passes) for a pending hook, which is no longer pending once it passes.
    pub(super) fn settles(&mut self, call: HookCall) -> Result<bool, Box<HookCall>> {
        let hook = call.hook;
        let passes = self.passes(call)?;
        if passes {
            self.pending.remove(hook);
        }
        Ok(passes)
    }

    /// What a hook holds in this reconcile, if it does.
    pub(super) fn held_by(&self, hook: Hook) -> Option<&WaitingOn> {
        self.held.iter().find(|waiting| waiting.hook() == Some(hook))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_is_sorted_and_goes_when_nothing_is_pending() {
        let mut pending = PendingHooks::parse(Some("BeforeWorkersUpgrade,,AfterClusterUpgrade, Custom"));
        assert!(pending.contains(Hook::AfterClusterUpgrade) && pending.contains(Hook::BeforeWorkersUpgrade));
        pending.insert(Hook::AfterControlPlaneUpgrade);
        pending.insert(Hook::AfterControlPlaneUpgrade);
        assert_eq!(
            pending.annotation().as_deref(),
            Some("AfterClusterUpgrade,AfterControlPlaneUpgrade,BeforeWorkersUpgrade,Custom")
        );
        for hook in [Hook::AfterClusterUpgrade, Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade] {
            pending.remove(hook);
        }
        assert_eq!(pending.annotation().as_deref(), Some("Custom"));
        assert_eq!(PendingHooks::parse(None).annotation(), None);
    }
}
