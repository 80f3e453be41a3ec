//! What the owner of a Cluster asks of its upgrade while it runs: to hold it, to stop it at a version, to be asked before
//! each step.
//!
//! All of it is annotations of the Cluster. It stops an upgrade between two steps: what moves is finished, and hooks
//! after something are called.

use std::collections::{BTreeMap, BTreeSet};

use windlass_api::names::{
    APPROVED_ANNOTATION, HOLD_ANNOTATION, HOLD_AT_ANNOTATION, IGNORE_ROLLOUTS_ANNOTATION,
    REQUIRE_APPROVAL_ANNOTATION,
};
use windlass_version::{Comparison, Version};

use super::step_name::{StepName, StepScope};
use crate::admission::strict_version;
use crate::waiting::WaitingOn;

/// How many approvals are read; more of them are a mistake, not a plan.
pub const MAX_APPROVALS: usize = 64;

/// What the annotations of a Cluster ask of its upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Nothing new starts. The reason may be empty.
    pub hold: Option<String>,
    /// The control plane does not go beyond this version.
    pub hold_at: Option<Version>,
    /// Which starts need an approval.
    pub require_approval: BTreeSet<StepScope>,
    /// The names that are approved, as they are written.
    pub approved: BTreeSet<String>,
    /// Entries of the topology whose rollouts a new upgrade does not wait for.
    pub ignored_rollouts: BTreeSet<String>,
}

/// An annotation that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeringProblem {
    /// The key of the annotation.
    pub key: &'static str,
    /// What is wrong, and what would be accepted.
    pub problem: String,
}

impl Steering {
    /// Reads the annotations of a Cluster, and says what cannot be understood.
    ///
    /// What cannot be understood still holds: a version that is none stops the upgrade where it is, and a list that
    /// names something unknown requires an approval of everything. Admission refuses both, so this is for Clusters that
    /// were written without it.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> (Self, Vec<SteeringProblem>) {
        let mut problems = Vec::new();
        let annotation = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let mut hold = annotation(HOLD_ANNOTATION).map(|reason| reason.trim().to_owned());
        let hold_at = annotation(HOLD_AT_ANNOTATION).and_then(|text| match strict_version(text.trim()) {
            Ok(version) => Some(version),
            Err(error) => {
                let problem = format!("{error}; a version such as v1.32.0 is accepted");
                hold.get_or_insert_with(|| format!("annotation {HOLD_AT_ANNOTATION}: {problem}"));
                problems.push(SteeringProblem { key: HOLD_AT_ANNOTATION, problem });
                None
            }
        });
        let mut require_approval = BTreeSet::new();
        for word in items(annotation(REQUIRE_APPROVAL_ANNOTATION)) {
            match StepScope::ALL.into_iter().find(|scope| scope.name() == word) {
                Some(scope) => {
                    require_approval.insert(scope);
                }
                None => {
                    require_approval.extend(StepScope::ALL);
                    if word != "all" {
                        let problem = format!(
                            "{word:?} is not accepted, a list of cluster, control-plane, workers and groups, or all, is"
                        );
                        problems.push(SteeringProblem { key: REQUIRE_APPROVAL_ANNOTATION, problem });
                    }
                }
            }
        }
        let mut approved = BTreeSet::new();
        for name in items(annotation(APPROVED_ANNOTATION)) {
            if approved.len() == MAX_APPROVALS {
                let problem = format!("more than {MAX_APPROVALS} names are not accepted");
                problems.push(SteeringProblem { key: APPROVED_ANNOTATION, problem });
                break;
            }
            match name.parse::<StepName>() {
                Ok(step) => {
                    approved.insert(step.to_string());
                }
                Err(error) => {
                    problems.push(SteeringProblem { key: APPROVED_ANNOTATION, problem: error.to_string() });
                }
            }
        }
        let ignored_rollouts = items(annotation(IGNORE_ROLLOUTS_ANNOTATION)).map(str::to_owned).collect();
        (Self { hold, hold_at, require_approval, approved, ignored_rollouts }, problems)
    }

    /// What keeps a step from starting, if anything does: a hold, then a version to stop at, then an approval that is
    /// missing.
    pub fn gate(&self, step: &StepName) -> Option<WaitingOn> {
        if let Some(reason) = &self.hold {
            return Some(WaitingOn::Held { reason: reason.clone() });
        }
        if let (Some(at), StepName::ControlPlane(next)) = (&self.hold_at, step)
            && next.compare(at) == Comparison::Greater
        {
            return Some(WaitingOn::HeldAt { at: at.clone(), next: next.clone() });
        }
        let needs_approval = self.require_approval.contains(&step.scope());
        let is_approved = self.approved.contains(&step.to_string());
        (needs_approval && !is_approved).then(|| WaitingOn::Approval { step: step.clone() })
    }

    /// The approvals that are left when an upgrade has ended, as the annotation has them; none if none is left. Those of
    /// later versions were given for the next upgrade.
    pub fn approvals_after(&self, target: &Version) -> Option<String> {
        let is_later = |name: &&String| {
            name.parse::<StepName>().is_ok_and(|step| step.version().compare(target) == Comparison::Greater)
        };
        let left: Vec<&str> = self.approved.iter().filter(is_later).map(String::as_str).collect();
        (!left.is_empty()).then(|| left.join(","))
    }
}

