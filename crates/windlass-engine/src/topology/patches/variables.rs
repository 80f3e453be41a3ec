//! Values of variables for one template, and how patches ask for them.

use serde_json::{Map, Value};
use windlass_api::cluster::{ClusterClass, ClusterVariable};

/// A variable that a patch asked for in vain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// It has no value.
    #[error("variable {path:?} has no value")]
    NoValue {
        /// What was asked for.
        path: String,
    },
    /// The path cannot be read.
    #[error("variable {path:?} is not a path such as name.field[0]")]
    Path {
        /// What was asked for.
        path: String,
    },
}

/// The values that inline patches see: those of the Cluster, then those for the part of the topology, then the
/// built-in ones. Variables that the class does not define are left out.
pub fn values_for(
    class: &ClusterClass,
    cluster: &[ClusterVariable],
    overrides: &[ClusterVariable],
    builtin: Value,
) -> Map<String, Value> {
    let defined = |name: &str| class.spec.variables.iter().any(|variable| variable.name == name);
    let given = cluster.iter().chain(overrides).filter(|variable| defined(&variable.name));
    let mut values: Map<String, Value> =
        given.map(|variable| (variable.name.clone(), variable.value.clone())).collect();
    values.insert("builtin".to_owned(), builtin);
    values
}

/// What a path such as `proxy.urls[0]` leads to.
///
/// # Errors
///
/// When there is no value there, or the path cannot be read.
pub fn lookup<'a>(values: &'a Map<String, Value>, path: &str) -> Result<&'a Value, VariableError> {
    let no_value = || VariableError::NoValue { path: path.to_owned() };
    let malformed = || VariableError::Path { path: path.to_owned() };
    let mut found: Option<&Value> = None;
    for segment in path.split('.') {
        let (name, indexes) = match segment.split_once('[') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(']').ok_or_else(malformed)?)),
            None => (segment, None),
        };
        if name.is_empty() {
            return Err(malformed());
        }
        let mut value = match found {
            None => values.get(name),
            Some(value) => value.get(name),
        }
        .ok_or_else(no_value)?;
        for index in indexes.into_iter().flat_map(|indexes| indexes.split("][")) {
            let index: usize = index.parse().map_err(|_| malformed())?;
            value = value.get(index).ok_or_else(no_value)?;
        }
        found = Some(value);
    }
    found.ok_or_else(malformed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_fields_and_items() {
        let values = json!({"a": {"b": [1, {"c": "x"}], "m": [[5, 6]]}, "n": 0});
        let values = values.as_object().unwrap();
        for (path, expected) in [
            ("n", Ok(json!(0))),
            ("a.b[1].c", Ok(json!("x"))),
            ("a.m[0][1]", Ok(json!(6))),
            ("a.z", Err("variable \"a.z\" has no value")),
            ("a.b[7]", Err("variable \"a.b[7]\" has no value")),
            ("a..b", Err("variable \"a..b\" is not a path such as name.field[0]")),
            ("a.b[1", Err("variable \"a.b[1\" is not a path such as name.field[0]")),
        ] {
            let found = lookup(values, path).cloned().map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{path}");
        }
    }

    #[test]
    fn the_part_of_the_topology_wins_and_undefined_variables_are_left_out() {
        let class: ClusterClass = serde_json::from_value(json!({
            "spec": {"variables": [{"name": "image"}, {"name": "zone"}]},
        }))
        .unwrap();
        let variable =
            |name: &str, value: &str| ClusterVariable { name: name.to_owned(), value: json!(value) };
        let cluster = [variable("image", "a"), variable("zone", "z"), variable("other", "o")];
        let values = values_for(&class, &cluster, &[variable("image", "b")], json!({}));
        assert_eq!(Value::Object(values), json!({"image": "b", "zone": "z", "builtin": {}}));
    }
}
