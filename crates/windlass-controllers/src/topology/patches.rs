//! Patches of a class in their order: inline ones here, the others by extensions, and at the end extensions that check
//! what came out.

use std::time::Duration;

use kube::ResourceExt;
use serde_json::Value;
use windlass_api::Object;
use windlass_api::cluster::{ClusterClass, ClusterClassPatch, ExternalPatchDefinition};
use windlass_api::hooks::{
    GeneratePatches, GeneratePatchesRequest, GeneratePatchesRequestItem, GeneratePatchesResponseItem, Hook,
    HookType, PatchError as DocumentError, PatchType, ValidateTopology, ValidateTopologyRequest,
    ValidateTopologyRequestItem,
};
use windlass_engine::topology::desired::{BuildError, Inputs, PatchVariables, TemplateItem, Templates};
use windlass_hooks::cache::Question;
use windlass_hooks::{Answer, CallError, CallFailure, HookClient};
use windlass_patch::{Dialect, JsonPatch, JsonPatchError, merge_patch};
use windlass_runtime::{Context, ObjectKey, elsewhere, generation_of};

use super::errors::TopologyError;
use super::hooks::ClusterHooks;

/// Why an external patch could not be applied: the extension did not answer, said no, or answered something that cannot
/// be used.
#[derive(Debug, thiserror::Error)]
#[error("patch {patch:?}: {error}")]
pub struct ExternalPatchError {
    /// Name of the patch.
    pub patch: String,
    /// What went wrong.
    pub error: CallError,
}

impl ExternalPatchError {
    /// When the extension is asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.error.retry().map(|retry| retry.left)
    }
}

/// What is wrong with a patch that an extension made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchProblem {
    /// It is for a template that was not asked about.
    #[error("uid {0:?} is none of the request's items")]
    UnknownItem(String),
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
    cluster: &ClusterHooks<'_>,
    inputs: Inputs<'_>,
    templates: &mut Templates,
) -> Result<(), TopologyError> {
    let class = &inputs.blueprint.class;
    let generation = generation_of(class)?;
    let caller = Caller { context, hooks, cluster, inputs, class, generation };
    for patch in &class.spec.patches {
        match &patch.external {
            None => templates.patch_inline(class, caller.values(), patch).map_err(BuildError::from)?,
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
    cluster: &'a ClusterHooks<'a>,
    inputs: Inputs<'a>,
    class: &'a ClusterClass,
    generation: i64,
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
        let namespace = self.namespace();
        let ask = async {
            let answer = self.hooks.call_one::<GeneratePatches>(handler, &namespace, &request).await?;
            let Answer::Given(response) = answer else { return Ok(()) };
            for answered in &response.items {
                take(templates, &uids, answered)
                    .map_err(|reason| unusable(Hook::GeneratePatches, handler, "a patch", reason))?;
            }
            Ok(())
        };
        let question = self.question::<GeneratePatches>(patch, handler);
        elsewhere(self.hooks.at_pace(&question, ask)).await.map_err(|error| failed(patch, error))
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
        let namespace = self.namespace();
        let ask = self.hooks.call_one::<ValidateTopology>(handler, &namespace, &request);
        let question = self.question::<ValidateTopology>(patch, handler);
        elsewhere(self.hooks.at_pace(&question, ask)).await.map(|_| ()).map_err(|error| failed(patch, error))
    }

    /// What an extension is asked about a patch. An edit of the class is another question, as one of the Cluster is.
    fn question<H: HookType>(&self, patch: &ClusterClassPatch, handler: &str) -> Question {
        let about =
            [self.class.name_any(), self.generation.to_string(), patch.name.clone(), handler.to_owned()];
        self.cluster.question::<H>(about)
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
    Box::new(ExternalPatchError { patch: patch.name.clone(), error })
}

/// An answer that cannot be used is a failure of its handler.
pub(super) fn unusable(hook: Hook, handler: &str, what: &'static str, reason: String) -> CallError {
    match handler.parse() {
        Ok(handler) => CallError::Failed { hook, handler, failure: CallFailure::Unusable { what, reason } },
        Err(_) => CallError::UnknownHandler { name: handler.to_owned() },
    }
}

/// Patches the template that an answer is for.
fn take(
    templates: &mut Templates,
    uids: &[String],
    answered: &GeneratePatchesResponseItem,
) -> Result<(), String> {
    let Some(index) = uids.iter().position(|uid| *uid == answered.uid) else {
        return Err(PatchProblem::UnknownItem(answered.uid.clone()).to_string());
    };
    let template = &templates.items()[index].template;
    let patched = patched(template, answered).map_err(|problem| {
        let text = |pointer: &str| template.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        format!("{} {}: {problem}", text("/kind"), text("/metadata/name"))
    })?;
    templates.replace(index, &patched);
    Ok(())
}

/// A template as extensions get to see it.
fn sent(item: &TemplateItem) -> Object {
    // A template is an object: it was read as one.
    let fields = item.template.as_object().cloned().unwrap_or_default();
    Object::from(fields).for_hook_request()
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