fn items(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().split(',').map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steering(annotations: &[(&str, &str)]) -> (Steering, Vec<SteeringProblem>) {
        let annotations =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Steering::read(Some(&annotations))
    }

    fn gate(annotations: &[(&str, &str)], step: &str) -> Option<&'static str> {
        steering(annotations).0.gate(&step.parse().unwrap()).map(|waiting| waiting.reason())
    }

    #[test]
    fn a_hold_comes_before_a_version_and_a_version_before_an_approval() {
        let approval = (REQUIRE_APPROVAL_ANNOTATION, "all");
        let (at, hold) = ((HOLD_AT_ANNOTATION, "v1.31.0"), (HOLD_ANNOTATION, ""));
        for (annotations, step, expected) in [
            (vec![], "control-plane/v1.32.0", None),
            (vec![approval], "control-plane/v1.32.0", Some("UpgradeApprovalNeeded")),
            (vec![at, approval], "control-plane/v1.32.0", Some("UpgradeHeldAtVersion")),
            (vec![hold, at, approval], "control-plane/v1.32.0", Some("UpgradeHeld")),
            (vec![at], "control-plane/v1.31.0", None),
            // Only the control plane stops at a version: workers come up to it.
            (vec![at], "workers/v1.32.0", None),
            (vec![hold], "MachineDeployment/md-0/v1.32.0", Some("UpgradeHeld")),
        ] {
            assert_eq!(gate(&annotations, step), expected, "{annotations:?} {step}");
        }
    }

    #[test]
    fn an_approval_counts_for_its_own_step_only() {
        let of = |required, approved, step| {
            gate(&[(REQUIRE_APPROVAL_ANNOTATION, required), (APPROVED_ANNOTATION, approved)], step)
        };
        assert_eq!(of("workers", "workers/v1.32.0", "workers/v1.32.0"), None);
        assert_eq!(of("workers", "", "control-plane/v1.32.0"), None);
        for other in ["workers/v1.31.0", "control-plane/v1.32.0", "MachineDeployment/md-0/v1.32.0"] {
            assert_eq!(of("workers", other, "workers/v1.32.0"), Some("UpgradeApprovalNeeded"), "{other}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_named_and_holds() {
        let (read, problems) = steering(&[
            (HOLD_AT_ANNOTATION, "1.x"),
            (REQUIRE_APPROVAL_ANNOTATION, "workers, machines"),
            (APPROVED_ANNOTATION, "workers/v1.32.0,latest"),
        ]);
        assert!(read.hold.is_some_and(|reason| reason.contains(HOLD_AT_ANNOTATION)));
        assert_eq!(read.require_approval.len(), 4);
        assert_eq!(read.approved.iter().collect::<Vec<_>>(), ["workers/v1.32.0"]);
        let keys: Vec<&str> = problems.iter().map(|problem| problem.key).collect();
        assert_eq!(keys, [HOLD_AT_ANNOTATION, REQUIRE_APPROVAL_ANNOTATION, APPROVED_ANNOTATION]);
        assert_eq!(steering(&[(REQUIRE_APPROVAL_ANNOTATION, "all")]).1, []);
    }

    #[test]
    fn approvals_of_an_upgrade_end_with_it() {
        let (read, _) =
            steering(&[(APPROVED_ANNOTATION, "control-plane/v1.32.0,cluster/v1.34.0,workers/v1.33.0")]);
        assert_eq!(read.approvals_after(&"v1.33.0".parse().unwrap()).as_deref(), Some("cluster/v1.34.0"));
        assert_eq!(read.approvals_after(&"v1.34.0".parse().unwrap()), None);
    }
}
