//! Strategic merge patch: a merge patch that knows the lists of the built-in kinds.
//!
//! Directives steer it: `$patch` (`merge`, `replace`, `delete`), `$retainKeys`,
//! `$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::builtin::{self, Fields, PatchRule, Special};
use crate::json::Ordered;
use windlass_patch::depth::{self, TooDeep};

/// Why a strategic merge patch is refused: 422 except where noted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    /// An object in a list that merges has no key: 400.
    #[error("{path}: an element does not contain the declared merge key {key}")]
    NoMergeKey {
        /// The list.
        path: String,
        /// The key that its elements must have.
        key: &'static str,
    },
    /// A directive says something that is not known.
    #[error("{path}: {directive} cannot be {value}")]
    BadDirective {
        /// Where it stands.
        path: String,
        /// The key of the directive, such as `$patch`.
        directive: String,
        /// What it says.
        value: String,
    },
    /// The patch has an element that its own order does not name.
    #[error("{path}: the order in the patch list doesn't match $setElementOrder")]
    OrderMismatch {
        /// The list.
        path: String,
    },
    /// The patch, or the object, nests too deep.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// The object of a built-in kind with the patch applied.
pub fn strategic_merge_patch(
    api_version: &str,
    kind: &str,
    object: &Value,
    patch: &Value,
) -> Result<Value, StrategicError> {
    depth::check(object)?;
    depth::check(patch)?;
    let patched = merge(object, patch, builtin::fields_of(api_version, kind), "")?;
    depth::check(&patched)?;
    Ok(patched)
}

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

fn merge(target: &Value, patch: &Value, known: Fields, path: &str) -> Result<Value, StrategicError> {
    let Value::Object(changes) = patch else { return Ok(patch.clone()) };
    match changes.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => return Ok(Value::Object(without_directives(changes))),
        Some("delete") => return Ok(Value::Object(Map::new())),
        Some(_) => return Err(bad(path, PATCH, &changes[PATCH])),
    }
    let empty = Map::new();
    let mut merged = target.as_object().unwrap_or(&empty).clone();
    if let Some(keep) = changes.get(RETAIN_KEYS) {
        let keep = texts(keep).ok_or_else(|| bad(path, RETAIN_KEYS, keep))?;
        merged.retain(|name, _| keep.contains(name.as_str()));
    }
    for (name, change) in changes.iter().filter(|(name, _)| !name.starts_with('$')) {
        let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let order = changes.get(&format!("{SET_ORDER}{name}"));
        match field(merged.get(name), change, special(known, name), order, &at)? {
            Some(value) => merged.insert(name.clone(), value),
            None => merged.remove(name),
        };
    }
    // Directives about lists that the patch does not change itself.
    for (directive, value) in changes {
        if let Some(name) = directive.strip_prefix(DELETE_FROM) {
            let doomed = value.as_array().ok_or_else(|| bad(path, directive, value))?;
            let doomed: BTreeSet<Ordered<&Value>> = doomed.iter().map(Ordered).collect();
            if let Some(Value::Array(items)) = merged.get_mut(name) {
                items.retain(|item| !doomed.contains(&Ordered(item)));
            }
        }
    }
    for (directive, order) in changes {
        if let Some(name) = directive.strip_prefix(SET_ORDER).filter(|name| !changes.contains_key(*name))
            && let Some(Value::Array(items)) = merged.get_mut(name)
        {
            let rule = patch_rule(special(known, name));
            let live = std::mem::take(items);
            *items = in_order(live.clone(), &live, order, rule, directive)?;
        }
    }
    Ok(Value::Object(merged))
}

/// A field after the patch; `None` if it goes.
fn field(
    live: Option<&Value>,
    change: &Value,
    special: Option<Special>,
    order: Option<&Value>,
    path: &str,
) -> Result<Option<Value>, StrategicError> {
    let live = live.unwrap_or(&Value::Null);
    match change {
        Value::Null => Ok(None),
        Value::Object(changes) if changes.get(PATCH).and_then(Value::as_str) == Some("delete") => Ok(None),
        Value::Object(_) => {
            let inner = match special {
                Some(Special::Struct(fields)) => fields,
                _ => &[],
            };
            merge(live, change, inner, path).map(Some)
        }
        Value::Array(changes) => {
            let items = live.as_array().map_or(&[][..], Vec::as_slice);
            let merged = match (special, patch_rule(special)) {
                (Some(Special::Set), _) => union(items, changes),
                (_, Some(rule)) => list(items, changes, rule, path)?,
                _ => return Ok(Some(change.clone())),
            };
            let merged = match order {
                Some(order) => {
                    let rule = patch_rule(special);
                    check_order(changes, order, rule, path)?;
                    in_order(merged, items, order, rule, path)?
                }
                None => merged,
            };
            Ok(Some(Value::Array(merged)))
        }
        scalar => Ok(Some(scalar.clone())),
    }
}

