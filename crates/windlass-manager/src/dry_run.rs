//! A client that reads as usual and writes nothing: what would be written is told instead.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tower::service_fn;
use windlass_engine::readiness::WouldWrite;

/// A client that tells what would be written. The server is asked what it would make of it (`dryRun=All`), so what it
/// would refuse is refused. Each write is told once, however often it is tried; Events are not told.
pub fn dry_run(client: Client, tell: impl Fn(WouldWrite) + Send + Sync + 'static) -> Client {
    let namespace = client.default_namespace().to_owned();
    let told = Arc::new(Mutex::new(BTreeSet::new()));
    let tell = Arc::new(tell);
    let service = service_fn(move |request: Request<Body>| {
        let (client, told, tell) = (client.clone(), Arc::clone(&told), Arc::clone(&tell));
        async move {
            // What is a dry run already would not be written either way.
            let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun=All"));
            if is_dry || matches!(*request.method(), Method::GET | Method::HEAD) {
                return client.send(request).await;
            }
            let (mut parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let mut would = WouldWrite {
                verb: verb(&parts.method, parts.headers.get(http::header::CONTENT_TYPE)),
                path: parts.uri.path().to_owned(),
                is_new: false,
                body: match parts.method {
                    Method::DELETE => Value::Null,
                    _ => serde_json::from_slice(&body).unwrap_or_default(),
                },
                becomes: Value::Null,
            };
            let answer = if parts.method == Method::DELETE {
                // Options in the body of a deletion hide the query: what is there now is answered instead.
                let get =
                    Request::get(parts.uri.path()).body(Body::empty()).map_err(kube::Error::HttpError)?;
                client.send(get).await
            } else {
                parts.uri = with_dry_run(&parts.uri).map_err(kube::Error::HttpError)?;
                let answer = client.send(Request::from_parts(parts, Body::from(body.to_vec()))).await?;
                would.is_new = answer.status() == StatusCode::CREATED;
                match would.is_new {
                    true => {
                        let (head, body) = answer.into_parts();
                        let body = body.collect().await?.to_bytes();
                        would.becomes = serde_json::from_slice(&body).unwrap_or_default();
                        Ok(Response::from_parts(head, Body::from(body.to_vec())))
                    }
                    false => Ok(answer),
                }
            };
            let is_event = would.path.split('/').any(|part| part == "events");
            let once = format!("{} {} {}", would.verb, would.path, would.body);
            if !is_event && told.lock().unwrap_or_else(PoisonError::into_inner).insert(once) {
                tell(would);
            }
            answer
        }
    });
    Client::new(service, namespace)
}

fn verb(method: &Method, content: Option<&http::HeaderValue>) -> &'static str {
    let is_apply =
        content.and_then(|value| value.to_str().ok()).is_some_and(|kind| kind.contains("apply-patch"));
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH if is_apply => "apply",
        Method::PATCH => "patch",
        _ => "delete",
    }
}

fn with_dry_run(uri: &http::Uri) -> Result<http::Uri, http::Error> {
    let query = match uri.query() {
        Some(query) if !query.is_empty() => format!("{query}&dryRun=All"),
        _ => "dryRun=All".to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{query}", uri.path()).parse().map_err(http::Error::from)?);
    http::Uri::from_parts(parts).map_err(http::Error::from)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
    use serde_json::json;
    use windlass_apiserver::{ApiServer, Options};
    use windlass_store::{History, Store};

    use super::*;

    #[tokio::test]
    async fn writes_are_told_once_and_not_done() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let real = Client::new(server.service(), "default");
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"a": "1"}})).unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(real.clone());
        maps.create(&PostParams::default(), &map).await.unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let dry =
            dry_run(real, move |would| sink.lock().unwrap().push(format!("{} {}", would.verb, would.path)));
        let dry: Api<ConfigMap> = Api::default_namespaced(dry);
        let other: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        let patch = Patch::Merge(json!({"data": {"a": "2"}}));
        for _ in 0..2 {
            dry.create(&PostParams::default(), &other).await.unwrap();
            let patched = dry.patch("m", &PatchParams::default(), &patch).await.unwrap();
            assert_eq!(patched.data.unwrap()["a"], "2", "what the server would make of it");
            dry.delete("m", &DeleteParams::default()).await.unwrap();
        }
        dry.patch("m", &PatchParams { dry_run: true, ..PatchParams::default() }, &patch).await.unwrap();
        let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "1"}}));
        dry.patch("m", &PatchParams::apply("x"), &apply).await.unwrap();
        assert!(dry.create(&PostParams::default(), &map).await.is_err(), "what would be refused is refused");
        let path = "/api/v1/namespaces/default/configmaps";
        assert_eq!(
            told.lock().unwrap()[..4],
            [
                format!("create {path}"),
                format!("patch {path}/m"),
                format!("delete {path}/m"),
                format!("apply {path}/m")
            ]
        );
        assert_eq!(maps.get("m").await.unwrap().data.unwrap()["a"], "1");
        assert!(maps.get_opt("n").await.unwrap().is_none());
    }
}
