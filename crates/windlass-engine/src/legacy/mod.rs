//! What readers of v1beta1 find in a status: `status.deprecated.v1beta1`, derived from the status of v1beta2.
//!
//! Providers and tools that were built before v1beta2 ask for conditions that have other names, other parts or another form
//! there. Each function takes the status that its controller has just made and completes it, so that one write has both.
//! Conditions of types that are not derived here are kept as they are found.

mod cluster;
mod control_plane;
mod groups;
mod machine;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value, json};
use windlass_api::AnyObject;
use windlass_api::cluster::MachineInitializationStatus;
use windlass_api::conditions::{self as types, ConditionStatus, READY};

use crate::condition;

pub use cluster::cluster;
pub use control_plane::control_plane;
pub use groups::{health_check, machine_deployment, machine_pool, machine_set};
pub use machine::machine;

/// How bad it is that a condition does not hold. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// Something failed.
    Error,
    /// Something is worse than it should be.
    Warning,
    /// Something is on its way.
    Info,
}

impl Severity {
    const fn word(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Warning => "Warning",
            Self::Info => "Info",
        }
    }

    /// What does not hold yet is on its way; what does not hold any more is a warning.
    const fn since_done(done: Option<bool>) -> Self {
        if matches!(done, Some(true)) { Self::Warning } else { Self::Info }
    }
}

/// The condition of v1beta1 that tells of the bootstrap config.
const BOOTSTRAP_READY: &str = "BootstrapReady";
/// The most characters of a reason in v1beta1.
const LONGEST_REASON: usize = 256;
/// The most characters of a message in v1beta1; v1beta2 allows three times as many.
const LONGEST_MESSAGE: usize = 10_240;

/// A condition in its old form.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Legacy {
    type_: &'static str,
    status: ConditionStatus,
    /// Counts only if it does not hold.
    severity: Severity,
    reason: String,
    message: String,
}

impl Legacy {
    fn yes(type_: &'static str) -> Self {
        Self {
            type_,
            status: ConditionStatus::True,
            severity: Severity::Info,
            reason: String::new(),
            message: String::new(),
        }
    }

    fn no(type_: &'static str, severity: Severity, reason: &str, message: impl ToString) -> Self {
        Self {
            type_,
            status: ConditionStatus::False,
            severity,
            reason: reason.to_owned(),
            message: message.to_string(),
        }
    }

    /// What a Machine or a MachinePool says of its bootstrap config and of its infrastructure.
    fn of_parts(conditions: &[Condition], done: MachineInitializationStatus) -> (Option<Self>, Option<Self>) {
        let of = |type_, source, done| Self::of(type_, conditions, source, Severity::since_done(done));
        (
            of(BOOTSTRAP_READY, types::BOOTSTRAP_CONFIG_READY, done.bootstrap_data_secret_created),
            of(types::INFRASTRUCTURE_READY, types::INFRASTRUCTURE_READY, done.infrastructure_provisioned),
        )
    }

    /// The same as a condition of v1beta2 says, under its old name; nothing if that is not there.
    fn of(type_: &'static str, conditions: &[Condition], source: &str, severity: Severity) -> Option<Self> {
        let found = condition::find(conditions, source)?;
        Some(match condition::status_of(found) {
            ConditionStatus::True => Self::yes(type_),
            status => {
                Self { type_, status, severity, reason: found.reason.clone(), message: found.message.clone() }
            }
        })
    }

    /// `Ready` as it was summed up: what is worst decides and is repeated. What is unknown counts only if nothing else is
    /// there.
    fn ready(parts: &[Option<&Self>]) -> Option<Self> {
        let there = parts.iter().flatten();
        let worst = there.min_by_key(|part| match part.status {
            ConditionStatus::False => (0, Some(part.severity)),
            ConditionStatus::True => (1, None),
            ConditionStatus::Unknown => (2, None),
        })?;
        Some(Self { type_: READY, ..(*worst).clone() })
    }

    fn at(&self, time: &Value) -> Value {
        let mut written =
            json!({"type": self.type_, "status": condition::word(self.status), "lastTransitionTime": time});
        if self.status == ConditionStatus::False {
            written["severity"] = self.severity.word().into();
        }
        for (field, text, longest) in
            [("reason", &self.reason, LONGEST_REASON), ("message", &self.message, LONGEST_MESSAGE)]
        {
            if !text.is_empty() {
                written[field] = text.chars().take(longest).collect::<String>().into();
            }
        }
        written
    }
}

/// What is derived of one object.
struct Derived<'a> {
    /// Every type that is derived for the kind: one that is not found now is taken away.
    types: &'a [&'a str],
    /// Those that were found.
    found: Vec<Option<Legacy>>,
    /// Counters with their old names.
    counters: &'a [(&'a str, i32)],
}

impl Derived<'_> {
    /// Writes it into `status.deprecated`. The time of a transition moves only when the status does.
    fn write(self, deprecated: &mut Option<AnyObject>, now: Timestamp) {
        if self.found.iter().all(Option::is_none) && self.counters.is_empty() && deprecated.is_none() {
            return;
        }
        let all = &mut deprecated.get_or_insert_default().0;
        let v1beta1 = all.entry("v1beta1").or_insert_with(|| Value::Object(Map::new()));
        let before = match v1beta1.get_mut("conditions").map(Value::take) {
            Some(Value::Array(before)) => before,
            _ => Vec::new(),
        };
        let type_of = |condition: &Value| condition["type"].as_str().unwrap_or_default().to_owned();
        let now = json!(condition::to_the_second(now));
        let found = self.found.into_iter().flatten().map(|found| {
            let was = before.iter().find(|condition| type_of(condition) == found.type_);
            let same = was.filter(|was| was["status"] == condition::word(found.status));
            let since = same.and_then(|was| was.get("lastTransitionTime")).unwrap_or(&now);
            found.at(since)
        });
        let found: Vec<Value> = found.collect();
        let others =
            before.into_iter().filter(|condition| !self.types.contains(&type_of(condition).as_str()));
        let mut conditions: Vec<Value> = others.chain(found).collect();
        // As Cluster API keeps them: `Ready`, then by name.
        conditions.sort_by_key(|condition| {
            let type_ = type_of(condition);
            (type_ != READY, type_)
        });
        v1beta1["conditions"] = conditions.into();
        for (counter, count) in self.counters {
            v1beta1[*counter] = (*count).into();
        }
    }
}

#[cfg(test)]
mod tests;
