//! The clock that caches expire by.

use tokio::time::Instant;

/// Tells the time. Injected, so that hours pass in a test or a simulation without waiting.
pub trait Clock: Send + Sync + 'static {
    /// Now. Never goes back.
    fn now(&self) -> Instant;
}

/// The runtime's clock, which can be paused.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        Instant::now()
    }
}
