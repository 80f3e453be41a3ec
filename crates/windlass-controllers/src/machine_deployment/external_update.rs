//! Workers that external updaters update: asks which one accepts, and tells from the objects which machines are done.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::Object;
use windlass_api::cluster::{Machine, MachineDeployment, MachineSet};
use windlass_api::hooks::{ExternalUpdateRequest, MachineObjects, UpdateOwner};
use windlass_engine::external_update::{ExternalUpdate, ExternalUpdater, Part, Record, Refusal, has_reached};
use windlass_engine::in_place::{Said, WhyNotInPlace};
use windlass_engine::rollout::{InPlaceAnswers, Observed, Strategy, left_to_external_updaters};
use windlass_runtime::ObjectKey;

use super::Deployments;
use super::in_place::Scope;
use crate::external::External;
use crate::in_place::{Update, desired_part, forget_record, record_of, view};
use crate::worker_group::{Templates, WorkerError, controller};

/// The external updaters that can be asked, and what they said before.
#[derive(Default)]
pub(super) struct ExternalUpdaters {
    record: Option<Record>,
    updaters: Vec<ExternalUpdater>,
}

impl ExternalUpdaters {
    /// Whether one of them has accepted: no other extension is asked anything then.
    pub(super) fn is_held(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.holder(&self.updaters).is_some())
    }
}

/// What came of asking.
#[derive(Default)]
pub(super) struct ExternalAnswer {
    /// What there is to say.
    pub(super) said: Said,
    /// Which of them refuse.
    pub(super) refusals: Vec<Refusal>,
    /// When to reconcile again.
    pub(super) again: Option<Timestamp>,
    /// Whether nothing can be planned now.
    pub(super) wait: bool,
}

impl Deployments {
    /// The external updaters that can be asked: none, unless the strategy is `External`.
    pub(super) async fn external_updaters(
        &self,
        deployment: &MachineDeployment,
        observed: &Observed,
    ) -> Result<ExternalUpdaters, WorkerError> {
        let record = record_of(&deployment.metadata);
        if !matches!(observed.strategy, Strategy::External { .. }) || observed.paused {
            return Ok(ExternalUpdaters { record, updaters: Vec::new() });
        }
        let namespace = &ObjectKey::of(deployment).namespace;
        let updaters = self.in_place.external_updaters(namespace).await?;
        Ok(ExternalUpdaters { record, updaters })
    }

    /// Asks external updaters about the machines that extensions do not cover, and notes which are done.
    pub(super) async fn ask_external_updaters(
        &self,
        scope: &Scope<'_>,
        machines: &[&Machine],
        templates: &Templates,
        external: &ExternalUpdaters,
        observed: &mut Observed,
        answers: &mut InPlaceAnswers,
    ) -> Result<ExternalAnswer, WorkerError> {
        if observed.paused {
            return Ok(ExternalAnswer::default());
        }
        let held = external.is_held();
        let open = left_to_external_updaters(scope.questions, answers, held);
        let fallback = match observed.strategy {
            Strategy::External { fallback, .. } if !open.is_empty() => fallback.is_some(),
            // The update is over, or is done in another way.
            _ => {
                forget_record(scope.context, scope.deployment).await?;
                return Ok(ExternalAnswer { said: Said::Nothing, ..ExternalAnswer::default() });
            }
        };
        let take = |answers: &mut InPlaceAnswers| {
            answers.extend(open.iter().map(|name| (name.clone(), Err(WhyNotInPlace::ExternalUpdate))));
        };
        if held {
            take(answers);
        }
        let Some(desired) = desired(scope, templates)?.filter(|_| templates.problems.is_empty()) else {
            return Ok(ExternalAnswer::default());
        };
        let of_open = |machine: &&&Machine| {
            controller(&machine.metadata).is_some_and(|owner| open.contains(&owner.name))
        };
        let concerned: Vec<&Machine> = machines.iter().filter(of_open).copied().collect();
        let reached = match external.record {
            Some(_) => self.reached(scope, &concerned, &desired).await?,
            None => BTreeSet::new(),
        };
        for machine in &mut observed.machines {
            machine.reached = reached.contains(&machine.name);
        }
        let left: Vec<&Machine> = concerned
            .into_iter()
            .filter(|machine| machine.metadata.deletion_timestamp.is_none())
            .filter(|machine| machine.metadata.name.as_ref().is_none_or(|name| !reached.contains(name)))
            .collect();
        // What is left is only to be handed over.
        if left.is_empty() {
            return Ok(ExternalAnswer::default());
        }
        let names: BTreeSet<String> =
            left.iter().filter_map(|machine| machine.metadata.name.clone()).collect();
        let namespace = ObjectKey::of(scope.deployment).namespace;
        let request = ExternalUpdateRequest {
            cluster: Object::from_typed(scope.cluster)?.for_hook_request(),
            owner: UpdateOwner {
                api_version: MachineDeployment::API_VERSION.to_owned(),
                kind: MachineDeployment::KIND.to_owned(),
                namespace: namespace.clone(),
                name: ObjectKey::of(scope.deployment).name,
            },
            machines: left.iter().map(view).collect::<Result<_, _>>()?,
            desired,
            ..ExternalUpdateRequest::default()
        };
        let update = Update {
            owner: scope.deployment,
            record: external.record.clone(),
            updaters: &external.updaters,
            machines: &names,
            request,
            fallback,
        };
        let asked = self.in_place.ask_external_updaters(scope.context, &namespace, update).await?;
        let mut answer = ExternalAnswer { said: asked.said, again: asked.again, ..ExternalAnswer::default() };
        match asked.outcome {
            ExternalUpdate::Accepted { .. } => take(answers),
            // Extensions come first again: they were not asked while an external updater had accepted.
            ExternalUpdate::Refused(_) if held => answer.wait = true,
            ExternalUpdate::Refused(refusals) => answer.refusals = refusals,
            ExternalUpdate::NoAnswer(_) => answer.wait = true,
            ExternalUpdate::NotAsked => {}
        }
        Ok(answer)
    }

