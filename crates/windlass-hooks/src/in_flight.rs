//! How many calls one extension gets at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls of one extension that may be under way at the same time. Enough that an extension which answers in a tenth of a
/// second is asked 160 times a second; few enough that one which is slow is not sent hundreds of requests at once, and
/// that this process does not keep hundreds of connections to it.
pub(crate) const IN_FLIGHT: usize = 16;

/// The calls that are under way, by extension: one that is slow holds up no other.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<BTreeMap<String, Arc<Semaphore>>>);

impl InFlight {
    /// Waits for its turn, first come, first served. The time that this takes is none of the call.
    pub(crate) async fn turn(&self, extension: &str) -> Option<OwnedSemaphorePermit> {
        let calls = {
            let mut extensions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those of extensions that are gone are not kept.
            if !extensions.contains_key(extension) {
                extensions.retain(|_, calls| calls.available_permits() < IN_FLIGHT);
            }
            let new = || Arc::new(Semaphore::new(IN_FLIGHT));
            Arc::clone(extensions.entry(extension.to_owned()).or_insert_with(new))
        };
        // Never closed.
        calls.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_extension_has_so_many_calls_and_another_as_many_beside_it() {
        let in_flight = InFlight::default();
        let mut turns = Vec::new();
        for _ in 0..IN_FLIGHT {
            turns.push(in_flight.turn("slow").await);
        }
        let moment = std::time::Duration::from_secs(1);
        assert!(tokio::time::timeout(moment, in_flight.turn("slow")).await.is_err(), "it has no more");
        assert!(tokio::time::timeout(moment, in_flight.turn("other")).await.is_ok());
        turns.pop();
        assert!(tokio::time::timeout(moment, in_flight.turn("slow")).await.is_ok(), "one has ended");
        assert!(in_flight.0.lock().unwrap().contains_key("slow"), "it is in use");
        drop(turns);
        drop(in_flight.turn("third").await);
        assert!(!in_flight.0.lock().unwrap().contains_key("slow"), "it is not in use any more");
    }
}
