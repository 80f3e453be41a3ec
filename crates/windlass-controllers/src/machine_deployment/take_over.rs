//! Workers that somebody else updates: asks who takes over, and tells from the objects which of them are done.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::Object;
use windlass_api::cluster::{Machine, MachineDeployment, MachineSet};
use windlass_api::hooks::{ExternalUpdateRequest, MachineObjects, UpdateOwner};
use windlass_engine::external_update::{Implementer, Part, Record, Refusal, TakeOver, finding, has_reached};
use windlass_engine::in_place::Said;
use windlass_engine::rollout::{InPlaceAnswer, InPlaceAnswers, Observed, Strategy, left_to_others};

use super::Deployments;
use super::in_place::Roll;
use crate::external::External;
use crate::in_place::{Update, desired_part, forget_record, record_of, view};
use crate::worker_group::{Templates, WorkerError, controller};

/// Who could take over, and what they said before.
#[derive(Default)]
pub(super) struct Standing {
    record: Option<Record>,
    implementers: Vec<Implementer>,
}

impl Standing {
    /// Whether somebody has taken over: nobody else is asked anything then.
    pub(super) fn is_held(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.holder(&self.implementers).is_some())
    }
}

/// What came of asking.
#[derive(Default)]
pub(super) struct Others {
    /// What there is to say.
    pub(super) said: Said,
    /// Who refuses.
    pub(super) refusals: Vec<Refusal>,
    /// When to look again.
    pub(super) again: Option<Timestamp>,
    /// Whether nothing can be planned now.
    pub(super) wait: bool,
}

impl Deployments {
    /// Looks up who could take over. Nobody, unless the strategy lets them.
    pub(super) async fn standing(
        &self,
        deployment: &MachineDeployment,
        observed: &Observed,
    ) -> Result<Standing, WorkerError> {
        let record = record_of(&deployment.metadata);
        if !matches!(observed.strategy, Strategy::External { .. }) || observed.paused {
            return Ok(Standing { record, implementers: Vec::new() });
        }
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let implementers = self.in_place.implementers(namespace).await?;
        Ok(Standing { record, implementers })
    }

    /// Asks others to take over the machines that extensions do not cover, and notes which are done.
    pub(super) async fn take_over(
        &self,
        roll: &Roll<'_>,
        machines: &[&Machine],
        templates: &Templates,
        standing: &Standing,
        observed: &mut Observed,
        answers: &mut InPlaceAnswers,
    ) -> Result<Others, WorkerError> {
        if observed.paused {
            return Ok(Others::default());
        }
        let held = standing.is_held();
        let open = left_to_others(roll.questions, answers, held);
        let fallback = match observed.strategy {
            Strategy::External { fallback, .. } if !open.is_empty() => fallback.is_some(),
            // The update is over, or is done in another way.
            _ => {
                forget_record(roll.context, roll.deployment).await?;
                return Ok(Others { said: Said::Nothing, ..Others::default() });
            }
        };
        let take = |answers: &mut InPlaceAnswers| {
            answers.extend(open.iter().map(|name| (name.clone(), InPlaceAnswer::TakenOver)));
        };
        if held {
            take(answers);
        }
        let Some(desired) = desired(roll, templates)?.filter(|_| templates.obstacles.is_empty()) else {
            return Ok(Others::default());
        };
        let of_open = |machine: &&&Machine| {
            controller(&machine.metadata).is_some_and(|owner| open.contains(&owner.name))
        };
        let concerned: Vec<&Machine> = machines.iter().filter(of_open).copied().collect();
        let reached = match standing.record {
            Some(_) => self.reached(roll, &concerned, &desired).await?,
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
            return Ok(Others::default());
        }
        let names: BTreeSet<String> =
            left.iter().filter_map(|machine| machine.metadata.name.clone()).collect();
        let namespace = roll.deployment.metadata.namespace.clone().unwrap_or_default();
        let request = ExternalUpdateRequest {
            cluster: Object::from_typed(roll.cluster).unwrap_or_default().for_hook_request(),
            owner: UpdateOwner {
                api_version: MachineDeployment::API_VERSION.to_owned(),
                kind: MachineDeployment::KIND.to_owned(),
                namespace: namespace.clone(),
                name: roll.deployment.metadata.name.clone().unwrap_or_default(),
            },
            machines: left.iter().map(view).collect(),
            desired,
            ..ExternalUpdateRequest::default()
        };
        let update = Update {
            owner: roll.deployment,
            record: standing.record.clone(),
            implementers: &standing.implementers,
            machines: &names,
            request,
            fallback,
        };
        let taken = self.in_place.take_over(roll.context, &namespace, update).await?;
        let said = finding(&taken.outcome, &names).map_or(Said::Nothing, Said::Now);
        let mut others = Others { said, again: taken.again, ..Others::default() };
        match taken.outcome {
            TakeOver::By { .. } => take(answers),
            // Extensions come first again: they were not asked while somebody had taken over.
            TakeOver::Refused(_) if held => others.wait = true,
            TakeOver::Refused(refusals) => others.refusals = refusals,
            TakeOver::NoAnswer(_) => others.wait = true,
            TakeOver::NotAsked => {}
        }
        Ok(others)
    }

