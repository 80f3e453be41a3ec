//! CustomResourceDefinitions: what is wrong with one, and the resources that it defines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass_store as store;

use super::jsonpath::{JsonPath, text};
use super::priority;
use super::resource::{
    Behaviour, Cell, Column, Conversion, ObjectSchema, Resource, ScalePaths, Selectable, Strategy,
    Subresource, Verbs,
};
use crate::machinery::{Cause, Rules, Schema, Shape};

/// Fills in what a CRD may leave out.
pub(crate) fn apply_defaults(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_missing = |value: Option<&Value>| value.and_then(Value::as_str).is_none_or(str::is_empty);
        if is_missing(names.get("singular")) {
            names.insert("singular".into(), kind.to_lowercase().into());
        }
        if is_missing(names.get("listKind")) {
            names.insert("listKind".into(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".into(), json!({"strategy": "None"}));
    }
    // A field of the first version of this API that may only say no.
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
        spec.remove("preserveUnknownFields");
    }
}

/// Everything wrong with a CRD.
pub(crate) fn validate(crd: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural, kind) =
        (text(&spec["group"]), text(&spec["names"]["plural"]), text(&spec["names"]["kind"]));
    let name = text(&crd["metadata"]["name"]);
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &name.into(), detail));
    }
    for (field, value) in [("spec.group", &group), ("spec.names.plural", &plural), ("spec.names.kind", &kind)]
    {
        if value.is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    if !group.is_empty() && !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        causes.push(Cause::invalid("spec.group", &group.into(), detail));
    }
    match spec["scope"].as_str() {
        Some("Cluster" | "Namespaced") => {}
        None | Some("") => causes.push(Cause::required("spec.scope", "")),
        Some(_) => {
            causes.push(Cause::not_supported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"]))
        }
    }
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &Value::Bool(true), detail));
    }
    conversion(spec, &mut causes);
    versions(spec, &mut causes);
    causes
}

fn conversion(spec: &Value, causes: &mut Vec<Cause>) {
    let conversion = &spec["conversion"];
    match conversion["strategy"].as_str() {
        Some("None") | None => {}
        Some("Webhook") => {
            let webhook = &conversion["webhook"];
            let config = &webhook["clientConfig"];
            let at = "spec.conversion.webhook";
            if config["url"].is_string() == config["service"].is_object() {
                let detail = "exactly one of url or service is required";
                causes.push(Cause::required(format!("{at}.clientConfig"), detail));
            }
            let versions = webhook["conversionReviewVersions"].as_array().map(Vec::as_slice);
            if !versions.unwrap_or_default().iter().any(|version| version == "v1") {
                let detail = "must include at least one of v1";
                let field = format!("{at}.conversionReviewVersions");
                causes.push(Cause::invalid(field, &webhook["conversionReviewVersions"], detail));
            }
        }
        Some(_) => causes.push(Cause::not_supported(
            "spec.conversion.strategy",
            &conversion["strategy"],
            &["None", "Webhook"],
        )),
    }
}

fn versions(spec: &Value, causes: &mut Vec<Cause>) {
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], detail));
    }
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        if version["name"].as_str().is_none_or(str::is_empty) {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        match version["schema"].get("openAPIV3Schema") {
            Some(schema) => {
                if let Err(found) = compile(schema, &format!("{at}.schema.openAPIV3Schema")) {
                    causes.extend(found);
                }
            }
            None => {
                causes.push(Cause::required(format!("{at}.schema.openAPIV3Schema"), "schemas are required"))
            }
        }
        let columns = version["additionalPrinterColumns"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, column) in columns.iter().enumerate() {
            let path = column["jsonPath"].as_str().unwrap_or_default();
            if let Err(error) = JsonPath::parse(path) {
                let field = format!("{at}.additionalPrinterColumns[{index}].jsonPath");
                causes.push(Cause::invalid(field, &column["jsonPath"], error));
            }
        }
    }
}

