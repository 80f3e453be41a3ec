//! Discovery: an extension tells which handlers it has.

use serde::{Deserialize, Serialize};

use super::wire::{hook_response, hook_types, null_is_default, open_enum, wire_struct};
use super::{GroupVersionHook, Hook, HookRequest, Settings};
use crate::handler_name::HandlerName;
use crate::names::HOOKS_API_VERSION;

hook_types! {
    /// Which handlers an extension has.
    Discovery(DiscoveryRequest) -> DiscoveryResponse;
}

/// Asks an extension for its handlers. Has no settings, unlike every other request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryRequest {
    /// `DiscoveryRequest`. Not checked on input.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Group and version of the hook. Not checked on input.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub api_version: String,
}

impl Default for DiscoveryRequest {
    fn default() -> Self {
        Self { kind: Hook::Discovery.request_kind(), api_version: HOOKS_API_VERSION.to_owned() }
    }
}

impl HookRequest for DiscoveryRequest {
    type HookType = Discovery;

    fn settings(&self) -> Option<&Settings> {
        None
    }

    fn settings_mut(&mut self) -> Option<&mut Settings> {
        None
    }
}

hook_response! {
    /// The handlers of an extension.
    pub struct DiscoveryResponse for Discovery {
        /// The handlers. Names are unique across all hooks. One handler that the caller cannot use, for example of a hook
        /// that it does not know, makes Cluster API refuse all of them.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub handlers: Vec<ExtensionHandler>,
    }
}

wire_struct! {
    /// A handler as its extension announces it. Not checked: the caller does that, and says what is wrong.
    #[derive(Default)]
    pub struct ExtensionHandler {
        /// Name within the extension; must be an RFC 1123 label.
        pub name: String,
        /// Which hook it handles.
        pub request_hook: GroupVersionHook,
        /// How long the caller waits for an answer, 0 to 30. 0 and absence mean 10.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout_seconds: Option<i32>,
        /// What the caller does when the call does not get through: Fail (the default), or Ignore to count it as a success.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub failure_policy: Option<FailurePolicy>,
    }
}

impl ExtensionHandler {
    /// A handler of a hook, with default timeout and failure policy.
    pub fn new(name: &HandlerName, hook: Hook) -> Self {
        Self {
            name: name.as_str().to_owned(),
            request_hook: hook.into(),
            timeout_seconds: None,
            failure_policy: None,
        }
    }
}

open_enum! {
    /// What becomes of a call that does not get through to the extension.
    pub enum FailurePolicy {
        /// It is an error, and the caller tries again later.
        Fail = "Fail",
        /// It counts as an empty success. For hooks that block or answer data this silently loses their
        /// effect: an update in place would count as done. A response that says `Failure` is never ignored.
        Ignore = "Ignore",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hooks::{HookResponse, ResponseStatus};

    #[test]
    fn the_request_is_only_type_meta() {
        let wire = r#"{"kind":"DiscoveryRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1"}"#;
        assert_eq!(serde_json::to_string(&DiscoveryRequest::default()).unwrap(), wire);
        assert_eq!(serde_json::from_str::<DiscoveryRequest>(wire).unwrap(), DiscoveryRequest::default());
        let with_settings =
            DiscoveryRequest::default().with_default_settings(&[("a".into(), "b".into())].into());
        assert_eq!(serde_json::to_string(&with_settings).unwrap(), wire);
    }

    #[test]
    fn the_response_of_an_extension_in_go_is_read_and_written_unchanged() {
        let wire = concat!(
            r#"{"status":"Success","handlers":["#,
            r#"{"name":"gate-upgrade","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","#,
            r#""hook":"BeforeClusterUpgrade"}},"#,
            r#"{"name":"plan","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","#,
            r#""hook":"GenerateUpgradePlan"},"timeoutSeconds":5,"failurePolicy":"Fail"}]}"#,
        );
        let response: DiscoveryResponse = serde_json::from_str(wire).unwrap();
        assert_eq!(response.status(), &ResponseStatus::Success);
        let gate =
            ExtensionHandler::new(&HandlerName::new("gate-upgrade").unwrap(), Hook::BeforeClusterUpgrade);
        let plan = ExtensionHandler {
            timeout_seconds: Some(5),
            failure_policy: Some(FailurePolicy::Fail),
            ..ExtensionHandler::new(&HandlerName::new("plan").unwrap(), Hook::GenerateUpgradePlan)
        };
        assert_eq!(response.handlers, [gate, plan]);
        assert_eq!(serde_json::to_string(&response).unwrap(), wire);
    }

    #[test]
    fn handlers_outside_the_contract_are_representable() {
        let response: DiscoveryResponse = serde_json::from_value(json!({
            "status": "Success",
            "handlers": [{
                "name": "Not A Label",
                "requestHook": {"apiVersion": "example.com/v9", "hook": "BeforeLunch"},
                "timeoutSeconds": -1,
                "failurePolicy": "Sometimes",
                "extra": {},
            }],
        }))
        .unwrap();
        let handler = &response.handlers[0];
        assert_eq!(handler.timeout_seconds, Some(-1));
        assert_eq!(handler.failure_policy, Some(FailurePolicy::Unknown("Sometimes".to_owned())));
        assert!(handler.request_hook.resolve().is_err());
    }

    #[test]
    fn no_handlers_may_be_absent_null_or_empty() {
        for wire in [
            r#"{"status":"Success"}"#,
            r#"{"status":"Success","handlers":null}"#,
            r#"{"status":"Success","handlers":[]}"#,
        ] {
            let response: DiscoveryResponse = serde_json::from_str(wire).unwrap();
            assert_eq!(serde_json::to_string(&response).unwrap(), r#"{"status":"Success"}"#);
        }
    }
}
