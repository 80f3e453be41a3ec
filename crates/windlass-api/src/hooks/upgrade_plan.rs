//! Upgrade plans: what an extension answers, and what lifecycle requests carry.

use serde::{Deserialize, Serialize};

use super::wire::{hook_request, hook_response, hook_types, wire_struct};
use crate::object::Object;

hook_types! {
    /// The versions an upgrade goes through.
    GenerateUpgradePlan(GenerateUpgradePlanRequest) -> GenerateUpgradePlanResponse;
}

hook_request! {
    /// Asks for the versions between here and the target. Sent again and again during an upgrade, so the
    /// answer must not depend on when it is asked for.
    #[serde(from = "GenerateUpgradePlanRequestOnTheWire")]
    #[schemars(extend("required" = ["cluster", "fromControlPlaneKubernetesVersion", "toKubernetesVersion"]))]
    pub struct GenerateUpgradePlanRequest for GenerateUpgradePlan {
        /// The Cluster to be upgraded.
        #[serde(skip_serializing_if = "Object::is_empty")]
        pub cluster: Object,
        /// The same as `fromControlPlaneKubernetesVersion`, for extensions that know only this name.
        ///
        /// On input it stands in for the other when that is absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub from_kubernetes_version: Option<String>,
        /// Version of the control plane.
        #[schemars(length(min = 1))]
        pub from_control_plane_kubernetes_version: String,
        /// Oldest version among the workers; absent when there are none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub from_workers_kubernetes_version: Option<String>,
        /// The version that everything shall reach.
        #[schemars(length(min = 1))]
        pub to_kubernetes_version: String,
    }
}

impl GenerateUpgradePlanRequest {
    /// A request with the version of the control plane under both its names.
    pub fn new(
        cluster: Object,
        from_control_plane: impl Into<String>,
        from_workers: Option<String>,
        to: impl Into<String>,
    ) -> Self {
        let from_control_plane = from_control_plane.into();
        Self {
            cluster,
            from_kubernetes_version: Some(from_control_plane.clone()),
            from_control_plane_kubernetes_version: from_control_plane,
            from_workers_kubernetes_version: from_workers,
            to_kubernetes_version: to.into(),
            ..Self::default()
        }
    }
}

wire_struct! {
    struct GenerateUpgradePlanRequestOnTheWire {
        kind: String,
        api_version: String,
        settings: crate::hooks::Settings,
        cluster: Object,
        from_kubernetes_version: Option<String>,
        from_control_plane_kubernetes_version: String,
        from_workers_kubernetes_version: Option<String>,
        to_kubernetes_version: String,
    }
}

impl From<GenerateUpgradePlanRequestOnTheWire> for GenerateUpgradePlanRequest {
    fn from(wire: GenerateUpgradePlanRequestOnTheWire) -> Self {
        let from_control_plane = match &wire.from_kubernetes_version {
            Some(from) if wire.from_control_plane_kubernetes_version.is_empty() => from.clone(),
            _ => wire.from_control_plane_kubernetes_version,
        };
        Self {
            kind: wire.kind,
            api_version: wire.api_version,
            settings: wire.settings,
            cluster: wire.cluster,
            from_kubernetes_version: wire.from_kubernetes_version,
            from_control_plane_kubernetes_version: from_control_plane,
            // A Go caller without workers leaves it out; an empty one means the same.
            from_workers_kubernetes_version: wire
                .from_workers_kubernetes_version
                .filter(|from| !from.is_empty()),
            to_kubernetes_version: wire.to_kubernetes_version,
        }
    }
}

hook_response! {
    /// The versions an upgrade goes through, the target included, the current version not.
    pub struct GenerateUpgradePlanResponse for GenerateUpgradePlan {
        /// Steps of the control plane. Empty only if it is at the target already.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub control_plane_upgrades: Vec<UpgradeStep>,
        /// Steps of the workers. If empty, the caller works out the fewest that the skew policy allows.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub workers_upgrades: Vec<UpgradeStep>,
    }
}

wire_struct! {
    /// One step of an upgrade.
    #[derive(Default, Eq, Hash)]
    pub struct UpgradeStep {
        /// The version that the step leads to.
        #[schemars(length(min = 1))]
        pub version: String,
    }
}

impl<T: Into<String>> From<T> for UpgradeStep {
    fn from(version: T) -> Self {
        Self { version: version.into() }
    }
}

