//! The requests of three kubectls, as they were recorded, and what a real server answered to each.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::json;

use crate::transcript::{self, Replay};

/// A request, and the code that it was answered with.
#[derive(Debug, Default)]
struct Recorded {
    command: String,
    method: String,
    path: String,
    accept: String,
    content_type: String,
    code: Option<u16>,
}

/// The commands in order, each with its requests. Kubectl 1.20 wrote several requests before the answers to
/// them: those have no code of their own.
fn recorded() -> Vec<Recorded> {
    let text = transcript::read("08-kubectl-requests.txt");
    let mut requests: Vec<Recorded> = Vec::new();
    let mut command = String::new();
    for line in text.lines() {
        let quoted = line.strip_prefix("verb=\"").and_then(|rest| rest.split_once("\" url=\""));
        let plain = line.split_once(" /").filter(|(method, _)| method.chars().all(char::is_uppercase));
        if let Some(name) = line.strip_prefix("--- ") {
            command = name.to_owned();
        } else if let Some((method, path)) = quoted {
            let path = path.trim_end_matches('"').to_owned();
            requests.push(Recorded {
                command: command.clone(),
                method: method.into(),
                path,
                ..Default::default()
            });
        } else if let Some((method, path)) = plain {
            let path = format!("/{path}");
            requests.push(Recorded {
                command: command.clone(),
                method: method.into(),
                path,
                ..Default::default()
            });
        } else if let Some(request) = requests.last_mut() {
            let code = line.strip_prefix("status=\"").or(line.strip_prefix("Response Status: "));
            if let Some(accept) = line.strip_prefix("Accept: ") {
                request.accept = accept.to_owned();
            } else if let Some(code) = code.and_then(|code| code[..3].parse().ok()) {
                request.code.get_or_insert(code);
            } else if let (None, Some(content_type)) = (request.code, line.strip_prefix("Content-Type: ")) {
                request.content_type = content_type.to_owned();
            }
        }
    }
    requests
}

/// Groups that the recorded server has and this one does not.
const ELSEWHERE: [&str; 4] = [
    "/apis/autoscaling/v1?",
    "/apis/node.k8s.io/",
    "/apis/resource.k8s.io/",
    "/apis/flowcontrol.apiserver.k8s.io/",
];

/// What the commands send; the recording has the requests without their bodies.
fn body(request: &Recorded) -> Vec<u8> {
    let widget = json!({"apiVersion": "demo.test/v1", "kind": "Widget", "metadata": {"name": "kw"},
        "spec": {"color": "red"}});
    let is =
        |method: &str, path: &str| request.method == method && request.path.split('?').next() == Some(path);
    let protobuf = request.content_type.ends_with("protobuf");
    match () {
        () if is("POST", "/apis/demo.test/v1/namespaces/default/widgets") => widget.to_string().into(),
        () if request.content_type.contains("merge-patch") => json!({"spec": {"size": 5}}).to_string().into(),
        () if request.content_type.contains("apply-patch") => {
            b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kcm\ndata:\n  a: b\n".to_vec()
        }
        () if is("POST", "/api/v1/namespaces/default/configmaps") && protobuf => {
            b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x12\x0a\x08\x0a\x02zz\x42\x00\x12\x00\x12\x06\x0a\x01a\x12\x01b".to_vec()
        }
        () if is("POST", "/api/v1/namespaces/default/configmaps") => {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "zz"}}).to_string().into()
        }
        () if is("POST", "/api/v1/namespaces") && protobuf => {
            b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x0b\x0a\x05\x0a\x03foo\x12\x00\x1a\x00".to_vec()
        }
        () if is("POST", "/api/v1/namespaces") => {
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foo"}}).to_string().into()
        }
        () => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn every_request_of_kubectl_is_answered_as_the_real_server_answers_it() {
    let (requests, crd) = (recorded(), transcript::crd());
    let server = Replay::start().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(server.ask("POST", path, &[], &crd).await.code, 201);
    let mut answered = 0;
    let mut command = "";
    for request in &requests {
        if request.command != command {
            // A command that deletes something waits until it is gone.
            tokio::time::sleep(Duration::from_secs(2)).await;
            command = &request.command;
        }
        if ELSEWHERE.iter().any(|group| request.path.starts_with(group)) {
            continue;
        }
        // Documents are named by their content, which is not the same here.
        let path = request.path.split("hash=").next().unwrap();
        let mut sent = Request::builder().method(request.method.as_str()).uri(path);
        for (name, value) in [("Accept", &request.accept), ("Content-Type", &request.content_type)] {
            if !value.is_empty() {
                sent = sent.header(name, value);
            }
        }
        let answer =
            server.service().answer(sent.body(Full::from(Bytes::from(body(request)))).unwrap()).await;
        let place = format!("{}: {} {}", request.command, request.method, request.path);
        let code = answer.status().as_u16();
        let is_watch = request.path.contains("watch=true");
        let text = match is_watch {
            true => String::new(),
            false => {
                String::from_utf8_lossy(&answer.into_body().collect().await.unwrap().to_bytes()).into_owned()
            }
        };
        match request.code {
            // What is deleted is gone here before the next question; there it takes a moment.
            Some(200) if code == 404 && request.command.contains("delete") => {}
            // The first of the recorded kubectls created it; it is there for the others.
            Some(200) if code == 201 && request.path.contains("/configmaps/kcm") => {}
            Some(wanted) => assert_eq!(code, wanted, "{place}\n{text}"),
            None => assert!(code < 300, "{place}: {code}\n{text}"),
        }
        answered += 1;
    }
    assert!(answered > 300, "only {answered} requests were found");
}

