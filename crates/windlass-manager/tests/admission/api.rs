//! An API with admission in the process, and the same admission behind a webhook.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tower_service::Service;
use windlass_apiserver::ApiServer;
use windlass_controllers::admission::{AdmissionWebhook, ObjectLookUp, PATH_MUTATE, PATH_VALIDATE};
use windlass_manager::EmbeddedAdmission;
use windlass_store::{History, Store};

/// The kinds that take part; each one costs every test a little time.
const KINDS: [&str; 9] = [
    "MachineDrainRule",
    "MachineSet",
    "Cluster",
    "ClusterClass",
    "ExtensionConfig",
    "KubeadmControlPlane",
    "Machine",
    "MachineDeployment",
    "MachinePool",
];

/// A change that is tried, and what becomes of it.
pub(crate) struct Case {
    pub(crate) rule: &'static str,
    /// Objects that are there, each created and then given its status.
    pub(crate) given: Vec<Value>,
    pub(crate) change: Change,
    pub(crate) expected: Expected,
}

pub(crate) enum Change {
    Create(Value),
    /// The object is one of those given; the new one replaces it.
    Update(Value),
    /// The object is one of those given.
    Delete(Value),
}

#[derive(Clone, Copy)]
pub(crate) enum Expected {
    Accepted,
    /// Accepted, and the author is told something.
    Warned(&'static str),
    /// Refused: the field, and a part of what is said about it.
    Refused(&'static str, &'static str),
    /// Refused by the schema where there is one, and by the rule all the same.
    RefusedBySchemaToo(&'static str, &'static str),
}

/// What was answered.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    /// Fields and what is said about them; none if it was accepted.
    causes: Vec<(String, String)>,
}

impl Answer {
    fn is_accepted(&self) -> bool {
        self.causes.is_empty()
    }
}

pub(crate) struct TestApi {
    client: Client,
    webhook: AdmissionWebhook<ObjectLookUp>,
    crds: Vec<CustomResourceDefinition>,
    _server: ApiServer,
}

impl TestApi {
    pub(crate) async fn start() -> Self {
        let admission = EmbeddedAdmission::new();
        let options = admission.add_to(windlass_apiserver::Options::new().seed(1));
        let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
        let client = Client::new(server.service(), "default");
        admission.connect(client.clone());
        let mut crds = windlass_api::crds::all();
        crds.retain(|crd| KINDS.contains(&crd.spec.names.kind.as_str()));
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in &crds {
            api.create(&PostParams::default(), crd).await.unwrap();
        }
        let webhook = AdmissionWebhook::new(ObjectLookUp::with_client(client.clone()));
        Self { client, webhook, crds, _server: server }
    }

    /// Tries a change in a namespace of its own: first asks the webhook, then does it. Says what is not as expected.
    async fn check(&self, number: usize, case: Case) -> Result<(), String> {
        let namespace = format!("case-{number}");
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        for object in [&space].into_iter().chain(&case.given) {
            self.create(&namespace, object).await.map_err(|answer| format!("is not given: {answer:?}"))?;
        }
        let (reviewed, warnings) = self.review(&namespace, &case.change).await;
        let done = match &case.change {
            Change::Create(object) => self.create(&namespace, object).await.err(),
            Change::Update(object) => self.update(&namespace, object).await.err(),
            Change::Delete(object) => {
                let name = object["metadata"]["name"].as_str().unwrap();
                let deleted = self.api(&namespace, object).delete(name, &DeleteParams::default()).await;
                deleted.map_err(answer).err()
            }
        }
        .unwrap_or_default();
        let told = |field: &str, part: &str| {
            reviewed.causes.iter().any(|(at, text)| at == field && text.contains(part))
        };
        let is_expected = match case.expected {
            Expected::Accepted => reviewed.is_accepted() && done.is_accepted() && warnings.is_empty(),
            Expected::Warned(part) => {
                let warned = warnings.iter().any(|warning| warning.contains(part));
                reviewed.is_accepted() && done.is_accepted() && warned
            }
            // Both say the same.
            Expected::Refused(field, part) => told(field, part) && done == reviewed,
            Expected::RefusedBySchemaToo(field, part) => told(field, part) && !done.is_accepted(),
        };
        if let Some((field, text)) = reviewed.causes.iter().find(|(field, text)| !is_helpful(field, text)) {
            return Err(format!("does not say what is accepted: {field}: {text}"));
        }
        if is_expected {
            return Ok(());
        }
        Err(format!(
            "by review {:#?}, in the process {:#?}, warnings {warnings:?}",
            reviewed.causes, done.causes
        ))
    }

