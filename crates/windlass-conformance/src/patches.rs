//! External patches of a ClusterClass: P1 to P6, and with them I2 and I3.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_api::Hook;
use windlass_api::hooks::{ClusterClassVariable, DiscoverVariablesResponse, decode_lenient};
use windlass_patch::{Dialect, JsonPatch, JsonPatchError, merge_patch};

use crate::answer::{Reply, field};
use crate::calls;
use crate::changes::changed_paths;
use crate::check::{CheckId, Finding, Level, Rule};
use crate::patch_order;
use crate::session::{HOOKS_OPT_IN, Handler, Session};
use crate::synthetic::{self, Item};

/// Types that a schema may have.
const SCHEMA_TYPES: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];

/// Checks all handlers of topology mutation hooks that may be called.
pub(crate) async fn check(session: &mut Session<'_>) {
    let mut patched = Vec::new();
    for handler in session.callable(Hook::GeneratePatches) {
        patched.extend(check_generate(session, &handler).await);
    }
    for handler in session.callable(Hook::ValidateTopology) {
        check_fragility(session, &handler).await;
        check_validation(session, &handler, &patched).await;
    }
    for handler in session.callable(Hook::DiscoverVariables) {
        check_variables(session, &handler).await;
    }
    for check in [CheckId::P1, CheckId::P2, CheckId::P3, CheckId::P4, CheckId::I2, CheckId::I3] {
        session.ledger.skip(check, "no handler of GeneratePatches was called", Some(HOOKS_OPT_IN));
    }
    session.ledger.skip(CheckId::P5, "no handler of DiscoverVariables was called", Some(HOOKS_OPT_IN));
    let reason = "GeneratePatches and ValidateTopology were not both called with success";
    session.ledger.skip(CheckId::P6, reason, Some(HOOKS_OPT_IN));
}

/// A patch that was decoded.
pub(crate) struct ReadPatch {
    merge: bool,
    document: Value,
}

impl ReadPatch {
    /// Reads a patch as callers do: base64 of JSON that fits its type.
    pub(crate) fn read(patch_type: Option<&Value>, patch: Option<&Value>) -> Result<Self, String> {
        let merge = match patch_type.and_then(Value::as_str) {
            Some("JSONPatch") => false,
            Some("JSONMergePatch") => true,
            other => return Err(format!("patchType is {:?}", other.unwrap_or_default())),
        };
        let encoded = patch.and_then(Value::as_str).ok_or("patch is not base64 but inline JSON")?;
        let encoded: String = encoded.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        let bytes = STANDARD.decode(encoded).map_err(|error| format!("patch is not base64: {error}"))?;
        let document: Value =
            serde_json::from_slice(&bytes).map_err(|error| format!("patch is not JSON: {error}"))?;
        match (merge, &document) {
            (true, Value::Object(_)) | (false, Value::Array(_)) => Ok(Self { merge, document }),
            (true, _) => Err("patchType is JSONMergePatch and the patch is not an object".to_owned()),
            (false, _) => Err("patchType is JSONPatch and the patch is not a list".to_owned()),
        }
    }

    /// The patch with its operations in an order that does not depend on the one in which they came.
    pub(crate) fn in_any_order(self) -> Value {
        match self.document {
            Value::Array(operations) => Value::Array(patch_order::canonical(operations)),
            merge => merge,
        }
    }

    pub(crate) fn apply(&self, document: &Value) -> Result<Value, JsonPatchError> {
        if self.merge {
            Ok(merge_patch::apply(document, &self.document)?)
        } else {
            JsonPatch::parse(Dialect::ClusterApi, &self.document)?.apply(document)
        }
    }
}

