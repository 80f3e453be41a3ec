//! Answers of handlers: their form, their speed, their stability, and how they block.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_api::Hook::{
    AfterControlPlaneInitialized, BeforeClusterUpgrade, GeneratePatches, GenerateUpgradePlan,
};
use windlass_api::hooks::Settings;
use windlass_conformance::{Options, Rule};

use super::Case;
use crate::support::behaviour::{blocking as block, failure, handler};
use crate::support::{End, Reply};

fn gate(expected: &'static [Rule]) -> Case {
    Case::new(expected, &[BeforeClusterUpgrade])
}

pub(crate) fn answers() -> Vec<Case> {
    let success = |retry: Value| json!({"status": "Success", "message": "wait", "retryAfterSeconds": retry});
    vec![
        gate(&[Rule::CallNot200]).calls(|_, _| Reply::status(500)),
        gate(&[Rule::CallNot200]).calls(|_, reply| Reply { status: 202, ..reply }),
        gate(&[Rule::CallAborted]).calls(|_, reply| reply.ending(End::Abort)),
        gate(&[Rule::BadStatus]).answering(json!({"status": "OK"})),
        gate(&[Rule::UndecodableAnswer]).answering(json!(["Success"])),
        gate(&[Rule::UndecodableAnswer]).calls(|_, reply| Reply { body: reply.body.slice(..10), ..reply }),
        gate(&[Rule::BadRetry]).answering(success(json!(-5))),
        gate(&[Rule::BadRetry]).answering(success(json!("5s"))),
        gate(&[Rule::FailureWithoutMessage]).answering(json!({"status": "Failure"})),
        gate(&[Rule::BlockWithoutMessage]).answering(json!({"status": "Success", "retryAfterSeconds": 30})),
        gate(&[Rule::RetryTooShort]).answering(success(json!(1))),
        gate(&[Rule::RetryTooLong]).answering(success(json!(86_400))),
        Case::new(&[Rule::RetryIgnored], &[AfterControlPlaneInitialized]).answering(success(json!(30))),
    ]
}

pub(crate) fn slow() -> Vec<Case> {
    let hasty = |options: &mut Options| {
        options.timing.slow_call = Duration::from_millis(30);
        options.timing.slow_mutation = Duration::from_millis(30);
    };
    vec![
        gate(&[Rule::SlowCall]).calls(|_, reply| reply.after(60)).options(hasty),
        Case::new(&[Rule::SlowMutation], &[GeneratePatches]).calls(|_, reply| reply.after(60)).options(hasty),
        // One second is the shortest timeout that can be announced.
        gate(&[Rule::TimedOut]).calls(|_, reply| reply.ending(End::Hang)).discovery(|_, _| {
            let mut gate = handler("beforeclusterupgrade", "BeforeClusterUpgrade");
            gate["timeoutSeconds"] = json!(1);
            Reply::json(&json!({"status": "Success", "handlers": [gate]}))
        }),
    ]
}

pub(crate) fn unstable() -> Vec<Case> {
    let plan = |version: &str| json!({"status": "Success", "controlPlaneUpgrades": [{"version": version}]});
    let (one, other) = (plan("v1.32.0"), plan("v1.33.0"));
    vec![
        // The first request of the path is the probe with a body that is not JSON, the second its repetition.
        gate(&[Rule::StatusUnstable, Rule::FailsWhenRepeated])
            .calls(|ask, reply| if ask.nth == 2 { reply } else { failure("already done") }),
        gate(&[Rule::MessageUnstable]).calls(|ask, _| {
            let message = format!("waiting, asked {} times", ask.nth);
            Reply::json(&json!({"status": "Success", "message": message, "retryAfterSeconds": 30}))
        }),
        Case::new(&[Rule::PayloadUnstable], &[GenerateUpgradePlan])
            .calls(move |ask, _| Reply::json(if ask.nth % 2 == 0 { &one } else { &other })),
        gate(&[Rule::VolatileMessage])
            .answering(json!({"status": "Failure", "message": "timed out at 2026-01-01T00:00:00Z"})),
        gate(&[Rule::VolatileMessage]).twist(|ask, reply| {
            if ask.value.is_null() && !ask.is_discovery() {
                failure(&format!("bad request {}", ask.nth))
            } else {
                reply
            }
        }),
        gate(&[Rule::SecretInMessage])
            .answering(json!({"status": "Failure", "message": "login failed: password=hunter2"})),
    ]
}

pub(crate) fn blocking() -> Vec<Case> {
    let told = |options: &mut Options| {
        options.block_settings = Some(Settings::from([("block".to_owned(), "true".to_owned())]));
    };
    let hasty = |options: &mut Options| options.timing.slow_call = Duration::from_millis(30);
    vec![
        gate(&[Rule::BlocksBySleeping]).calls(|_, reply| reply.after(60)).options(told).options(hasty),
        gate(&[Rule::BlocksBySleeping]).calls(|_, _| Reply::json(&block(30)).after(60)).options(hasty),
        gate(&[Rule::BlocksByFailing]).calls(|_, _| failure("not approved")).options(told),
        gate(&[Rule::DoesNotBlock]).answering(json!({"status": "Success"})).options(told),
        // Two probes, one call alone and two at once come before it is asked early.
        gate(&[Rule::EarlyCallSlow])
            .calls(|ask, _| Reply::json(&block(30)).after(if ask.nth >= 5 { 60 } else { 0 }))
            .options(hasty),
        gate(&[Rule::EarlyCallSlow])
            .calls(|ask, _| if ask.nth >= 5 { failure("too early") } else { Reply::json(&block(30)) }),
        gate(&[Rule::NeverUnblocks])
            .calls(|_, _| Reply::json(&block(30)))
            .options(|options| options.poll_for = Some(Duration::from_millis(20))),
    ]
}
