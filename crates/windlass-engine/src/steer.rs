//! Verbs with which a person steers an upgrade: each is one small change of the Cluster, which kubectl can make as well.

use std::fmt;

use serde_json::{Map, Value, json};
use windlass_api::cluster::Cluster;
use windlass_api::names::{APPROVED_ANNOTATION, HOLD_ANNOTATION, HOLD_AT_ANNOTATION};
use windlass_version::Version;

use crate::topology::{MAX_APPROVALS, Steering, StepName};

/// What a person wants of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Go to a version: begin an upgrade, or give one that runs another target.
    Target(Version),
    /// Start nothing new, for a reason that is shown.
    Hold {
        /// The reason; may be empty.
        reason: String,
    },
    /// Do not let the control plane leave a version.
    HoldAt(Version),
    /// Take holds away.
    Resume,
    /// Let a step start.
    Approve(StepName),
}

/// A change of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// A JSON merge patch.
    pub patch: Value,
    namespace: String,
    name: String,
}

/// Why a verb changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChange {
    /// The Cluster is not made from a class.
    #[error("Cluster {name} has no topology: its parts are upgraded one by one")]
    NoTopology {
        /// Its name.
        name: String,
    },
    /// It is so already.
    #[error("{0}")]
    Already(String),
    /// There are as many approvals as are read.
    #[error(
        "{MAX_APPROVALS} approvals are there already; remove old ones from annotation {APPROVED_ANNOTATION}"
    )]
    TooManyApprovals,
}

impl Change {
    /// What a verb changes about a Cluster.
    ///
    /// # Errors
    ///
    /// When there is nothing to change.
    pub fn of(verb: &Verb, cluster: &Cluster) -> Result<Self, NoChange> {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let Some(topology) = &cluster.spec.topology else { return Err(NoChange::NoTopology { name }) };
        let annotations = cluster.metadata.annotations.as_ref();
        let annotation = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let already = |what: String| Err(NoChange::Already(what));
        let patch = match verb {
            Verb::Target(version) if topology.version == version.to_string() => {
                return already(format!("the target of Cluster {name} is {version} already"));
            }
            Verb::Target(version) => json!({"spec": {"topology": {"version": version.to_string()}}}),
            Verb::Hold { reason } if annotation(HOLD_ANNOTATION) == Some(reason) => {
                return already(format!("Cluster {name} is held already"));
            }
            Verb::Hold { reason } => annotate([(HOLD_ANNOTATION, Some(reason.clone()))]),
            Verb::HoldAt(version) if annotation(HOLD_AT_ANNOTATION) == Some(&version.to_string()) => {
                return already(format!("Cluster {name} is held at {version} already"));
            }
            Verb::HoldAt(version) => annotate([(HOLD_AT_ANNOTATION, Some(version.to_string()))]),
            Verb::Resume => {
                let held =
                    [HOLD_ANNOTATION, HOLD_AT_ANNOTATION].into_iter().filter(|key| annotation(key).is_some());
                let held: Vec<(&str, Option<String>)> = held.map(|key| (key, None)).collect();
                if held.is_empty() {
                    return already(format!("Cluster {name} is not held"));
                }
                annotate(held)
            }
            Verb::Approve(step) => {
                let (steering, _) = Steering::read(annotations);
                let mut approved = steering.approved;
                if approved.len() >= MAX_APPROVALS {
                    return Err(NoChange::TooManyApprovals);
                }
                if !approved.insert(step.to_string()) {
                    return already(format!("{step} of Cluster {name} is approved already"));
                }
                let all: Vec<String> = approved.into_iter().collect();
                annotate([(APPROVED_ANNOTATION, Some(all.join(",")))])
            }
        };
        let namespace = cluster.metadata.namespace.clone().unwrap_or_default();
        Ok(Self { patch, namespace, name })
    }
}

fn annotate<'a>(values: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Value {
    let values: Map<String, Value> =
        values.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    json!({"metadata": {"annotations": values}})
}

/// The kubectl command that makes the change.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The only character with a meaning between single quotes.
        let patch = self.patch.to_string().replace('\'', r"'\''");
        write!(f, "kubectl -n {} patch cluster {} --type merge -p '{patch}'", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(annotations: Value) -> Cluster {
        serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "c1", "annotations": annotations},
            "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.32.0"}},
        }))
        .unwrap()
    }

    #[test]
    fn each_verb_is_one_small_patch_and_a_command_of_kubectl() {
        let v = |text: &str| text.parse().unwrap();
        let approve = |step: &str| Verb::Approve(step.parse().unwrap());
        for (verb, annotations, expected) in [
            (Verb::Target(v("v1.33.0")), json!({}), r#"{"spec":{"topology":{"version":"v1.33.0"}}}"#),
            (
                Verb::Hold { reason: "it's late".to_owned() },
                json!({}),
                r#"{"metadata":{"annotations":{"upgrade.windlass.dev/hold":"it'\''s late"}}}"#,
            ),
            (
                Verb::HoldAt(v("v1.31.0")),
                json!({}),
                r#"{"metadata":{"annotations":{"upgrade.windlass.dev/hold-at":"v1.31.0"}}}"#,
            ),
            (
                Verb::Resume,
                json!({"upgrade.windlass.dev/hold": "", "other": "x"}),
                r#"{"metadata":{"annotations":{"upgrade.windlass.dev/hold":null}}}"#,
            ),
            (
                approve("workers/v1.32.0"),
                json!({"upgrade.windlass.dev/approved": "control-plane/v1.32.0"}),
                r#"{"metadata":{"annotations":{"upgrade.windlass.dev/approved":"control-plane/v1.32.0,workers/v1.32.0"}}}"#,
            ),
        ] {
            let change = Change::of(&verb, &cluster(annotations)).unwrap();
            assert_eq!(
                change.to_string(),
                format!("kubectl -n default patch cluster c1 --type merge -p '{expected}'")
            );
        }
    }

    #[test]
    fn what_is_so_already_is_said() {
        let approve = Verb::Approve("workers/v1.32.0".parse().unwrap());
        for (verb, annotations, said) in [
            (
                Verb::Target("v1.32.0".parse().unwrap()),
                json!({}),
                "the target of Cluster c1 is v1.32.0 already",
            ),
            (Verb::Resume, json!({}), "Cluster c1 is not held"),
            (
                approve,
                json!({"upgrade.windlass.dev/approved": "workers/v1.32.0"}),
                "workers/v1.32.0 of Cluster c1 is approved already",
            ),
        ] {
            let refused = Change::of(&verb, &cluster(annotations)).unwrap_err();
            assert_eq!(refused.to_string(), said);
        }
        assert!(matches!(Change::of(&Verb::Resume, &Cluster::default()), Err(NoChange::NoTopology { .. })));
    }
}
