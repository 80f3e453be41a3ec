//! Makes what there is what it should be.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use kube::api::{DynamicObject, ObjectMeta};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, MachineDeployment, MachineHealthCheck, MachinePool};
use windlass_api::names::{
    CLUSTER_NAME_LABEL, PENDING_HOOKS_ANNOTATION, TOPOLOGY_DRY_RUN_ANNOTATION, TOPOLOGY_FIELD_MANAGER,
    TOPOLOGY_OWNED_LABEL, UPGRADE_STEP_ANNOTATION,
};
use windlass_engine::intent::is_applied;
use windlass_engine::topology::desired::{Desired, DesiredGroup, Names, TemplateChange, template_change};
use windlass_engine::topology::{Decision, GroupAction, GroupDecision, GroupKind};
use windlass_reconcile::{Cache, Context, EventType, ObjectKey};
use windlass_version::Version;

use super::blueprint::{resource_of, to_value};
use super::current::Current;
use super::errors::TopologyError;

/// What was applied last, and to what: what has not changed since need not be applied again. Losing it costs requests,
/// nothing else.
#[derive(Debug, Clone, Default)]
pub(super) struct Applied(Arc<Mutex<BTreeMap<String, (u64, u64)>>>);

impl Applied {
    fn is_known(&self, key: &str, desired: &Value, meta: &ObjectMeta) -> bool {
        self.lock().get(key) == Some(&(hash_of(desired), fingerprint(meta)))
    }

    fn remember(&self, key: String, desired: &Value, meta: &ObjectMeta) {
        self.lock().insert(key, (hash_of(desired), fingerprint(meta)));
    }

    fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (u64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash_of(value: &impl serde::Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(value).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// Changes with everything that an intent may be about: the generation counts changes of the spec.
fn fingerprint(meta: &ObjectMeta) -> u64 {
    hash_of(&(&meta.uid, meta.generation, &meta.labels, &meta.annotations, &meta.owner_references))
}

/// Applies the objects of one topology.
pub(super) struct Applier<'a> {
    pub(super) context: &'a Context,
    pub(super) applied: &'a Applied,
    pub(super) cluster: &'a Cluster,
    pub(super) current: &'a Current,
    pub(super) health_checks: &'a Cache<MachineHealthCheck>,
}

impl Applier<'_> {
    /// Records what is promised: hooks that are pending and the step that is under way. Must be there before anything
    /// moves, so that a crash loses nothing.
    pub(super) async fn marks(&self, decision: &Decision) -> Result<(), TopologyError> {
        let pending = decision.pending_hooks.annotation();
        let step = decision.upgrade_step.as_ref().map(Version::to_string);
        let annotations = self.cluster.annotations();
        if annotations.get(PENDING_HOOKS_ANNOTATION) == pending.as_ref()
            && annotations.get(UPGRADE_STEP_ANNOTATION) == step.as_ref()
        {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "uid": self.cluster.uid(),
            "annotations": {PENDING_HOOKS_ANNOTATION: pending, UPGRADE_STEP_ANNOTATION: step},
        }});
        let key = ObjectKey::of(self.cluster);
        self.context.writer::<Cluster>().patch_unconditionally(&key, patch).await?;
        Ok(())
    }

    /// Everything else, in an order in which nothing refers to what is not there.
    pub(super) async fn all(&self, mut desired: Desired, decision: &Decision) -> Result<(), TopologyError> {
        let current = self.current.infrastructure.as_deref();
        self.object(current, &desired.infrastructure, None).await?;
        self.control_plane(&mut desired, decision).await?;
        self.references(&desired).await?;
        let control_plane = desired.control_plane.pointer("/metadata/name").and_then(Value::as_str);
        let check = desired.control_plane_health_check.as_ref();
        self.health_check(control_plane.unwrap_or_default(), check).await?;
        self.leaving(decision).await?;
        for group in desired.workers {
            let kind = match group.object.get("kind").and_then(Value::as_str) {
                Some(kind) if kind == MachinePool::KIND => GroupKind::MachinePool,
                _ => GroupKind::MachineDeployment,
            };
            let decided = decision
                .workers
                .iter()
                .find(|decided| decided.id.kind == kind && decided.topology_name == group.topology_name);
            if let Some(decided) = decided {
                self.group(group, decided).await?;
            }
        }
        Ok(())
    }

    /// While the control plane has steps to go, it is not touched except to start one.
    async fn control_plane(&self, desired: &mut Desired, decision: &Decision) -> Result<(), TopologyError> {
        if !decision.control_plane.may_be_written() {
            return Ok(());
        }
        if let Some(template) = &mut desired.control_plane_machines {
            self.template(template, None).await?;
            let name = template.pointer("/metadata/name").cloned().unwrap_or_default();
            if let Some(reference) =
                desired.control_plane.pointer_mut("/spec/machineTemplate/spec/infrastructureRef/name")
            {
                *reference = name;
            }
        }
        let current = self.current.control_plane.as_ref().map(|found| found.object.as_ref());
        let from = current.and_then(|current| current.data.pointer("/spec/version")).and_then(Value::as_str);
        let to = decision.control_plane.version.to_string();
        let change = from.filter(|from| *from != to).map(|from| format!("from {from} to {to}"));
        self.object(current, &desired.control_plane, change).await
    }

    /// The Cluster refers to its parts and has the labels of a topology.
    async fn references(&self, desired: &Desired) -> Result<(), TopologyError> {
        let reference = |object: &Value| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
            json!({"apiGroup": group, "kind": text("/kind"), "name": text("/metadata/name")})
        };
        let (infrastructure, control_plane) =
            (reference(&desired.infrastructure), reference(&desired.control_plane));
        let spec = &self.cluster.spec;
        let labels = self.cluster.labels();
        let name = self.cluster.name_any();
        if json!(spec.infrastructure_ref) == infrastructure
            && json!(spec.control_plane_ref) == control_plane
            && labels.get(CLUSTER_NAME_LABEL) == Some(&name)
            && labels.contains_key(TOPOLOGY_OWNED_LABEL)
        {
            return Ok(());
        }
        let patch = json!({
            "metadata": {
                "uid": self.cluster.uid(),
                "labels": {CLUSTER_NAME_LABEL: name, TOPOLOGY_OWNED_LABEL: ""},
            },
            "spec": {"infrastructureRef": infrastructure, "controlPlaneRef": control_plane},
        });
        let key = ObjectKey::of(self.cluster);
        self.context.writer::<Cluster>().patch_unconditionally(&key, patch).await?;
        Ok(())
    }

    async fn group(&self, mut group: DesiredGroup, decided: &GroupDecision) -> Result<(), TopologyError> {
        if matches!(decided.action, GroupAction::CreateLater(_)) {
            return Ok(());
        }
        let name =
            group.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let current = self.current_group(decided.id.kind, &group.topology_name);
        let is_leaving =
            current.as_ref().is_some_and(|current| current.metadata.deletion_timestamp.is_some());
        if decided.may_be_written() && !is_leaving {
            match decided.id.kind {
                GroupKind::MachineDeployment => {
                    self.template(&mut group.bootstrap, Some(&group.topology_name)).await?;
                    self.template(&mut group.infrastructure, Some(&group.topology_name)).await?;
                    for (template, pointer) in [
                        (&group.bootstrap, "/spec/template/spec/bootstrap/configRef/name"),
                        (&group.infrastructure, "/spec/template/spec/infrastructureRef/name"),
                    ] {
                        let name = template.pointer("/metadata/name").cloned().unwrap_or_default();
                        if let Some(reference) = group.object.pointer_mut(pointer) {
                            *reference = name;
                        }
                    }
                }
                GroupKind::MachinePool => {
                    for part in [&group.bootstrap, &group.infrastructure] {
                        let cache = self.context.watch(&resource_of(part)).await?;
                        let found = cache.get(&key_of(part));
                        self.object(found.as_deref(), part, None).await?;
                    }
                }
            }
            let change = match &decided.action {
                GroupAction::Upgrade { from } => Some(format!("from {from} to {}", decided.version)),
                _ => None,
            };
            self.object(current.as_ref(), &group.object, change).await?;
        }
        if decided.id.kind == GroupKind::MachineDeployment {
            self.health_check(&name, group.health_check.as_ref()).await?;
        }
        Ok(())
    }

    fn current_group(&self, kind: GroupKind, entry: &str) -> Option<DynamicObject> {
        let value = match kind {
            GroupKind::MachineDeployment => {
                serde_json::to_value(self.current.machine_deployments.get(entry)?.as_ref())
            }
            GroupKind::MachinePool => serde_json::to_value(self.current.machine_pools.get(entry)?.as_ref()),
        };
        serde_json::from_value(value.ok()?).ok()
    }

    /// Deletes groups that are not in the topology. Nothing holds that back.
    async fn leaving(&self, decision: &Decision) -> Result<(), TopologyError> {
        let is_left = |kind: GroupKind, entry: &str| {
            !decision.workers.iter().any(|group| group.id.kind == kind && group.topology_name == entry)
        };
        for (entry, group) in &self.current.machine_deployments {
            if is_left(GroupKind::MachineDeployment, entry) && group.metadata.deletion_timestamp.is_none() {
                self.health_check(&group.name_any(), None).await?;
                self.context.writer::<MachineDeployment>().delete(group.as_ref()).await?;
                self.event("TopologyDelete", format!("Deleted MachineDeployment {}", group.name_any()));
            }
        }
        for (entry, group) in &self.current.machine_pools {
            if is_left(GroupKind::MachinePool, entry) && group.metadata.deletion_timestamp.is_none() {
                self.context.writer::<MachinePool>().delete(group.as_ref()).await?;
                self.event("TopologyDelete", format!("Deleted MachinePool {}", group.name_any()));
            }
        }
        Ok(())
    }

    async fn health_check(&self, name: &str, desired: Option<&Value>) -> Result<(), TopologyError> {
        let key = ObjectKey::new(self.cluster.namespace().unwrap_or_default(), name);
        let current = self.health_checks.get(&key);
        match (desired, current) {
            (Some(desired), current) => {
                let value = current.as_deref().map(serde_json::to_value).and_then(Result::ok);
                let current: Option<DynamicObject> =
                    value.and_then(|value| serde_json::from_value(value).ok());
                self.object(current.as_ref(), desired, None).await
            }
            (None, Some(current)) if current.labels().contains_key(TOPOLOGY_OWNED_LABEL) => {
                self.context.writer::<MachineHealthCheck>().delete(current.as_ref()).await?;
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// Applies an object, unless it is known to be as it should be.
    async fn object(
        &self,
        current: Option<&DynamicObject>,
        desired: &Value,
        version_change: Option<String>,
    ) -> Result<(), TopologyError> {
        let resource = resource_of(desired);
        let id = format!("{}/{}", resource.kind, key_of(desired));
        let mut intent = desired.clone();
        if let Some(current) = current {
            if self.applied.is_known(&id, desired, &current.metadata) {
                return Ok(());
            }
            // After a restart nothing is known, but the object tells. Were it written again all the same, a process
            // that dies after a few writes would never get further than those.
            if is_applied(TOPOLOGY_FIELD_MANAGER, &to_value(current), desired) {
                self.applied.remember(id, desired, &current.metadata);
                return Ok(());
            }
            // With the uid, an object that was deleted in the meantime is not created anew.
            intent["metadata"]["uid"] = json!(current.metadata.uid);
        } else {
            self.applied.forget(&id);
        }
        let written = self.context.writer_of(&resource).apply(TOPOLOGY_FIELD_MANAGER, &intent).await?;
        let (kind, name) = (&resource.kind, written.name_any());
        match (current, version_change) {
            (None, _) => self.event("TopologyCreate", format!("Created {kind} {name}")),
            (Some(_), Some(change)) => {
                self.event("TopologyUpdate", format!("Updated {kind} {name} with version change {change}"));
            }
            (Some(current), None) if current.metadata.generation != written.metadata.generation => {
                self.event("TopologyUpdate", format!("Updated {kind} {name}"));
            }
            (Some(_), None) => {}
        }
        self.applied.remember(id, desired, &written.metadata);
        Ok(())
    }

    /// Applies a template. If what machines are made from changes, a new one is made, and `desired` has its name.
    async fn template(&self, desired: &mut Value, entry: Option<&str>) -> Result<(), TopologyError> {
        let resource = resource_of(desired);
        let cache = self.context.watch(&resource).await?;
        let Some(current) = cache.get(&key_of(desired)) else {
            return self.object(None, desired, None).await;
        };
        let id = format!("{}/{}", resource.kind, key_of(desired));
        if self.applied.is_known(&id, desired, &current.metadata) {
            return Ok(());
        }
        let mut intent = desired.clone();
        intent["metadata"]["uid"] = json!(current.metadata.uid);
        // Whoever refuses changes of templates lets this pass.
        intent["metadata"]["annotations"][TOPOLOGY_DRY_RUN_ANNOTATION] = json!("");
        let writer = self.context.writer_of(&resource);
        let dry = writer.dry_run_apply(TOPOLOGY_FIELD_MANAGER, &intent).await?;
        let mut dry = to_value(&dry);
        if let Some(annotations) = dry.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove(TOPOLOGY_DRY_RUN_ANNOTATION);
        }
        match template_change(&to_value(&current), &dry) {
            TemplateChange::None => {
                self.applied.remember(id, desired, &current.metadata);
                Ok(())
            }
            TemplateChange::Metadata => self.object(Some(current.as_ref()), desired, None).await,
            TemplateChange::Spec => {
                let name = self.fresh_name(entry)?;
                desired["metadata"]["name"] = json!(name);
                self.object(None, desired, None).await
            }
        }
    }

    fn fresh_name(&self, entry: Option<&str>) -> Result<String, TopologyError> {
        let cluster = self.cluster.name_any();
        let mut source = || self.context.name_suffix();
        let mut names = Names::new(&cluster, &mut source);
        let name = match entry {
            Some(entry) => names.of_group(None, "", "machineDeployment", entry),
            None => names.of_cluster(None, ""),
        };
        Ok(name.map_err(windlass_engine::topology::desired::BuildError::from)?)
    }

    fn event(&self, reason: &str, message: String) {
        self.context.event(self.cluster, EventType::Normal, reason, message);
    }
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    ObjectKey::new(text("/metadata/namespace"), text("/metadata/name"))
}
