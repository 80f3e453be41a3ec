//! Runs the cases: an object, and what managers do to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_apimachinery::fieldmanager::{
    ApplyError, Endpoint, FieldManager, ManagedFields, Manager, Operation, Shape, Timestamp, display,
};
use windlass_apimachinery::schema::Schema;
use windlass_patch::merge_patch;

pub(crate) const API_VERSION: &str = "demo.test/v1";
pub(crate) const KIND: &str = "Widget";

/// A named list of lines.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) steps: Vec<String>,
}

pub(crate) fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("case "), cases.last_mut()) {
            (Some(name), _) => cases.push(Case { name: name.to_owned(), steps: Vec::new() }),
            (None, Some(case)) => case.steps.push(line.to_owned()),
            (None, None) => panic!("before the first case: {line}"),
        }
    }
    cases
}

/// A field of every kind that merges differently.
pub(crate) fn schema() -> Schema {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let spec = json!({
        "color": text, "size": number, "on": {"type": "boolean"}, "nul": {"type": "string", "nullable": true},
        "ios": {"x-kubernetes-int-or-string": true},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "nums": {"type": "array", "x-kubernetes-list-type": "set", "items": number},
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": number, "protocol": {"type": "string", "default": "TCP"}, "name": text,
                "targets": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            }},
        },
        "conds": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type"], "properties": {
                "type": text, "status": text, "info": {"type": "object", "properties": {"msg": text, "code": number}},
            }},
        },
        "args": {"type": "array", "items": text},
        "steps": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object", "properties": {"run": text}}},
        "labels": {"type": "object", "additionalProperties": text},
        "groups": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": text, "b": text}}},
        "amap": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "box": {"type": "object", "properties": {"w": number, "h": number, "deep": {"type": "object", "properties": {"x": number}}}},
        "abox": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"w": number, "h": number}},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    });
    let status = json!({"replicas": number, "conds": spec["conds"]});
    let root = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": spec}, "status": {"type": "object", "properties": status}},
    });
    Schema::from_crd(&root, "root").unwrap_or_else(|causes| panic!("{causes:?}"))
}

/// An object and those who manage it.
pub(crate) struct Scenario {
    name: String,
    schema: Schema,
    versions: BTreeMap<String, Arc<Shape>>,
    pub(crate) object: Option<Value>,
    failure: Option<ApplyError>,
    clock: i64,
}

impl Scenario {
    pub(crate) fn new(name: &str) -> Self {
        let schema = schema();
        let versions = BTreeMap::from([(API_VERSION.to_owned(), Arc::new(Shape::of_resource(&schema)))]);
        Scenario { name: name.to_owned(), schema, versions, object: None, failure: None, clock: 0 }
    }

    pub(crate) fn run(&mut self, steps: &[String]) {
        let mut owners = Vec::new();
        for step in steps {
            if let Some(line) = step.strip_prefix("owners ") {
                owners.push(line);
                continue;
            }
            self.check_owners(&std::mem::take(&mut owners));
            self.step(step);
        }
        self.check_owners(&owners);
        assert!(self.failure.is_none(), "{}: {:?}", self.name, self.failure);
    }

    fn step(&mut self, step: &str) {
        let (verb, rest) = step.split_once(' ').unwrap();
        let expects_failure = matches!(verb, "conflicts" | "error");
        if !expects_failure {
            let failure = self.failure.take();
            assert!(failure.is_none(), "{}: before `{step}`: {failure:?}", self.name);
        }
        match verb {
            "apply" | "apply!" => {
                let (manager, config) = manager_and_object(rest, "spec");
                let _ =
                    self.apply(manager, config, verb.ends_with('!'), Endpoint::Object { has_status: true });
            }
            "status" | "status!" => {
                let (manager, config) = manager_and_object(rest, "status");
                let _ = self.apply(manager, config, verb.ends_with('!'), Endpoint::Status);
            }
            "update" => {
                let (manager, given) = manager_and_object(rest, "spec");
                let mut new = self.object.clone().unwrap_or_else(|| identified(json!({})));
                for (name, value) in given.as_object().unwrap() {
                    new[name] = value.clone();
                }
                self.update(manager, new);
            }
            "patch" => {
                let (manager, patch) = manager_and_object(rest, "spec");
                let new = merge_patch::apply(self.object.as_ref().unwrap(), &patch).unwrap();
                self.update(manager, new);
            }
            "conflicts" => self.check_conflicts(rest),
            "error" => {
                let failure =
                    self.failure.take().unwrap_or_else(|| panic!("{}: should fail: {rest}", self.name));
                assert!(failure.to_string().contains(rest), "{}: {failure}", self.name);
            }
            "spec" => {
                let expected: Value = serde_json::from_str(rest).unwrap();
                let spec =
                    self.object.as_ref().and_then(|object| object.get("spec")).cloned().unwrap_or_default();
                assert_eq!(spec, expected, "{}", self.name);
            }
            "object" => {
                let expected: Value = serde_json::from_str(rest).unwrap();
                assert_eq!(anonymous(self.object.clone().unwrap()), expected, "{}", self.name);
            }
            _ => panic!("{}: no such step: {step}", self.name),
        }
    }