    /// What the embedded API has of an object.
    pub(crate) async fn stored(&self, namespace: &str, object: &Value) -> Value {
        let name = object["metadata"]["name"].as_str().unwrap();
        serde_json::to_value(self.api(namespace, object).get(name).await.unwrap()).unwrap()
    }

    pub(crate) async fn create_or_panic(&self, namespace: &str, object: &Value) {
        self.create(namespace, object).await.unwrap_or_else(|answer| panic!("{answer:?}"));
    }

    pub(crate) async fn update_or_panic(&self, namespace: &str, object: &Value) {
        self.update(namespace, object).await.unwrap_or_else(|answer| panic!("{answer:?}"));
    }

    /// What a webhook makes of an object before it is checked: its patch, applied.
    pub(crate) async fn mutated(&self, namespace: &str, object: &Value) -> Value {
        self.mutated_from(namespace, object, None).await
    }

    /// The same for an object that is stored.
    pub(crate) async fn mutated_from(&self, namespace: &str, object: &Value, old: Option<&Value>) -> Value {
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        let review = self.admission_review(namespace, operation, Some(object), old);
        let answer = self.post(PATH_MUTATE, &review).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        patched(object, &answer)
    }

    fn resource(&self, object: &Value) -> (ApiResource, bool) {
        let kind = object["kind"].as_str().unwrap();
        if kind == "Namespace" {
            return (ApiResource::erase::<k8s_openapi::api::core::v1::Namespace>(&()), false);
        }
        let found = self.crds.iter().find(|crd| crd.spec.names.kind == kind).unwrap();
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let gvk = kube::api::GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &found.spec.names.plural);
        (resource, found.spec.scope == "Namespaced")
    }

    fn api(&self, namespace: &str, object: &Value) -> Api<DynamicObject> {
        match self.resource(object) {
            (resource, true) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            (resource, false) => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Why an object is not created.
    pub(crate) async fn refusal_of(&self, namespace: &str, object: &Value) -> String {
        let answer = self.create(namespace, object).await.unwrap_err();
        answer
            .causes
            .iter()
            .map(|(field, problem)| format!("{field}: {problem}"))
            .collect::<Vec<_>>()
            .join("; ")
    }

    async fn create(&self, namespace: &str, object: &Value) -> Result<(), Answer> {
        let api = self.api(namespace, object);
        let typed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        api.create(&PostParams::default(), &typed).await.map_err(answer)?;
        if object.get("status").is_some() {
            let name = object["metadata"]["name"].as_str().unwrap();
            let status = json!({"status": object["status"]});
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.map_err(answer)?;
        }
        Ok(())
    }

    async fn update(&self, namespace: &str, object: &Value) -> Result<(), Answer> {
        let stored = self.stored(namespace, object).await;
        let mut new = object.clone();
        for field in ["resourceVersion", "uid"] {
            new["metadata"][field] = stored["metadata"][field].clone();
        }
        let typed: DynamicObject = serde_json::from_value(new).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        let replaced = self.api(namespace, object).replace(name, &PostParams::default(), &typed).await;
        replaced.map(|_| ()).map_err(answer)
    }

    /// Asks the webhook as a kube-apiserver does: first to fill in, then to check what came of it.
    async fn review(&self, namespace: &str, change: &Change) -> (Answer, Vec<String>) {
        let (operation, new, old) = match change {
            Change::Create(object) => ("CREATE", Some(object.clone()), None),
            Change::Update(object) => {
                let old = self.stored(namespace, object).await;
                let mut new = object.clone();
                new["metadata"]["uid"] = old["metadata"]["uid"].clone();
                ("UPDATE", Some(new), Some(old))
            }
            Change::Delete(object) => ("DELETE", None, Some(self.stored(namespace, object).await)),
        };
        let mut new = new;
        if let Some(object) = &mut new {
            let review = self.admission_review(namespace, operation, Some(object), old.as_ref());
            let answer = self.post(PATH_MUTATE, &review).await;
            if answer["allowed"] == false {
                return (refusal(&answer), Vec::new());
            }
            *object = patched(object, &answer);
        }
        let review = self.admission_review(namespace, operation, new.as_ref(), old.as_ref());
        let answer = self.post(PATH_VALIDATE, &review).await;
        let warnings = answer["warnings"].as_array().cloned().unwrap_or_default();
        let warnings = warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect();
        if answer["allowed"] == true { (Answer::default(), warnings) } else { (refusal(&answer), warnings) }
    }

    fn admission_review(
        &self,
        namespace: &str,
        operation: &str,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Value {
        let object = new.or(old).unwrap();
        let (resource, namespaced) = self.resource(object);
        let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
        let plural =
            json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let options = match operation {
            "CREATE" => "CreateOptions",
            "UPDATE" => "UpdateOptions",
            _ => "DeleteOptions",
        };
        let mut new = new.cloned().unwrap_or(Value::Null);
        if new.is_object() && namespaced {
            new["metadata"]["namespace"] = json!(namespace);
        }
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
            "uid": "9e8992f7-5761-4a27-a7b0-501b0d61c7f6",
            "kind": kind, "resource": plural, "requestKind": kind, "requestResource": plural,
            "name": object["metadata"]["name"],
            "namespace": if namespaced { json!(namespace) } else { Value::Null },
            "operation": operation,
            "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
            "object": new,
            "oldObject": old.cloned().unwrap_or(Value::Null),
            "dryRun": false,
            "options": {"kind": options, "apiVersion": "meta.k8s.io/v1"},
        }})
    }

    async fn post(&self, path: &str, review: &Value) -> Value {
        let request = Request::post(format!("https://windlass.example{path}?timeout=10s"))
            .header("content-type", "application/json")
            .body(Bytes::from(review.to_string()))
            .unwrap();
        let Ok(response) = self.webhook.clone().call(request).await;
        assert_eq!(response.status(), 200);
        let answer: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(answer["kind"], "AdmissionReview");
        assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
        answer["response"].clone()
    }
}

