//! The ExtensionConfig resource.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::handler_name::{HandlerName, HandlerNameError, RegisteredName};
use crate::hooks::wire::inline_schema;
use crate::hooks::{ExtensionHandler, FailurePolicy, GroupVersionHook, Settings};
use crate::kind::{AnyObject, GroupVersion, kind, null_is_default, resource_struct};
use crate::kubernetes;
use crate::names::{INJECT_CA_FROM_SECRET_ANNOTATION, PAUSED_ANNOTATION, RUNTIME_API_VERSION, RUNTIME_GROUP};

const RUNTIME: GroupVersion =
    GroupVersion { group: RUNTIME_GROUP, version: "v1beta2", api_version: RUNTIME_API_VERSION };

/// Condition that says whether discovery worked. Stale unless it observed the current generation.
pub const DISCOVERED_CONDITION: &str = "Discovered";
/// Reason of [`DISCOVERED_CONDITION`] when it is true.
pub const DISCOVERED_REASON: &str = "Discovered";
/// Reason of [`DISCOVERED_CONDITION`] when it is false. The message embeds the error.
pub const NOT_DISCOVERED_REASON: &str = "NotDiscovered";
/// Condition that says whether reconciliation is paused.
pub const PAUSED_CONDITION: &str = "Paused";
/// Port of a Service that does not say which, as for every webhook in Kubernetes.
pub const DEFAULT_SERVICE_PORT: i32 = 443;

kind! {
    /// Registers an extension.
    pub struct ExtensionConfig in RUNTIME, "extensionconfigs", Cluster {
        spec: ExtensionConfigSpec,
        status: ExtensionConfigStatus,
    }
}

resource_struct! {
    /// Where the extension is and for whom.
    #[schemars(extend("required" = ["clientConfig"]))]
    pub struct ExtensionConfigSpec {
        /// Where the extension is: one of url and service.
        #[serde(deserialize_with = "null_is_default")]
        pub client_config: ClientConfig,
        /// Namespaces whose objects the extension gets to see; an empty selector selects all. Absent selects none, and
        /// admission replaces it by an empty one.
        #[schemars(schema_with = "kubernetes::label_selector", extend("default" = {}))]
        pub namespace_selector: Option<LabelSelector>,
        /// Sent with every call; those of a ClusterClass patch win.
        #[serde(deserialize_with = "null_is_default")]
        pub settings: Settings,
    }
}

resource_struct! {
    /// Where an extension is: exactly one of `url` and `service`.
    #[derive(Eq)]
    #[schemars(extend("minProperties" = 1))]
    pub struct ClientConfig {
        /// An address outside the cluster.
        #[schemars(length(min = 1, max = 512))]
        pub url: Option<String>,
        /// A Service in the cluster.
        pub service: Option<ServiceReference>,
        /// Certificates to trust, and no others. If absent, those of the operating system.
        #[serde(deserialize_with = "null_is_default")]
        #[schemars(length(min = 1, max = 51200))]
        pub ca_bundle: CaBundle,
    }
}

resource_struct! {
    /// A Service that an extension is behind.
    #[derive(Eq)]
    #[schemars(extend("required" = ["name", "namespace"]))]
    pub struct ServiceReference {
        /// Namespace of the Service.
        #[serde(deserialize_with = "null_is_default")]
        #[schemars(length(min = 1, max = 63))]
        pub namespace: String,
        /// Name of the Service.
        #[serde(deserialize_with = "null_is_default")]
        #[schemars(length(min = 1, max = 63))]
        pub name: String,
        /// Goes before the path of every hook.
        #[schemars(length(min = 1, max = 512))]
        pub path: Option<String>,
        /// Port of the Service.
        #[schemars(range(min = 1, max = 65535), extend("default" = 443))]
        pub port: Option<i32>,
    }
}

