//! Variables of a template: those of the request, and over them those of the template.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_api::hooks::Variable;

/// The variable that holds what the caller knows about the Cluster and the template's place in it.
const BUILTIN: &str = "builtin";

/// The variables that hold for one template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables(BTreeMap<String, Value>);

impl Variables {
    /// Lays the variables of a template over those of the request. Only the fields of `builtin` are laid
    /// over one by one: the caller sends what is known of the Cluster with the request, and what is known
    /// of the template's owner with the template.
    pub fn merged(of_request: &[Variable], of_template: &[Variable]) -> Self {
        let mut variables: BTreeMap<String, Value> =
            of_request.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect();
        for Variable { name, value } in of_template {
            match (variables.get_mut(name), value) {
                (Some(Value::Object(below)), Value::Object(over)) if name == BUILTIN => {
                    below.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                _ => {
                    variables.insert(name.clone(), value.clone());
                }
            }
        }
        Self(variables)
    }

    /// The value at a path like `builtin.cluster.topology.version` or `users[0].name`.
    ///
    /// # Errors
    ///
    /// When there is no such variable, or nothing at that place in it.
    pub fn get(&self, path: &str) -> Result<&Value, VariableError> {
        let missing = || VariableError::Missing { path: path.to_owned() };
        let mut steps = path.split('.').flat_map(steps);
        let name = steps.next().ok_or_else(missing)?;
        let mut value = self.0.get(name).ok_or_else(missing)?;
        for step in steps {
            value = match value {
                Value::Object(fields) => fields.get(step),
                Value::Array(items) => step.parse().ok().and_then(|index: usize| items.get(index)),
                _ => None,
            }
            .ok_or_else(missing)?;
        }
        Ok(value)
    }

    /// The value at a path, as a type.
    ///
    /// # Errors
    ///
    /// When there is nothing at that path, or something of another type.
    pub fn typed<T: DeserializeOwned>(&self, path: &str) -> Result<T, VariableError> {
        T::deserialize(self.get(path)?)
            .map_err(|source| VariableError::Type { path: path.to_owned(), source })
    }

    /// The value at a path, as a type; `None` if there is nothing.
    ///
    /// # Errors
    ///
    /// When there is something of another type.
    pub fn optional<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, VariableError> {
        match self.typed(path) {
            Ok(value) => Ok(Some(value)),
            Err(VariableError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Splits `users[0]` into `users` and `0`.
fn steps(part: &str) -> impl Iterator<Item = &str> {
    part.split('[').enumerate().map(
        |(index, step)| {
            if index == 0 { step } else { step.strip_suffix(']').unwrap_or(step) }
        },
    )
}

/// Why there is no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// There is nothing at the path.
    #[error("there is no variable {path}")]
    Missing {
        /// The path.
        path: String,
    },
    /// There is something of another type.
    #[error("variable {path} does not have the expected type: {source}")]
    Type {
        /// The path.
        path: String,
        /// What was expected and found.
        source: serde_json::Error,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn variable(name: &str, value: Value) -> Variable {
        Variable { name: name.to_owned(), value }
    }

    #[test]
    fn variables_of_the_template_win_and_builtin_is_merged() {
        let merged = Variables::merged(
            &[
                variable("size", json!({"cpu": 1, "memory": 2})),
                variable("builtin", json!({"cluster": {"name": "c1"}, "controlPlane": {"version": "v1"}})),
            ],
            &[
                variable("size", json!({"cpu": 4})),
                variable("builtin", json!({"controlPlane": {"replicas": 3}})),
            ],
        );
        assert_eq!(merged.get("size").unwrap(), &json!({"cpu": 4}));
        assert_eq!(merged.typed::<String>("builtin.cluster.name").unwrap(), "c1");
        assert_eq!(merged.get("builtin.controlPlane").unwrap(), &json!({"replicas": 3}));
    }

    #[test]
    fn paths_lead_into_objects_and_lists() {
        let variables =
            Variables::merged(&[variable("users", json!([{"name": "a"}, {"name": "b", "ids": [[7]]}]))], &[]);
        assert_eq!(variables.typed::<String>("users[1].name").unwrap(), "b");
        assert_eq!(variables.typed::<u8>("users[1].ids[0][0]").unwrap(), 7);
        for missing in ["", "nobody", "users[2]", "users[x]", "users.name", "users[0].name.first"] {
            let error = variables.get(missing).unwrap_err();
            assert_eq!(error.to_string(), format!("there is no variable {missing}"));
        }
        assert_eq!(variables.optional::<String>("nobody").unwrap(), None);
        assert!(variables.optional::<bool>("users[0].name").is_err());
    }
}
