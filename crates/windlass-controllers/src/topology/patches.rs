//! Patches of a class in their order: inline ones here, the others by extensions, and at the end extensions that check
//! what came out.

use serde_json::Value;
use windlass_api::Object;
use windlass_api::cluster::{ClusterClass, ClusterClassPatch, ExternalPatchDefinition};
use windlass_api::hooks::{
    GeneratePatches, GeneratePatchesRequest, GeneratePatchesRequestItem, GeneratePatchesResponseItem,
    PatchError as DocumentError, PatchType, ValidateTopology, ValidateTopologyRequest,
    ValidateTopologyRequestItem,
};
use windlass_engine::topology::desired::{BuildError, Inputs, PatchVariables, TemplateItem, Templates};
use windlass_hooks::{Answer, CallError, HookClient};
use windlass_patch::{Dialect, JsonPatch, JsonPatchError, merge_patch};
use windlass_runtime::{Context, ObjectKey};

use super::errors::TopologyError;

/// Why an external patch could not be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExternalPatchError {
    /// The extension did not answer, or said no.
    #[error("patch {patch:?}: {error}")]
    Call {
        /// Name of the patch.
        patch: String,
        /// What went wrong.
        error: CallError,
    },
    /// The answer is about a template that was not asked about.
    #[error(
        "patch {patch:?}: handler {handler:?} answered with uid {uid:?}, which is none of the request's items"
    )]
    UnknownItem {
        /// Name of the patch.
        patch: String,
        /// The handler.
        handler: String,
        /// What it answered with.
        uid: String,
    },
    /// The answer cannot be applied to its template.
    #[error("patch {patch:?} of {template} by handler {handler:?}: {problem}")]
    Apply {
        /// Name of the patch.
        patch: String,
        /// Kind and name of the template.
        template: String,
        /// The handler.
        handler: String,
        /// What is wrong.
        problem: PatchProblem,
    },
}

/// What is wrong with a patch that an extension made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchProblem {
    /// It is not JSON.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// It is of no kind that is known.
    #[error("patchType {0:?} is neither JSONPatch nor JSONMergePatch")]
    Type(String),
    /// Its operations do not fit the template.
    #[error(transparent)]
    Operations(#[from] JsonPatchError),
    /// It is nested too deeply.
    #[error("it is nested too deeply")]
    TooDeep,
}

/// Whether extensions patch or check the templates of a class.
pub(super) fn are_external(class: &ClusterClass) -> bool {
    class.spec.patches.iter().any(|patch| patch.external.is_some())
}

/// Applies all patches of a class, and has the result checked.
pub(super) async fn apply(
    context: &Context,
    hooks: &HookClient,
    inputs: Inputs<'_>,
    templates: &mut Templates,
) -> Result<(), TopologyError> {
    let class = &inputs.blueprint.class;
    let caller = Caller { context, hooks, inputs, class };
    let values = inputs.cluster.spec.topology.as_ref().map(|topology| topology.variables.as_slice());
    let values = values.unwrap_or_default();
    for patch in &class.spec.patches {
        match &patch.external {
            None => templates.patch_inline(class, values, patch).map_err(BuildError::from)?,
            Some(external) => caller.generate(patch, external, templates).await?,
        }
    }
    for patch in &class.spec.patches {
        if let Some(external) = &patch.external {
            caller.validate(patch, external, templates).await?;
        }
    }
    Ok(())
}

struct Caller<'a> {
    context: &'a Context,
    hooks: &'a HookClient,
    inputs: Inputs<'a>,
    class: &'a ClusterClass,
}

