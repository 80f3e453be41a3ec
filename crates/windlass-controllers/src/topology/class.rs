//! The ClusterClass controller: says which variables a class has, and whether they agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::cluster::{
    ClusterClass, ClusterClassPatch, ClusterClassStatusVariable, ClusterClassStatusVariableDefinition,
    ClusterClassTemplateReference, ContractVersionedObjectReference, VariableSchema,
};
use windlass_api::conditions::{REF_VERSIONS_UP_TO_DATE, VARIABLES_READY, reason};
use windlass_api::hooks::{DiscoverVariables, DiscoverVariablesRequest, Hook};
use windlass_engine::condition::{self, Finding};
use windlass_engine::pause::Pause;
use windlass_hooks::cache::{Question, SLOWEST_RETRY};
use windlass_hooks::{CallError, HookClient};
use windlass_runtime::{
    Cache, Context, Incomplete, Manager, ObjectKey, Outcome, Reconciler, WriteError, elsewhere,
    generation_of, owner_reference, uid_of,
};

use super::patches::unusable;
use crate::extension_config::{Extensions, is_another};
use crate::external::Externals;
use crate::references::ignore_gone;
use crate::worker_group::adoption;

/// What definitions of a class's own are called.
const INLINE: &str = "inline";
/// Field manager of the status of classes.
const MANAGER: &str = "windlass-clusterclass";
/// How often the CRDs of templates are read: providers are upgraded rarely, and nothing tells of it.
const DEFINITIONS: Duration = Duration::from_secs(600);

/// Finds out which variables classes have.
pub struct ClassController {
    classes: Cache<ClusterClass>,
    hooks: HookClient,
    extensions: Extensions,
    externals: Externals,
}

impl ClassController {
    /// Registers the controller.
    pub fn register(manager: &Manager, hooks: HookClient, extensions: Extensions, externals: Externals) {
        let classes = manager.cache::<ClusterClass>();
        let configs = extensions.configs().clone();
        let controller = Self { classes: classes.clone(), hooks, extensions, externals };
        let (waiting, referring) = (classes.clone(), classes.clone());
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
            .on_dynamic(move |object| referring_to(&referring, object))
            .register(controller);
    }

    /// Makes the class an owner of the templates that it refers to: they go with it, and `clusterctl move` finds them by it.
    /// One that is not there yet is heard of when it comes.
    async fn own_templates(&self, context: &Context, class: &ClusterClass) -> Result<(), ClassError> {
        let (owner, namespace) = (owner_reference(class)?, ObjectKey::of(class).namespace);
        let templates: BTreeSet<_> = references(class)
            .into_iter()
            .map(|reference| (reference.group().to_owned(), reference.kind.clone(), reference.name.clone()))
            .collect();
        for (api_group, kind, name) in templates {
            let reference = ContractVersionedObjectReference { api_group, kind, name };
            // What cannot be read is said by a condition.
            let Ok(Some(found)) = self.externals.get(context, &namespace, &reference).await else { continue };
            let owners = found.object.metadata.owner_references.iter().flatten();
            if found.is_deleting() || owners.into_iter().any(|has| has.uid == owner.uid) {
                continue;
            }
            let patch = adoption(&found.object.metadata, &owner);
            ignore_gone(context.writer_of(&found.kind.resource).patch(&found.object, patch).await)?;
        }
        Ok(())
    }

