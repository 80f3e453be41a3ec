//! What an extension says about itself, and what it may not say.

use std::future::ready;

use serde_json::json;
use windlass_extension::hooks::{
    BeforeClusterCreate, BeforeClusterUpgrade, Discovery, DiscoveryRequest, DiscoveryResponse, FailurePolicy,
    GenerateUpgradePlan, HookResponse, HookType, UpdateMachine,
};
use windlass_extension::{Context, Extension, ExtensionBuilder, Handler};

use crate::support::{H1, H2, Running, discovery_path};

/// A function that fits every hook.
fn success<H: HookType>(_: Context, _: H::Request) -> std::future::Ready<H::Response> {
    ready(H::Response::success())
}

fn gate(builder: ExtensionBuilder, handler: impl Into<Handler>) -> ExtensionBuilder {
    builder.on(BeforeClusterUpgrade, handler, success::<BeforeClusterUpgrade>)
}

#[tokio::test]
async fn discovery_lists_the_handlers_in_the_order_of_registration() {
    let extension = Extension::new("described")
        .on(UpdateMachine, "update", success::<UpdateMachine>)
        .on(
            GenerateUpgradePlan,
            Handler::named("plan").timeout_seconds(5).failure_policy(FailurePolicy::Fail),
            success::<GenerateUpgradePlan>,
        )
        .on(BeforeClusterCreate, Handler::named("create").timeout_seconds(0), success::<BeforeClusterCreate>)
        .build()
        .unwrap();
    assert_eq!(extension.handlers().len(), 3);
    let hook = |name: &str| json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": name});
    let expected = json!({
        "kind": "DiscoveryResponse",
        "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1",
        "status": "Success",
        "handlers": [
            {"name": "update", "requestHook": hook("UpdateMachine")},
            {
                "name": "plan",
                "requestHook": hook("GenerateUpgradePlan"),
                "timeoutSeconds": 5,
                "failurePolicy": "Fail",
            },
            {"name": "create", "requestHook": hook("BeforeClusterCreate"), "timeoutSeconds": 0},
        ],
    });
    let (running, caller) = Running::with(extension).await;
    for alpn in [H1, H2] {
        let mut connection = caller.connect(running.address, alpn).await.unwrap();
        for _ in 0..2 {
            let path = format!("{}?timeout=10s", discovery_path());
            assert_eq!(connection.post(&path, "{}").await.json(), expected);
        }
        let (status, message) = connection.post(&discovery_path(), "{").await.outcome();
        assert_eq!(status, "Failure");
        assert!(message.starts_with("request could not be decoded: "), "{message}");
    }
}

#[tokio::test]
async fn an_extension_without_handlers_says_so() {
    let extension = Extension::new("empty").build().unwrap();
    let response: DiscoveryResponse =
        extension.invoke(Discovery, "", &DiscoveryRequest::default()).await.unwrap();
    assert!(response.handlers.is_empty());
}

#[test]
fn what_cluster_api_would_refuse_is_refused_at_registration() {
    let long = "a".repeat(64);
    let new = || Extension::new("ext");
    let many = || (0..513).fold(new(), |builder, index| gate(builder, format!("h{index}")));
    for (builder, message) in [
        (
            gate(new(), ""),
            "cannot register a handler of BeforeClusterUpgrade: invalid handler name \"\": must not be empty",
        ),
        (
            gate(new(), "a.b"),
            "cannot register a handler of BeforeClusterUpgrade: invalid handler name \"a.b\": must consist of lower-case letters, digits and '-', not '.'",
        ),
        (
            gate(new(), "-a"),
            "cannot register a handler of BeforeClusterUpgrade: invalid handler name \"-a\": must start with a lower-case letter or a digit",
        ),
        (
            gate(gate(new(), "gate"), "gate"),
            "handler gate of BeforeClusterUpgrade has the name of a handler of BeforeClusterUpgrade",
        ),
        (
            gate(new(), "gate").on(BeforeClusterCreate, "gate", success::<BeforeClusterCreate>),
            "handler gate of BeforeClusterCreate has the name of a handler of BeforeClusterUpgrade",
        ),
        (
            gate(new(), Handler::named("gate").timeout_seconds(31)),
            "handler gate has a timeout of 31 seconds, more than 30",
        ),
        (
            gate(new(), Handler::named("gate").failure_policy(FailurePolicy::Unknown("Maybe".to_owned()))),
            "handler gate has the unknown failure policy \"Maybe\"",
        ),
        (
            new().on(Discovery, "discovery", success::<Discovery>),
            "handler discovery cannot be registered for Discovery, which every extension has already",
        ),
        (
            Extension::new("My Ext"),
            "invalid extension name \"My Ext\": must consist of lower-case letters, digits and '-', not 'M'",
        ),
        (new().base_path("hooks"), "invalid base path \"hooks\": must start with a slash"),
        (new().base_path("/a//b"), "invalid base path \"/a//b\": must not have empty, '.' or '..' segments"),
        (
            new().base_path("/a/../b"),
            "invalid base path \"/a/../b\": must not have empty, '.' or '..' segments",
        ),
        (
            new().base_path("/a?b"),
            "invalid base path \"/a?b\": must consist of letters, digits, '-', '.', '_' and '~'",
        ),
        (many(), "513 handlers are more than 512"),
        (
            gate(gate(new(), "A"), Handler::named("gate").timeout_seconds(99)),
            "cannot register a handler of BeforeClusterUpgrade: invalid handler name \"A\": must consist of lower-case letters, digits and '-', not 'A'; handler gate has a timeout of 99 seconds, more than 30",
        ),
    ] {
        assert_eq!(builder.build().unwrap_err().to_string(), message);
    }
    let error = gate(new(), long.as_str()).build().unwrap_err().to_string();
    assert!(error.ends_with("must be no more than 63 characters"), "{error}");
    for allowed in [
        gate(new(), "a".repeat(63)),
        gate(new(), Handler::named("0").timeout_seconds(30).failure_policy(FailurePolicy::Ignore)),
        new().base_path("/"),
        new().base_path("/a/b_c~d.e/"),
    ] {
        assert!(allowed.build().is_ok());
    }
}
