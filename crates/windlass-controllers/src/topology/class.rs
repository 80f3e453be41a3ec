//! The ClusterClass controller: says which variables a class has, and whether they agree.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::{
    ClusterClass, ClusterClassStatusVariable, ClusterClassStatusVariableDefinition, VariableSchema,
};
use windlass_api::conditions::VARIABLES_READY;
use windlass_api::hooks::DiscoverVariablesRequest;
use windlass_engine::condition::{self, Finding};
use windlass_engine::pause::Pause;
use windlass_hooks::HookClient;
use windlass_runtime::{Cache, Context, Manager, ObjectKey, Outcome, Reconciler, WriteError};

use crate::extension_config::Extensions;

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
        let controller = Self { classes: classes.clone(), hooks, extensions };
        manager.controller("clusterclass", &classes).register(controller);
    }

    async fn discover(&self, class: &ClusterClass) -> Result<Vec<ClusterClassStatusVariable>, String> {
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
            let namespace = ObjectKey::of(class).namespace;
            let answer = self.hooks.discover_variables(handler, &namespace, &request).await;
            let answer = answer.map_err(|error| format!("patch {:?}: {error}", patch.name))?;
            let Some(response) = answer.given() else {
                return Err(format!("patch {:?}: handler {handler:?} did not answer", patch.name));
            };
            for variable in response.variables {
                let schema = serde_json::to_value(&variable.schema).ok();
                let schema: Option<VariableSchema> =
                    schema.and_then(|value| serde_json::from_value(value).ok());
                let definition = ClusterClassStatusVariableDefinition {
                    from: patch.name.clone(),
                    required: variable.required,
                    deprecated_v1beta1_metadata: None,
                    schema: schema.unwrap_or_default(),
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

impl Reconciler for ClassController {
    type Error = WriteError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
        let Some(class) = self.classes.get(key) else { return Ok(Outcome::done()) };
        if class.metadata.deletion_timestamp.is_some() || Pause::of(&class.metadata, None).is_some() {
            return Ok(Outcome::done());
        }
        let (variables, finding, outcome) = match self.discover(&class).await {
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
            Err(error) => {
                let finding = Finding::no(VARIABLES_READY, "VariableDiscoveryFailed").because(error);
                (class.status.variables.clone(), finding, Outcome::after(std::time::Duration::from_secs(30)))
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
