//! Calls whose answers are good for a while: upgrade plans and variables.

use std::time::Duration;

use windlass_api::hooks::{
    DiscoverVariables, DiscoverVariablesRequest, DiscoverVariablesResponse, GenerateUpgradePlan,
    GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, Hook, HookRequest,
};

use crate::answer::Answer;
use crate::cache::{ExpiringCache, ObjectIdentity, Question, ResponseKey};
use crate::client::HookClient;
use crate::error::{CallError, CallFailure};
use crate::registry::Registration;

/// How long variables are used again. Upstream's time.
const KEEP_VARIABLES: Duration = Duration::from_secs(10 * 60);
/// How long a plan is shown without asking for it again. A cluster in a long wait asks at this pace at most, and a plan
/// that has changed meanwhile is seen soon. A step never begins with a plan that was remembered.
const KEEP_PLANS: Duration = Duration::from_secs(60);

pub(crate) struct ResponseCaches {
    plans: ExpiringCache<ResponseKey, GenerateUpgradePlanResponse>,
    variables: ExpiringCache<ResponseKey, DiscoverVariablesResponse>,
}

impl ResponseCaches {
    pub(crate) fn new() -> Self {
        Self { plans: ExpiringCache::new(), variables: ExpiringCache::new() }
    }
}

impl HookClient {
    /// The plan of an extension for an upgrade, of now or, where that is good enough, of the last minute. Only the plan
    /// for the same extension, versions and generation of the Cluster is ever used again.
    ///
    /// A plan is remembered only if `validate` accepts it. One that cannot be used is a failure, and asked for again at
    /// the pace of failures, so that a corrected extension is noticed.
    ///
    /// # Errors
    ///
    /// There is no plan that can be used, with the time of the next try. A handler that was not reached has given none,
    /// whatever its failure policy is.
    pub async fn upgrade_plan<E: std::fmt::Display>(
        &self,
        handler: &str,
        question: &Question,
        request: &GenerateUpgradePlanRequest,
        age: PlanAge,
        validate: impl FnOnce(&GenerateUpgradePlanResponse) -> Result<(), E>,
    ) -> Result<GivenPlan, CallError> {
        let ask = async {
            let handler = self.find(Hook::GenerateUpgradePlan, handler, &question.object().namespace).await?;
            let key = plan_key(&handler, request);
            if age == PlanAge::LastMinute
                && let Some(plan) = self.0.responses.plans.get(&key)
            {
                return Ok(GivenPlan { plan, is_of_now: false });
            }
            // A plan of an extension that does not answer any more is not followed for the rest of its minute.
            self.0.responses.plans.remove(&key);
            let failed = |failure: CallFailure| CallError::Failed {
                hook: Hook::GenerateUpgradePlan,
                handler: handler.name.clone(),
                failure,
            };
            let plan = match self.call::<GenerateUpgradePlan>(&handler, request.clone()).await? {
                Answer::Given(plan) => plan,
                Answer::Ignored(failure) => return Err(failed(failure)),
            };
            validate(&plan).map_err(|reason| {
                failed(CallFailure::Unusable { what: "an upgrade plan", reason: reason.to_string() })
            })?;
            self.0.responses.plans.insert(key, plan.clone(), KEEP_PLANS);
            Ok(GivenPlan { plan, is_of_now: true })
        };
        self.at_pace(question, ask).await
    }

    /// The variables that an external patch defines, asked for at most every 10 minutes while the extension
    /// and the settings stay the same. A handler that was not reached has defined none.
    ///
    /// # Errors
    ///
    /// As [`call_one`](Self::call_one), with the time of the next try.
    pub async fn discover_variables(
        &self,
        handler: &str,
        question: &Question,
        request: &DiscoverVariablesRequest,
    ) -> Result<DiscoverVariablesResponse, CallError> {
        let ask = async {
            let handler = self.find(Hook::DiscoverVariables, handler, &question.object().namespace).await?;
            let key = key(&handler, request, &[]);
            if let Some(variables) = self.0.responses.variables.get(&key) {
                return Ok(variables);
            }
            match self.call::<DiscoverVariables>(&handler, request.clone()).await? {
                Answer::Given(variables) => {
                    self.0.responses.variables.insert(key, variables.clone(), KEEP_VARIABLES);
                    Ok(variables)
                }
                Answer::Ignored(failure) => Err(CallError::Failed {
                    hook: Hook::DiscoverVariables,
                    handler: handler.name.clone(),
                    failure,
                }),
            }
        };
        self.at_pace(question, ask).await
    }
}

/// How old a plan may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAge {
    /// It is asked for now: a step begins with it.
    Now,
    /// One of the last minute will do: it is shown, and nothing begins with it.
    LastMinute,
}

/// A plan that an extension gave.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenPlan {
    /// The plan.
    pub plan: GenerateUpgradePlanResponse,
    /// Whether the extension was asked for it just now.
    pub is_of_now: bool,
}

/// The whole Cluster is in the request, but its status changes all the time. What a plan may depend on is in
/// its spec, and that is what the generation counts.
fn plan_key(handler: &Registration, request: &GenerateUpgradePlanRequest) -> ResponseKey {
    let ObjectIdentity { namespace, name, uid, .. } = ObjectIdentity::of(&request.cluster);
    let generation = request.cluster.generation().unwrap_or_default().to_string();
    let workers = request.from_workers_kubernetes_version.as_deref().unwrap_or_default();
    key(
        handler,
        request,
        &[
            &namespace,
            &name,
            &uid,
            &generation,
            &request.from_control_plane_kubernetes_version,
            workers,
            &request.to_kubernetes_version,
        ],
    )
}

fn key<R: HookRequest>(handler: &Registration, request: &R, inputs: &[&str]) -> ResponseKey {
    let mut settings = handler.settings.as_ref().clone();
    settings.extend(request.settings().cloned().unwrap_or_default());
    ResponseKey::new(handler.name.clone(), handler.revision.as_ref(), settings, inputs.iter().copied())
}
