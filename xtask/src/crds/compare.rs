//! What one CustomResourceDefinition takes that another does not: pure, over the definitions as JSON.
//!
//! Everything is asked in one direction, from a user who has written objects for `theirs`: which of them would `ours` refuse,
//! prune, merge or show differently. What `ours` has beyond that is no difference.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// Something that a user of theirs misses in ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) kind: String,
    /// The field, such as `spec.files[].path`; empty for the kind as a whole.
    pub(crate) path: String,
    pub(crate) what: What,
}

/// What is different, with both sides as evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    MissingKind,
    MissingVersion(String),
    Name {
        of: &'static str,
        ours: String,
        theirs: String,
    },
    MissingName {
        of: &'static str,
        name: String,
    },
    MissingColumn(String),
    Column {
        name: String,
        ours: String,
        theirs: String,
    },
    MissingSubresource(String),
    Subresource {
        name: String,
        ours: String,
        theirs: String,
    },
    MissingField,
    /// Anything is taken here, where theirs says what it is: nothing is pruned, explained, or owned field by field.
    Untyped,
    Type {
        ours: String,
        theirs: String,
    },
    Required(String),
    Enum(Vec<String>),
    Pattern {
        ours: String,
        theirs: String,
    },
    Limit {
        name: &'static str,
        ours: String,
        theirs: String,
    },
    Merge {
        name: &'static str,
        ours: String,
        theirs: String,
    },
    Default(String),
    Rule(String),
}

/// A short word for each, by which deviations are listed.
impl What {
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::MissingKind => "kind",
            Self::MissingVersion(_) => "version",
            Self::Name { of, .. } | Self::MissingName { of, .. } => of,
            Self::MissingColumn(_) | Self::Column { .. } => "column",
            Self::MissingSubresource(_) | Self::Subresource { .. } => "subresource",
            Self::MissingField => "field",
            Self::Untyped => "untyped",
            Self::Type { .. } => "type",
            Self::Required(_) => "required",
            Self::Enum(_) => "enum",
            Self::Pattern { .. } => "pattern",
            Self::Limit { name, .. } | Self::Merge { name, .. } => name,
            Self::Default(_) => "default",
            Self::Rule(_) => "rule",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.path.is_empty() {
            write!(f, " {}", self.path)?;
        }
        match &self.what {
            What::MissingKind => write!(f, ": the kind is missing"),
            What::MissingVersion(version) => write!(f, ": version {version} is missing"),
            What::Name { of, ours, theirs } => write!(f, ": {of} is {ours} here, {theirs} there"),
            What::MissingName { of, name } => write!(f, ": {of} {name} is missing"),
            What::MissingColumn(name) => write!(f, ": column {name} is missing"),
            What::Column { name, ours, theirs } => {
                write!(f, ": column {name} is {ours} here, {theirs} there")
            }
            What::MissingSubresource(name) => write!(f, ": subresource {name} is missing"),
            What::Subresource { name, ours, theirs } => {
                write!(f, ": subresource {name} is {ours} here, {theirs} there")
            }
            What::MissingField => write!(f, ": the field is missing"),
            What::Untyped => write!(f, ": anything here, typed there"),
            What::Type { ours, theirs } => write!(f, ": {ours} here, {theirs} there"),
            What::Required(field) => write!(f, ": {field} is required here only"),
            What::Enum(missing) => write!(f, ": not allowed here: {}", missing.join(", ")),
            What::Pattern { ours, theirs } => write!(f, ": pattern {ours} here, {theirs} there"),
            What::Limit { name, ours, theirs } | What::Merge { name, ours, theirs } => {
                write!(f, ": {name} is {ours} here, {theirs} there")
            }
            What::Default(value) => write!(f, ": defaulted here only, to {value}"),
            What::Rule(rule) => write!(f, ": a rule of ours only: {rule}"),
        }
    }
}

/// Compares all definitions, each in one version, in the order of theirs.
pub(crate) fn definitions(ours: &[Value], theirs: &[Value], version: &str) -> Vec<Difference> {
    let by_name: BTreeMap<String, &Value> =
        ours.iter().map(|definition| (text(&definition["metadata"]["name"]), definition)).collect();
    let mut found = Found::default();
    for theirs in theirs {
        found.kind = text(&theirs["spec"]["names"]["kind"]);
        match by_name.get(&text(&theirs["metadata"]["name"])) {
            None => found.push("", What::MissingKind),
            Some(ours) => found.definition(ours, theirs, version),
        }
    }
    found.differences
}

