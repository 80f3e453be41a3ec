//! Who gets in, and how it ends.

use std::time::Duration;

use http::Request;
use windlass_apiserver::serve::Credentials;

use crate::server::{As, Running};

#[tokio::test]
async fn only_known_clients_get_in_except_for_health_and_version() {
    let server = Running::start().await;
    for path in ["/healthz", "/readyz", "/version"] {
        assert_eq!(server.ask(As::Nobody, Request::get(path), Vec::new()).await.0, 200, "{path}");
    }
    for path in ["/api", "/apis", "/api/v1/namespaces", "/openapi/v2", "/"] {
        assert_eq!(server.ask(As::Nobody, Request::get(path), Vec::new()).await.0, 401, "{path}");
    }
    assert_eq!(server.ask(As::Token("guess"), Request::get("/version"), Vec::new()).await.0, 401);
    let (code, body) = server.ask(As::Admin, Request::get("/api/v1/namespaces"), Vec::new()).await;
    assert!(code == 200 && body.contains("kube-system"), "{code} {body}");
}

#[tokio::test]
async fn a_service_account_gets_in_with_its_token_and_may_do_nothing_without_a_role() {
    let server = Running::start().await;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, body) = server.ask(As::Admin, Request::post(path), b"{\"spec\":{}}".to_vec()).await;
    assert_eq!(code, 201, "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let token = body["status"]["token"].as_str().unwrap();
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, body) = server.ask(As::Token(token), Request::post(who), b"{}".to_vec()).await;
    assert!(code == 201 && body.contains("system:serviceaccount:default:default"), "{code} {body}");
    assert_eq!(server.ask(As::Token(token), Request::get("/api/v1/namespaces"), Vec::new()).await.0, 403);
    assert_eq!(server.ask(As::Token(token), Request::get("/apis"), Vec::new()).await.0, 200);
}

#[tokio::test]
async fn a_stopping_server_ends_watches_and_then_itself() {
    let mut server = Running::start().await;
    let stop = server.stop.take().unwrap();
    let watch = Request::get("/api/v1/namespaces?watch=true&timeoutSeconds=3600");
    let (watched, ()) = tokio::join!(server.ask(As::Admin, watch, Vec::new()), async {
        // The watch must have begun, which only its first answer tells; an answer to a later request will do.
        server.ask(As::Admin, Request::get("/api/v1/namespaces"), Vec::new()).await;
        stop.send(()).unwrap();
    });
    assert_eq!(watched.0, 200);
    tokio::time::timeout(Duration::from_secs(20), server.task).await.unwrap().unwrap();
}

#[test]
fn credentials_are_made_once_and_only_their_owner_can_read_them() {
    let dir = tempfile::tempdir().unwrap();
    let first = Credentials::in_directory(dir.path()).unwrap();
    let second = Credentials::in_directory(dir.path()).unwrap();
    assert_eq!(first.kubeconfig("https://x"), second.kubeconfig("https://x"));
    assert_eq!(first.token_key(), second.token_key());
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        use std::os::unix::fs::PermissionsExt;
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
    std::fs::write(dir.path().join("tokens.csv"), "only,three,parts\n").unwrap();
    assert!(Credentials::in_directory(dir.path()).unwrap_err().to_string().contains("tokens.csv is damaged"));
}
