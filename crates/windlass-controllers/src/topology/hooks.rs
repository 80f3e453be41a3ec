//! Hooks: from a call that was decided on to the request of its hook, and from the answer back.

use std::sync::OnceLock;

use windlass_api::cluster::{Cluster, ClusterClass};
use windlass_api::hooks::{
    AfterClusterUpgrade, AfterClusterUpgradeRequest, AfterControlPlaneInitialized,
    AfterControlPlaneInitializedRequest, AfterControlPlaneUpgrade, AfterControlPlaneUpgradeRequest,
    AfterWorkersUpgrade, AfterWorkersUpgradeRequest, BeforeClusterCreate, BeforeClusterCreateRequest,
    BeforeClusterDelete, BeforeClusterDeleteRequest, BeforeClusterUpgrade, BeforeClusterUpgradeRequest,
    BeforeControlPlaneUpgrade, BeforeControlPlaneUpgradeRequest, BeforeWorkersUpgrade,
    BeforeWorkersUpgradeRequest, GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, Hook, HookType,
    RetryResponse, UpgradePlan, UpgradeStep,
};
use windlass_api::object::{Object, ObjectError};
use windlass_engine::topology::{HookAnswer, HookCall, Observed, Plan, PlanQuery, PlanSource};
use windlass_hooks::cache::{BlockingKey, ObjectKey};
use windlass_hooks::{Answer, HookClient};
use windlass_plan::Source;
use windlass_version::Version;

/// Calls hooks about one Cluster.
pub(super) struct ClusterHooks<'a> {
    client: &'a HookClient,
    cluster: &'a Cluster,
    /// The Cluster as extensions see it, made when the first hook is called: most reconciles call none.
    sent: OnceLock<Result<Object, ObjectError>>,
}

impl<'a> ClusterHooks<'a> {
    pub(super) const fn new(client: &'a HookClient, cluster: &'a Cluster) -> Self {
        Self { client, cluster, sent: OnceLock::new() }
    }

    fn sent(&self) -> Result<&Object, String> {
        let sent = self.sent.get_or_init(|| Object::from_typed(self.cluster).map(Object::for_hook_request));
        sent.as_ref().map_err(|error| format!("the Cluster cannot be sent to extensions: {error}"))
    }

