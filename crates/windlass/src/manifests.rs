//! Files of manifests: what every command that reads some accepts.
//!
//! A file has objects of any version of Cluster API, one by one or in the lists that kubectl prints; a directory has such
//! files, and `-` is the standard input. Objects come out of here in the newest version.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_conversion::{manifest, newest};

use crate::exit::Failure;
use crate::output;

/// The objects of files, directories and the standard input, each in its newest version. `limit` is the most that is read of
/// one file.
pub(crate) fn read(paths: &[PathBuf], limit: u64) -> Result<Vec<Value>, Failure> {
    let mut objects = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let text = standard_input(limit).map_err(Failure::Invalid)?;
            objects.extend(named("standard input", &text)?);
            continue;
        }
        let files = if path.is_dir() { in_directory(path)? } else { vec![path.clone()] };
        for file in files {
            let text = output::read_file(&file, limit).map_err(Failure::Invalid)?;
            objects.extend(named(&file.display().to_string(), &text)?);
        }
    }
    Ok(objects)
}

/// The objects of a text, each in its newest version.
pub(crate) fn parse(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| format!("not valid YAML: {}", output::yaml_error(&error)))?;
    let newest = |object: Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        newest(object).map_err(|error| format!("{kind} {name}: {error}"))
    };
    documents.into_iter().flat_map(manifest::items).map(newest).collect()
}

/// The files of a directory that may have manifests, in the order of their names.
pub(crate) fn in_directory(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |error| Failure::Invalid(format!("cannot read {}: {error}", directory.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let known = path
            .extension()
            .is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known));
        if known && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::Invalid(format!("{} has no .yaml, .yml or .json file", directory.display())));
    }
    Ok(files)
}

fn named(name: &str, text: &str) -> Result<Vec<Value>, Failure> {
    parse(text).map_err(|message| Failure::Invalid(format!("{name}: {message}")))
}

fn standard_input(limit: u64) -> Result<String, String> {
    let mut text = String::new();
    let read = std::io::stdin().take(limit + 1).read_to_string(&mut text);
    read.map_err(|error| format!("cannot read standard input: {error}"))?;
    if text.len() as u64 > limit {
        return Err(format!("standard input is larger than {} KiB, the most that is read", limit / 1024));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_every_version_come_out_in_the_newest() {
        let text = "
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: a}, spec: {topology: {class: c, version: v1}}}
- {apiVersion: v1, kind: Secret, metadata: {name: b}}
---
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Machine
metadata: {name: m}
spec: {nodeDrainTimeout: 1m}
";
        let objects = parse(text).unwrap();
        assert_eq!(objects[0]["spec"]["topology"]["classRef"]["name"], "c");
        assert_eq!(objects[1]["kind"], "Secret");
        assert_eq!(objects[2]["spec"]["deletion"]["nodeDrainTimeoutSeconds"], 60);
        assert_eq!(
            parse(&text.replace("1m", "1 m")).unwrap_err(),
            "Machine m: spec.nodeDrainTimeout: unknown unit \" m\" in duration \"1 m\": the units are ns, us, ms, s, m and h"
        );
    }

    #[test]
    fn a_directory_has_its_files_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [("b.yaml", "kind: B"), ("a.json", "{\"kind\": \"A\"}"), ("c.txt", "kind: C")] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let objects = read(&[directory.path().to_owned()], 1000).unwrap();
        assert_eq!(
            objects.iter().map(|object| object["kind"].as_str().unwrap()).collect::<Vec<_>>(),
            ["A", "B"]
        );
    }
}
