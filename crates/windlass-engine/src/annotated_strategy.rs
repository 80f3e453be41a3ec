//! Strategy `External` said by annotations.
//!
//! Upstream's schemas have no such type: their API servers refuse it, and for control planes upstream's webhook writes
//! `RollingUpdate` over it. Annotations survive both. Where the type is said in its field, that wins.

use std::collections::BTreeMap;

use windlass_api::names::{ROLLOUT_FALLBACK_ANNOTATION, ROLLOUT_STRATEGY_ANNOTATION};

/// The only strategy that annotations can ask for.
const EXTERNAL: &str = "External";
/// Machines that cannot be updated are replaced.
const ROLLING: &str = "rolling";

/// What the annotations of a MachineDeployment or of a control plane ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Annotated {
    /// Strategy `External`.
    pub(crate) external: bool,
    /// What an update does not cover is replaced instead, within the limits of `rollingUpdate`.
    pub(crate) falls_back: bool,
}

impl Annotated {
    /// Reads the annotations. What admission would have refused asks for nothing.
    pub(crate) fn of(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let is = |key: &str, value: &str| {
            annotations.and_then(|all| all.get(key)).is_some_and(|found| found == value)
        };
        Self {
            external: is(ROLLOUT_STRATEGY_ANNOTATION, EXTERNAL),
            falls_back: is(ROLLOUT_FALLBACK_ANNOTATION, ROLLING),
        }
    }
}

/// What the field says, which annotations must not contradict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Nothing, or `RollingUpdate`: what upstream's schema has if annotations ask for more.
    RollingUpdate,
    /// `External`.
    External {
        /// With `fallbackRolling`.
        falls_back: bool,
    },
    /// Something else.
    Other,
}

/// Annotations that say nothing that could be done, or something else than the field: the key, and why.
pub(crate) fn contradictions(
    annotations: Option<&BTreeMap<String, String>>,
    typed: Typed,
) -> Vec<(&'static str, String)> {
    let value = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
    let mut found = Vec::new();
    let strategy = value(ROLLOUT_STRATEGY_ANNOTATION);
    match (strategy, typed) {
        (Some(EXTERNAL), Typed::Other) => found.push((
            ROLLOUT_STRATEGY_ANNOTATION,
            "is not accepted with another type in rollout.strategy; remove one of the two".to_owned(),
        )),
        (Some(EXTERNAL) | None, _) => {}
        (Some(other), _) => {
            found.push((ROLLOUT_STRATEGY_ANNOTATION, format!("{other:?} is not accepted, External is")));
        }
    }
    match (value(ROLLOUT_FALLBACK_ANNOTATION), typed) {
        (None, _) | (Some(ROLLING), Typed::External { falls_back: true }) => {}
        (Some(ROLLING), Typed::External { falls_back: false }) => found.push((
            ROLLOUT_FALLBACK_ANNOTATION,
            "is not accepted with type External in rollout.strategy; use its field fallbackRolling"
                .to_owned(),
        )),
        (Some(ROLLING), _) if strategy == Some(EXTERNAL) => {}
        (Some(ROLLING), _) => found.push((
            ROLLOUT_FALLBACK_ANNOTATION,
            format!("is accepted with {ROLLOUT_STRATEGY_ANNOTATION}: {EXTERNAL} only"),
        )),
        (Some(other), _) => {
            found.push((ROLLOUT_FALLBACK_ANNOTATION, format!("{other:?} is not accepted, rolling is")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_api::cluster::MachineDeployment;

    use super::*;
    use crate::rollout;

    fn refused(annotations: &[(&str, &str)], typed: Typed) -> Vec<String> {
        let annotations =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        contradictions(Some(&annotations), typed).into_iter().map(|(_, why)| why).collect()
    }

    #[test]
    fn an_annotation_is_followed_where_the_field_is_silent() {
        let strategy = |annotations: Value, strategy: Value| {
            let deployment: MachineDeployment = serde_json::from_value(json!({
                "metadata": {"name": "d", "annotations": annotations}, "spec": {"rollout": {"strategy": strategy}},
            }))
            .unwrap();
            rollout::strategy(&deployment).unwrap()
        };
        let external = json!({ROLLOUT_STRATEGY_ANNOTATION: EXTERNAL});
        let both = json!({ROLLOUT_STRATEGY_ANNOTATION: EXTERNAL, ROLLOUT_FALLBACK_ANNOTATION: ROLLING});
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}});
        let is_external = |found: &rollout::Strategy, falls_back: bool| matches!(found, rollout::Strategy::External { fallback, .. } if fallback.is_some() == falls_back);
        assert!(is_external(&strategy(external.clone(), json!({})), false));
        assert!(is_external(&strategy(external.clone(), rolling.clone()), false));
        assert!(is_external(&strategy(both, rolling.clone()), true));
        assert_eq!(strategy(external, json!({"type": "OnDelete"})), rollout::Strategy::OnDelete);
        let other = json!({ROLLOUT_STRATEGY_ANNOTATION: "OnDelete"});
        assert!(matches!(strategy(other, rolling), rollout::Strategy::RollingUpdate(_)));
    }

    #[test]
    fn annotations_are_refused_where_they_say_something_else_than_the_field() {
        let external = (ROLLOUT_STRATEGY_ANNOTATION, EXTERNAL);
        let rolling = (ROLLOUT_FALLBACK_ANNOTATION, ROLLING);
        let typed = |falls_back| Typed::External { falls_back };
        for (annotations, typed, accepted) in [
            (vec![], Typed::Other, true),
            (vec![external], Typed::RollingUpdate, true),
            (vec![external, rolling], Typed::RollingUpdate, true),
            (vec![external], typed(false), true),
            (vec![external, rolling], typed(true), true),
            (vec![rolling], typed(true), true),
            (vec![external], Typed::Other, false),
            (vec![external, rolling], typed(false), false),
            (vec![rolling], Typed::RollingUpdate, false),
            (vec![(ROLLOUT_STRATEGY_ANNOTATION, "OnDelete")], Typed::RollingUpdate, false),
            (vec![external, (ROLLOUT_FALLBACK_ANNOTATION, "true")], Typed::RollingUpdate, false),
        ] {
            let refused = refused(&annotations, typed);
            assert_eq!(refused.is_empty(), accepted, "{annotations:?} {typed:?}: {refused:?}");
        }
    }
}
