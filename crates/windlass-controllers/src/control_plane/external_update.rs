//! Control plane Machines that external updaters update.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::json;
use windlass_api::Object;
use windlass_api::cluster::Machine;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::hooks::{ExternalUpdateRequest, MachineObjects, UpdateOwner};
use windlass_engine::control_plane::kubeadm_config::Form;
use windlass_engine::control_plane::{Observed, Strategy, desired};
use windlass_engine::external_update::{
    self, ExternalUpdate, ExternalUpdater, Record, Step, finding, fingerprint,
};
use windlass_engine::in_place::Said;
use windlass_runtime::owner_reference;

use super::{ControlPlaneError, ControlPlaneReconciler, Scope};
use crate::in_place::{Update, desired_part, forget_record, record_of, view};

/// The external updaters that can be asked, and what they said.
#[derive(Default)]
pub(super) struct ExternalUpdaters {
    record: Option<Record>,
    updaters: Vec<ExternalUpdater>,
    /// What there is to say.
    pub(super) said: Said,
    /// When to reconcile again.
    pub(super) again: Option<Timestamp>,
}

impl ControlPlaneReconciler {
    /// What external updaters said before. The one that has accepted is asked again if it is time.
    pub(super) async fn external_updaters(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        observed: &mut Observed,
    ) -> Result<ExternalUpdaters, ControlPlaneError> {
        if scope.is_deleting() {
            return Ok(ExternalUpdaters::default());
        }
        let record = record_of(scope.control_plane.meta());
        let outdated = observed.machines.iter().any(|machine| machine.needs_rollout());
        if !matches!(observed.strategy, Strategy::External { .. }) || !outdated {
            // The update is over, or is done in another way.
            forget_record(scope.context, scope.control_plane).await?;
            return Ok(ExternalUpdaters { said: Said::Nothing, ..ExternalUpdaters::default() });
        }
        let updaters = match self.in_place.external_updaters(&scope.namespace()).await {
            Ok(updaters) => updaters,
            Err(error) => {
                observed.external_update = ExternalUpdate::NoAnswer(error.to_string());
                let said = finding(&observed.external_update, &BTreeSet::new(), None)
                    .map_or(Said::AsBefore, Said::Now);
                return Ok(ExternalUpdaters { record, said, ..ExternalUpdaters::default() });
            }
        };
        let mut external = ExternalUpdaters { record, updaters, ..ExternalUpdaters::default() };
        let Some(record) = &external.record else { return Ok(external) };
        if record.holder(&external.updaters).is_some() {
            external.ask(self, scope, machines, observed).await?;
            return Ok(external);
        }
        // Refusals that still count are not asked for again.
        let (names, fallback) = (outdated_names(observed), has_fallback(observed));
        let desired = fingerprint(&self.desired(scope).await?);
        let step = external_update::decide(&external_update::Observed {
            record: external.record.as_ref(),
            desired: &desired,
            machines: &names,
            updaters: &external.updaters,
            fallback,
            now: scope.context.now(),
        });
        if let Step::Refused { refusals, again } = step {
            observed.external_update = ExternalUpdate::Refused(refusals);
            external.again = again;
        }
        Ok(external)
    }

    /// What every Machine shall be.
    async fn desired(&self, scope: &Scope<'_>) -> Result<MachineObjects, ControlPlaneError> {
        let template = self.template(scope).await?;
        let control_plane = scope.control_plane;
        let owner = owner_reference(control_plane)?;
        // A Machine that is updated has long joined.
        let mut config = desired::kubeadm_config(control_plane, &scope.cluster_name(), owner, "", Form::Join);
        config["metadata"] = json!({});
        let machine = json!({
            "apiVersion": Machine::API_VERSION, "kind": Machine::KIND,
            "spec": {"clusterName": scope.cluster_name(), "version": control_plane.spec.version},
        });
        Ok(MachineObjects {
            machine: Object::try_from(machine)?,
            infrastructure_machine: desired_part(&template, &scope.cluster_name())?,
            bootstrap_config: Some(Object::try_from(config)?),
        })
    }
}

impl ExternalUpdaters {
    /// Asks, and notes in `observed` what came of it.
    pub(super) async fn ask(
        &mut self,
        reconciler: &ControlPlaneReconciler,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        observed: &mut Observed,
    ) -> Result<(), ControlPlaneError> {
        let names = outdated_names(observed);
        let control_plane = scope.control_plane;
        let outdated = machines.iter().filter(|machine| names.contains(&machine.name_any()));
        let request = ExternalUpdateRequest {
            cluster: Object::from_typed(scope.cluster)?.for_hook_request(),
            owner: UpdateOwner {
                api_version: KubeadmControlPlane::API_VERSION.to_owned(),
                kind: KubeadmControlPlane::KIND.to_owned(),
                namespace: scope.namespace(),
                name: control_plane.name_any(),
            },
            machines: outdated.map(|machine| view(machine.as_ref())).collect::<Result<_, _>>()?,
            desired: reconciler.desired(scope).await?,
            ..ExternalUpdateRequest::default()
        };
        let update = Update {
            owner: control_plane,
            record: self.record.clone(),
            updaters: &self.updaters,
            machines: &names,
            request,
            fallback: has_fallback(observed),
        };
        let asked =
            reconciler.in_place.ask_external_updaters(scope.context, &scope.namespace(), update).await?;
        self.said = asked.said;
        self.again = asked.again;
        observed.external_update = asked.outcome;
        Ok(())
    }
}

fn outdated_names(observed: &Observed) -> BTreeSet<String> {
    let outdated = observed.machines.iter().filter(|machine| machine.needs_rollout());
    outdated.map(|machine| machine.name.clone()).collect()
}

fn has_fallback(observed: &Observed) -> bool {
    observed.strategy.surge(observed.replicas).is_some()
}
