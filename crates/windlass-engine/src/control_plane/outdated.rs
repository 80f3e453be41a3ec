//! Which Machines need a rollout, and why.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::kubeadm_config;

/// One reason for a rollout of one Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutdatedReason {
    /// Another Kubernetes version is wanted.
    Version {
        /// That of the Machine.
        current: String,
        /// That of the control plane.
        required: String,
    },
    /// Its certificates expire within `rollout.before.certificatesExpiryDays`.
    CertificatesExpire {
        /// When they do.
        at: Timestamp,
    },
    /// `rollout.after` has passed, and the Machine is older.
    RolloutAfter {
        /// `rollout.after`.
        after: Timestamp,
    },
    /// Its bootstrap configuration differs.
    KubeadmConfig {
        /// Fields that differ, as dotted paths in order.
        fields: Vec<String>,
    },
    /// It was cloned from another infrastructure template.
    Infrastructure {
        /// Kind of the Machine's infrastructure.
        kind: String,
        /// The template it came from.
        current: String,
        /// The template that is wanted.
        required: String,
    },
}

impl OutdatedReason {
    /// Whether only a new Machine satisfies it: time has passed, nothing in the specification changed.
    pub const fn wants_new_machine(&self) -> bool {
        matches!(self, Self::CertificatesExpire { .. } | Self::RolloutAfter { .. })
    }
}

impl fmt::Display for OutdatedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { current, required } => write!(f, "Version {current}, {required} required"),
            Self::CertificatesExpire { at } => {
                write!(f, "Certificates expire at {at}, spec.rollout.before asks for new ones")
            }
            Self::RolloutAfter { after } => {
                write!(f, "KubeadmControlPlane spec.rollout.after {after} has passed")
            }
            Self::KubeadmConfig { fields } => {
                write!(f, "KubeadmConfig is not up-to-date: {}", fields.join(", "))
            }
            Self::Infrastructure { kind, current, required } => {
                write!(f, "{kind} is not up-to-date: from template {current}, {required} required")
            }
        }
    }
}

/// What Machines should be, by the control plane.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// `spec.version`.
    pub version: &'a str,
    /// `spec.kubeadmConfigSpec`, as JSON.
    pub kubeadm_config: &'a Value,
    /// `spec.machineTemplate.spec.infrastructureRef`.
    pub template: Template<'a>,
    /// `spec.rollout.after`.
    pub rollout_after: Option<Timestamp>,
    /// `spec.rollout.before.certificatesExpiryDays`.
    pub certificates_expiry_days: Option<i64>,
}

/// What one Machine is.
#[derive(Clone, Debug)]
pub struct Present<'a> {
    /// When the Machine was created.
    pub created: Timestamp,
    /// `spec.version`.
    pub version: Option<&'a str>,
    /// `status.certificatesExpiryDate`.
    pub certificates_expire: Option<Timestamp>,
    /// `spec` of its KubeadmConfig as JSON; none if it could not be read.
    pub kubeadm_config: Option<&'a Value>,
    /// Where its infrastructure was cloned from; none if that could not be read.
    pub template: Option<Template<'a>>,
}

/// An infrastructure template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template<'a> {
    /// The name that Machines refer to.
    pub name: &'a str,
    /// `<kind>.<group>`.
    pub group_kind: &'a str,
}

/// Why the Machine needs a rollout; empty if it is up to date.
///
/// What cannot be read counts as equal: a Machine is never replaced because its configuration was deleted.
pub fn outdated(present: &Present<'_>, wanted: &Wanted<'_>, now: Timestamp) -> Vec<OutdatedReason> {
    let mut reasons = Vec::new();
    if present.version != Some(wanted.version) {
        reasons.push(OutdatedReason::Version {
            current: present.version.unwrap_or("none").to_owned(),
            required: wanted.version.to_owned(),
        });
    }
    if let (Some(days), Some(at)) = (wanted.certificates_expiry_days, present.certificates_expire)
        && expires_within(at, days, now)
    {
        reasons.push(OutdatedReason::CertificatesExpire { at });
    }
    if let Some(after) = wanted.rollout_after
        && after <= now
        && present.created < after
    {
        reasons.push(OutdatedReason::RolloutAfter { after });
    }
    if let Some(current) = present.kubeadm_config {
        let fields = kubeadm_config::differences(current, wanted.kubeadm_config, wanted.version);
        if !fields.is_empty() {
            reasons.push(OutdatedReason::KubeadmConfig { fields });
        }
    }
    if let Some(template) = present.template
        && template != wanted.template
    {
        let (kind, _) = template.group_kind.split_once('.').unwrap_or((template.group_kind, ""));
        reasons.push(OutdatedReason::Infrastructure {
            kind: kind.strip_suffix("Template").unwrap_or(kind).to_owned(),
            current: template.name.to_owned(),
            required: wanted.template.name.to_owned(),
        });
    }
    reasons
}

