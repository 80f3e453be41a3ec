//! CRDs, installed in the API before the first request for their kinds.

use std::path::Path;

use http::{Request, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use windlass_apiserver::ApiServer;

use crate::exit::Failure;
use crate::{manifests, output};

/// Largest file that is read. An API server takes no request above 3 MiB, but a file may have many documents.
const MAX_FILE: u64 = 32 * 1024 * 1024;

/// Applies every CustomResourceDefinition in the YAML and JSON files of a directory, in the order of their names.
pub(super) async fn apply(server: &ApiServer, directory: &Path) -> Result<(), Failure> {
    for file in manifests::in_directory(directory)? {
        let text = output::read_file(&file, MAX_FILE).map_err(Failure::Invalid)?;
        let wrong = |message: String| Failure::Invalid(format!("{}: {message}", file.display()));
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
            .map_err(|error| wrong(format!("not valid YAML: {}", output::yaml_error(&error))))?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            let kind = document["kind"].as_str().unwrap_or_default();
            let Some(name) =
                document["metadata"]["name"].as_str().filter(|_| kind == "CustomResourceDefinition")
            else {
                return Err(wrong(format!("expected CustomResourceDefinitions with a name, found {kind:?}")));
            };
            apply_one(server, name, &document)
                .await
                .map_err(|message| wrong(format!("{name}: {message}")))?;
        }
    }
    Ok(())
}

async fn apply_one(server: &ApiServer, name: &str, crd: &Value) -> Result<(), String> {
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=windlass-serve&force=true"
    );
    let body = crd.to_string();
    let request = Request::patch(path)
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(Full::from(body))
        .map_err(|error| error.to_string())?;
    let response = server.service().answer(request).await;
    let ok = response.status().is_success();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    if ok {
        return Ok(());
    }
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    Err(status["message"].as_str().map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned))
}
