//! Answers that are used again, in paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;
use windlass_api::hooks::{
    BeforeClusterUpgrade, DiscoverVariablesRequest, GenerateUpgradePlanRequest, GenerateUpgradePlanResponse,
    Hook,
};
use windlass_api::runtime::{CaBundle, ExtensionConfig};
use windlass_hooks::cache::{BlockingKey, ObjectKey};
use windlass_hooks::transport::{InProcess, boxed};
use windlass_hooks::{Answer, HookClient, UpgradePlanError};

use crate::setup::{cluster, extension, handler, in_process, register, upgrade_request};

/// One extension with one handler `h`, which counts its calls and answers the same until told otherwise.
struct Fixture {
    transport: InProcess,
    client: HookClient,
    config: ExtensionConfig,
    handlers: Vec<Value>,
    calls: Arc<AtomicUsize>,
}

impl Fixture {
    fn new(hook: Hook, answer: &str) -> Self {
        let transport = InProcess::new();
        let client = HookClient::builder(boxed(transport.clone())).build();
        let config = extension("e", "https://h", CaBundle::default());
        let handlers = vec![handler("h", hook, "Ignore")];
        register(&client, &config, &handlers);
        let fixture = Self { transport, client, config, handlers, calls: Arc::default() };
        fixture.answer(answer);
        fixture
    }

