//! What users may do, and what they cannot get around.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Clock, Identity, Options, Service};
use windlass_store::{History, Store};

async fn server() -> ApiServer {
    ApiServer::start(Store::in_memory(History::default()), Options::new().seed(1)).await.unwrap()
}

/// A request, with the headers that matter to the test.
async fn ask(
    service: &Service,
    method: Method,
    path: &str,
    headers: &[(&str, &[u8])],
    body: &Value,
) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, http::HeaderValue::from_bytes(value).unwrap());
    }
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let answer = service.answer(request.body(Full::new(body)).unwrap()).await;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Gives a user a role with one rule, in namespace default.
async fn allow(server: &ApiServer, user: &str, group: &str, resources: &[&str], verbs: &[&str]) {
    let admin = server.service();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": user},
        "rules": [{"apiGroups": [group], "resources": resources, "verbs": verbs}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"kind": "User", "name": user}]});
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let path = format!("{RBAC}/namespaces/default/{plural}");
        let (code, body) = ask(&admin, Method::POST, &path, &[], &object).await;
        assert_eq!(code, 201, "{body}");
    }
}

fn user(server: &ApiServer, name: &str) -> Service {
    server.service_for(Identity::user(name, []))
}

#[tokio::test(start_paused = true)]
async fn what_an_administrator_asks_for_as_another_user_never_runs_as_the_administrator() {
    let server = server().await;
    let admin = server.service_for(Identity::admin());
    let secrets = "/api/v1/namespaces/default/secrets";
    let refused: [&[(&str, &[u8])]; 6] = [
        &[("impersonate-user", "josé".as_bytes())],
        &[("impersonate-user", b"")],
        &[("impersonate-group", b"dev")],
        &[("impersonate-uid", b"1")],
        &[("impersonate-extra-scopes", b"view")],
        &[("impersonate-user", b"eve"), ("impersonate-user", b"bob")],
    ];
    for headers in refused {
        let (code, body) = ask(&admin, Method::GET, secrets, headers, &Value::Null).await;
        assert_eq!((code, &body["reason"]), (400, &json!("BadRequest")), "{headers:?}: {body}");
    }
    let as_eve = [("impersonate-user", b"eve".as_slice())];
    assert_eq!(ask(&admin, Method::GET, secrets, &as_eve, &Value::Null).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn acting_for_a_service_account_takes_the_right_to_act_for_service_accounts() {
    let server = server().await;
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let robot = [("impersonate-user", b"system:serviceaccount:default:robot".as_slice())];
    allow(&server, "users-only", "", &["users"], &["impersonate"]).await;
    allow(&server, "accounts", "", &["serviceaccounts"], &["impersonate"]).await;
    let (code, body) = ask(&user(&server, "users-only"), Method::POST, who, &robot, &json!({})).await;
    assert_eq!(code, 403, "{body}");
    assert!(
        body["message"].as_str().unwrap().contains("cannot impersonate resource \"serviceaccounts\""),
        "{body}"
    );
    let accounts = user(&server, "accounts");
    let (code, body) = ask(&accounts, Method::POST, who, &robot, &json!({})).await;
    assert_eq!(code, 201, "{body}");
    assert_eq!(body["status"]["userInfo"]["groups"][0], "system:serviceaccounts");
    let elsewhere = [("impersonate-user", b"system:serviceaccount:kube-system:robot".as_slice())];
    assert_eq!(ask(&accounts, Method::POST, who, &elsewhere, &json!({})).await.0, 403);
    for more in
        [("impersonate-group", b"dev".as_slice()), ("impersonate-uid", b"1"), ("impersonate-extra-a", b"b")]
    {
        let (code, body) = ask(&accounts, Method::POST, who, &[robot[0], more], &json!({})).await;
        assert_eq!(code, 403, "{more:?}: {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_apply_or_an_update_that_creates_takes_the_right_to_create() {
    let server = server().await;
    allow(&server, "patcher", "", &["configmaps"], &["get", "patch", "update"]).await;
    allow(&server, "lessor", "coordination.k8s.io", &["leases"], &["update"]).await;
    let apply = [("content-type", b"application/apply-patch+yaml".as_slice())];
    let path = "/api/v1/namespaces/default/configmaps/c?fieldManager=m";
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}});
    let patcher = user(&server, "patcher");
    let (code, body) = ask(&patcher, Method::PATCH, path, &apply, &object).await;
    assert_eq!(code, 403, "{body}");
    assert!(body["message"].as_str().unwrap().contains("cannot create resource \"configmaps\""), "{body}");
    assert_eq!(ask(&server.service(), Method::PATCH, path, &apply, &object).await.0, 201);
    let mut changed = object;
    changed["data"]["a"] = "c".into();
    let forced = format!("{path}&force=true");
    assert_eq!(ask(&patcher, Method::PATCH, &forced, &apply, &changed).await.0, 200, "it is there now");
    // A Lease is created by an update.
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let (code, body) = ask(&user(&server, "lessor"), Method::PUT, path, &[], &lease).await;
    assert_eq!(code, 403, "{body}");
}

#[tokio::test(start_paused = true)]
async fn the_role_of_a_binding_does_not_change() {
    let server = server().await;
    allow(&server, "eve", "", &["configmaps"], &["get"]).await;
    let admin = server.service();
    let path = format!("{RBAC}/namespaces/default/rolebindings/eve");
    let (_, mut binding) = ask(&admin, Method::GET, &path, &[], &Value::Null).await;
    binding["subjects"][0]["name"] = "bob".into();
    let (code, mut binding) = ask(&admin, Method::PUT, &path, &[], &binding).await;
    assert_eq!(code, 200, "subjects may change: {binding}");
    binding["roleRef"]["name"] = "other".into();
    let (code, body) = ask(&admin, Method::PUT, &path, &[], &binding).await;
    assert_eq!(code, 422, "{body}");
    assert!(body["message"].as_str().unwrap().contains("cannot change roleRef"), "{body}");
    let merge = [("content-type", b"application/merge-patch+json".as_slice())];
    let patch = json!({"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}});
    assert_eq!(ask(&admin, Method::PATCH, &path, &merge, &patch).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_bound_to_an_object_ends_with_it() {
    let server = server().await;
    let admin = server.service();
    let tokens = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let review = "/apis/authentication.k8s.io/v1/tokenreviews";
    let secrets = "/api/v1/namespaces/default/secrets";
    let bound = |kind: &str, uid: &str| {
        let reference = json!({"apiVersion": "v1", "kind": kind, "name": "s", "uid": uid});
        json!({"spec": {"boundObjectRef": reference}})
    };
    assert_eq!(ask(&admin, Method::POST, tokens, &[], &bound("ConfigMap", "")).await.0, 400);
    assert_eq!(ask(&admin, Method::POST, tokens, &[], &bound("Secret", "")).await.0, 404);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    assert_eq!(ask(&admin, Method::POST, secrets, &[], &secret).await.0, 201);
    assert_eq!(ask(&admin, Method::POST, tokens, &[], &bound("Secret", "another")).await.0, 409);
    let (code, body) = ask(&admin, Method::POST, tokens, &[], &bound("Secret", "")).await;
    assert_eq!(code, 201, "{body}");
    let token = json!({"spec": {"token": body["status"]["token"]}});
    let is_good =
        async || ask(&admin, Method::POST, review, &[], &token).await.1["status"]["authenticated"] == true;
    assert!(is_good().await);
    assert_eq!(ask(&admin, Method::DELETE, &format!("{secrets}/s"), &[], &Value::Null).await.0, 200);
    assert!(!is_good().await, "the Secret is gone");
    assert_eq!(ask(&admin, Method::POST, secrets, &[], &secret).await.0, 201);
    assert!(!is_good().await, "another Secret of the same name");
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_for_a_time_that_was_already() {
    let key = [7; 32];
    let store = Store::in_memory(History::default());
    let start = async |time: &str| {
        let options = Options::new().seed(1).token_key(key).clock(Clock::starting_at(time.parse().unwrap()));
        ApiServer::start(store.clone(), options).await.unwrap()
    };
    let tokens = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let review = "/apis/authentication.k8s.io/v1/tokenreviews";
    let events = "/api/v1/namespaces/default/events";
    let later = start("2030-01-01T00:00:00Z").await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "lastTimestamp": "2030-01-01T00:00:00Z"});
    assert_eq!(ask(&later.service(), Method::POST, events, &[], &event).await.0, 201);
    let (_, old) = ask(&later.service(), Method::POST, tokens, &[], &json!({"spec": {}})).await;
    drop(later);

    // The clock was wrong, and is four years earlier at the next start.
    let server = start("2026-01-01T00:00:00Z").await;
    let admin = server.service();
    let is_good = async |token: &Value| {
        let review_of = json!({"spec": {"token": token}});
        ask(&admin, Method::POST, review, &[], &review_of).await.1["status"]["authenticated"] == true
    };
    assert!(is_good(&old["status"]["token"]).await, "it is not refused until 2030");
    let (_, new) = ask(&admin, Method::POST, tokens, &[], &json!({"spec": {"expirationSeconds": 600}})).await;
    assert!(is_good(&new["status"]["token"]).await);
    let watch = format!("{events}?watch=true&allowWatchBookmarks=true&timeoutSeconds=130");
    let answer = admin.answer(Request::get(watch).body(Full::new(Bytes::new())).unwrap()).await;
    let seen = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert_eq!(
        seen.matches("\"BOOKMARK\"").count(),
        4,
        "at the beginning, each minute and at the end: {seen}"
    );
    tokio::time::sleep(std::time::Duration::from_secs(3700)).await;
    assert!(!is_good(&new["status"]["token"]).await, "ten minutes are over");
    let (_, left) = ask(&admin, Method::GET, events, &[], &Value::Null).await;
    assert_eq!(left["items"], json!([]), "an event from the future is forgotten after an hour");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_sends_cannot_forge_a_line_or_colour_a_terminal() {
    let server = server().await;
    let admin = server.service();
    let name = "a%1b%5B31m%0aERROR%e2%80%ae";
    let (code, body) =
        ask(&admin, Method::GET, &format!("/api/v1/namespaces/default/configmaps/{name}"), &[], &Value::Null)
            .await;
    assert!(code >= 400, "{body}");
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x\u{1b}[31m\n\u{202e}y"}});
    let (refused, other) =
        ask(&admin, Method::POST, "/api/v1/namespaces/default/configmaps", &[], &object).await;
    assert_eq!(refused, 422, "{other}");
    let text = |value: &Value| {
        let mut texts = vec![value["message"].as_str().unwrap_or_default().to_owned()];
        texts.push(value["details"]["name"].as_str().unwrap_or_default().to_owned());
        for cause in value["details"]["causes"].as_array().into_iter().flatten() {
            texts.push(cause["message"].as_str().unwrap().to_owned());
        }
        texts.concat()
    };
    for said in [text(&body), text(&other)] {
        assert_eq!(windlass_api::printable(&said), said);
    }
}
