//! Asks extensions which old MachineSets they can update in place.

use windlass_api::Object;
use windlass_api::cluster::{Cluster, MachineDeployment, MachineSet, MachineTemplateSpec};
use windlass_engine::in_place::{Found, Level, Objects, Said, finding};
use windlass_engine::rollout::{
    FreshSet, InPlaceAnswer, InPlaceAnswers, NewSet, Roles, WhyNotInPlace, compared_sets,
};
use windlass_reconcile::Context;

use super::Deployments;
use crate::external::ExternalError;
use crate::in_place::view;
use crate::worker_group::WorkerError;

/// A rollout that extensions are asked about.
pub(super) struct Roll<'a> {
    pub(super) context: &'a Context,
    pub(super) cluster: &'a Cluster,
    pub(super) deployment: &'a MachineDeployment,
    pub(super) sets: &'a [&'a MachineSet],
    pub(super) fresh: &'a FreshSet,
    /// The old MachineSets that have machines to be updated.
    pub(super) questions: &'a [String],
}

/// What extensions said.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) answers: InPlaceAnswers,
    pub(super) failure: Option<WorkerError>,
    found: Vec<(String, Found)>,
}

impl Asked {
    /// What there is to say; `over` is whether nothing is to be updated any more.
    pub(super) fn said(&self, over: bool) -> Said {
        match finding(&self.found) {
            Some(finding) => Said::Now(finding),
            None if over => Said::Nothing,
            None => Said::AsBefore,
        }
    }
}

impl Deployments {
    /// Asks about each of some old MachineSets. Where nobody could be asked, that is the answer, and nothing is said.
    pub(super) async fn ask(&self, roll: &Roll<'_>, roles: &Roles) -> Result<Asked, WorkerError> {
        let mut asked = Asked::default();
        let questions = roll.questions;
        if questions.is_empty() {
            return Ok(asked);
        }
        let namespace = roll.deployment.metadata.namespace.as_deref().unwrap_or_default();
        match self.in_place.are_there(Level::MachineSet, namespace).await {
            Ok(true) => {}
            Ok(false) => {
                let no = |name: &String| (name.clone(), InPlaceAnswer::Cannot(WhyNotInPlace::NoExtension));
                asked.answers = questions.iter().map(no).collect();
                return Ok(asked);
            }
            Err(error) => return Err(error.into()),
        }
        let find =
            |name: &String| roll.sets.iter().copied().find(|set| set.metadata.name.as_ref() == Some(name));
        let new = match &roles.new {
            NewSet::Existing(name) => find(name),
            NewSet::Missing(_) => None,
        };
        for name in questions {
            let Some(old) = find(name) else { continue };
            let (old, new) = compared_sets(roll.deployment, old, new, roll.fresh);
            let found = match self.states(roll, &old, &new).await? {
                Err(missing) => Ok(Found::Impossible(missing)),
                Ok((current, desired)) => {
                    self.in_place.ask(Level::MachineSet, namespace, current, desired).await
                }
            };
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    let found = Found::NoAnswer(error.to_string());
                    asked.failure = Some(error.into());
                    found
                }
            };
            let answer = match &found {
                Found::Verdict(verdict) if verdict.is_covered() => {
                    InPlaceAnswer::Can { by: verdict.extensions() }
                }
                Found::Verdict(verdict) => {
                    InPlaceAnswer::Cannot(WhyNotInPlace::NotCovered { leftovers: verdict.open() })
                }
                Found::Impossible(why) | Found::NoAnswer(why) => {
                    InPlaceAnswer::Cannot(WhyNotInPlace::Impossible { why: why.clone() })
                }
            };
            asked.found.push((format!("MachineSet {name}"), found));
            asked.answers.insert(name.clone(), answer);
        }
        Ok(asked)
    }

    /// The two states as extensions get to see them, or which template is missing.
    async fn states(
        &self,
        roll: &Roll<'_>,
        old: &MachineSet,
        new: &MachineSet,
    ) -> Result<Result<(Objects, Objects), String>, WorkerError> {
        let mut states = Vec::new();
        for set in [old, new] {
            let (infrastructure, bootstrap) = match self.templates_of(roll, &set.spec.template).await? {
                Ok(templates) => templates,
                Err(missing) => return Ok(Err(missing)),
            };
            states.push(Objects { machine: view(set), infrastructure, bootstrap });
        }
        let desired = states.pop().unwrap_or_default();
        Ok(Ok((states.pop().unwrap_or_default(), desired)))
    }

    pub(super) async fn templates_of(
        &self,
        roll: &Roll<'_>,
        template: &MachineTemplateSpec,
    ) -> Result<Result<(Object, Option<Object>), String>, WorkerError> {
        let namespace = roll.cluster.metadata.namespace.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        let spec = &template.spec;
        for reference in
            [Some(&spec.infrastructure_ref), spec.bootstrap.config_ref.as_ref()].into_iter().flatten()
        {
            match self.externals.get(roll.context, namespace, reference).await {
                Ok(Some(external)) => found.push(view(external.object.as_ref())),
                Ok(None) => return Ok(Err(format!("{reference} does not exist"))),
                Err(error @ (ExternalError::NoDefinition { .. } | ExternalError::NoContract { .. })) => {
                    return Ok(Err(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let bootstrap = if found.len() > 1 { found.pop() } else { None };
        Ok(Ok((found.pop().unwrap_or_default(), bootstrap)))
    }
}
