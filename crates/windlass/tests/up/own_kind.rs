//! A kind of the user's own, with kubectl: defined, written in every way, read in every way, and deleted.

use std::time::Duration;

use crate::process::Up;

const PATIENCE: Duration = Duration::from_secs(30);

const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: berths.harbour.example}
spec:
  group: harbour.example
  scope: Namespaced
  names: {kind: Berth, plural: berths, singular: berth, shortNames: [bth]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Ship, type: string, jsonPath: .spec.ship}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            description: Who lies where.
            type: object
            required: [ship]
            properties:
              ship: {type: string}
              depth: {type: integer, minimum: 2}
              lines: {type: integer, default: 4}
"#;

fn berth(ship: &str, depth: &str) -> String {
    format!(
        "apiVersion: harbour.example/v1\nkind: Berth\n\
         metadata: {{name: north, namespace: quay, labels: {{side: port}}}}\n\
         spec: {{ship: {ship}, depth: {depth}}}\n"
    )
}

/// What kubectl says where it must fail.
fn refused(up: &Up, arguments: &[&str]) -> String {
    let output = up.kubectl(arguments).output().unwrap();
    assert!(!output.status.success(), "kubectl {arguments:?} succeeded");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn field(up: &Up, path: &str) -> String {
    up.says(&["get", "berth", "north", "-n", "quay", "-o", &format!("jsonpath={{{path}}}")])
}

/// An API with the kind and a namespace for it.
fn harbour(directory: &std::path::Path) -> Up {
    let up = Up::start(directory, &["--no-dev-provider"]);
    let said = up.says_after(&["apply", "-f", "-"], CRD);
    assert_eq!(said, "customresourcedefinition.apiextensions.k8s.io/berths.harbour.example created\n");
    up.says(&["wait", "--for=condition=Established", "crd/berths.harbour.example", "--timeout=20s"]);
    up.says(&["create", "namespace", "quay"]);
    up
}

#[test]
fn a_kind_of_ones_own_is_defined_written_and_read_with_kubectl() {
    let directory = tempfile::tempdir().unwrap();
    let up = harbour(directory.path());
    assert!(up.says(&["api-resources", "--api-group=harbour.example"]).contains("berths"));
    let explained = up.says(&["explain", "berth.spec"]);
    assert!(explained.contains("Who lies where.") && explained.contains("depth"), "{explained}");

    let file = directory.path().join("berth.yaml");
    let write = |ship: &str, depth: &str| std::fs::write(&file, berth(ship, depth)).unwrap();
    let path = file.to_string_lossy().into_owned();
    write("Aurora", "6");
    assert_eq!(up.says(&["apply", "-f", &path]), "berth.harbour.example/north created\n");
    write("Borealis", "9");
    let diff = up.kubectl(&["diff", "-f", &path]).output().unwrap();
    assert_eq!(diff.status.code(), Some(1), "there is a difference");
    assert!(String::from_utf8_lossy(&diff.stdout).contains("Borealis"));
    assert_eq!(up.says(&["apply", "-f", &path]), "berth.harbour.example/north configured\n");
    assert_eq!(field(&up, ".spec.lines"), "4", "the default");

    let table = up.says(&["get", "bth", "-n", "quay"]);
    assert!(table.starts_with("NAME") && table.contains("SHIP") && table.contains("Borealis"), "{table}");
    let by_label = up.says(&["get", "berths", "-A", "-l", "side=port", "-o", "name"]);
    assert_eq!(by_label, "berth.harbour.example/north\n");
    assert_eq!(up.says(&["get", "berths", "-A", "-l", "side=lee", "-o", "name"]), "");
    let by_field = ["get", "berths", "-n", "quay", "--field-selector", "metadata.name=north", "-o", "name"];
    assert_eq!(up.says(&by_field), "berth.harbour.example/north\n");
    assert!(up.says(&["describe", "berth", "north", "-n", "quay"]).contains("Borealis"));

    write("Borealis", "shallow");
    assert!(refused(&up, &["apply", "-f", &path]).contains("spec.depth"), "the field is named");
    write("Borealis", "1");
    assert!(refused(&up, &["apply", "-f", &path]).contains("spec.depth"), "the field is named");
    assert_eq!(field(&up, ".spec.depth"), "9", "and nothing was written");
}

#[test]
fn every_way_to_write_an_object_does_with_kubectl_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let up = harbour(directory.path());
    let file = directory.path().join("berth.yaml");
    std::fs::write(&file, berth("Aurora", "6")).unwrap();
    let path = file.to_string_lossy().into_owned();
    up.says(&["apply", "--dry-run=server", "-f", &path]);
    assert!(
        refused(&up, &["get", "berth", "north", "-n", "quay"]).contains("NotFound"),
        "a dry run writes nothing"
    );
    up.says(&["apply", "--server-side", "--field-manager=pilot", "-f", &path]);
    std::fs::write(&file, berth("Corona", "6")).unwrap();
    let other = ["apply", "--server-side", "--field-manager=harbourmaster", "-f", &path];
    let conflict = refused(&up, &other);
    assert!(conflict.contains("pilot") && conflict.contains(".spec.ship"), "{conflict}");
    up.says(&[&other[..], &["--force-conflicts"]].concat());
    assert_eq!(field(&up, ".spec.ship"), "Corona");

    let patch = |kind: &str, patch: &str| {
        up.says(&["patch", "bth", "north", "-n", "quay", "--type", kind, "-p", patch])
    };
    assert_eq!(
        patch("merge", r#"{"spec":{"depth":null,"lines":6}}"#),
        "berth.harbour.example/north patched\n"
    );
    assert_eq!(field(&up, ".spec"), r#"{"lines":6,"ship":"Corona"}"#);
    // The API server's dialect: an absent field may be replaced.
    patch(
        "json",
        r#"[{"op":"test","path":"/spec/lines","value":6},{"op":"replace","path":"/spec/depth","value":3}]"#,
    );
    assert_eq!(field(&up, ".spec.depth"), "3");
    let failing = r#"[{"op":"test","path":"/spec/lines","value":7},{"op":"remove","path":"/spec/depth"}]"#;
    refused(&up, &["patch", "bth", "north", "-n", "quay", "--type", "json", "-p", failing]);
    assert_eq!(field(&up, ".spec.depth"), "3", "a patch is applied as a whole or not at all");
    up.says(&["annotate", "berth", "north", "-n", "quay", "tide=high"]);
    up.says(&["label", "berth", "north", "-n", "quay", "side=lee", "--overwrite"]);
    assert_eq!(field(&up, ".metadata.labels.side") + &field(&up, ".metadata.annotations.tide"), "leehigh");
}

#[test]
fn deletion_waits_for_finalizers_and_takes_what_is_in_a_namespace() {
    let directory = tempfile::tempdir().unwrap();
    let up = harbour(directory.path());
    up.says_after(&["apply", "-f", "-"], &berth("Aurora", "6"));
    up.says(&["create", "configmap", "chart", "-n", "quay", "--from-literal=rock=north"]);
    up.says(&["create", "secret", "generic", "key", "-n", "quay", "--from-literal=p=q"]);
    assert!(up.says(&["get", "secret", "key", "-n", "quay"]).contains("Opaque"));

    let finalizers = |list: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{list}}}}}"#);
        up.says(&["patch", "berth", "north", "-n", "quay", "--type", "merge", "-p", &patch]);
    };
    finalizers(r#"["harbour.example/moored"]"#);
    up.says(&["delete", "berth", "north", "-n", "quay", "--wait=false"]);
    assert_ne!(field(&up, ".metadata.deletionTimestamp"), "", "held by its finalizer");
    finalizers("null");
    up.until(PATIENCE, &["get", "berths", "-n", "quay", "-o", "name"], str::is_empty);

    up.says_after(&["apply", "-f", "-"], &berth("Aurora", "6"));
    up.says(&["delete", "namespace", "quay", "--timeout=30s"]);
    assert!(refused(&up, &["get", "namespace", "quay"]).contains("NotFound"));
    assert_eq!(up.says(&["get", "berths", "-A", "-o", "name"]), "");
    assert_eq!(up.says(&["auth", "can-i", "create", "berths"]).trim(), "yes");
    assert!(up.says(&["version"]).contains("Server Version"));
}
