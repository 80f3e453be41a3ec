//! When a hook may be called again: a handler that said "ask again in five minutes" is not asked before, and one that
//! failed is asked again after a time that doubles.
//!
//! Reconciles come for many reasons, and most of them are none to call a hook again. What is: the time is over, the
//! handlers of the hook have changed, or the user has edited the object that the hook is about.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::SignedDuration;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use windlass_api::hooks::{Hook, HookType};
use windlass_api::{Object, RegisteredName};

use super::ExpiringCache;
use crate::error::CallError;

/// No wait is longer, whatever an extension asks for: an extension that has changed its mind is asked again on the same
/// day, without a restart or an edit.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// The time after the first failure. It doubles with every further one.
pub const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The time after many failures: soon enough for an extension that is repaired, and not much to do for one that is not.
pub const SLOWEST_RETRY: Duration = Duration::from_secs(60);
/// How long failures are counted after the time of the next try. Without a try in that time the count starts again.
const COUNT_FAILURES_FOR: Duration = Duration::from_secs(10 * 60);

/// Remembers which hooks must not be called yet.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    entries: ExpiringCache<Subject, Entry>,
}

/// What a hook is called about, and in which edition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    subject: Subject,
    edition: String,
}

/// Versions are part of it: a wait before the upgrade to v1.32 says nothing about the upgrade to v1.33, which the user
/// may have asked for in the meantime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    object: ObjectIdentity,
    hook: Hook,
    about: Vec<String>,
}

#[derive(Clone, Debug)]
struct Entry {
    edition: String,
    handlers: HandlerSet,
    until: Instant,
    /// Failures in a row; 0 if the handlers asked to wait.
    failures: u32,
    verdict: Verdict,
}

#[derive(Clone, Debug)]
enum Verdict {
    Waiting(Waiting),
    Failed(CallError),
}

/// The handlers of a hook, each with the number of the last change of its extension.
pub(crate) type HandlerSet = Vec<(RegisteredName, u64)>;

impl Question {
    /// What a hook is called about: an object, and for example the versions from and to.
    pub fn new<H: HookType>(
        object: ObjectIdentity,
        about: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let about = about.into_iter().map(Into::into).collect();
        Self { subject: Subject { object, hook: H::HOOK, about }, edition: String::new() }
    }

    /// What a handler is asked in a request that holds nothing that changes by itself, such as a status: the same content is
    /// the same question, and an edit makes it another one.
    pub fn of_content<H: HookType>(handler: &str, content: &impl Serialize) -> Self {
        // What cannot be written as JSON fails in the call.
        let content = serde_json::to_vec(content).unwrap_or_default();
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        Self::new::<H>(ObjectIdentity::default(), [handler, hash.as_str()])
    }

    /// What the user has written into the object. When it changes, the hook is called at once: what was answered about
    /// another edition counts no more.
    #[must_use]
    pub fn in_edition(mut self, edition: impl Into<String>) -> Self {
        self.edition = edition.into();
        self
    }

    /// What the call is about.
    pub fn object(&self) -> &ObjectIdentity {
        &self.subject.object
    }

    pub(crate) fn hook(&self) -> Hook {
        self.subject.hook
    }
}

/// An object, not to be mistaken for one of the same name that was created after it was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectIdentity {
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Identity of the object.
    pub uid: String,
}

impl ObjectIdentity {
    /// The identity of an object in a request. A request that was not made from a stored object may lack parts of it.
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

/// When a hook is called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// From now on. It gets less, so it belongs into no message.
    pub left: Duration,
    /// From the last call on: the same until the next call.
    pub interval: Duration,
}

impl Retry {
    const fn after(interval: Duration) -> Self {
        Self { left: interval, interval }
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interval = SignedDuration::try_from(self.interval).unwrap_or(SignedDuration::MAX);
        write!(f, "after {interval:#}")
    }
}

/// A wait that handlers asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// When the hook is called again.
    pub retry: Retry,
    /// What the handlers asked for, which may be more than [`LONGEST_WAIT`].
    pub asked_seconds: u32,
    /// The handlers that asked to wait, by their full names.
    pub handlers: Vec<String>,
    /// What the handlers said that they wait for.
    pub message: String,
}

