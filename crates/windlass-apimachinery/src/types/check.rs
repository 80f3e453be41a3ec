//! Whether an object has the types of its kind, and what it has beyond them.

use serde_json::Value;

use super::{Catalogue, StructId, Type};

/// A value of another type than its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")]
pub struct Misfit {
    /// The type that has the field.
    pub owner: &'static str,
    /// Where the field is in the object.
    pub path: String,
    /// What there is.
    pub found: &'static str,
    /// What should be there.
    pub wanted: String,
}

/// Brings an object into the form of its kind: fields that the kind does not have are dropped and
/// returned, and so are, silently, fields that are null. Stops at the first value of a wrong type.
///
/// `apiVersion` and `kind` are fields of every kind.
pub fn tidy(catalogue: &Catalogue, id: StructId, object: &mut Value) -> Result<Vec<String>, Misfit> {
    let mut tidier = Tidier { catalogue, unknown: Vec::new() };
    tidier.fields(id, object, &mut Path::default(), true)?;
    Ok(tidier.unknown)
}

#[derive(Default)]
struct Path(String);

impl Path {
    /// Goes on with a longer path and comes back.
    fn within<T>(&mut self, part: &str, go: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        if !self.0.is_empty() && !part.starts_with('[') {
            self.0.push('.');
        }
        self.0.push_str(part);
        let result = go(self);
        self.0.truncate(length);
        result
    }
}

struct Tidier<'a> {
    catalogue: &'a Catalogue,
    unknown: Vec<String>,
}

