//! In-place updates: what an extension can change on a living Machine, and the change itself.

use super::Patch;
use super::wire::{hook_request, hook_response, hook_types, wire_struct};
use crate::object::Object;

hook_types! {
    /// Which part of a change of one Machine can be made in place.
    CanUpdateMachine(CanUpdateMachineRequest) -> CanUpdateMachineResponse;
    /// Which part of a change of all Machines of a MachineSet can be made in place.
    CanUpdateMachineSet(CanUpdateMachineSetRequest) -> CanUpdateMachineSetResponse;
    /// Change one Machine in place.
    UpdateMachine(UpdateMachineRequest) -> UpdateMachineResponse;
}

/// What an extension can ask for before a Machine is updated, in `requirements` of its answer.
pub mod requirement {
    /// The Node is cordoned and drained, and uncordoned after the update.
    pub const DRAIN: &str = "Drain";
    /// No volume is attached to the Node any more. The Node is drained before.
    pub const VOLUME_DETACH: &str = "VolumeDetach";
}

hook_request! {
    /// Asks which part of the difference between two states of a Machine an extension can make in place.
    pub struct CanUpdateMachineRequest for CanUpdateMachine {
        /// The Machine as it is, with what extensions asked before this one can change already changed.
        pub current: MachineObjects,
        /// The desired Machine.
        pub desired: MachineObjects,
    }
}

hook_request! {
    /// Asks which part of the difference between two MachineSets an extension can make in place.
    pub struct CanUpdateMachineSetRequest for CanUpdateMachineSet {
        /// The old MachineSet, with what extensions asked before this one can change already changed.
        pub current: MachineSetObjects,
        /// The new MachineSet.
        pub desired: MachineSetObjects,
    }
}

hook_request! {
    /// Asks to bring a Machine into a state. Sent again while the extension is at it, so it must recognise
    /// work that it has begun or finished.
    pub struct UpdateMachineRequest for UpdateMachine {
        /// The desired Machine. The extension has to find out the current one.
        pub desired: MachineObjects,
    }
}

wire_struct! {
    /// A Machine and what belongs to it.
    ///
    /// Each is reduced by [`Object::in_place_view`].
    #[derive(Default, Eq)]
    pub struct MachineObjects {
        /// The Machine.
        pub machine: Object,
        /// Its infrastructure.
        pub infrastructure_machine: Object,
        /// Its bootstrap config, if it has one.
        ///
        /// Also read from the misspelt `boostrapConfig`.
        #[serde(alias = "boostrapConfig", skip_serializing_if = "Option::is_none")]
        pub bootstrap_config: Option<Object>,
    }
}

wire_struct! {
    /// A MachineSet and its templates.
    ///
    /// Each is reduced by [`Object::in_place_view`].
    #[derive(Default, Eq)]
    pub struct MachineSetObjects {
        /// The MachineSet.
        pub machine_set: Object,
        /// Template of the infrastructure of its Machines.
        pub infrastructure_machine_template: Object,
        /// Template of their bootstrap config, if there is one.
        ///
        /// Also read from the misspelt `boostrapConfigTemplate`.
        #[serde(alias = "boostrapConfigTemplate", skip_serializing_if = "Option::is_none")]
        pub bootstrap_config_template: Option<Object>,
    }
}

hook_response! {
    /// What an extension can change in place, as patches of the current objects. What no extension covers
    /// makes the Machine be replaced, or the rollout stop.
    #[serde(from = "CanUpdateMachineResponseOnTheWire")]
    pub struct CanUpdateMachineResponse for CanUpdateMachine {
        /// Patch of the Machine. Only `spec` counts.
        #[serde(skip_serializing_if = "Patch::is_omitted")]
        pub machine_patch: Option<Patch>,
        /// Patch of the infrastructure. Only `spec` counts.
        #[serde(skip_serializing_if = "Patch::is_omitted")]
        pub infrastructure_machine_patch: Option<Patch>,
        /// Patch of the bootstrap config. Only `spec` counts.
        ///
        /// Also read from the misspelt `boostrapConfigPatch`, unless the right spelling says something.
        #[serde(skip_serializing_if = "Patch::is_omitted")]
        pub bootstrap_config_patch: Option<Patch>,
        /// Whether the Machine is out of service while it is updated. Absent means that it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub affects_availability: Option<bool>,
        /// What has to be done before the Machine is updated: `Drain`, `VolumeDetach`, which includes the drain. Read by
        /// Windlass alone, which refuses an answer with any other value.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub requirements: Vec<String>,
    }
}