    fn namespace(&self) -> &str {
        self.cluster.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Calls a hook, unless a handler asked to wait and the time is not over.
    pub(super) async fn call(&self, call: &HookCall) -> HookAnswer {
        let cluster = match self.sent() {
            Ok(cluster) => cluster.clone(),
            Err(error) => return HookAnswer::Failed { error },
        };
        let text = |version: &Option<Version>| version.as_ref().map(Version::to_string).unwrap_or_default();
        let (from_kubernetes_version, to_kubernetes_version) = (text(&call.from), text(&call.to));
        // Hooks that come after something are told what was reached.
        let kubernetes_version = to_kubernetes_version.clone();
        let texts = |versions: &[Version]| versions.iter().map(Version::to_string).collect();
        let upgrade_plan = UpgradePlan {
            control_plane: texts(&call.control_plane_plan),
            workers: texts(&call.workers_plan),
        };
        /// Asks with the fields that the request of a hook has, from the variables of the same names.
        macro_rules! ask {
            ($hook:ty, $request:ident { $($field:ident),* }) => {
                self.ask::<$hook>(call, $request { $($field,)* ..Default::default() }).await
            };
        }
        match call.hook {
            Hook::BeforeClusterCreate => ask!(BeforeClusterCreate, BeforeClusterCreateRequest { cluster }),
            Hook::AfterControlPlaneInitialized => {
                let request = AfterControlPlaneInitializedRequest { cluster, ..Default::default() };
                match self.client.call_all::<AfterControlPlaneInitialized>(self.namespace(), &request).await {
                    Ok(_) => HookAnswer::Passed,
                    Err(error) => HookAnswer::Failed { error: error.to_string() },
                }
            }
            Hook::BeforeClusterUpgrade => ask!(
                BeforeClusterUpgrade,
                BeforeClusterUpgradeRequest {
                    cluster,
                    from_kubernetes_version,
                    to_kubernetes_version,
                    upgrade_plan
                }
            ),
            Hook::BeforeControlPlaneUpgrade => ask!(
                BeforeControlPlaneUpgrade,
                BeforeControlPlaneUpgradeRequest {
                    cluster,
                    from_kubernetes_version,
                    to_kubernetes_version,
                    upgrade_plan
                }
            ),
            Hook::AfterControlPlaneUpgrade => ask!(
                AfterControlPlaneUpgrade,
                AfterControlPlaneUpgradeRequest { cluster, kubernetes_version, upgrade_plan }
            ),
            Hook::BeforeWorkersUpgrade => ask!(
                BeforeWorkersUpgrade,
                BeforeWorkersUpgradeRequest {
                    cluster,
                    from_kubernetes_version,
                    to_kubernetes_version,
                    upgrade_plan
                }
            ),
            Hook::AfterWorkersUpgrade => ask!(
                AfterWorkersUpgrade,
                AfterWorkersUpgradeRequest { cluster, kubernetes_version, upgrade_plan }
            ),
            Hook::AfterClusterUpgrade => {
                ask!(AfterClusterUpgrade, AfterClusterUpgradeRequest { cluster, kubernetes_version })
            }
            Hook::BeforeClusterDelete => ask!(BeforeClusterDelete, BeforeClusterDeleteRequest { cluster }),
            other => HookAnswer::Failed { error: format!("{other} is not a lifecycle hook") },
        }
    }

    async fn ask<H>(&self, call: &HookCall, request: H::Request) -> HookAnswer
    where
        H: HookType<Response: RetryResponse>,
    {
        let key = BlockingKey::new::<H>(self.key(), call.versions());
        match self.client.call_all_unless_waiting::<H>(&key, &request).await {
            Err(error) => HookAnswer::Failed { error: error.to_string() },
            Ok(answers) => match answers.wait() {
                None => HookAnswer::Passed,
                Some(wait) => HookAnswer::Blocked {
                    retry_after_seconds: wait.retry_after_seconds,
                    interval_seconds: wait.interval_seconds,
                    handlers: wait.handlers,
                    message: wait.message,
                },
            },
        }
    }

    fn key(&self) -> ObjectKey {
        let metadata = &self.cluster.metadata;
        let string = |value: &Option<String>| value.clone().unwrap_or_default();
        ObjectKey {
            kind: Cluster::KIND.to_owned(),
            namespace: string(&metadata.namespace),
            name: string(&metadata.name),
            uid: string(&metadata.uid),
        }
    }

    /// Where the versions of an upgrade come from: the extension that the class names, else its list, else one
    /// minor. The extension is asked only if there is something to plan.
    pub(super) async fn source(&self, class: &ClusterClass, observed: &Observed) -> PlanSource {
        let external = class.spec.upgrade.external.as_ref();
        let handler = external.map(|external| external.generate_upgrade_plan_extension.as_str());
        let Some(handler) = handler.filter(|handler| !handler.is_empty()) else {
            return PlanSource::Known(Source::first_of(None, class.spec.kubernetes_versions.clone()));
        };
        let Some(query) = PlanQuery::of(observed) else {
            return PlanSource::Known(Source::OneMinor);
        };
        let cluster = match self.sent() {
            Ok(cluster) => cluster.clone(),
            Err(error) => return PlanSource::Unavailable(error),
        };
        let request = GenerateUpgradePlanRequest::new(
            cluster,
            query.control_plane.to_string(),
            query.workers.as_ref().map(Version::to_string),
            query.target.to_string(),
        );
        let validate = |response: &GenerateUpgradePlanResponse| Plan::check(observed, given(response));
        match self.client.upgrade_plan(handler, self.namespace(), &request, validate).await {
            Ok(Answer::Given(response)) => PlanSource::Known(given(&response)),
            Ok(Answer::Ignored(failure)) => {
                PlanSource::Unavailable(format!("handler {handler:?} did not answer: {failure}"))
            }
            Err(error) => PlanSource::Unavailable(error.to_string()),
        }
    }
}

fn given(response: &GenerateUpgradePlanResponse) -> Source {
    let versions =
        |steps: &[UpgradeStep]| -> Vec<String> { steps.iter().map(|step| step.version.clone()).collect() };
    Source::given(versions(&response.control_plane_upgrades), versions(&response.workers_upgrades))
}

#[cfg(test)]
mod tests {
    use windlass_hooks::transport::{HttpsTransport, boxed};

    use super::*;

    #[tokio::test]
    async fn the_cluster_is_serialised_once_and_only_when_a_hook_is_called() {
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some("c1".to_owned());
        let client = HookClient::builder(boxed(HttpsTransport::new())).build();
        client.registry().mark_warm();
        let hooks = ClusterHooks::new(&client, &cluster);
        let observed = Observed::new(Version::new(1, 31, 0));
        let source = hooks.source(&ClusterClass::default(), &observed).await;
        assert_eq!(source, PlanSource::Known(Source::OneMinor));
        assert!(hooks.sent.get().is_none(), "no hook was called");

        let call = HookCall::bare(Hook::BeforeClusterCreate);
        assert_eq!(hooks.call(&call).await, HookAnswer::Passed);
        let sent: *const Object = hooks.sent().unwrap();
        assert_eq!(hooks.call(&call).await, HookAnswer::Passed);
        assert!(std::ptr::eq(sent, hooks.sent().unwrap()), "it was serialised again");
        assert_eq!(hooks.sent().unwrap().name(), Some("c1"));
    }
}
