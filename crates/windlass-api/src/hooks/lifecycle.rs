//! Lifecycle hooks: called along the life of a Cluster, most of them able to make it wait.

use super::UpgradePlan;
use super::wire::{hook_request, hook_response, hook_types};
use crate::object::Object;

hook_types! {
    /// The objects of a managed topology are about to be created.
    BeforeClusterCreate(BeforeClusterCreateRequest) -> BeforeClusterCreateResponse;
    /// The control plane can be reached for the first time.
    AfterControlPlaneInitialized(AfterControlPlaneInitializedRequest) -> AfterControlPlaneInitializedResponse;
    /// An upgrade is about to start.
    BeforeClusterUpgrade(BeforeClusterUpgradeRequest) -> BeforeClusterUpgradeResponse;
    /// The control plane is about to take the next step.
    BeforeControlPlaneUpgrade(BeforeControlPlaneUpgradeRequest) -> BeforeControlPlaneUpgradeResponse;
    /// The control plane has finished a step.
    AfterControlPlaneUpgrade(AfterControlPlaneUpgradeRequest) -> AfterControlPlaneUpgradeResponse;
    /// The workers are about to take the next step.
    BeforeWorkersUpgrade(BeforeWorkersUpgradeRequest) -> BeforeWorkersUpgradeResponse;
    /// The workers have finished a step.
    AfterWorkersUpgrade(AfterWorkersUpgradeRequest) -> AfterWorkersUpgradeResponse;
    /// The whole Cluster has reached its target version.
    AfterClusterUpgrade(AfterClusterUpgradeRequest) -> AfterClusterUpgradeResponse;
    /// A Cluster is being deleted.
    BeforeClusterDelete(BeforeClusterDeleteRequest) -> BeforeClusterDeleteResponse;
}

hook_request! {
    /// Sent until the extension no longer blocks; nothing of the topology exists before that.
    pub struct BeforeClusterCreateRequest for BeforeClusterCreate {
        /// The Cluster to be created.
        pub cluster: Object,
    }
}

hook_request! {
    /// Sent when the API server of the Cluster accepts requests for the first time.
    pub struct AfterControlPlaneInitializedRequest for AfterControlPlaneInitialized {
        /// The Cluster.
        pub cluster: Object,
    }
}

hook_request! {
    /// Sent once, before the first step of an upgrade.
    pub struct BeforeClusterUpgradeRequest for BeforeClusterUpgrade {
        /// The Cluster to be upgraded.
        pub cluster: Object,
        /// Current version of the Cluster.
        pub from_kubernetes_version: String,
        /// Version at the end of the upgrade.
        pub to_kubernetes_version: String,
    }
    flattened {
        /// The whole plan.
        pub upgrade_plan: UpgradePlan
    }
}

hook_request! {
    /// Sent before every step of the control plane.
    pub struct BeforeControlPlaneUpgradeRequest for BeforeControlPlaneUpgrade {
        /// The Cluster being upgraded.
        pub cluster: Object,
        /// Current version of the control plane.
        pub from_kubernetes_version: String,
        /// Version of the control plane after this step.
        pub to_kubernetes_version: String,
    }
    flattened {
        /// What remains, this step included.
        pub upgrade_plan: UpgradePlan
    }
}

hook_request! {
    /// Sent after every step of the control plane.
    pub struct AfterControlPlaneUpgradeRequest for AfterControlPlaneUpgrade {
        /// The Cluster being upgraded.
        pub cluster: Object,
        /// Version that the control plane has reached.
        pub kubernetes_version: String,
    }
    flattened {
        /// What remains; the step just made is not in it.
        pub upgrade_plan: UpgradePlan
    }
}

hook_request! {
    /// Sent before every step of the workers. Versions that the workers skip have none.
    pub struct BeforeWorkersUpgradeRequest for BeforeWorkersUpgrade {
        /// The Cluster being upgraded.
        pub cluster: Object,
        /// Oldest version among the workers.
        pub from_kubernetes_version: String,
        /// Version of the workers after this step.
        pub to_kubernetes_version: String,
    }
    flattened {
        /// What remains, this step included.
        pub upgrade_plan: UpgradePlan
    }
}

hook_request! {
    /// Sent after every step of the workers.
    pub struct AfterWorkersUpgradeRequest for AfterWorkersUpgrade {
        /// The Cluster being upgraded.
        pub cluster: Object,
        /// Version that the workers have reached.
        pub kubernetes_version: String,
    }
    flattened {
        /// What remains; the step just made is not in it.
        pub upgrade_plan: UpgradePlan
    }
}

hook_request! {
    /// Sent when the whole Cluster has reached its target.
    pub struct AfterClusterUpgradeRequest for AfterClusterUpgrade {
        /// The Cluster that was upgraded.
        pub cluster: Object,
        /// Version that the Cluster has reached.
        pub kubernetes_version: String,
    }
}

hook_request! {
    /// Sent until the extension no longer blocks; nothing that the Cluster owns is deleted before that.
    pub struct BeforeClusterDeleteRequest for BeforeClusterDelete {
        /// The Cluster being deleted.
        pub cluster: Object,
    }
}

