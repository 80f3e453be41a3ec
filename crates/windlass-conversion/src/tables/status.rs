//! What the status of several kinds has in common.

use serde_json::Value;

use crate::path::{Fields, get, put};
use crate::rule::{Code, Form, Rule, at, renamed};

/// Conditions of both sorts: they are never translated into each other.
pub(crate) const CONDITIONS: Rule = Rule::All(&[
    renamed("status.conditions", "status.deprecated.v1beta1.conditions"),
    renamed("status.v1beta2.conditions", "status.conditions"),
    at("status.observedGeneration", Form::NonZero),
]);

pub(crate) const CONDITIONS_ONLY: &[Rule] = &[CONDITIONS];

pub(crate) const FAILURES: Rule = Rule::All(&[
    renamed("status.failureReason", "status.deprecated.v1beta1.failureReason"),
    renamed("status.failureMessage", "status.deprecated.v1beta1.failureMessage"),
]);

/// The counters of v1beta1 mean something else than those of v1beta2 with the same names.
pub(crate) const OWN_COUNTERS: Rule = Rule::All(&[
    renamed("status.v1beta2.readyReplicas", "status.readyReplicas"),
    renamed("status.v1beta2.availableReplicas", "status.availableReplicas"),
    renamed("status.v1beta2.upToDateReplicas", "status.upToDateReplicas"),
]);

pub(crate) const READY_REPLICAS: Rule =
    renamed("status.readyReplicas", "status.deprecated.v1beta1.readyReplicas");
pub(crate) const AVAILABLE_REPLICAS: Rule =
    renamed("status.availableReplicas", "status.deprecated.v1beta1.availableReplicas");
pub(crate) const UNAVAILABLE_REPLICAS: Rule =
    renamed("status.unavailableReplicas", "status.deprecated.v1beta1.unavailableReplicas");
pub(crate) const UPDATED_REPLICAS: Rule =
    renamed("status.updatedReplicas", "status.deprecated.v1beta1.updatedReplicas");
pub(crate) const FULLY_LABELED_REPLICAS: Rule =
    renamed("status.fullyLabeledReplicas", "status.deprecated.v1beta1.fullyLabeledReplicas");

/// The counters that v1beta2 requires once it has anything of v1beta1, which leaves out those that are 0.
macro_rules! completing {
    ($($counter:literal),+) => {
        $crate::rule::Rule::Code($crate::rule::Code {
            up: |_, made, _, _| {
                $crate::tables::status::fill(made, &[$($counter),+]);
                Ok(())
            },
            down: |_, _, _| Ok(()),
        })
    };
}
pub(crate) use completing;

pub(crate) fn fill(made: &mut Fields, counters: &[&str]) {
    if get(made, "status.deprecated.v1beta1").is_some() {
        for counter in counters {
            put(made, &format!("status.deprecated.v1beta1.{counter}"), 0.into());
        }
    }
}

/// `ready` of a control plane is not stored: it is whether the old counter has any.
pub(crate) const READY_BY_COUNT: Rule = Rule::Code(Code {
    up: |source, _, _, _| {
        drop(crate::path::take(source, "status.ready"));
        Ok(())
    },
    down: |source, made, _| {
        let ready = get(source, "status.deprecated.v1beta1.readyReplicas").and_then(Value::as_i64);
        if ready.is_some_and(|ready| ready > 0) {
            put(made, "status.ready", true.into());
        }
        Ok(())
    },
});