    /// `RefVersionsUpToDate`: whether the class refers to templates in the version that the labels of their CRDs name. Nothing changes it: patches are written for a version.
    async fn reference_versions(&self, context: &Context, class: &ClusterClass) -> Finding {
        let (mut outdated, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        for reference in references(class) {
            match self.externals.kind(context, reference.group(), &reference.kind).await {
                Ok(newest) if newest.resource.api_version != reference.api_version => {
                    let newest = &newest.resource.api_version;
                    let of = format!("{} {}", reference.kind, reference.name);
                    outdated.insert(format!(
                        "* {of} is referred to in {}, the newest is {newest}",
                        reference.api_version
                    ));
                }
                Ok(_) => {}
                Err(error) => {
                    unknown.insert(format!("* {error}"));
                }
            }
        }
        let lines = |lines: BTreeSet<String>| lines.into_iter().collect::<Vec<_>>().join("\n");
        if !outdated.is_empty() {
            return Finding::no(REF_VERSIONS_UP_TO_DATE, "RefVersionsNotUpToDate").because(lines(outdated));
        }
        if !unknown.is_empty() {
            return Finding::unknown(REF_VERSIONS_UP_TO_DATE, reason::INTERNAL_ERROR).because(lines(unknown));
        }
        Finding::yes(REF_VERSIONS_UP_TO_DATE, "RefVersionsUpToDate")
    }

    async fn discover(
        &self,
        class: &ClusterClass,
        identity: (&str, i64),
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
            let question = question(class, identity, patch);
            let response = elsewhere(self.hooks.discover_variables(handler, &question, &request)).await;
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

/// The classes that refer to an object.
fn referring_to(classes: &Cache<ClusterClass>, object: &DynamicObject) -> Vec<ObjectKey> {
    let Some(types) = &object.types else { return Vec::new() };
    let name = object.name_any();
    let refers = |class: &ClusterClass| {
        references(class).iter().any(|reference| reference.kind == types.kind && reference.name == name)
    };
    let found = classes.in_namespace(&ObjectKey::of(object).namespace).into_iter();
    found.filter(|class| refers(class)).map(|class| ObjectKey::of(class.as_ref())).collect()
}

/// All templates that a class refers to.
fn references(class: &ClusterClass) -> Vec<&ClusterClassTemplateReference> {
    let spec = &class.spec;
    let mut all = vec![&spec.infrastructure.template_ref, &spec.control_plane.template_ref];
    all.extend(spec.control_plane.machine_infrastructure.as_ref().map(|machines| &machines.template_ref));
    for group in &spec.workers.machine_deployments {
        all.extend([&group.bootstrap.template_ref, &group.infrastructure.template_ref]);
    }
    for group in &spec.workers.machine_pools {
        all.extend([&group.bootstrap.template_ref, &group.infrastructure.template_ref]);
    }
    all
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

/// What an extension is asked about the variables of a patch of a class with this UID, in the generation that the user has
/// written.
fn question(class: &ClusterClass, identity: (&str, i64), patch: &ClusterClassPatch) -> Question {
    let (uid, generation) = identity;
    let key = ObjectKey::of(class);
    let object = windlass_hooks::cache::ObjectIdentity {
        kind: ClusterClass::KIND.to_owned(),
        namespace: key.namespace,
        name: key.name,
        uid: uid.to_owned(),
    };
    Question::new::<DiscoverVariables>(object, [patch.name.as_str()]).in_edition(generation.to_string())
}

impl Reconciler for ClassController {
    type Error = ClassError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, ClassError> {
        let Some(class) = self.classes.get(key) else { return Ok(Outcome::done()) };
        if class.metadata.deletion_timestamp.is_some() || Pause::of(&class.metadata, None).is_some() {
            return Ok(Outcome::done());
        }
        let identity = (uid_of(class.as_ref())?, generation_of(class.as_ref())?);
        let (variables, finding, outcome) = match self.discover(&class, identity).await {
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
        self.own_templates(context, &class).await?;
        let versions = self.reference_versions(context, &class).await;
        let mut conditions = class.status.conditions.clone();
        let mut changed = false;
        for finding in [finding, versions] {
            changed |= condition::set(&mut conditions, finding, class.metadata.generation, context.now());
        }
        let outcome = outcome.or(Outcome::routinely(DEFINITIONS));
        let is_current = class.status.observed_generation == class.metadata.generation;
        if !changed && is_current && variables == class.status.variables {
            return Ok(outcome);
        }
        let is_own =
            |found: &&Condition| [VARIABLES_READY, REF_VERSIONS_UP_TO_DATE].contains(&found.type_.as_str());
        let own: Vec<&Condition> = conditions.iter().filter(is_own).collect();
        let mut status = json!({
            "conditions": own,
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