    /// The machines whose objects and Nodes are what is desired.
    async fn reached(
        &self,
        scope: &Scope<'_>,
        machines: &[&Machine],
        desired: &MachineObjects,
    ) -> Result<BTreeSet<String>, WorkerError> {
        let namespace = &ObjectKey::of(scope.deployment).namespace;
        let template = &scope.deployment.spec.template.spec;
        let mut reached = BTreeSet::new();
        for machine in machines {
            let owner = controller(&machine.metadata).map(|owner| owner.name.as_str());
            let set = scope.sets.iter().find(|set| set.metadata.name.as_deref() == owner);
            let before = self.before(scope, set.copied()).await?;
            let spec = &machine.spec;
            let parts = [
                (Some(&spec.infrastructure_ref), Some(&desired.infrastructure_machine)),
                (spec.bootstrap.config_ref.as_ref(), desired.bootstrap_config.as_ref()),
            ];
            let mut present: Vec<(Option<Value>, Value, Option<Value>)> = Vec::new();
            for ((reference, wanted), before) in parts.into_iter().zip(before) {
                let Some(wanted) = wanted else { continue };
                let there = match reference {
                    Some(reference) => self.externals.get(scope.context, namespace, reference).await?,
                    None => None,
                };
                let there = there.and_then(|there: External| there.object.data.get("spec").cloned());
                present.push((before, wanted.spec().cloned().unwrap_or_default(), there));
            }
            let parts: Vec<Part<'_>> = present
                .iter()
                .map(|(before, wanted, present)| Part {
                    before: before.as_ref(),
                    wanted,
                    present: present.as_ref(),
                })
                .collect();
            if has_reached(machine, template, &parts) {
                reached.extend(machine.metadata.name.clone());
            }
        }
        Ok(reached)
    }

    /// What the templates of an old MachineSet say, as far as they are still there: infrastructure, then bootstrap config.
    async fn before(
        &self,
        scope: &Scope<'_>,
        set: Option<&MachineSet>,
    ) -> Result<[Option<Value>; 2], WorkerError> {
        let Some(set) = set else { return Ok([None, None]) };
        let spec = |object: &Object| object.pointer("/spec/template/spec").cloned();
        Ok(match self.templates_of(scope, &set.spec.template).await? {
            Ok((infrastructure, bootstrap)) => [spec(&infrastructure), bootstrap.as_ref().and_then(spec)],
            Err(_) => [None, None],
        })
    }
}

/// What every machine shall be; none while a template is missing.
fn desired(scope: &Scope<'_>, templates: &Templates) -> Result<Option<MachineObjects>, WorkerError> {
    let part = |template: &External| desired_part(template, &scope.deployment.spec.cluster_name);
    let Some(infrastructure) = &templates.infrastructure else { return Ok(None) };
    let template = &scope.deployment.spec.template.spec;
    let mut spec = json!({"clusterName": scope.deployment.spec.cluster_name, "version": template.version});
    if !template.failure_domain.is_empty() {
        spec["failureDomain"] = json!(template.failure_domain);
    }
    let machine = json!({"apiVersion": Machine::API_VERSION, "kind": Machine::KIND, "spec": spec});
    Ok(Some(MachineObjects {
        machine: Object::try_from(machine)?,
        infrastructure_machine: part(infrastructure)?,
        bootstrap_config: templates.bootstrap.as_ref().map(part).transpose()?,
    }))
}
