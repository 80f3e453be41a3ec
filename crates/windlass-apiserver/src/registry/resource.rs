//! One kind of object in one version: everything the generic verbs need to know about it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use windlass_api::api_version;
use windlass_store as store;

use super::jsonpath::JsonPath;
use crate::api::{Layout, Subject};
use crate::machinery::types::StructId;
use crate::machinery::{Rules, Schema, Shape};

/// A resource: one kind of object in one version.
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Verbs,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) behaviour: Behaviour,
    pub(crate) strategy: Strategy,
    /// What objects of a CRD must look like.
    pub(crate) schema: Option<ObjectSchema>,
    /// The type of a built-in kind.
    pub(crate) type_id: Option<StructId>,
    /// Which lists and maps merge, for those who own fields.
    pub(crate) shape: Arc<Shape>,
    pub(crate) columns: Vec<Column>,
    /// What field selectors may ask for besides name and namespace.
    pub(crate) selectable: Vec<Selectable>,
    /// Where the objects are kept, in all versions together.
    pub(crate) storage: store::Resource,
    /// The version in which objects are kept.
    pub(crate) storage_version: String,
    pub(crate) conversion: Conversion,
    /// Objects written before this revision may not fit the schema of today: they are pruned and
    /// defaulted again when they are read.
    pub(crate) since: u64,
    /// Tells the versions of a resource apart in shared encodings of events.
    pub(crate) encoding: u64,
    /// Whether the CRD is being deleted, so that nothing new may be created.
    pub(crate) terminating: bool,
    /// What clients of this version are warned of.
    pub(crate) deprecation: Option<String>,
    /// The schema as the CRD wrote it, for OpenAPI.
    pub(crate) openapi: Option<Value>,
}

/// A schema and its rules, ready to be applied.
#[derive(Clone)]
pub(crate) struct ObjectSchema {
    pub(crate) schema: Arc<Schema>,
    pub(crate) rules: Rules,
}

/// Which verbs a resource has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbs {
    /// All of them.
    All,
    /// Questions that are answered and not kept.
    CreateOnly,
    /// What is read-only.
    ReadOnly,
}

/// A part of an object with an address of its own.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Subresource {
    Status,
    Scale(ScalePaths),
    /// `spec.finalizers` of a namespace.
    Finalize,
    /// Conditions of a certificate signing request.
    Approval,
    /// A token of a service account.
    Token,
    /// Eviction of a pod.
    Eviction,
    /// Ephemeral containers of a pod.
    EphemeralContainers,
}

impl Subresource {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale(_) => "scale",
            Self::Finalize => "finalize",
            Self::Approval => "approval",
            Self::Token => "token",
            Self::Eviction => "eviction",
            Self::EphemeralContainers => "ephemeralcontainers",
        }
    }
}

/// Where an object keeps what a scale shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: JsonPath,
    pub(crate) status_replicas: JsonPath,
    pub(crate) selector: Option<JsonPath>,
}

/// What a few built-in kinds do that others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Plain,
    Namespace,
    Crd,
    Secret,
    Event,
    Service,
    Review,
    ComponentStatus,
    CertificateRequest,
}

/// How writes to a resource differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strategy {
    /// Custom resources follow stricter rules than built-in ones in several places.
    pub(crate) custom: bool,
    /// Whether objects count the changes of what is wanted.
    pub(crate) generation: bool,
    /// Whether an update of a missing object creates it.
    pub(crate) create_on_update: bool,
    /// Names that are not DNS names: roles may have colons.
    pub(crate) free_names: bool,
}

/// How an object becomes one of another version.
#[derive(Clone)]
pub(crate) enum Conversion {
    /// Only its `apiVersion` changes.
    Relabel,
    /// Events of the two groups are the same objects with other names of fields.
    Events,
    /// A function that was registered.
    Function(ConvertFn),
    /// A function that waits for an answer over the network.
    Webhook(ConvertFn),
}

impl Conversion {
    /// What changes more of an object than its `apiVersion`.
    pub(crate) fn function(&self) -> Option<&ConvertFn> {
        match self {
            Self::Relabel | Self::Events => None,
            Self::Function(convert) | Self::Webhook(convert) => Some(convert),
        }
    }
}

/// Changes an object in place into one of another version: `(object, from, to)`.
pub type ConvertFn = Arc<dyn Fn(&mut Value, &str, &str) -> Result<(), String> + Send + Sync>;

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relabel => "relabel",
            Self::Events => "events",
            Self::Function(_) => "function",
            Self::Webhook(_) => "webhook",
        })
    }
}

/// A field that selectors may ask for.
#[derive(Debug, Clone)]
pub(crate) struct Selectable {
    pub(crate) name: String,
    pub(crate) path: JsonPath,
    /// What it is equal to when it is not there.
    pub(crate) absent: &'static str,
}

/// A column of the table that people see.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) cell: Cell,
}

/// Where the content of a column comes from.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// The first value at the path.
    Path(JsonPath),
    /// How long ago the time at the path was.
    Age(JsonPath),
    /// How many entries there are at the path.
    Count(JsonPath),
    /// The number at the path, 0 if there is none.
    Number(JsonPath),
    /// What a function makes of the object and the time.
    Made(fn(&Value, Timestamp) -> Value),
}

impl Resource {
    /// `v1` or `demo.test/v1`.
    pub(crate) fn api_version(&self) -> String {
        api_version::join(&self.group, &self.version)
    }

    /// `apiVersion` of the objects in the store.
    pub(crate) fn storage_api_version(&self) -> String {
        api_version::join(&self.group, &self.storage_version)
    }

    pub(crate) fn layout(&self) -> Layout {
        if self.strategy.custom { Layout::ByName } else { Layout::KindFirst }
    }

    /// What most errors call an object: `widgets.demo.test "w1"`.
    pub(crate) fn subject<'a>(&'a self, name: &'a str) -> Subject<'a> {
        Subject { group: &self.group, kind: &self.plural, name }
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name() == name)
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    /// A key of the store.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Result<store::Key, store::KeyError> {
        store::Key::new(&self.storage, namespace, name)
    }

    /// The objects of a namespace, or of all of them.
    pub(crate) fn scope(&self, namespace: Option<&str>) -> store::Scope {
        match namespace {
            Some(namespace) => store::Scope::namespace(&self.storage, namespace),
            None => store::Scope::from(&self.storage),
        }
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.plural, self.api_version())
    }
}
