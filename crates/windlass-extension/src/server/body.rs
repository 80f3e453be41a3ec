//! Reading the body of a request, within bounds.

use std::fmt::Display;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::MAX_BODY_BYTES;
use crate::answer::TOO_LARGE;

/// How much of a body that is too large is read and thrown away. A caller that is still sending when the
/// connection closes may never see the answer that tells it why.
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;
/// Not more than this is set aside because a header promises that so much will come.
const MAX_PROMISED_BYTES: usize = 64 * 1024;
/// The budget is counted in these.
const UNIT_BYTES: usize = 1024;

/// Reads a body that is complete at that time. What it takes from the budget is to be held as long as the
/// body is.
///
/// # Errors
///
/// The message of the failure to answer.
pub(crate) async fn read<B>(body: B, budget: &Budget, until: Instant) -> Result<(Bytes, Held), String>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    match timeout_at(until, collect(body, budget)).await {
        Ok(result) => result,
        Err(_) => Err("request could not be read: the body did not arrive in time".to_owned()),
    }
}

async fn collect<B>(mut body: B, budget: &Budget) -> Result<(Bytes, Held), String>
where
    B: Body<Data = Bytes, Error: Display> + Unpin,
{
    let promised = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut collected = BytesMut::with_capacity(promised.min(MAX_PROMISED_BYTES));
    let mut held = Held::default();
    let mut seen = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("request could not be read: {error}"))?;
        let Some(data) = frame.data_ref() else { continue };
        seen = seen.saturating_add(data.len());
        if seen > MAX_DISCARDED_BYTES {
            break;
        } else if seen > MAX_BODY_BYTES {
            (collected, held) = (BytesMut::new(), Held::default());
        } else {
            budget.reserve(&mut held, seen).await;
            collected.extend_from_slice(data);
        }
    }
    if seen > MAX_BODY_BYTES { Err(TOO_LARGE.to_owned()) } else { Ok((collected.freeze(), held)) }
}

/// The memory for the bodies of all calls. Without it, a few hundred callers that each send as much as one
/// may would together take as much as there is.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Budget {
    /// At least one body of the largest size fits, or it could never be read.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = bytes.max(MAX_BODY_BYTES).div_ceil(UNIT_BYTES);
        Self(Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS))))
    }

    /// Waits until there is enough for that many bytes, given what is held already.
    async fn reserve(&self, held: &mut Held, bytes: usize) {
        let missing = bytes.div_ceil(UNIT_BYTES).saturating_sub(held.units());
        let Ok(missing @ 1..) = u32::try_from(missing) else { return };
        // The semaphore is never closed.
        if let Ok(more) = Arc::clone(&self.0).acquire_many_owned(missing).await {
            match &mut held.0 {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
        }
    }
}

/// A share of the budget, given back when it is dropped.
#[derive(Default)]
pub(crate) struct Held(Option<OwnedSemaphorePermit>);

impl Held {
    fn units(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::Full;

    use super::*;

    const MIB: usize = 1024 * 1024;

    fn body(bytes: usize) -> Full<Bytes> {
        Full::new(Bytes::from(vec![b' '; bytes]))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_until_there_is_memory_for_it() {
        let budget = Budget::new(0);
        let (_, held) = read(body(19 * MIB), &budget, soon()).await.unwrap();
        assert!(read(body(MIB), &budget, soon()).await.is_ok());
        let late = read(body(2 * MIB), &budget, soon()).await.map(drop);
        assert_eq!(late, Err("request could not be read: the body did not arrive in time".to_owned()));
        drop(held);
        assert!(read(body(20 * MIB), &budget, soon()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_too_large_takes_nothing_from_the_others() {
        let budget = Budget::new(0);
        let large = read(body(MAX_BODY_BYTES + 1), &budget, soon()).await.map(drop);
        assert_eq!(large, Err(TOO_LARGE.to_owned()));
        assert!(read(body(MAX_BODY_BYTES), &budget, soon()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_body_takes_nothing() {
        let (bytes, held) = read(body(0), &Budget::new(0), soon()).await.unwrap();
        assert_eq!((bytes.len(), held.units()), (0, 0));
    }
}
