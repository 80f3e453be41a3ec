//! As little of a server as it takes to put the pure parts in the order a server calls them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_apimachinery::cause::{Cause, summary};
use windlass_apimachinery::fieldmanager::{
    ApplyError, Endpoint, FieldManager, Shape, Timestamp, manager_name,
};
use windlass_apimachinery::schema::{Rules, Schema};
use windlass_patch::{Dialect, JsonPatch, merge_patch};

use crate::transcript::{self, Exchange};

/// The widgets of the transcripts, in one namespace.
pub(crate) struct Server {
    schema: Arc<Schema>,
    rules: Rules,
    versions: BTreeMap<String, Arc<Shape>>,
    objects: BTreeMap<String, Value>,
    now: Timestamp,
}

const API_VERSION: &str = "demo.test/v1";
const KIND: &str = "Widget";

/// What is answered: the status code and the body, and warnings.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Server {
    pub(crate) fn new() -> Self {
        let crd: Value = serde_json::from_str(&transcript::file("crd.json")).unwrap();
        let path = "spec.versions[0].schema.openAPIV3Schema";
        let schema = Arc::new(
            Schema::from_crd(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], path).unwrap(),
        );
        let rules = Rules::compile(&schema, path).unwrap();
        let versions = BTreeMap::from([(API_VERSION.to_owned(), Arc::new(Shape::of_resource(&schema)))]);
        let now = Timestamp::from_unix_seconds(0);
        Server { schema, rules, versions, objects: BTreeMap::new(), now }
    }

    pub(crate) fn answer(&mut self, exchange: &Exchange) -> Answer {
        self.now = exchange.time().unwrap_or(self.now);
        let (name, subresource) = target(&exchange.path);
        let outcome = match (exchange.method.as_str(), subresource) {
            ("GET", "") => Ok(Answer::of(200, self.objects[&name].clone())),
            ("POST", _) => self.create(exchange),
            (_, "scale") => Ok(self.scale(&name, exchange)),
            _ => self.patch(&name, subresource, exchange),
        };
        outcome.unwrap_or_else(|body| {
            let status = body["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap();
            Answer::of(status, body)
        })
    }

    fn create(&mut self, exchange: &Exchange) -> Result<Answer, Value> {
        let mut object = exchange.body_json();
        let unknown = self.schema.prune(&mut object).unwrap();
        if exchange.query("fieldValidation") == Some("Strict") && !unknown.is_empty() {
            let fields: Vec<String> =
                unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
            let message = format!(
                "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: {}",
                fields.join(", ")
            );
            return Err(failure(400, "BadRequest", &message, None));
        }
        let name = object["metadata"]["name"].as_str().unwrap_or("w-cqmh9").to_owned();
        object["metadata"]["name"] = name.as_str().into();
        object["metadata"]["namespace"] = "default".into();
        if let Value::Object(fields) = &mut object {
            fields.remove("status");
        }
        self.schema.apply_defaults(&mut object).unwrap();
        object = self.manager(Endpoint::Object { has_status: true }).update(
            &blank(),
            object,
            &manager(exchange),
            self.now,
        );
        object["metadata"]["generation"] = 1.into();
        self.validate(&object, None, &name)?;
        self.objects.insert(name, object.clone());
        let warnings = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
        Ok(Answer { status: 201, body: object, warnings })
    }

    fn patch(&mut self, name: &str, subresource: &str, exchange: &Exchange) -> Result<Answer, Value> {
        let live = self.objects.get(name).cloned();
        let status = if live.is_some() { 200 } else { 201 };
        let base = live.clone().unwrap_or_else(blank);
        let endpoint =
            if subresource == "status" { Endpoint::Status } else { Endpoint::Object { has_status: true } };
        let patched = match exchange.content_type.as_str() {
            "application/apply-patch+yaml" => {
                let Some(field_manager) = exchange.query("fieldManager") else {
                    let cause = Cause::required("fieldManager", "is required for apply patch");
                    return Err(invalid("PatchOptions.meta.k8s.io", "", "meta.k8s.io", &[cause]));
                };
                let force = exchange.query("force") == Some("true");
                let config = exchange.body_json();
                let applied = self.manager(endpoint).apply(&base, &config, field_manager, force, self.now);
                applied.map_err(|error| refused(&error))?
            }
            "application/merge-patch+json" => {
                let patched = merge_patch::apply(&base, &exchange.body_json()).unwrap();
                self.updated(&base, patched, endpoint, exchange)
            }
            "application/json-patch+json" => {
                let patch = JsonPatch::parse(Dialect::ApiServer, &exchange.body_json());
                let patched = patch.and_then(|patch| patch.apply(&base));
                let Ok(patched) = patched else {
                    let message = "the server rejected our request due to an error in our request";
                    return Err(failure(422, "Invalid", message, Some(json!({}))));
                };
                self.updated(&base, patched, endpoint, exchange)
            }
            other => panic!("no such patch here: {other}"),
        };
        let mut object = settled(&base, patched, endpoint);
        object["metadata"]["namespace"] = "default".into();
        self.schema.apply_defaults(&mut object).unwrap();
        let generation = base["metadata"]["generation"].as_i64().unwrap_or(0);
        let changed = object.get("spec") != base.get("spec");
        object["metadata"]["generation"] = (generation + i64::from(changed || live.is_none())).into();
        self.validate(&object, live.as_ref(), name)?;
        self.objects.insert(name.to_owned(), object.clone());
        Ok(Answer::of(status, object))
    }

    fn updated(&self, live: &Value, mut patched: Value, endpoint: Endpoint, exchange: &Exchange) -> Value {
        self.schema.prune(&mut patched).unwrap();
        self.schema.apply_defaults(&mut patched).unwrap();
        self.manager(endpoint).update(live, patched, &manager(exchange), self.now)
    }

    /// The real server's scale does not track who scales a custom resource.
    fn scale(&mut self, name: &str, exchange: &Exchange) -> Answer {
        let object = self.objects.get_mut(name).unwrap();
        if exchange.method != "GET" {
            object["spec"]["replicas"] = exchange.body_json()["spec"]["replicas"].clone();
            object["metadata"]["generation"] =
                (object["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
        let scale = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": object["spec"]["replicas"]}, "status": {"replicas": object["status"]["replicas"]},
        });
        Answer::of(200, scale)
    }

    fn manager(&self, endpoint: Endpoint) -> FieldManager<'_> {
        FieldManager { versions: &self.versions, api_version: API_VERSION, kind: KIND, endpoint }
    }

    fn validate(&self, object: &Value, old: Option<&Value>, name: &str) -> Result<(), Value> {
        let mut causes = self.schema.validate(object, old);
        causes.extend(self.rules.evaluate(object, old, &causes));
        if causes.is_empty() { Ok(()) } else { Err(invalid("Widget.demo.test", name, "demo.test", &causes)) }
    }
}

