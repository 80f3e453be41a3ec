//! Doing the one thing that was decided.

use std::sync::Arc;

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::Machine;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    KCP_CLEANUP_ANNOTATION, KUBEADM_CONTROL_PLANE_FIELD_MANAGER, KUBEADM_CONTROL_PLANE_FINALIZER,
    REMEDIATION_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::control_plane::desired::{self, NewMachine};
use windlass_engine::control_plane::etcd::successors;
use windlass_engine::control_plane::kubeadm_config::Form;
use windlass_engine::control_plane::{Action, Observed, RemediationRecord, Step};
use windlass_engine::machine_set::{NameParts, NamedOwner, machine_name};
use windlass_runtime::{Context, EventType, ObjectKey, controller_reference};

use super::ask::Decided;
use super::{ControlPlaneError, ControlPlaneReconciler, Scope, etcd};

impl ControlPlaneReconciler {
    pub(super) async fn act(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        observed: &Observed,
        decided: &Decided,
    ) -> Result<(), ControlPlaneError> {
        let decision = &decided.decision;
        if decision.remediation_done {
            self.record_remediation(scope, None).await?;
        }
        let Step::Act(action) = &decision.step else { return Ok(()) };
        let named = |name: &str| machines.iter().find(|machine| machine.name_any() == name);
        let event = |reason: &str, message: String| {
            scope.context.event(scope.control_plane, EventType::Normal, reason, message);
        };
        match action {
            Action::Initialize { failure_domain, remediation_for } => {
                let domain = failure_domain.as_deref();
                let name = self.create(scope, domain, remediation_for.as_ref(), Form::Init).await?;
                event("SuccessfulCreate", format!("Created Machine {name}, which starts the cluster"));
            }
            Action::Join { failure_domain, remediation_for, .. } => {
                let domain = failure_domain.as_deref();
                let name = self.create(scope, domain, remediation_for.as_ref(), Form::Join).await?;
                event("SuccessfulCreate", format!("Created Machine {name}, {}", versions(observed)));
            }
            Action::Delete { machine, .. } => {
                self.resign(scope, machines, observed, machine).await?;
                if let Some(machine) = named(machine) {
                    scope.context.writer::<Machine>().delete(machine).await?;
                }
                event("SuccessfulDelete", format!("Deleted Machine {machine}"));
            }
            Action::Remediate(record) => {
                self.resign(scope, machines, observed, &record.machine).await?;
                self.record_remediation(scope, Some(record)).await?;
                if let Some(machine) = named(&record.machine) {
                    scope.context.writer::<Machine>().delete(machine).await?;
                }
                event(
                    "MachineRemediation",
                    format!("Deleted Machine {}, which is not healthy", record.machine),
                );
            }
            Action::ReleaseMachine { machine, member, successors } => {
                if let Some(member) = member {
                    self.hand_over(scope, member, successors).await?;
                    self.remove_member(scope, machines, Some(member), |other| other.name == *member).await?;
                }
                if let Some(machine) = named(machine) {
                    release(scope, machine).await?;
                }
            }
            Action::RemoveMember { id, member } => {
                self.remove_member(scope, machines, None, |other| other.id.0 == *id).await?;
                event("EtcdMemberRemoved", format!("Removed etcd member {member}, which has no Machine"));
            }
            Action::DeleteAll { delete, release: released } => {
                for machine in delete.iter().filter_map(|name| named(name)) {
                    scope.context.writer::<Machine>().delete(machine).await?;
                }
                for machine in released.iter().filter_map(|name| named(name)) {
                    release(scope, machine).await?;
                }
            }
            Action::Finish => {
                remove_finalizer(scope.control_plane, scope.context).await?;
                self.forget(scope.control_plane)?;
            }
            Action::TriggerInPlace { machine } => {
                if let Some(machine) = named(machine) {
                    self.trigger_in_place(scope, machine, &decided.update).await?;
                }
                event(
                    "SuccessfulStartInPlaceUpdate",
                    format!("Started the in-place update of Machine {machine}"),
                );
            }
            // Every extension that could be asked was asked before the decision.
            Action::AskInPlace { .. } | Action::AskExternal => {}
        }
        Ok(())
    }