resource_struct! {
    /// What was discovered.
    pub struct ExtensionConfigStatus {
        /// Conditions.
        #[serde(deserialize_with = "null_is_default")]
        #[schemars(schema_with = "kubernetes::conditions")]
        pub conditions: Vec<Condition>,
        /// Handlers of the last discovery that worked. A failed one leaves them alone.
        #[serde(deserialize_with = "null_is_default")]
        #[schemars(
            length(max = 512),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
        )]
        pub handlers: Vec<HandlerStatus>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated")]
        pub deprecated: Option<AnyObject>,
    }
}

resource_struct! {
    /// A handler under its registered name.
    #[schemars(extend("required" = ["name", "requestHook"]))]
    pub struct HandlerStatus {
        /// Handler and ExtensionConfig, joined by a dot.
        #[serde(deserialize_with = "null_is_default")]
        #[schemars(length(min = 1, max = 512))]
        pub name: String,
        /// Which hook it handles.
        #[serde(deserialize_with = "null_is_default")]
        pub request_hook: GroupVersionHook,
        /// How long a caller waits for an answer; absent is the default.
        #[schemars(range(min = 1))]
        pub timeout_seconds: Option<i32>,
        /// What a caller does when a call does not get through; absent is Fail.
        #[schemars(extend("enum" = ["Ignore", "Fail"]))]
        pub failure_policy: Option<FailurePolicy>,
    }
}

impl ExtensionConfig {
    /// Its name, which is part of the registered name of every handler. Empty if it has none; [`validate`] refuses that.
    ///
    /// [`validate`]: super::validate
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }

    /// Fills in what the user left out: an absent selector becomes one that selects every namespace, and a
    /// Service without a port gets 443.
    pub fn fill_defaults(&mut self) {
        self.spec.namespace_selector.get_or_insert_default();
        if let Some(service) = &mut self.spec.client_config.service {
            service.port.get_or_insert(DEFAULT_SERVICE_PORT);
        }
    }

    /// Whether reconciliation is paused. Only presence of the annotation counts, whatever its value.
    pub fn is_paused(&self) -> bool {
        self.annotation(PAUSED_ANNOTATION).is_some()
    }

    /// Whether deletion was asked for.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The Secret from which the certificates to trust are copied, if the user wants that.
    ///
    /// # Errors
    ///
    /// When the annotation does not name a Secret.
    pub fn inject_ca_from(&self) -> Result<Option<SecretReference>, InjectCaError> {
        let Some(value) = self.annotation(INJECT_CA_FROM_SECRET_ANNOTATION) else { return Ok(None) };
        match value.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Some(SecretReference { namespace: namespace.to_owned(), name: name.to_owned() }))
            }
            _ => Err(InjectCaError { value: value.to_owned() }),
        }
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The condition of a type, if the status has it.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the handlers in the status are those of the current `spec`. To be checked before handlers
    /// are used that were not just discovered.
    pub fn is_discovered(&self) -> bool {
        self.condition(DISCOVERED_CONDITION).is_some_and(|condition| {
            condition.status == "True" && condition.observed_generation == self.metadata.generation
        })
    }

    /// The status of a handler that was discovered, under its registered name.
    ///
    /// # Errors
    ///
    /// When one of the names is no RFC 1123 label.
    pub fn handler_status(&self, handler: &ExtensionHandler) -> Result<HandlerStatus, HandlerNameError> {
        let name = RegisteredName::new(&HandlerName::new(handler.name.as_str())?, self.name())?;
        Ok(HandlerStatus {
            name: name.as_str().to_owned(),
            request_hook: handler.request_hook.clone(),
            // 0 means the default, and the schema of the resource does not allow it.
            timeout_seconds: handler.timeout_seconds.filter(|&seconds| seconds != 0),
            failure_policy: handler.failure_policy.clone(),
        })
    }
}

/// Certificates in PEM. Base64 on the wire, because that is what Go does with bytes.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CaBundle(Vec<u8>);

impl CaBundle {
    /// Takes PEM as it is. Nothing checks it here.
    pub fn new(pem: impl Into<Vec<u8>>) -> Self {
        Self(pem.into())
    }