/// Returns the patched items if everything about them was fine.
async fn check_generate(session: &mut Session<'_>, handler: &Handler) -> Option<Vec<Item>> {
    let subject = handler.subject();
    session.calling(handler, "patches for synthetic templates");
    check_fragility(session, handler).await;
    let items = synthetic::items(session.options, 1);
    let reply = generate(session, handler, &items).await?;
    for check in [CheckId::P1, CheckId::P2, CheckId::P3, CheckId::I2, CheckId::I3] {
        session.ledger.looked_at(check, &subject);
    }
    let (patched, found) = apply_all(&subject, &reply, &items);
    let sound = found.iter().all(|finding| finding.level() != Level::Error);
    found.into_iter().for_each(|finding| session.ledger.found(finding));
    if !sound {
        return None;
    }

    // In another order and with other uids, as every caller sends them.
    let mut shuffled = synthetic::items(session.options, 2);
    shuffled.reverse();
    if let Some(reply) = generate(session, handler, &shuffled).await {
        let (again, _) = apply_all(&subject, &reply, &shuffled);
        if by_holder(&again) != by_holder(&patched) {
            let observed = "other patches for the same templates in another order with other uids";
            session.ledger.found(Finding::new(Rule::DependsOnOrder, &subject, observed));
        }
    }

    if let Some(reply) = generate(session, handler, &patched).await {
        let (twice, _) = apply_all(&subject, &reply, &patched);
        let changed: Vec<String> = patched
            .iter()
            .zip(&twice)
            .flat_map(|(once, twice)| changed_paths(&once.object, &twice.object))
            .collect();
        if !changed.is_empty() {
            let observed = format!("patched templates are changed again at {}", changed.join(", "));
            session.ledger.found(Finding::new(Rule::NotIdempotent, &subject, observed));
        }
    }
    Some(patched)
}

/// Asks for patches. A failure has none to look at: the variables may be missing that it needs.
async fn generate(session: &mut Session<'_>, handler: &Handler, items: &[Item]) -> Option<Reply> {
    let request = synthetic::generate_patches(items, session.options);
    let request = synthetic::with_settings(request, &session.settings());
    calls::call(session, handler, &request).await.filter(|reply| reply.success)
}

/// Applies all patches of an answer. Items that it does not patch stay as they are.
fn apply_all(subject: &str, reply: &Reply, items: &[Item]) -> (Vec<Item>, Vec<Finding>) {
    let mut patched = items.to_vec();
    let mut found = Vec::new();
    let mut add = |rule, observed: String| found.push(Finding::new(rule, subject, observed));
    let answers = field(&reply.value, "items").and_then(Value::as_array).cloned().unwrap_or_default();
    for answer in &answers {
        let uid = field(answer, "uid").and_then(Value::as_str).unwrap_or_default();
        let Some(item) = patched.iter_mut().find(|item| item.uid == uid) else {
            add(Rule::UnknownUid, format!("answers uid {uid:?}, which was not asked for"));
            continue;
        };
        let kind = item.object["kind"].as_str().unwrap_or_default().to_owned();
        let patch = match ReadPatch::read(field(answer, "patchType"), field(answer, "patch")) {
            Ok(patch) => patch,
            Err(reason) => {
                add(Rule::PatchUndecodable, format!("{kind}: {reason}"));
                continue;
            }
        };
        match patch.apply(&item.object) {
            Ok(object) => {
                let ignored: Vec<String> =
                    changed_paths(&item.object, &object).into_iter().filter(|path| !is_kept(path)).collect();
                if !ignored.is_empty() {
                    add(Rule::PatchIgnoredPart, format!("{kind}: changes {}", ignored.join(", ")));
                }
                item.object = object;
            }
            Err(error) => add(Rule::PatchDoesNotApply, format!("{kind}: {error}")),
        }
    }
    (patched, found)
}

