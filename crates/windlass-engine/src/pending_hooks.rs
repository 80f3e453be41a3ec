//! The hooks that are still to be called for an object.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_api::hooks::Hook;
use windlass_api::names::PENDING_HOOKS_ANNOTATION;

/// The hooks that are still to be called, as the `pending-hooks` annotation of a Cluster or a Machine keeps them.
///
/// Names that are not hooks are kept: the component that wrote them knows what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingHooks(BTreeSet<String>);

impl PendingHooks {
    /// Reads the annotation of an object.
    pub fn of(object: &ObjectMeta) -> Self {
        let annotation = object.annotations.as_ref().and_then(|all| all.get(PENDING_HOOKS_ANNOTATION));
        Self::parse(annotation.map(String::as_str))
    }

    /// Reads the value of the annotation. Order, repetitions and empty items do not matter.
    pub fn parse(annotation: Option<&str>) -> Self {
        let names = annotation.unwrap_or_default().split(',').map(str::trim);
        Self(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// The value of the annotation: sorted, joined with commas; none if no hook is pending.
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

    /// The same with a hook among them.
    #[must_use]
    pub fn with(mut self, hook: Hook) -> Self {
        self.insert(hook);
        self
    }

    /// The same without a hook.
    #[must_use]
    pub fn without(mut self, hook: Hook) -> Self {
        self.remove(hook);
        self
    }
}

impl FromIterator<Hook> for PendingHooks {
    fn from_iter<T: IntoIterator<Item = Hook>>(hooks: T) -> Self {
        Self(hooks.into_iter().map(|hook| hook.name().to_owned()).collect())
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

    #[test]
    fn pending_hooks_are_a_sorted_set() {
        let with =
            |annotation| PendingHooks::parse(annotation).with(Hook::UpdateMachine).annotation().unwrap();
        assert_eq!(with(None), "UpdateMachine");
        assert_eq!(with(Some("Zeta, AfterX")), "AfterX,UpdateMachine,Zeta");
        assert_eq!(with(Some("UpdateMachine")), "UpdateMachine");
    }

    #[test]
    fn what_others_wait_for_on_a_machine_stays() {
        let annotations = [(PENDING_HOOKS_ANNOTATION.to_owned(), "Other, UpdateMachine".to_owned())];
        let machine = ObjectMeta { annotations: Some(annotations.into()), ..ObjectMeta::default() };
        assert!(PendingHooks::of(&machine).contains(Hook::UpdateMachine));
        let left = PendingHooks::of(&machine).without(Hook::UpdateMachine);
        assert_eq!(left.annotation().as_deref(), Some("Other"));
        assert_eq!(PendingHooks::of(&ObjectMeta::default()).without(Hook::UpdateMachine).annotation(), None);
    }
}
