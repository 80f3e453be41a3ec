//! Control plane Machines that somebody else updates.

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
use windlass_engine::external_update::{self, Implementer, Record, Step, TakeOver, finding, fingerprint};
use windlass_engine::in_place::Said;

use super::{ControlPlaneError, ControlPlaneReconciler, Scene};
use crate::in_place::{Update, desired_part, forget_record, record_of, view};

/// Others who could take over, and what they said.
#[derive(Default)]
pub(super) struct Others {
    record: Option<Record>,
    implementers: Vec<Implementer>,
    /// What there is to say.
    pub(super) said: Said,
    /// When to look again.
    pub(super) again: Option<Timestamp>,
}

impl ControlPlaneReconciler {
    /// What others said before. Whoever has taken over is asked again if it is time.
    pub(super) async fn standing(
        &self,
        scene: &Scene<'_>,
        machines: &[Arc<Machine>],
        observed: &mut Observed,
    ) -> Result<Others, ControlPlaneError> {
        if scene.is_deleting() {
            return Ok(Others::default());
        }
        let record = record_of(scene.control_plane.meta());
        let outdated = observed.machines.iter().any(|machine| machine.needs_rollout());
        if !matches!(observed.strategy, Strategy::External { .. }) || !outdated {
            // The update is over, or is done in another way.
            forget_record(scene.context, scene.control_plane).await?;
            return Ok(Others { said: Said::Nothing, ..Others::default() });
        }
        let implementers = match self.in_place.implementers(&scene.namespace()).await {
            Ok(implementers) => implementers,
            Err(error) => {
                observed.take_over = TakeOver::NoAnswer(error.to_string());
                let said = finding(&observed.take_over, &BTreeSet::new()).map_or(Said::AsBefore, Said::Now);
                return Ok(Others { record, said, ..Others::default() });
            }
        };
        let mut others = Others { record, implementers, ..Others::default() };
        let Some(record) = &others.record else { return Ok(others) };
        if record.holder(&others.implementers).is_some() {
            others.ask(self, scene, machines, observed).await?;
            return Ok(others);
        }
        // Refusals that still count are not asked for again.
        let (names, fallback) = (outdated_names(observed), has_fallback(observed));
        let desired = fingerprint(&self.desired(scene).await?);
        let step = external_update::decide(&external_update::Observed {
            record: others.record.as_ref(),
            desired: &desired,
            machines: &names,
            implementers: &others.implementers,
            fallback,
            now: scene.context.now(),
        });
        if let Step::Refused { refusals, again } = step {
            observed.take_over = TakeOver::Refused(refusals);
            others.again = again;
        }
        Ok(others)
    }

    /// What every Machine shall be.
    async fn desired(&self, scene: &Scene<'_>) -> Result<MachineObjects, ControlPlaneError> {
        let template = self.template(scene).await?;
        let control_plane = scene.control_plane;
        let owner = control_plane.owner_ref(&()).unwrap_or_default();
        // A Machine that is updated has long joined.
        let mut config = desired::kubeadm_config(control_plane, &scene.cluster_name(), owner, "", Form::Join);
        config["metadata"] = json!({});
        let machine = json!({
            "apiVersion": Machine::API_VERSION, "kind": Machine::KIND,
            "spec": {"clusterName": scene.cluster_name(), "version": control_plane.spec.version},
        });
        Ok(MachineObjects {
            machine: Object::try_from(machine).unwrap_or_default(),
            infrastructure_machine: desired_part(&template, &scene.cluster_name())?,
            bootstrap_config: Object::try_from(config).ok(),
        })
    }
}

impl Others {
    /// Asks, and notes in `observed` what came of it.
    pub(super) async fn ask(
        &mut self,
        reconciler: &ControlPlaneReconciler,
        scene: &Scene<'_>,
        machines: &[Arc<Machine>],
        observed: &mut Observed,
    ) -> Result<(), ControlPlaneError> {
        let names = outdated_names(observed);
        let control_plane = scene.control_plane;
        let outdated = machines.iter().filter(|machine| names.contains(&machine.name_any()));
        let request = ExternalUpdateRequest {
            cluster: Object::from_typed(scene.cluster).unwrap_or_default().for_hook_request(),
            owner: UpdateOwner {
                api_version: KubeadmControlPlane::API_VERSION.to_owned(),
                kind: KubeadmControlPlane::KIND.to_owned(),
                namespace: scene.namespace(),
                name: control_plane.name_any(),
            },
            machines: outdated.map(|machine| view(machine.as_ref())).collect(),
            desired: reconciler.desired(scene).await?,
            ..ExternalUpdateRequest::default()
        };
        let update = Update {
            owner: control_plane,
            record: self.record.clone(),
            implementers: &self.implementers,
            machines: &names,
            request,
            fallback: has_fallback(observed),
        };
        let taken = reconciler.in_place.take_over(scene.context, &scene.namespace(), update).await?;
        self.said = finding(&taken.outcome, &names).map_or(Said::Nothing, Said::Now);
        self.again = taken.again;
        observed.take_over = taken.outcome;
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