impl Answer {
    fn of(status: u16, body: Value) -> Self {
        Answer { status, body, warnings: Vec::new() }
    }
}

/// What the endpoint writes of the patched object; the rest stays as it was.
fn settled(live: &Value, patched: Value, endpoint: Endpoint) -> Value {
    let part = |object: &Value, name: &str| object.get(name).cloned();
    let mut object = match endpoint {
        Endpoint::Object { .. } => patched.clone(),
        Endpoint::Status => live.clone(),
    };
    let status = match endpoint {
        Endpoint::Object { .. } => part(live, "status"),
        Endpoint::Status => part(&patched, "status"),
    };
    let fields = object.as_object_mut().unwrap();
    fields.remove("status");
    fields.extend(status.map(|status| ("status".to_owned(), status)));
    object["metadata"]["managedFields"] = patched["metadata"]["managedFields"].clone();
    object
}

fn target(path: &str) -> (String, &str) {
    let rest = path.strip_prefix("/apis/demo.test/v1/namespaces/default/widgets").unwrap_or_default();
    let mut parts = rest.trim_start_matches('/').splitn(2, '/');
    (parts.next().unwrap_or_default().to_owned(), parts.next().unwrap_or_default())
}

fn blank() -> Value {
    json!({"apiVersion": API_VERSION, "kind": KIND})
}

fn manager(exchange: &Exchange) -> String {
    manager_name(exchange.query("fieldManager").unwrap_or_default(), "curl/8.0")
}

fn refused(error: &ApplyError) -> Value {
    match error {
        ApplyError::Conflicts(conflicts) => {
            let details = json!({"causes": conflicts.causes()});
            failure(409, "Conflict", &error.to_string(), Some(details))
        }
        _ => failure(400, "BadRequest", &error.to_string(), None),
    }
}

fn invalid(qualified_kind: &str, name: &str, group: &str, causes: &[Cause]) -> Value {
    let kind = qualified_kind.split('.').next().unwrap_or_default();
    let mut details = Map::new();
    if !name.is_empty() {
        details.insert("name".into(), name.into());
    }
    details.insert("group".into(), group.into());
    details.insert("kind".into(), kind.into());
    details.insert("causes".into(), causes.iter().map(Cause::to_json).collect());
    let message = format!("{qualified_kind} {name:?} is invalid: {}", summary(causes));
    failure(422, "Invalid", &message, Some(Value::Object(details)))
}

fn failure(code: u16, reason: &str, message: &str, details: Option<Value>) -> Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code,
    });
    if let Some(details) = details {
        status["details"] = details;
    }
    status
}
