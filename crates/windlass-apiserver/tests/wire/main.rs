//! Replays what was asked of a real kube-apiserver, and compares our answers with its answers.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod kubectl;
mod transcript;

use std::time::Duration;

use serde_json::{Value, json};
use transcript::{Exchange, Replay, load};

/// Everything in a transcript, in order, each answer like the real one.
async fn replay(server: &Replay, exchanges: &[Exchange]) {
    for exchange in exchanges {
        server.check(exchange).await;
    }
}

async fn with_widgets() -> Replay {
    let crd = transcript::crd();
    let server = Replay::start().await;
    let created =
        server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &[], &crd).await;
    assert_eq!(created.code, 201, "{}", created.text());
    server
}

async fn widget(server: &Replay, name: &str, metadata: Value) {
    let mut widget = json!({"apiVersion": "demo.test/v1", "kind": "Widget", "metadata": metadata,
        "spec": {"color": "red"}});
    widget["metadata"]["name"] = name.into();
    let path = "/apis/demo.test/v1/namespaces/default/widgets";
    let created = server.ask("POST", path, &[("User-Agent", "curl/8")], &widget.to_string()).await;
    assert_eq!(created.code, 201, "{}", created.text());
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_accepted_as_the_real_server_accepts_it() {
    let mut exchanges = load("01-crd-create.txt");
    // The transcript cuts the body short; the file beside it has all of it.
    exchanges[0].body = transcript::crd();
    replay(&Replay::start().await, &exchanges).await;
}

#[tokio::test(start_paused = true)]
async fn discovery_of_a_defined_kind_is_that_of_the_real_server() {
    let exchanges = load("02-discovery.txt");
    let server = with_widgets().await;
    for exchange in &exchanges {
        match exchange.path.as_str() {
            // The address and the build are ours; what clients look for is there.
            "/api" | "/version" => {
                let answer = server.send(exchange).await;
                let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
                assert_eq!(keys(&answer.json()), keys(&exchange.answer.json()), "{}", exchange.path);
            }
            _ => server.check(exchange).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn creates_errors_lists_and_tables_are_those_of_the_real_server() {
    let (creates, errors) = (load("03-create.txt"), load("04-errors.txt"));
    let lists = load("05-list-table.txt");
    let server = with_widgets().await;
    replay(&server, &creates).await;
    // Who owned a field first is listed first, to the second.
    tokio::time::advance(Duration::from_secs(1)).await;
    for exchange in &errors {
        match exchange.answer.code {
            // The request whose answer was not kept.
            0 => {}
            // The real server answers in the format that it cannot answer in.
            406 => assert_eq!(server.send(exchange).await.code, 406),
            _ => server.check(exchange).await,
        }
    }
    tokio::time::advance(Duration::from_secs(30)).await;
    replay(&server, &lists).await;
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_is_that_of_the_real_server() {
    let exchanges = load("06-ssa.txt");
    let server = with_widgets().await;
    replay(&server, &exchanges).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_a_selector_sees_objects_come_change_and_leave() {
    let exchanges = load("07-watch.txt");
    let server = with_widgets().await;
    widget(&server, "a1", json!({"labels": {"x": "1"}})).await;
    let (watched, ()) = tokio::join!(server.send(&exchanges[0]), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let path = "/apis/demo.test/v1/namespaces/default/widgets/a1";
        let merge = [("User-Agent", "curl/8"), ("Content-Type", "application/merge-patch+json")];
        let other = [("User-Agent", "other"), ("Content-Type", "application/merge-patch+json")];
        server.ask("PATCH", path, &merge, r#"{"spec":{"color":"blue"}}"#).await;
        server.ask("PATCH", path, &other, r#"{"metadata":{"labels":{"x":"2"}}}"#).await;
        server.ask("DELETE", path, &merge, "").await;
    });
    exchanges[0].compare(&watched);
}

#[tokio::test(start_paused = true)]
async fn watches_from_every_kind_of_revision_are_those_of_the_real_server() {
    let mut exchanges = load("07-watch.txt");
    let server = with_widgets().await;
    let before = server.revision();
    widget(&server, "a2", json!({"labels": {"x": "1"}})).await;
    for exchange in &mut exchanges[1..] {
        // The real server's revisions are not ours.
        exchange.path = exchange.path.replace("resourceVersion=342", &format!("resourceVersion={before}"));
        let needs_old_history =
            exchange.path.contains("resourceVersion=1") || exchange.path.contains("continue=");
        if !needs_old_history {
            server.check(exchange).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_forgotten_revision_is_told_so_in_the_stream() {
    let exchanges = load("07-watch.txt");
    let crd = transcript::crd();
    let server = Replay::with_history(2).await;
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &[], &crd).await;
    for name in ["a", "b", "c"] {
        widget(&server, name, json!({})).await;
    }
    let exchange = exchanges.iter().find(|exchange| exchange.path.contains("resourceVersion=1")).unwrap();
    server.check(exchange).await;
}

#[tokio::test(start_paused = true)]
async fn deletions_are_those_of_the_real_server() {
    let exchanges = load("09-delete.txt");
    let server = with_widgets().await;
    widget(&server, "d1", json!({})).await;
    widget(&server, "d2", json!({"finalizers": ["demo.test/f"]})).await;
    widget(&server, "d3", json!({})).await;
    replay(&server, &exchanges).await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_reviews_and_the_rest_are_those_of_the_real_server() {
    let exchanges = load("10-misc.txt");
    let server = with_widgets().await;
    for exchange in &exchanges {
        match exchange.path.as_str() {
            // What is served differs.
            "/" => assert_eq!(server.send(exchange).await.code, 200),
            // The managed fields of a review are never read.
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
                let answer = server.send(exchange).await;
                assert_eq!(answer.code, 201);
                assert_eq!(answer.json()["status"], exchange.answer.json()["status"]);
            }
            _ => server.check(exchange).await,
        }
    }
}