/// Whether a refusal names a field and says what is accepted there. What schemas of variables say is up to their
/// authors and to Kubernetes.
fn is_helpful(field: &str, text: &str) -> bool {
    let by_schema = field.ends_with(".value") || field.contains(".openAPIV3Schema");
    let named = field.starts_with("spec.") || field.starts_with("metadata.");
    named && (by_schema || text.contains("accepted"))
}

fn patched(object: &Value, answer: &Value) -> Value {
    let mut patched = object.clone();
    let Some(patch) = answer["patch"].as_str() else { return patched };
    assert_eq!(answer["patchType"], "JSONPatch");
    let patch: Vec<Value> = serde_json::from_slice(&BASE64_STANDARD.decode(patch).unwrap()).unwrap();
    for step in patch {
        match step["path"].as_str().unwrap() {
            "/spec" => patched["spec"] = step["value"].clone(),
            path => {
                assert_eq!(path, "/metadata/annotations");
                patched["metadata"]["annotations"] = step["value"].clone();
            }
        }
    }
    patched
}

fn refusal(answer: &Value) -> Answer {
    assert_eq!(answer["status"]["code"], 422, "{answer}");
    let causes = answer["status"]["details"]["causes"].as_array().unwrap().iter();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap().to_owned();
    let causes = causes.map(|cause| (text(cause, "field"), in_order(text(cause, "message"))));
    Answer { causes: causes.collect() }
}

/// What an API says when it refuses: a field and a message for everything that is wrong.
fn answer(error: kube::Error) -> Answer {
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(status.code, 422, "{status:?}");
    let causes = status.details.unwrap().causes;
    let plain =
        |message: String| message.strip_prefix("Invalid value: ").map(str::to_owned).unwrap_or(message);
    let causes = causes.into_iter().map(|cause| (cause.field, in_order(plain(cause.message))));
    Answer { causes: causes.collect() }
}

/// A schema lists the values that it supports in its own order, the webhook by name: which of them refuses first is up to
/// the API server.
fn in_order(message: String) -> String {
    const LISTED: &str = "supported values: ";
    let Some((before, values)) = message.split_once(LISTED) else { return message };
    let mut values: Vec<&str> = values.split(", ").collect();
    values.sort_unstable();
    format!("{before}{LISTED}{}", values.join(", "))
}

/// Tries all changes of a table.
pub(crate) async fn check_all(cases: Vec<Case>) {
    let api = TestApi::start().await;
    let mut wrong = Vec::new();
    for (number, case) in cases.into_iter().enumerate() {
        let rule = case.rule;
        if let Err(problem) = api.check(number, case).await {
            wrong.push(format!("{rule}: {problem}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