/// Compiled schemas by their digest, of all servers in the process. A large schema takes a hundred times longer to
/// compile than to digest, and the same ones come again: when a CRD is checked and then used, when a server
/// starts on the same data, when many servers run in one process.
static COMPILED: Mutex<BTreeMap<[u8; 32], ObjectSchema>> = Mutex::new(BTreeMap::new());

/// How many compiled schemas are kept. More than there are kinds in most clusters.
const KEEP_COMPILED: usize = 256;

fn compile(schema: &Value, path: &str) -> Result<ObjectSchema, Vec<Cause>> {
    let digest: [u8; 32] = Sha256::digest(schema.to_string()).into();
    let known = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(compiled) = known().get(&digest) {
        return Ok(compiled.clone());
    }
    let schema = Arc::new(Schema::from_crd(schema, path)?);
    // With a path it is only checked, and messages would tell where in its CRD a rule is. Without, it was
    // accepted before, and is served even if it would be refused now.
    let rules =
        if path.is_empty() { Rules::compile_accepted(&schema)? } else { Rules::compile(&schema, path)? };
    let compiled = ObjectSchema { rules, schema };
    if path.is_empty() {
        let mut kept = known();
        if kept.len() >= KEEP_COMPILED {
            kept.clear();
        }
        kept.insert(digest, compiled.clone());
    }
    Ok(compiled)
}

/// The resources that an accepted CRD defines. A version whose schema cannot be compiled, which
/// an older program may have accepted, is left out.
pub(crate) fn resources(
    crd: &Value,
    revision: u64,
    encoding: u64,
    convert: &Conversion,
) -> Option<Vec<Resource>> {
    let spec = &crd["spec"];
    let names = &spec["names"];
    let group = spec["group"].as_str()?;
    let plural = names["plural"].as_str()?;
    let kind = names["kind"].as_str()?;
    let versions = spec["versions"].as_array()?;
    let storage_version = versions.iter().find(|version| version["storage"] == true)?["name"].as_str()?;
    let storage = store::Resource::new(&format!("{group}/{plural}")).ok()?;
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let served = versions.iter().filter(|version| version["served"] == true);
    let resources = served.enumerate().filter_map(|(index, version)| {
        let schema_json = &version["schema"]["openAPIV3Schema"];
        let schema = compile(schema_json, "").ok()?;
        let mut subresources = Vec::new();
        if version["subresources"]["status"].is_object() {
            subresources.push(Subresource::Status);
        }
        if let Some(scale) = version["subresources"]["scale"].as_object() {
            subresources.extend(scale_paths(scale).map(Subresource::Scale));
        }
        Some(Resource {
            group: group.to_owned(),
            version: version["name"].as_str()?.to_owned(),
            kind: kind.to_owned(),
            list_kind: names["listKind"].as_str().map_or_else(|| format!("{kind}List"), str::to_owned),
            plural: plural.to_owned(),
            singular: names["singular"].as_str().map_or_else(|| kind.to_lowercase(), str::to_owned),
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            namespaced: spec["scope"] == "Namespaced",
            verbs: Verbs::All,
            subresources,
            behaviour: Behaviour::Plain,
            strategy: Strategy { custom: true, generation: true, create_on_update: false, free_names: false },
            shape: Arc::new(Shape::of_resource(&schema.schema)),
            schema: Some(schema),
            type_id: None,
            columns: columns(version),
            selectable: selectable(version),
            storage: storage.clone(),
            storage_version: storage_version.to_owned(),
            conversion: convert.clone(),
            since: revision,
            encoding: encoding + index as u64,
            terminating: crd["metadata"]["deletionTimestamp"].is_string(),
            deprecation: deprecation(spec, version),
            openapi: Some(schema_json.clone()),
        })
    });
    Some(resources.collect())
}

