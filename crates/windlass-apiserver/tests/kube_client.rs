//! The API in process, as controllers see it: through `kube::Client`.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    PropagationPolicy, WatchEvent, WatchParams,
};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use windlass_apiserver::{Admission, ApiServer, Denial, Identity, Operation, Options, Review};
use windlass_store::{History, Store};

async fn server() -> ApiServer {
    ApiServer::start(Store::in_memory(History::default()), Options::new().seed(1)).await.unwrap()
}

fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("key".into(), value.into())])),
        ..ConfigMap::default()
    }
}

fn owned(name: &str, owner: &ConfigMap, block: bool) -> ConfigMap {
    let mut owned = config_map(name, "");
    owned.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: owner.name_any(),
        uid: owner.uid().unwrap(),
        block_owner_deletion: Some(block),
        controller: None,
    }]);
    owned
}

/// Waits until an object is gone; the paused clock makes giving up quick.
async fn gone(api: &Api<ConfigMap>, name: &str) -> bool {
    for _ in 0..100 {
        if api.get_opt(name).await.unwrap().is_none() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_read_replaced_patched_and_deleted() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let post = PostParams::default();
    let created = api.create(&post, &config_map("a", "1")).await.unwrap();
    assert_eq!(created.namespace().as_deref(), Some("default"));
    assert_eq!(code(api.create(&post, &config_map("a", "1")).await.unwrap_err()), 409);

    let mut changed = created.clone();
    changed.data = Some(BTreeMap::from([("key".into(), "2".into())]));
    let replaced = api.replace("a", &post, &changed).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    assert_eq!(code(api.replace("a", &post, &changed).await.unwrap_err()), 409, "the version is an old one");

    let patch = Patch::Merge(json!({"data": {"key": "3"}}));
    let patched = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data.as_ref().unwrap()["key"], "3");
    assert_eq!(api.get("a").await.unwrap(), patched);

    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(api.get("a").await.unwrap_err()), 404);
}

#[tokio::test(start_paused = true)]
async fn writes_that_change_nothing_write_nothing() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let apply = PatchParams::apply("me");
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let first = api.patch("a", &apply, &Patch::Apply(&config)).await.unwrap();
    let revision = server.store().revision();
    tokio::time::advance(Duration::from_secs(60)).await;
    let again = api.patch("a", &apply, &Patch::Apply(&config)).await.unwrap();
    let merged =
        api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "v"}}))).await.unwrap();
    let replaced = api.replace("a", &PostParams::default(), &first).await.unwrap();
    assert_eq!((&again, &merged, &replaced), (&first, &first, &first), "times of managers included");
    assert_eq!(server.store().revision(), revision);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_shows_the_result_and_writes_nothing() {
    let server = server().await;
    let api: Api<Secret> = Api::default_namespaced(client(&server));
    let revision = server.store().revision();
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"p": "q"}})).unwrap();
    let shown = api.create(&PostParams { dry_run: true, ..PostParams::default() }, &secret).await.unwrap();
    assert_eq!(shown.type_.as_deref(), Some("Opaque"));
    assert_eq!(shown.data.unwrap()["p"].0, b"q");
    assert!(api.get_opt("s").await.unwrap().is_none());
    assert_eq!(server.store().revision(), revision);
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_are_all_of_the_same_moment() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    for name in ["a", "b", "c", "d"] {
        api.create(&PostParams::default(), &config_map(name, "")).await.unwrap();
    }
    api.delete("kube-root-ca.crt", &DeleteParams::default()).await.ok();
    let page = api.list(&ListParams::default().limit(2).labels("")).await.unwrap();
    let names =
        |list: &kube::api::ObjectList<ConfigMap>| list.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    assert_eq!(names(&page), ["a", "b"]);
    api.delete("c", &DeleteParams::default()).await.unwrap();
    api.create(&PostParams::default(), &config_map("bb", "")).await.unwrap();
    let token = page.metadata.continue_.clone().unwrap();
    let rest = api.list(&ListParams::default().limit(10).continue_token(&token)).await.unwrap();
    assert!(names(&rest).starts_with(&["c".to_owned(), "d".to_owned()]), "{:?}", names(&rest));
    assert_eq!(rest.metadata.resource_version, page.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_what_is_there_and_what_happens() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::namespaced(client(&server), "kube-public");
    api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let config = config.fields("metadata.name=a");
        let mut seen = Box::pin(watcher(api.clone(), config).applied_objects());
        assert_eq!(seen.next().await.unwrap().unwrap().name_any(), "a");
        let value = server.store().revision().to_string();
        let patch = Patch::Merge(json!({"data": {"key": value}}));
        api.patch("a", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!(seen.next().await.unwrap().unwrap().data.unwrap()["key"], value);
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_is_told_how_far_it_is_and_ends_in_time() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let started = tokio::time::Instant::now();
    let parameters = WatchParams::default().timeout(290).fields("metadata.name=nothing");
    let events: Vec<WatchEvent<ConfigMap>> =
        api.watch(&parameters, "").await.unwrap().try_collect().await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 290);
    assert!(events.len() >= 5, "one a minute and one at each end: {events:?}");
    assert!(events.iter().all(|event| matches!(event, WatchEvent::Bookmark(_))));
}