impl Waiting {
    pub(crate) fn new(asked_seconds: u32, handlers: Vec<String>, message: String) -> Self {
        let retry = Retry::after(Duration::from_secs(asked_seconds.into()).min(LONGEST_WAIT));
        Self { retry, asked_seconds, handlers, message }
    }
}

impl Pace {
    /// Nothing waits.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// What was said last, if the hook must not be called yet.
    ///
    /// # Errors
    ///
    /// The last call failed, and it is too early for the next.
    pub(crate) fn early(
        &self,
        question: &Question,
        handlers: &HandlerSet,
    ) -> Result<Option<Waiting>, CallError> {
        let Some(entry) = self.entry(question, handlers) else { return Ok(None) };
        let left = entry.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        match entry.verdict {
            Verdict::Waiting(waiting) => {
                Ok(Some(Waiting { retry: Retry { left, ..waiting.retry }, ..waiting }))
            }
            Verdict::Failed(CallError::Delayed { error, retry }) => {
                Err(CallError::Delayed { error, retry: Retry { left, ..retry } })
            }
            Verdict::Failed(error) => Err(error),
        }
    }

    /// Remembers the wait that the handlers ask for. If they ask for none the hook has passed, and what they said before is
    /// forgotten.
    pub(crate) fn answered(&self, question: &Question, handlers: HandlerSet, wait: Option<Waiting>) {
        match wait {
            None => self.passed(question),
            Some(wait) => {
                self.insert(question, handlers, 0, wait.retry.left, Verdict::Waiting(wait));
            }
        }
    }

    /// Remembers a failure, and says with it when the hook is called again.
    pub(crate) fn failed(&self, question: &Question, handlers: HandlerSet, error: CallError) -> CallError {
        let failures = self.entry(question, &handlers).map_or(0, |entry| entry.failures) + 1;
        let interval = retry_after(failures);
        let error = CallError::Delayed { error: Box::new(error), retry: Retry::after(interval) };
        self.insert(question, handlers, failures, interval, Verdict::Failed(error.clone()));
        error
    }

    /// Forgets what was said: the hook has passed.
    pub(crate) fn passed(&self, question: &Question) {
        self.entries.remove(&question.subject);
    }

    fn entry(&self, question: &Question, handlers: &HandlerSet) -> Option<Entry> {
        let entry = self.entries.get(&question.subject)?;
        (entry.edition == question.edition && entry.handlers == *handlers).then_some(entry)
    }

    fn insert(
        &self,
        question: &Question,
        handlers: HandlerSet,
        failures: u32,
        wait: Duration,
        verdict: Verdict,
    ) {
        let until = Instant::now() + wait;
        let entry = Entry { edition: question.edition.clone(), handlers, until, failures, verdict };
        self.entries.insert(question.subject.clone(), entry, wait + COUNT_FAILURES_FOR);
    }
}