impl Caller<'_> {
    async fn generate(
        &self,
        patch: &ClusterClassPatch,
        external: &ExternalPatchDefinition,
        templates: &mut Templates,
    ) -> Result<(), Box<ExternalPatchError>> {
        let handler = external.generate_patches_extension.as_str();
        if handler.is_empty() {
            return Ok(());
        }
        let sees = PatchVariables::of(self.class, patch);
        let uids: Vec<String> = templates.items().iter().map(|_| self.uid()).collect();
        let items = templates.items().iter().zip(&uids).map(|(item, uid)| GeneratePatchesRequestItem {
            uid: uid.clone(),
            holder_reference: item.holder.clone(),
            object: sent(item),
            variables: item.variables(&sees),
        });
        let request = GeneratePatchesRequest {
            settings: external.settings.clone(),
            variables: templates.variables_of_all(&sees, self.values()),
            items: items.collect(),
            ..Default::default()
        };
        let answer = self.hooks.call_one::<GeneratePatches>(handler, &self.namespace(), &request).await;
        let Answer::Given(response) = answer.map_err(|error| failed(patch, error))? else { return Ok(()) };
        for answered in &response.items {
            let Some(index) = uids.iter().position(|uid| *uid == answered.uid) else {
                return Err(Box::new(ExternalPatchError::UnknownItem {
                    patch: patch.name.clone(),
                    handler: handler.to_owned(),
                    uid: answered.uid.clone(),
                }));
            };
            let template = &templates.items()[index].template;
            let patched = patched(template, answered).map_err(|problem| {
                let text =
                    |pointer: &str| template.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                Box::new(ExternalPatchError::Apply {
                    patch: patch.name.clone(),
                    template: format!("{} {}", text("/kind"), text("/metadata/name")),
                    handler: handler.to_owned(),
                    problem,
                })
            })?;
            templates.replace(index, &patched);
        }
        Ok(())
    }

    async fn validate(
        &self,
        patch: &ClusterClassPatch,
        external: &ExternalPatchDefinition,
        templates: &Templates,
    ) -> Result<(), Box<ExternalPatchError>> {
        let handler = external.validate_topology_extension.as_str();
        if handler.is_empty() {
            return Ok(());
        }
        let sees = PatchVariables::of(self.class, patch);
        let items = templates.items().iter().map(|item| ValidateTopologyRequestItem {
            holder_reference: item.holder.clone(),
            object: sent(item),
            variables: item.variables(&sees),
        });
        let request = ValidateTopologyRequest {
            settings: external.settings.clone(),
            variables: templates.variables_of_all(&sees, self.values()),
            items: items.collect(),
            ..Default::default()
        };
        let answer = self.hooks.call_one::<ValidateTopology>(handler, &self.namespace(), &request).await;
        answer.map(|_| ()).map_err(|error| failed(patch, error))
    }

    fn namespace(&self) -> String {
        ObjectKey::of(self.inputs.cluster).namespace
    }

    fn values(&self) -> &[windlass_api::cluster::ClusterVariable] {
        let topology = self.inputs.cluster.spec.topology.as_ref();
        topology.map(|topology| topology.variables.as_slice()).unwrap_or_default()
    }

    /// A random UUID (version 4), new in every request: nothing may depend on it.
    fn uid(&self) -> String {
        self.context.uuid("request")
    }
}

fn failed(patch: &ClusterClassPatch, error: CallError) -> Box<ExternalPatchError> {
    Box::new(ExternalPatchError::Call { patch: patch.name.clone(), error })
}

/// A template as extensions get to see it.
fn sent(item: &TemplateItem) -> Object {
    // A template is an object; it does not fail to be one.
    Object::try_from(item.template.clone()).unwrap_or_default().for_hook_request()
}

fn patched(template: &Value, answered: &GeneratePatchesResponseItem) -> Result<Value, PatchProblem> {
    let document = answered.patch.to_json()?;
    match &answered.patch_type {
        PatchType::JsonPatch => Ok(JsonPatch::parse(Dialect::ClusterApi, &document)?.apply(template)?),
        PatchType::JsonMergePatch => {
            merge_patch::apply(template, &document).map_err(|_| PatchProblem::TooDeep)
        }
        other => Err(PatchProblem::Type(other.to_string())),
    }
}
