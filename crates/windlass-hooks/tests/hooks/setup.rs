//! Extensions and requests as tests need them.

use bytes::Bytes;
use serde_json::{Value, json};
use tower::service_fn;
use windlass_api::Object;
use windlass_api::hooks::{BeforeClusterUpgradeRequest, Hook};
use windlass_api::runtime::{CaBundle, ExtensionConfig};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{ClientIdentity, HttpsTransport, InProcess, boxed};

pub(crate) const SUCCESS: &str = r#"{"status":"Success","retryAfterSeconds":0}"#;

/// An ExtensionConfig at a URL that is for every namespace.
pub(crate) fn extension(name: &str, url: &str, ca_bundle: CaBundle) -> ExtensionConfig {
    let mut config: ExtensionConfig = serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "1"},
        "spec": {"clientConfig": {"url": url}, "namespaceSelector": {}},
    }))
    .unwrap();
    config.spec.client_config.ca_bundle = ca_bundle;
    config
}

/// A handler as discovery answers it, with a timeout of one second.
pub(crate) fn handler(name: &str, hook: Hook, policy: &str) -> Value {
    let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook.name()});
    json!({"name": name, "requestHook": hook, "timeoutSeconds": 1, "failurePolicy": policy})
}

/// A discovery answer.
pub(crate) fn discovery(handlers: &[Value]) -> String {
    json!({"status": "Success", "handlers": handlers}).to_string()
}

/// Registers handlers without asking the extension, and lets calls happen.
pub(crate) fn register(client: &HookClient, config: &ExtensionConfig, handlers: &[Value]) {
    register_as(client, config, handlers, None);
}

pub(crate) fn register_as(
    client: &HookClient,
    config: &ExtensionConfig,
    handlers: &[Value],
    identity: Option<ClientIdentity>,
) {
    let handlers: Vec<_> = handlers
        .iter()
        .map(|handler| {
            let handler = serde_json::from_value(handler.clone()).unwrap();
            config.handler_status(&handler).unwrap()
        })
        .collect();
    client.registry().register(config, &handlers, identity).unwrap();
    client.registry().mark_warm();
}

/// A client over HTTPS with one extension `ext1` at a URL, whose handler `gate` holds upgrades. It is patient,
/// because machines that run tests are busy.
pub(crate) fn https_client(url: &str, ca_bundle: CaBundle, policy: &str) -> HookClient {
    https_client_with_timeout(url, ca_bundle, policy, 30)
}

pub(crate) fn https_client_with_timeout(
    url: &str,
    ca_bundle: CaBundle,
    policy: &str,
    timeout_seconds: u32,
) -> HookClient {
    let client = HookClient::builder(boxed(HttpsTransport::new())).build();
    let config = extension("ext1", url, ca_bundle);
    let mut gate = handler("gate", Hook::BeforeClusterUpgrade, policy);
    gate["timeoutSeconds"] = json!(timeout_seconds);
    register(&client, &config, &[gate]);
    client
}

/// An extension in this process that answers 200 with what a function says of the last two segments of the
/// path and the body.
pub(crate) fn in_process(
    transport: &InProcess,
    name: &str,
    reply: impl Fn(&str, &Value) -> String + Clone + Send + Sync + 'static,
) {
    transport.add(
        name,
        service_fn(move |request: http::Request<Bytes>| {
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            let path = request.uri().path();
            let call = path.rsplit_once("/v1alpha1/").map_or(path, |(_, call)| call);
            let answer = reply(call, &body);
            async move { Ok::<_, std::convert::Infallible>(http::Response::new(Bytes::from(answer))) }
        }),
    );
}

/// A request about Cluster `ns1/c1`.
pub(crate) fn upgrade_request() -> BeforeClusterUpgradeRequest {
    BeforeClusterUpgradeRequest {
        cluster: cluster(),
        from_kubernetes_version: "v1.31.4".to_owned(),
        to_kubernetes_version: "v1.32.5".to_owned(),
        ..Default::default()
    }
}

pub(crate) fn cluster() -> Object {
    Object::try_from(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "c1", "namespace": "ns1", "uid": "u1", "generation": 1},
        "spec": {},
    }))
    .unwrap()
}
