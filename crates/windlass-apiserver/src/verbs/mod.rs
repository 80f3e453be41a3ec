//! The verbs: one pipeline for all resources.

mod body;
mod convert;
mod create;
mod delete;
mod evict;
mod names;
mod patch;
mod prepare;
mod read;
mod scale;
mod update;

use std::sync::Arc;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use windlass_store as store;

pub(crate) use create::Ownership;
pub(crate) use delete::{CLEANUP, DeleteOptions, FOREGROUND, ORPHAN};
pub(crate) use update::Part;

use crate::admission::{Denial, Operation, Review};
use crate::api::{Failure, Query, View, canonical};
use crate::budget::Origin;
use crate::identity::Identity;
use crate::machinery::{Cause, Timestamp, manager_name};
use crate::registry::{Behaviour, Registry, Resource, Subresource, Verbs};
use crate::response::Reply;
use crate::server::Inner;
use crate::service::Client;
use crate::table::{Include, Table, partial, partial_bytes};
use crate::{reviews, watch, webhook};

/// One request about one resource.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) server: Arc<Inner>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) resource: Arc<Resource>,
    /// Empty for resources without one, and for all of them together.
    pub(crate) namespace: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) identity: Identity,
    pub(crate) client: Client,
    pub(crate) view: View,
}

/// What a write left behind.
pub(crate) enum Written {
    /// What is in the store now.
    Stored(Arc<store::Object>),
    /// What would be there, or was there last.
    Shown(Value),
}

impl Call {
    /// A request of the server's own, about one object or all of a namespace.
    pub(crate) fn internal(
        server: &Arc<Inner>,
        resource: &Arc<Resource>,
        namespace: &str,
        name: Option<&str>,
    ) -> Self {
        Self {
            server: Arc::clone(server),
            registry: server.registry(),
            resource: Arc::clone(resource),
            namespace: namespace.to_owned(),
            name: name.map(str::to_owned),
            subresource: None,
            query: Query { field_manager: "kube-apiserver".to_owned(), ..Query::default() },
            headers: HeaderMap::new(),
            identity: Identity::admin(),
            client: Client { origin: Origin::Process, user: "kube-apiserver".to_owned() },
            view: View::Whole,
        }
    }

    /// Does what the request asks for.
    pub(crate) async fn run(self, method: &Method, watch: bool, body: Bytes) -> Result<Reply, Failure> {
        let deprecation = self.resource.deprecation.clone();
        let mut reply = if self.resource.waits_to_convert() {
            let method = method.clone();
            elsewhere(async move { self.act(&method, watch, body).await }).await??
        } else {
            self.act(method, watch, body).await?
        };
        reply.warnings.extend(deprecation);
        Ok(reply)
    }

    async fn act(self, method: &Method, watch: bool, body: Bytes) -> Result<Reply, Failure> {
        let verbs = self.resource.verbs;
        let is_post = *method == Method::POST;
        match (verbs, &self.name) {
            (Verbs::CreateOnly, None) if is_post => return reviews::answer(&self, &body).await,
            (Verbs::CreateOnly, _) => return Err(Failure::method_not_allowed()),
            (Verbs::ReadOnly, _) if *method != Method::GET => return Err(Failure::method_not_allowed()),
            _ => {}
        }
        match (method.as_str(), self.name.is_some(), &self.subresource) {
            ("GET", false, _) if watch => watch::start(self),
            ("GET", true, None) if watch => watch::start(self),
            ("GET", false, _) => self.list(),
            ("GET", true, Some(Subresource::Scale(paths))) => self.get_scale(paths),
            ("GET", true, _) => self.get(),
            ("POST", false, _) => self.create(&body).await,
            ("POST", true, Some(Subresource::Token)) => reviews::issue_token(&self, &body).await,
            ("POST", true, Some(Subresource::Eviction)) => self.evict(&body).await,
            ("PUT", true, Some(Subresource::Scale(paths))) => self.put_scale(paths, &body).await,
            ("PATCH", true, Some(Subresource::Scale(paths))) => self.patch_scale(paths, &body).await,
            ("PUT", true, subresource) => self.update(Part::of(subresource.as_ref())?, &body).await,
            ("PATCH", true, subresource) => self.patch(Part::of(subresource.as_ref())?, &body).await,
            ("DELETE", true, None) => self.delete(&body).await,
            ("DELETE", false, _) => self.delete_collection(&body).await,
            _ => Err(Failure::method_not_allowed()),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// The key of the object that the path names.
    pub(crate) fn key(&self, name: &str) -> Result<store::Key, Failure> {
        self.resource.key(&self.namespace, name).map_err(|error| Failure::bad_request(error.to_string()))
    }

    /// The object that the path names.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<store::Object>, Failure> {
        let object = self.server.store.get(&self.key(name)?);
        object.ok_or_else(|| Failure::not_found(self.resource.subject(name)))
    }

    /// Who owns what this request writes.
    pub(crate) fn manager(&self) -> String {
        let agent = self.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        match manager_name(&self.query.field_manager, agent) {
            name if name.is_empty() => "unknown".to_owned(),
            name => name,
        }
    }

    pub(crate) fn timestamp(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.server.clock.now().as_second())
    }

