//! Hooks: from a call that was decided on to the request of its hook, and from the answer back.

use std::sync::OnceLock;
use std::time::Duration;

use serde_json::json;
use windlass_api::cluster::{Cluster, ClusterClass};
use windlass_api::hooks::{
    AfterClusterUpgrade, AfterClusterUpgradeRequest, AfterControlPlaneInitialized,
    AfterControlPlaneInitializedRequest, AfterControlPlaneUpgrade, AfterControlPlaneUpgradeRequest,
    AfterWorkersUpgrade, AfterWorkersUpgradeRequest, BeforeClusterCreate, BeforeClusterCreateRequest,
    BeforeClusterDelete, BeforeClusterDeleteRequest, BeforeClusterUpgrade, BeforeClusterUpgradeRequest,
    BeforeControlPlaneUpgrade, BeforeControlPlaneUpgradeRequest, BeforeWorkersUpgrade,
    BeforeWorkersUpgradeRequest, GenerateUpgradePlan, GenerateUpgradePlanRequest,
    GenerateUpgradePlanResponse, Hook, HookType, UpgradePlan, UpgradeStep,
};
use windlass_api::names::WRITTEN_BY_CONTROLLERS;
use windlass_api::object::{Object, ObjectError};
use windlass_engine::topology::{
    Decision, HookAnswer, HookAnswers, HookCall, Next, Observed, Plan, PlanQuery, PlanSource, decide,
};
use windlass_hooks::cache::{ObjectIdentity, Question};
use windlass_hooks::{GivenPlan, HookClient, PlanAge};
use windlass_plan::Source;
use windlass_runtime::{Incomplete, elsewhere, name_of, namespace_of, uid_of};
use windlass_version::Version;

use crate::in_place::of_engine;

/// Calls hooks about one Cluster.
pub(super) struct ClusterHooks<'a> {
    client: &'a HookClient,
    cluster: &'a Cluster,
    identity: ObjectIdentity,
    /// The Cluster as extensions see it, made when the first hook is called: most reconciles call none.
    sent: OnceLock<Result<Object, ObjectError>>,
}

impl<'a> ClusterHooks<'a> {
    pub(super) fn new(client: &'a HookClient, cluster: &'a Cluster) -> Result<Self, Incomplete> {
        let identity = ObjectIdentity {
            kind: Cluster::KIND.to_owned(),
            namespace: namespace_of(cluster)?.to_owned(),
            name: name_of(cluster)?.to_owned(),
            uid: uid_of(cluster)?.to_owned(),
        };
        Ok(Self { client, cluster, identity, sent: OnceLock::new() })
    }

    fn sent(&self) -> Result<&Object, String> {
        let sent = self.sent.get_or_init(|| Object::from_typed(self.cluster).map(sent));
        sent.as_ref().map_err(|error| format!("the Cluster cannot be sent to extensions: {error}"))
    }

    /// Calls a hook, unless it is too early for that: a handler asked to wait, or has failed.
    pub(super) async fn call(&self, call: &HookCall) -> HookAnswer {
        let cluster = match self.sent() {
            Ok(cluster) => cluster.clone(),
            Err(error) => return HookAnswer::Failed { error, retry: None },
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
                ask!(AfterControlPlaneInitialized, AfterControlPlaneInitializedRequest { cluster })
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
            other => HookAnswer::Failed { error: format!("{other} is not a lifecycle hook"), retry: None },
        }
    }

    async fn ask<H: HookType>(&self, call: &HookCall, request: H::Request) -> HookAnswer {
        let question = self.question::<H>(call.versions());
        match elsewhere(self.client.call_all_at_pace::<H>(&question, &request)).await {
            Err(error) => {
                HookAnswer::Failed { error: error.to_string(), retry: error.retry().map(of_engine) }
            }
            Ok(answers) => match answers.wait() {
                None => HookAnswer::Passed,
                Some(wait) => HookAnswer::Blocked {
                    retry: of_engine(wait.retry),
                    asked_seconds: wait.asked_seconds,
                    handlers: wait.handlers,
                    message: wait.message,
                },
            },
        }
    }

    /// What a hook is asked about the Cluster, in the edition that the user has written.
    pub(super) fn question<H: HookType>(&self, about: impl IntoIterator<Item = String>) -> Question {
        Question::new::<H>(self.identity.clone(), about).in_edition(edition(self.cluster))
    }

    /// Decides, and calls the hooks that the decision needs.
    ///
    /// A step that begins follows a plan of now. Where an extension plans and its plan was remembered, it is asked for a
    /// new one before the step is promised; the hooks before a step of that plan are called if it is another step.
    pub(super) async fn decide(&self, class: &ClusterClass, observed: &mut Observed) -> Decided {
        let mut answers = HookAnswers::new();
        let mut given = self.source(class, observed, PlanAge::LastMinute).await;
        observed.source = given.source.clone();
        loop {
            match decide(observed, &answers) {
                Next::Call(call) => answers.insert(&call, self.call(&call).await),
                Next::Act(decision) if !given.is_of_now && decision.begins_step(observed) => {
                    given = self.source(class, observed, PlanAge::Now).await;
                    observed.source = given.source.clone();
                }
                Next::Act(decision) => return Decided { decision: *decision, plan_again: given.again },
            }
        }
    }