hook_response! {
    /// Blocking holds the creation of every object of the topology.
    pub struct BeforeClusterCreateResponse for BeforeClusterCreate, may block
}

hook_response! {
    /// Cannot block. A failure is tried again with growing delays.
    pub struct AfterControlPlaneInitializedResponse for AfterControlPlaneInitialized {}
}

hook_response! {
    /// Blocking holds the whole upgrade; the Cluster stays as it is.
    pub struct BeforeClusterUpgradeResponse for BeforeClusterUpgrade, may block
}

hook_response! {
    /// Blocking holds this step of the control plane.
    pub struct BeforeControlPlaneUpgradeResponse for BeforeControlPlaneUpgrade, may block
}

hook_response! {
    /// Blocking holds the workers and the next step of the control plane.
    pub struct AfterControlPlaneUpgradeResponse for AfterControlPlaneUpgrade, may block
}

hook_response! {
    /// Blocking holds the workers and the next step of the control plane.
    pub struct BeforeWorkersUpgradeResponse for BeforeWorkersUpgrade, may block
}

hook_response! {
    /// Blocking holds the next step of the control plane. At the target version there is none, and the
    /// retry time is ignored.
    pub struct AfterWorkersUpgradeResponse for AfterWorkersUpgrade, may block
}

hook_response! {
    /// Blocking keeps the next upgrade from starting, and holds nothing else.
    pub struct AfterClusterUpgradeResponse for AfterClusterUpgrade, may block
}