/// A list of structs, merged by key.
fn list(
    live: &[Value],
    changes: &[Value],
    rule: PatchRule,
    path: &str,
) -> Result<Vec<Value>, StrategicError> {
    let directive = |change: &Value| change.get(PATCH).cloned();
    if changes.iter().any(|change| directive(change).as_ref().and_then(Value::as_str) == Some("replace")) {
        // The element that says so has nothing else to say; the others are the new list.
        let plain = changes.iter().filter(|change| directive(change).is_none());
        return Ok(plain.cloned().collect());
    }
    let key_of = |item: &Value| item.get(rule.key).cloned();
    let mut merged = live.to_vec();
    // Looked up rather than searched: a patch may have as many elements as fit into its body.
    let mut places: BTreeMap<Ordered<Value>, usize> = BTreeMap::new();
    for (index, item) in live.iter().enumerate() {
        if let Some(key) = key_of(item) {
            places.entry(Ordered(key)).or_insert(index);
        }
    }
    let mut doomed = BTreeSet::new();
    for change in changes {
        let no_key = || StrategicError::NoMergeKey { path: path.to_owned(), key: rule.key };
        let key = key_of(change).ok_or_else(no_key)?;
        match directive(change) {
            None => {}
            Some(value) if value == "merge" => {}
            Some(value) if value == "delete" => {
                doomed.insert(Ordered(key));
                continue;
            }
            Some(value) => return Err(bad(path, PATCH, &value)),
        }
        match places.get(&Ordered(key.clone())) {
            Some(&index) => merged[index] = merge(&merged[index], change, rule.item, path)?,
            None => {
                places.insert(Ordered(key), merged.len());
                merged.push(merge(&Value::Null, change, rule.item, path)?);
            }
        }
    }
    merged.retain(|item| key_of(item).is_none_or(|key| !doomed.contains(&Ordered(key))));
    Ok(merged)
}

/// A list of scalars with those of the patch that it does not have yet.
fn union(live: &[Value], changes: &[Value]) -> Vec<Value> {
    let mut seen: BTreeSet<Ordered<Value>> = live.iter().cloned().map(Ordered).collect();
    let mut merged = live.to_vec();
    merged.extend(changes.iter().filter(|change| seen.insert(Ordered((*change).clone()))).cloned());
    merged
}

/// Elements in the order the patch wants. Those that it does not name stay where they were among the
/// others, as far as that can be said.
fn in_order(
    items: Vec<Value>,
    live: &[Value],
    order: &Value,
    rule: Option<PatchRule>,
    path: &str,
) -> Result<Vec<Value>, StrategicError> {
    let order = order.as_array().ok_or_else(|| bad(path, SET_ORDER, order))?;
    let identity = |item: &Value| Ordered(identity(item, rule));
    let wanted: BTreeMap<Ordered<Value>, usize> =
        order.iter().enumerate().map(|(index, item)| (identity(item), index)).collect();
    let was_at: BTreeMap<Ordered<Value>, usize> =
        live.iter().enumerate().map(|(index, item)| (identity(item), index)).collect();
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| wanted.contains_key(&identity(item)));
    named.sort_by_key(|item| wanted.get(&identity(item)).copied());
    let mut ordered = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        if let Some(&place) = was_at.get(&identity(&item)) {
            while let Some(other) =
                others.next_if(|other| was_at.get(&identity(other)).is_some_and(|at| *at < place))
            {
                ordered.push(other);
            }
        }
        ordered.push(item);
    }
    ordered.extend(others);
    Ok(ordered)
}

fn check_order(
    changes: &[Value],
    order: &Value,
    rule: Option<PatchRule>,
    path: &str,
) -> Result<(), StrategicError> {
    let order = order.as_array().ok_or_else(|| bad(path, SET_ORDER, order))?;
    let wanted: BTreeSet<Ordered<Value>> = order.iter().map(|item| Ordered(identity(item, rule))).collect();
    let stays = |change: &&Value| change.get(PATCH).is_none();
    let named = |change: &Value| wanted.contains(&Ordered(identity(change, rule)));
    if changes.iter().filter(stays).all(named) {
        Ok(())
    } else {
        Err(StrategicError::OrderMismatch { path: path.to_owned() })
    }
}

/// What tells an element apart: its key, or itself.
fn identity(item: &Value, rule: Option<PatchRule>) -> Value {
    rule.and_then(|rule| item.get(rule.key)).unwrap_or(item).clone()
}

fn special(known: Fields, name: &str) -> Option<Special> {
    known.iter().find(|(field, _)| *field == name).map(|(_, special)| *special)
}

