//! Every example is applied, with admission, as `windlass up` has it; and the pages in `docs/` name what there is.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::path::PathBuf;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::Value;
use windlass_plane::{Data, Embedded, EmbeddedAdmission, install};

/// Wrong on purpose: what `windlass extension lint` finds in it is in the README.
const MISTAKEN: &str = "mistaken-extensionconfig.yaml";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(directory: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(directory)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == ending));
    files.sort();
    files
}

async fn apply(client: &Client, object: &Value) -> Result<(), kube::Error> {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let mut parameters = PatchParams::apply("test").force();
    parameters.field_validation = Some(kube::api::ValidationDirective::Strict);
    api.patch(object["metadata"]["name"].as_str().unwrap(), &parameters, &Patch::Apply(object))
        .await
        .map(drop)
}

#[tokio::test]
async fn every_example_is_accepted_without_an_unknown_field() {
    let admission = EmbeddedAdmission::new();
    let embedded = Embedded::open(&Data::Memory, Some(&admission)).await.unwrap();
    install(embedded.server(), windlass_api::crds::manifests()).await.unwrap();
    let client = embedded.client();
    let examples = files("examples", "yaml");
    assert!(examples.len() >= 6, "{examples:?}");
    for file in examples {
        let name = file.file_name().unwrap().to_str().unwrap();
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let mut outcome = Ok(());
        for object in &objects {
            outcome = apply(&client, object).await;
            if name != MISTAKEN
                && let Err(error) = &outcome
            {
                panic!("{name}: {}: {error}", object["kind"]);
            }
        }
        assert_eq!(outcome.is_err(), name == MISTAKEN, "{name}");
    }
}

#[test]
fn the_reference_has_every_name_that_the_code_has() {
    let reference = std::fs::read_to_string(root().join("docs/reference.md")).unwrap();
    let source = |file: &str| {
        let text = std::fs::read_to_string(root().join("crates/windlass-api/src").join(file)).unwrap();
        text.replace("=\n    ", "= ")
    };
    let mut checked = 0;
    let names = source("names.rs");
    let kinds = ["ANNOTATION: ", "LABEL: ", "FINALIZER: ", "PREFIX: ", "TAINT: "];
    let names = names.lines().filter(|line| kinds.iter().any(|kind| line.contains(kind)));
    let conditions = source("conditions.rs");
    // Reasons are in a module of their own, indented.
    for line in names.chain(conditions.lines().filter(|line| line.starts_with("pub const "))) {
        let Some(value) = line.split('"').nth(1) else { continue };
        assert!(reference.contains(&format!("| `{value}` |")), "docs/reference.md does not have {value}");
        checked += 1;
    }
    assert!(checked > 90, "{checked}");
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = files("docs", "md");
    pages.push(root().join("README.md"));
    let mut links = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.starts_with("http") && !link.starts_with('#') {
                let target = page.parent().unwrap().join(link.split('#').next().unwrap());
                assert!(target.exists(), "{}: {link}", page.display());
                links += 1;
            }
        }
    }
    assert!(links > 5, "{links}");
}
