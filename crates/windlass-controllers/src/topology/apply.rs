//! Makes what there is what it should be.

use std::sync::Arc;

use kube::api::{DynamicObject, ObjectMeta};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, MachineDeployment, MachineHealthCheck, MachinePool};
use windlass_api::names::{
    ACKNOWLEDGED_TARGET_ANNOTATION, APPROVED_ANNOTATION, CLUSTER_NAME_LABEL, PENDING_HOOKS_ANNOTATION,
    TOPOLOGY_DRY_RUN_ANNOTATION, TOPOLOGY_FIELD_MANAGER, TOPOLOGY_OWNED_LABEL, UPGRADE_STEP_ANNOTATION,
};
use windlass_engine::contract::Contract;
use windlass_engine::topology::desired::{
    Desired, DesiredGroup, DesiredWorkers, Names, TemplateChange, reference, template_change,
};
use windlass_engine::topology::{
    Decision, GroupAction, GroupDecision, Lost, WorkerKind, different_fields, lost_fields,
};
use windlass_runtime::{Applied, Cache, Context, EventType, Kind, ObjectKey, Writer};
use windlass_version::Version;

use super::blueprint::{place_of, to_value};
use super::current::Current;
use super::errors::TopologyError;

/// Applies the objects of one topology.
pub(super) struct Applier<'a> {
    pub(super) context: &'a Context,
    pub(super) cluster: &'a Cluster,
    pub(super) current: &'a Current,
    pub(super) control_plane_contract: Contract,
    pub(super) health_checks: &'a Cache<MachineHealthCheck>,
    /// Whether fields may go that are not in the topology.
    pub(super) is_taken_over: bool,
}

