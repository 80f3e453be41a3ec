//! The Kubernetes version skew policy, as far as upgrades are concerned.

use crate::{Comparison, Distance, Version};

/// How many minors a kubelet may be behind the control plane, by the Kubernetes version skew policy.
pub const MAX_KUBELET_MINORS_BEHIND: u64 = 3;

/// A kubelet that may not run under a control plane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkewViolation {
    /// The kubelet is of a later minor than the control plane.
    #[error("kubelet {kubelet} is newer than control plane {control_plane}")]
    KubeletNewer {
        /// Version of the control plane.
        control_plane: Version,
        /// Version of the kubelet.
        kubelet: Version,
    },
    /// The kubelet is more than [`MAX_KUBELET_MINORS_BEHIND`] minors behind.
    #[error(
        "kubelet {kubelet} is {behind} minors behind control plane {control_plane}, \
         {MAX_KUBELET_MINORS_BEHIND} are allowed"
    )]
    KubeletTooOld {
        /// Version of the control plane.
        control_plane: Version,
        /// Version of the kubelet.
        kubelet: Version,
        /// How many minors it is behind.
        behind: u64,
    },
    /// The two are of different majors, for which no skew is defined.
    #[error("kubelet {kubelet} and control plane {control_plane} are of different majors")]
    OtherMajor {
        /// Version of the control plane.
        control_plane: Version,
        /// Version of the kubelet.
        kubelet: Version,
    },
}

/// How many minors `kubelet` is behind `control_plane`, if the policy allows it at all.
///
/// The policy counts minors: a kubelet at a later *patch* of the same minor has a skew of 0.
pub fn kubelet_skew(control_plane: &Version, kubelet: &Version) -> Result<u64, SkewViolation> {
    let sides = || (control_plane.clone(), kubelet.clone());
    match kubelet.minor().distance_to(control_plane.minor()) {
        Distance::Forward(behind) if behind <= MAX_KUBELET_MINORS_BEHIND => Ok(behind),
        Distance::Forward(behind) => {
            let (control_plane, kubelet) = sides();
            Err(SkewViolation::KubeletTooOld { control_plane, kubelet, behind })
        }
        Distance::Back(_) => {
            let (control_plane, kubelet) = sides();
            Err(SkewViolation::KubeletNewer { control_plane, kubelet })
        }
        Distance::OtherMajor => {
            let (control_plane, kubelet) = sides();
            Err(SkewViolation::OtherMajor { control_plane, kubelet })
        }
    }
}

/// A step that a control plane must not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepViolation {
    /// The step goes back, or nowhere.
    #[error("it is not newer")]
    NotNewer,
    /// The step leaves out minors.
    #[error("it skips {skipped} minor{}", if *.skipped == 1 { "" } else { "s" })]
    SkipsMinors {
        /// How many minors are left out; never zero.
        skipped: u64,
    },
    /// The step changes the major, for which no upgrade is defined.
    #[error("it changes the major version")]
    ChangesMajor,
}

/// Whether a control plane may go from one version directly to another: to a newer one (or another build
/// of the same release) of the same or the next minor.
pub fn check_control_plane_step(from: &Version, to: &Version) -> Result<(), StepViolation> {
    match from.minor().distance_to(to.minor()) {
        Distance::OtherMajor => Err(StepViolation::ChangesMajor),
        Distance::Forward(minors @ 2..) => Err(StepViolation::SkipsMinors { skipped: minors - 1 }),
        _ if !to.compare(from).is_progress() => Err(StepViolation::NotNewer),
        _ => Ok(()),
    }
}

impl Version {
    /// Whether `self` is older than `other`; false where the order is unknown.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.compare(other) == Comparison::Less
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn a_kubelet_may_be_three_minors_behind_and_never_ahead() {
        for (control_plane, kubelet, behind) in
            [("1.32.0", "1.32.5", 0), ("1.32.0", "1.31.9", 1), ("1.32.0", "1.29.0", 3), ("1.0.0", "1.0.0", 0)]
        {
            assert_eq!(kubelet_skew(&parse(control_plane), &parse(kubelet)), Ok(behind));
        }
        for (control_plane, kubelet, message) in [
            ("1.32.0", "1.33.0", "kubelet v1.33.0 is newer than control plane v1.32.0"),
            ("1.32.0", "1.28.15", "kubelet v1.28.15 is 4 minors behind control plane v1.32.0, 3 are allowed"),
            ("2.32.0", "1.32.0", "kubelet v1.32.0 and control plane v2.32.0 are of different majors"),
        ] {
            let violation = kubelet_skew(&parse(control_plane), &parse(kubelet)).unwrap_err();
            assert_eq!(violation.to_string(), message);
        }
    }

    #[test]
    fn a_control_plane_takes_one_minor_at_a_time() {
        for (from, to, outcome) in [
            ("1.31.0", "1.32.4", Ok(())),
            ("1.31.0", "1.31.1", Ok(())),
            ("1.31.0+a", "1.31.0+b", Ok(())),
            ("1.31.0-rc.1", "1.31.0", Ok(())),
            ("1.31.0", "1.31.0", Err(StepViolation::NotNewer)),
            ("1.31.0", "1.30.9", Err(StepViolation::NotNewer)),
            ("1.31.0+2", "1.31.0+1", Err(StepViolation::NotNewer)),
            ("1.31.0", "1.33.0", Err(StepViolation::SkipsMinors { skipped: 1 })),
            ("1.31.0", "1.36.0", Err(StepViolation::SkipsMinors { skipped: 4 })),
            ("1.34.0", "2.35.0", Err(StepViolation::ChangesMajor)),
            ("1.34.0", "2.0.0", Err(StepViolation::ChangesMajor)),
        ] {
            assert_eq!(check_control_plane_step(&parse(from), &parse(to)), outcome, "{from} to {to}");
        }
    }
}
