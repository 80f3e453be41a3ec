//! Which handlers are called, in which order, and what their answers come to.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use tower::service_fn;
use windlass_api::hooks::{
    AfterControlPlaneInitialized, AfterControlPlaneInitializedRequest, BeforeClusterUpgrade, Hook,
    UpdateMachine, UpdateMachineRequest,
};
use windlass_api::runtime::CaBundle;
use windlass_hooks::transport::{InProcess, TransportError, boxed};
use windlass_hooks::{Answer, CallError, CallFailure, HookClient, Labels};

use crate::setup::{SUCCESS, extension, handler, in_process, register, upgrade_request};

const HOOK: Hook = Hook::BeforeClusterUpgrade;

/// A client with extensions in this process, and what they were called with.
struct Fixture {
    transport: InProcess,
    client: HookClient,
    calls: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Fixture {
    fn new() -> Self {
        let transport = InProcess::new();
        let labels = |pairs: &[(&str, &str)]| -> Labels {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let namespaces = BTreeMap::from([
            ("ns1".to_owned(), labels(&[("env", "prod")])),
            ("ns2".to_owned(), labels(&[("env", "dev")])),
        ]);
        let client = HookClient::builder(boxed(transport.clone())).namespaces(namespaces).build();
        client.registry().mark_warm();
        Self { transport, client, calls: Arc::default() }
    }

    /// An extension whose handlers answer what is given with their names.
    fn extension(&self, name: &str, handlers: &[(&str, &str)]) {
        self.extension_for(name, handlers, json!({}));
    }

    fn extension_for(&self, name: &str, handlers: &[(&str, &str)], selector: Value) {
        let mut config = extension(name, &format!("https://{name}.example"), CaBundle::default());
        config.spec.namespace_selector = serde_json::from_value(selector).unwrap();
        config.spec.settings =
            [("channel", "stable"), ("region", "eu")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let discovered: Vec<_> = handlers.iter().map(|(name, _)| handler(name, HOOK, "Fail")).collect();
        register(&self.client, &config, &discovered);
        let answers: BTreeMap<String, String> =
            handlers.iter().map(|(name, answer)| ((*name).to_owned(), (*answer).to_owned())).collect();
        let (calls, extension) = (Arc::clone(&self.calls), name.to_owned());
        in_process(&self.transport, name, move |call, body| {
            let handler = call.strip_prefix("beforeclusterupgrade/").unwrap();
            calls.lock().unwrap().push((format!("{handler}.{extension}"), body.clone()));
            answers[handler].clone()
        });
    }

    fn called(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(handler, _)| handler.clone()).collect()
    }
}

fn blocking(message: &str, seconds: i32) -> String {
    json!({"status": "Success", "message": message, "retryAfterSeconds": seconds}).to_string()
}

#[tokio::test]
async fn all_handlers_are_called_in_order_of_their_full_names() {
    let fixture = Fixture::new();
    fixture.extension("zeta", &[("b", SUCCESS), ("a", &blocking("backup", 60))]);
    fixture.extension("alpha", &[("c", &blocking("", 5)), ("a", &blocking("approval", 30))]);
    let answers = fixture.client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await.unwrap();
    assert_eq!(fixture.called(), ["a.alpha", "a.zeta", "b.zeta", "c.alpha"]);
    assert_eq!(answers.response.message, "a.alpha: approval, a.zeta: backup");
    assert_eq!(answers.response.retry_after_seconds, 5);
    let retries: Vec<_> = answers.handlers.iter().map(|answer| answer.retry_after_seconds).collect();
    assert_eq!(retries, [30, 60, 0, 5]);
    assert!(answers.is_complete());
}

#[tokio::test]
async fn without_handlers_a_hook_passes() {
    let fixture = Fixture::new();
    let answers = fixture.client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await.unwrap();
    assert_eq!((answers.response.retry_after_seconds, answers.response.message.as_str()), (0, ""));
    assert!(answers.handlers.is_empty());
}

#[tokio::test]
async fn the_first_failure_stops_and_names_hook_and_handler() {
    let fixture = Fixture::new();
    let failure = r#"{"status":"Failure","message":"quota exceeded for team a","retryAfterSeconds":0}"#;
    fixture.extension("e", &[("a", SUCCESS), ("b", failure), ("c", SUCCESS)]);
    let error = fixture.client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook \"BeforeClusterUpgrade.hooks.runtime.cluster.x-k8s.io\": handler \"b.e\": \
         answered Failure: quota exceeded for team a"
    );
    assert_eq!(fixture.called(), ["a.e", "b.e"]);
}

#[tokio::test]
async fn answers_outside_the_contract_are_errors() {
    for (answer, text) in [
        ("{}", "answered unknown status \"\""),
        (r#"{"status":"success","message":"ok"}"#, "answered unknown status \"success\": ok"),
        (
            r#"{"status":"Success","retryAfterSeconds":-1}"#,
            "answered retryAfterSeconds -1, which is negative",
        ),
    ] {
        let fixture = Fixture::new();
        fixture.extension("e", &[("a", answer)]);
        let result = fixture.client.call_one::<BeforeClusterUpgrade>("a.e", "ns1", &upgrade_request()).await;
        let Err(CallError::Failed { failure, .. }) = result else { panic!("{result:?}") };
        assert_eq!(failure.to_string(), text);
    }
}

#[tokio::test]
async fn extensions_see_only_the_namespaces_they_select() {
    let fixture = Fixture::new();
    fixture.extension_for("prod", &[("a", SUCCESS)], json!({"matchLabels": {"env": "prod"}}));
    fixture.extension_for("all", &[("a", SUCCESS)], json!({}));
    fixture.extension_for("none", &[("a", SUCCESS)], Value::Null);
    let names = async |namespace| {
        let handlers = fixture.client.handlers(HOOK, namespace).await;
        handlers.map(|all| all.iter().map(|handler| handler.name.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(names("ns1").await.unwrap(), ["a.all", "a.prod"]);
    assert_eq!(names("ns2").await.unwrap(), ["a.all"]);
    assert_eq!(
        names("gone").await.unwrap_err().to_string(),
        "cannot look up the labels of namespace \"gone\": the namespace does not exist"
    );

    let call = async |handler, namespace| {
        fixture.client.call_one::<BeforeClusterUpgrade>(handler, namespace, &upgrade_request()).await
    };
    assert!(call("a.prod", "ns1").await.is_ok());
    assert_eq!(
        call("a.prod", "ns2").await.unwrap_err().to_string(),
        "the namespace selector of handler \"a.prod\" does not match namespace \"ns2\""
    );
    assert!(matches!(call("a.none", "ns1").await, Err(CallError::OutOfNamespace { .. })));
    assert!(matches!(call("a.prod", "gone").await, Err(CallError::NamespaceLookup { .. })));
    assert!(call("a.all", "gone").await.is_ok(), "no labels are needed");
}

#[tokio::test]
async fn a_handler_is_called_by_name_only_for_its_hook() {
    let fixture = Fixture::new();
    fixture.extension("e", &[("a", SUCCESS)]);
    let request = UpdateMachineRequest::default();
    let error = fixture.client.call_one::<UpdateMachine>("a.e", "ns1", &request).await.unwrap_err();
    assert_eq!(error.to_string(), "handler \"a.e\" is for hook BeforeClusterUpgrade, not for UpdateMachine");
    for unknown in ["b.e", "a", "a.other", ""] {
        let error = fixture.client.call_one::<UpdateMachine>(unknown, "ns1", &request).await.unwrap_err();
        assert_eq!(error, CallError::UnknownHandler { name: unknown.to_owned() });
    }
    assert!(fixture.called().is_empty());
}

#[tokio::test]
async fn settings_of_the_extension_go_under_those_of_the_request() {
    let fixture = Fixture::new();
    fixture.extension("e", &[("a", SUCCESS)]);
    let mut request = upgrade_request();
    request.settings.insert("channel".to_owned(), "fast".to_owned());
    let before = request.clone();
    let answer = fixture.client.call_one::<BeforeClusterUpgrade>("a.e", "ns1", &request).await.unwrap();
    assert!(answer.given().is_some());
    assert_eq!(request, before);
    let sent = fixture.calls.lock().unwrap()[0].1["settings"].clone();
    assert_eq!(sent, json!({"channel": "fast", "region": "eu"}));
}

/// Status and body, or no answer. Status 0 stands for silence.
type Behaviour = Result<(u16, &'static str), TransportError>;

/// What a server does, and whether `Ignore` covers it.
fn misbehaviours() -> Vec<(&'static str, Behaviour, bool)> {
    let refused =
        TransportError::Connect { authority: "h".to_owned(), reason: std::io::ErrorKind::ConnectionRefused };
    let misconfigured = TransportError::Misconfigured("caBundle has no usable certificate".to_owned());
    vec![
        ("down", Err(refused), true),
        ("broken off", Err(TransportError::Broken("the connection ended".to_owned())), true),
        ("too large", Err(TransportError::AnswerTooLarge), true),
        ("500", Ok((500, "oops")), true),
        ("404", Ok((404, "")), true),
        ("redirect", Ok((302, "")), true),
        ("truncated", Ok((200, "{\"status\":")), true),
        ("empty", Ok((200, "")), true),
        ("hangs", Ok((0, "")), true),
        ("our mistake", Err(misconfigured), false),
        ("failure", Ok((200, "{\"status\":\"Failure\",\"message\":\"no\"}")), false),
        ("unknown status", Ok((200, "{\"status\":\"Done\"}")), false),
        ("no status", Ok((200, "{}")), false),
        ("negative retry", Ok((200, "{\"status\":\"Success\",\"retryAfterSeconds\":-5}")), false),
    ]
}

#[tokio::test(start_paused = true)]
async fn ignore_covers_calls_that_do_not_get_through_and_nothing_else() {
    for (what, behaviour, ignorable) in misbehaviours() {
        for policy in ["Fail", "Ignore"] {
            let behaviour = behaviour.clone();
            let transport = service_fn(move |_: http::Request<Bytes>| {
                let behaviour = behaviour.clone();
                async move {
                    match behaviour? {
                        (0, _) => std::future::pending().await,
                        (code, body) => {
                            Ok(http::Response::builder().status(code).body(Bytes::from(body)).unwrap())
                        }
                    }
                }
            });
            let client = HookClient::builder(boxed(transport)).build();
            let config = extension("e", "https://h", CaBundle::default());
            register(&client, &config, &[handler("a", HOOK, policy)]);

            let one = client.call_one::<BeforeClusterUpgrade>("a.e", "ns1", &upgrade_request()).await;
            let all = client.call_all::<BeforeClusterUpgrade>("ns1", &upgrade_request()).await;
            if policy == "Ignore" && ignorable {
                assert!(matches!(one, Ok(Answer::Ignored(_))), "{what}: {one:?}");
                let all = all.unwrap();
                assert_eq!(all.response.retry_after_seconds, 0, "{what}");
                assert_eq!(all.ignored().count(), 1, "{what}");
                assert!(!all.is_complete(), "{what}");
            } else {
                assert!(matches!(one, Err(CallError::Failed { .. })), "{what} {policy}: {one:?}");
                assert_eq!(all.unwrap_err(), one.unwrap_err(), "{what} {policy}");
            }
        }
    }
}

#[tokio::test]
async fn an_address_that_must_not_be_called_is_never_ignored() {
    let client = HookClient::builder(boxed(InProcess::new())).build();
    let config = extension("e", "https://h", CaBundle::default());
    register(&client, &config, &[handler("a", HOOK, "Ignore")]);
    let mut wrong = config.clone();
    wrong.spec.client_config.url = Some("http://h".to_owned());
    assert!(client.registry().register(&wrong, &[], None).is_err());
    let result = client.discover(&wrong, None).await;
    assert!(result.unwrap_err().to_string().contains("must start with https://"));
}

#[tokio::test]
async fn requests_beyond_the_limit_are_not_sent() {
    let fixture = Fixture::new();
    fixture.extension("e", &[("a", SUCCESS)]);
    let mut request = upgrade_request();
    request.cluster.as_map_mut().insert("spec".to_owned(), json!("x".repeat(20 * 1024 * 1024)));
    let result = fixture.client.call_one::<BeforeClusterUpgrade>("a.e", "ns1", &request).await;
    let Err(CallError::Failed { failure, .. }) = result else { panic!("{result:?}") };
    assert!(matches!(failure, CallFailure::RequestTooLarge(_)));
    assert!(fixture.called().is_empty());
}

#[tokio::test]
async fn hooks_that_cannot_block_are_called_all_the_same() {
    let transport = InProcess::new();
    in_process(&transport, "e", |call, _| {
        assert_eq!(call, "aftercontrolplaneinitialized/a");
        r#"{"status":"Success","message":"registered"}"#.to_owned()
    });
    let client = HookClient::builder(boxed(transport)).build();
    let config = extension("e", "https://h", CaBundle::default());
    register(&client, &config, &[handler("a", Hook::AfterControlPlaneInitialized, "Fail")]);
    let request = AfterControlPlaneInitializedRequest::default();
    let answers = client.call_all::<AfterControlPlaneInitialized>("ns1", &request).await.unwrap();
    assert_eq!(answers.response.message, "registered");
}

#[tokio::test(start_paused = true)]
async fn every_call_is_counted_with_its_answer() {
    let transport = InProcess::new();
    let client = HookClient::builder(boxed(transport.clone())).build();
    let config = extension("e", "https://h.example:8443", CaBundle::default());
    register(&client, &config, &[handler("a", HOOK, "Ignore")]);
    let call = async || client.call_one::<BeforeClusterUpgrade>("a.e", "ns1", &upgrade_request()).await;

    let _ = call().await;
    for answer in [SUCCESS, r#"{"status":"Failure"}"#, r#"{"status":"Done"}"#, "garbage"] {
        in_process(&transport, "e", move |_, _| answer.to_owned());
        let _ = call().await;
    }
    transport.add(
        "e",
        service_fn(|_| async {
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            Ok::<_, Infallible>(http::Response::builder().status(500).body(Bytes::new()).unwrap())
        }),
    );
    let _ = call().await;
    client.discover(&config, None).await.unwrap_err();

    let text = client.metrics().render();
    let labels = |hook| {
        format!(
            "group=\"hooks.runtime.cluster.x-k8s.io\",hook=\"{hook}\",host=\"h.example:8443\",version=\"v1alpha1\""
        )
    };
    let upgrade = labels("BeforeClusterUpgrade");
    for (code, status) in [
        ("<error>", "Unknown"),
        ("200", "Success"),
        ("200", "Failure"),
        ("200", "Done"),
        ("200", "Unknown"),
        ("500", "Unknown"),
    ] {
        let line =
            format!("capi_runtime_sdk_requests_total{{code=\"{code}\",{upgrade},status=\"{status}\"}} 1");
        assert!(text.contains(&line), "{line} not in\n{text}");
    }
    let discovery = labels("Discovery");
    for line in [
        format!("capi_runtime_sdk_requests_total{{code=\"500\",{discovery},status=\"Unknown\"}} 1"),
        format!("capi_runtime_sdk_request_duration_seconds_bucket{{{upgrade},le=\"0.4\"}} 5"),
        format!("capi_runtime_sdk_request_duration_seconds_bucket{{{upgrade},le=\"0.6\"}} 6"),
    ] {
        assert!(text.contains(&line), "{line} not in\n{text}");
    }
}
