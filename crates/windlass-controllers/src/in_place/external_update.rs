//! Asks external updaters to update machines.
//!
//! Which one is asked and what its answer means is decided in [`windlass_engine::external_update`]; here they are called, and
//! what they say is written on the owner of the machines before anything is done about it.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use windlass_api::Object;
use windlass_api::hooks::{self, ExternalUpdateRequest, Hook};
use windlass_api::names::{
    CLONED_FROM_GROUP_KIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, EXTERNAL_UPDATE_ANNOTATION,
};
use windlass_engine::external_update::{
    Answer, ExternalUpdate, ExternalUpdater, Observed, Record, Step, UNREACHED_AGAIN, after, decide, digest,
    finding, fingerprint,
};
use windlass_engine::in_place::Said;
use windlass_engine::machine_set::annotation;
use windlass_hooks::Answer as Called;
use windlass_hooks::cache::{LONGEST_WAIT, Question};
use windlass_runtime::{Context, EventType, Kind, ObjectKey, WriteError, elsewhere};

use super::ask::registration;
use super::{InPlaceError, InPlaceExtensions};
use crate::external::{External, ExternalError, FromTemplate};

/// An update that external updaters are asked about.
pub(crate) struct Update<'a, K> {
    /// The owner of the machines.
    pub(crate) owner: &'a K,
    /// What was written down on it.
    pub(crate) record: Option<Record>,
    /// The external updaters that can be asked.
    pub(crate) updaters: &'a [ExternalUpdater],
    /// The machines that are not as desired.
    pub(crate) machines: &'a BTreeSet<String>,
    /// What they are asked.
    pub(crate) request: ExternalUpdateRequest,
    /// Whether machines are replaced if none of them accepts.
    pub(crate) fallback: bool,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) outcome: ExternalUpdate,
    /// When to reconcile again, if nothing happens before.
    pub(crate) again: Option<Timestamp>,
    /// What there is to say.
    pub(crate) said: Said,
}

impl Asked {
    /// What an external updater has said, which counts until it is asked again.
    fn answered(outcome: ExternalUpdate, machines: &BTreeSet<String>, again: Option<Timestamp>) -> Self {
        let said = finding(&outcome, machines, again).map_or(Said::Nothing, Said::Now);
        Self { outcome, again, said }
    }

    /// One could not be asked. The error says when it is tried again.
    fn unanswered(outcome: ExternalUpdate, machines: &BTreeSet<String>, again: Option<Timestamp>) -> Self {
        Self { again, ..Self::answered(outcome, machines, None) }
    }
}

impl InPlaceExtensions {
    /// The external updaters for a namespace, in the order in which they are asked.
    ///
    /// # Errors
    ///
    /// That is not known.
    pub(crate) async fn external_updaters(
        &self,
        namespace: &str,
    ) -> Result<Vec<ExternalUpdater>, InPlaceError> {
        let Some(hooks) = self.hooks().await else { return Ok(Vec::new()) };
        let handlers = hooks.handlers(Hook::ExternalUpdate, namespace).await?;
        let updaters = handlers.iter().map(|handler| ExternalUpdater {
            name: handler.name.to_string(),
            registration: digest(&registration(handler)),
        });
        Ok(updaters.collect())
    }

    /// Asks one after the other, until one accepts or all refuse. A call that fails is neither.
    pub(crate) async fn ask_external_updaters<K: Kind>(
        &self,
        context: &Context,
        namespace: &str,
        update: Update<'_, K>,
    ) -> Result<Asked, WriteError>
    where
        K::DynamicType: Default,
    {
        let Update { owner, mut record, updaters, machines, request, fallback } = update;
        let (desired, now) = (fingerprint(&request.desired), context.now());
        // Every one once, and the one that has accepted before.
        for _ in 0..=updaters.len() + 1 {
            let observed =
                Observed { record: record.as_ref(), desired: &desired, machines, updaters, fallback, now };
            let asked = match decide(&observed) {
                Step::Nothing => return Ok(Asked::default()),
                Step::Watch { acceptance, again } => {
                    let outcome =
                        ExternalUpdate::Accepted { handler: acceptance.by, reason: acceptance.reason };
                    return Ok(Asked::answered(outcome, machines, again));
                }
                Step::Refused { refusals, again } => {
                    return Ok(Asked::answered(ExternalUpdate::Refused(refusals), machines, again));
                }
                Step::Ask(asked) => asked,
            };
            let answer = match self.call_external(&asked, namespace, &request).await {
                Ok(answer) => answer,
                Err(error) => {
                    let holder = record.as_ref().and_then(|record| record.holder(updaters));
                    // One that has accepted and does not answer has not withdrawn.
                    let outcome = match holder {
                        Some(holder) => ExternalUpdate::Accepted {
                            handler: holder.by.clone(),
                            reason: format!("{} (asked again: {error})", holder.reason),
                        },
                        None => ExternalUpdate::NoAnswer(error.to_string()),
                    };
                    let again = error.retry_after().and_then(|left| now.checked_add(left).ok());
                    let again = again.or_else(|| now.checked_add(UNREACHED_AGAIN).ok());
                    return Ok(Asked::unanswered(outcome, machines, again));
                }
            };
            let said = after(&observed, &asked, answer);
            tell(context, owner, record.as_ref(), &said);
            write(context, owner, Some(&said)).await?;
            record = Some(said);
        }
        Ok(Asked::default())
    }

