//! Blocking answers: a handler that said "ask again in five minutes" is not asked before.

use std::time::Duration;

use windlass_api::Object;
use windlass_api::hooks::{Hook, HookType};

use super::ExpiringCache;

/// No wait is remembered for longer, whatever an extension says.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Remembers which hooks hold which objects, and until when.
#[derive(Debug, Default)]
pub struct BlockingCache {
    waits: ExpiringCache<BlockingKey, (u64, Waiting)>,
}

/// What a hook was called about.
///
/// Versions are part of it: a wait before the upgrade to v1.32 says nothing about the upgrade to v1.33, which
/// the user may have asked for in the meantime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockingKey {
    object: ObjectKey,
    hook: Hook,
    versions: Vec<String>,
}

impl BlockingKey {
    /// The key of a call, with the versions that it is about, for example from and to.
    pub fn new<H: HookType>(
        object: ObjectKey,
        versions: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self { object, hook: H::HOOK, versions: versions.into_iter().map(Into::into).collect() }
    }

    /// What the call is about.
    pub fn object(&self) -> &ObjectKey {
        &self.object
    }
}

/// An object, not to be mistaken for one of the same name that was created after it was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Identity of the object.
    pub uid: String,
}

impl ObjectKey {
    /// The key of an object.
    pub fn of(object: &Object) -> Self {
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        Self {
            kind: text(object.kind()),
            namespace: text(object.namespace()),
            name: text(object.name()),
            uid: text(object.uid()),
        }
    }
}

/// A wait that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Whole seconds until the hook is to be called again, at least 1.
    pub retry_after_seconds: u32,
    /// What the handlers asked for when they were called: unlike the time until then, it does not get less.
    pub interval_seconds: u32,
    /// The handlers that asked to wait, by their full names.
    pub handlers: Vec<String>,
    /// What the handlers said that they wait for.
    pub message: String,
}

impl BlockingCache {
    /// Nothing waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a hook holds an object now. `epoch` tells sets of handlers apart: when that changes, the wait
    /// is over, so that a user who deletes the extension that blocks sees it pass.
    pub fn waiting(&self, key: &BlockingKey, epoch: u64) -> Option<Waiting> {
        let ((remembered, waiting), rest) = self.waits.get_with_rest(key)?;
        if remembered != epoch {
            return None;
        }
        // Rounded up: rounding down would call before the time that the handler asked for.
        let seconds = rest.as_secs() + u64::from(rest.subsec_nanos() > 0);
        let retry_after_seconds = u32::try_from(seconds.max(1)).unwrap_or(u32::MAX);
        Some(Waiting { retry_after_seconds, ..waiting })
    }

    /// Remembers a wait.
    pub fn remember(&self, key: BlockingKey, epoch: u64, waiting: Waiting) {
        let wait = Duration::from_secs(waiting.retry_after_seconds.into()).min(LONGEST_WAIT);
        self.waits.insert(key, (epoch, waiting), wait);
    }

    /// Forgets all waits of an object, for example because the user changed it.
    pub fn forget(&self, object: &ObjectKey) {
        self.waits.retain(|key| key.object != *object);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use windlass_api::hooks::{BeforeClusterUpgrade, BeforeWorkersUpgrade};

    use super::*;

    fn object(uid: &str) -> ObjectKey {
        ObjectKey { kind: "Cluster".into(), namespace: "ns1".into(), name: "c1".into(), uid: uid.into() }
    }

    fn key(to: &str) -> BlockingKey {
        BlockingKey::new::<BeforeClusterUpgrade>(object("u1"), ["v1.31.0", to])
    }

    fn wait(retry_after_seconds: u32) -> Waiting {
        rest_of(retry_after_seconds, retry_after_seconds)
    }

    fn rest_of(interval_seconds: u32, retry_after_seconds: u32) -> Waiting {
        let handlers = vec!["backup.e".to_owned()];
        Waiting { retry_after_seconds, interval_seconds, handlers, message: "backup".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_wait_is_reported_in_whole_seconds() {
        let cache = BlockingCache::new();
        cache.remember(key("v1.32.0"), 0, wait(30));
        for (milliseconds, rest) in [(0, 30), (1, 30), (999, 29), (28_000, 1), (999, 1)] {
            advance(Duration::from_millis(milliseconds)).await;
            assert_eq!(
                cache.waiting(&key("v1.32.0"), 0),
                Some(rest_of(30, rest)),
                "after {milliseconds} ms more"
            );
        }
        advance(Duration::from_millis(1)).await;
        assert_eq!(cache.waiting(&key("v1.32.0"), 0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_for_one_hook_one_object_and_one_pair_of_versions() {
        let cache = BlockingCache::new();
        cache.remember(key("v1.32.0"), 7, wait(30));
        assert_eq!(cache.waiting(&key("v1.33.0"), 7), None);
        let other_hook = BlockingKey::new::<BeforeWorkersUpgrade>(object("u1"), ["v1.31.0", "v1.32.0"]);
        assert_eq!(cache.waiting(&other_hook, 7), None);
        let recreated = BlockingKey::new::<BeforeClusterUpgrade>(object("u2"), ["v1.31.0", "v1.32.0"]);
        assert_eq!(cache.waiting(&recreated, 7), None);
        assert_eq!(cache.waiting(&key("v1.32.0"), 8), None, "the handlers have changed");
        assert_eq!(cache.waiting(&key("v1.32.0"), 7), Some(wait(30)));
        cache.forget(&object("u2"));
        assert_eq!(cache.waiting(&key("v1.32.0"), 7), Some(wait(30)));
        cache.forget(&object("u1"));
        assert_eq!(cache.waiting(&key("v1.32.0"), 7), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_wait_is_longer_than_a_day() {
        let cache = BlockingCache::new();
        cache.remember(key("v1.32.0"), 0, wait(u32::MAX));
        assert_eq!(cache.waiting(&key("v1.32.0"), 0), Some(rest_of(u32::MAX, 24 * 60 * 60)));
    }
}