#[derive(Default)]
struct Found {
    kind: String,
    differences: Vec<Difference>,
}

impl Found {
    fn push(&mut self, path: &str, what: What) {
        self.differences.push(Difference { kind: self.kind.clone(), path: path.to_owned(), what });
    }

    fn definition(&mut self, ours: &Value, theirs: &Value, version: &str) {
        for (of, pointer) in [("scope", "/spec/scope"), ("singular", "/spec/names/singular")] {
            let (ours, theirs) = (at(ours, pointer), at(theirs, pointer));
            if ours != theirs {
                self.push("", What::Name { of, ours: text(ours), theirs: text(theirs) });
            }
        }
        for (of, list) in [("short name", "shortNames"), ("category", "categories")] {
            let present = &ours["spec"]["names"][list];
            for name in items(&theirs["spec"]["names"][list]) {
                if !items(present).any(|one| one == name) {
                    self.push("", What::MissingName { of, name: text(name) });
                }
            }
        }
        let of = |definition: &Value| {
            items(&definition["spec"]["versions"]).find(|one| one["name"] == version).cloned()
        };
        let Some(theirs) = of(theirs) else { return };
        let Some(ours) = of(ours) else {
            return self.push("", What::MissingVersion(version.to_owned()));
        };
        self.columns(&ours["additionalPrinterColumns"], &theirs["additionalPrinterColumns"]);
        self.subresources(&ours["subresources"], &theirs["subresources"]);
        self.schema("", &ours["schema"]["openAPIV3Schema"], &theirs["schema"]["openAPIV3Schema"]);
    }

    fn columns(&mut self, ours: &Value, theirs: &Value) {
        for column in items(theirs) {
            let name = text(&column["name"]);
            // Two columns may have one name: a condition and a count.
            let mut named = items(ours).filter(|one| one["name"] == column["name"]);
            let same_path = named.clone().find(|one| one["jsonPath"] == column["jsonPath"]);
            let Some(same) = same_path.or_else(|| named.next()) else {
                self.push("", What::MissingColumn(name));
                continue;
            };
            let shown = |column: &Value| {
                let wide = if column["priority"].as_i64().unwrap_or(0) > 0 { ", wide" } else { "" };
                format!("{} {}{wide}", text(&column["type"]), text(&column["jsonPath"]))
            };
            let (ours, theirs) = (shown(same), shown(column));
            if ours != theirs {
                self.push("", What::Column { name, ours, theirs });
            }
        }
    }

    fn subresources(&mut self, ours: &Value, theirs: &Value) {
        for (name, theirs) in fields(theirs) {
            match ours.get(name) {
                None => self.push("", What::MissingSubresource(name.clone())),
                Some(ours) if ours != theirs => self.push(
                    "",
                    What::Subresource { name: name.clone(), ours: text(ours), theirs: text(theirs) },
                ),
                Some(_) => {}
            }
        }
    }