#[tokio::test(start_paused = true)]
async fn what_is_owned_goes_after_its_owner() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let post = PostParams::default();
    let owner = api.create(&post, &config_map("owner", "")).await.unwrap();
    let child = api.create(&post, &owned("child", &owner, false)).await.unwrap();
    api.create(&post, &owned("grandchild", &child, false)).await.unwrap();
    api.create(&post, &config_map("stranger", "")).await.unwrap();
    api.delete("owner", &DeleteParams::background()).await.unwrap();
    assert!(gone(&api, "child").await && gone(&api, "grandchild").await);
    assert!(api.get_opt("stranger").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_owner_deleted_in_the_foreground_waits_for_what_it_owns() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let post = PostParams::default();
    let owner = api.create(&post, &config_map("owner", "")).await.unwrap();
    let mut child = owned("child", &owner, true);
    child.metadata.finalizers = Some(vec!["test/hold".into()]);
    api.create(&post, &child).await.unwrap();
    api.delete("owner", &DeleteParams::foreground()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let held = api.get("owner").await.unwrap();
    assert_eq!(held.finalizers(), ["foregroundDeletion"]);
    assert!(api.get("child").await.unwrap().metadata.deletion_timestamp.is_some());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("child", &PatchParams::default(), &release).await.unwrap();
    assert!(gone(&api, "child").await && gone(&api, "owner").await);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_forget_their_owner() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let owner = api.create(&PostParams::default(), &config_map("owner", "")).await.unwrap();
    api.create(&PostParams::default(), &owned("child", &owner, false)).await.unwrap();
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    api.delete("owner", &orphan).await.unwrap();
    assert!(gone(&api, "owner").await);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(api.get("child").await.unwrap().owner_references().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_emptied_and_then_goes() {
    let server = server().await;
    let namespaces: Api<Namespace> = Api::all(client(&server));
    let namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client(&server), "n");
    let mut held = config_map("held", "");
    held.metadata.finalizers = Some(vec!["test/hold".into()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(api.create(&PostParams::default(), &config_map("late", "")).await.unwrap_err()), 403);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(namespaces.get("n").await.unwrap().status.unwrap().phase.as_deref(), Some("Terminating"));
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("held", &PatchParams::default(), &release).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(namespaces.get_opt("n").await.unwrap().is_none());
}

fn definition(versions: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.io"},
        "spec": {"group": "test.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": versions},
    }))
    .unwrap()
}

fn version(name: &str, storage: bool) -> Value {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}});
    json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
}

fn definitions(server: &ApiServer) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    Api::all_with(client(server), &resource)
}

fn things(server: &ApiServer, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "test.io".into(),
        version: version.into(),
        api_version: format!("test.io/{version}"),
        kind: "Thing".into(),
        plural: "things".into(),
    };
    Api::default_namespaced_with(client(server), &resource)
}

