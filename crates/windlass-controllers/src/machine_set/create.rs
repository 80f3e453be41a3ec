//! New machines, made from the templates of their MachineSet.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{ApiResource, DynamicObject};
use windlass_api::cluster::{ContractVersionedObjectReference, Machine, MachineSet};
use windlass_api::names::{
    CLONED_FROM_NAME_ANNOTATION, MACHINE_SET_FIELD_MANAGER, MACHINE_SET_METADATA_FIELD_MANAGER,
};
use windlass_engine::machine_set::{NameParts, NamedOwner, Parts, annotation, machine_name, new_machine};
use windlass_runtime::{EventType, ObjectKey, name_of, namespace_of, owner_reference, uid_of};

use super::machines::text;
use super::{Scope, Sets};
use crate::external::{External, ExternalError, FromTemplate};
use crate::worker_group::{Templates, WorkerError};

/// Names of machines that were begun, with the kinds of the clones that they have already.
pub(super) type Begun = BTreeMap<String, BTreeSet<String>>;

impl Sets {
    /// Makes machines, one after the other, and first those that were begun. What was made of one that fails is deleted
    /// again. Ends early when the MachineSet is no longer what it was: a number that was a mistake is not worked off.
    pub(super) async fn create(
        &self,
        scope: &Scope<'_>,
        templates: &Templates,
        count: u32,
        begun: Begun,
    ) -> Result<(), WorkerError> {
        let Scope { context, set, .. } = *scope;
        let mut begun = begun.into_iter();
        for _ in 0..count {
            if !self.is_unchanged(set) {
                return Ok(());
            }
            let (name, there) = match begun.next() {
                Some(begun) => begun,
                None => (self.free_name(scope)?, BTreeSet::new()),
            };
            let mut made = Vec::new();
            match self.create_one(scope, templates, (&name, &there), &mut made).await {
                Ok(()) => {
                    context.event(
                        set,
                        EventType::Normal,
                        "SuccessfulCreate",
                        format!("Created Machine {name}"),
                    );
                }
                Err(error) => {
                    context.event(
                        set,
                        EventType::Warning,
                        "FailedCreate",
                        context.steady(format!("Could not create Machine {name}: {error}")),
                    );
                    // The machine may be there although the answer was lost, and would be left without its parts. If it is
                    // not, they are found because nothing refers to them.
                    if matches!(&error, WorkerError::Write(lost) if lost.may_have_happened()) {
                        return Err(error);
                    }
                    for (resource, object) in made {
                        // What is left if this fails too is found because nothing refers to it.
                        let _ = context.writer_of(&resource).delete(&object).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Whether the spec of a MachineSet is still the one that is being worked off. Its event brings the next reconcile.
    fn is_unchanged(&self, set: &MachineSet) -> bool {
        let now = self.sets.get(&ObjectKey::of(set));
        now.is_some_and(|now| {
            now.metadata.generation == set.metadata.generation && now.metadata.deletion_timestamp.is_none()
        })
    }

    /// A name that no machine has. Applying to one that exists would take it over.
    fn free_name(&self, scope: &Scope<'_>) -> Result<String, WorkerError> {
        let Scope { context, set, cluster } = *scope;
        let namespace = namespace_of(set)?;
        let template = &set.spec.machine_naming.template;
        loop {
            let random = context.name_suffix("Machine");
            let parts = NameParts {
                cluster: name_of(cluster)?,
                owner: NamedOwner::MachineSet(name_of(set)?),
                random: &random,
            };
            let name = machine_name(Some(template), parts)?;
            if self.machines.get(&ObjectKey::new(namespace, &name)).is_none() {
                return Ok(name);
            }
        }
    }

    /// The bootstrap config first, then the infrastructure, then the machine that refers to both.
    async fn create_one(
        &self,
        scope: &Scope<'_>,
        templates: &Templates,
        begun: (&str, &BTreeSet<String>),
        made: &mut Vec<(ApiResource, DynamicObject)>,
    ) -> Result<(), WorkerError> {
        let name = begun.0;
        let bootstrap = match &templates.bootstrap {
            Some(template) => Some(self.clone_part(scope, template, begun, made).await?),
            None => None,
        };
        // The caller has made sure that nothing is missing.
        let Some(infrastructure) = &templates.infrastructure else { return Ok(()) };
        let infrastructure = self.clone_part(scope, infrastructure, begun, made).await?;
        let machine = new_machine(scope.set, name, Parts { bootstrap, infrastructure })?;
        scope.context.writer::<Machine>().apply(MACHINE_SET_FIELD_MANAGER, &machine).await?;
        Ok(())
    }

    /// Clones a template, if there is no clone yet. Labels and annotations of the machine are brought to the clone by [`Sets::sync`], in the name of
    /// another field manager, so that they can change without its spec.
    async fn clone_part(
        &self,
        scope: &Scope<'_>,
        template: &External,
        (name, there): (&str, &BTreeSet<String>),
        made: &mut Vec<(ApiResource, DynamicObject)>,
    ) -> Result<ContractVersionedObjectReference, WorkerError> {
        let Scope { context, set, .. } = *scope;
        let mut object = FromTemplate {
            template: &template.object,
            name,
            cluster: &set.spec.cluster_name,
            owner: Some(owner_reference(set)?),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
        .object()?;
        let Some(types) = &mut object.types else {
            return Err(ExternalError::NoTemplate(name.to_owned(), "it has no apiVersion and kind").into());
        };
        let kind = self.externals.kind(context, &template.kind.resource.group, &types.kind).await?;
        types.api_version.clone_from(&kind.resource.api_version);
        let reference = ContractVersionedObjectReference {
            api_group: kind.resource.group.clone(),
            kind: kind.resource.kind.clone(),
            name: name.to_owned(),
        };
        if !there.contains(&kind.resource.kind) {
            let written = context.writer_of(&kind.resource).apply(MACHINE_SET_FIELD_MANAGER, &object).await?;
            made.push((kind.resource.clone(), written));
        }
        Ok(reference)
    }

    /// Clones that no machine refers to: the process was killed between making them and making the machine. Clones have the
    /// name of their machine. So many of them as machines are missing are to be used; the others are deleted. To begin
    /// anew each time would come to nothing where the process is killed again and again.
    ///
    /// Not to be called after machines were created in the same reconcile.
    pub(super) async fn begun(&self, scope: &Scope<'_>, missing: u32) -> Result<Begun, WorkerError> {
        let Scope { context, set, .. } = *scope;
        let (uid, namespace) = (uid_of(set)?, namespace_of(set)?);
        let spec = &set.spec.template.spec;
        let templates = [Some(&spec.infrastructure_ref), spec.bootstrap.config_ref.as_ref()];
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        let mut begun = Begun::new();
        for template in templates.into_iter().flatten() {
            let Some(kind) = template.kind.strip_suffix("Template") else { continue };
            // A kind that does not exist has no objects.
            let Ok(kind) = self.externals.kind(context, &template.api_group, kind).await else { continue };
            let Ok(cache) = context.watch(&kind.resource).await else { continue };
            let is_referred_to = |name: &str| {
                let machines = self.by_part.find(namespace, name);
                machines.iter().any(|machine| {
                    let spec = &machine.spec;
                    let parts = [Some(&spec.infrastructure_ref), spec.bootstrap.config_ref.as_ref()];
                    parts.into_iter().flatten().any(|to| to.kind == kind.resource.kind && to.name == name)
                })
            };
            for leak in cache.owned_by(uid).iter().filter(|object| {
                object.metadata.deletion_timestamp.is_none()
                    && !is_referred_to(text(object.metadata.name.as_ref()))
            }) {
                // The two caches are filled by different watches: that no machine is seen proves nothing.
                let key = ObjectKey::new(namespace, text(leak.metadata.name.as_ref()));
                let machine = context.get::<Machine>(&key).await;
                let machine = machine.map_err(|error| WorkerError::read(format!("Machine {key}"), &error))?;
                if machine.is_some() {
                    continue;
                }
                // What belonged to a machine once was used: it was given its labels. Only what never did is as good as
                // new.
                let managers = leak.metadata.managed_fields.iter().flatten();
                let mut managers = managers.filter_map(|entry| entry.manager.as_deref());
                let is_new = managers.all(|manager| manager != MACHINE_SET_METADATA_FIELD_MANAGER)
                    && leak.metadata.owner_references.iter().flatten().all(|owner| owner.uid == uid)
                    && annotation(&leak.metadata, CLONED_FROM_NAME_ANNOTATION) == Some(&template.name);
                let is_missing = begun.contains_key(&key.name) || begun.len() < missing;
                if is_new && is_missing {
                    begun.entry(key.name).or_default().insert(kind.resource.kind.clone());
                } else {
                    context.writer_of(&kind.resource).delete_unchanged(leak.as_ref()).await?;
                }
            }
        }
        Ok(begun)
    }
}
