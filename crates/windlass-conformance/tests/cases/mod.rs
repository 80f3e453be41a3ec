//! One case per way to break the contract.

pub(crate) mod availability;
pub(crate) mod calls;
pub(crate) mod data;
pub(crate) mod discovery;
pub(crate) mod transport;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass_api::Hook;
use windlass_conformance::{CheckId, HookSelection, Options, Rule, Target, Timing};
use windlass_version::Version;

use crate::support::{Ask, Below, Extension, Reply, Twist, behaviour};

/// Settles what only the running extension knows.
type Adjust = Box<dyn FnOnce(&Extension, &mut Target, &mut Options) + Send>;

pub(crate) struct Case {
    pub(crate) expected: &'static [Rule],
    pub(crate) below: Below,
    pub(crate) twist: Twist,
    pub(crate) options: Options,
    pub(crate) adjust: Adjust,
}

impl Case {
    /// An extension with these hooks, all of them called.
    pub(crate) fn new(expected: &'static [Rule], hooks: &'static [Hook]) -> Self {
        let mut options = options(hooks);
        options.leave_out.retain(|&check| expected.iter().all(|rule| rule.check() != check));
        Self {
            expected,
            below: Below::default(),
            twist: announcing(hooks),
            options,
            adjust: Box::new(|_, _, _| {}),
        }
    }

    pub(crate) fn below(mut self, change: impl FnOnce(&mut Below)) -> Self {
        change(&mut self.below);
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    pub(crate) fn adjust(
        mut self,
        adjust: impl FnOnce(&Extension, &mut Target, &mut Options) + Send + 'static,
    ) -> Self {
        self.adjust = Box::new(adjust);
        self
    }

    /// Changes every answer.
    pub(crate) fn twist(mut self, twist: impl Fn(&Ask, Reply) -> Reply + Send + Sync + 'static) -> Self {
        let before = self.twist;
        self.twist = Arc::new(move |ask, reply| twist(ask, before(ask, reply)));
        self
    }

    /// Changes the answers of discovery.
    pub(crate) fn discovery(self, twist: impl Fn(&Ask, Reply) -> Reply + Send + Sync + 'static) -> Self {
        self.twist(move |ask, reply| if ask.is_discovery() { twist(ask, reply) } else { reply })
    }

    /// Changes the answers of real calls of handlers.
    pub(crate) fn calls(self, twist: impl Fn(&Ask, Reply) -> Reply + Send + Sync + 'static) -> Self {
        self.twist(move |ask, reply| if ask.is_call() { twist(ask, reply) } else { reply })
    }

    /// Answers every real call of a handler like this.
    pub(crate) fn answering(self, value: Value) -> Self {
        self.calls(move |_, _| Reply::json(&value))
    }
}

fn announcing(hooks: &'static [Hook]) -> Twist {
    let announcement = behaviour::announcement(hooks);
    Arc::new(move |ask, reply| {
        let answered = ask.is_discovery() && ask.value.is_object() && reply.status == 200;
        if answered { Reply::json(&announcement) } else { reply }
    })
}

/// Checks that send much and that only the cases about them need.
const EXPENSIVE: [CheckId; 8] =
    [CheckId::T2, CheckId::T4, CheckId::T7, CheckId::T8, CheckId::T9, CheckId::T11, CheckId::D7, CheckId::A2];

/// Few repetitions, and thresholds that a busy machine does not cross by accident.
fn options(hooks: &[Hook]) -> Options {
    let long = Duration::from_secs(20);
    Options {
        hooks: HookSelection::of(hooks.iter().copied()),
        leave_out: BTreeSet::from(EXPENSIVE),
        timing: Timing { slow_discovery: long, slow_call: long, slow_mutation: long, ..Timing::default() },
        repetitions: 1,
        concurrency: 20,
        kubernetes_versions: (31..=33).map(|minor| Version::new(1, minor, 0)).collect(),
        ..Options::default()
    }
}
