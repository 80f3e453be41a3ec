//! Sizes of groups that do not say how many machines they have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_api::cluster::{DEFAULT_REPLICAS, MachinePool, MachineSet, is_autoscaled};
use windlass_api::names::{AUTOSCALER_MAX_ANNOTATION, AUTOSCALER_MIN_ANNOTATION};

use super::machines::check_replicas;
use super::{FieldProblem, Verdict};

/// The size of a group that does not say it: what an autoscaler may choose from, closest to what the group had before, or
/// one machine.
///
/// # Errors
///
/// A limit of the autoscaler is no number.
pub fn default_replicas(
    given: Option<i32>,
    before: Option<i32>,
    metadata: &ObjectMeta,
) -> Result<i32, FieldProblem> {
    if let Some(given) = given {
        return Ok(given);
    }
    if !is_autoscaled(metadata) {
        return Ok(DEFAULT_REPLICAS);
    }
    let limit = |key: &str| {
        let text = metadata.annotations.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str);
        text.trim().parse::<i32>().map_err(|_| FieldProblem {
            field: format!("metadata.annotations[{key}]"),
            problem: format!("{text:?} is not accepted, a number of machines such as 3 is"),
        })
    };
    let (least, most) = (limit(AUTOSCALER_MIN_ANNOTATION)?, limit(AUTOSCALER_MAX_ANNOTATION)?);
    // The lower limit wins over an upper one that is below it.
    Ok(before.map_or(least, |before| before.min(most).max(least)))
}

/// Fills in the size of a MachineSet; `old` is how it is stored.
///
/// # Errors
///
/// A limit of the autoscaler is no number.
pub fn default_machine_set(set: &mut MachineSet, old: Option<&MachineSet>) -> Result<(), FieldProblem> {
    let before = old.and_then(|old| old.spec.replicas);
    set.spec.replicas = Some(default_replicas(set.spec.replicas, before, &set.metadata)?);
    Ok(())
}

/// Fills in the size of a MachinePool; `old` is how it is stored. A size that is managed externally stays as it is.
///
/// # Errors
///
/// A limit of the autoscaler is no number.
pub fn default_machine_pool(pool: &mut MachinePool, old: Option<&MachinePool>) -> Result<(), FieldProblem> {
    let before = old.and_then(|old| old.spec.replicas);
    let given = match pool.are_replicas_managed_externally() {
        true => pool.spec.replicas.or(before),
        false => pool.spec.replicas,
    };
    pool.spec.replicas = Some(default_replicas(given, before, &pool.metadata)?);
    Ok(())
}

/// Checks the size of a MachineSet or a MachinePool.
pub fn validate_replicas(replicas: Option<i32>) -> Verdict {
    let mut verdict = Verdict::default();
    check_replicas("spec.replicas", replicas, &mut verdict);
    verdict
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn metadata(annotations: Value) -> ObjectMeta {
        serde_json::from_value(json!({"annotations": annotations})).unwrap()
    }

    #[test]
    fn an_autoscaler_keeps_what_a_group_had_within_its_limits() {
        let limits = |min: &str, max: &str| {
            metadata(json!({AUTOSCALER_MIN_ANNOTATION: min, AUTOSCALER_MAX_ANNOTATION: max}))
        };
        let only_min = metadata(json!({AUTOSCALER_MIN_ANNOTATION: "3"}));
        for (given, before, of, expected) in [
            (Some(7), Some(2), limits("3", "5"), 7),
            (Some(0), None, limits("3", "5"), 0),
            (None, None, limits("3", "5"), 3),
            (None, Some(50), limits("3", "100"), 50),
            (None, Some(50), limits("3", "5"), 5),
            (None, Some(1), limits("3", "5"), 3),
            (None, Some(4), limits("6", "5"), 6),
            (None, Some(50), only_min.clone(), 1),
            (None, Some(50), ObjectMeta::default(), 1),
            (None, None, ObjectMeta::default(), 1),
        ] {
            assert_eq!(default_replicas(given, before, &of), Ok(expected), "{given:?} {before:?} {of:?}");
        }
        let problem = default_replicas(None, None, &limits("three", "5")).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "metadata.annotations[cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size]: \"three\" is not accepted, \
             a number of machines such as 3 is"
        );
    }

    #[test]
    fn the_size_of_a_pool_that_its_provider_manages_stays() {
        let pool = |replicas: Value, managed: &str| -> MachinePool {
            serde_json::from_value(json!({"metadata": {"annotations":
                {"cluster.x-k8s.io/replicas-managed-by": managed}}, "spec": {"replicas": replicas}}))
            .unwrap()
        };
        for (managed, before, expected) in
            [("autoscaler", json!(7), 7), ("false", json!(7), 1), ("", json!(7), 7), ("asg", json!(null), 1)]
        {
            let mut written = pool(json!(null), managed);
            default_machine_pool(&mut written, Some(&pool(before, managed))).unwrap();
            assert_eq!(written.spec.replicas, Some(expected), "{managed:?}");
        }
    }
}