    /// The PEM.
    pub fn as_pem(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Prints the size only: thousands of bytes of certificates make a log unreadable.
impl fmt::Debug for CaBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaBundle({} bytes)", self.0.len())
    }
}

inline_schema! { CaBundle { "type": "string", "format": "byte" } }

impl Serialize for CaBundle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for CaBundle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let encoded = String::deserialize(deserializer)?;
        let encoded: String = encoded.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        STANDARD.decode(encoded).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Names a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretReference {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
}

impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An annotation that should name a Secret and does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {INJECT_CA_FROM_SECRET_ANNOTATION} must be <namespace>/<name>, not {value:?}")]
pub struct InjectCaError {
    /// What the annotation says instead of `NAMESPACE/NAME`.
    pub value: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::hooks::Hook;

    fn config(value: Value) -> ExtensionConfig {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_extension_config_is_read_and_written() {
        let wire = concat!(
            r#"{"apiVersion":"runtime.cluster.x-k8s.io/v1beta2","kind":"ExtensionConfig","#,
            r#""metadata":{"name":"ext1","generation":2},"#,
            r#""spec":{"clientConfig":{"service":{"namespace":"n1","name":"s1","path":"/base","port":8443},"#,
            r#""caBundle":"UEVN"},"namespaceSelector":{"matchLabels":{"a":"b"}},"settings":{"k":"v"}},"#,
            r#""status":{"conditions":[{"type":"Discovered","status":"True","observedGeneration":2,"#,
            r#""lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Discovered","message":""}],"#,
            r#""handlers":[{"name":"gp.ext1","requestHook":{"#,
            r#""apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"GeneratePatches"},"#,
            r#""timeoutSeconds":10,"failurePolicy":"Fail"}]}}"#
        );
        let config: ExtensionConfig = serde_json::from_str(wire).unwrap();
        assert_eq!(config.spec.client_config.ca_bundle.as_pem(), b"PEM");
        assert!(config.is_discovered());
        let wire: Value = serde_json::from_str(wire).unwrap();
        assert_eq!(serde_json::to_value(&config).unwrap(), wire);
    }

    #[test]
    fn null_counts_as_absent_and_other_kinds_are_refused() {
        let null = config(json!({
            "apiVersion": "runtime.cluster.x-k8s.io/v1alpha1",
            "metadata": {"name": "ext1", "creationTimestamp": null, "managedFields": [{"manager": "kubectl"}]},
            "spec": {"clientConfig": {"url": null, "service": {"name": null, "port": null}, "caBundle": null}, "settings": null},
            "status": {"conditions": null, "handlers": [{"name": "a.ext1", "requestHook": null}], "deprecated": {"v1beta1": {}}},
        }));
        assert_eq!(null.name(), "ext1");
        assert_eq!(null.spec.client_config.service, Some(ServiceReference::default()));
        assert_eq!(null.status.handlers[0].name, "a.ext1");
        let written = serde_json::to_value(&null).unwrap();
        assert_eq!(written["metadata"]["managedFields"][0]["manager"], "kubectl");
        assert_eq!(written["status"]["deprecated"], json!({"v1beta1": {}}));
        let empty = config(json!({"metadata": {"name": "e"}, "spec": null, "status": null}));
        assert_eq!(empty, ExtensionConfig::new("e", ExtensionConfigSpec::default()));

        let wrong = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let error = serde_json::from_value::<ExtensionConfig>(wrong).unwrap_err().to_string();
        assert_eq!(error, "expected a ExtensionConfig of runtime.cluster.x-k8s.io, not a Secret of v1");
    }

    #[test]
    fn defaults_select_every_namespace_and_port_443() {
        let mut service =
            config(json!({"spec": {"clientConfig": {"service": {"name": "s", "namespace": "n"}}}}));
        service.fill_defaults();
        assert_eq!(service.spec.namespace_selector, Some(LabelSelector::default()));
        assert_eq!(service.spec.client_config.service.as_ref().unwrap().port, Some(443));
        let once = service.clone();
        service.fill_defaults();
        assert_eq!(service, once);

        let mut given = config(json!({
            "spec": {
                "clientConfig": {"service": {"port": 8443}},
                "namespaceSelector": {"matchLabels": {"a": "b"}},
            },
        }));
        let before = given.clone();
        given.fill_defaults();
        assert_eq!(given, before);
    }

    #[test]
    fn an_absent_selector_is_not_an_empty_one() {
        assert_eq!(config(json!({"spec": {}})).spec.namespace_selector, None);
        assert_eq!(config(json!({"spec": {"namespaceSelector": null}})).spec.namespace_selector, None);
        let empty = config(json!({"spec": {"namespaceSelector": {}}}));
        assert_eq!(empty.spec.namespace_selector, Some(LabelSelector::default()));
        assert_eq!(serde_json::to_value(&empty.spec).unwrap()["namespaceSelector"], json!({}));
    }

    #[test]
    fn the_annotation_names_a_secret() {
        let annotated = |value: &str| {
            let mut config = ExtensionConfig::new("e", ExtensionConfigSpec::default());
            let annotations = config.metadata.annotations.get_or_insert_default();
            annotations.insert(INJECT_CA_FROM_SECRET_ANNOTATION.to_owned(), value.to_owned());
            config.inject_ca_from()
        };
        assert_eq!(ExtensionConfig::default().inject_ca_from(), Ok(None));
        assert_eq!(annotated("ns1/cert").unwrap().unwrap().to_string(), "ns1/cert");
        assert_eq!(annotated("ns1/a/b").unwrap().unwrap().name, "a/b");
        for wrong in ["", "cert", "/cert", "ns1/"] {
            assert_eq!(annotated(wrong), Err(InjectCaError { value: wrong.to_owned() }));
        }
        assert_eq!(
            annotated("cert").unwrap_err().to_string(),
            "annotation runtime.cluster.x-k8s.io/inject-ca-from-secret must be <namespace>/<name>, not \"cert\""
        );
    }

    #[test]
    fn discovery_counts_only_for_the_current_generation() {
        for (status, observed, expected) in [
            ("True", json!(2), true),
            ("True", json!(1), false),
            ("True", json!(null), false),
            ("False", json!(2), false),
            ("Unknown", json!(2), false),
        ] {
            let config = config(json!({
                "metadata": {"generation": 2},
                "status": {"conditions": [{"type": "Discovered", "status": status, "observedGeneration": observed,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }));
            assert_eq!(config.is_discovered(), expected, "{status} {observed}");
        }
        assert!(!ExtensionConfig::default().is_discovered());
    }

    #[test]
    fn a_discovered_handler_is_registered_under_both_names() {
        let config = ExtensionConfig::new("ext1", ExtensionConfigSpec::default());
        let handler = ExtensionHandler {
            timeout_seconds: Some(0),
            ..ExtensionHandler::new(&HandlerName::new("gate").unwrap(), Hook::BeforeClusterUpgrade)
        };
        let status = config.handler_status(&handler).unwrap();
        assert_eq!(status.name, "gate.ext1");
        assert_eq!(status.timeout_seconds, None);
        assert_eq!(status.request_hook.resolve(), Ok(Hook::BeforeClusterUpgrade));
        let wrong = ExtensionHandler { name: "a.b".to_owned(), ..handler };
        assert!(config.handler_status(&wrong).is_err());
    }

    #[test]
    fn pause_and_deletion_are_seen() {
        let config = config(json!({
            "metadata": {"annotations": {"cluster.x-k8s.io/paused": "false"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        }));
        assert!(config.is_paused());
        assert!(config.is_deleting());
        assert!(!ExtensionConfig::default().is_paused());
    }

    #[test]
    fn certificates_are_not_printed() {
        assert_eq!(format!("{:?}", CaBundle::new("-----BEGIN")), "CaBundle(10 bytes)");
        assert!(serde_json::from_str::<CaBundle>("\"not base64!\"").is_err());
    }
}
