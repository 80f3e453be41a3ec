//! Walking the templates of a topology: change them, and the patches are worked out.
//!
//! ```
//! use windlass_extension::hooks::GeneratePatchesRequest;
//! use windlass_extension::templates::{Template, patch_templates};
//!
//! # let request = GeneratePatchesRequest::default();
//! let response = patch_templates(&request, |template: &mut Template| {
//!     if template.object().kind() == Some("KubeadmControlPlaneTemplate") {
//!         let registry: String = template.variables().typed("imageRepository")?;
//!         template.set("/spec/template/spec/kubeadmConfigSpec/imageRepository", registry)?;
//!     }
//!     Ok(())
//! });
//! ```

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use windlass_api::hooks::{
    GeneratePatchesRequest, GeneratePatchesResponse, GeneratePatchesResponseItem, HolderReference,
    HookResponse, Patch,
};
use windlass_api::object::Object;

use crate::patch::{self, pointer};
pub use crate::variables::{VariableError, Variables};

/// Answers GeneratePatches: hands every template to the function and returns what it changed as JSON patches.
///
/// A template that the function leaves alone gets no patch. The first error is the whole answer; it names
/// the template by its holder, not by its uid, which is another one in every request.
pub fn patch_templates<F>(request: &GeneratePatchesRequest, mut change: F) -> GeneratePatchesResponse
where
    F: FnMut(&mut Template<'_>) -> Result<(), TemplateError>,
{
    let mut items = Vec::new();
    for item in &request.items {
        let mut template = Template {
            object: item.object.clone(),
            holder: &item.holder_reference,
            variables: Variables::merged(&request.variables, &item.variables),
        };
        if let Err(error) = change(&mut template) {
            let HolderReference { kind, namespace, name, field_path, .. } = &item.holder_reference;
            let message = format!("template at {field_path} of {kind} {namespace}/{name}: {error}");
            return GeneratePatchesResponse::failure(message);
        }
        if let Some(Patch { patch_type, patch }) = patch::between(&item.object, &template.object) {
            items.push(GeneratePatchesResponseItem { uid: item.uid.clone(), patch_type, patch });
        }
    }
    GeneratePatchesResponse { items, ..GeneratePatchesResponse::success() }
}

/// A template to be changed.
#[derive(Debug)]
pub struct Template<'a> {
    object: Object,
    holder: &'a HolderReference,
    variables: Variables,
}

impl Template<'_> {
    /// The template.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The template, to be changed. Only `spec`, labels and annotations count.
    pub fn object_mut(&mut self) -> &mut Object {
        &mut self.object
    }

    /// The object that refers to the template, and where.
    pub fn holder(&self) -> &HolderReference {
        self.holder
    }

    /// The variables that hold for this template.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Sets what an RFC 6901 pointer leads to, and makes the objects on the way there.
    ///
    /// # Errors
    ///
    /// When something on the way is neither an object nor an existing item of a list.
    pub fn set(&mut self, at: &str, value: impl Into<Value>) -> Result<(), TemplateError> {
        let nowhere = || TemplateError::Pointer { pointer: at.to_owned() };
        let names = pointer::names(at).filter(|names| !names.is_empty()).ok_or_else(nowhere)?;
        let mut root = Value::Object(std::mem::take(self.object.as_map_mut()));
        let place = names.into_iter().try_fold(&mut root, |at, name| {
            if at.is_null() {
                *at = Value::Object(Map::new());
            }
            match at {
                Value::Object(fields) => Some(fields.entry(name).or_insert(Value::Null)),
                Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
                _ => None,
            }
        });
        let found = place.map(|place| *place = value.into());
        if let Value::Object(fields) = root {
            *self.object.as_map_mut() = fields;
        }
        found.ok_or_else(nowhere)
    }

    /// Changes the template as a type of yours.
    ///
    /// Only what the function changes gets into the patch: fields that the type does not know stay, and
    /// fields that it writes though they were absent (zeros, empty lists) do not appear. Lists that the
    /// function changes are the exception: they are replaced as the type writes them.
    ///
    /// # Errors
    ///
    /// When the template does not have the shape of the type.
    pub fn change_as<T, F>(&mut self, change: F) -> Result<(), TemplateError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(&mut T) -> Result<(), TemplateError>,
    {
        let mut typed: T = self.object.to_typed().map_err(TemplateError::other)?;
        let before = serde_json::to_value(&typed).map_err(TemplateError::other)?;
        change(&mut typed)?;
        let after = serde_json::to_value(&typed).map_err(TemplateError::other)?;
        let overlay = patch::merge_patch(&before, &after).map_err(TemplateError::other)?;
        let mut object = Value::from(self.object.clone());
        patch::apply_merge_patch(&mut object, &overlay);
        self.object = Object::try_from(object).map_err(TemplateError::other)?;
        Ok(())
    }
}