impl Applier<'_> {
    /// Records what is promised: hooks that are pending and the step that is under way. Must be there before anything
    /// moves, so that a crash loses nothing.
    ///
    /// It is promised for the target that the decision was made for, and for no other: if the target has changed since,
    /// the write conflicts and it is decided anew. Admission reads the promise when the target is changed, so one of the
    /// two always sees the other.
    pub(super) async fn marks(&self, decision: &Decision) -> Result<(), TopologyError> {
        let text = |version: &Option<Version>| version.as_ref().map(Version::to_string);
        let approved = if decision.ends_upgrade { decision.approvals_left.clone() } else { None };
        let mut marks = vec![
            (PENDING_HOOKS_ANNOTATION, decision.pending_hooks.annotation()),
            (UPGRADE_STEP_ANNOTATION, text(&decision.upgrade_step)),
            (ACKNOWLEDGED_TARGET_ANNOTATION, text(&decision.acknowledged_target)),
        ];
        if decision.ends_upgrade {
            marks.push((APPROVED_ANNOTATION, approved));
        }
        let annotations = self.cluster.annotations();
        // Upstream leaves marks empty that say nothing.
        marks
            .retain(|(key, value)| annotations.get(*key).filter(|there| !there.is_empty()) != value.as_ref());
        if marks.is_empty() {
            return Ok(());
        }
        let target = self.cluster.spec.topology.as_ref().map(|topology| &topology.version);
        // An empty value is a removal on purpose: admission takes such a key away, and puts back one that is just missing.
        let removed: Vec<&str> =
            marks.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| *key).collect();
        let values: Vec<(&str, String)> =
            marks.iter().map(|(key, value)| (*key, value.clone().unwrap_or_default())).collect();
        let writer = self.context.writer::<Cluster>();
        let unchanged = [("/spec/topology/version", json!(target))];
        let written = writer.annotate_if(self.cluster, &unchanged, &values).await?;
        let before = annotations.get(ACKNOWLEDGED_TARGET_ANNOTATION);
        if let (Some(before), Some(now)) = (before, text(&decision.acknowledged_target))
            && *before != now
        {
            self.event("UpgradeRetargeted", format!("The upgrade to {before} goes to {now} instead"));
        }
        let left: Vec<&str> =
            removed.into_iter().filter(|key| written.annotations().contains_key(*key)).collect();
        if !left.is_empty() {
            let gone: serde_json::Map<String, Value> =
                left.into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
            let patch = json!({"metadata": {"uid": self.cluster.uid(), "annotations": gone}});
            writer.patch_unconditionally(&ObjectKey::of(self.cluster), patch).await?;
        }
        Ok(())
    }

    /// Everything else, in an order in which nothing refers to what is not there.
    pub(super) async fn all(&self, mut desired: Desired, decision: &Decision) -> Result<(), TopologyError> {
        let current = self.current.infrastructure.as_deref();
        self.provided(current, &desired.infrastructure, None).await?;
        self.control_plane(&mut desired, decision).await?;
        self.references(&desired).await?;
        let check = desired.control_plane_health_check.as_ref();
        self.health_check(&reference(&desired.control_plane).name, check).await?;
        self.leaving(decision).await?;
        for group in desired.workers {
            let decided = decision.workers.iter().find(|decided| {
                decided.id.kind == group.kind() && decided.topology_name == group.topology_name
            });
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
            let reference = self.control_plane_contract.machine_template_infrastructure_ref();
            if let (Some(name), Some(reference)) =
                (template.pointer("/metadata/name"), desired.control_plane.pointer_mut(reference))
            {
                reference["name"] = name.clone();
            }
        }
        let current = self.current.control_plane.as_ref().map(|found| found.object.as_ref());
        let from = current.and_then(|current| current.data.pointer("/spec/version")).and_then(Value::as_str);
        let to = decision.control_plane.version.to_string();
        let change = from.filter(|from| *from != to).map(|from| format!("from {from} to {to}"));
        if let Some(former) = &decision.control_plane.redirected_from {
            self.event("UpgradeStepRedirected", format!("The step to {former} goes to {to} instead"));
        }
        self.provided(current, &desired.control_plane, change).await
    }

    /// The Cluster refers to its parts and has the labels of a topology.
    async fn references(&self, desired: &Desired) -> Result<(), TopologyError> {
        let (infrastructure, control_plane) =
            (reference(&desired.infrastructure), reference(&desired.control_plane));
        let spec = &self.cluster.spec;
        let labels = self.cluster.labels();
        let name = self.cluster.name_any();
        if spec.infrastructure_ref.as_ref() == Some(&infrastructure)
            && spec.control_plane_ref.as_ref() == Some(&control_plane)
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
        let change = match &decided.action {
            GroupAction::Upgrade { from } => Some(format!("from {from} to {}", decided.version)),
            _ => None,
        };
        let is_leaving = self.group_metadata(&group).is_some_and(|meta| meta.deletion_timestamp.is_some());
        let is_written = decided.may_be_written() && !is_leaving;
        if is_written {
            self.parts(&mut group).await?;
        }
        let entry = &group.topology_name;
        match group.workers {
            DesiredWorkers::MachineDeployment { object, health_check } => {
                if is_written {
                    let current = self.current.machine_deployments.get(entry);
                    self.own(current.map(Arc::as_ref), object.as_ref(), change).await?;
                }
                self.health_check(&object.name_any(), health_check.as_deref()).await
            }
            DesiredWorkers::MachinePool(object) if is_written => {
                let current = self.current.machine_pools.get(entry);
                self.own(current.map(Arc::as_ref), object.as_ref(), change).await
            }
            DesiredWorkers::MachinePool(_) => Ok(()),
        }
    }

    fn group_metadata(&self, group: &DesiredGroup) -> Option<&ObjectMeta> {
        let entry = &group.topology_name;
        match group.kind() {
            WorkerKind::MachineDeployment => Some(&self.current.machine_deployments.get(entry)?.metadata),
            WorkerKind::MachinePool => Some(&self.current.machine_pools.get(entry)?.metadata),
        }
    }

    /// Bootstrap and infrastructure of a group. Templates that are replaced have other names from then on.
    async fn parts(&self, group: &mut DesiredGroup) -> Result<(), TopologyError> {
        match group.kind() {
            WorkerKind::MachineDeployment => {
                for part in [&mut group.bootstrap, &mut group.infrastructure] {
                    self.template(part, Some(&group.topology_name)).await?;
                }
                group.refer_to_parts();
            }
            WorkerKind::MachinePool => {
                for part in [&group.bootstrap, &group.infrastructure] {
                    let (resource, key) = place_of(part)?;
                    let found = self.context.watch(&resource).await?.get(&key);
                    self.provided(found.as_deref(), part, None).await?;
                }
            }
        }
        Ok(())
    }

    /// Deletes groups that are not in the topology. Nothing holds that back.
    async fn leaving(&self, decision: &Decision) -> Result<(), TopologyError> {
        let is_left = |kind: WorkerKind, entry: &str| {
            !decision.workers.iter().any(|group| group.id.kind == kind && group.topology_name == entry)
        };
        for (entry, group) in &self.current.machine_deployments {
            if is_left(WorkerKind::MachineDeployment, entry) && group.metadata.deletion_timestamp.is_none() {
                self.health_check(&group.name_any(), None).await?;
                self.context.writer::<MachineDeployment>().delete(group.as_ref()).await?;
                self.event("TopologyDelete", format!("Deleted MachineDeployment {}", group.name_any()));
            }
        }
        for (entry, group) in &self.current.machine_pools {
            if is_left(WorkerKind::MachinePool, entry) && group.metadata.deletion_timestamp.is_none() {
                self.context.writer::<MachinePool>().delete(group.as_ref()).await?;
                self.event("TopologyDelete", format!("Deleted MachinePool {}", group.name_any()));
            }
        }
        Ok(())
    }

    async fn health_check(
        &self,
        name: &str,
        desired: Option<&MachineHealthCheck>,
    ) -> Result<(), TopologyError> {
        let key = ObjectKey::new(ObjectKey::of(self.cluster).namespace, name);
        let current = self.health_checks.get(&key);
        match (desired, current) {
            (Some(desired), current) => self.own(current.as_deref(), desired, None).await,
            (None, Some(current)) if current.labels().contains_key(TOPOLOGY_OWNED_LABEL) => {
                self.context.writer::<MachineHealthCheck>().delete(current.as_ref()).await?;
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// Applies an object of one of our own kinds.
    async fn own<K>(
        &self,
        current: Option<&K>,
        desired: &K,
        version_change: Option<String>,
    ) -> Result<(), TopologyError>
    where
        K: Kind + Resource<DynamicType = ()> + Serialize,
    {
        self.object(&self.context.writer::<K>(), &K::kind(&()), current, desired, version_change).await
    }

    /// Applies an object of a provider.
    async fn provided(
        &self,
        current: Option<&DynamicObject>,
        desired: &Value,
        version_change: Option<String>,
    ) -> Result<(), TopologyError> {
        let (resource, _) = place_of(desired)?;
        let writer = self.context.writer_of(&resource);
        self.object(&writer, &resource.kind, current, desired, version_change).await
    }

    /// Applies an object, unless it is up to date.
    async fn object<K: Kind + Serialize>(
        &self,
        writer: &Writer<K>,
        kind: &str,
        current: Option<&K>,
        desired: &impl Serialize,
        version_change: Option<String>,
    ) -> Result<(), TopologyError> {
        let Some(current) = current else {
            let created = writer.apply(TOPOLOGY_FIELD_MANAGER, desired).await?;
            self.event("TopologyCreate", format!("Created {kind} {}", created.name_any()));
            return Ok(());
        };
        if !self.is_taken_over && !writer.is_applied(TOPOLOGY_FIELD_MANAGER, current, desired)? {
            let after = writer.dry_run_apply(TOPOLOGY_FIELD_MANAGER, desired).await?;
            self.refuse_loss(kind, current, lost_fields(&to_value(current)?, &to_value(&after)?))?;
        }
        let applied = writer.ensure_applied(TOPOLOGY_FIELD_MANAGER, current, desired).await?;
        let Applied::Written(written) = applied else { return Ok(()) };
        let name = written.name_any();
        if let Some(change) = version_change {
            self.event("TopologyUpdate", format!("Updated {kind} {name} with version change {change}"));
        } else if current.meta().generation != written.meta().generation {
            self.event("TopologyUpdate", format!("Updated {kind} {name}"));
        }
        Ok(())
    }

    /// Applies a template. If what machines are made from changes, a new one is made, and `desired` has its name.
    async fn template(&self, desired: &mut Value, entry: Option<&str>) -> Result<(), TopologyError> {
        let (resource, key) = place_of(desired)?;
        let cache = self.context.watch(&resource).await?;
        let Some(current) = cache.get(&key) else {
            return self.provided(None, desired, None).await;
        };
        let writer = self.context.writer_of(&resource);
        if writer.is_applied(TOPOLOGY_FIELD_MANAGER, &current, desired)? {
            return Ok(());
        }
        // Webhooks that refuse changes of templates let these pass, and may fill in what older releases stored: in both
        // or in none, so that what they fill in is no difference.
        let mut intent = desired.clone();
        intent["metadata"]["uid"] = json!(current.metadata.uid);
        intent["metadata"]["annotations"][TOPOLOGY_DRY_RUN_ANNOTATION] = json!("");
        let wanted = writer.dry_run_apply(TOPOLOGY_FIELD_MANAGER, &intent).await?;
        let mark = json!({"metadata": {"annotations": {TOPOLOGY_DRY_RUN_ANNOTATION: ""}}});
        let there = writer.dry_run_patch(&current, mark).await?;
        let (there, wanted) = (to_value(&there)?, to_value(&wanted)?);
        match template_change(&there, &wanted) {
            TemplateChange::None => {
                writer.note_applied(TOPOLOGY_FIELD_MANAGER, &current, desired)?;
                Ok(())
            }
            TemplateChange::Metadata => self.provided(Some(current.as_ref()), desired, None).await,
            TemplateChange::Spec => {
                if !self.is_taken_over {
                    let fields = different_fields(&there, &wanted);
                    self.refuse_loss(&resource.kind, current.as_ref(), fields)?;
                }
                let name = self.fresh_name(entry)?;
                desired["metadata"]["name"] = json!(name);
                self.provided(None, desired, None).await
            }
        }
    }

    /// Nothing may be lost by the first apply to what upstream made.
    fn refuse_loss<K: Kind>(
        &self,
        kind: &str,
        current: &K,
        fields: Vec<String>,
    ) -> Result<(), TopologyError> {
        if fields.is_empty() {
            return Ok(());
        }
        let object = format!("{kind} {}", current.name_any());
        let cluster = format!("{} -n {}", self.cluster.name_any(), ObjectKey::of(self.cluster).namespace);
        Err(TopologyError::TakeOver(Box::new(Lost { object, fields, cluster })))
    }

    fn fresh_name(&self, entry: Option<&str>) -> Result<String, TopologyError> {
        let cluster = self.cluster.name_any();
        let mut source = |what: &str| self.context.name_suffix(what);
        let mut names = Names::new(&cluster, &mut source);
        let name = match entry {
            Some(entry) => names.of_group(None, "", WorkerKind::MachineDeployment, entry),
            None => names.of_cluster(None, ""),
        };
        Ok(name.map_err(windlass_engine::topology::desired::BuildError::from)?)
    }

    fn event(&self, reason: &str, message: String) {
        self.context.event(self.cluster, EventType::Normal, reason, message);
    }
}