    async fn call_external(
        &self,
        asked: &ExternalUpdater,
        namespace: &str,
        request: &ExternalUpdateRequest,
    ) -> Result<Answer, InPlaceError> {
        let Some(hooks) = self.hooks().await else { return Ok(Answer::NotReached) };
        // The Cluster is in the request with its status, which changes all the time.
        let content = (namespace, &request.owner, &request.machines, &request.desired);
        let question = Question::of_content::<hooks::ExternalUpdate>(&asked.name, &content);
        let call = hooks.call_one::<hooks::ExternalUpdate>(&asked.name, namespace, request);
        Ok(match elsewhere(hooks.at_pace(&question, call)).await? {
            Called::Ignored(_) => Answer::NotReached,
            Called::Given(response) if response.accepted => {
                let seconds = u64::try_from(response.retry_after_seconds).unwrap_or_default();
                let retry_after = Duration::from_secs(seconds).min(LONGEST_WAIT);
                let retry_after = SignedDuration::try_from(retry_after).ok().filter(|_| seconds > 0);
                Answer::Accepted { reason: response.reason, retry_after }
            }
            Called::Given(response) => Answer::Refused { reason: response.reason },
        })
    }
}

/// Tells users which external updater has accepted or refused just now.
fn tell<K: Kind>(context: &Context, owner: &K, before: Option<&Record>, said: &Record)
where
    K::DynamicType: Default,
{
    let was = before.and_then(|before| before.accepted.as_ref());
    match &said.accepted {
        Some(accepted) if was.is_none_or(|was| was.by != accepted.by) => {
            let message = format!("{} accepts the update: {}", accepted.by, accepted.reason);
            context.event(owner, EventType::Normal, "ExternalUpdateAccepted", message);
        }
        Some(_) => {}
        None => {
            if let Some(refusal) = said.refused.last() {
                context.event(owner, EventType::Normal, "ExternalUpdateRefused", refusal.to_string());
            }
        }
    }
}

/// What external updaters said before, as it is written on the owner of the machines.
pub(crate) fn record_of(owner: &ObjectMeta) -> Option<Record> {
    annotation(owner, EXTERNAL_UPDATE_ANNOTATION).and_then(Record::from_annotation)
}

/// Removes what external updaters said: the update is over, or another way was chosen.
pub(crate) async fn forget_record<K: Kind>(context: &Context, owner: &K) -> Result<(), WriteError>
where
    K::DynamicType: Default,
{
    match owner.meta().annotations.as_ref().is_some_and(|all| all.contains_key(EXTERNAL_UPDATE_ANNOTATION)) {
        true => write(context, owner, None).await,
        false => Ok(()),
    }
}

/// Merged without a lock: this controller alone writes this annotation.
async fn write<K: Kind>(context: &Context, owner: &K, record: Option<&Record>) -> Result<(), WriteError>
where
    K::DynamicType: Default,
{
    let value = record.map(Record::to_annotation);
    let patch = json!({"metadata": {"annotations": {EXTERNAL_UPDATE_ANNOTATION: value}}});
    context.writer::<K>().patch_unconditionally(&ObjectKey::of(owner), patch).await?;
    Ok(())
}

/// What every machine shall have of a template: what is made from it, without a name, and of its annotations only where it is
/// from.
pub(crate) fn desired_part(template: &External, cluster: &str) -> Result<Object, ExternalError> {
    let object = FromTemplate {
        template: &template.object,
        name: "",
        cluster,
        owner: None,
        labels: Default::default(),
        annotations: Default::default(),
    }
    .object()?;
    let kept = [CLONED_FROM_NAME_ANNOTATION, CLONED_FROM_GROUP_KIND_ANNOTATION];
    let annotations = object.metadata.annotations.iter().flatten();
    let annotations: Map<String, Value> = annotations
        .filter(|(key, _)| kept.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let types = object
        .types
        .as_ref()
        .ok_or_else(|| ExternalError::NoTemplate(template.object.name_any(), "it has no kind"))?;
    let fields = [
        ("apiVersion", json!(types.api_version)),
        ("kind", json!(types.kind)),
        ("metadata", json!({"annotations": annotations})),
        ("spec", object.data.get("spec").cloned().unwrap_or_else(|| json!({}))),
    ];
    Ok(Object::from(Map::from_iter(fields.map(|(field, value)| (field.to_owned(), value)))))
}