    /// Where the versions of an upgrade come from: the extension that the class names, else its list, else one
    /// minor. The extension is asked only if there is something to plan.
    async fn source(&self, class: &ClusterClass, observed: &Observed, age: PlanAge) -> GivenSource {
        let external = class.spec.upgrade.external.as_ref();
        let handler = external.map(|external| external.generate_upgrade_plan_extension.as_str());
        let Some(handler) = handler.filter(|handler| !handler.is_empty()) else {
            return GivenSource::of_class(Source::first_of(None, class.spec.kubernetes_versions.clone()));
        };
        let Some(query) = PlanQuery::of(observed) else {
            return GivenSource::of_class(Source::OneMinor);
        };
        let cluster = match self.sent() {
            Ok(cluster) => cluster.clone(),
            Err(error) => return GivenSource::none(error, None),
        };
        let request = GenerateUpgradePlanRequest::new(
            cluster,
            query.control_plane.to_string(),
            query.workers.as_ref().map(Version::to_string),
            query.target.to_string(),
        );
        let workers = query.workers.as_ref().map(Version::to_string).unwrap_or_default();
        let versions = [query.control_plane.to_string(), workers, query.target.to_string()];
        let question = self.question::<GenerateUpgradePlan>(versions);
        let validate = |response: &GenerateUpgradePlanResponse| Plan::check(observed, given(response));
        match elsewhere(self.client.upgrade_plan(handler, &question, &request, age, validate)).await {
            Ok(GivenPlan { plan, is_of_now }) => {
                GivenSource { source: PlanSource::Known(given(&plan)), is_of_now, again: None }
            }
            Err(error) => GivenSource::none(error.to_string(), error.retry().map(|retry| retry.left)),
        }
    }
}

/// A Cluster as extensions get to see it: with a status also before anything has one, so that none has to reckon with a
/// request without.
fn sent(cluster: Object) -> Object {
    let mut cluster = cluster.for_hook_request();
    cluster.as_map_mut().entry("status").or_insert_with(|| json!({}));
    cluster
}

/// A decision, and when to decide again because there is no plan.
pub(super) struct Decided {
    pub(super) decision: Decision,
    pub(super) plan_again: Option<Duration>,
}

/// A source of versions, and how old it is.
struct GivenSource {
    source: PlanSource,
    is_of_now: bool,
    again: Option<Duration>,
}

impl GivenSource {
    /// What the class says is always of now.
    const fn of_class(source: Source) -> Self {
        Self { source: PlanSource::Known(source), is_of_now: true, again: None }
    }

    const fn none(why: String, again: Option<Duration>) -> Self {
        Self { source: PlanSource::Unavailable(why), is_of_now: true, again }
    }
}

fn given(response: &GenerateUpgradePlanResponse) -> Source {
    let versions =
        |steps: &[UpgradeStep]| -> Vec<String> { steps.iter().map(|step| step.version.clone()).collect() };
    Source::given(versions(&response.control_plane_upgrades), versions(&response.workers_upgrades))
}

/// What a user has written into a Cluster: the generation counts edits of the spec, and annotations are compared.
///
/// An edit makes hooks be asked again at once. What controllers write must not be part of it, or every hook would be
/// asked again after every write that its last answer has caused.
fn edition(cluster: &Cluster) -> String {
    let annotations = cluster.metadata.annotations.iter().flatten();
    let by_users = annotations.filter(|(key, _)| !WRITTEN_BY_CONTROLLERS.contains(&key.as_str()));
    json!([cluster.metadata.generation, by_users.collect::<Vec<_>>()]).to_string()
}

#[cfg(test)]
mod tests {
    use windlass_hooks::transport::{HttpsTransport, boxed};

    use super::*;

    #[tokio::test]
    async fn the_cluster_is_serialised_once_and_only_when_a_hook_is_called() {
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some("c1".to_owned());
        cluster.metadata.namespace = Some("default".to_owned());
        cluster.metadata.uid = Some("u1".to_owned());
        let client = HookClient::builder(boxed(HttpsTransport::new())).build();
        client.registry().mark_warm();
        let hooks = ClusterHooks::new(&client, &cluster).unwrap();
        let observed = Observed::new(Version::new(1, 31, 0));
        let given = hooks.source(&ClusterClass::default(), &observed, PlanAge::LastMinute).await;
        assert_eq!(given.source, PlanSource::Known(Source::OneMinor));
        assert!(hooks.sent.get().is_none(), "no hook was called");

        let call = HookCall::bare(Hook::BeforeClusterCreate);
        assert_eq!(hooks.call(&call).await, HookAnswer::Passed);
        let sent: *const Object = hooks.sent().unwrap();
        assert_eq!(hooks.call(&call).await, HookAnswer::Passed);
        assert!(std::ptr::eq(sent, hooks.sent().unwrap()), "it was serialised again");
        assert_eq!(hooks.sent().unwrap().name(), Some("c1"));
    }

    #[test]
    fn an_edition_is_what_users_write() {
        let cluster = |annotations: &[(&str, &str)], generation| {
            let mut cluster = Cluster::default();
            let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            cluster.metadata.annotations = Some(annotations.collect());
            cluster.metadata.generation = Some(generation);
            cluster
        };
        let first = cluster(&[("a", "1")], 1);
        let mut by_controllers = cluster(&[("a", "1")], 1);
        for key in WRITTEN_BY_CONTROLLERS {
            let annotations = by_controllers.metadata.annotations.as_mut().unwrap();
            annotations.insert(key.to_owned(), "x".to_owned());
        }
        by_controllers.metadata.resource_version = Some("9".to_owned());
        by_controllers.status.phase = Some(windlass_api::cluster::ClusterPhase::Provisioned);
        assert_eq!(edition(&by_controllers), edition(&first));
        for edited in [cluster(&[("a", "2")], 1), cluster(&[], 1), cluster(&[("a", "1")], 2)] {
            assert_ne!(edition(&edited), edition(&first));
        }
    }
}
