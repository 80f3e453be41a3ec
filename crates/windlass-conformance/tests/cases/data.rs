//! Hooks that answer data: patches, variables, plans, in-place updates.

use serde_json::{Value, json};
use windlass_api::Hook::{
    CanUpdateMachine, CanUpdateMachineSet, DiscoverVariables, ExternalUpdate, GeneratePatches,
    GenerateUpgradePlan, UpdateMachine, ValidateTopology,
};
use windlass_conformance::Rule;

use super::Case;
use crate::support::behaviour::{blocking, encoded, failure, variable};
use crate::support::{Ask, Reply};

/// Answers every template with the same patch.
fn patching(expected: &'static [Rule], patch_type: &'static str, patch: Value) -> Case {
    Case::new(expected, &[GeneratePatches]).calls(move |ask, _| same_patch(ask, patch_type, &patch))
}

fn same_patch(ask: &Ask, patch_type: &str, patch: &Value) -> Reply {
    let items = ask.value["items"].as_array().cloned().unwrap_or_default();
    let answer: Vec<Value> = items
        .iter()
        .map(|item| json!({"uid": item["uid"], "patchType": patch_type, "patch": patch}))
        .collect();
    Reply::json(&json!({"status": "Success", "items": answer}))
}

pub(crate) fn patches() -> Vec<Case> {
    let merge = |document: Value| json!(encoded(&document));
    let add_missing = json!([{"op": "replace", "path": "/spec/missing/field", "value": 1}]);
    let replace_absent = json!([{"op": "replace", "path": "/spec/absent", "value": 1}]);
    let append = json!([
        {"op": "add", "path": "/spec/template/spec/extra", "value": "x"},
        {"op": "add", "path": "/spec/template/spec/again", "value": "x"},
    ]);
    vec![
        patching(&[Rule::PatchUndecodable], "JSONPatch", json!("%%%")),
        patching(&[Rule::PatchUndecodable], "JSONPatch", json!([])),
        patching(&[Rule::PatchUndecodable], "StrategicMergePatch", merge(json!({}))),
        patching(&[Rule::PatchDoesNotApply], "JSONPatch", merge(add_missing)),
        patching(&[Rule::PatchDoesNotApply], "JSONPatch", merge(replace_absent)),
        patching(&[Rule::PatchIgnoredPart], "JSONMergePatch", merge(json!({"metadata": {"name": "other"}}))),
        Case::new(&[Rule::UnknownUid], &[GeneratePatches]).answering(
            json!({"status": "Success", "items": [{"uid": "x", "patchType": "JSONPatch", "patch": merge(append)}]}),
        ),
        // Patches whatever comes first.
        Case::new(&[Rule::DependsOnOrder], &[GeneratePatches]).calls(|ask, _| {
            let patch = encoded(&json!({"spec": {"first": true}}));
            let uid = &ask.value["items"][0]["uid"];
            let item = json!({"uid": uid, "patchType": "JSONMergePatch", "patch": patch});
            Reply::json(&json!({"status": "Success", "items": [item]}))
        }),
        // Counts up what it finds, so that it never comes to rest.
        Case::new(&[Rule::NotIdempotent], &[GeneratePatches]).calls(|ask, _| {
            let item = &ask.value["items"][0];
            let count = item["object"]["spec"]["count"].as_i64().unwrap_or(0) + 1;
            let patch = encoded(&json!({"spec": {"count": count}}));
            let item = json!({"uid": item["uid"], "patchType": "JSONMergePatch", "patch": patch});
            Reply::json(&json!({"status": "Success", "items": [item]}))
        }),
        Case::new(&[Rule::FragileInput], &[GeneratePatches]).calls(|ask, reply| {
            if ask.value["variables"] == json!([]) { Reply::status(500) } else { reply }
        }),
        Case::new(&[Rule::FragileInput], &[ValidateTopology]).calls(|ask, reply| {
            let foreign = ask.value["items"][0]["object"]["apiVersion"] == "windlass.example/v1";
            if foreign { Reply::status(500) } else { reply }
        }),
        Case::new(&[Rule::OwnPatchesRefused], &[GeneratePatches, ValidateTopology]).calls(|ask, reply| {
            if ask.path.contains("validate") { failure("size is not allowed") } else { reply }
        }),
    ]
}