hook_response! {
    /// What an extension can change in place on every Machine of a MachineSet, as patches of the current
    /// objects.
    #[serde(from = "CanUpdateMachineSetResponseOnTheWire")]
    pub struct CanUpdateMachineSetResponse for CanUpdateMachineSet {
        /// Patch of the MachineSet. Only `spec.template.spec` counts.
        #[serde(skip_serializing_if = "Patch::is_omitted")]
        pub machine_set_patch: Option<Patch>,
        /// Patch of the infrastructure template. Only `spec.template.spec` counts.
        #[serde(skip_serializing_if = "Patch::is_omitted")]
        pub infrastructure_machine_template_patch: Option<Patch>,
        /// Patch of the bootstrap config template. Only `spec.template.spec` counts.
        ///
        /// Also read from the misspelt `boostrapConfigTemplatePatch`, unless the right spelling says something.
        #[serde(skip_serializing_if = "Patch::is_omitted")]
        pub bootstrap_config_template_patch: Option<Patch>,
        /// Whether Machines are out of service while they are updated. Absent means that they are.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub affects_availability: Option<bool>,
        /// What has to be done before a Machine is updated: `Drain`, `VolumeDetach`, which includes the drain. Read by
        /// Windlass alone, which refuses an answer with any other value.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub requirements: Vec<String>,
    }
}

hook_response! {
    /// Blocking means that the update is under way; success without a retry time, that it is done.
    pub struct UpdateMachineResponse for UpdateMachine, may block
}

// An alias would make a response with both spellings an error, and an extension that wants to be
// understood by all extensions sends both.

wire_struct! {
    struct CanUpdateMachineResponseOnTheWire {
        kind: String,
        api_version: String,
        status: crate::hooks::ResponseStatus,
        message: String,
        machine_patch: Option<Patch>,
        infrastructure_machine_patch: Option<Patch>,
        bootstrap_config_patch: Option<Patch>,
        boostrap_config_patch: Option<Patch>,
        affects_availability: Option<bool>,
        requirements: Option<Vec<String>>,
    }
}

impl From<CanUpdateMachineResponseOnTheWire> for CanUpdateMachineResponse {
    fn from(wire: CanUpdateMachineResponseOnTheWire) -> Self {
        Self {
            kind: wire.kind,
            api_version: wire.api_version,
            status: wire.status,
            message: wire.message,
            machine_patch: Patch::if_defined(wire.machine_patch),
            infrastructure_machine_patch: Patch::if_defined(wire.infrastructure_machine_patch),
            bootstrap_config_patch: Patch::if_defined(wire.bootstrap_config_patch)
                .or(Patch::if_defined(wire.boostrap_config_patch)),
            affects_availability: wire.affects_availability,
            requirements: wire.requirements.unwrap_or_default(),
        }
    }
}

wire_struct! {
    struct CanUpdateMachineSetResponseOnTheWire {
        kind: String,
        api_version: String,
        status: crate::hooks::ResponseStatus,
        message: String,
        machine_set_patch: Option<Patch>,
        infrastructure_machine_template_patch: Option<Patch>,
        bootstrap_config_template_patch: Option<Patch>,
        boostrap_config_template_patch: Option<Patch>,
        affects_availability: Option<bool>,
        requirements: Option<Vec<String>>,
    }
}

