//! The field manager: what a write does to `managedFields`, and what an apply does to an object.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use super::conflict::Conflicts;
use super::last_applied;
use super::managed::{ManagedFields, ManagedFieldsError, Manager, Ownership, Timestamp, is_reset};
use super::path::PathElement;
use super::set::Set;
use super::shape::Shape;
use super::typed::{self, NotConforming};
use super::updater::{ConversionError, Refusal, Updater, Versions};
use crate::builtin;
use windlass_api::api_version;
use windlass_patch::depth::{self, TooDeep};

/// Where a write arrives. Each endpoint writes its part of the object and ignores the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// The object itself; without its status if that has an endpoint of its own.
    Object {
        /// Whether there is a `/status`.
        has_status: bool,
    },
    /// `/status`.
    Status,
}

impl Endpoint {
    /// The `subresource` of entries written here.
    pub fn subresource(self) -> &'static str {
        match self {
            Endpoint::Object { .. } => "",
            Endpoint::Status => "status",
        }
    }

    /// The fields that a write here does not change, whatever it says.
    pub(super) fn reset_fields(self) -> &'static Set {
        static NONE: LazyLock<Set> = LazyLock::new(Set::default);
        static STATUS: LazyLock<Set> = LazyLock::new(|| top_fields(&["status"]));
        static REST: LazyLock<Set> = LazyLock::new(|| top_fields(&["spec", "metadata"]));
        match self {
            Endpoint::Object { has_status: false } => &NONE,
            Endpoint::Object { has_status: true } => &STATUS,
            Endpoint::Status => &REST,
        }
    }
}

fn top_fields(names: &[&str]) -> Set {
    let paths: Vec<_> = names.iter().map(|name| vec![PathElement::field(*name)]).collect();
    Set::of(paths.iter().map(Vec::as_slice))
}

/// The field manager of one kind in one version, at one endpoint.
pub struct FieldManager<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// The version of the request.
    pub api_version: &'a str,
    /// The kind of the object.
    pub kind: &'a str,
    /// Where the request arrived.
    pub endpoint: Endpoint,
}

