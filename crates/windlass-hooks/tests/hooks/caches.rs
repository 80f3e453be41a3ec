//! Answers that are used again, in paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;
use windlass_api::Object;
use windlass_api::hooks::{
    BeforeClusterUpgrade, DiscoverVariables, DiscoverVariablesRequest, GenerateUpgradePlan,
    GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, Hook, UpdateMachine, UpdateMachineRequest,
};
use windlass_api::runtime::{CaBundle, ExtensionConfig};
use windlass_hooks::cache::{ObjectIdentity, Question};
use windlass_hooks::transport::{InProcess, boxed};
use windlass_hooks::{CallError, GivenPlan, HookClient, PlanAge};

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

fn key(to: &str) -> Question {
    Question::new::<BeforeClusterUpgrade>(ObjectIdentity::of(&cluster()), ["v1.31.4", to])
}

async fn ask(client: &HookClient, question: &Question) -> (i32, String, bool) {
    let answers =
        client.call_all_at_pace::<BeforeClusterUpgrade>(question, &upgrade_request()).await.unwrap();
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
async fn another_target_version_and_another_edition_are_other_questions() {
    let fixture = Fixture::new(Hook::BeforeClusterUpgrade, WAIT);
    for question in [key("v1.32.5"), key("v1.33.1"), key("v1.32.5").in_edition("edited")] {
        let (_, _, waiting) = ask(&fixture.client, &question).await;
        assert!(!waiting, "{question:?}");
    }
    assert_eq!(fixture.calls(), 3);
    let (_, _, waiting) = ask(&fixture.client, &key("v1.32.5")).await;
    assert!(!waiting, "an edit that is taken back is an edit");
}

#[tokio::test(start_paused = true)]
async fn deleting_or_editing_the_extension_that_blocks_ends_the_wait() {
    let mut fixture = Fixture::new(Hook::BeforeClusterUpgrade, WAIT);
    ask(&fixture.client, &key("v1.32.5")).await;
    fixture.change_extension();
    let (_, _, waiting) = ask(&fixture.client, &key("v1.32.5")).await;
    assert!(waiting, "a write of its status is no edit");
    fixture.config.metadata.generation = Some(2);
    fixture.change_extension();
    let (_, _, waiting) = ask(&fixture.client, &key("v1.32.5")).await;
    assert!(!waiting, "an edit of its spec is");
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

/// When calls happen that fail, in seconds after the first, if something asks every 100 ms for five minutes.
async fn failing_calls<T>(fixture: &Fixture, ask: impl AsyncFn() -> Result<T, CallError>) -> Vec<u64> {
    let begun = tokio::time::Instant::now();
    let mut at = Vec::new();
    while begun.elapsed() < Duration::from_secs(300) {
        let before = fixture.calls();
        let Err(error) = ask().await else { panic!("it does not fail") };
        assert!(error.retry().is_some(), "{error}");
        if fixture.calls() > before {
            at.push(begun.elapsed().as_secs());
        }
        advance(Duration::from_millis(100)).await;
    }
    at
}

const EVENLY: [u64; 10] = [0, 1, 3, 7, 15, 31, 63, 123, 183, 243];

#[tokio::test(start_paused = true)]
async fn handlers_that_fail_are_called_at_growing_intervals_however_often_they_are_asked_for() {
    let failure = r#"{"status":"Failure","message":"no"}"#;
    let fixture = Fixture::new(Hook::BeforeClusterUpgrade, failure);
    let lifecycle = async || {
        fixture.client.call_all_at_pace::<BeforeClusterUpgrade>(&key("v1.32.5"), &upgrade_request()).await
    };
    assert_eq!(failing_calls(&fixture, lifecycle).await, EVENLY);

    let fixture = Fixture::new(Hook::GenerateUpgradePlan, failure);
    let planning = async || plan(&fixture, &plan_request(), PlanAge::Now).await;
    assert_eq!(failing_calls(&fixture, planning).await, EVENLY);

    let fixture = Fixture::new(Hook::DiscoverVariables, failure);
    let question = variables_question();
    let request = DiscoverVariablesRequest::default();
    let discovering = async || fixture.client.discover_variables("h.e", &question, &request).await;
    assert_eq!(failing_calls(&fixture, discovering).await, EVENLY);

    let fixture = Fixture::new(Hook::UpdateMachine, failure);
    let handler = fixture.client.registry().get("h.e").unwrap();
    let updating = async || {
        fixture.client.wait_at_pace::<UpdateMachine>(&handler, UpdateMachineRequest::default()).await
    };
    assert_eq!(failing_calls(&fixture, updating).await, EVENLY);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_to_wait_is_not_called_before_unless_it_is_asked_something_else() {
    let waits = r#"{"status":"Success","message":"rebooting","retryAfterSeconds":2147483647}"#;
    let fixture = Fixture::new(Hook::UpdateMachine, waits);
    let handler = fixture.client.registry().get("h.e").unwrap();
    let ask = async |name: &str| {
        let mut request = UpdateMachineRequest::default();
        request.desired.machine = Object::try_from(json!({"metadata": {"name": name}})).unwrap();
        fixture.client.wait_at_pace::<UpdateMachine>(&handler, request).await.unwrap().unwrap()
    };
    let waiting = ask("m1").await;
    assert_eq!(
        (waiting.handlers.as_slice(), waiting.message.as_str()),
        (&["h.e".to_owned()][..], "rebooting")
    );
    assert_eq!((waiting.retry.to_string().as_str(), waiting.asked_seconds), ("after 1h", 2_147_483_647));
    advance(Duration::from_secs(3599)).await;
    assert_eq!(ask("m1").await.retry.left, Duration::from_secs(1));
    assert_eq!(fixture.calls(), 1);
    ask("m2").await;
    assert_eq!(fixture.calls(), 2, "another machine is another question");
    advance(Duration::from_secs(1)).await;
    ask("m1").await;
    assert_eq!(fixture.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_when_it_is_tried_again_in_words_that_stay() {
    let fixture = Fixture::new(Hook::BeforeClusterUpgrade, r#"{"status":"Failure","message":"no"}"#);
    let ask = async || {
        let (question, request) = (key("v1.32.5"), upgrade_request());
        let asked = fixture.client.call_all_at_pace::<BeforeClusterUpgrade>(&question, &request).await;
        asked.unwrap_err().to_string()
    };
    ask().await;
    advance(Duration::from_secs(1)).await;
    let second = ask().await;
    let hook = "BeforeClusterUpgrade.hooks.runtime.cluster.x-k8s.io";
    assert_eq!(second, format!("hook {hook:?}: handler \"h.e\": answered Failure: no; tried again after 2s"));
    advance(Duration::from_millis(1500)).await;
    assert_eq!(ask().await, second);
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
    age: PlanAge,
) -> Result<GivenPlan, CallError> {
    let versions = [&request.from_control_plane_kubernetes_version, &request.to_kubernetes_version];
    let question = Question::new::<GenerateUpgradePlan>(ObjectIdentity::of(&request.cluster), versions);
    fixture.client.upgrade_plan("h.e", &question, request, age, ends_at_target).await
}

async fn shown(fixture: &Fixture, request: &GenerateUpgradePlanRequest) -> Result<GivenPlan, CallError> {
    plan(fixture, request, PlanAge::LastMinute).await
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_shown_for_a_minute_and_asked_for_anew_where_a_step_begins() {
    let fixture = Fixture::new(Hook::GenerateUpgradePlan, PLAN);
    for (seconds, calls) in [(0, 1), (59, 1), (1, 2)] {
        advance(Duration::from_secs(seconds)).await;
        let given = shown(&fixture, &plan_request()).await.unwrap();
        assert_eq!(given.plan.control_plane_upgrades.len(), 2);
        assert_eq!((fixture.calls(), given.is_of_now), (calls, seconds != 59), "after {seconds} s more");
    }
    let given = plan(&fixture, &plan_request(), PlanAge::Now).await.unwrap();
    assert_eq!((fixture.calls(), given.is_of_now), (3, true));
    assert!(!shown(&fixture, &plan_request()).await.unwrap().is_of_now);
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_an_extension_that_does_not_answer_any_more_is_not_used() {
    let fixture = Fixture::new(Hook::GenerateUpgradePlan, PLAN);
    assert!(shown(&fixture, &plan_request()).await.is_ok());
    fixture.answer(r#"{"status":"Failure","message":"no"}"#);
    assert!(plan(&fixture, &plan_request(), PlanAge::Now).await.is_err());
    advance(Duration::from_secs(2)).await;
    assert!(shown(&fixture, &plan_request()).await.is_err());
    assert_eq!(fixture.calls(), 3);
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
        assert!(shown(&fixture, &request).await.is_ok());
        assert_eq!(fixture.calls(), calls);
    }
    fixture.change_extension();
    assert!(shown(&fixture, &plan_request()).await.is_ok());
    assert_eq!(fixture.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_cannot_be_used_is_asked_for_again() {
    let fixture = Fixture::new(
        Hook::GenerateUpgradePlan,
        r#"{"status":"Success","controlPlaneUpgrades":[{"version":"v1.32.5"}]}"#,
    );
    let hook = "GenerateUpgradePlan.hooks.runtime.cluster.x-k8s.io";
    let why = "answered an upgrade plan that cannot be used: the plan does not end at v1.33.1";
    for calls in 1..=2 {
        let error = shown(&fixture, &plan_request()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("hook {hook:?}: handler \"h.e\": {why}; tried again after {calls}s")
        );
        assert_eq!(fixture.calls(), calls);
        advance(error.retry().unwrap().left).await;
    }
    fixture.answer(PLAN);
    assert!(shown(&fixture, &plan_request()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_ignored_failure_is_not_remembered_as_a_plan() {
    let fixture = Fixture::new(Hook::GenerateUpgradePlan, "garbage");
    for calls in 1..=2 {
        let error = shown(&fixture, &plan_request()).await.unwrap_err();
        assert!(error.to_string().contains("the answer cannot be decoded"), "{error}");
        assert_eq!(fixture.calls(), calls);
        advance(error.retry().unwrap().left).await;
    }
}

fn variables_question() -> Question {
    let class =
        ObjectIdentity { kind: "ClusterClass".into(), namespace: "ns1".into(), ..ObjectIdentity::default() };
    Question::new::<DiscoverVariables>(class, ["h.e"])
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
        let question = variables_question();
        let answer = fixture.client.discover_variables("h.e", &question, &request(settings)).await.unwrap();
        assert_eq!(answer.variables[0].name, "replicas");
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
