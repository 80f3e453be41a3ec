//! Calls whose answers are good for a while: upgrade plans and variables.

use std::time::Duration;

use windlass_api::hooks::{
    DiscoverVariables, DiscoverVariablesRequest, DiscoverVariablesResponse, GenerateUpgradePlan,
    GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, Hook, HookRequest,
};

use crate::answer::Answer;
use crate::cache::{ExpiringCache, ObjectKey, ResponseKey};
use crate::client::HookClient;
use crate::error::CallError;
use crate::registry::Registration;

/// How long an answer is used again. Upstream's time for both.
const KEEP_ANSWERS: Duration = Duration::from_secs(10 * 60);

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
    /// The plan of an extension for an upgrade, asked for at most every 10 minutes while the extension, the
    /// versions and the generation of the Cluster stay the same.
    ///
    /// A plan is remembered only if `validate` accepts it: one that cannot be used is asked for again, so that
    /// a corrected extension is noticed at the next try.
    ///
    /// # Errors
    ///
    /// As [`call_one`](Self::call_one), and when the plan is not accepted.
    pub async fn upgrade_plan<E: std::fmt::Display>(
        &self,
        handler: &str,
        namespace: &str,
        request: &GenerateUpgradePlanRequest,
        validate: impl FnOnce(&GenerateUpgradePlanResponse) -> Result<(), E>,
    ) -> Result<Answer<GenerateUpgradePlanResponse>, UpgradePlanError> {
        let handler = self.find(Hook::GenerateUpgradePlan, handler, namespace).await?;
        let key = plan_key(&handler, request);
        if let Some(plan) = self.0.responses.plans.get(&key) {
            return Ok(Answer::Given(plan));
        }
        let answer = self.call::<GenerateUpgradePlan>(&handler, request.clone()).await?;
        if let Answer::Given(plan) = &answer {
            validate(plan).map_err(|reason| UpgradePlanError::Invalid {
                handler: handler.name.to_string(),
                reason: reason.to_string(),
            })?;
            self.0.responses.plans.insert(key, plan.clone(), KEEP_ANSWERS);
        }
        Ok(answer)
    }

    /// The variables that an external patch defines, asked for at most every 10 minutes while the extension
    /// and the settings stay the same.
    ///
    /// # Errors
    ///
    /// As [`call_one`](Self::call_one).
    pub async fn discover_variables(
        &self,
        handler: &str,
        namespace: &str,
        request: &DiscoverVariablesRequest,
    ) -> Result<Answer<DiscoverVariablesResponse>, CallError> {
        let handler = self.find(Hook::DiscoverVariables, handler, namespace).await?;
        let key = key(&handler, request, &[]);
        if let Some(variables) = self.0.responses.variables.get(&key) {
            return Ok(Answer::Given(variables));
        }
        let answer = self.call::<DiscoverVariables>(&handler, request.clone()).await?;
        if let Answer::Given(variables) = &answer {
            self.0.responses.variables.insert(key, variables.clone(), KEEP_ANSWERS);
        }
        Ok(answer)
    }
}

/// The whole Cluster is in the request, but its status changes all the time. What a plan may depend on is in
/// its spec, and that is what the generation counts.
fn plan_key(handler: &Registration, request: &GenerateUpgradePlanRequest) -> ResponseKey {
    let ObjectKey { namespace, name, uid, .. } = ObjectKey::of(&request.cluster);
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

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpgradePlanError {
    /// The extension was not asked, or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The extension answered a plan that must not be followed.
    #[error("handler {handler:?} answered an upgrade plan that cannot be used: {reason}")]
    Invalid {
        /// Full name of the handler.
        handler: String,
        /// What is wrong with the plan.
        reason: String,
    },
}