#[tokio::test(start_paused = true)]
async fn unknown_and_duplicate_fields_of_built_in_kinds_are_refused_told_or_ignored() {
    let server = Replay::start().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| {
        format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"a":"1"}},"dta":{{}},"data":{{}}}}"#)
    };
    let refused = server.ask("POST", &format!("{path}?fieldValidation=Strict"), &[], &map("a")).await;
    assert_eq!(refused.code, 400);
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    let expected = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
        duplicate field \"data\", unknown field \"dta\"";
    assert_eq!(message, expected);
    let told = server.ask("POST", path, &[], &map("b")).await;
    assert_eq!(told.code, 201);
    let warnings = ["299 - \"duplicate field \\\"data\\\"\"", "299 - \"unknown field \\\"dta\\\"\""];
    assert_eq!(told.header("warning"), warnings);
    assert_eq!(told.json().get("dta"), None, "what is not known is not kept");
    let ignored = server.ask("POST", &format!("{path}?fieldValidation=Ignore"), &[], &map("c")).await;
    assert_eq!((ignored.code, ignored.header("warning").len()), (201, 0));

    let object = format!("{path}/b?fieldValidation=Strict");
    for (content_type, patch) in [
        ("application/merge-patch+json", r#"{"dta":{"x":"y"}}"#),
        ("application/strategic-merge-patch+json", r#"{"metadata":{"label":{}}}"#),
        ("application/json-patch+json", r#"[{"op":"add","path":"/dta","value":1}]"#),
    ] {
        let answer = server.ask("PATCH", &object, &[("Content-Type", content_type)], patch).await;
        assert_eq!(answer.code, 400, "{content_type}: {}", answer.text());
        assert!(answer.text().contains("strict decoding error: unknown field"), "{}", answer.text());
    }
    let apply = r#"{"apiVersion":"v1","kind":"ConfigMap","dta":1}"#;
    let headers = [("Content-Type", "application/apply-patch+yaml")];
    let answer = server.ask("PATCH", &format!("{path}/b?fieldManager=m"), &headers, apply).await;
    assert!(answer.text().contains(".dta: field not declared in schema"), "{}", answer.text());

    let wrong = r#"{"metadata":{"name":"d"},"data":{"a":1}}"#;
    let answer = server.ask("POST", path, &[], wrong).await;
    assert_eq!(answer.code, 400);
    let why = "json: cannot unmarshal number into Go struct field ConfigMap.data.a of type string";
    assert!(answer.json()["message"].as_str().unwrap().ends_with(why), "{}", answer.text());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_asks_the_budget_of_the_pod() {
    let server = Replay::start().await;
    let post =
        async |path: &str, body: serde_json::Value| server.ask("POST", path, &[], &body.to_string()).await;
    let put =
        async |path: &str, body: serde_json::Value| server.ask("PUT", path, &[], &body.to_string()).await;
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": []}});
        assert_eq!(post(pods, pod).await.code, 201);
        let running = json!({"metadata": {"name": name}, "status": {"phase": "Running"}});
        assert_eq!(put(&format!("{pods}/{name}/status"), running).await.code, 200);
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "p"}, "spec": {"selector": {"matchLabels": {"app": "a"}}}});
    assert_eq!(post(budgets, budget).await.code, 201);
    let evict = async |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        post(&format!("{pods}/{name}/eviction"), eviction).await
    };
    let unobserved = evict("a").await;
    assert_eq!((unobserved.code, unobserved.header("retry-after").concat()), (429, "10".to_owned()));
    let status = |allowed: i64| {
        json!({"metadata": {"name": "p"}, "status": {"observedGeneration": 1, "disruptionsAllowed": allowed,
            "desiredHealthy": 1, "currentHealthy": 1, "expectedPods": 1}})
    };
    assert_eq!(put(&format!("{budgets}/p/status"), status(0)).await.code, 200);
    let refused = evict("a").await;
    assert_eq!(refused.code, 429, "{}", refused.text());
    let why = "The disruption budget p needs 1 healthy pods and has 1 currently";
    assert_eq!(refused.json()["details"]["causes"], json!([{"reason": "DisruptionBudget", "message": why}]));
    // No budget is about the other one.
    assert_eq!(evict("b").await.code, 201);
    assert_eq!(server.ask("GET", &format!("{pods}/b"), &[], "").await.code, 404);
    assert_eq!(put(&format!("{budgets}/p/status"), status(1)).await.code, 200);
    assert_eq!(evict("a").await.code, 201);
    assert_eq!(evict("a").await.code, 404);
}