fn thing(version: &str, name: &str) -> DynamicObject {
    let thing = json!({"apiVersion": format!("test.io/{version}"), "kind": "Thing", "metadata": {"name": name},
        "spec": {"a": "x"}});
    serde_json::from_value(thing).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_kind_with_two_versions_is_one_set_of_objects() {
    let server = server().await;
    let versions = json!([version("v1", true), version("v1beta1", false)]);
    definitions(&server).create(&PostParams::default(), &definition(&versions)).await.unwrap();
    things(&server, "v1beta1").create(&PostParams::default(), &thing("v1beta1", "t")).await.unwrap();
    let as_v1 = things(&server, "v1").get("t").await.unwrap();
    assert_eq!(as_v1.types.as_ref().unwrap().api_version, "test.io/v1");
    let as_beta = things(&server, "v1beta1").get("t").await.unwrap();
    assert_eq!(as_beta.types.as_ref().unwrap().api_version, "test.io/v1beta1");
    assert_eq!(as_v1.resource_version(), as_beta.resource_version());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_along() {
    let server = server().await;
    let versions = json!([version("v1", true)]);
    definitions(&server).create(&PostParams::default(), &definition(&versions)).await.unwrap();
    things(&server, "v1").create(&PostParams::default(), &thing("v1", "t")).await.unwrap();
    definitions(&server).delete("things.test.io", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(definitions(&server).get_opt("things.test.io").await.unwrap().is_none());
    assert_eq!(code(things(&server, "v1").get("t").await.unwrap_err()), 404);

    definitions(&server).create(&PostParams::default(), &definition(&versions)).await.unwrap();
    assert!(things(&server, "v1").list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_default_shows_in_objects_that_were_there_before() {
    let server = server().await;
    let versions = json!([version("v1", true)]);
    definitions(&server).create(&PostParams::default(), &definition(&versions)).await.unwrap();
    things(&server, "v1").create(&PostParams::default(), &thing("v1", "t")).await.unwrap();
    let default = json!([{"op": "add", "path":
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b/default", "value": 7}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(default).unwrap());
    definitions(&server).patch("things.test.io", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(things(&server, "v1").get("t").await.unwrap().data["spec"], json!({"a": "x", "b": 7}));
}

#[tokio::test(start_paused = true)]
async fn events_are_forgotten_after_an_hour() {
    let server = server().await;
    let api: Api<Event> = Api::default_namespaced(client(&server));
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"name": "x"}, "reason": "Tested"});
    api.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3500)).await;
    assert!(api.get_opt("e").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert!(api.get_opt("e").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_role_allows_what_it_says_and_nothing_more() {
    let server = server().await;
    let admin = client(&server);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "eve"}]});
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let request =
            http::Request::post(format!("/apis/rbac.authorization.k8s.io/v1/namespaces/default/{plural}"));
        admin.request::<Value>(request.body(object.to_string().into_bytes()).unwrap()).await.unwrap();
    }
    let eve = Client::new(server.service_for(Identity::user("eve", [])), "default");
    let here: Api<ConfigMap> = Api::default_namespaced(eve.clone());
    here.list(&ListParams::default()).await.unwrap();
    assert_eq!(code(here.create(&PostParams::default(), &config_map("a", "")).await.unwrap_err()), 403);
    let there: Api<ConfigMap> = Api::namespaced(eve, "kube-system");
    assert_eq!(code(there.list(&ListParams::default()).await.unwrap_err()), 403);
    let as_eve = http::Request::get("/api/v1/namespaces/default/secrets").header("Impersonate-User", "eve");
    let refused = admin.request::<Value>(as_eve.body(Vec::new()).unwrap()).await.unwrap_err();
    assert_eq!(code(refused), 403, "an administrator who acts for eve may do what eve may");
    let nobody = Client::new(server.service_for(Identity::anonymous()), "default");
    assert_eq!(code(Api::<ConfigMap>::default_namespaced(nobody.clone()).get("a").await.unwrap_err()), 401);
    nobody.apiserver_version().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nobody_can_give_themselves_rights() {
    let server = server().await;
    let rule = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "role-maker"}, "rules": rule});
    let binding = |role: &str, user: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{user}-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": user}]})
    };
    let create = async |client: &Client, plural: &str, object: &Value| {
        let request = http::Request::post(format!("/apis/rbac.authorization.k8s.io/v1/{plural}"));
        client.request::<Value>(request.body(object.to_string().into_bytes()).unwrap()).await
    };
    let admin = client(&server);
    create(&admin, "clusterroles", &role).await.unwrap();
    create(&admin, "clusterrolebindings", &binding("role-maker", "eve")).await.unwrap();
    let eve = Client::new(server.service_for(Identity::user("eve", [])), "default");
    let refused = create(&eve, "clusterrolebindings", &binding("cluster-admin", "eve")).await.unwrap_err();
    assert_eq!(code(refused), 403);
    let mut everything = role.clone();
    everything["metadata"]["name"] = "more".into();
    assert_eq!(code(create(&eve, "clusterroles", &everything).await.unwrap_err()), 403);
}

