//! Answers that are good for a while.

mod expiring;
mod pace;
mod responses;

pub use self::expiring::ExpiringCache;
pub use self::pace::{
    FIRST_RETRY, LONGEST_WAIT, ObjectIdentity, Question, Retry, SLOWEST_RETRY, Waiting, retry_after,
};
pub(crate) use self::pace::{HandlerSet, Pace};
pub use self::responses::ResponseKey;