fn expires_within(at: Timestamp, days: i64, now: Timestamp) -> bool {
    // More than a million hours is a century; saturating there keeps the multiplication and the addition in range.
    let horizon = SignedDuration::from_hours(days.saturating_mul(24).clamp(0, 1_000_000));
    now.checked_add(horizon).map_or(true, |horizon| at < horizon)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    const DAY: i64 = 24 * 60 * 60;

    #[test]
    fn a_machine_is_outdated_for_every_reason_there_is() {
        let (spec, other) = (json!({"files": []}), json!({"files": [{"path": "/a"}]}));
        let template =
            |name| Template { name, group_kind: "DevMachineTemplate.infrastructure.cluster.x-k8s.io" };
        let wanted = Wanted {
            version: "v1.30.0",
            kubeadm_config: &spec,
            template: template("t1"),
            rollout_after: None,
            certificates_expiry_days: None,
        };
        let join = json!({"joinConfiguration": {"controlPlane": {}}});
        let present = Present {
            created: at(100),
            version: Some("v1.30.0"),
            certificates_expire: Some(at(30 * DAY)),
            kubeadm_config: Some(&join),
            template: Some(template("t1")),
        };
        let reasons = |present: &Present<'_>, wanted: &Wanted<'_>| {
            outdated(present, wanted, at(1000)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(reasons(&present, &wanted), [""; 0]);

        let cases: Vec<(Present<'_>, Wanted<'_>, &str)> = vec![
            (
                present.clone(),
                Wanted { version: "v1.30.1", ..wanted.clone() },
                "Version v1.30.0, v1.30.1 required",
            ),
            (Present { version: None, ..present.clone() }, wanted.clone(), "Version none, v1.30.0 required"),
            (
                present.clone(),
                Wanted { certificates_expiry_days: Some(30), ..wanted.clone() },
                "Certificates expire at 1970-01-31T00:00:00Z, spec.rollout.before asks for new ones",
            ),
            (
                present.clone(),
                Wanted { certificates_expiry_days: Some(i64::MAX), ..wanted.clone() },
                "Certificates expire at 1970-01-31T00:00:00Z, spec.rollout.before asks for new ones",
            ),
            (
                present.clone(),
                Wanted { rollout_after: Some(at(1000)), ..wanted.clone() },
                "KubeadmControlPlane spec.rollout.after 1970-01-01T00:16:40Z has passed",
            ),
            (
                present.clone(),
                Wanted { kubeadm_config: &other, ..wanted.clone() },
                "KubeadmConfig is not up-to-date: files",
            ),
            (
                present.clone(),
                Wanted { template: template("t2"), ..wanted.clone() },
                "DevMachine is not up-to-date: from template t1, t2 required",
            ),
        ];
        for (present, wanted, reason) in cases {
            assert_eq!(reasons(&present, &wanted), [reason]);
        }
    }

    #[test]
    fn time_and_what_cannot_be_read_do_not_roll_out_too_early() {
        let spec = json!({"files": [{"path": "/a"}]});
        let wanted = Wanted {
            version: "v1.30.0",
            kubeadm_config: &spec,
            template: Template { name: "t2", group_kind: "K.g" },
            rollout_after: Some(at(2000)),
            certificates_expiry_days: Some(10),
        };
        let present = Present {
            created: at(100),
            version: Some("v1.30.0"),
            certificates_expire: Some(at(30 * DAY)),
            kubeadm_config: None,
            template: None,
        };
        assert_eq!(outdated(&present, &wanted, at(1000)), []);
        // A Machine that was created after the time is what it asked for.
        assert_eq!(outdated(&Present { created: at(2000), ..present }, &wanted, at(3000)), []);
    }
}
