//! Which machines of a MachineSet may be out of step with it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_runtime::ObjectKey;

/// Machines that changed since their MachineSet was brought in step with them, in themselves or in a part. A set of
/// thousands is then not gone through because of one.
///
/// It only saves work: what is not known is out of step. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct OutOfStep(Arc<Mutex<BTreeMap<ObjectKey, Known>>>);

#[derive(Debug)]
struct Known {
    /// What the machines were brought in step with.
    basis: u64,
    changed: BTreeSet<String>,
}

/// What has to be gone through.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unsynced {
    All,
    Only(BTreeSet<String>),
}

impl Unsynced {
    pub(super) fn contains(&self, machine: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(machine),
        }
    }
}

impl OutOfStep {
    /// A machine of these sets has changed.
    pub(super) fn note(&self, sets: &[ObjectKey], machine: &str) {
        let mut known = self.lock();
        for set in sets {
            if let Some(known) = known.get_mut(set) {
                known.changed.insert(machine.to_owned());
            }
        }
    }

    /// What is out of step with a set that asks for `basis` now. Until [`OutOfStep::forget`] is called it counts as
    /// brought in step.
    pub(super) fn begin(&self, set: &ObjectKey, basis: u64) -> Unsynced {
        match self.lock().get_mut(set) {
            Some(known) if known.basis == basis => return Unsynced::Only(mem::take(&mut known.changed)),
            Some(known) => *known = Known { basis, changed: BTreeSet::new() },
            None => {}
        }
        self.lock().entry(set.clone()).or_insert(Known { basis, changed: BTreeSet::new() });
        Unsynced::All
    }

    /// Nothing is known of a set any more: it is gone, or it could not be gone through.
    pub(super) fn forget(&self, set: &ObjectKey) {
        self.lock().remove(set);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    #[test]
    fn only_what_changed_is_gone_through_unless_the_set_changed() {
        let (out_of_step, set) = (OutOfStep::default(), ObjectKey::new("n", "s"));
        out_of_step.note(slice::from_ref(&set), "m1");
        assert_eq!(out_of_step.begin(&set, 1), Unsynced::All, "nothing is known yet");
        assert_eq!(out_of_step.begin(&set, 1), Unsynced::Only(BTreeSet::new()));
        out_of_step.note(slice::from_ref(&set), "m2");
        let unsynced = out_of_step.begin(&set, 1);
        assert!(unsynced.contains("m2") && !unsynced.contains("m1"));
        assert_eq!(out_of_step.begin(&set, 2), Unsynced::All, "another basis");
        assert_eq!(out_of_step.begin(&set, 2), Unsynced::Only(BTreeSet::new()));
        out_of_step.forget(&set);
        assert_eq!(out_of_step.begin(&set, 2), Unsynced::All);
    }
}
