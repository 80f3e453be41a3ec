//! Owners of built-in objects, as in `01-crd-create.txt` and `10-misc.txt`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_apimachinery::builtin;
use windlass_apimachinery::fieldmanager::{Endpoint, FieldManager};

use crate::transcript::{self, Exchange};

/// The owners of an object that is created so.
fn created(exchange: &Exchange, object: Value) -> Value {
    let text = |name: &str| object[name].as_str().unwrap().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let shape = Arc::new(builtin::shape(&api_version, &kind));
    let versions = BTreeMap::from([(api_version.clone(), shape)]);
    let manager = FieldManager {
        versions: &versions,
        api_version: &api_version,
        kind: &kind,
        endpoint: Endpoint::Object { has_status: true },
    };
    let blank = builtin::blank(&api_version, &kind);
    let created = manager.update(&blank, object, "curl", exchange.time().unwrap());
    created["metadata"]["managedFields"].clone()
}

fn find<'a>(exchanges: &'a [Exchange], path: &str) -> &'a Exchange {
    exchanges.iter().find(|exchange| exchange.method == "POST" && exchange.path == path).unwrap()
}

#[test]
fn creating_built_in_objects_owns_as_on_the_real_server() {
    let exchanges = transcript::exchanges("10-misc.txt");
    let paths = [
        "/api/v1/namespaces",
        "/api/v1/namespaces/nsx/configmaps",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ];
    for path in paths {
        let exchange = find(&exchanges, path);
        let mut object = exchange.body_json();
        if path == "/api/v1/namespaces" {
            // Set by defaulting, before owners are told.
            object["metadata"]["labels"] = json!({"kubernetes.io/metadata.name": "nsx"});
        }
        let expected = exchange.answer_json()["metadata"]["managedFields"].clone();
        assert_eq!(created(exchange, object), expected, "{path}");
    }
}

#[test]
fn creating_a_crd_owns_as_on_the_real_server() {
    let (exchanges, crd) = (transcript::exchanges("01-crd-create.txt"), transcript::file("crd.json"));
    let exchange = &exchanges[0];
    let mut object: Value = serde_json::from_str(&crd).unwrap();
    object["spec"]["conversion"] = json!({"strategy": "None"});
    assert_eq!(created(exchange, object), exchange.answer_json()["metadata"]["managedFields"]);
}