impl Tidier<'_> {
    fn fields(
        &mut self,
        id: StructId,
        value: &mut Value,
        path: &mut Path,
        is_object: bool,
    ) -> Result<(), Misfit> {
        let Value::Object(fields) = value else { return Ok(()) };
        let owner = self.catalogue.get(id).name;
        let mut dropped = Vec::new();
        for (name, value) in fields.iter_mut() {
            if is_object && matches!(name.as_str(), "apiVersion" | "kind") {
                continue;
            }
            let Some(field) = self.catalogue.field(id, name) else {
                path.within(name, |path| self.unknown.push(path.0.clone()));
                dropped.push(name.clone());
                continue;
            };
            // Nothing, or the zero of its type: what a server that keeps structs would have.
            if value.is_null() && !matches!(field.ty, Type::Any) {
                if !field.required {
                    dropped.push(name.clone());
                }
                continue;
            }
            path.within(name, |path| self.value(&field.ty, value, path, owner))?;
        }
        for name in dropped {
            fields.remove(&name);
        }
        Ok(())
    }

    fn value(
        &mut self,
        ty: &Type,
        value: &mut Value,
        path: &mut Path,
        owner: &'static str,
    ) -> Result<(), Misfit> {
        let fits = match (ty, &mut *value) {
            (_, Value::Null) | (Type::Any, _) => true,
            (Type::Text | Type::Time | Type::MicroTime | Type::Duration | Type::Bytes, Value::String(_)) => {
                true
            }
            (Type::Int32, Value::Number(number)) => {
                number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Type::Int64, Value::Number(number)) => number.is_i64(),
            (Type::Float, Value::Number(_)) => true,
            (Type::Flag, Value::Bool(_)) => true,
            (Type::Quantity | Type::IntOrString, Value::String(_) | Value::Number(_)) => true,
            (Type::Raw | Type::Fields, Value::Object(_)) => true,
            (Type::Texts, Value::Array(items)) => items.iter().all(Value::is_string),
            (Type::Struct(id), Value::Object(_)) => {
                // Templates of claims and of pods are objects inside of objects.
                let is_object = self.catalogue.get(*id).name == "PersistentVolumeClaim";
                return self.fields(*id, value, path, is_object);
            }
            (Type::StructOrAny(id), Value::Object(_)) => return self.fields(*id, value, path, false),
            (Type::StructOrAny(_), _) => true,
            (Type::List(item), Value::Array(items)) => {
                for (index, value) in items.iter_mut().enumerate() {
                    path.within(&format!("[{index}]"), |path| self.value(item, value, path, owner))?;
                }
                true
            }
            (Type::Map(item), Value::Object(entries)) => {
                for (key, value) in entries.iter_mut() {
                    path.within(key, |path| self.value(item, value, path, owner))?;
                }
                true
            }
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(Misfit { owner, path: path.0.clone(), found: kind_of(value), wanted: self.go_name(ty) })
    }

    fn go_name(&self, ty: &Type) -> String {
        match ty {
            Type::Text | Type::Quantity | Type::IntOrString => "string".to_owned(),
            Type::Int32 => "int32".to_owned(),
            Type::Int64 => "int64".to_owned(),
            Type::Float => "float64".to_owned(),
            Type::Flag => "bool".to_owned(),
            Type::Bytes => "[]uint8".to_owned(),
            Type::Time => "v1.Time".to_owned(),
            Type::MicroTime => "v1.MicroTime".to_owned(),
            Type::Duration => "v1.Duration".to_owned(),
            Type::Raw | Type::Fields => "map[string]interface {}".to_owned(),
            Type::Texts => "[]string".to_owned(),
            Type::Any => "interface {}".to_owned(),
            Type::Struct(id) | Type::StructOrAny(id) => {
                let known = self.catalogue.get(*id);
                let package = known.package.rsplit('.').next().unwrap_or_default();
                format!("{package}.{}", known.name)
            }
            Type::List(item) => format!("[]{}", self.go_name(item)),
            Type::Map(item) => format!("map[string]{}", self.go_name(item)),
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::catalogue;
    use super::*;

    fn tidied(api_version: &str, kind: &str, mut object: Value) -> Result<(Value, Vec<String>), Misfit> {
        let id = catalogue().kind(api_version, kind).unwrap();
        let unknown = tidy(catalogue(), id, &mut object)?;
        Ok((object, unknown))
    }

    #[test]
    fn unknown_fields_are_dropped_and_named_with_their_place() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "label": {}},
            "spec": {"containers": [{"name": "c", "imagee": "i", "env": [{"name": "A", "val": 1}]}], "colour": 1},
        });
        let (pod, unknown) = tidied("v1", "Pod", pod).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "env": [{"name": "A"}]}]},
        });
        assert_eq!(pod, expected);
        assert_eq!(
            unknown,
            ["metadata.label", "spec.colour", "spec.containers[0].env[0].val", "spec.containers[0].imagee"]
        );
    }

    #[test]
    fn fields_of_inlined_types_maps_and_unions_are_known() {
        let pod = json!({"spec": {
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 5}}],
            "containers": [{"name": "c", "livenessProbe": {"httpGet": {"port": "http"}},
                "resources": {"limits": {"cpu": 1, "any.thing/else": "2"}}}],
        }});
        assert_eq!(tidied("v1", "Pod", pod).unwrap().1, Vec::<String>::new());
        let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
            "properties": {"a": {"additionalProperties": true, "items": {"tpye": "string"}, "default": null}},
        }}}]}});
        let version = "apiextensions.k8s.io/v1";
        let (object, unknown) = tidied(version, "CustomResourceDefinition", definition).unwrap();
        let place = "spec.versions[0].schema.openAPIV3Schema.properties.a.items.tpye";
        assert_eq!(unknown, [place]);
        let kept = object.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/a/default");
        assert_eq!(kept, Some(&Value::Null));
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_its_place() {
        let error = tidied("apps/v1", "Deployment", json!({"spec": {"replicas": "three"}})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
        let error = tidied("v1", "Pod", json!({"spec": {"containers": {"name": "c"}}})).unwrap_err();
        assert!(error.to_string().ends_with("PodSpec.spec.containers of type []v1.Container"), "{error}");
        assert!(tidied("v1", "Pod", json!({"spec": {"priority": 3_000_000_000_u64}})).is_err());
    }

    #[test]
    fn nulls_are_dropped_where_nothing_is_meant() {
        let object =
            json!({"metadata": {"creationTimestamp": null}, "spec": {"containers": null, "nodeName": null}});
        let (object, _) = tidied("v1", "Pod", object).unwrap();
        assert_eq!(object, json!({"metadata": {}, "spec": {"containers": null}}));
    }
}
