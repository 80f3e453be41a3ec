//! Asks extensions which Machines of a control plane they can update in place.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::Object;
use windlass_api::cluster::Machine;
use windlass_api::names::KUBEADM_CONTROL_PLANE_FIELD_MANAGER;
use windlass_engine::control_plane::{
    Action, Decision, InPlaceRefusal, InPlaceVerdict, JoinReason, Observed, Step, decide,
};
use windlass_engine::in_place::{Found, Level, Objects, Said, comparable_configs, finding};
use windlass_reconcile::ObjectKey;

use super::{ControlPlaneError, ControlPlaneReconciler, Scene};
use crate::in_place::view;

/// A decision, with what extensions said to it.
pub(super) struct Decided {
    pub(super) decision: Decision,
    /// What there is to say about updating Machines in place.
    pub(super) said: Said,
    /// What there is to say about others who could take over.
    pub(super) take_over: Said,
    /// When to look again because of them.
    pub(super) again: Option<Timestamp>,
    /// The extensions that update the Machine whose update is started.
    pub(super) extensions: Vec<String>,
}

impl ControlPlaneReconciler {
    /// Decides, asking extensions where the decision depends on them. Each Machine is asked about once.
    pub(super) async fn decide(
        &self,
        scene: &Scene<'_>,
        machines: &[Arc<Machine>],
        observed: &mut Observed,
    ) -> Result<Decided, ControlPlaneError> {
        let now = scene.context.now();
        let mut others = self.standing(scene, machines, observed).await?;
        let mut decision = decide(observed, now);
        let mut found: Vec<(String, Found)> = Vec::new();
        let mut extensions = Vec::new();
        for _ in 0..machines.len() {
            let Step::Act(Action::AskInPlace { machine: name }) = &decision.step else { break };
            let name = name.clone();
            let machine = machines.iter().find(|machine| machine.name_any() == name);
            let seen = observed.machines.iter_mut().find(|machine| machine.name == name);
            let Some((machine, seen)) = machine.zip(seen) else { break };
            let answer = self.ask(scene, machine).await?;
            extensions = match &answer {
                Some(Found::Verdict(verdict)) => verdict.extensions(),
                _ => Vec::new(),
            };
            seen.in_place = verdict(answer.as_ref());
            found.extend(answer.map(|found| (format!("Machine {name}"), found)));
            decision = decide(observed, now);
        }
        if decision.step == Step::Act(Action::AskExternal) {
            others.ask(self, scene, machines, observed).await?;
            decision = decide(observed, now);
        }
        // Also where a Machine is added first people want to know what becomes of the others.
        if let Step::Act(Action::Join { reason: JoinReason::Rollout, .. }) = &decision.step {
            let outdated = observed.machines.iter().filter(|machine| machine.needs_rollout());
            for name in outdated.map(|machine| machine.name.clone()) {
                if let Some(machine) = machines.iter().find(|machine| machine.name_any() == name) {
                    let answer = self.ask(scene, machine).await?;
                    found.extend(answer.map(|found| (format!("Machine {name}"), found)));
                }
            }
        }
        let over = observed.machines.iter().all(|machine| !machine.needs_rollout() && !machine.is_updating());
        let said = match finding(&found) {
            Some(finding) => Said::Now(finding),
            None if over => Said::Nothing,
            None => Said::AsBefore,
        };
        Ok(Decided { decision, said, take_over: others.said, again: others.again, extensions })
    }

    /// Asks about one Machine; none if there is nobody to be asked.
    async fn ask(&self, scene: &Scene<'_>, machine: &Machine) -> Result<Option<Found>, ControlPlaneError> {
        let namespace = scene.namespace();
        match self.in_place.are_there(Level::Machine, &namespace).await {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => return Ok(Some(Found::NoAnswer(error.to_string()))),
        }
        let (current, desired) = match self.states(scene, machine).await? {
            Ok(states) => states,
            Err(why) => return Ok(Some(Found::Impossible(why))),
        };
        let asked = self.in_place.ask(Level::Machine, &namespace, current, desired).await;
        Ok(Some(asked.unwrap_or_else(|error| Found::NoAnswer(error.to_string()))))
    }

    /// The two states of a Machine as extensions get to see them, or why it cannot get to the second.
    async fn states(
        &self,
        scene: &Scene<'_>,
        machine: &Machine,
    ) -> Result<Result<(Objects, Objects), String>, ControlPlaneError> {
        let reference = &machine.spec.infrastructure_ref;
        let Some(infrastructure) = self.externals.get(scene.context, &scene.namespace(), reference).await?
        else {
            return Ok(Err(format!("{reference} does not exist")));
        };
        let intent = self.updated_infrastructure(scene, machine).await?;
        let writer = scene.context.writer_of(&infrastructure.kind.resource);
        // What others have written into it stays, and what the provider refuses would be refused later too.
        let updated = match writer.dry_run_apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &intent).await {
            Ok(updated) => updated,
            Err(error) if error.is_rejected() => return Ok(Err(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let spec = updated.data.get("spec").cloned().unwrap_or_else(|| json!({}));
        let infrastructure = view(infrastructure.object.as_ref());
        let (now, wanted) = (view(machine), &scene.control_plane.spec.version);
        let mut spec_wanted = now.spec().cloned().unwrap_or_else(|| json!({}));
        spec_wanted["version"] = json!(wanted);
        let (bootstrap, bootstrap_wanted) = self.configs_of(scene, machine).unzip();
        let desired = Objects {
            machine: with_spec(&now, spec_wanted),
            infrastructure: with_spec(&infrastructure, spec),
            bootstrap: bootstrap_wanted,
        };
        Ok(Ok((Objects { machine: now, infrastructure, bootstrap }, desired)))
    }

    fn configs_of(&self, scene: &Scene<'_>, machine: &Machine) -> Option<(Object, Object)> {
        let name = &machine.spec.bootstrap.config_ref.as_ref()?.name;
        let config = self.configs.get(&ObjectKey::new(scene.namespace(), name))?;
        let current = view(config.as_ref());
        let wanted = self.updated_config(scene, machine)?;
        let wanted = with_spec(&current, wanted.get("spec").cloned().unwrap_or_else(|| json!({})));
        Some(comparable_configs(&current, &wanted))
    }
}

fn with_spec(object: &Object, spec: Value) -> Object {
    let mut object = object.clone();
    object.as_map_mut().insert("spec".to_owned(), spec);
    object
}

fn verdict(found: Option<&Found>) -> InPlaceVerdict {
    match found {
        None => InPlaceVerdict::Cannot(InPlaceRefusal::NoExtension),
        Some(Found::Verdict(verdict)) if verdict.is_covered() => InPlaceVerdict::Can,
        Some(Found::Verdict(verdict)) => {
            InPlaceVerdict::Cannot(InPlaceRefusal::NotCovered { leftovers: verdict.open() })
        }
        Some(Found::Impossible(why)) => {
            InPlaceVerdict::Cannot(InPlaceRefusal::Impossible { why: why.clone() })
        }
        Some(Found::NoAnswer(why)) => InPlaceVerdict::NoAnswer(why.clone()),
    }
}