hook_response! {
    /// Blocking holds the deletion of everything that the Cluster owns.
    pub struct BeforeClusterDeleteResponse for BeforeClusterDelete, may block
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::hooks::{HookRequest, HookResponse, HookType, ResponseStatus, RetryResponse};

    #[test]
    fn golden_answers_are_read_and_written_unchanged() {
        for (wire, status, message, retry) in [
            (
                r#"{"status":"Success","message":"waiting for cni 1.2","retryAfterSeconds":30}"#,
                ResponseStatus::Success,
                "waiting for cni 1.2",
                30,
            ),
            (r#"{"status":"Success","retryAfterSeconds":0}"#, ResponseStatus::Success, "", 0),
            (
                r#"{"status":"Failure","message":"quota exceeded for team a","retryAfterSeconds":0}"#,
                ResponseStatus::Failure,
                "quota exceeded for team a",
                0,
            ),
        ] {
            let response: BeforeClusterCreateResponse = serde_json::from_str(wire).unwrap();
            assert_eq!(*response.status(), status);
            assert_eq!(response.message(), message);
            assert_eq!(response.retry_after_seconds(), Some(retry));
            assert_eq!(response.is_blocking(), retry > 0);
            assert_eq!(serde_json::to_string(&response).unwrap(), wire);
        }
    }

    #[test]
    fn answers_outside_the_contract_can_be_quoted() {
        for (wire, status, retry) in [
            (json!({}), "", 0),
            (json!({"status": null, "message": null, "retryAfterSeconds": null}), "", 0),
            (json!({"status": "success", "retryAfterSeconds": -5}), "success", -5),
            (json!({"status": "Done", "kind": 5.to_string(), "unknown": [1]}), "Done", 0),
        ] {
            let response: AfterClusterUpgradeResponse = serde_json::from_value(wire).unwrap();
            assert_eq!(*response.status(), ResponseStatus::Unknown(status.to_owned()));
            assert_eq!(response.retry_after_seconds(), Some(retry));
            assert!(!response.is_blocking());
        }
    }

    #[test]
    fn blocking_always_makes_the_caller_wait() {
        for (seconds, expected) in [(30, 30), (1, 1), (0, 1), (u32::MAX, i32::MAX)] {
            let response = BeforeClusterDeleteResponse::blocking("waiting", seconds);
            assert_eq!(response.retry_after_seconds, expected);
            assert!(response.is_blocking());
        }
        assert!(!BeforeClusterDeleteResponse::success().is_blocking());
        let failed =
            BeforeClusterDeleteResponse { retry_after_seconds: 5, ..HookResponse::failure("broken") };
        assert!(!failed.is_blocking());
    }

    #[test]
    fn a_response_that_cannot_block_has_no_retry_time() {
        let mut response = AfterControlPlaneInitializedResponse::success();
        response.set_retry_after_seconds(5);
        assert_eq!(response.retry_after_seconds(), None);
        assert_eq!(
            serde_json::to_string(&response).unwrap(),
            concat!(
                r#"{"kind":"AfterControlPlaneInitializedResponse","#,
                r#""apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","status":"Success"}"#
            )
        );
    }

    fn cluster() -> Object {
        Object::try_from(json!({"kind": "Cluster", "metadata": {"name": "c1"}})).unwrap()
    }

    fn plan() -> UpgradePlan {
        UpgradePlan {
            control_plane: vec!["v1.32.3".to_owned(), "v1.33.0".to_owned()],
            workers: vec!["v1.33.0".to_owned()],
        }
    }

    /// How every request is written, field by field in order.
    #[test]
    fn requests_are_written_in_the_order_of_the_contract() {
        const CLUSTER: &str = r#""cluster":{"kind":"Cluster","metadata":{"name":"c1"}}"#;
        const FROM_TO: &str = r#""fromKubernetesVersion":"v1.31.0","toKubernetesVersion":"v1.33.0""#;
        const REACHED: &str = r#""kubernetesVersion":"v1.31.0""#;
        const PLAN: &str = concat!(
            r#""controlPlaneUpgrades":[{"version":"v1.32.3"},{"version":"v1.33.0"}],"#,
            r#""workersUpgrades":[{"version":"v1.33.0"}],"#,
            r#""upgradePlan":{"controlPlane":["v1.32.3","v1.33.0"],"workers":["v1.33.0"]}"#
        );

        fn check<R: HookRequest>(request: R, fields: &[&str]) {
            let hook = <R::HookType as HookType>::HOOK;
            let wire = format!(
                r#"{{"kind":"{hook}Request","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1",{}}}"#,
                fields.join(",")
            );
            assert_eq!(serde_json::to_string(&request).unwrap(), wire);
            assert_eq!(serde_json::from_str::<R>(&wire).unwrap(), request);
        }

        macro_rules! from_to {
            ($Request:ident) => {
                check(
                    $Request {
                        cluster: cluster(),
                        from_kubernetes_version: "v1.31.0".to_owned(),
                        to_kubernetes_version: "v1.33.0".to_owned(),
                        upgrade_plan: plan(),
                        ..Default::default()
                    },
                    &[CLUSTER, FROM_TO, PLAN],
                )
            };
        }
        macro_rules! reached {
            ($Request:ident) => {
                check(
                    $Request {
                        cluster: cluster(),
                        kubernetes_version: "v1.31.0".to_owned(),
                        upgrade_plan: plan(),
                        ..Default::default()
                    },
                    &[CLUSTER, REACHED, PLAN],
                )
            };
        }

        check(BeforeClusterCreateRequest { cluster: cluster(), ..Default::default() }, &[CLUSTER]);
        check(AfterControlPlaneInitializedRequest { cluster: cluster(), ..Default::default() }, &[CLUSTER]);
        from_to!(BeforeClusterUpgradeRequest);
        from_to!(BeforeControlPlaneUpgradeRequest);
        reached!(AfterControlPlaneUpgradeRequest);
        from_to!(BeforeWorkersUpgradeRequest);
        reached!(AfterWorkersUpgradeRequest);
        check(
            AfterClusterUpgradeRequest {
                cluster: cluster(),
                kubernetes_version: "v1.31.0".to_owned(),
                ..Default::default()
            },
            &[CLUSTER, REACHED],
        );
        check(BeforeClusterDeleteRequest { cluster: cluster(), ..Default::default() }, &[CLUSTER]);
        check(
            BeforeClusterDeleteRequest { settings: [("a".into(), "b".into())].into(), ..Default::default() },
            &[r#""settings":{"a":"b"}"#, r#""cluster":{}"#],
        );
    }

    #[test]
    fn a_request_that_says_nothing_is_empty_but_for_what_is_always_written() {
        let request: AfterWorkersUpgradeRequest =
            serde_json::from_str(r#"{"settings":null,"cluster":null,"workersUpgrades":null}"#).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"cluster":{},"kubernetesVersion":""}"#);
    }

    #[test]
    fn a_plan_of_the_wrong_type_is_refused() {
        for wire in [
            json!({"controlPlaneUpgrades": "v1.33.0"}),
            json!({"workersUpgrades": ["v1.33.0"]}),
            json!({"upgradePlan": {"controlPlane": [1]}}),
        ] {
            assert!(serde_json::from_value::<BeforeClusterUpgradeRequest>(wire.clone()).is_err(), "{wire}");
        }
    }

    #[test]
    fn settings_of_the_request_win_over_those_of_the_extension_config() {
        let own = [("a".to_owned(), "request".to_owned())].into();
        let defaults = [("a", "config"), ("b", "config")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let request = BeforeClusterCreateRequest { settings: own, ..Default::default() }
            .with_default_settings(&defaults);
        let expected = [("a", "request"), ("b", "config")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(request.settings, expected);
    }

    #[test]
    fn unknown_fields_beside_a_plan_are_ignored() {
        let mut wire = serde_json::to_value(BeforeClusterUpgradeRequest::default()).unwrap();
        wire["future"] = Value::Bool(true);
        assert_eq!(
            serde_json::from_value::<BeforeClusterUpgradeRequest>(wire).unwrap(),
            BeforeClusterUpgradeRequest::default()
        );
    }

    proptest! {
        #[test]
        fn any_answer_survives_the_wire(status: String, message: String, retry_after_seconds: i32) {
            let status = ResponseStatus::from(status.as_str());
            let response =
                BeforeClusterCreateResponse { retry_after_seconds, ..HookResponse::new(status, message) };
            let wire = serde_json::to_string(&response).unwrap();
            prop_assert_eq!(serde_json::from_str::<BeforeClusterCreateResponse>(&wire).unwrap(), response);
        }
    }
}