    /// Applies as a server would, and keeps what comes of it.
    pub(crate) fn apply(
        &mut self,
        manager: &str,
        config: Value,
        force: bool,
        endpoint: Endpoint,
    ) -> Result<(), ApplyError> {
        self.clock += 1;
        let live = self.object.clone().unwrap_or_else(blank);
        let now = Timestamp::from_unix_seconds(self.clock);
        match self.manager(endpoint).apply(&live, &identified(config), manager, force, now) {
            Ok(applied) => {
                self.store(&live, applied, endpoint);
                Ok(())
            }
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    pub(crate) fn update(&mut self, manager: &str, mut new: Value) {
        self.clock += 1;
        let live = self.object.clone().unwrap_or_else(blank);
        self.schema.apply_defaults(&mut new).unwrap();
        let endpoint = Endpoint::Object { has_status: true };
        let now = Timestamp::from_unix_seconds(self.clock);
        let updated = self.manager(endpoint).update(&live, new, manager, now);
        self.store(&live, updated, endpoint);
    }

    fn store(&mut self, live: &Value, mut new: Value, endpoint: Endpoint) {
        let kept = if endpoint == Endpoint::Status { "spec" } else { "status" };
        let fields = new.as_object_mut().unwrap();
        fields.remove(kept);
        fields.extend(live.get(kept).map(|value| (kept.to_owned(), value.clone())));
        self.schema.apply_defaults(&mut new).unwrap();
        new["metadata"]["uid"] = "u".into();
        self.object = Some(new);
    }

    fn manager(&self, endpoint: Endpoint) -> FieldManager<'_> {
        FieldManager { versions: &self.versions, api_version: API_VERSION, kind: KIND, endpoint }
    }

    /// Who owns what, in the words of the cases.
    pub(crate) fn owners(&self) -> BTreeMap<String, Vec<String>> {
        let managed =
            self.object.as_ref().map(|object| ManagedFields::of(object).unwrap()).unwrap_or_default();
        let line = |(manager, ownership): (&Manager, &windlass_apimachinery::fieldmanager::Ownership)| {
            let mut paths: Vec<String> =
                ownership.fields.paths().iter().map(|path| relative(&display(path))).collect();
            paths.sort();
            (label(manager), paths)
        };
        managed.managers.iter().map(line).collect()
    }

    fn check_owners(&self, lines: &[&str]) {
        if lines.is_empty() {
            return;
        }
        let expected: BTreeMap<String, Vec<String>> = lines
            .iter()
            .filter(|line| **line != "none")
            .map(|line| {
                let mut words = line.split_whitespace().map(str::to_owned);
                let manager = words.next().unwrap();
                let mut paths: Vec<String> = words.collect();
                paths.sort();
                (manager, paths)
            })
            .collect();
        assert_eq!(self.owners(), expected, "{}", self.name);
    }

    fn check_conflicts(&mut self, rest: &str) {
        let mut words = rest.split_whitespace();
        let manager = words.next().unwrap();
        let expected: Vec<&str> = words.collect();
        let failure = self.failure.take();
        let Some(ApplyError::Conflicts(mut conflicts)) = failure else {
            panic!("{}: no conflicts, but {failure:?}", self.name);
        };
        let (about, others): (Vec<_>, Vec<_>) =
            conflicts.0.drain(..).partition(|conflict| label(&conflict.manager) == manager);
        let found: Vec<String> = about.iter().map(|conflict| relative(&conflict.field())).collect();
        assert_eq!(found, expected, "{}: conflicts with {manager}", self.name);
        if !others.is_empty() {
            conflicts.0 = others;
            self.failure = Some(ApplyError::Conflicts(conflicts));
        }
    }
}

fn manager_and_object<'a>(rest: &'a str, field: &str) -> (&'a str, Value) {
    let (manager, json) = rest.split_once(' ').unwrap();
    match json.strip_prefix("object ") {
        Some(object) => (manager, serde_json::from_str(object).unwrap()),
        None => {
            let value: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
            (manager, json!({field: value}))
        }
    }
}

pub(crate) fn identified(mut object: Value) -> Value {
    object["apiVersion"] = API_VERSION.into();
    object["kind"] = KIND.into();
    object["metadata"]["name"] = "w".into();
    object
}

pub(crate) fn blank() -> Value {
    json!({"apiVersion": API_VERSION, "kind": KIND})
}

fn anonymous(mut object: Value) -> Value {
    let fields = object.as_object_mut().unwrap();
    fields.remove("apiVersion");
    fields.remove("kind");
    let metadata = fields["metadata"].as_object_mut().unwrap();
    for name in ["name", "uid", "managedFields"] {
        metadata.remove(name);
    }
    if metadata.is_empty() {
        fields.remove("metadata");
    }
    object
}

fn label(manager: &Manager) -> String {
    let operation = if manager.operation == Operation::Update { "/update" } else { "" };
    let subresource = if manager.subresource.is_empty() { "" } else { "@status" };
    format!("{}{operation}{subresource}", manager.name)
}

fn relative(path: &str) -> String {
    match path.strip_prefix(".spec") {
        Some("") => ".".to_owned(),
        Some(rest) => rest.to_owned(),
        None => format!("^{path}"),
    }
}
