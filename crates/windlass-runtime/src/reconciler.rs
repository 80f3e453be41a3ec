//! What a controller is: a function from a key to writes, and to when it wants to be called again.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::context::Context;
use crate::key::ObjectKey;

/// Makes the world look as an object wants it, a little more with every call.
///
/// Implementations read caches, decide with a pure function, and write. They are called for one key at a time, and for
/// different keys at the same time. They keep nothing in memory that matters.
pub trait Reconciler: Send + Sync + 'static {
    /// Why a reconcile failed. A conflict of a write is no failure: it is tried again.
    type Error: Error + Send + Sync + 'static;

    /// Reconciles one object. It may be gone.
    fn reconcile(
        &self,
        key: &ObjectKey,
        context: &Context,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send;
}

/// What a reconcile wants next. Events about the object come in between in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub(crate) after: Option<Duration>,
    pub(crate) rest: Duration,
    pub(crate) is_routine: bool,
}

impl Outcome {
    /// Nothing, until something happens.
    pub fn done() -> Self {
        Self { after: None, rest: Duration::ZERO, is_routine: false }
    }

    /// To be called again after this time, if nothing happens before.
    pub fn after(wait: Duration) -> Self {
        Self { after: Some(wait), rest: Duration::ZERO, is_routine: false }
    }

    /// To be called again at this time, if there is one and nothing happens before; at once if it has passed, which it may
    /// while a reconcile is at work.
    pub fn at(time: Option<Timestamp>, now: Timestamp) -> Self {
        let left = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or(Duration::ZERO);
        time.map_or_else(Self::done, |time| Self::after(left(time)))
    }

    /// As [`after`](Self::after), but as a matter of routine, over and over: nothing is expected to come of it. A manager
    /// with nothing else to do has nothing left to do; see [`Idle`](crate::Idle).
    pub fn routinely(wait: Duration) -> Self {
        Self { is_routine: true, ..Self::after(wait) }
    }

    /// To be called again when the first of two outcomes wants it.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let after = match (self.after, other.after) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        // A wait for something that is expected counts, whichever of the two comes first.
        let mut waits = [self, other].into_iter().filter(|outcome| outcome.after.is_some());
        let is_routine = after.is_some() && waits.all(|outcome| outcome.is_routine);
        Self { after, rest: self.rest.max(other.rest), is_routine }
    }

    /// The same, but events wait until so much time has passed since this reconcile began, as
    /// [`pace`](crate::ControllerBuilder::pace) makes them: for an object that is more work than others of its kind.
    #[must_use]
    pub fn resting(self, interval: Duration) -> Self {
        Self { rest: interval, ..self }
    }

    /// When it wants to be called again.
    pub fn wait(&self) -> Option<Duration> {
        self.after
    }
}

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A reconciler whose types are forgotten.
pub(crate) trait AnyReconciler: Send + Sync {
    fn reconcile(
        self: Arc<Self>,
        key: ObjectKey,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send>>;
}

impl<R: Reconciler> AnyReconciler for R {
    fn reconcile(
        self: Arc<Self>,
        key: ObjectKey,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send>> {
        Box::pin(
            async move { Reconciler::reconcile(self.as_ref(), &key, &context).await.map_err(BoxError::from) },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_outcome_wins() {
        let (soon, late) = (Outcome::after(Duration::from_secs(1)), Outcome::after(Duration::from_secs(9)));
        assert_eq!(late.or(soon), soon);
        assert_eq!(Outcome::done().or(late), late);
        assert_eq!(Outcome::done().or(Outcome::done()), Outcome::done());
        let rest = Duration::from_secs(5);
        assert_eq!(Outcome::done().resting(rest).or(soon), soon.resting(rest));
    }

    #[test]
    fn a_time_that_has_passed_is_now() {
        let now = Timestamp::from_second(100).unwrap();
        let waits = [90, 100, 130].map(|at| Outcome::at(Timestamp::from_second(at).ok(), now).wait());
        assert_eq!(waits, [0, 0, 30].map(|left| Some(Duration::from_secs(left))));
        assert_eq!(Outcome::at(None, now), Outcome::done());
    }
}
