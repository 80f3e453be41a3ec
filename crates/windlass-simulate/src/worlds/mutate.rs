//! Mutations: another value in any field that the schema of a kind has.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use windlass_patch::merge_patch;
use windlass_random::Generator;

/// The schema of `spec` of each kind, in the version that is stored.
static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let mut schemas = BTreeMap::new();
    for manifest in windlass_api::crds::manifests() {
        let versions = manifest["spec"]["versions"].as_array().cloned().unwrap_or_default();
        let stored = versions.into_iter().find(|version| version["storage"] == true).unwrap_or_default();
        let spec = &stored["schema"]["openAPIV3Schema"]["properties"]["spec"];
        if let Some(kind) = manifest["spec"]["names"]["kind"].as_str() {
            schemas.insert(kind.to_owned(), spec.clone());
        }
    }
    schemas
});

/// How deep a new value nests, at most, beyond what is required of it.
const DEPTH: u32 = 3;

/// A merge patch for `spec` that changes one field of a kind, any of them with the same chance. Lists are replaced, so that
/// `present` must be what is there.
pub(super) fn mutation(kind: &str, present: &Value, random: &mut Generator) -> Option<Value> {
    SCHEMAS.get(kind).map(|schema| change(schema, "spec", present, random))
}

/// What a schema describes.
enum Shape<'s> {
    Object(&'s Map<String, Value>),
    /// Any keys.
    Map(&'s Value),
    List(&'s Value),
    Scalar,
}

fn shape(schema: &Value) -> Shape<'_> {
    match (schema["properties"].as_object(), schema["type"].as_str()) {
        (Some(properties), _) if !properties.is_empty() => Shape::Object(properties),
        (_, Some("object")) => Shape::Map(&schema["additionalProperties"]),
        (_, Some("array")) => Shape::List(&schema["items"]),
        _ => Shape::Scalar,
    }
}

/// How many fields there are, so that those of large parts are not rarer than those of small ones.
fn fields(schema: &Value) -> usize {
    match shape(schema) {
        Shape::Object(properties) => properties.values().map(fields).sum(),
        Shape::List(items) => fields(items),
        Shape::Map(_) | Shape::Scalar => 1,
    }
}

/// Another value, as a merge patch.
fn change(schema: &Value, name: &str, present: &Value, random: &mut Generator) -> Value {
    match shape(schema) {
        Shape::Object(properties) => {
            let mut at = random.usize(0..fields(schema));
            let found = properties.iter().find(|(_, part)| {
                let is_here = at < fields(part);
                at = at.saturating_sub(fields(part));
                is_here
            });
            // What is not there yet has to be complete.
            let mut patch = if present.is_null() { required(schema, random, DEPTH) } else { json!({}) };
            if let Some((name, part)) = found {
                let is_required = schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
                let is_removed = !is_required && !present[name].is_null() && random.u8(0..10) == 0;
                patch[name] = match is_removed {
                    true => Value::Null,
                    false => change(part, name, &present[name], random),
                };
            }
            patch
        }
        Shape::List(items) => {
            let mut list = present.as_array().cloned().unwrap_or_default();
            match random.u8(0..6) {
                0 => list.push(value(items, name, random, DEPTH)),
                1 if !list.is_empty() => drop(list.remove(random.usize(0..list.len()))),
                _ if list.is_empty() => list.push(value(items, name, random, DEPTH)),
                _ => {
                    let at = random.usize(0..list.len());
                    let patch = change(items, name, &list[at], random);
                    merge_patch::apply_to(&mut list[at], &patch);
                }
            }
            json!(list)
        }
        Shape::Map(_) | Shape::Scalar => value(schema, name, random, DEPTH),
    }
}

/// A value with everything that it needs, and sometimes something more.
fn value(schema: &Value, name: &str, random: &mut Generator, depth: u32) -> Value {
    match shape(schema) {
        Shape::Object(properties) => {
            let mut made = required(schema, random, depth);
            if depth > 0 && random.bool() {
                let at = random.usize(0..properties.len());
                if let Some((name, part)) = properties.iter().nth(at) {
                    made[name] = value(part, name, random, depth - 1);
                }
            }
            made
        }
        Shape::Map(values) => {
            let value = if values.is_object() { value(values, name, random, 0) } else { json!("x") };
            json!({format!("x{}", random.u8(0..9)): value})
        }
        Shape::List(items) => {
            let least = schema["minItems"].as_u64().unwrap_or(u64::from(depth > 0));
            (0..least).map(|_| value(items, name, random, depth.saturating_sub(1))).collect()
        }
        Shape::Scalar => scalar(schema, name, random),
    }
}

/// The required fields of an object.
fn required(schema: &Value, random: &mut Generator, depth: u32) -> Value {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let made = names.map(|name| {
        (name.to_owned(), value(&schema["properties"][name], name, random, depth.saturating_sub(1)))
    });
    Value::Object(made.collect())
}

fn scalar(schema: &Value, name: &str, random: &mut Generator) -> Value {
    if let Some(choices) = schema["enum"].as_array().filter(|choices| !choices.is_empty()) {
        return choices[random.usize(0..choices.len())].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return [json!(0), json!(1), json!(2), json!("25%"), json!("100%")][random.usize(0..5)].clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(random.bool()),
        Some("integer" | "number") => {
            let least = schema["minimum"].as_i64().unwrap_or(0).max(-3);
            // Few machines: large numbers are another test's matter.
            let range = if name == "replicas" { 3 } else { [3, 60, 600][random.usize(0..3)] };
            let most = schema["maximum"].as_i64().unwrap_or(i64::MAX).min(least + range).max(least);
            json!(random.i64(least..=most))
        }
        Some("string") => json!(text(schema, name, random)),
        _ => json!({"x": random.u8(0..9)}),
    }
}

/// A text that fields of this name usually accept. The API refuses what does not fit, which is part of the story.
fn text(schema: &Value, name: &str, random: &mut Generator) -> String {
    let number = random.u8(0..9);
    let is_like = |words: &[&str]| words.iter().any(|word| name.to_ascii_lowercase().contains(word));
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    if schema["format"] == "date-time" {
        // Stories begin in 1970.
        format!("1970-01-01T0{number}:10:00Z")
    } else if is_like(&["duration", "timeout", "interval", "ttl"]) {
        format!("{}s", u32::from(number) * 7 + 1)
    } else if is_like(&["version"]) {
        ["v1.30.0", "v1.31.1", "cluster.x-k8s.io/v1beta2", "v1"][random.usize(0..4)].to_owned()
    } else if is_like(&["cidr", "subnet"]) {
        format!("10.{number}.0.0/16")
    } else if is_like(&["domain", "host", "server"]) {
        format!("n{number}.example.org")
    } else if is_like(&["path", "file", "dir"]) {
        format!("/var/x{number}")
    } else if pattern.contains("A-Z") || is_like(&["kind", "condition"]) {
        format!("Kind{number}")
    } else {
        let least = schema["minLength"].as_u64().unwrap_or(0).min(60) as usize;
        format!("{:x<least$}", format!("x{number}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The paths of a patch, lists as one field.
    fn paths(patch: &Value, at: String, into: &mut BTreeSet<String>) {
        match patch.as_object().filter(|fields| !fields.is_empty()) {
            Some(fields) => {
                fields.iter().for_each(|(name, value)| paths(value, format!("{at}.{name}"), into));
            }
            None => {
                into.insert(at);
            }
        }
    }

    #[test]
    fn every_field_of_a_kind_is_changed_sooner_or_later() {
        let mut random = Generator::with_seed(1);
        let present =
            json!({"topology": {"version": "v1.30.0", "workers": {"machineDeployments": [{"name": "a"}]}}});
        let mut seen = BTreeSet::new();
        for _ in 0..3000 {
            let patch = mutation("Cluster", &present, &mut random).unwrap();
            paths(&patch, String::new(), &mut seen);
        }
        let mut wanted = BTreeSet::new();
        fn all(schema: &Value, at: String, into: &mut BTreeSet<String>) {
            match shape(schema) {
                Shape::Object(properties) => {
                    properties.iter().for_each(|(name, part)| all(part, format!("{at}.{name}"), into));
                }
                _ => {
                    into.insert(at);
                }
            }
        }
        all(&SCHEMAS["Cluster"], String::new(), &mut wanted);
        let missed: Vec<&String> =
            wanted.iter().filter(|field| !seen.iter().any(|path| path.starts_with(*field))).collect();
        assert!(wanted.len() > 20 && missed.is_empty(), "{missed:?} of {}", wanted.len());
    }

    #[test]
    fn what_is_new_has_what_is_required_of_it_and_numbers_keep_their_limits() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 5},
            "size": {"type": "integer", "minimum": 2, "maximum": 4},
        }});
        let mut random = Generator::with_seed(2);
        for _ in 0..200 {
            let made = value(&schema, "", &mut random, DEPTH);
            assert!(made["name"].as_str().unwrap().len() >= 5, "{made}");
            assert!(made["size"].is_null() || (2..=4).contains(&made["size"].as_i64().unwrap()), "{made}");
        }
    }
}
