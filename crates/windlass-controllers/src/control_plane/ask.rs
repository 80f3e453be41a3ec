//! Asks extensions which Machines of a control plane they can update in place.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::Object;
use windlass_api::cluster::Machine;
use windlass_api::names::KUBEADM_CONTROL_PLANE_FIELD_MANAGER;
use windlass_engine::control_plane::{Action, Decision, JoinReason, Observed, Step, decide};
use windlass_engine::in_place::{
    Effect, InPlaceAnswer, Level, Objects, Said, WhyNotInPlace, comparable_configs, finding,
};
use windlass_runtime::ObjectKey;

use super::{ControlPlaneError, ControlPlaneReconciler, Scope};
use crate::in_place::view;

/// A decision, with what extensions said to it.
pub(super) struct Decided {
    pub(super) decision: Decision,
    /// What there is to say about updating Machines in place.
    pub(super) said: Said,
    /// What there is to say about external updaters.
    pub(super) external_update: Said,
    /// When to reconcile again because of them.
    pub(super) again: Option<Timestamp>,
    /// How the Machine is updated whose update is started.
    pub(super) update: Update,
}

/// How a Machine is updated in place.
#[derive(Default)]
pub(super) struct Update {
    /// The extensions that do it, in their order.
    pub(super) extensions: Vec<String>,
    /// What that does to the Machine.
    pub(super) effect: Effect,
}

impl ControlPlaneReconciler {
    /// Decides, asking extensions where the decision depends on them. Each Machine is asked about once.
    pub(super) async fn decide(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        observed: &mut Observed,
    ) -> Result<Decided, ControlPlaneError> {
        let now = scope.context.now();
        let mut external = self.external_updaters(scope, machines, observed).await?;
        let mut decision = decide(observed, now);
        let mut answers: Vec<(String, InPlaceAnswer)> = Vec::new();
        let mut update = Update::default();
        let mut again = None;
        for _ in 0..machines.len() {
            let Step::Act(Action::AskInPlace { machine: name }) = &decision.step else { break };
            let name = name.clone();
            let machine = machines.iter().find(|machine| machine.name_any() == name);
            let Some(machine) = machine else { break };
            let answer = self.ask(scope, machine, &mut again).await?;
            if let Ok(verdict) = &answer {
                let effect = observed.strategy.effect(verdict);
                update = Update { extensions: verdict.extensions(), effect };
            }
            note(&mut answers, &name, &answer);
            let Some(seen) = observed.machines.iter_mut().find(|machine| machine.name == name) else { break };
            seen.in_place = answer;
            decision = decide(observed, now);
        }
        if decision.step == Step::Act(Action::AskExternal) {
            external.ask(self, scope, machines, observed).await?;
            decision = decide(observed, now);
        }
        // Also where a Machine is added first people want to know what becomes of the others.
        if let Step::Act(Action::Join { reason: JoinReason::Rollout, .. }) = &decision.step {
            let outdated = observed.machines.iter().filter(|machine| machine.needs_rollout());
            let asked: Vec<String> = answers.iter().map(|(subject, _)| subject.clone()).collect();
            let unasked = |name: &String| !asked.contains(&subject(name));
            for name in outdated.map(|machine| machine.name.clone()).filter(unasked) {
                if let Some(machine) = machines.iter().find(|machine| machine.name_any() == name) {
                    let answer = self.ask(scope, machine, &mut again).await?;
                    note(&mut answers, &name, &answer);
                }
            }
        }
        let over = observed.machines.iter().all(|machine| !machine.needs_rollout() && !machine.is_updating());
        let said = match finding(&answers) {
            Some(finding) => Said::Now(finding),
            None if over => Said::Nothing,
            None => Said::AsBefore,
        };
        let again = external.again.into_iter().chain(again).min();
        Ok(Decided { decision, said, external_update: external.said, again, update })
    }

