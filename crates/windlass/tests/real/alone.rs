//! `deploy/alone`, as docs/migrating.md says to install it, and without cert-manager, as docs/operating.md does.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, MachineDeployment};

use crate::management::{ACCOUNT, apply_all, example, manifests};
use crate::site::{Site, commands_of, root};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_on_migration_installs_windlass_alone() {
    let mut site = Site::empty().await;
    site.follow("Alone").await;
    assert_eq!(site.checks(), [0]);
    reconciles_a_topology(&site).await;
    has_the_rights_that_providers_give(&site).await;
}

/// A provider whose kinds are of another group gives rights on them to Cluster API's managers by a label, and so to Windlass.
async fn has_the_rights_that_providers_give(site: &Site) {
    let may = || async {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": {"user": ACCOUNT, "resourceAttributes": {"group": "metal.example.dev", "resource": "examplemachines",
                "verb": "create", "namespace": "default"}}});
        let api: Api<SubjectAccessReview> = Api::all(site.admin.clone());
        let review = serde_json::from_value(review).unwrap();
        let answer = api.create(&PostParams::default(), &review).await.unwrap();
        answer.status.unwrap().allowed
    };
    assert!(!may().await);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "example-provider", "labels": {"cluster.x-k8s.io/aggregate-to-manager": "true"}},
        "rules": [{"apiGroups": ["metal.example.dev"], "resources": ["*"], "verbs": ["*"]}]});
    apply_all(&site.admin, vec![role]).await;
    site.until("the right is aggregated", Duration::from_secs(30), may).await;
}

/// The certificate is the reader's own: it is good for the name of the Service, and everything that calls the Service trusts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_on_operating_installs_windlass_without_cert_manager() {
    let mut site = Site::bare().await;
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(
        root().canonicalize().unwrap().join("deploy"),
        directory.path().join("deploy"),
    )
    .unwrap();
    for command in commands_of("operating.md", "Without cert-manager") {
        site.run(directory.path(), &command);
    }
    let verified = "openssl verify -CAfile tls.crt -verify_hostname windlass.windlass-system.svc tls.crt && \
                    kubectl -n windlass-system get secret windlass-webhook-tls -o jsonpath='{.data.tls\\.crt}' | \
                    base64 -d | cmp - tls.crt";
    site.run(directory.path(), verified);
    trust_the_certificate(&site, directory.path()).await;

    site.sync().await;
    site.until_windlass_leads().await;
    reconciles_a_topology(&site).await;
}

/// Every webhook and every conversion of Windlass has the CA.
async fn trust_the_certificate(site: &Site, directory: &Path) {
    use base64::Engine;
    let pem = std::fs::read(directory.join("tls.crt")).unwrap();
    let bundle = base64::engine::general_purpose::STANDARD.encode(pem);
    let all = ListParams::default();
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(site.admin.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(site.admin.clone());
    let crds: Api<CustomResourceDefinition> = Api::all(site.admin.clone());
    let callers = [
        serde_json::to_value(mutating.list(&all).await.unwrap().items).unwrap(),
        serde_json::to_value(validating.list(&all).await.unwrap().items).unwrap(),
        serde_json::to_value(crds.list(&all).await.unwrap().items).unwrap(),
    ];
    let mut found = Vec::new();
    for caller in callers.iter().flat_map(|list| list.as_array().unwrap()) {
        clients(caller, &mut found);
    }
    assert_eq!(found.len(), 2 + 21, "two webhooks and the CRDs that have older versions");
    for client in found {
        assert_eq!(client["service"]["name"], "windlass");
        assert_eq!(client["caBundle"], bundle);
    }
}

/// What says which Service is called, wherever it stands in an object.
fn clients<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            // A schema may have a field of this name, too.
            found.extend(fields.get("clientConfig").filter(|client| client["service"]["name"].is_string()));
            fields.values().for_each(|field| clients(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| clients(item, found)),
        _ => {}
    }
}

async fn reconciles_a_topology(site: &Site) {
    // There is no infrastructure provider: the topology is all that there will be.
    apply_all(&site.admin, manifests(&example("quickstart.yaml"))).await;
    let clusters: Api<Cluster> = Api::default_namespaced(site.admin.clone());
    site.until("the topology is reconciled", Duration::from_mins(1), || async {
        let cluster = serde_json::to_value(clusters.get("quickstart").await.unwrap()).unwrap();
        let mut conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|found| found["type"] == "TopologyReconciled" && found["status"] == "True")
    })
    .await;
    let groups: Api<MachineDeployment> = Api::default_namespaced(site.admin.clone());
    assert_eq!(groups.list(&ListParams::default()).await.unwrap().items.len(), 1);
}