    fn answer(&self, answer: &str) {
        let (calls, answer) = (Arc::clone(&self.calls), answer.to_owned());
        in_process(&self.transport, "e", move |_, _| {
            calls.fetch_add(1, Ordering::SeqCst);
            answer.clone()
        });
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn change_extension(&mut self) {
        self.config.metadata.resource_version.as_mut().unwrap().push('0');
        register(&self.client, &self.config, &self.handlers);
    }
}

const WAIT: &str = r#"{"status":"Success","message":"waiting for the backup","retryAfterSeconds":60}"#;

fn key(to: &str) -> BlockingKey {
    BlockingKey::new::<BeforeClusterUpgrade>(ObjectKey::of(&cluster()), ["v1.31.4", to])
}

async fn ask(client: &HookClient, key: &BlockingKey) -> (i32, String, bool) {
    let answers =
        client.call_all_unless_waiting::<BeforeClusterUpgrade>(key, &upgrade_request()).await.unwrap();
    (answers.response.retry_after_seconds, answers.response.message, answers.waiting)
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_said_wait_is_not_asked_until_then() {
    let fixture = Fixture::new(Hook::BeforeClusterUpgrade, WAIT);
    let key = key("v1.32.5");
    let message = || "waiting for the backup".to_owned();
    assert_eq!(ask(&fixture.client, &key).await, (60, message(), false));
    advance(Duration::from_millis(30_500)).await;
    assert_eq!(ask(&fixture.client, &key).await, (30, message(), true));
    advance(Duration::from_millis(29_499)).await;
    assert_eq!(ask(&fixture.client, &key).await, (1, message(), true));
    assert_eq!(fixture.calls(), 1);
    advance(Duration::from_millis(1)).await;
    assert_eq!(ask(&fixture.client, &key).await, (60, message(), false));
    assert_eq!(fixture.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn another_target_version_is_another_question() {
    let fixture = Fixture::new(Hook::BeforeClusterUpgrade, WAIT);
    let (_, _, waiting) = ask(&fixture.client, &key("v1.32.5")).await;
    assert!(!waiting);
    let (_, _, waiting) = ask(&fixture.client, &key("v1.33.1")).await;
    assert!(!waiting);
    assert_eq!(fixture.calls(), 2);
    fixture.client.forget_waits(&ObjectKey::of(&cluster()));
    let (_, _, waiting) = ask(&fixture.client, &key("v1.32.5")).await;
    assert!(!waiting);
}

#[tokio::test(start_paused = true)]
async fn deleting_the_extension_that_blocks_ends_the_wait() {
    let fixture = Fixture::new(Hook::BeforeClusterUpgrade, WAIT);
    ask(&fixture.client, &key("v1.32.5")).await;
    fixture.client.registry().unregister("e");
    assert_eq!(ask(&fixture.client, &key("v1.32.5")).await, (0, String::new(), false));
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_not_remembered() {
    let fixture = Fixture::new(Hook::BeforeClusterUpgrade, r#"{"status":"Success","retryAfterSeconds":0}"#);
    for calls in 1..=3 {
        ask(&fixture.client, &key("v1.32.5")).await;
        assert_eq!(fixture.calls(), calls);
    }
}

const PLAN: &str =
    r#"{"status":"Success","controlPlaneUpgrades":[{"version":"v1.32.5"},{"version":"v1.33.1"}]}"#;

fn plan_request() -> GenerateUpgradePlanRequest {
    GenerateUpgradePlanRequest::new(cluster(), "v1.31.4", Some("v1.31.4".to_owned()), "v1.33.1")
}

/// Accepts plans that end at the target.
fn ends_at_target(plan: &GenerateUpgradePlanResponse) -> Result<(), &'static str> {
    match plan.control_plane_upgrades.last() {
        Some(step) if step.version == "v1.33.1" => Ok(()),
        _ => Err("the plan does not end at v1.33.1"),
    }
}

async fn plan(
    fixture: &Fixture,
    request: &GenerateUpgradePlanRequest,
) -> Result<Answer<GenerateUpgradePlanResponse>, UpgradePlanError> {
    fixture.client.upgrade_plan("h.e", "ns1", request, ends_at_target).await
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_used_for_ten_minutes() {
    let fixture = Fixture::new(Hook::GenerateUpgradePlan, PLAN);
    for (seconds, calls) in [(0, 1), (599, 1), (1, 2)] {
        advance(Duration::from_secs(seconds)).await;
        let plan = plan(&fixture, &plan_request()).await.unwrap().given().unwrap();
        assert_eq!(plan.control_plane_upgrades.len(), 2);
        assert_eq!(fixture.calls(), calls, "after {seconds} s more");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_only_for_what_was_asked() {
    let mut fixture = Fixture::new(Hook::GenerateUpgradePlan, PLAN);
    let mut changed = plan_request();
    changed.cluster.as_map_mut()["metadata"]["generation"] = json!(2);
    let mut status_only = plan_request();
    status_only.cluster.as_map_mut().insert("status".to_owned(), json!({"phase": "Provisioned"}));
    let mut configured = plan_request();
    configured.settings.insert("channel".to_owned(), "fast".to_owned());
    let requests = [
        (plan_request(), 1),
        (status_only, 1),
        (changed, 2),
        (configured, 3),
        (GenerateUpgradePlanRequest::new(cluster(), "v1.32.5", None, "v1.33.1"), 4),
        (plan_request(), 4),
    ];
    for (request, calls) in requests {
        assert!(plan(&fixture, &request).await.unwrap().given().is_some());
        assert_eq!(fixture.calls(), calls);
    }
    fixture.change_extension();
    assert!(plan(&fixture, &plan_request()).await.unwrap().given().is_some());
    assert_eq!(fixture.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_cannot_be_used_is_asked_for_again() {
    let fixture = Fixture::new(
        Hook::GenerateUpgradePlan,
        r#"{"status":"Success","controlPlaneUpgrades":[{"version":"v1.32.5"}]}"#,
    );
    for calls in 1..=2 {
        assert_eq!(
            plan(&fixture, &plan_request()).await.unwrap_err().to_string(),
            "handler \"h.e\" answered an upgrade plan that cannot be used: the plan does not end at v1.33.1"
        );
        assert_eq!(fixture.calls(), calls);
    }
    fixture.answer(PLAN);
    assert!(plan(&fixture, &plan_request()).await.unwrap().given().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_ignored_failure_is_not_remembered_as_a_plan() {
    let fixture = Fixture::new(Hook::GenerateUpgradePlan, "garbage");
    for calls in 1..=2 {
        assert!(plan(&fixture, &plan_request()).await.unwrap().is_ignored());
        assert_eq!(fixture.calls(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn variables_are_remembered_by_settings_in_any_order() {
    let mut fixture = Fixture::new(
        Hook::DiscoverVariables,
        r#"{"status":"Success","variables":[{"name":"replicas","required":true,"schema":{"openAPIV3Schema":{"type":"integer"}}}]}"#,
    );
    let request = |settings: &[(&str, &str)]| DiscoverVariablesRequest {
        settings: settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        ..Default::default()
    };
    let ask = async |fixture: &Fixture, settings: &[(&str, &str)]| {
        let answer = fixture.client.discover_variables("h.e", "ns1", &request(settings)).await.unwrap();
        assert_eq!(answer.given().unwrap().variables[0].name, "replicas");
    };
    ask(&fixture, &[("a", "1"), ("b", "2")]).await;
    ask(&fixture, &[("b", "2"), ("a", "1")]).await;
    assert_eq!(fixture.calls(), 1);
    ask(&fixture, &[("a", "2"), ("b", "1")]).await;
    assert_eq!(fixture.calls(), 2);
    fixture.change_extension();
    ask(&fixture, &[("a", "1"), ("b", "2")]).await;
    assert_eq!(fixture.calls(), 3);
    advance(Duration::from_secs(600)).await;
    ask(&fixture, &[("a", "1"), ("b", "2")]).await;
    assert_eq!(fixture.calls(), 4);
}