    /// Asks about one Machine. `again` becomes the time when an extension that failed is asked again.
    async fn ask(
        &self,
        scope: &Scope<'_>,
        machine: &Machine,
        again: &mut Option<Timestamp>,
    ) -> Result<InPlaceAnswer, ControlPlaneError> {
        let namespace = scope.namespace();
        let extensions = match self.in_place.that_can_update(Level::Machine, &namespace).await {
            Ok(extensions) if extensions.is_empty() => return Ok(Err(WhyNotInPlace::NoExtension)),
            Ok(extensions) => extensions,
            Err(error) => return Ok(Err(WhyNotInPlace::NoAnswer(error.to_string()))),
        };
        let (current, desired) = match self.states(scope, machine).await? {
            Ok(states) => states,
            Err(why) => return Ok(Err(WhyNotInPlace::Impossible(why))),
        };
        let asked = extensions.ask(current, desired).await;
        Ok(asked.unwrap_or_else(|error| {
            let retry = error.retry_after().and_then(|left| scope.context.now().checked_add(left).ok());
            *again = again.iter().copied().chain(retry).min();
            Err(WhyNotInPlace::NoAnswer(error.to_string()))
        }))
    }

    /// The two states of a Machine as extensions get to see them, or why it cannot get to the second.
    async fn states(
        &self,
        scope: &Scope<'_>,
        machine: &Machine,
    ) -> Result<Result<(Objects, Objects), String>, ControlPlaneError> {
        let reference = &machine.spec.infrastructure_ref;
        let Some(infrastructure) = self.externals.get(scope.context, &scope.namespace(), reference).await?
        else {
            return Ok(Err(format!("{reference} does not exist")));
        };
        let intent = self.updated_infrastructure(scope, machine).await?;
        let writer = scope.context.writer_of(&infrastructure.kind.resource);
        // What others have written into it stays, and what the provider refuses would be refused later too.
        let updated = match writer.dry_run_apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &intent).await {
            Ok(updated) => updated,
            Err(error) if error.is_rejected() => return Ok(Err(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let spec = updated.data.get("spec").cloned().unwrap_or_else(|| json!({}));
        let infrastructure = view(infrastructure.object.as_ref())?;
        let (now, wanted) = (view(machine)?, &scope.control_plane.spec.version);
        let mut spec_wanted = now.spec().cloned().unwrap_or_else(|| json!({}));
        spec_wanted["version"] = json!(wanted);
        let (bootstrap, bootstrap_wanted) = self.configs_of(scope, machine)?.unzip();
        let desired = Objects {
            machine: with_spec(&now, spec_wanted),
            infrastructure: with_spec(&infrastructure, spec),
            bootstrap: bootstrap_wanted,
        };
        Ok(Ok((Objects { machine: now, infrastructure, bootstrap }, desired)))
    }

    fn configs_of(
        &self,
        scope: &Scope<'_>,
        machine: &Machine,
    ) -> Result<Option<(Object, Object)>, ControlPlaneError> {
        let reference = machine.spec.bootstrap.config_ref.as_ref();
        let config = reference
            .and_then(|reference| self.configs.get(&ObjectKey::new(scope.namespace(), &reference.name)));
        let Some((config, wanted)) = config.zip(self.updated_config(scope, machine)?) else {
            return Ok(None);
        };
        let current = view(config.as_ref())?;
        let wanted = with_spec(&current, wanted.get("spec").cloned().unwrap_or_else(|| json!({})));
        Ok(Some(comparable_configs(&current, &wanted)))
    }
}

fn with_spec(object: &Object, spec: Value) -> Object {
    let mut object = object.clone();
    object.as_map_mut().insert("spec".to_owned(), spec);
    object
}

/// Where no extension could be asked, there is nothing to tell.
fn note(answers: &mut Vec<(String, InPlaceAnswer)>, machine: &str, answer: &InPlaceAnswer) {
    if *answer != Err(WhyNotInPlace::NoExtension) {
        answers.push((subject(machine), answer.clone()));
    }
}

fn subject(machine: &str) -> String {
    format!("Machine {machine}")
}
