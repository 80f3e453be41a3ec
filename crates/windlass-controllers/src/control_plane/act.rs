//! Doing the one thing that was decided.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use serde_json::json;
use windlass_api::cluster::Machine;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    KCP_CLEANUP_ANNOTATION, KUBEADM_CONTROL_PLANE_FIELD_MANAGER, KUBEADM_CONTROL_PLANE_FINALIZER,
    REMEDIATION_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::control_plane::desired::{self, NewMachine};
use windlass_engine::control_plane::kubeadm_config::Form;
use windlass_engine::control_plane::{Action, Observed, RemediationRecord, Step};
use windlass_engine::topology::gotemplate::{self, MissingKey};
use windlass_reconcile::{Context, EventType, ObjectKey};

use super::ask::Decided;
use super::{ControlPlaneError, ControlPlaneReconciler, Scene, etcd};

impl ControlPlaneReconciler {
    pub(super) async fn act(
        &self,
        scene: &Scene<'_>,
        machines: &[Arc<Machine>],
        observed: &Observed,
        decided: &Decided,
    ) -> Result<(), ControlPlaneError> {
        let decision = &decided.decision;
        if decision.remediation_done {
            self.record_remediation(scene, None).await?;
        }
        let Step::Act(action) = &decision.step else { return Ok(()) };
        let named = |name: &str| machines.iter().find(|machine| machine.name_any() == name);
        let event = |reason: &str, message: String| {
            scene.context.event(scene.control_plane, EventType::Normal, reason, message);
        };
        match action {
            Action::Initialize { failure_domain, remediation_for } => {
                let domain = failure_domain.as_deref();
                let name = self.create(scene, domain, remediation_for.as_ref(), Form::Init).await?;
                event("SuccessfulCreate", format!("Created Machine {name}, which starts the cluster"));
            }
            Action::Join { failure_domain, remediation_for, .. } => {
                let domain = failure_domain.as_deref();
                let name = self.create(scene, domain, remediation_for.as_ref(), Form::Join).await?;
                event("SuccessfulCreate", format!("Created Machine {name}, {}", versions(observed)));
            }
            Action::Delete { machine, .. } => {
                if let Some(machine) = named(machine) {
                    scene.context.writer::<Machine>().delete(machine).await?;
                }
                event("SuccessfulDelete", format!("Deleted Machine {machine}"));
            }
            Action::Remediate(record) => {
                self.record_remediation(scene, Some(record)).await?;
                if let Some(machine) = named(&record.machine) {
                    scene.context.writer::<Machine>().delete(machine).await?;
                }
                event(
                    "MachineRemediation",
                    format!("Deleted Machine {}, which is not healthy", record.machine),
                );
            }
            Action::ReleaseMachine { machine, member, leader } => {
                if let Some(member) = member {
                    let client = self.workload_client(scene).await?;
                    etcd::remove(client, member, leader.as_deref(), scene.context.now()).await?;
                }
                if let Some(machine) = named(machine) {
                    release(scene, machine).await?;
                }
            }
            Action::RemoveMember { member } => {
                let client = self.workload_client(scene).await?;
                etcd::remove(client, member, None, scene.context.now()).await?;
                event("EtcdMemberRemoved", format!("Removed etcd member {member}, which has no Machine"));
            }
            Action::DeleteAll { delete, release: released } => {
                for machine in delete.iter().filter_map(|name| named(name)) {
                    scene.context.writer::<Machine>().delete(machine).await?;
                }
                for machine in released.iter().filter_map(|name| named(name)) {
                    release(scene, machine).await?;
                }
            }
            Action::Finish => {
                remove_finalizer(scene.control_plane, scene.context).await?;
                self.forget(scene.control_plane);
            }
            Action::TriggerInPlace { machine } => {
                if let Some(machine) = named(machine) {
                    self.trigger_in_place(scene, machine, &decided.extensions).await?;
                }
                event(
                    "SuccessfulStartInPlaceUpdate",
                    format!("Started the in-place update of Machine {machine}"),
                );
            }
            // Whoever could be asked was asked before the decision.
            Action::AskInPlace { .. } | Action::AskExternal => {}
        }
        Ok(())
    }

    /// Makes a Machine, and what belongs to it. After a crash in between, what is missing is made from the Machine.
    async fn create(
        &self,
        scene: &Scene<'_>,
        failure_domain: Option<&str>,
        remediation_for: Option<&RemediationRecord>,
        form: Form,
    ) -> Result<String, ControlPlaneError> {
        // Without a template there would be a Machine that never becomes anything.
        self.template(scene).await?;
        let name = self.name(scene)?;
        let new = NewMachine {
            name: &name,
            failure_domain,
            remediation_for: remediation_for.map(RemediationRecord::to_annotation),
        };
        let owner = scene.control_plane.controller_owner_ref(&()).unwrap_or_default();
        let intent = desired::new_machine(scene.control_plane, &scene.cluster_name(), owner, &new);
        let writer = scene.context.writer::<Machine>();
        let machine = writer.apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &intent).await?;
        self.complete(scene, &machine, form).await?;
        Ok(name)
    }

    fn name(&self, scene: &Scene<'_>) -> Result<String, ControlPlaneError> {
        // Names of Machines become names of hosts, which have at most 63 characters; five are random.
        const LONGEST: usize = 63;
        let own = scene.control_plane.name_any();
        let template = &scene.control_plane.spec.machine_naming.template;
        let random = scene.context.name_suffix();
        let name = if template.is_empty() {
            let start = own.get(..own.len().min(LONGEST - random.len() - 1)).unwrap_or(&own);
            format!("{start}-{random}")
        } else {
            let data = json!({
                "cluster": {"name": scene.cluster_name()},
                "kubeadmControlPlane": {"name": own},
                "random": random,
            });
            gotemplate::render(template, &data, MissingKey::Refuse)?
        };
        match self.machines.get(&ObjectKey::new(scene.namespace(), &name)) {
            Some(_) => Err(ControlPlaneError::NameTaken(name)),
            None => Ok(name),
        }
    }

    /// Writes which remediation is under way. Merged without a lock: nobody else writes this annotation.
    async fn record_remediation(
        &self,
        scene: &Scene<'_>,
        record: Option<&RemediationRecord>,
    ) -> Result<(), ControlPlaneError> {
        let value = record.map(RemediationRecord::to_annotation);
        let patch = json!({"metadata": {"annotations": {REMEDIATION_IN_PROGRESS_ANNOTATION: value}}});
        let key = ObjectKey::of(scene.control_plane);
        scene.context.writer::<KubeadmControlPlane>().patch_unconditionally(&key, patch).await?;
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
async fn release(scene: &Scene<'_>, machine: &Machine) -> Result<(), ControlPlaneError> {
    let patch = json!({"metadata": {"annotations": {KCP_CLEANUP_ANNOTATION: null}}});
    let writer = scene.context.writer::<Machine>();
    match writer.patch_unconditionally(&ObjectKey::of(machine), patch).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}

fn versions(observed: &Observed) -> String {
    format!("version {}", observed.version)
}