fn is_kept(path: &str) -> bool {
    ["/spec", "/metadata/labels", "/metadata/annotations"]
        .iter()
        .any(|kept| path.strip_prefix(kept).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn by_holder(items: &[Item]) -> BTreeMap<String, &Value> {
    items.iter().map(|item| (item.holder.to_string(), &item.object)).collect()
}

/// P4: variables and templates that the handler does not expect.
async fn check_fragility(session: &mut Session<'_>, handler: &Handler) {
    let subject = handler.subject();
    session.ledger.looked_at(CheckId::P4, &subject);
    let items = synthetic::items(session.options, 3);
    let usual = match handler.hook {
        Some(Hook::ValidateTopology) => synthetic::validate_topology(&items, session.options),
        _ => synthetic::generate_patches(&items, session.options),
    };
    let usual = synthetic::with_settings(usual, &session.settings());

    let mut missing = usual.clone();
    missing["variables"] = json!([]);
    let mut ill_typed = usual.clone();
    let names = ill_typed["variables"].as_array().cloned().unwrap_or_default();
    ill_typed["variables"] = names
        .iter()
        .map(|variable| json!({"name": variable["name"], "value": [{"windlassConformanceTest": true}]}))
        .collect();
    let mut foreign = usual;
    foreign["items"] = json!([{
        "uid": "00000004-0000-4000-8000-000000000000",
        "holderReference": items.first().map(|item| item.holder.clone()),
        "object": {
            "apiVersion": "windlass.example/v1", "kind": "WindlassConformanceTestTemplate",
            "metadata": {"name": synthetic::NAME, "annotations": {synthetic::NAME: synthetic::MARK}},
        },
    }]);
    for (request, what) in
        [(missing, "no variables"), (ill_typed, "ill-typed variables"), (foreign, "a foreign template")]
    {
        let call = session.call_of(handler, &request);
        let observed = match session.send(&subject, &call).await {
            Ok(answer) if answer.status == hyper::StatusCode::OK => continue,
            Ok(answer) => format!("{what}: HTTP status {}", answer.status.as_u16()),
            Err(error) => format!("{what}: {error}"),
        };
        session.ledger.found(Finding::new(Rule::FragileInput, &subject, observed));
    }
}

/// P6: what this extension patched must be valid for this extension.
async fn check_validation(session: &mut Session<'_>, handler: &Handler, patched: &[Vec<Item>]) {
    let subject = handler.subject();
    for items in patched {
        let request = synthetic::validate_topology(items, session.options);
        let request = synthetic::with_settings(request, &session.settings());
        session.calling(handler, "validation of the patched templates");
        let Some(reply) = calls::call(session, handler, &request).await else { continue };
        session.ledger.looked_at(CheckId::P6, &subject);
        if !reply.success {
            let observed = format!("answered Failure: {:?}", reply.message);
            session.ledger.found(Finding::new(Rule::OwnPatchesRefused, &subject, observed));
        }
    }
}

/// P5: definitions of variables.
async fn check_variables(session: &mut Session<'_>, handler: &Handler) {
    let subject = handler.subject();
    let request = synthetic::request(Hook::DiscoverVariables, session.options, &session.settings());
    let Some(variables) = discover(session, handler, &request).await else { return };
    session.ledger.looked_at(CheckId::P5, &subject);
    for finding in judge_variables(&subject, &variables) {
        session.ledger.found(finding);
    }
    if let Some(again) = discover(session, handler, &request).await
        && definitions(&again) != definitions(&variables)
    {
        let observed = "two calls answer different variables";
        session.ledger.found(Finding::new(Rule::VariablesChanged, &subject, observed));
    }
    if let Some(baseline) = session.options.variables_baseline.get(handler.name()) {
        for observed in breaking_changes(baseline, &variables) {
            session.ledger.found(Finding::new(Rule::VariablesBroken, &subject, observed));
        }
    }
    session.variables.insert(handler.name().to_owned(), variables);
}

async fn discover(
    session: &mut Session<'_>,
    handler: &Handler,
    request: &Value,
) -> Option<Vec<ClusterClassVariable>> {
    let reply = calls::call(session, handler, request).await.filter(|reply| reply.success)?;
    let response: DiscoverVariablesResponse = decode_lenient(reply.value.to_string().as_bytes()).ok()?;
    Some(response.variables)
}

fn definitions(variables: &[ClusterClassVariable]) -> BTreeMap<&str, Value> {
    variables.iter().map(|variable| (variable.name.as_str(), json!(variable))).collect()
}

fn judge_variables(subject: &str, variables: &[ClusterClassVariable]) -> Vec<Finding> {
    let mut names = BTreeSet::new();
    let mut problems = Vec::new();
    for variable in variables {
        let name = &variable.name;
        if name.is_empty() || name == "builtin" {
            problems.push(format!("a variable must not be called {name:?}"));
        } else if !names.insert(name) {
            problems.push(format!("{name} is defined twice"));
        }
        if variable.required.is_none() {
            problems.push(format!("{name} does not say whether it is required"));
        }
        let schema = Value::from(variable.schema.open_api_v3_schema.clone());
        check_schema(&schema, name, &mut problems);
    }
    // One finding for all of them: they are repaired in one place.
    if problems.is_empty() {
        Vec::new()
    } else {
        vec![Finding::new(Rule::BadVariable, subject, problems.join("; "))]
    }
}

fn check_schema(schema: &Value, path: &str, problems: &mut Vec<String>) {
    let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let int_or_string = schema["x-kubernetes-int-or-string"] == true;
    match schema["type"].as_str() {
        Some(known) if SCHEMA_TYPES.contains(&known) => {}
        Some(other) => problems.push(format!("{path} has the unknown type {other:?}")),
        None if preserves || int_or_string => {}
        None => problems.push(format!("{path} has no type")),
    }
    if schema["type"] == "array" && !schema["items"].is_object() {
        problems.push(format!("{path} is an array without items"));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_schema(property, &format!("{path}.{name}"), problems);
    }
    for nested in ["items", "additionalProperties"] {
        if schema[nested].is_object() {
            check_schema(&schema[nested], &format!("{path}[]"), problems);
        }
    }
}

/// What makes Clusters invalid that were valid before.
fn breaking_changes(before: &[ClusterClassVariable], after: &[ClusterClassVariable]) -> Vec<String> {
    let mut broken = Vec::new();
    for old in before {
        let Some(new) = after.iter().find(|new| new.name == old.name) else {
            broken.push(format!("{} is gone", old.name));
            continue;
        };
        if new.required == Some(true) && old.required != Some(true) {
            broken.push(format!("{} is required now", old.name));
        }
        let type_of = |variable: &ClusterClassVariable| {
            variable.schema.open_api_v3_schema.pointer("/type").cloned().unwrap_or_default()
        };
        if type_of(old) != type_of(new) {
            broken.push(format!("{} was {} and is {} now", old.name, type_of(old), type_of(new)));
        }
    }
    let added = after.iter().filter(|new| !before.iter().any(|old| old.name == new.name));
    broken.extend(
        added.filter(|new| new.required == Some(true)).map(|new| format!("{} is new and required", new.name)),
    );
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(document: &Value) -> Value {
        json!(STANDARD.encode(document.to_string()))
    }

    #[test]
    fn patches_are_read_strictly() {
        let list = encoded(&json!([]));
        let object = encoded(&json!({}));
        for (patch_type, patch, readable) in [
            ("JSONPatch", &list, true),
            ("JSONMergePatch", &object, true),
            ("JSONPatch", &object, false),
            ("JSONMergePatch", &list, false),
            ("StrategicMergePatch", &object, false),
            ("JSONPatch", &json!("[]"), false),
            ("JSONPatch", &json!([]), false),
            ("JSONPatch", &json!(STANDARD.encode("[")), false),
        ] {
            let read = ReadPatch::read(Some(&json!(patch_type)), Some(patch));
            assert_eq!(read.is_ok(), readable, "{patch_type} {patch}");
        }
    }

    #[test]
    fn only_spec_labels_and_annotations_are_kept() {
        for (path, kept) in [
            ("/spec", true),
            ("/spec/template/spec/x", true),
            ("/metadata/labels", true),
            ("/metadata/annotations/a", true),
            ("/metadata/name", false),
            ("/metadata", false),
            ("/specification", false),
            ("/status/x", false),
            ("/kind", false),
        ] {
            assert_eq!(is_kept(path), kept, "{path}");
        }
    }

    fn variables(value: Value) -> Vec<ClusterClassVariable> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn variables_are_judged() {
        let good = json!({"name": "a", "required": true, "schema": {"openAPIV3Schema": {"type": "array", "items": {"type": "string"}}}});
        let untyped = json!({"name": "b", "required": true, "schema": {"openAPIV3Schema": {}}});
        let implicit = json!({"name": "c", "schema": {"openAPIV3Schema": {"type": "string"}}});
        let nested = json!({"name": "d", "required": false, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"x": {"type": "text"}}}}});
        for (given, expected) in [
            (json!([good]), None),
            (json!([good, good]), Some("a is defined twice")),
            (json!([untyped]), Some("b has no type")),
            (json!([implicit]), Some("c does not say whether it is required")),
            (json!([nested]), Some("d.x has the unknown type \"text\"")),
        ] {
            let found = judge_variables("s", &variables(given));
            assert_eq!(found.first().map(|finding| finding.observed.as_str()), expected);
        }
    }

    #[test]
    fn a_baseline_shows_what_breaks() {
        let of = |name: &str, required: bool, type_: &str| json!({"name": name, "required": required, "schema": {"openAPIV3Schema": {"type": type_}}});
        let before = variables(json!([of("a", false, "string"), of("b", false, "string")]));
        for (after, expected) in [
            (json!([of("a", false, "string"), of("b", false, "string"), of("c", false, "string")]), vec![]),
            (
                json!([of("a", true, "string"), of("b", false, "integer")]),
                vec!["a is required now", "b was \"string\" and is \"integer\" now"],
            ),
            (
                json!([of("a", false, "string"), of("c", true, "string")]),
                vec!["b is gone", "c is new and required"],
            ),
        ] {
            assert_eq!(breaking_changes(&before, &variables(after)), expected);
        }
    }
}
