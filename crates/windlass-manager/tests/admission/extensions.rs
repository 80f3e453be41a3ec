//! ExtensionConfigs. They have no namespace, so each case has a name of its own.

use serde_json::{Value, json};

use crate::api::{Case, Change, Expected, check_all};
use crate::objects::{extension_config, with};

use Expected::{Accepted, Refused, RefusedBySchemaToo};

#[tokio::test]
async fn an_extension_can_be_called() {
    let client = "/spec/clientConfig";
    let service = json!({"namespace": "default", "name": "ext", "port": 8443});
    let broken = |rule, pointer: &str, value: Value, expected| {
        (rule, with(&extension_config(), pointer, value), expected)
    };
    let cases = [
        ("an address", extension_config(), Accepted),
        broken("a service", client, json!({"service": service}), Accepted),
        broken(
            "no address",
            client,
            json!({"caBundle": "UEVN"}),
            Refused("spec.clientConfig", "either url or service is accepted"),
        ),
        broken(
            "two addresses",
            client,
            json!({"url": "https://a.example", "service": service}),
            Refused("spec.clientConfig", "either url or service is accepted"),
        ),
        broken(
            "an address without TLS",
            client,
            json!({"url": "http://a.example"}),
            Refused("spec.clientConfig.url", "https"),
        ),
        broken(
            "a port that is none",
            client,
            json!({"service": with(&service, "/port", json!(70_000))}),
            RefusedBySchemaToo("spec.clientConfig.service.port", "must be between 1 and 65535"),
        ),
        broken(
            "a service that cannot exist",
            client,
            json!({"service": with(&service, "/name", json!("1ext"))}),
            Refused("spec.clientConfig.service.name", "that starts with a letter is accepted"),
        ),
        broken(
            "namespaces by their labels",
            "/spec/namespaceSelector",
            json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}),
            Accepted,
        ),
        broken(
            "a selector that cannot be read",
            "/spec/namespaceSelector",
            json!({"matchExpressions": [{"key": "team", "operator": "In", "values": []}]}),
            Refused("spec.namespaceSelector.matchExpressions[0].values", "at least one value is accepted"),
        ),
        broken(
            "a name that handlers cannot have",
            "/metadata/name",
            json!("a.b"),
            Refused("metadata.name", "lower-case letters, digits and '-' is accepted"),
        ),
    ];
    let mut all = Vec::new();
    for (number, (rule, object, expected)) in cases.into_iter().enumerate() {
        let renamed = object["metadata"]["name"] == "ext1";
        let object =
            if renamed { with(&object, "/metadata/name", json!(format!("ext-{number}"))) } else { object };
        all.push(Case { rule, given: vec![], change: Change::Create(object), expected });
    }
    let stored = with(&extension_config(), "/metadata/name", json!("stored"));
    all.push(Case {
        rule: "a change that breaks it",
        given: vec![stored.clone()],
        change: Change::Update(with(&stored, "/spec/clientConfig", json!({"url": "ftp://x"}))),
        expected: Refused("spec.clientConfig.url", "https"),
    });
    check_all(all).await;
}
