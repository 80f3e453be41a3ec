//! What calls come to.

use windlass_api::RegisteredName;
use windlass_api::hooks::HookResponse;

use crate::cache::Waiting;
use crate::error::{CallFailure, clip_message};

/// What a call of one handler came to.
///
/// An ignored failure is not an answer. To go on as if the handler had agreed is right for some hooks and
/// wrong for others: a machine that was not updated must not count as updated.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Answer<R> {
    /// The handler answered with success.
    Given(R),
    /// The handler was not reached, and its failure policy says not to mind.
    Ignored(CallFailure),
}

impl<R> Answer<R> {
    /// The answer, if there was one.
    pub fn given(self) -> Option<R> {
        match self {
            Self::Given(response) => Some(response),
            Self::Ignored(_) => None,
        }
    }

    /// The same with something else made of the answer.
    pub fn map<T>(self, make: impl FnOnce(R) -> T) -> Answer<T> {
        match self {
            Self::Given(response) => Answer::Given(make(response)),
            Self::Ignored(failure) => Answer::Ignored(failure),
        }
    }

    /// Whether the handler was not reached.
    pub fn is_ignored(&self) -> bool {
        matches!(self, Self::Ignored(_))
    }
}

/// What calls of all handlers of a hook came to.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Answers<R> {
    /// All answers in one: success, the lowest retry time that is not 0, and all messages. Fields of
    /// particular hooks are empty.
    pub response: R,
    /// What each handler said, in the order in which they were called. Empty if none was called.
    pub handlers: Vec<HandlerAnswer>,
    /// Whether no handler was called because an earlier wait is not over.
    pub waiting: bool,
    wait: Option<Waiting>,
}

/// What one of several handlers said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerAnswer {
    /// The handler.
    pub handler: RegisteredName,
    /// Its message, shortened to what a condition can hold.
    pub message: String,
    /// How long it asks to wait, 0 if not at all.
    pub retry_after_seconds: u32,
    /// Why it was not reached, if its failure policy says not to mind.
    pub ignored: Option<CallFailure>,
}

impl<R: HookResponse> Answers<R> {
    pub(crate) fn collect(handlers: Vec<HandlerAnswer>) -> Self {
        let (retry, message) = aggregate(&handlers);
        let asking = || asking(&handlers).map(|answer| answer.handler.to_string()).collect();
        let wait = (retry > 0).then(|| Waiting::new(retry, asking(), message.clone()));
        Self { response: response(retry, message), handlers, waiting: false, wait }
    }

    pub(crate) fn still_waiting(waiting: Waiting) -> Self {
        let left = waiting.retry.left;
        // Rounded up: rounding down would call before the time that the handler asked for.
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let response = response(u32::try_from(seconds).unwrap_or(u32::MAX), waiting.message.clone());
        Self { response, handlers: Vec::new(), waiting: true, wait: Some(waiting) }
    }

    /// Handlers that were not reached and whose failure policy says not to mind.
    pub fn ignored(&self) -> impl Iterator<Item = (&RegisteredName, &CallFailure)> {
        self.handlers.iter().filter_map(|answer| Some((&answer.handler, answer.ignored.as_ref()?)))
    }

    /// Whether every handler really answered.
    pub fn is_complete(&self) -> bool {
        self.ignored().next().is_none()
    }

    /// The wait that the handlers ask for, if they do.
    pub fn wait(&self) -> Option<Waiting> {
        // Not every hook may ask to wait.
        self.wait.clone().filter(|_| self.response.retry_after_seconds().is_some())
    }
}

impl HandlerAnswer {
    pub(crate) fn of<R: HookResponse>(handler: RegisteredName, answer: &Answer<R>) -> Self {
        let (message, retry, ignored) = match answer {
            Answer::Given(response) => (response.message(), response.retry_after_seconds(), None),
            Answer::Ignored(failure) => ("", None, Some(failure.clone())),
        };
        // Negative times are refused before this.
        let retry_after_seconds = u32::try_from(retry.unwrap_or_default()).unwrap_or_default();
        Self { handler, message: clip_message(message), retry_after_seconds, ignored }
    }
}

fn response<R: HookResponse>(retry: u32, message: String) -> R {
    let mut response = R::success();
    response.set_message(message);
    response.set_retry_after_seconds(i32::try_from(retry).unwrap_or(i32::MAX));
    response
}

/// The lowest retry time that is not 0, and the messages, which name their handler if there are several.
fn aggregate(handlers: &[HandlerAnswer]) -> (u32, String) {
    let retry = asking(handlers).map(|answer| answer.retry_after_seconds).min();
    let messages = handlers.iter().filter(|answer| !answer.message.is_empty()).map(|answer| {
        if handlers.len() > 1 {
            format!("{}: {}", answer.handler, answer.message)
        } else {
            answer.message.clone()
        }
    });
    (retry.unwrap_or(0), messages.collect::<Vec<_>>().join(", "))
}

/// The answers that ask to wait.
fn asking(handlers: &[HandlerAnswer]) -> impl Iterator<Item = &HandlerAnswer> {
    handlers.iter().filter(|answer| answer.retry_after_seconds > 0)
}

#[cfg(test)]
mod tests {
    use windlass_api::hooks::{AfterControlPlaneInitializedResponse, BeforeClusterUpgradeResponse};

    use super::*;

    fn answers(retries_and_messages: &[(u32, &str)]) -> Vec<HandlerAnswer> {
        let answer = |(index, &(retry_after_seconds, message)): (usize, &(u32, &str))| HandlerAnswer {
            handler: format!("h{index}.e").parse().unwrap(),
            message: message.to_owned(),
            retry_after_seconds,
            ignored: None,
        };
        retries_and_messages.iter().enumerate().map(answer).collect()
    }

    #[test]
    fn aggregation_vectors_of_the_contract() {
        for (given, retry, message) in [
            (&[(0, "a"), (1, "b"), (5, ""), (4, ""), (3, "")][..], 1, "h0.e: a, h1.e: b"),
            (&[], 0, ""),
            (&[(0, ""), (0, "")], 0, ""),
            (&[(30, "waiting for cni 1.2")], 30, "waiting for cni 1.2"),
            (&[(0, ""), (7, "only one speaks")], 7, "h1.e: only one speaks"),
        ] {
            let answers = Answers::<BeforeClusterUpgradeResponse>::collect(answers(given));
            assert_eq!(answers.response.retry_after_seconds, retry);
            assert_eq!(answers.response.message, message);
            assert_eq!(answers.wait().is_some(), retry > 0);
            assert!(answers.is_complete());
        }
    }

    #[test]
    fn answers_that_cannot_block_have_a_message_only() {
        let answers = Answers::<AfterControlPlaneInitializedResponse>::collect(answers(&[(0, "done")]));
        assert_eq!(answers.response.message(), "done");
        assert_eq!(answers.wait(), None);
    }

    #[test]
    fn an_ignored_failure_is_visible() {
        let failure = CallFailure::Undecodable("EOF".to_owned());
        let answer = Answer::<BeforeClusterUpgradeResponse>::Ignored(failure.clone());
        let handler: RegisteredName = "h.e".parse().unwrap();
        let answers = Answers::<BeforeClusterUpgradeResponse>::collect(vec![HandlerAnswer::of(
            handler.clone(),
            &answer,
        )]);
        assert_eq!(answers.ignored().collect::<Vec<_>>(), [(&handler, &failure)]);
        assert!(!answers.is_complete());
        assert_eq!(answers.response.retry_after_seconds, 0);
        assert_eq!(answer.given(), None);
    }
}