/// The steps of an upgrade that remain: the target included, the current version not.
///
/// Two forms of it exist on the wire, `controlPlaneUpgrades` and `workersUpgrades` with one object per step,
/// and `upgradePlan` with plain versions. Both are written; either is read, the first if there are both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(from = "UpgradePlanOnTheWire", into = "UpgradePlanOnTheWire")]
pub struct UpgradePlan {
    /// Versions that the control plane still goes through.
    pub control_plane: Vec<String>,
    /// Versions that the workers still go through.
    pub workers: Vec<String>,
}

impl UpgradePlan {
    /// Whether no step remains.
    pub fn is_empty(&self) -> bool {
        self.control_plane.is_empty() && self.workers.is_empty()
    }
}

wire_struct! {
    #[derive(Default)]
    struct UpgradePlanOnTheWire {
        /// Versions that the control plane still goes through, the target included.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        control_plane_upgrades: Vec<UpgradeStep>,
        /// Versions that the workers still go through, the target included.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        workers_upgrades: Vec<UpgradeStep>,
        /// The same two lists in another form.
        #[serde(skip_serializing_if = "PlainUpgradePlan::is_empty")]
        upgrade_plan: PlainUpgradePlan,
    }
}

wire_struct! {
    #[derive(Default)]
    #[schemars(inline)]
    struct PlainUpgradePlan {
        /// The same as controlPlaneUpgrades.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        control_plane: Vec<String>,
        /// The same as workersUpgrades.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        workers: Vec<String>,
    }
}

impl PlainUpgradePlan {
    fn is_empty(&self) -> bool {
        self.control_plane.is_empty() && self.workers.is_empty()
    }
}

impl From<UpgradePlanOnTheWire> for UpgradePlan {
    fn from(wire: UpgradePlanOnTheWire) -> Self {
        // The forms are not mixed: an empty list of workers beside steps of the control plane means that no
        // worker moves.
        if wire.control_plane_upgrades.is_empty() && wire.workers_upgrades.is_empty() {
            let PlainUpgradePlan { control_plane, workers } = wire.upgrade_plan;
            return Self { control_plane, workers };
        }
        let versions = |steps: Vec<UpgradeStep>| steps.into_iter().map(|step| step.version).collect();
        Self {
            control_plane: versions(wire.control_plane_upgrades),
            workers: versions(wire.workers_upgrades),
        }
    }
}