    /// The answer to a write, as the client wants to see objects.
    pub(crate) fn reply(&self, code: StatusCode, written: Written) -> Result<Reply, Failure> {
        let body = match (self.view, written) {
            (View::Whole, Written::Stored(object)) => self.resource.bytes(&object)?,
            (View::Whole, Written::Shown(value)) => canonical(&value, self.resource.layout()),
            (View::Metadata, Written::Stored(object)) => partial_bytes(&self.resource.bytes(&object)?)?,
            (View::Metadata, Written::Shown(value)) => partial(&value).to_string().into(),
            (View::Table, written) => {
                let value = match written {
                    Written::Stored(object) => self.resource.value(&object)?,
                    Written::Shown(value) => value,
                };
                let table = self.table()?;
                let meta = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                table.document(meta, vec![table.row_of(value)?])
            }
        };
        Ok(Reply::json(code, body))
    }

    pub(crate) fn table(&self) -> Result<Table<'_>, Failure> {
        let include = Include::parse(&self.query.include_object)?;
        Ok(Table { resource: &self.resource, include, now: self.server.clock.now() })
    }

    /// An invalid object of this resource.
    fn invalid(&self, name: &str, causes: &[Cause]) -> Failure {
        Failure::invalid(&self.resource.group, &self.resource.kind, name, causes)
    }

    fn review<'a>(&'a self, operation: Operation, name: &'a str, old: Option<&'a Value>) -> Review<'a> {
        Review {
            operation,
            group: &self.resource.group,
            version: &self.resource.version,
            resource: &self.resource.plural,
            kind: &self.resource.kind,
            subresource: self.subresource.as_ref().map_or("", Subresource::name),
            namespace: &self.namespace,
            name,
            user: &self.identity,
            old,
            dry_run: self.query.dry_run,
        }
    }

    /// Lets those who may change an object: hooks in the process, then webhooks.
    async fn mutate(
        &self,
        operation: Operation,
        old: Option<&Value>,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let review = self.review(operation, &name, old);
        for hook in &self.server.admission {
            if hook.handles(&self.resource.group, &self.resource.plural) {
                hook.mutate(&review, object).await.map_err(|denial| self.denied(&name, denial))?;
            }
        }
        webhook::mutate(&self.server, &review, object, warnings).await
    }

    /// Asks those who may refuse an object: hooks in the process, then webhooks.
    async fn admit(
        &self,
        operation: Operation,
        old: Option<&Value>,
        object: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let review = self.review(operation, name, old);
        for hook in &self.server.admission {
            if hook.handles(&self.resource.group, &self.resource.plural) {
                let said =
                    hook.validate(&review, object).await.map_err(|denial| self.denied(name, denial))?;
                warnings.extend(said);
            }
        }
        webhook::validate(&self.server, &review, object, warnings).await
    }

    fn denied(&self, name: &str, denial: Denial) -> Failure {
        if denial.fields.is_empty() {
            return Failure::forbidden(self.resource.subject(name), &denial.message);
        }
        let causes: Vec<Cause> =
            denial.fields.iter().map(|(field, detail)| Cause::invalid_unprinted(field, detail)).collect();
        self.invalid(name, &causes)
    }

    /// What must happen before a write of this kind is answered.
    pub(crate) async fn after_write(&self, written: &Written) -> Result<(), Failure> {
        if let (Behaviour::Crd, Written::Stored(object)) = (self.resource.behaviour, written) {
            crate::controllers::establish(&self.server, object.key().name()).await?;
        }
        Ok(())
    }
}

/// Does what may wait for a webhook in the middle of things that do not wait, on a thread that no other request
/// needs. The webhook may be served by the very thread that asks, or have to ask us something itself.
pub(crate) async fn elsewhere<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(work)).await.map_err(Failure::internal)
}

/// What the store says, as an answer.
pub(crate) fn unavailable(error: &store::CommitError) -> Failure {
    match error {
        store::CommitError::Closed => Failure::unavailable("the server is shutting down"),
        error @ store::CommitError::Failed { .. } => {
            Failure::unavailable(format!("{error}; it is not known whether this was written"))
        }
        error => Failure::internal(error),
    }
}