/// The cells of the only row of a table, by the names of their columns; those of `-o wide` too.
async fn row(server: &Replay, path: &str) -> serde_json::Map<String, serde_json::Value> {
    let accept = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = server.ask("GET", path, &accept, "").await.json();
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let cells = table["rows"][0]["cells"].as_array().unwrap().iter();
    columns
        .zip(cells)
        .map(|(column, cell)| (column["name"].as_str().unwrap().to_owned(), cell.clone()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn built_in_kinds_have_the_columns_of_kubectl() {
    let server = Replay::start().await;
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"spec": {"containers": [{"name": "c", "image": "nginx"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(server.ask("POST", path, &[], &deployment.to_string()).await.code, 201);
    let cells = row(&server, path).await;
    let expected = json!({"Name": "d", "Ready": "0/2", "Up-to-date": 0, "Available": 0, "Age": "0s",
        "Containers": "c", "Images": "nginx", "Selector": "a=b"});
    assert_eq!(serde_json::Value::from(cells), expected);

    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Started", "type": "Normal", "message": "started"});
    let path = "/api/v1/namespaces/default/events";
    assert_eq!(server.ask("POST", path, &[], &event.to_string()).await.code, 201);
    let cells = row(&server, path).await;
    assert_eq!((&cells["Object"], &cells["Last Seen"]), (&json!("pod/p"), &json!("<unknown>")));
    assert_eq!(cells["Name"], "e");

    let node = json!({"metadata": {"name": "n"}});
    assert_eq!(server.ask("POST", "/api/v1/nodes", &[], &node.to_string()).await.code, 201);
    let cells = row(&server, "/api/v1/nodes").await;
    assert_eq!((&cells["Status"], &cells["Roles"]), (&json!("Unknown"), &json!("<none>")));
}