    /// Hands over what the etcd member of a Machine leads, before the Machine goes: an election takes time, in which nothing
    /// is written. It is done again before the member goes, because users delete Machines, too.
    async fn resign(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        observed: &Observed,
        machine: &str,
    ) -> Result<(), ControlPlaneError> {
        let node = etcd::node_of(machines, machine);
        let is_known = observed.initialized && observed.etcd.is_managed();
        let (Some(node), true) = (node, is_known) else { return Ok(()) };
        let successors = successors(machine, &observed.machines);
        if successors.is_empty() {
            return Ok(());
        }
        self.hand_over(scope, &node, &successors).await
    }

    /// Makes a Machine, and what belongs to it. After a crash in between, what is missing is made from the Machine.
    async fn create(
        &self,
        scope: &Scope<'_>,
        failure_domain: Option<&str>,
        remediation_for: Option<&RemediationRecord>,
        form: Form,
    ) -> Result<String, ControlPlaneError> {
        // Without a template there would be a Machine that never becomes anything.
        self.template(scope).await?;
        let name = self.name(scope)?;
        let new = NewMachine {
            name: &name,
            failure_domain,
            remediation_for: remediation_for.map(RemediationRecord::to_annotation),
        };
        let owner = controller_reference(scope.control_plane)?;
        let intent = desired::new_machine(scope.control_plane, &scope.cluster_name(), owner, &new);
        let writer = scope.context.writer::<Machine>();
        let machine = writer.apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &intent).await?;
        self.complete(scope, &machine, form).await?;
        Ok(name)
    }

    fn name(&self, scope: &Scope<'_>) -> Result<String, ControlPlaneError> {
        let (own, random) = (scope.control_plane.name_any(), scope.context.name_suffix("Machine"));
        let owner = NamedOwner::KubeadmControlPlane(&own);
        let parts = NameParts { cluster: &scope.cluster_name(), owner, random: &random };
        let name = machine_name(Some(&scope.control_plane.spec.machine_naming.template), parts)?;
        match self.machines.get(&ObjectKey::new(scope.namespace(), &name)) {
            Some(_) => Err(ControlPlaneError::NameTaken(name)),
            None => Ok(name),
        }
    }

    /// Writes which remediation is under way. Merged without a lock: this controller alone writes this annotation.
    async fn record_remediation(
        &self,
        scope: &Scope<'_>,
        record: Option<&RemediationRecord>,
    ) -> Result<(), ControlPlaneError> {
        let value = record.map(RemediationRecord::to_annotation);
        let patch = json!({"metadata": {"annotations": {REMEDIATION_IN_PROGRESS_ANNOTATION: value}}});
        let key = ObjectKey::of(scope.control_plane);
        scope.context.writer::<KubeadmControlPlane>().patch_unconditionally(&key, patch).await?;
        Ok(())
    }
}

pub(super) async fn remove_finalizer(
    control_plane: &KubeadmControlPlane,
    context: &Context,
) -> Result<(), ControlPlaneError> {
    let kept = control_plane.finalizers().iter();
    let kept: Vec<&String> = kept.filter(|f| *f != KUBEADM_CONTROL_PLANE_FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": kept}});
    context.writer::<KubeadmControlPlane>().patch(control_plane, patch).await?;
    Ok(())
}

/// Takes our hook off a Machine, so that its infrastructure can go.
async fn release(scope: &Scope<'_>, machine: &Machine) -> Result<(), ControlPlaneError> {
    let patch = json!({"metadata": {"annotations": {KCP_CLEANUP_ANNOTATION: null}}});
    let writer = scope.context.writer::<Machine>();
    match writer.patch_unconditionally(&ObjectKey::of(machine), patch).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}

fn versions(observed: &Observed) -> String {
    format!("version {}", observed.version)
}
