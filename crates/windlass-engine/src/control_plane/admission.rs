//! What a KubeadmControlPlane must not say.

use std::fmt;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use windlass_api::control_plane::{
    KubeadmControlPlane, KubeadmControlPlaneRollingUpdate, KubeadmControlPlaneRolloutStrategyType,
};
use windlass_version::{Distance, Minor, Version};

use super::observe::{is_etcd_external, replicas};
use crate::annotated_strategy::{Typed, contradictions};
use crate::machine_set::{NamedOwner, NamingError, check_machine_naming};

/// One reason to refuse a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Without Machines there is no cluster.
    NoReplicas,
    /// An even number of etcd members bears no more failures than one member less.
    EvenReplicas {
        /// How many were asked for.
        replicas: u32,
    },
    /// The version cannot be read.
    Version {
        /// What was written.
        version: String,
    },
    /// The version rises by more than a minor, or changes its major.
    SkipsMinors {
        /// The version before.
        from: String,
        /// The version that was asked for.
        to: String,
        /// The newest minor that it may have.
        up_to: Minor,
    },
    /// A surge that is neither 0 nor 1.
    Surge {
        /// The field.
        field: &'static str,
        /// What was written.
        written: String,
    },
    /// Going below `replicas` needs three Machines.
    SurgeTooSmall {
        /// The field.
        field: &'static str,
        /// How many Machines there are to be.
        replicas: u32,
    },
    /// A fallback that nothing falls back to.
    UselessFallback,
    /// An annotation about the strategy that cannot be followed.
    Annotation {
        /// The key of the annotation.
        key: &'static str,
        /// Why.
        why: String,
    },
    /// A template that makes no names of Machines.
    Naming(NamingError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReplicas => f.write_str(
                "spec.replicas: a control plane needs Machines, an odd number such as 1 or 3 is accepted",
            ),
            Self::EvenReplicas { replicas } => write!(
                f,
                "spec.replicas: {replicas} is even, and etcd on the Machines needs an odd number of them: {} or {} is \
                 accepted",
                replicas - 1,
                replicas + 1
            ),
            Self::Version { version } => write!(
                f,
                "spec.version: {version:?} is no Kubernetes version, one such as v1.33.0 is accepted"
            ),
            Self::SkipsMinors { from, to, up_to } => write!(
                f,
                "spec.version: from {from} to {to} is more than one minor at a time, up to {up_to}.x is accepted"
            ),
            Self::Surge { field, written } => write!(f, "{field}: {written} is not accepted, 0 or 1 is"),
            Self::SurgeTooSmall { field, replicas } => {
                write!(f, "{field}: 0 needs at least three replicas, and there are {replicas}; 1 is accepted")
            }
            Self::Naming(error) => write!(
                f,
                "spec.machineNaming.template: {error}; a template such as {{{{ .kubeadmControlPlane.name }}}}-{{{{ .random \
                 }}}} is accepted"
            ),
            Self::Annotation { key, why } => write!(f, "metadata.annotations[{key}]: {why}"),
            Self::UselessFallback => {
                f.write_str("spec.rollout.strategy.fallbackRolling: is accepted with type External only")
            }
        }
    }
}

/// Fills in what may be left out: one Machine, the `v` of the version, and a strategy that replaces Machines one by one and
/// adds the new one first.
pub fn default(control_plane: &mut KubeadmControlPlane) {
    let spec = &mut control_plane.spec;
    spec.replicas.get_or_insert(1);
    if !spec.version.is_empty() && !spec.version.starts_with('v') {
        spec.version.insert(0, 'v');
    }
    let strategy = &mut spec.rollout.strategy;
    if strategy.type_ == KubeadmControlPlaneRolloutStrategyType::default() {
        strategy.type_ = KubeadmControlPlaneRolloutStrategyType::RollingUpdate;
    }
    if strategy.type_ == KubeadmControlPlaneRolloutStrategyType::RollingUpdate {
        let limits = strategy.rolling_update.get_or_insert_default();
        limits.max_surge.get_or_insert(IntOrString::Int(1));
    }
}

