//! The ClusterClass controller: says which variables a class has, and whether they agree.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::cluster::{
    ClusterClass, ClusterClassPatch, ClusterClassStatusVariable, ClusterClassStatusVariableDefinition,
    VariableSchema,
};
use windlass_api::conditions::VARIABLES_READY;
use windlass_api::hooks::{DiscoverVariables, DiscoverVariablesRequest, Hook};
use windlass_engine::condition::{self, Finding};
use windlass_engine::pause::Pause;
use windlass_hooks::cache::{Question, SLOWEST_RETRY};
use windlass_hooks::{CallError, HookClient};
use windlass_runtime::{
    Cache, Context, Incomplete, Manager, ObjectKey, Outcome, Reconciler, WriteError, uid_of,
};

use super::patches::unusable;
use crate::extension_config::{Extensions, is_another};

/// What definitions of a class's own are called.
const INLINE: &str = "inline";
/// Field manager of the status of classes.
const MANAGER: &str = "windlass-clusterclass";

/// Finds out which variables classes have.
pub struct ClassController {
    classes: Cache<ClusterClass>,
    hooks: HookClient,
    extensions: Extensions,
}

impl ClassController {
    /// Registers the controller.
    pub fn register(manager: &Manager, hooks: HookClient, extensions: Extensions) {
        let classes = manager.cache::<ClusterClass>();
        let configs = extensions.configs().clone();
        let controller = Self { classes: classes.clone(), hooks, extensions };
        let waiting = classes.clone();
        manager
            .controller("clusterclass", &classes)
            .watches_changes(&configs, move |before, after| {
                if !is_another(before, after) {
                    return Vec::new();
                }
                let is_ready =
                    |class: &ClusterClass| condition::is_true(&class.status.conditions, VARIABLES_READY);
                let classes = waiting.list();
                classes
                    .iter()
                    .filter(|class| !is_ready(class))
                    .map(|class| ObjectKey::of(class.as_ref()))
                    .collect()
            })
            .register(controller);
    }

    async fn discover(
        &self,
        class: &ClusterClass,
        uid: &str,
    ) -> Result<Vec<ClusterClassStatusVariable>, Undiscovered> {
        let mut variables: BTreeMap<String, Vec<ClusterClassStatusVariableDefinition>> = BTreeMap::new();
        for variable in &class.spec.variables {
            let definition = ClusterClassStatusVariableDefinition {
                from: INLINE.to_owned(),
                required: variable.required,
                deprecated_v1beta1_metadata: variable.deprecated_v1beta1_metadata.clone(),
                schema: variable.schema.clone(),
            };
            variables.entry(variable.name.clone()).or_default().push(definition);
        }
        for patch in &class.spec.patches {
            let Some(external) = &patch.external else { continue };
            let handler = external.discover_variables_extension.as_str();
            if handler.is_empty() {
                continue;
            }
            self.extensions.warm_up().await;
            let request =
                DiscoverVariablesRequest { settings: external.settings.clone(), ..Default::default() };
            let question = question(class, uid, patch);
            let response = self.hooks.discover_variables(handler, &question, &request).await;
            let response = response
                .map_err(|error| Undiscovered { patch: patch.name.clone(), error: Box::new(error) })?;
            for variable in response.variables {
                let schema = schema(&variable.schema).map_err(|error| {
                    let reason = format!("variable {:?}: {error}", variable.name);
                    let what = "a schema";
                    let error = unusable(Hook::DiscoverVariables, handler, what, reason);
                    Undiscovered { patch: patch.name.clone(), error: Box::new(error) }
                })?;
                let definition = ClusterClassStatusVariableDefinition {
                    from: patch.name.clone(),
                    required: variable.required,
                    deprecated_v1beta1_metadata: None,
                    schema,
                };
                variables.entry(variable.name).or_default().push(definition);
            }
        }
        let status = variables.into_iter().map(|(name, definitions)| {
            let first = definitions.first();
            let conflict = definitions.iter().any(|definition| {
                first.is_some_and(|first| {
                    (first.required, &first.schema) != (definition.required, &definition.schema)
                })
            });
            ClusterClassStatusVariable { name, definitions_conflict: Some(conflict), definitions }
        });
        Ok(status.collect())
    }
}

/// Why a reconcile of a class failed.
#[derive(Debug, thiserror::Error)]
pub enum ClassError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The class does not say which one it is.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
}

/// The variables of a patch are not known.
#[derive(Debug, thiserror::Error)]
#[error("patch {patch:?}: {error}")]
struct Undiscovered {
    patch: String,
    error: Box<CallError>,
}

/// The schema of an extension's variable, as a class has it.
fn schema(answered: &impl Serialize) -> Result<VariableSchema, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(answered)?)
}

/// What an extension is asked about the variables of a patch, in the edition that the user has written.
fn question(class: &ClusterClass, uid: &str, patch: &ClusterClassPatch) -> Question {
    let key = ObjectKey::of(class);
    let object = windlass_hooks::cache::ObjectKey {
        kind: ClusterClass::KIND.to_owned(),
        namespace: key.namespace,
        name: key.name,
        uid: uid.to_owned(),
    };
    let generation = class.metadata.generation.unwrap_or_default();
    Question::new::<DiscoverVariables>(object, [patch.name.as_str()]).in_edition(generation.to_string())
}

impl Reconciler for ClassController {
    type Error = ClassError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, ClassError> {
        let Some(class) = self.classes.get(key) else { return Ok(Outcome::done()) };
        if class.metadata.deletion_timestamp.is_some() || Pause::of(&class.metadata, None).is_some() {
            return Ok(Outcome::done());
        }
        let (variables, finding, outcome) = match self.discover(&class, uid_of(class.as_ref())?).await {
            Ok(variables) => {
                let conflicts: Vec<&str> = variables
                    .iter()
                    .filter(|variable| variable.definitions_conflict == Some(true))
                    .map(|variable| variable.name.as_str())
                    .collect();
                let finding = if conflicts.is_empty() {
                    Finding::yes(VARIABLES_READY, "VariablesReady")
                } else {
                    Finding::no(VARIABLES_READY, "VariableDiscoveryFailed")
                        .because(format!("definitions of {} differ", conflicts.join(", ")))
                };
                (variables, finding, Outcome::done())
            }
            Err(undiscovered) => {
                let again = undiscovered.error.retry().map_or(SLOWEST_RETRY, |retry| retry.left);
                let why = undiscovered.to_string();
                let finding = Finding::no(VARIABLES_READY, "VariableDiscoveryFailed").because(why);
                (class.status.variables.clone(), finding, Outcome::after(again))
            }
        };
        let mut conditions = class.status.conditions.clone();
        let changed = condition::set(&mut conditions, finding, class.metadata.generation, context.now());
        let is_current = class.status.observed_generation == class.metadata.generation;
        if !changed && is_current && variables == class.status.variables {
            return Ok(outcome);
        }
        let mut status = json!({
            "conditions": [condition::find(&conditions, VARIABLES_READY)],
            "observedGeneration": class.metadata.generation,
        });
        if !variables.is_empty() {
            status["variables"] = json!(variables);
        }
        let intent: Value = json!({
            "apiVersion": ClusterClass::API_VERSION,
            "kind": ClusterClass::KIND,
            "metadata": {"namespace": class.namespace(), "name": class.name_any(), "uid": class.uid()},
            "status": status,
        });
        context.writer::<ClusterClass>().apply_status(MANAGER, &intent).await?;
        Ok(outcome)
    }
}
