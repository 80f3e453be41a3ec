//! Objects of another cluster, put into the store as they are.

use serde_json::Value;
use windlass_store::{Expect, Transaction};

use crate::api::Failure;
use crate::server::ApiServer;
use crate::verbs::unavailable;

/// How many objects are stored at a time; what is stored is seen as a whole.
const BATCH: usize = 512;

impl ApiServer {
    /// Stores objects as they are: with their uids, statuses, generations, deletion timestamps and managed fields, as a backup
    /// has them. Nothing is admitted, defaulted or validated. Resource versions are those of this store.
    ///
    /// # Errors
    ///
    /// When a kind is not served in the version that an object has, when an object has no name, or when there is one of
    /// that name already.
    pub async fn import(&self, objects: &[Value]) -> Result<(), Failure> {
        let registry = self.inner().registry();
        for batch in objects.chunks(BATCH) {
            let mut transaction = Transaction::new();
            for object in batch {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
                let resource = registry
                    .all()
                    .find(|resource| resource.kind == kind && resource.api_version() == api_version);
                let Some(resource) = resource else {
                    return Err(Failure::bad_request(format!("{kind} of {api_version} is not served here")));
                };
                let metadata = &object["metadata"];
                let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
                let key = resource.key(&namespace, &name);
                let key = key.map_err(|error| Failure::bad_request(format!("{kind} {name}: {error}")))?;
                let mut object = object.clone();
                if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("resourceVersion");
                }
                transaction = transaction.put(key, Expect::Absent, resource.to_store(&object)?);
            }
            self.inner().store.commit(transaction).await.map_err(|error| unavailable(&error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::{BodyExt, Full};
    use serde_json::json;
    use windlass_store::{History, Store};

    use super::*;
    use crate::server::Options;

    #[tokio::test]
    async fn objects_keep_everything_but_their_resource_version() {
        let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
            "metadata": {"name": "m", "namespace": "default", "uid": "u-1", "resourceVersion": "900",
                "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-02T00:00:00Z",
                "finalizers": ["example.com/f"], "labels": {"l": "v"}}});
        server.import(std::slice::from_ref(&map)).await.unwrap();
        let path = "/api/v1/namespaces/default/configmaps/m";
        let answer = server.service().answer(Request::get(path).body(Full::default()).unwrap()).await;
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let mut found: Value = serde_json::from_slice(&body).unwrap();
        let version = found["metadata"]["resourceVersion"].take();
        assert!(version.is_string() && version != "900", "{version}");
        found["metadata"]["resourceVersion"] = json!("900");
        assert_eq!(found, map);

        let twice = server.import(std::slice::from_ref(&map)).await;
        assert!(twice.is_err(), "it is there already");
        let unknown = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
        let refused = server.import(&[unknown]).await.unwrap_err();
        assert!(format!("{refused:?}").contains("Thing of example.com/v1 is not served here"), "{refused:?}");
    }
}
