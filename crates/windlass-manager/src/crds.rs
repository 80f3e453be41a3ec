//! CRDs, installed in the embedded API before the first request for their kinds.

use futures_util::future::BoxFuture;
use futures_util::future::try_join_all;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass_apiserver::ApiServer;

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What a CRD was installed from. As long as it is the same, nothing is written.
const HASH_ANNOTATION: &str = "windlass.dev/installed-from";

/// Why a CRD is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot install {name}: {reason}")]
pub struct InstallError {
    /// Name of the CRD.
    pub name: String,
    /// What the API says.
    pub reason: String,
}

/// Creates CRDs, or replaces those that another release brought. What is there already costs one read.
///
/// # Errors
///
/// When the API refuses one.
pub fn install(server: &ApiServer, crds: Vec<Value>) -> BoxFuture<'_, Result<(), InstallError>> {
    Box::pin(install_all(server, crds))
}

async fn install_all(server: &ApiServer, crds: Vec<Value>) -> Result<(), InstallError> {
    // All at once: the store syncs their writes together.
    try_join_all(crds.into_iter().map(|crd| install_one(server, crd))).await.map(drop)
}

async fn install_one(server: &ApiServer, mut crd: Value) -> Result<(), InstallError> {
    let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let hash = hash(&crd);
    let failed = |reason: String| InstallError { name: name.clone(), reason };
    let path = format!("{PATH}/{name}");
    let (code, found) = ask(server, Method::GET, &path, None).await.map_err(failed)?;
    if code == 200 && found["metadata"]["annotations"][HASH_ANNOTATION] == hash.as_str() {
        return Ok(());
    }
    let (method, path) = if code == 200 {
        let metadata = &found["metadata"];
        crd["metadata"]["resourceVersion"] = metadata["resourceVersion"].clone();
        for kept in ["annotations", "labels", "finalizers"] {
            keep(&mut crd["metadata"], kept, &metadata[kept]);
        }
        (Method::PUT, path.as_str())
    } else {
        (Method::POST, PATH)
    };
    crd["metadata"]["annotations"][HASH_ANNOTATION] = json!(hash);
    let (code, answer) = ask(server, method, path, Some(&crd)).await.map_err(failed)?;
    if (200..300).contains(&code) {
        return Ok(());
    }
    Err(failed(answer["message"].as_str().unwrap_or("it was refused").to_owned()))
}

/// Keeps what others added to an object's metadata.
fn keep(metadata: &mut Value, field: &str, found: &Value) {
    match found {
        Value::Object(found) => {
            for (key, value) in found {
                if metadata[field].get(key).is_none() {
                    metadata[field][key] = value.clone();
                }
            }
        }
        Value::Array(_) => metadata[field] = found.clone(),
        _ => {}
    }
}

fn hash(crd: &Value) -> String {
    let digest = Sha256::digest(crd.to_string());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

async fn ask(
    server: &ApiServer,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<(u16, Value), String> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from(body.map(Value::to_string).unwrap_or_default()))
        .map_err(|error| error.to_string())?;
    let response = server.service().answer(request).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    Ok((code, serde_json::from_slice(&body).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use windlass_apiserver::Options;
    use windlass_store::{History, Store};

    use super::*;

    fn crd(description: &str) -> Value {
        let schema = json!({"type": "object", "description": description});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    }

    #[tokio::test]
    async fn what_is_installed_is_written_again_only_when_it_is_another() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let path = format!("{PATH}/things.example.com");
        install(&server, vec![crd("a thing")]).await.unwrap();
        let (_, mut first) = ask(&server, Method::GET, &path, None).await.unwrap();
        install(&server, vec![crd("a thing")]).await.unwrap();
        let (_, again) = ask(&server, Method::GET, &path, None).await.unwrap();
        assert_eq!(again["metadata"]["generation"], first["metadata"]["generation"]);

        first = again;
        first["metadata"]["labels"] = json!({"team": "a"});
        assert_eq!(ask(&server, Method::PUT, &path, Some(&first)).await.unwrap().0, 200);
        install(&server, vec![crd("another thing")]).await.unwrap();
        let (_, newer) = ask(&server, Method::GET, &path, None).await.unwrap();
        let schema = &newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(schema["description"], "another thing");
        assert_eq!(newer["metadata"]["labels"], json!({"team": "a"}), "what others added stays");
    }

    #[tokio::test]
    async fn a_definition_that_is_refused_is_named() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let mut wrong = crd("a thing");
        wrong["spec"]["group"] = json!("example.org");
        let error = install(&server, vec![wrong]).await.unwrap_err();
        assert!(error.to_string().starts_with("cannot install things.example.com: "), "{error}");
    }
}
