//! Replays a plan step by step and checks the skew policy after each of them.

use windlass_version::{
    Comparison, SkewViolation, StepViolation, Version, check_control_plane_step, kubelet_skew,
};

use crate::operation::Step;
use crate::request::{GroupName, WorkerGroup};

/// That a sequence of steps is safe, with the skew at every point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The skew after each step, in the order of the steps.
    pub skews: Vec<u64>,
    /// The largest skew at any point, the start included.
    pub worst: u64,
}

/// Why a sequence of steps is not safe. `index` is the step's place, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the nouns of the message above each variant")]
pub enum BrokenStep {
    /// The cluster breaks the policy before the first step.
    #[error("at the start: {0}")]
    Start(SkewViolation),
    /// The control plane takes a step it must not take.
    #[error("step {index}: control plane {from} to {to}: {violation}")]
    ControlPlane { index: usize, from: Version, to: Version, violation: StepViolation },
    /// A step starts somewhere else than where the step before it ended.
    #[error("step {index}: starts from {from}, but {at} is reached")]
    Discontinuous { index: usize, from: Version, at: Version },
    /// A step is about a worker group that does not exist.
    #[error("step {index}: there is no worker group {group}")]
    UnknownGroup { index: usize, group: GroupName },
    /// Workers go back, or nowhere.
    #[error("step {index}: workers {group} go from {from} to {to}, which is not newer")]
    WorkersNotNewer { index: usize, group: GroupName, from: Version, to: Version },
    /// Workers get ahead of the control plane.
    #[error("step {index}: workers {group} go to {to} while the control plane is at {control_plane}")]
    WorkersAhead { index: usize, group: GroupName, to: Version, control_plane: Version },
    /// The skew policy is broken after a step.
    #[error("after step {index}: {violation}")]
    Skew { index: usize, violation: SkewViolation },
}

/// Replays `steps` from the given start.
///
/// This shares no code with the planner: it is the check on it, and it also checks plans of other origin.
pub fn prove<'a>(
    control_plane: &Version,
    workers: &[WorkerGroup],
    steps: impl IntoIterator<Item = &'a Step>,
) -> Result<Proof, BrokenStep> {
    let mut control_plane = control_plane;
    let mut kubelets: Vec<(&GroupName, &Version)> =
        workers.iter().map(|group| (&group.name, &group.version)).collect();
    let mut worst = worst_skew(control_plane, &kubelets).map_err(BrokenStep::Start)?;
    let mut skews = Vec::new();
    for (index, step) in steps.into_iter().enumerate() {
        match step {
            Step::ControlPlane { from, to } => {
                continuous(index, from, control_plane)?;
                check_control_plane_step(from, to).map_err(|violation| BrokenStep::ControlPlane {
                    index,
                    from: from.clone(),
                    to: to.clone(),
                    violation,
                })?;
                control_plane = to;
            }
            Step::Workers { group, from, to } => {
                let Some((_, at)) = kubelets.iter_mut().find(|(name, _)| *name == group) else {
                    return Err(BrokenStep::UnknownGroup { index, group: group.clone() });
                };
                continuous(index, from, at)?;
                if !to.compare(from).is_progress() {
                    return Err(BrokenStep::WorkersNotNewer {
                        index,
                        group: group.clone(),
                        from: from.clone(),
                        to: to.clone(),
                    });
                }
                // Stricter than the policy, which counts minors: a plan never brings workers to a version
                // that the control plane has not got.
                if control_plane.compare(to) == Comparison::Less {
                    return Err(BrokenStep::WorkersAhead {
                        index,
                        group: group.clone(),
                        to: to.clone(),
                        control_plane: control_plane.clone(),
                    });
                }
                *at = to;
            }
        }
        let skew = worst_skew(control_plane, &kubelets)
            .map_err(|violation| BrokenStep::Skew { index, violation })?;
        worst = worst.max(skew);
        skews.push(skew);
    }
    Ok(Proof { skews, worst })
}

fn continuous(index: usize, from: &Version, at: &Version) -> Result<(), BrokenStep> {
    if from == at {
        return Ok(());
    }
    Err(BrokenStep::Discontinuous { index, from: from.clone(), at: at.clone() })
}

fn worst_skew(control_plane: &Version, kubelets: &[(&GroupName, &Version)]) -> Result<u64, SkewViolation> {
    kubelets
        .iter()
        .try_fold(0, |worst: u64, (_, version)| Ok(worst.max(kubelet_skew(control_plane, version)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    fn control_plane(from: &str, to: &str) -> Step {
        Step::ControlPlane { from: v(from), to: v(to) }
    }

    fn workers(from: &str, to: &str) -> Step {
        Step::Workers { group: "pool".into(), from: v(from), to: v(to) }
    }

    fn replay(steps: &[Step]) -> Result<Proof, String> {
        let groups = [WorkerGroup::new("pool", v("1.29.0"))];
        prove(&v("1.29.0"), &groups, steps).map_err(|broken| broken.to_string())
    }

    #[test]
    fn a_safe_sequence_has_the_skew_after_every_step() {
        let proof = replay(&[
            control_plane("1.29.0", "1.30.0"),
            control_plane("1.30.0", "1.31.0"),
            workers("1.29.0", "1.31.0"),
        ]);
        assert_eq!(proof, Ok(Proof { skews: vec![1, 2, 0], worst: 2 }));
    }

    #[test]
    fn every_broken_step_is_named() {
        let stray = Step::Workers { group: "other".into(), from: v("1.29.0"), to: v("1.29.1") };
        let far: Vec<Step> = ["1.29.0", "1.30.0", "1.31.0", "1.32.0", "1.33.0"]
            .windows(2)
            .map(|pair| control_plane(pair[0], pair[1]))
            .collect();
        for (steps, message) in [
            (
                vec![control_plane("1.29.0", "1.31.0")],
                "step 0: control plane v1.29.0 to v1.31.0: it skips 1 minor",
            ),
            (vec![control_plane("1.28.0", "1.29.1")], "step 0: starts from v1.28.0, but v1.29.0 is reached"),
            (vec![stray], "step 0: there is no worker group other"),
            (
                vec![workers("1.29.0", "1.28.0")],
                "step 0: workers pool go from v1.29.0 to v1.28.0, which is not newer",
            ),
            (
                vec![workers("1.29.0", "1.29.1")],
                "step 0: workers pool go to v1.29.1 while the control plane is at v1.29.0",
            ),
            (far, "after step 3: kubelet v1.29.0 is 4 minors behind control plane v1.33.0, 3 are allowed"),
        ] {
            assert_eq!(replay(&steps), Err(message.to_owned()));
        }
        let ahead = [WorkerGroup::new("pool", v("1.30.0"))];
        assert_eq!(
            prove(&v("1.29.0"), &ahead, &[]).unwrap_err().to_string(),
            "at the start: kubelet v1.30.0 is newer than control plane v1.29.0"
        );
    }
}
