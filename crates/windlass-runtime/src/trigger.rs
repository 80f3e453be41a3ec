//! Reconciles that nothing in a cache asks for.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cause::Cause;
use crate::key::ObjectKey;
use crate::queues::Queues;

/// Asks for reconciles from outside of the caches, as a watch of another cluster does. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Trigger {
    targets: Arc<Mutex<Vec<Target>>>,
}

/// A controller by its number.
struct Target {
    queues: Arc<Queues>,
    number: usize,
}

impl Trigger {
    /// One without a controller, until a controller is [`triggered_by`](crate::ControllerBuilder::triggered_by) it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a reconcile of a key.
    pub fn fire(&self, key: &ObjectKey) {
        for target in self.targets.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            target.queues.add(target.number, key.clone(), Cause::Other);
        }
    }

    pub(crate) fn target(&self, queues: Arc<Queues>, number: usize) {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).push(Target { queues, number });
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("Trigger").field("targets", &targets).finish()
    }
}