/// Why an apply is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// Another field manager owns what it would change: 409.
    #[error(transparent)]
    Conflicts(#[from] Conflicts),
    /// It is of another kind or version than the request is for: 400.
    #[error("invalid object type: {group}/{version}, Kind={kind}")]
    WrongType {
        /// The group it says.
        group: String,
        /// The version it says.
        version: String,
        /// The kind it says.
        kind: String,
    },
    /// It says who owns what: 400.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsGiven,
    /// It does not have the shape of the kind: 500 in the API server, though it is the client's fault.
    #[error("failed to create typed patch object ({object}): {problem}")]
    Malformed {
        /// `namespace/name; group/version, Kind=kind`.
        object: String,
        /// What is wrong with it.
        problem: NotConforming,
    },
    /// The stored object does not have the shape of its kind: 500.
    #[error("failed to create typed live object ({object}): {problem}")]
    MalformedLive {
        /// `namespace/name; group/version, Kind=kind`.
        object: String,
        /// What is wrong with it.
        problem: NotConforming,
    },
    /// The stored object has entries that cannot be read: 500.
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(#[from] ManagedFieldsError),
    /// The object cannot be shown in a version that a field manager has fields of: 500.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// The version of the request is not served: 404.
    #[error("{0} is not served")]
    NotServed(String),
    /// It nests too deep: 400.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// Owns what an object had before the first apply, if no field manager was known to.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl FieldManager<'_> {
    /// The object after a write that is not an apply, with the owners of its fields.
    ///
    /// `live` is what is stored; for a create, an object with nothing but its type (for built-in kinds
    /// see [`builtin::blank`](crate::builtin::blank)). `new` is what will be stored, defaulted and
    /// pruned. If the owners cannot be told, because the object does not have its shape, they stay as
    /// they are: validation will refuse the object, and with better words.
    pub fn update(&self, live: &Value, new: Value, manager: &str, now: Timestamp) -> Value {
        if depth::check(live).is_err() || depth::check(&new).is_err() {
            return new;
        }
        self.update_checked(live, new, manager, now)
    }

    /// As [`update`](Self::update), for objects that [`depth::check`] accepts or that were just read.
    pub fn update_checked(&self, live: &Value, new: Value, manager: &str, now: Timestamp) -> Value {
        self.quick_update(live, new, manager, now)
            .unwrap_or_else(|new| self.full_update(live, new, manager, now))
    }

    pub(super) fn full_update(&self, live: &Value, mut new: Value, manager: &str, now: Timestamp) -> Value {
        let stored = ManagedFields::of(live).unwrap_or_default();
        // Clients send back the owners they read, so these seldom have to be read again.
        let owners = "/metadata/managedFields";
        let unchanged = new.pointer(owners) == live.pointer(owners);
        let given = if unchanged { None } else { self.given(&new) };
        let managed = given.unwrap_or_else(|| stored.clone());
        let (live, bare) = (without_owners(live), without_owners(&new));
        let updated = self.track(&live, &bare, managed, manager, now).unwrap_or(stored);
        new = bare;
        updated.store(&mut new);
        new
    }

    /// The object after a manager applied `config`, with the owners of its fields; not defaulted.
    ///
    /// `live` as for [`update`](Self::update). Fields that this endpoint does not write are merged as
    /// well, and has no field manager: the caller takes from the result what the endpoint writes.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<Value, ApplyError> {
        depth::check(live)?;
        depth::check(config)?;
        self.apply_checked(live, config, manager, force, now)
    }

    /// As [`apply`](Self::apply), for objects that [`depth::check`] accepts or that were just read.
    pub fn apply_checked(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<Value, ApplyError> {
        self.check_type(config)?;
        let given = config.pointer("/metadata/managedFields");
        if given.is_some_and(|given| !given.is_null()) {
            return Err(ApplyError::ManagedFieldsGiven);
        }
        let config = &*without_absent_creation(config);
        let shape = self.shape().ok_or_else(|| ApplyError::NotServed(self.api_version.to_owned()))?;
        typed::conform(config, &shape, false)
            .map_err(|problem| ApplyError::Malformed { object: self.describe(config), problem })?;
        match self.quick_apply(live, config, manager, force, now) {
            Some(object) => Ok(object),
            None => self.full_apply(live, config, manager, force, now),
        }
    }

    pub(super) fn full_apply(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<Value, ApplyError> {
        let shape = self.shape().ok_or_else(|| ApplyError::NotServed(self.api_version.to_owned()))?;
        let stored = ManagedFields::of(live)?;
        let live_object = without_owners(live);
        typed::conform(&live_object, &shape, true)
            .map_err(|problem| ApplyError::MalformedLive { object: self.describe(live), problem })?;
        let managed = if stored.managers.is_empty() {
            let nobody = ManagedFields::default();
            self.track(&self.blank(), &live_object, nobody, BEFORE_FIRST_APPLY, now).unwrap_or_default()
        } else {
            stored.clone()
        };

        let updater = self.updater(&shape);
        let applier = Manager::applier(manager, self.endpoint.subresource());
        let attempt = |force| updater.apply(&live_object, config, managed.clone(), &applier, force);
        let outcome = match attempt(force) {
            Err(Refusal::Conflicts(conflicts)) => {
                let inherited = last_applied::inherited(manager, &live_object, self.api_version, &shape);
                let remaining = last_applied::remaining(conflicts, &inherited);
                if remaining.0.is_empty() { attempt(true) } else { Err(Refusal::Conflicts(remaining)) }
            }
            outcome => outcome,
        };
        let (mut object, mut managed) = outcome.map_err(|refusal| match refusal {
            Refusal::Conflicts(conflicts) => ApplyError::Conflicts(conflicts),
            Refusal::Conversion(error) => ApplyError::Conversion(error),
        })?;
        if let Some(ownership) = managed.managers.get_mut(&applier) {
            ownership.fields = ownership.fields.difference(&NEVER_OWNED);
            ownership.time = Some(now);
            if ownership.fields.is_empty() {
                managed.managers.remove(&applier);
            }
        }
        last_applied::refresh(manager, config, &mut object);
        if object == live_object && managed.owns_the_same(&stored) {
            return Ok(live.clone());
        }
        managed.store(&mut object);
        Ok(object)
    }

    /// Ownership after `live` became `new`; `None` if it cannot be told.
    fn track(
        &self,
        live: &Value,
        new: &Value,
        managed: ManagedFields,
        manager: &str,
        now: Timestamp,
    ) -> Option<ManagedFields> {
        // An object whose field managers were forgotten stays without, until the next apply.
        let exists = live.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty());
        if managed.managers.is_empty() && exists {
            return Some(managed);
        }
        if self.check_type(new).is_err() {
            return Some(managed);
        }
        let shape = self.shape()?;
        typed::conform(live, &shape, true).ok()?;
        typed::conform(new, &shape, true).ok()?;
        let (mut managed, gained) = self.updater(&shape).update(live, new, managed).ok()?;
        let fields = gained.difference(&NEVER_OWNED);
        if !fields.is_empty() {
            let writer = Manager::updater(manager, self.api_version, self.endpoint.subresource());
            let entry = managed.managers.entry(writer).or_insert_with(|| Ownership {
                fields: Set::default(),
                api_version: self.api_version.to_owned(),
                time: None,
            });
            entry.fields.extend(&fields);
            entry.time = Some(now);
        }
        managed.cap_updaters();
        Some(managed)
    }

    /// The owners that an update names itself, if it may and does.
    fn given(&self, new: &Value) -> Option<ManagedFields> {
        if !self.endpoint.subresource().is_empty() {
            return None;
        }
        if is_reset(new) {
            return Some(ManagedFields::default());
        }
        ManagedFields::of(new).ok().filter(|managed| !managed.managers.is_empty())
    }

    pub(super) fn shape(&self) -> Option<Arc<Shape>> {
        self.versions.shape(self.api_version)
    }

    fn updater<'b>(&'b self, shape: &'b Shape) -> Updater<'b> {
        let reset = self.endpoint.reset_fields();
        Updater { versions: self.versions, api_version: self.api_version, shape, reset }
    }

    pub(super) fn check_type(&self, object: &Value) -> Result<(), ApplyError> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version == self.api_version && kind == self.kind {
            return Ok(());
        }
        let (group, version) = api_version::split(api_version);
        Err(ApplyError::WrongType { group: group.into(), version: version.into(), kind: kind.into() })
    }

    pub(super) fn blank(&self) -> Value {
        if builtin::is_known(self.api_version, self.kind) {
            return builtin::blank(self.api_version, self.kind);
        }
        let mut blank = Map::new();
        blank.insert("apiVersion".into(), self.api_version.into());
        blank.insert("kind".into(), self.kind.into());
        Value::Object(blank)
    }

    fn describe(&self, object: &Value) -> String {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
        let group_version = if self.api_version.contains('/') { "" } else { "/" };
        format!("{name}; {group_version}{}, Kind={}", self.api_version, self.kind)
    }
}

/// What identifies an object and what the server itself keeps about it has no field manager.
pub(super) static NEVER_OWNED: LazyLock<Set> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let inside = metadata.map(|name| vec![PathElement::field("metadata"), PathElement::field(name)]);
    Set::of(inside.iter().map(Vec::as_slice)).union(&top_fields(&["apiVersion", "kind", "metadata"]))
});

/// A copy without `managedFields`, which are often the larger part of an object.
fn without_owners(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copy = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            let kept: Map<String, Value> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
            (name.clone(), Value::Object(kept))
        }
        _ => (name.clone(), value.clone()),
    };
    Value::Object(fields.iter().map(copy).collect())
}

/// Clients written in Go send `creationTimestamp: null`, which must not erase the stored one.
fn without_absent_creation(config: &Value) -> Cow<'_, Value> {
    if !config.pointer("/metadata/creationTimestamp").is_some_and(Value::is_null) {
        return Cow::Borrowed(config);
    }
    let mut config = config.clone();
    if let Some(Value::Object(metadata)) = config.get_mut("metadata") {
        metadata.remove("creationTimestamp");
    }
    Cow::Owned(config)
}