pub(crate) fn variables() -> Vec<Case> {
    let case = |expected: &'static [Rule]| Case::new(expected, &[DiscoverVariables]);
    let answer = |variables: Value| json!({"status": "Success", "variables": variables});
    let untyped = json!([{"name": "size", "required": true, "schema": {"openAPIV3Schema": {}}}]);
    let (one, other) = (answer(json!([variable("a", "string")])), answer(json!([variable("b", "string")])));
    let baseline = serde_json::from_value(json!([variable("size", "integer"), variable("gone", "string")]));
    vec![
        case(&[Rule::BadVariable]).answering(answer(untyped)),
        case(&[Rule::BadVariable])
            .answering(answer(json!([variable("size", "string"), variable("size", "string")]))),
        case(&[Rule::VariablesChanged])
            .calls(move |ask, _| Reply::json(if ask.nth % 2 == 0 { &one } else { &other })),
        case(&[Rule::VariablesBroken]).options(move |options| {
            options.variables_baseline.insert("discovervariables".to_owned(), baseline.unwrap());
        }),
    ]
}

pub(crate) fn plans() -> Vec<Case> {
    let case = |expected: &'static [Rule]| Case::new(expected, &[GenerateUpgradePlan]);
    let plan = |steps: Value| json!({"status": "Success", "controlPlaneUpgrades": steps});
    vec![
        case(&[Rule::InvalidPlan]).answering(plan(json!([{"version": "v1.99.0"}]))),
        case(&[Rule::StepsAtTarget]).answering(plan(json!([{"version": "v1.33.0"}]))),
        case(&[Rule::EmptyPlan, Rule::InvalidPlan]).answering(plan(json!([]))),
        case(&[Rule::NoPlanAtAll]).calls(|_, _| failure("no catalogue")),
    ]
}

pub(crate) fn in_place() -> Vec<Case> {
    let machine = |expected: &'static [Rule]| Case::new(expected, &[CanUpdateMachine]);
    let update = |expected: &'static [Rule]| Case::new(expected, &[UpdateMachine]);
    let external = |expected: &'static [Rule]| Case::new(expected, &[ExternalUpdate]);
    let patch = |document: Value| {
        let patch = json!({"patchType": "JSONMergePatch", "patch": encoded(&document)});
        json!({"status": "Success", "machinePatch": patch})
    };
    let done = || Reply::json(&json!({"status": "Success", "retryAfterSeconds": 0}));
    vec![
        machine(&[Rule::InPlacePatchInvalid]).answering(
            json!({"status": "Success", "machinePatch": {"patchType": "JSONPatch", "patch": "e30="}}),
        ),
        machine(&[Rule::InPlacePatchOutsideSpec])
            .answering(patch(json!({"metadata": {"labels": {"a": "b"}}}))),
        machine(&[Rule::NeedlessPatch]).answering(patch(json!({"spec": {"version": "v1.99.0"}}))),
        machine(&[Rule::PatchTouchesStatus]).answering(patch(json!({"status": {"phase": "Running"}}))),
        machine(&[Rule::UnsupportedFails]).calls(|_, _| failure("cannot do that")),
        Case::new(&[Rule::InPlaceDisagree], &[CanUpdateMachine, CanUpdateMachineSet]).calls(|ask, reply| {
            if ask.path.contains("machineset") { Reply::json(&json!({"status": "Success"})) } else { reply }
        }),
        update(&[Rule::UpdateRestarts])
            .calls(move |ask, _| if ask.nth % 2 == 0 { Reply::json(&blocking(5)) } else { done() }),
        external(&[Rule::HookOfWindlassOnly, Rule::AcceptedNotSaid]).answering(json!({"status": "Success"})),
        external(&[Rule::HookOfWindlassOnly, Rule::RefusalWithoutReason])
            .answering(json!({"status": "Success", "accepted": false})),
        external(&[Rule::HookOfWindlassOnly, Rule::AcceptanceForgotten]).calls(|ask, reply| {
            let accepted = json!({"status": "Success", "accepted": true, "reason": "on it"});
            if ask.nth % 2 == 0 { Reply::json(&accepted) } else { reply }
        }),
        update(&[Rule::UpdateFailsWhenRepeated])
            .calls(|ask, reply| if ask.nth % 2 == 0 { reply } else { failure("an update is running") }),
    ]
}