    /// The machines whose objects and Nodes are what is desired.
    async fn reached(
        &self,
        roll: &Roll<'_>,
        machines: &[&Machine],
        desired: &MachineObjects,
    ) -> Result<BTreeSet<String>, WorkerError> {
        let namespace = roll.deployment.metadata.namespace.as_deref().unwrap_or_default();
        let template = &roll.deployment.spec.template.spec;
        let mut reached = BTreeSet::new();
        for machine in machines {
            let owner = controller(&machine.metadata).map(|owner| owner.name.as_str());
            let set = roll.sets.iter().find(|set| set.metadata.name.as_deref() == owner);
            let before = self.before(roll, set.copied()).await?;
            let spec = &machine.spec;
            let parts = [
                (Some(&spec.infrastructure_ref), Some(&desired.infrastructure_machine)),
                (spec.bootstrap.config_ref.as_ref(), desired.bootstrap_config.as_ref()),
            ];
            let mut present: Vec<(Option<Value>, Value, Option<Value>)> = Vec::new();
            for ((reference, wanted), before) in parts.into_iter().zip(before) {
                let Some(wanted) = wanted else { continue };
                let there = match reference {
                    Some(reference) => self.externals.get(roll.context, namespace, reference).await?,
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
        roll: &Roll<'_>,
        set: Option<&MachineSet>,
    ) -> Result<[Option<Value>; 2], WorkerError> {
        let Some(set) = set else { return Ok([None, None]) };
        let spec = |object: &Object| object.pointer("/spec/template/spec").cloned();
        Ok(match self.templates_of(roll, &set.spec.template).await? {
            Ok((infrastructure, bootstrap)) => [spec(&infrastructure), bootstrap.as_ref().and_then(spec)],
            Err(_) => [None, None],
        })
    }
}

/// What every machine shall be; none while a template is missing.
fn desired(roll: &Roll<'_>, templates: &Templates) -> Result<Option<MachineObjects>, WorkerError> {
    let part = |template: &External| desired_part(template, &roll.deployment.spec.cluster_name);
    let Some(infrastructure) = &templates.infrastructure else { return Ok(None) };
    let template = &roll.deployment.spec.template.spec;
    let mut spec = json!({"clusterName": roll.deployment.spec.cluster_name, "version": template.version});
    if !template.failure_domain.is_empty() {
        spec["failureDomain"] = json!(template.failure_domain);
    }
    let machine = json!({"apiVersion": Machine::API_VERSION, "kind": Machine::KIND, "spec": spec});
    Ok(Some(MachineObjects {
        machine: Object::try_from(machine).unwrap_or_default(),
        infrastructure_machine: part(infrastructure)?,
        bootstrap_config: templates.bootstrap.as_ref().map(part).transpose()?,
    }))
}
