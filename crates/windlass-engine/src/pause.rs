//! Whether an object is paused: nothing is done for it then, except to say so.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_api::cluster::Cluster;
use windlass_api::conditions::{PAUSED, reason};
use windlass_api::names::PAUSED_ANNOTATION;

use crate::condition::Finding;

/// What pauses an object. At least one of the two does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// `spec.paused` of its Cluster.
    pub by_cluster: bool,
    /// Its own annotation.
    pub by_annotation: bool,
}

impl Pause {
    /// What pauses an object that belongs to a Cluster, or is one; nothing if it is not paused.
    pub fn of(object: &ObjectMeta, cluster: Option<&Cluster>) -> Option<Self> {
        let pause = Self {
            by_cluster: cluster.is_some_and(|cluster| cluster.spec.paused == Some(true)),
            by_annotation: object.annotations.as_ref().is_some_and(|all| all.contains_key(PAUSED_ANNOTATION)),
        };
        (pause.by_cluster || pause.by_annotation).then_some(pause)
    }

    /// The condition `Paused` of an object of this kind.
    pub fn finding(self, kind: &str) -> Finding {
        Finding::yes(PAUSED, reason::PAUSED).because(self.message(kind))
    }

    /// What pauses an object of this kind, in Cluster API's words.
    pub fn message(self, kind: &str) -> String {
        let cluster = self.by_cluster.then(|| "Cluster spec.paused is set to true".to_owned());
        let annotation = self.by_annotation.then(|| format!("{kind} has the {PAUSED_ANNOTATION} annotation"));
        cluster.into_iter().chain(annotation).collect::<Vec<_>>().join(", ")
    }
}

/// The condition `Paused` of an object that is reconciled.
pub fn not_paused() -> Finding {
    Finding::no(PAUSED, reason::NOT_PAUSED)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_object_is_paused_by_its_cluster_or_by_its_annotation() {
        let meta = |annotations: Value| -> ObjectMeta {
            serde_json::from_value(json!({"name": "n", "annotations": annotations})).unwrap()
        };
        let cluster = |paused: Value| -> Cluster {
            serde_json::from_value(json!({"metadata": {}, "spec": {"paused": paused}})).unwrap()
        };
        let (annotated, bare) =
            (meta(json!({"cluster.x-k8s.io/paused": "false"})), meta(json!({"other": ""})));
        for (object, cluster, expected) in [
            (&bare, None, None),
            (&bare, Some(cluster(json!(null))), None),
            (&bare, Some(cluster(json!(false))), None),
            (&bare, Some(cluster(json!(true))), Some("Cluster spec.paused is set to true")),
            // Its value does not matter.
            (&annotated, None, Some("Machine has the cluster.x-k8s.io/paused annotation")),
            (
                &annotated,
                Some(cluster(json!(true))),
                Some(
                    "Cluster spec.paused is set to true, Machine has the cluster.x-k8s.io/paused annotation",
                ),
            ),
        ] {
            let pause = Pause::of(object, cluster.as_ref());
            assert_eq!(pause.map(|pause| pause.message("Machine")).as_deref(), expected);
        }
    }
}