/// Why a template cannot be changed. The text is shown to the user, so it must be the same every time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A variable is missing or has the wrong type.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// A pointer leads nowhere.
    #[error("{pointer:?} leads nowhere")]
    Pointer {
        /// The pointer.
        pointer: String,
    },
    /// Something else, in words.
    #[error("{0}")]
    Other(String),
}

impl TemplateError {
    /// An error in words.
    pub fn other(reason: impl fmt::Display) -> Self {
        Self::Other(reason.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;
    use windlass_api::hooks::{GeneratePatchesRequestItem, ResponseStatus, Variable};

    use super::*;

    fn request(objects: &[Value]) -> GeneratePatchesRequest {
        let items = objects.iter().enumerate().map(|(index, object)| GeneratePatchesRequestItem {
            uid: format!("uid-{index}"),
            holder_reference: HolderReference {
                kind: "Cluster".to_owned(),
                namespace: "ns1".to_owned(),
                name: "c1".to_owned(),
                field_path: "spec.infrastructureRef".to_owned(),
                ..HolderReference::default()
            },
            object: Object::try_from(object.clone()).unwrap(),
            variables: Vec::new(),
        });
        let variables = vec![Variable { name: "registry".to_owned(), value: json!("r.example") }];
        GeneratePatchesRequest { items: items.collect(), variables, ..Default::default() }
    }

    fn patches(response: &GeneratePatchesResponse) -> Vec<(&str, Value)> {
        response.items.iter().map(|item| (item.uid.as_str(), item.patch.to_json().unwrap())).collect()
    }

    #[test]
    fn only_templates_that_change_get_a_patch() {
        let request = request(&[json!({"kind": "A", "spec": {}}), json!({"kind": "B", "spec": {"x": [1]}})]);
        let response = patch_templates(&request, |template| {
            if template.object().kind() == Some("B") {
                let registry: String = template.variables().typed("registry")?;
                template.set("/spec/deep/er", registry)?;
                template.set("/spec/x/0", 2)?;
            }
            Ok(())
        });
        assert_eq!(
            patches(&response),
            [(
                "uid-1",
                json!([
                    {"op": "add", "path": "/spec/deep", "value": {"er": "r.example"}},
                    {"op": "replace", "path": "/spec/x/0", "value": 2},
                ])
            )]
        );
    }

    #[test]
    fn an_error_names_the_holder_and_not_the_uid() {
        for (pointer, reason) in
            [("spec", "\"spec\" leads nowhere"), ("/kind/x", "\"/kind/x\" leads nowhere")]
        {
            let response =
                patch_templates(&request(&[json!({"kind": "A"})]), |template| template.set(pointer, 1));
            assert_eq!(response.status(), &ResponseStatus::Failure);
            assert_eq!(
                response.message(),
                format!("template at spec.infrastructureRef of Cluster ns1/c1: {reason}")
            );
        }
        let response = patch_templates(&request(&[json!({})]), |template| {
            template.variables().get("nothing").map(|_| ()).map_err(Into::into)
        });
        assert!(response.message().ends_with("there is no variable nothing"), "{}", response.message());
    }

    #[test]
    fn a_typed_change_neither_adds_zeros_nor_loses_unknown_fields() {
        #[derive(Serialize, Deserialize)]
        struct Machine {
            spec: Spec,
        }
        #[derive(Serialize, Deserialize)]
        struct Spec {
            #[serde(default)]
            replicas: u8,
            #[serde(default)]
            image: String,
        }
        let request = request(&[json!({"kind": "A", "spec": {"unknown": {"a": 1}}})]);
        let response = patch_templates(&request, |template| {
            template.change_as(|machine: &mut Machine| {
                machine.spec.image = "i".to_owned();
                Ok(())
            })
        });
        assert_eq!(
            patches(&response),
            [("uid-0", json!([{"op": "add", "path": "/spec/image", "value": "i"}]))]
        );
    }
}