fn patch_rule(special: Option<Special>) -> Option<PatchRule> {
    match special {
        Some(Special::List(rule)) => rule.patch,
        Some(Special::PatchedList(rule)) => Some(rule),
        _ => None,
    }
}

fn without_directives(object: &Map<String, Value>) -> Map<String, Value> {
    object
        .iter()
        .filter(|(name, _)| !name.starts_with('$'))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn texts(value: &Value) -> Option<BTreeSet<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

fn bad(path: &str, directive: &str, value: &Value) -> StrategicError {
    StrategicError::BadDirective {
        path: if path.is_empty() { "patch".to_owned() } else { path.to_owned() },
        directive: directive.trim_end_matches('/').to_owned(),
        value: value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(live: Value, patch: Value) -> Result<Value, StrategicError> {
        strategic_merge_patch("v1", "Pod", &live, &patch)
    }

    #[test]
    fn objects_merge_and_lists_follow_their_kind() {
        let spec = |spec: Value| json!({"spec": spec});
        let cases = [
            (
                "fields merge",
                json!({"a": 1, "b": {"c": 1}}),
                json!({"b": {"d": 2}}),
                json!({"a": 1, "b": {"c": 1, "d": 2}}),
            ),
            ("null removes", json!({"a": 1, "b": 2}), json!({"a": null}), json!({"b": 2})),
            (
                "null in a new object vanishes",
                json!({}),
                json!({"a": {"b": null, "c": 1}}),
                json!({"a": {"c": 1}}),
            ),
            (
                "plain lists are replaced",
                spec(json!({"tolerations": [{"key": "a"}]})),
                spec(json!({"tolerations": [{"key": "b"}]})),
                spec(json!({"tolerations": [{"key": "b"}]})),
            ),
            (
                "containers merge by name",
                spec(json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]})),
                spec(json!({"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]})),
                spec(
                    json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}),
                ),
            ),
            (
                "lists inside elements merge as well",
                spec(
                    json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80}]}]}),
                ),
                spec(
                    json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}], "ports": [{"containerPort": 80, "name": "web"}]}]}),
                ),
                spec(
                    json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}], "ports": [{"containerPort": 80, "name": "web"}]}]}),
                ),
            ),
            (
                "finalizers are a set",
                json!({"metadata": {"finalizers": ["a"]}}),
                json!({"metadata": {"finalizers": ["b", "a"]}}),
                json!({"metadata": {"finalizers": ["a", "b"]}}),
            ),
            (
                "owner references merge by uid",
                json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "x"}]}}),
                json!({"metadata": {"ownerReferences": [{"uid": "2"}, {"uid": "1", "name": "y"}]}}),
                json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "y"}, {"uid": "2"}]}}),
            ),
            (
                "conditions merge by type",
                json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            ),
            ("a list becomes a scalar", json!({"a": [1]}), json!({"a": 1}), json!({"a": 1})),
        ];
        for (name, live, patch, expected) in cases {
            assert_eq!(pod(live, patch), Ok(expected), "{name}");
        }
    }

    #[test]
    fn directives_steer_the_merge() {
        let volumes = |volumes: Value| json!({"spec": {"volumes": volumes}});
        let cases = [
            (
                "$patch: replace",
                json!({"spec": {"a": 1, "b": 2}}),
                json!({"spec": {"$patch": "replace", "c": 3}}),
                json!({"spec": {"c": 3}}),
            ),
            (
                "$patch: delete",
                json!({"spec": {"a": 1}, "x": 1}),
                json!({"spec": {"$patch": "delete"}}),
                json!({"x": 1}),
            ),
            (
                "$patch: merge",
                json!({"spec": {"a": 1}}),
                json!({"spec": {"$patch": "merge", "b": 2}}),
                json!({"spec": {"a": 1, "b": 2}}),
            ),
            (
                "delete an element",
                volumes(json!([{"name": "a"}, {"name": "b"}])),
                volumes(json!([{"name": "a", "$patch": "delete"}])),
                volumes(json!([{"name": "b"}])),
            ),
            (
                "delete an element that is not there",
                volumes(json!([{"name": "b"}])),
                volumes(json!([{"name": "a", "$patch": "delete"}])),
                volumes(json!([{"name": "b"}])),
            ),
            (
                "replace a list",
                volumes(json!([{"name": "a"}, {"name": "b"}])),
                volumes(json!([{"$patch": "replace"}, {"name": "c"}])),
                volumes(json!([{"name": "c"}])),
            ),
            (
                "empty a list",
                volumes(json!([{"name": "a"}])),
                volumes(json!([{"$patch": "replace"}])),
                volumes(json!([])),
            ),
            (
                "$retainKeys",
                volumes(json!([{"name": "a", "emptyDir": {}}])),
                volumes(
                    json!([{"name": "a", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]),
                ),
                volumes(json!([{"name": "a", "hostPath": {"path": "/"}}])),
            ),
            (
                "$deleteFromPrimitiveList",
                json!({"metadata": {"finalizers": ["a", "b"]}}),
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}),
                json!({"metadata": {"finalizers": ["b", "c"]}}),
            ),
            (
                "$setElementOrder with changes",
                volumes(json!([{"name": "a"}, {"name": "b"}, {"name": "server"}])),
                json!({"spec": {"$setElementOrder/volumes": [{"name": "b"}, {"name": "new"}, {"name": "a"}], "volumes": [{"name": "new"}]}}),
                volumes(json!([{"name": "b"}, {"name": "new"}, {"name": "a"}, {"name": "server"}])),
            ),
            (
                "$setElementOrder alone",
                volumes(json!([{"name": "a"}, {"name": "server"}, {"name": "b"}])),
                json!({"spec": {"$setElementOrder/volumes": [{"name": "b"}, {"name": "a"}]}}),
                volumes(json!([{"name": "server"}, {"name": "b"}, {"name": "a"}])),
            ),
            (
                "$setElementOrder of scalars",
                json!({"metadata": {"finalizers": ["a", "b"]}}),
                json!({"metadata": {"$setElementOrder/finalizers": ["c", "b", "a"], "finalizers": ["c"]}}),
                json!({"metadata": {"finalizers": ["c", "b", "a"]}}),
            ),
        ];
        for (name, live, patch, expected) in cases {
            assert_eq!(pod(live, patch), Ok(expected), "{name}");
        }
    }

    #[test]
    fn what_a_patch_cannot_mean_is_refused() {
        let cases = [
            (
                json!({"spec": {"containers": [{"image": "x"}]}}),
                "spec.containers: an element does not contain the declared merge key name",
            ),
            (
                json!({"spec": {"containers": ["x"]}}),
                "spec.containers: an element does not contain the declared merge key name",
            ),
            (json!({"spec": {"$patch": "explode"}}), "spec: $patch cannot be \"explode\""),
            (
                json!({"spec": {"containers": [{"name": "a", "$patch": "explode"}]}}),
                "spec.containers: $patch cannot be \"explode\"",
            ),
            (json!({"spec": {"$retainKeys": "a"}}), "spec: $retainKeys cannot be \"a\""),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}),
                "metadata: $deleteFromPrimitiveList/finalizers cannot be \"a\"",
            ),
            (
                json!({"spec": {"$setElementOrder/volumes": [{"name": "a"}], "volumes": [{"name": "b"}]}}),
                "spec.volumes: the order in the patch list doesn't match $setElementOrder",
            ),
        ];
        for (patch, message) in cases {
            assert_eq!(pod(json!({}), patch.clone()).unwrap_err().to_string(), message, "{patch}");
        }
    }

    #[test]
    fn events_and_services_have_their_own_rules() {
        let event =
            strategic_merge_patch("v1", "Event", &json!({"count": 1, "reason": "R"}), &json!({"count": 2}));
        assert_eq!(event, Ok(json!({"count": 2, "reason": "R"})));
        let ports = |ports: Value| json!({"spec": {"ports": ports}});
        let service = strategic_merge_patch(
            "v1",
            "Service",
            &ports(json!([{"port": 80}])),
            &ports(json!([{"port": 80, "name": "a"}])),
        );
        assert_eq!(service, Ok(ports(json!([{"port": 80, "name": "a"}]))));
        let custom = strategic_merge_patch(
            "demo.test/v1",
            "Widget",
            &ports(json!([{"port": 80}])),
            &ports(json!([{"port": 81}])),
        );
        assert_eq!(custom, Ok(ports(json!([{"port": 81}]))), "kinds without a table replace lists");
    }

    #[test]
    fn large_lists_merge_in_time_and_deep_patches_are_refused() {
        let volumes =
            |from: usize| (from..from + 100_000).map(|n| json!({"name": n.to_string()})).collect::<Vec<_>>();
        let merged =
            pod(json!({"spec": {"volumes": volumes(0)}}), json!({"spec": {"volumes": volumes(50_000)}}))
                .unwrap();
        assert_eq!(merged["spec"]["volumes"].as_array().map(Vec::len), Some(150_000));
        let deep = depth::hostile::nested(10_000);
        assert_eq!(pod(json!({}), json!({})), Ok(json!({})));
        assert_eq!(
            strategic_merge_patch("v1", "Pod", &json!({}), &deep),
            Err(StrategicError::TooDeep(TooDeep))
        );
        depth::hostile::dismantle(deep);
    }
}
