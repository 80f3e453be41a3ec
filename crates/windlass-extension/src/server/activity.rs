//! Whether a connection is used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The calls on one connection. HTTP alone does not tell: a caller that keeps a connection open and sends
/// nothing, or half a request, occupies a place like one that works.
#[derive(Clone)]
pub(crate) struct Activity(Arc<Mutex<State>>);

struct State {
    in_flight: usize,
    idle_since: Instant,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { in_flight: 0, idle_since: Instant::now() })))
    }

    /// Counts a call until the guard is dropped.
    pub(crate) fn begin(&self) -> Call {
        self.state().in_flight += 1;
        Call(self.clone())
    }

    /// Waits until there was no call for that long, counted from now at the earliest.
    pub(crate) async fn idle_for(&self, duration: Duration) {
        let start = Instant::now();
        loop {
            let idle_until = {
                let state = self.state();
                let since = if state.in_flight == 0 { state.idle_since.max(start) } else { Instant::now() };
                since + duration
            };
            if idle_until <= Instant::now() {
                return;
            }
            sleep_until(idle_until).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is going on.
pub(crate) struct Call(Activity);

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_flight -= 1;
        state.idle_since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_connection_without_calls_becomes_idle() {
        let activity = Activity::new();
        let start = Instant::now();
        let call = activity.begin();
        let ends = async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(call);
        };
        tokio::join!(ends, activity.idle_for(Duration::from_secs(60)));
        assert!(start.elapsed() >= Duration::from_secs(160), "{:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(221), "{:?}", start.elapsed());
    }
}