    fn schema(&mut self, path: &str, ours: &Value, theirs: &Value) {
        let open = |schema: &Value| schema[PRESERVE] == true;
        let typed = ["properties", "items", "additionalProperties", "type"];
        if open(ours) && fields(&ours["properties"]).next().is_none() {
            if !open(theirs) && typed.iter().any(|key| !theirs[*key].is_null()) {
                self.push(path, What::Untyped);
            }
            return;
        }
        if type_of(ours) != type_of(theirs) {
            return self.push(path, What::Type { ours: type_of(ours), theirs: type_of(theirs) });
        }
        if open(ours) && !open(theirs) {
            self.push(path, What::Untyped);
        }
        self.value(path, ours, theirs);
        self.merging(path, ours, theirs);
        for field in items(&ours["required"]) {
            if !items(&theirs["required"]).any(|one| one == field) {
                self.push(path, What::Required(text(field)));
            }
        }
        for (name, theirs) in fields(&theirs["properties"]) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match ours["properties"].get(name) {
                Some(ours) => self.schema(&path, ours, theirs),
                None => self.push(&path, What::MissingField),
            }
        }
        for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if ours[key].is_object() && theirs[key].is_object() {
                self.schema(&format!("{path}{mark}"), &ours[key], &theirs[key]);
            } else if theirs[key].is_object() {
                self.push(&format!("{path}{mark}"), What::MissingField);
            }
        }
    }

    /// What single values may be.
    fn value(&mut self, path: &str, ours: &Value, theirs: &Value) {
        if ours["enum"].is_array() {
            let missing: Vec<String> = if theirs["enum"].is_array() {
                items(&theirs["enum"])
                    .filter(|value| !items(&ours["enum"]).any(|one| one == *value))
                    .map(text)
                    .collect()
            } else {
                vec!["any other value".to_owned()]
            };
            if !missing.is_empty() {
                self.push(path, What::Enum(missing));
            }
        }
        if !ours["pattern"].is_null() && ours["pattern"] != theirs["pattern"] {
            self.push(path, What::Pattern { ours: text(&ours["pattern"]), theirs: text(&theirs["pattern"]) });
        }
        for name in ["maxLength", "maxItems", "maxProperties", "maximum"] {
            self.limit(path, name, ours, theirs, |ours, theirs| ours < theirs);
        }
        for name in ["minLength", "minItems", "minProperties", "minimum"] {
            // The least that there can be is no limit, except for numbers.
            let none = name != "minimum" && ours[name] == 0;
            if !none {
                self.limit(path, name, ours, theirs, |ours, theirs| ours > theirs);
            }
        }
        if !ours["format"].is_null() && ours["format"] != theirs["format"] {
            self.push(
                path,
                What::Limit { name: "format", ours: text(&ours["format"]), theirs: text(&theirs["format"]) },
            );
        }
        if !ours["default"].is_null() && theirs["default"].is_null() {
            self.push(path, What::Default(text(&ours["default"])));
        }
        for rule in items(&ours["x-kubernetes-validations"]) {
            if !items(&theirs["x-kubernetes-validations"]).any(|one| one["rule"] == rule["rule"]) {
                self.push(path, What::Rule(text(&rule["rule"])));
            }
        }
    }

    fn limit(
        &mut self,
        path: &str,
        name: &'static str,
        ours: &Value,
        theirs: &Value,
        narrower: impl Fn(f64, f64) -> bool,
    ) {
        let (ours, theirs) = (&ours[name], &theirs[name]);
        let is_narrower = match (ours.as_f64(), theirs.as_f64()) {
            (Some(ours), Some(theirs)) => narrower(ours, theirs),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_narrower {
            self.push(path, What::Limit { name, ours: text(ours), theirs: text(theirs) });
        }
    }

    /// How two writers share it. An unsaid list is atomic, an unsaid map is granular.
    fn merging(&mut self, path: &str, ours: &Value, theirs: &Value) {
        for (name, unsaid) in [("x-kubernetes-list-type", "atomic"), ("x-kubernetes-map-type", "granular")] {
            let said = |schema: &Value| schema[name].as_str().unwrap_or(unsaid).to_owned();
            let (ours, theirs) = (said(ours), said(theirs));
            if ours != theirs {
                self.push(path, What::Merge { name: &name["x-kubernetes-".len()..], ours, theirs });
            }
        }
        let keys = |schema: &Value| {
            let mut keys: Vec<String> = items(&schema["x-kubernetes-list-map-keys"]).map(text).collect();
            keys.sort();
            keys.join(", ")
        };
        let (ours, theirs) = (keys(ours), keys(theirs));
        if ours != theirs && !ours.is_empty() && !theirs.is_empty() {
            self.push(path, What::Merge { name: "list-map-keys", ours, theirs });
        }
    }
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    schema["type"].as_str().unwrap_or("anything").to_owned()
}

fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> + Clone {
    value.as_array().into_iter().flatten()
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A definition of a kind with this schema as its spec.
    fn with_spec(spec: &Value) -> Value {
        json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "names": {"kind": "Thing", "singular": "thing", "categories": ["all"], "shortNames": ["th"]},
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1",
                    "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".a"}],
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }],
            },
        })
    }

    fn said(ours: &Value, theirs: &Value) -> Vec<String> {
        definitions(std::slice::from_ref(ours), std::slice::from_ref(theirs), "v1")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn of_specs(ours: &Value, theirs: &Value) -> Vec<String> {
        said(&with_spec(ours), &with_spec(theirs))
    }

    #[test]
    fn the_same_definition_has_no_differences_and_more_is_none() {
        let theirs = json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}});
        let ours = json!({"type": "object", "properties": {
            "a": {"type": "string", "enum": ["x", "External"]}, "b": {"type": "integer"},
        }});
        assert_eq!(of_specs(&theirs, &theirs), [""; 0]);
        assert_eq!(of_specs(&ours, &theirs), [""; 0]);
        assert_eq!(
            of_specs(&theirs, &ours),
            ["Thing spec.a: not allowed here: External", "Thing spec.b: the field is missing"]
        );
    }

    #[test]
    fn what_is_stricter_here_is_named_and_what_is_looser_is_not() {
        let loose = json!({"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 256},
            "list": {"type": "array", "maxItems": 100, "items": {"type": "string"}},
        }});
        let strict = json!({"type": "object", "required": ["name"], "minProperties": 1, "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^a", "default": "a"},
            "list": {"type": "array", "maxItems": 32, "minItems": 1, "items": {"type": "string", "format": "uri"},
                "x-kubernetes-validations": [{"rule": "self.size() > 0"}]},
        }});
        assert_eq!(of_specs(&loose, &strict), [""; 0]);
        assert_eq!(
            of_specs(&strict, &loose),
            [
                "Thing spec: minProperties is 1 here, none there",
                "Thing spec: name is required here only",
                "Thing spec.list: maxItems is 32 here, 100 there",
                "Thing spec.list: minItems is 1 here, none there",
                "Thing spec.list: a rule of ours only: self.size() > 0",
                "Thing spec.list[]: format is uri here, none there",
                "Thing spec.name: pattern ^a here, none there",
                "Thing spec.name: maxLength is 64 here, 256 there",
                "Thing spec.name: minLength is 1 here, none there",
                "Thing spec.name: defaulted here only, to a",
            ]
        );
    }

    #[test]
    fn lists_that_merge_otherwise_are_named() {
        let list = |merge: Value| {
            let mut list = json!({"type": "array", "items": {"type": "object"}});
            list.as_object_mut().unwrap().extend(merge.as_object().unwrap().clone());
            json!({"type": "object", "properties": {"list": list}})
        };
        let map = |keys: &[&str]| {
            list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}))
        };
        let atomic = list(json!({"x-kubernetes-list-type": "atomic"}));
        assert_eq!(of_specs(&list(json!({})), &atomic), [""; 0], "atomic is the default");
        assert_eq!(
            of_specs(&map(&["name"]), &atomic),
            ["Thing spec.list: list-type is map here, atomic there"]
        );
        assert_eq!(
            of_specs(&map(&["value", "name"]), &map(&["name", "value"])),
            [""; 0],
            "keys have no order"
        );
        assert_eq!(
            of_specs(&map(&["name"]), &map(&["name", "value"])),
            ["Thing spec.list: list-map-keys is name here, name, value there"]
        );
    }

    #[test]
    fn anything_is_not_as_good_as_a_type() {
        let typed = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}});
        let open = json!({"type": "object", "properties": {"a": {"type": "object", PRESERVE: true}}});
        assert_eq!(of_specs(&open, &typed), ["Thing spec.a: anything here, typed there"]);
        assert_eq!(of_specs(&open, &open), [""; 0]);
        let partly = json!({"type": "object", "properties": {
            "a": {"type": "object", PRESERVE: true, "properties": {"c": {"type": "string"}}},
        }});
        assert_eq!(
            of_specs(&partly, &typed),
            ["Thing spec.a: anything here, typed there", "Thing spec.a.b: the field is missing"]
        );
        let number = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        assert_eq!(of_specs(&number, &typed), ["Thing spec.a: integer here, object there"]);
    }

    #[test]
    fn what_is_around_the_schema_counts_too() {
        let theirs = with_spec(&json!({"type": "object"}));
        let mut ours = theirs.clone();
        ours["spec"]["scope"] = "Cluster".into();
        ours["spec"]["names"]["categories"] = json!([]);
        ours["spec"]["names"]["shortNames"] = json!(["th", "thing"]);
        let version = &mut ours["spec"]["versions"][0];
        version["additionalPrinterColumns"][0]["priority"] = 10.into();
        version["subresources"] = json!({"scale": {}});
        assert_eq!(
            said(&ours, &theirs),
            [
                "Thing: scope is Cluster here, Namespaced there",
                "Thing: category all is missing",
                "Thing: column Age is date .a, wide here, date .a there",
                "Thing: subresource status is missing",
            ]
        );
        ours["spec"]["versions"][0]["name"] = "v2".into();
        assert_eq!(said(&ours, &theirs).last().unwrap(), "Thing: version v1 is missing");
        assert_eq!(
            definitions(&[], &[theirs], "v1").iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["Thing: the kind is missing"]
        );
    }
}