/// Everything that is wrong with a control plane, and with the step from the one before; empty if it can be admitted.
///
/// A version may go down: it is no upgrade, and the user who does it knows why.
pub fn review(before: Option<&KubeadmControlPlane>, after: &KubeadmControlPlane) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let wanted = replicas(after);
    if wanted == 0 {
        refusals.push(Refusal::NoReplicas);
    } else if wanted.is_multiple_of(2) && !is_etcd_external(after) {
        refusals.push(Refusal::EvenReplicas { replicas: wanted });
    }
    match Version::parse(&after.spec.version) {
        Err(_) => refusals.push(Refusal::Version { version: after.spec.version.clone() }),
        Ok(to) => {
            let from = before.and_then(|before| Version::parse(&before.spec.version).ok());
            if let Some(from) = from
                && matches!(
                    from.minor().distance_to(to.minor()),
                    Distance::Forward(2..) | Distance::OtherMajor
                )
            {
                let up_to = from.minor().next();
                refusals.push(Refusal::SkipsMinors { from: from.to_string(), to: to.to_string(), up_to });
            }
        }
    }
    let naming = &after.spec.machine_naming.template;
    if let Err(error) = check_machine_naming(naming, NamedOwner::KubeadmControlPlane("cp")) {
        refusals.push(Refusal::Naming(error));
    }
    let strategy = &after.spec.rollout.strategy;
    let external = strategy.type_ == KubeadmControlPlaneRolloutStrategyType::External;
    if strategy.fallback_rolling.is_some() && !external {
        refusals.push(Refusal::UselessFallback);
    }
    let typed = match external {
        true => Typed::External { falls_back: strategy.fallback_rolling.is_some() },
        false => Typed::RollingUpdate,
    };
    let contradictions = contradictions(after.metadata.annotations.as_ref(), typed);
    refusals.extend(contradictions.into_iter().map(|(key, why)| Refusal::Annotation { key, why }));
    let limits = [
        ("spec.rollout.strategy.rollingUpdate.maxSurge", &strategy.rolling_update),
        ("spec.rollout.strategy.fallbackRolling.maxSurge", &strategy.fallback_rolling),
    ];
    for (field, limits) in limits {
        refusals.extend(limits.as_ref().and_then(|limits| review_surge(field, limits, wanted)));
    }
    refusals
}

fn review_surge(
    field: &'static str,
    limits: &KubeadmControlPlaneRollingUpdate,
    replicas: u32,
) -> Option<Refusal> {
    let written = limits.max_surge.as_ref()?;
    let number = match written {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(text) => text.parse().ok(),
    };
    match number {
        Some(1) => None,
        Some(0) => (replicas < 3).then_some(Refusal::SurgeTooSmall { field, replicas }),
        _ => {
            let written = match written {
                IntOrString::Int(number) => number.to_string(),
                IntOrString::String(text) => format!("{text:?}"),
            };
            Some(Refusal::Surge { field, written })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn control_plane(spec: Value) -> KubeadmControlPlane {
        let mut whole = json!({"metadata": {"name": "cp"}, "spec": {"version": "v1.32.0", "replicas": 3}});
        for (key, value) in spec.as_object().unwrap() {
            whole["spec"][key] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    fn refused(before: Option<Value>, after: Value) -> Vec<String> {
        let before = before.map(control_plane);
        review(before.as_ref(), &control_plane(after)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_works_is_admitted() {
        let external_etcd = json!({"clusterConfiguration": {"etcd": {"external": {"endpoints": ["e"]}}}});
        for spec in [
            json!({}),
            json!({"replicas": 1}),
            json!({"replicas": 2, "kubeadmConfigSpec": external_etcd}),
            json!({"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}}}),
            json!({"rollout": {"strategy": {"type": "External", "fallbackRolling": {"maxSurge": "1"}}}}),
        ] {
            assert_eq!(refused(None, spec.clone()), [""; 0], "{spec}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_field() {
        let strategy = |strategy: Value| json!({"replicas": 1, "rollout": {"strategy": strategy}});
        for (spec, expected) in [
            (
                json!({"replicas": 0}),
                "spec.replicas: a control plane needs Machines, an odd number such as 1 or 3 is accepted",
            ),
            (
                json!({"replicas": 2}),
                "spec.replicas: 2 is even, and etcd on the Machines needs an odd number of them: 1 or 3 is accepted",
            ),
            (
                json!({"version": "latest"}),
                "spec.version: \"latest\" is no Kubernetes version, one such as v1.33.0 is accepted",
            ),
            (
                strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}})),
                "spec.rollout.strategy.rollingUpdate.maxSurge: 0 needs at least three replicas, and there are 1; 1 is accepted",
            ),
            (
                strategy(json!({"type": "External", "fallbackRolling": {"maxSurge": "50%"}})),
                "spec.rollout.strategy.fallbackRolling.maxSurge: \"50%\" is not accepted, 0 or 1 is",
            ),
            (
                strategy(json!({"type": "RollingUpdate", "fallbackRolling": {"maxSurge": 1}})),
                "spec.rollout.strategy.fallbackRolling: is accepted with type External only",
            ),
        ] {
            assert_eq!(refused(None, spec), [expected]);
        }
    }

    #[test]
    fn a_version_rises_by_one_minor_at_most_and_may_fall() {
        for (from, to, admitted) in [
            ("v1.31.0", "v1.32.9", true),
            ("v1.31.5", "v1.31.6", true),
            ("v1.32.0", "v1.30.0", true),
            ("v1.31.0", "v1.33.0", false),
            ("v1.31.0", "v2.0.0", false),
        ] {
            let refusals = refused(Some(json!({"version": from})), json!({"version": to}));
            assert_eq!(refusals.is_empty(), admitted, "{from} to {to}: {refusals:?}");
        }
    }
}
