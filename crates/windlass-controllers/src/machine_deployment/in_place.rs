//! Asks extensions which old MachineSets they can update in place.

use windlass_api::Object;
use windlass_api::cluster::{
    Cluster, ContractVersionedObjectReference, MachineDeployment, MachineSet, MachineTemplateSpec,
};
use windlass_engine::in_place::{InPlaceAnswer, Level, Objects, Said, WhyNotInPlace, finding};
use windlass_engine::rollout::{FreshSet, InPlaceAnswers, NewSet, Roles, compared_sets};
use windlass_runtime::{Context, ObjectKey};

use super::Deployments;
use crate::external::ExternalError;
use crate::in_place::view;
use crate::worker_group::WorkerError;

/// What one reconcile is about.
pub(super) struct Scope<'a> {
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
    told: Vec<(String, InPlaceAnswer)>,
}

impl Asked {
    /// What there is to say; `over` is whether nothing is to be updated any more.
    pub(super) fn said(&self, over: bool) -> Said {
        match finding(&self.told) {
            Some(finding) => Said::Now(finding),
            None if over => Said::Nothing,
            None => Said::AsBefore,
        }
    }
}

impl Deployments {
    /// Asks about each of some old MachineSets. Where no extension could be asked, that is the answer, and nothing is said.
    pub(super) async fn ask(&self, scope: &Scope<'_>, roles: &Roles) -> Result<Asked, WorkerError> {
        let mut asked = Asked::default();
        let questions = scope.questions;
        if questions.is_empty() {
            return Ok(asked);
        }
        let namespace = &ObjectKey::of(scope.deployment).namespace;
        let extensions = self.in_place.that_can_update(Level::MachineSet, namespace).await?;
        if extensions.is_empty() {
            let no = |name: &String| (name.clone(), Err(WhyNotInPlace::NoExtension));
            asked.answers = questions.iter().map(no).collect();
            return Ok(asked);
        }
        let find =
            |name: &String| scope.sets.iter().copied().find(|set| set.metadata.name.as_ref() == Some(name));
        let new = match &roles.new {
            NewSet::Existing(name) => find(name),
            NewSet::Missing(_) => None,
        };
        for name in questions {
            let Some(old) = find(name) else { continue };
            let (old, new) = compared_sets(scope.deployment, old, new, scope.fresh)?;
            let answer = match self.states(scope, &old, &new).await? {
                Err(missing) => Ok(Err(WhyNotInPlace::Impossible(missing))),
                Ok((current, desired)) => extensions.ask(current, desired).await,
            };
            let answer = answer.unwrap_or_else(|error| {
                let why = WhyNotInPlace::NoAnswer(error.to_string());
                asked.failure = Some(error.into());
                Err(why)
            });
            asked.told.push((format!("MachineSet {name}"), answer.clone()));
            asked.answers.insert(name.clone(), answer);
        }
        Ok(asked)
    }

    /// The two states as extensions get to see them, or which template is missing.
    async fn states(
        &self,
        scope: &Scope<'_>,
        old: &MachineSet,
        new: &MachineSet,
    ) -> Result<Result<(Objects, Objects), String>, WorkerError> {
        let state = async |set: &MachineSet| -> Result<Result<Objects, String>, WorkerError> {
            let templates = self.templates_of(scope, &set.spec.template).await?;
            let machine = view(set)?;
            Ok(templates.map(|(infrastructure, bootstrap)| Objects { machine, infrastructure, bootstrap }))
        };
        let current = match state(old).await? {
            Ok(current) => current,
            Err(missing) => return Ok(Err(missing)),
        };
        Ok(state(new).await?.map(|desired| (current, desired)))
    }

    pub(super) async fn templates_of(
        &self,
        scope: &Scope<'_>,
        template: &MachineTemplateSpec,
    ) -> Result<Result<(Object, Option<Object>), String>, WorkerError> {
        let infrastructure = match self.template_at(scope, &template.spec.infrastructure_ref).await? {
            Ok(found) => found,
            Err(missing) => return Ok(Err(missing)),
        };
        let Some(config) = &template.spec.bootstrap.config_ref else {
            return Ok(Ok((infrastructure, None)));
        };
        let bootstrap = self.template_at(scope, config).await?;
        Ok(bootstrap.map(|bootstrap| (infrastructure, Some(bootstrap))))
    }

    /// A template as extensions get to see it, or why there is none.
    async fn template_at(
        &self,
        scope: &Scope<'_>,
        reference: &ContractVersionedObjectReference,
    ) -> Result<Result<Object, String>, WorkerError> {
        let namespace = &ObjectKey::of(scope.cluster).namespace;
        match self.externals.get(scope.context, namespace, reference).await {
            Ok(Some(external)) => Ok(Ok(view(external.object.as_ref())?)),
            Ok(None) => Ok(Err(format!("{reference} does not exist"))),
            Err(error @ (ExternalError::NoCrd { .. } | ExternalError::NoContract { .. })) => {
                Ok(Err(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }
}
