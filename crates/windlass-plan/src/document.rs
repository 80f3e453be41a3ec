//! Plans and refusals as JSON. The field names here are a contract with users' scripts.

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windlass_version::Version;

use crate::operation::{Operation, Step};
use crate::planner::UpgradePlan;
use crate::request::{GroupName, SourceKind};
use crate::violation::{PlanPart, Refusal, Violation};

/// A plan as it is printed and read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument {
    /// Version of the control plane at the start.
    pub from: Version,
    /// Version of each worker group at the start.
    #[serde(with = "ordered_map")]
    pub workers_from: Vec<(GroupName, Version)>,
    /// The worker groups that are kept at their version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<GroupName>,
    /// The target.
    pub to: Version,
    /// Where the versions came from.
    pub source: SourceKind,
    /// The control plane's versions.
    pub control_plane: Vec<Version>,
    /// The stops of each worker group.
    #[serde(with = "ordered_map")]
    pub workers: Vec<(GroupName, Vec<Version>)>,
    /// The steps in order.
    pub operations: Vec<OperationDocument>,
    /// The largest skew at any point.
    pub worst_skew: u64,
    /// Identity of the plan.
    pub input_hash: String,
}

/// One step of a [`PlanDocument`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationDocument {
    /// Control plane or workers.
    pub kind: OperationKind,
    /// The worker group; only for workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// Version before.
    pub from: Version,
    /// Version after.
    pub to: Version,
    /// Skew afterwards.
    pub skew: u64,
    /// Names of the hooks around the step.
    pub hooks: Vec<String>,
    /// Why the step is there, for people.
    pub reason: String,
}

/// What kind of step an [`OperationDocument`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OperationKind {
    /// A control plane step.
    ControlPlane,
    /// A step of a worker group.
    Workers,
}

impl From<&UpgradePlan> for PlanDocument {
    fn from(plan: &UpgradePlan) -> Self {
        Self {
            from: plan.from.clone(),
            workers_from: plan
                .workers_from
                .iter()
                .map(|group| (group.name.clone(), group.version.clone()))
                .collect(),
            pinned: plan
                .workers_from
                .iter()
                .filter(|group| group.pinned)
                .map(|group| group.name.clone())
                .collect(),
            to: plan.to.clone(),
            source: plan.source,
            control_plane: plan.control_plane.clone(),
            workers: plan.workers.iter().map(|row| (row.group.clone(), row.stops.clone())).collect(),
            operations: plan.operations.iter().map(OperationDocument::from).collect(),
            worst_skew: plan.worst_skew,
            input_hash: plan.input_hash.to_string(),
        }
    }
}

impl From<&Operation> for OperationDocument {
    fn from(operation: &Operation) -> Self {
        Self {
            kind: match operation.step {
                Step::ControlPlane { .. } => OperationKind::ControlPlane,
                Step::Workers { .. } => OperationKind::Workers,
            },
            group: operation.step.group().cloned(),
            from: operation.step.from().clone(),
            to: operation.step.to().clone(),
            skew: operation.skew,
            hooks: operation.hooks.iter().map(|hook| hook.name().to_owned()).collect(),
            reason: operation.reason.to_string(),
        }
    }
}

/// A refusal as it is printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalDocument {
    /// Everything that is wrong.
    pub errors: Vec<ViolationDocument>,
}

/// One error of a [`RefusalDocument`]. What does not apply to an error is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViolationDocument {
    /// Stable identifier of the rule.
    pub code: String,
    /// The rule and what breaks it, for people.
    pub message: String,
    /// `controlPlane` or `workers`, where the error is about one of the two plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The item, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl From<&Refusal> for RefusalDocument {
    fn from(refusal: &Refusal) -> Self {
        Self { errors: refusal.violations.iter().map(ViolationDocument::from).collect() }
    }
}

impl From<&Violation> for ViolationDocument {
    fn from(violation: &Violation) -> Self {
        Self {
            code: violation.code().to_owned(),
            message: violation.to_string(),
            plan: violation.part().map(|part| {
                match part {
                    PlanPart::ControlPlane => "controlPlane",
                    PlanPart::Workers => "workers",
                }
                .to_owned()
            }),
            index: violation.index(),
            version: violation.version(),
        }
    }
}

/// A JSON object whose keys keep the order of the worker groups, which is the order of their upgrade.
mod ordered_map {
    use super::*;

    pub(super) fn serialize<V: Serialize, S: Serializer>(
        entries: &[(GroupName, V)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(entries.len()))?;
        for (name, value) in entries {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }

    pub(super) fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(GroupName, V)>, D::Error> {
        struct Entries<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> serde::de::Visitor<'de> for Entries<V> {
            type Value = Vec<(GroupName, V)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with a key per worker group")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, V>()? {
                    entries.push((GroupName::from(name), value));
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Entries(std::marker::PhantomData))
    }
}