impl From<CanUpdateMachineSetResponseOnTheWire> for CanUpdateMachineSetResponse {
    fn from(wire: CanUpdateMachineSetResponseOnTheWire) -> Self {
        Self {
            kind: wire.kind,
            api_version: wire.api_version,
            status: wire.status,
            message: wire.message,
            machine_set_patch: Patch::if_defined(wire.machine_set_patch),
            infrastructure_machine_template_patch: Patch::if_defined(
                wire.infrastructure_machine_template_patch,
            ),
            bootstrap_config_template_patch: Patch::if_defined(wire.bootstrap_config_template_patch)
                .or(Patch::if_defined(wire.boostrap_config_template_patch)),
            affects_availability: wire.affects_availability,
            requirements: wire.requirements.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::hooks::{HookResponse, ResponseStatus, RetryResponse};

    #[test]
    fn the_golden_answer_is_read_and_written_unchanged() {
        let wire = concat!(
            r#"{"status":"Success","machinePatch":{"patchType":"JSONMergePatch","#,
            r#""patch":"eyJzcGVjIjp7InZlcnNpb24iOiJ2MS4zMy4xIn19"}}"#
        );
        let response: CanUpdateMachineResponse = serde_json::from_str(wire).unwrap();
        let patch = Patch::json_merge_patch(&json!({"spec": {"version": "v1.33.1"}}));
        assert_eq!(response.machine_patch, Some(patch));
        assert_eq!(serde_json::to_string(&response).unwrap(), wire);
    }

    #[test]
    fn both_spellings_of_bootstrap_are_read_and_the_right_one_is_written() {
        let right = json!({"patchType": "JSONPatch", "patch": [{"op": "test"}]});
        let misspelt = json!({"patchType": "JSONPatch", "patch": []});
        let written = |wire: Value| {
            let machine: CanUpdateMachineResponse = serde_json::from_value(wire.clone()).unwrap();
            let mut renamed = serde_json::Map::new();
            for (key, value) in wire.as_object().unwrap() {
                renamed.insert(key.replace("ConfigPatch", "ConfigTemplatePatch"), value.clone());
            }
            let set: CanUpdateMachineSetResponse = serde_json::from_value(Value::Object(renamed)).unwrap();
            assert_eq!(set.bootstrap_config_template_patch, machine.bootstrap_config_patch);
            let machine = serde_json::to_value(machine).unwrap();
            assert!(machine.get("boostrapConfigPatch").is_none());
            assert!(serde_json::to_value(set).unwrap().get("boostrapConfigTemplatePatch").is_none());
            machine.get("bootstrapConfigPatch").map(|patch| patch["patch"].clone())
        };
        for (wire, expected) in [
            (json!({"bootstrapConfigPatch": right}), Some(json!("W3sib3AiOiJ0ZXN0In1d"))),
            (json!({"boostrapConfigPatch": misspelt}), Some(json!("W10="))),
            (
                json!({"bootstrapConfigPatch": right, "boostrapConfigPatch": misspelt}),
                Some(json!("W3sib3AiOiJ0ZXN0In1d")),
            ),
            (json!({"bootstrapConfigPatch": {}, "boostrapConfigPatch": misspelt}), Some(json!("W10="))),
            (json!({"bootstrapConfigPatch": null, "boostrapConfigPatch": null}), None),
            (json!({}), None),
        ] {
            assert_eq!(written(wire.clone()), expected, "{wire}");
        }
    }

    #[test]
    fn a_patch_that_says_nothing_is_none() {
        let response: CanUpdateMachineSetResponse = serde_json::from_value(json!({
            "status": "Success",
            "machineSetPatch": {},
            "infrastructureMachineTemplatePatch": {"patchType": "", "patch": null},
        }))
        .unwrap();
        assert_eq!(
            response,
            CanUpdateMachineSetResponse { status: ResponseStatus::Success, ..Default::default() }
        );
        let undefined = CanUpdateMachineSetResponse { machine_set_patch: Some(Patch::default()), ..response };
        assert_eq!(serde_json::to_string(&undefined).unwrap(), r#"{"status":"Success"}"#);
    }

    #[test]
    fn all_parts_of_an_answer_are_written_in_order() {
        let response = CanUpdateMachineSetResponse {
            status: ResponseStatus::Success,
            machine_set_patch: Some(Patch::json_patch(&json!([]))),
            infrastructure_machine_template_patch: Some(Patch::json_merge_patch(&json!({}))),
            bootstrap_config_template_patch: Some(Patch::json_patch(&json!([]))),
            affects_availability: Some(false),
            requirements: vec!["Drain".to_owned()],
            ..Default::default()
        };
        let wire = concat!(
            r#"{"status":"Success","machineSetPatch":{"patchType":"JSONPatch","patch":"W10="},"#,
            r#""infrastructureMachineTemplatePatch":{"patchType":"JSONMergePatch","patch":"e30="},"#,
            r#""bootstrapConfigTemplatePatch":{"patchType":"JSONPatch","patch":"W10="},"affectsAvailability":false,"#,
            r#""requirements":["Drain"]}"#
        );
        assert_eq!(serde_json::to_string(&response).unwrap(), wire);
        assert_eq!(serde_json::from_str::<CanUpdateMachineSetResponse>(wire).unwrap(), response);
    }

    #[test]
    fn requests_have_current_and_desired_and_may_lack_a_bootstrap_config() {
        let object = |kind: &str| Object::try_from(json!({"kind": kind})).unwrap();
        let request = CanUpdateMachineRequest {
            current: MachineObjects {
                machine: object("Machine"),
                infrastructure_machine: object("DevMachine"),
                bootstrap_config: Some(object("KubeadmConfig")),
            },
            ..Default::default()
        };
        let wire = concat!(
            r#"{"kind":"CanUpdateMachineRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","#,
            r#""current":{"machine":{"kind":"Machine"},"infrastructureMachine":{"kind":"DevMachine"},"#,
            r#""bootstrapConfig":{"kind":"KubeadmConfig"}},"desired":{"machine":{},"infrastructureMachine":{}}}"#
        );
        assert_eq!(serde_json::to_string(&request).unwrap(), wire);
        assert_eq!(serde_json::from_str::<CanUpdateMachineRequest>(wire).unwrap(), request);
        let misspelt = wire.replace("bootstrapConfig", "boostrapConfig");
        assert_eq!(serde_json::from_str::<CanUpdateMachineRequest>(&misspelt).unwrap(), request);
    }

    #[test]
    fn an_update_under_way_blocks_and_a_finished_one_does_not() {
        assert!(UpdateMachineResponse::blocking("installing packages", 10).is_blocking());
        assert!(!UpdateMachineResponse::success().is_blocking());
    }
}