#[tokio::test(start_paused = true)]
async fn watchers_that_resume_anywhere_see_every_change_once_and_in_order() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::namespaced(client(&server), "kube-public");
    let start = server.store().revision();
    let mut random = fastrand::Rng::with_seed(42);
    // What happened: at which revision, to which object.
    let mut history: Vec<(u64, String)> = Vec::new();
    for step in 0..300 {
        let name = format!("o{}", random.u8(..8));
        let is_there = api.get_opt(&name).await.unwrap().is_some();
        match (is_there, random.bool()) {
            (false, _) => {
                api.create(&PostParams::default(), &config_map(&name, "new")).await.unwrap();
            }
            (true, true) => {
                let patch = Patch::Merge(json!({"data": {"key": step.to_string()}}));
                api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            }
            (true, false) => drop(api.delete(&name, &DeleteParams::default()).await.unwrap()),
        }
        history.push((server.store().revision(), name));
    }
    for _ in 0..20 {
        let from = start + random.u64(..300);
        let parameters = WatchParams::default().timeout(1);
        let events: Vec<WatchEvent<ConfigMap>> =
            api.watch(&parameters, &from.to_string()).await.unwrap().try_collect().await.unwrap();
        let seen: Vec<(u64, String)> = events
            .iter()
            .filter_map(|event| match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    Some((object.resource_version().unwrap().parse().unwrap(), object.name_any()))
                }
                _ => None,
            })
            .collect();
        let expected: Vec<(u64, String)> = history.iter().filter(|(at, _)| *at > from).cloned().collect();
        assert_eq!(seen, expected, "from {from}");
    }
}

/// Refuses what says so, and marks the rest.
struct Marker;

impl Admission for Marker {
    fn handles(&self, _group: &str, resource: &str) -> bool {
        resource == "configmaps"
    }

    fn mutate<'a>(
        &'a self,
        _review: &'a Review<'a>,
        object: &'a mut Value,
    ) -> futures_util::future::BoxFuture<'a, Result<(), Denial>> {
        object["data"]["marked"] = "yes".into();
        Box::pin(std::future::ready(Ok(())))
    }

    fn validate<'a>(
        &'a self,
        review: &'a Review<'a>,
        object: &'a Value,
    ) -> futures_util::future::BoxFuture<'a, Result<Vec<String>, Denial>> {
        let refused = object["data"]["key"] == "bad" || review.operation == Operation::Delete;
        let verdict = if refused { Err(Denial::new("not this one")) } else { Ok(Vec::new()) };
        Box::pin(std::future::ready(verdict))
    }
}

#[tokio::test(start_paused = true)]
async fn admission_may_change_and_refuse() {
    let options = Options::new().admission(Arc::new(Marker));
    let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let created = api.create(&PostParams::default(), &config_map("a", "good")).await.unwrap();
    assert_eq!(created.data.unwrap()["marked"], "yes");
    let refused = api.create(&PostParams::default(), &config_map("b", "bad")).await.unwrap_err();
    assert!(refused.to_string().contains("not this one"), "{refused}");
    assert_eq!(code(api.delete("a", &DeleteParams::default()).await.unwrap_err()), 403);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_server_has_everything_it_had() {
    let store = Store::in_memory(History::default());
    let first = ApiServer::start(store.clone(), Options::new()).await.unwrap();
    let versions = json!([version("v1", true)]);
    definitions(&first).create(&PostParams::default(), &definition(&versions)).await.unwrap();
    let created = things(&first, "v1").create(&PostParams::default(), &thing("v1", "t")).await.unwrap();
    drop(first);
    let second = ApiServer::start(store, Options::new()).await.unwrap();
    assert_eq!(things(&second, "v1").get("t").await.unwrap(), created);
}
