//! A map whose entries go away after a while.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Below this many entries nothing is swept: looking for expired ones would cost more than they do.
const SMALLEST_SWEEP: usize = 64;

/// Values that expire, by tokio's clock: under a paused one, hours pass at once. Nothing is returned after its time; its
/// memory is freed when the map has doubled.
pub struct ExpiringCache<K, V> {
    entries: Mutex<Entries<K, V>>,
}

struct Entries<K, V> {
    map: BTreeMap<K, (Instant, V)>,
    sweep_at: usize,
}

impl<K: Ord, V: Clone> Default for ExpiringCache<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V: Clone> ExpiringCache<K, V> {
    /// An empty cache.
    pub fn new() -> Self {
        Self { entries: Mutex::new(Entries { map: BTreeMap::new(), sweep_at: SMALLEST_SWEEP }) }
    }

    /// The value of a key, if its time is not over, and how long it has left.
    pub fn get_with_rest<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(V, Duration)>
    where
        K: Borrow<Q>,
    {
        let now = Instant::now();
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (expires, value) = entries.map.get(key)?;
        (*expires > now).then(|| (value.clone(), *expires - now))
    }

    /// The value of a key, if its time is not over.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get_with_rest(key).map(|(value, _)| value)
    }

    /// Keeps a value for a while.
    pub fn insert(&self, key: K, value: V, keep: Duration) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.map.len() >= entries.sweep_at {
            entries.map.retain(|_, (expires, _)| *expires > now);
            entries.sweep_at = SMALLEST_SWEEP.max(2 * entries.map.len());
        }
        entries.map.insert(key, (now + keep, value));
    }

    /// Forgets a key.
    pub fn remove<Q: Ord + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).map.remove(key);
    }
}

impl<K, V> fmt::Debug for ExpiringCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "ExpiringCache({} entries)", entries.map.len())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn values_are_there_until_their_time_is_over() {
        let cache = ExpiringCache::new();
        cache.insert("a", 1, Duration::from_secs(10));
        advance(Duration::from_millis(9_999)).await;
        assert_eq!(cache.get_with_rest("a"), Some((1, Duration::from_millis(1))));
        advance(Duration::from_millis(1)).await;
        assert_eq!(cache.get("a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_values_do_not_pile_up() {
        let cache = ExpiringCache::new();
        for number in 0..1_000 {
            cache.insert(number, (), Duration::from_secs(1));
            advance(Duration::from_secs(1)).await;
        }
        assert!(cache.entries.lock().unwrap().map.len() <= SMALLEST_SWEEP);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_forgotten_alone() {
        let cache = ExpiringCache::new();
        cache.insert("a", 1, Duration::from_secs(10));
        cache.insert("b", 2, Duration::from_secs(10));
        cache.remove("a");
        assert_eq!((cache.get("a"), cache.get("b")), (None, Some(2)));
    }
}