impl From<UpgradePlan> for UpgradePlanOnTheWire {
    fn from(plan: UpgradePlan) -> Self {
        let steps = |versions: &[String]| versions.iter().map(UpgradeStep::from).collect();
        Self {
            control_plane_upgrades: steps(&plan.control_plane),
            workers_upgrades: steps(&plan.workers),
            upgrade_plan: PlainUpgradePlan { control_plane: plan.control_plane, workers: plan.workers },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::hooks::HookResponse;

    #[test]
    fn the_golden_request_is_read_and_written_unchanged() {
        // The embedded object is written in alphabetical order, which is the only thing that is ours to
        // change in the sample.
        let wire = concat!(
            r#"{"kind":"GenerateUpgradePlanRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","#,
            r#""settings":{"channel":"stable"},"cluster":{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","#,
            r#""metadata":{"name":"c1","namespace":"ns1"},"spec":{}},"fromControlPlaneKubernetesVersion":"v1.31.4","#,
            r#""fromWorkersKubernetesVersion":"v1.31.4","toKubernetesVersion":"v1.33.1"}"#,
        );
        let request: GenerateUpgradePlanRequest = serde_json::from_str(wire).unwrap();
        assert_eq!(request.cluster.name(), Some("c1"));
        assert_eq!(request.from_control_plane_kubernetes_version, "v1.31.4");
        assert_eq!(serde_json::to_string(&request).unwrap(), wire);
    }

    #[test]
    fn the_golden_response_is_read_and_written_unchanged() {
        let wire =
            r#"{"status":"Success","controlPlaneUpgrades":[{"version":"v1.32.5"},{"version":"v1.33.1"}]}"#;
        let response: GenerateUpgradePlanResponse = serde_json::from_str(wire).unwrap();
        assert_eq!(response.control_plane_upgrades, ["v1.32.5".into(), "v1.33.1".into()]);
        assert_eq!(response.workers_upgrades, []);
        assert_eq!(serde_json::to_string(&response).unwrap(), wire);
    }

    #[test]
    fn a_request_names_the_current_version_in_both_ways() {
        let request = GenerateUpgradePlanRequest::new(Object::default(), "v1.29.0", None, "v1.33.0");
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            concat!(
                r#"{"kind":"GenerateUpgradePlanRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","#,
                r#""fromKubernetesVersion":"v1.29.0","fromControlPlaneKubernetesVersion":"v1.29.0","#,
                r#""toKubernetesVersion":"v1.33.0"}"#
            )
        );
    }

    #[test]
    fn the_old_name_of_the_current_version_is_enough() {
        let request: GenerateUpgradePlanRequest = serde_json::from_value(json!({
            "fromKubernetesVersion": "v1.29.0",
            "fromWorkersKubernetesVersion": "",
            "toKubernetesVersion": "v1.33.0",
        }))
        .unwrap();
        assert_eq!(request.from_control_plane_kubernetes_version, "v1.29.0");
        assert_eq!(request.from_workers_kubernetes_version, None);
    }

    #[test]
    fn the_new_name_of_the_current_version_wins() {
        let request: GenerateUpgradePlanRequest = serde_json::from_value(json!({
            "fromKubernetesVersion": "v1.29.0",
            "fromControlPlaneKubernetesVersion": "v1.30.0",
        }))
        .unwrap();
        assert_eq!(request.from_control_plane_kubernetes_version, "v1.30.0");
    }

    fn plan(control_plane: &[&str], workers: &[&str]) -> UpgradePlan {
        let owned = |versions: &[&str]| versions.iter().map(|&version| version.to_owned()).collect();
        UpgradePlan { control_plane: owned(control_plane), workers: owned(workers) }
    }

    #[test]
    fn either_form_of_a_plan_is_read() {
        let both = plan(&["v1.31.0", "v1.32.3"], &["v1.32.3"]);
        for (wire, expected) in [
            (
                json!({
                    "controlPlaneUpgrades": [{"version": "v1.31.0"}, {"version": "v1.32.3"}],
                    "workersUpgrades": [{"version": "v1.32.3"}],
                }),
                both.clone(),
            ),
            (json!({"upgradePlan": {"controlPlane": ["v1.31.0", "v1.32.3"], "workers": ["v1.32.3"]}}), both),
            (
                json!({
                    "controlPlaneUpgrades": [{"version": "v1.31.0"}],
                    "workersUpgrades": null,
                    "upgradePlan": {"controlPlane": ["v1.99.0"], "workers": ["v1.99.0"]},
                }),
                plan(&["v1.31.0"], &[]),
            ),
            (json!({"workersUpgrades": [{"version": "v1.31.0"}]}), plan(&[], &["v1.31.0"])),
            (json!({"upgradePlan": null}), UpgradePlan::default()),
            (json!({}), UpgradePlan::default()),
        ] {
            assert_eq!(serde_json::from_value::<UpgradePlan>(wire.clone()).unwrap(), expected, "{wire}");
        }
    }

    #[test]
    fn both_forms_of_a_plan_are_written() {
        assert_eq!(
            serde_json::to_string(&plan(&["v1.31.0"], &[])).unwrap(),
            r#"{"controlPlaneUpgrades":[{"version":"v1.31.0"}],"upgradePlan":{"controlPlane":["v1.31.0"]}}"#
        );
        assert_eq!(serde_json::to_string(&UpgradePlan::default()).unwrap(), "{}");
    }

    #[test]
    fn a_failure_has_no_steps() {
        let wire = serde_json::to_value(GenerateUpgradePlanResponse::failure("no path")).unwrap();
        assert_eq!(
            wire,
            json!({
                "kind": "GenerateUpgradePlanResponse",
                "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1",
                "status": "Failure",
                "message": "no path",
            })
        );
    }

    proptest! {
        #[test]
        fn any_plan_survives_the_wire(
            control_plane in prop::collection::vec(any::<String>(), 0..5),
            workers in prop::collection::vec(any::<String>(), 0..5),
        ) {
            let plan = UpgradePlan { control_plane, workers };
            let wire = serde_json::to_string(&plan).unwrap();
            prop_assert_eq!(serde_json::from_str::<UpgradePlan>(&wire).unwrap(), plan);
        }
    }
}