/// How long to wait after so many failures in a row.
pub fn retry_after(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(SLOWEST_RETRY)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use windlass_api::hooks::{BeforeClusterUpgrade, BeforeWorkersUpgrade};

    use super::*;

    fn object(uid: &str) -> ObjectIdentity {
        ObjectIdentity { kind: "Cluster".into(), namespace: "ns1".into(), name: "c1".into(), uid: uid.into() }
    }

    fn question(to: &str) -> Question {
        Question::new::<BeforeClusterUpgrade>(object("u1"), ["v1.31.0", to])
    }

    fn wait(asked_seconds: u32) -> Waiting {
        Waiting::new(asked_seconds, vec!["backup.e".to_owned()], "backup".to_owned())
    }

    fn handlers(change: u64) -> HandlerSet {
        vec![("backup.e".parse().unwrap(), change)]
    }

    fn down() -> CallError {
        CallError::UnknownHandler { name: "h.e".to_owned() }
    }

    /// How long is left, of a wait or a failure.
    fn left(pace: &Pace, question: &Question, change: u64) -> Option<Duration> {
        match pace.early(question, &handlers(change)) {
            Ok(waiting) => waiting.map(|waiting| waiting.retry.left),
            Err(CallError::Delayed { retry, .. }) => Some(retry.left),
            Err(other) => panic!("{other}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_gets_less_and_its_interval_does_not() {
        let pace = Pace::new();
        pace.answered(&question("v1.32.0"), handlers(0), Some(wait(30)));
        advance(Duration::from_millis(29_999)).await;
        let waiting = pace.early(&question("v1.32.0"), &handlers(0)).unwrap().unwrap();
        assert_eq!(
            waiting.retry,
            Retry { left: Duration::from_millis(1), interval: Duration::from_secs(30) }
        );
        advance(Duration::from_millis(1)).await;
        assert_eq!(left(&pace, &question("v1.32.0"), 0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_for_one_hook_one_object_one_pair_of_versions_one_edition_and_one_set_of_handlers() {
        let pace = Pace::new();
        pace.answered(&question("v1.32.0"), handlers(7), Some(wait(30)));
        let other_hook = Question::new::<BeforeWorkersUpgrade>(object("u1"), ["v1.31.0", "v1.32.0"]);
        let recreated = Question::new::<BeforeClusterUpgrade>(object("u2"), ["v1.31.0", "v1.32.0"]);
        let edited = question("v1.32.0").in_edition("2");
        for other in [question("v1.33.0"), other_hook, recreated, edited] {
            assert_eq!(left(&pace, &other, 7), None, "{other:?}");
        }
        assert_eq!(left(&pace, &question("v1.32.0"), 8), None, "the handlers have changed");
        assert_eq!(left(&pace, &question("v1.32.0"), 7), Some(Duration::from_secs(30)));
        pace.answered(&question("v1.32.0"), handlers(7), None);
        assert_eq!(left(&pace, &question("v1.32.0"), 7), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_wait_is_longer_than_an_hour() {
        let pace = Pace::new();
        pace.answered(&question("v1.32.0"), handlers(0), Some(wait(i32::MAX.unsigned_abs())));
        let waiting = pace.early(&question("v1.32.0"), &handlers(0)).unwrap().unwrap();
        assert_eq!(waiting.retry, Retry::after(Duration::from_secs(3600)));
        assert_eq!(waiting.asked_seconds, 2_147_483_647);
        assert_eq!(waiting.retry.to_string(), "after 1h");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_after_a_failure_doubles_up_to_a_minute() {
        let pace = Pace::new();
        let question = question("v1.32.0");
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            let error = pace.failed(&question, handlers(0), down());
            let expected = Duration::from_secs(seconds);
            assert!(error.to_string().ends_with(&format!("; tried again {}", Retry::after(expected))));
            assert_eq!(left(&pace, &question, 0), Some(expected));
            advance(expected - Duration::from_millis(1)).await;
            assert_eq!(left(&pace, &question, 0), Some(Duration::from_millis(1)));
            advance(Duration::from_millis(1)).await;
            assert_eq!(left(&pace, &question, 0), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_counted_from_the_beginning_after_an_edit_a_pass_and_a_long_time() {
        let pace = Pace::new();
        let first = |error: CallError| matches!(error, CallError::Delayed { retry, .. } if retry.interval == FIRST_RETRY);
        assert!(first(pace.failed(&question("v1.32.0"), handlers(0), down())));
        assert!(!first(pace.failed(&question("v1.32.0"), handlers(0), down())));
        assert!(first(pace.failed(&question("v1.32.0").in_edition("2"), handlers(0), down())));
        assert!(first(pace.failed(&question("v1.32.0").in_edition("2"), handlers(1), down())));
        pace.passed(&question("v1.32.0"));
        assert!(first(pace.failed(&question("v1.32.0").in_edition("2"), handlers(1), down())));
        advance(FIRST_RETRY + COUNT_FAILURES_FOR).await;
        assert!(first(pace.failed(&question("v1.32.0").in_edition("2"), handlers(1), down())));
    }
}