/// What Kubernetes warns of when a deprecated version is used; the CRD may say it in its own words.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(own) = version["deprecationWarning"].as_str() {
        return Some(own.to_owned());
    }
    let (group, kind, name) = (text(&spec["group"]), text(&spec["names"]["kind"]), text(&version["name"]));
    let current = spec["versions"].as_array().into_iter().flatten();
    let current = current.filter(|other| other["served"] == true && other["deprecated"] != true);
    let newer = current.map(|other| text(&other["name"])).filter(|other| priority(other) > priority(&name));
    let newest = newer.max_by_key(|other| priority(other));
    let advice = newest.map(|newest| format!("; use {group}/{newest} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{advice}"))
}

fn scale_paths(scale: &serde_json::Map<String, Value>) -> Option<ScalePaths> {
    let path = |name: &str| scale.get(name)?.as_str().and_then(|path| JsonPath::parse(path).ok());
    Some(ScalePaths {
        spec_replicas: path("specReplicasPath")?,
        status_replicas: path("statusReplicasPath")?,
        selector: path("labelSelectorPath"),
    })
}

fn selectable(version: &Value) -> Vec<Selectable> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    let field = |field: &Value| {
        let path = field["jsonPath"].as_str()?;
        let name = path.trim_start_matches('.').to_owned();
        Some(Selectable { name, path: JsonPath::parse(path).ok()?, absent: "" })
    };
    fields.filter_map(field).collect()
}

fn columns(version: &Value) -> Vec<Column> {
    let Some(columns) = version["additionalPrinterColumns"].as_array() else { return default_columns() };
    let read = |column: &Value| {
        let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let parsed = JsonPath::parse(&path).ok()?;
        let ty = text("type");
        let description = match text("description") {
            description if !description.is_empty() => description,
            _ => format!("Custom resource definition column (in JSONPath format): {path}"),
        };
        let cell = if ty == "date" { Cell::Age(parsed) } else { Cell::Path(parsed) };
        let priority = column["priority"].as_i64().unwrap_or_default();
        Some(Column { name: text("name"), ty, format: text("format"), description, priority, cell })
    };
    columns.iter().filter_map(read).collect()
}

fn default_columns() -> Vec<Column> {
    let Ok(path) = JsonPath::parse(".metadata.creationTimestamp") else { return Vec::new() };
    vec![Column {
        name: "Age".to_owned(),
        ty: "date".to_owned(),
        format: String::new(),
        description: "CreationTimestamp is when the object was created.".to_owned(),
        priority: 0,
        cell: Cell::Age(path),
    }]
}

/// The status of a CRD whose names are accepted, given its spec and the time.
pub(crate) fn established(crd: &Value, now: &str) -> Value {
    let condition = |ty: &str, reason: &str, message: &str| json!({"type": ty, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
    let mut stored: Vec<Value> = crd["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    let storage = storage_version(crd).map(Value::from);
    if let Some(storage) = storage.filter(|storage| !stored.contains(storage)) {
        stored.push(storage);
    }
    json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": crd["spec"]["names"],
        "storedVersions": stored,
    })
}

/// The status of a CRD whose names belong to another one.
pub(crate) fn refused(crd: &Value, now: &str, conflict: &str) -> Value {
    let condition = |ty: &str, reason: &str, message: &str| json!({"type": ty, "status": "False", "lastTransitionTime": now, "reason": reason, "message": message});
    json!({
        "conditions": [
            condition("NamesAccepted", "NamesConflict", conflict),
            condition("Established", "NotAccepted", "not all names are accepted"),
        ],
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": crd["status"]["storedVersions"],
    })
}

/// The version in which objects of a CRD are kept.
pub(crate) fn storage_version(crd: &Value) -> Option<&str> {
    let versions = crd["spec"]["versions"].as_array()?;
    versions.iter().find(|version| version["storage"] == true)?["name"].as_str()
}

/// Whether a condition of a CRD is true.
pub(crate) fn has_condition(crd: &Value, ty: &str) -> bool {
    is_true(&crd["status"]["conditions"], ty)
}

/// Whether a condition among others is true.
pub(crate) fn is_true(conditions: &Value, ty: &str) -> bool {
    let conditions = conditions.as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == ty && condition["status"] == "True")
}
