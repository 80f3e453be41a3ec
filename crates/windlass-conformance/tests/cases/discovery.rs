//! What is announced, and how.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_api::Hook::{self, BeforeClusterUpgrade};
use windlass_conformance::{CapiVersion, Rule};

use super::Case;
use crate::support::Reply;
use crate::support::behaviour::{announcement, handler};

pub(crate) fn announcements() -> Vec<Case> {
    let case = |expected: &'static [Rule], handlers: Value| {
        let answer = json!({"status": "Success", "handlers": handlers});
        let announced = move |_: &crate::support::Ask, _| Reply::json(&answer);
        Case::new(expected, &[]).discovery(announced)
    };
    let gate = |extra: Value| {
        let mut gate = handler("beforeclusterupgrade", "BeforeClusterUpgrade");
        gate.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!([gate])
    };
    let many: Value = (0..513).map(|index| handler(&format!("h{index}"), "BeforeLunch")).collect();
    vec![
        case(&[Rule::NoHandlers], json!([])),
        case(&[Rule::BadHandlerName], json!([handler("Gate", "BeforeClusterUpgrade")])),
        case(&[Rule::RegisteredNameTooLong], json!([handler(&"a".repeat(500), "BeforeClusterUpgrade")])),
        case(
            &[Rule::HandlerNameRepeated],
            json!([handler("a", "BeforeClusterUpgrade"), handler("a", "AfterClusterUpgrade")]),
        ),
        case(&[Rule::TimeoutOutOfRange], gate(json!({"timeoutSeconds": 31}))),
        case(&[Rule::TimeoutZero], gate(json!({"timeoutSeconds": 0}))),
        case(&[Rule::TimeoutLong], gate(json!({"timeoutSeconds": 30}))),
        case(&[Rule::BadFailurePolicy], gate(json!({"failurePolicy": "Retry"}))),
        case(&[Rule::IgnoreLosesEffect], gate(json!({"failurePolicy": "Ignore"}))),
        case(&[Rule::UnknownHook, Rule::TooManyHandlers], many),
        case(&[Rule::HandlerNotServed], json!([handler("nobody", "BeforeClusterUpgrade")])),
        case(
            &[Rule::InPlaceHandlerRepeated, Rule::InPlaceIncomplete],
            json!([handler("a", "UpdateMachine"), handler("b", "UpdateMachine")]),
        ),
        case(&[Rule::VariablesNotDiscoverable], json!([handler("generatepatches", "GeneratePatches")])),
        case(&[Rule::HookTooNew], json!([handler("generateupgradeplan", "GenerateUpgradePlan")]))
            .options(|options| options.capi_versions = vec![CapiVersion { minor: 11 }, CapiVersion::NEWEST]),
    ]
}

pub(crate) fn answers() -> Vec<Case> {
    let case = |expected: &'static [Rule]| Case::new(expected, &[BeforeClusterUpgrade]);
    let failed = |answer: Value| case(&[Rule::DiscoveryFailed]).discovery(move |_, _| Reply::json(&answer));
    vec![
        failed(json!({"status": "Failure", "message": "not yet"})),
        failed(json!({"handlers": []})),
        failed(json!({"status": "Success", "handlers": {}})),
        failed(json!("nonsense")),
        case(&[Rule::DiscoveryFailed]).discovery(|_, reply| Reply { status: 201, ..reply }),
        case(&[Rule::DiscoveryUnstable]).discovery(|ask, reply| {
            if ask.nth % 2 == 1 { Reply::json(&announcement(&[Hook::AfterClusterUpgrade])) } else { reply }
        }),
        case(&[Rule::DiscoverySlow])
            .discovery(|ask, reply| if ask.nth == 0 { reply.after(60) } else { reply })
            .options(|options| options.timing.slow_discovery = Duration::from_millis(30)),
    ]
}
