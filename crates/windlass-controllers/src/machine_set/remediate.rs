//! Unhealthy machines replaced.

use std::sync::Arc;

use serde_json::json;
use windlass_api::cluster::{Machine, MachineDeployment};
use windlass_api::conditions::{OWNER_REMEDIATED, reason};
use windlass_api::names::REVISION_ANNOTATION;
use windlass_engine::condition::{self, Finding};
use windlass_engine::legacy;
use windlass_engine::machine_set::{Failure, Observed, Policy, annotation, remediation};
use windlass_engine::rollout::amount;
use windlass_runtime::{EventType, ObjectKey, namespace_of};

use super::{Scope, Sets};
use crate::worker_group::{WorkerError, controller};

impl Sets {
    /// Deletes the machines that are to be replaced now, and says of the others why not; true if any were deleted. What
    /// happens is said on the machine before it happens: the count of those under way depends on it.
    pub(super) async fn remediate(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        observed: &Observed,
        preflight: &[Failure],
    ) -> Result<bool, WorkerError> {
        let Scope { context, set, .. } = *scope;
        let namespace = namespace_of(set)?;
        let deployment = controller(&set.metadata)
            .filter(|owner| owner.kind == MachineDeployment::KIND)
            .and_then(|owner| self.deployments.get(&ObjectKey::new(namespace, &owner.name)));
        let max_in_flight = match &deployment {
            Some(md) => amount("spec.remediation.maxInFlight", md.spec.remediation.max_in_flight.as_ref())?,
            None => None,
        };
        let revision = annotation(&set.metadata, REVISION_ANNOTATION);
        let current = deployment.is_none_or(|md| annotation(&md.metadata, REVISION_ANNOTATION) == revision);
        let policy = Policy { current, max_in_flight, preflight: preflight.to_vec() };
        let decided = remediation(observed, &policy);

        let said = |reason: &str, message: String| Finding::no(OWNER_REMEDIATED, reason).because(message);
        for name in &decided.cannot {
            let message = "It belongs to an old MachineSet, and goes when the rollout comes to it".to_owned();
            self.say(scope, machines, name, said(reason::CANNOT_BE_REMEDIATED, message)).await?;
        }
        for (name, why) in &decided.deferred {
            self.say(scope, machines, name, said(reason::REMEDIATION_DEFERRED, why.to_string())).await?;
        }
        for name in &decided.delete {
            let message = "Machine is being deleted".to_owned();
            let machine = self.say(scope, machines, name, said(reason::MACHINE_DELETING, message)).await?;
            if let Some(machine) = machine {
                context.writer().delete(machine.as_ref()).await?;
                let message = format!("Deleted Machine {name}, a health check found it unhealthy");
                context.event(set, EventType::Normal, "SuccessfulRemediation", message);
            }
        }
        Ok(!decided.delete.is_empty())
    }

    async fn say(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        name: &str,
        finding: Finding,
    ) -> Result<Option<Arc<Machine>>, WorkerError> {
        let Scope { context, .. } = *scope;
        let found = machines.iter().find(|machine| machine.metadata.name.as_deref() == Some(name));
        let Some(machine) = found else { return Ok(None) };
        let mut status = machine.status.clone();
        if !condition::set(&mut status.conditions, finding, machine.metadata.generation, context.now()) {
            return Ok(Some(Arc::clone(machine)));
        }
        legacy::machine(&mut status, context.now());
        let patch = json!({"status": {"conditions": status.conditions, "deprecated": status.deprecated}});
        let written = context.writer::<Machine>().patch_status(machine, patch).await?;
        Ok(Some(Arc::new(written)))
    }
}
