//! Answers that are good for a while.

mod blocking;
mod expiring;
mod responses;

pub use self::blocking::{BlockingCache, BlockingKey, ObjectKey, Waiting};
pub use self::expiring::ExpiringCache;
pub use self::responses::ResponseKey;
