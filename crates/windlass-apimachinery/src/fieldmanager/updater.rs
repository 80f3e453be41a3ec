//! The algorithm: how writes move ownership, and what an apply leaves of an object.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::conflict::{Conflict, Conflicts};
use super::managed::{ManagedFields, Manager, Ownership};
use super::set::Set;
use super::shape::Shape;
use super::typed::{self, Comparison};

/// The versions of an API that an object can be seen in.
///
/// Owners speak of the fields of the version they wrote. What they own is looked up in that version.
pub trait Versions {
    /// The shape of a version; `None` if it is no longer served, whereupon its owners are forgotten.
    fn shape(&self, api_version: &str) -> Option<Arc<Shape>>;

    /// The object as that version has it.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConversionError>;
}

/// An object cannot be shown in another version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the object cannot be converted to {api_version}: {problem}")]
pub struct ConversionError {
    /// The version.
    pub api_version: String,
    /// Why not.
    pub problem: String,
}

/// Versions that differ in their name only: the conversion strategy `None`.
impl Versions for BTreeMap<String, Arc<Shape>> {
    fn shape(&self, api_version: &str) -> Option<Arc<Shape>> {
        self.get(api_version).cloned()
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConversionError> {
        let mut converted = object.clone();
        if let Some(field) = converted.get_mut("apiVersion") {
            *field = api_version.into();
        }
        Ok(converted)
    }
}

/// What an updater works with.
pub(super) struct Updater<'a> {
    pub(super) versions: &'a dyn Versions,
    /// The version of the request.
    pub(super) api_version: &'a str,
    pub(super) shape: &'a Shape,
    /// The fields that a request to this endpoint does not write, whatever it says.
    pub(super) reset: &'a Set,
}

/// Why an apply came to nothing.
#[derive(Debug)]
pub(super) enum Refusal {
    Conflicts(Conflicts),
    Conversion(ConversionError),
}

impl From<ConversionError> for Refusal {
    fn from(error: ConversionError) -> Self {
        Refusal::Conversion(error)
    }
}

impl Updater<'_> {
    /// Ownership after `live` became `new` by anything but an apply, and what the writer gained by it.
    ///
    /// Even the writer's own entry loses what changed, and is to get it back as a gain: so it can be
    /// told whether the write changed anything.
    pub(super) fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: ManagedFields,
    ) -> Result<(ManagedFields, Set), ConversionError> {
        match self.settle(live, new, self.reconcile(managed), None, true) {
            Ok((managed, comparison)) => Ok((managed, comparison.changed())),
            Err(Refusal::Conversion(error)) => Err(error),
            // A forced write has no conflicts.
            Err(Refusal::Conflicts(_)) => Ok((ManagedFields::default(), Set::default())),
        }
    }

    /// The object after a manager applied `config`, and who owns what then.
    pub(super) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managed: ManagedFields,
        manager: &Manager,
        force: bool,
    ) -> Result<(Value, ManagedFields), Refusal> {
        let mut managed = self.reconcile(managed);
        let merged = typed::merge(live, config, self.shape);
        let fields = typed::fields(config, self.shape).recursive_difference(self.reset);
        let ownership = Ownership { fields, api_version: self.api_version.to_owned(), time: None };
        let last = managed.managers.insert(manager.clone(), ownership);
        // Only what the manager gave up can go; an apply of the same fields gives up nothing.
        let keeps_all = |last: &Ownership| {
            let now = &managed.managers[manager];
            last.api_version == now.api_version && last.fields.difference(&now.fields).is_empty()
        };
        let pruned = match last {
            Some(last) if !keeps_all(&last) => self.prune(merged, &managed, &last)?,
            _ => merged,
        };
        let (managed, _) = self.settle(live, &pruned, managed, Some(manager), force)?;
        Ok((pruned, managed))
    }

    /// Takes what changed away from all field managers but the `writer`, or says whose it is.
    fn settle(
        &self,
        old: &Value,
        new: &Value,
        mut managed: ManagedFields,
        writer: Option<&Manager>,
        force: bool,
    ) -> Result<(ManagedFields, Comparison), Refusal> {
        let ours = typed::compare(old, new, self.shape).without(self.reset);
        let mut comparisons = BTreeMap::from([(self.api_version.to_owned(), ours.clone())]);
        let mut conflicts = Vec::new();
        let mut forgotten = Vec::new();
        for (manager, ownership) in &mut managed.managers {
            if Some(manager) == writer {
                continue;
            }
            let version = &ownership.api_version;
            if !comparisons.contains_key(version) {
                let Some(shape) = self.versions.shape(version) else {
                    forgotten.push(manager.clone());
                    continue;
                };
                let before = self.seen_in(old, version)?;
                let after = self.seen_in(new, version)?;
                let comparison = typed::compare(&before, &after, &shape).without(self.reset);
                comparisons.insert(version.clone(), comparison);
            }
            let comparison = &comparisons[version];
            let mut lose = |fields: &Set| {
                // Most owners lose nothing, and sets are expensive to rebuild.
                let lost = ownership.fields.intersection(fields);
                if !lost.is_empty() {
                    ownership.fields = ownership.fields.difference(&lost);
                }
                lost
            };
            let taken = [lose(&comparison.added), lose(&comparison.modified)];
            lose(&comparison.removed);
            let conflict = |path| Conflict { manager: manager.clone(), time: ownership.time, path };
            let taken = taken[0].union(&taken[1]);
            conflicts.extend(taken.paths().into_iter().map(conflict));
        }
        if !force && !conflicts.is_empty() {
            return Err(Refusal::Conflicts(Conflicts(conflicts)));
        }
        forgotten.iter().for_each(|manager| {
            managed.managers.remove(manager);
        });
        managed.managers.retain(|_, ownership| !ownership.fields.is_empty());
        Ok((managed, ours))
    }

    /// The merged object without what the manager applied last time, does not apply any more, and
    /// no other field manager owns.
    fn prune(
        &self,
        merged: Value,
        managed: &ManagedFields,
        last: &Ownership,
    ) -> Result<Value, ConversionError> {
        // A version that is gone cannot be asked which of its fields are left.
        let Some(shape) = self.versions.shape(&last.api_version) else { return Ok(merged) };
        let merged = self.seen_in(&merged, &last.api_version)?;
        let before = typed::name_containers(&last.fields, &shape);
        let mut pruned = typed::remove(&merged, &before, &Set::default(), &shape);

        // Everything that has a field manager comes back: in the version of the manager's last apply first,
        // because a conversion may need fields that are among it.
        let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
        for ownership in managed.managers.values() {
            owned.entry(&ownership.api_version).or_default().extend(&ownership.fields);
        }
        let last_version = last.api_version.as_str();
        let here = owned.remove(last_version).unwrap_or_default();
        let elsewhere = owned.iter().map(|(version, owned)| (*version, owned));
        for (version, owned) in std::iter::once((last_version, &here)).chain(elsewhere) {
            let Some(shape) = self.versions.shape(version) else { continue };
            let whole = self.seen_in(&merged, version)?;
            let part = self.seen_in(&pruned, version)?;
            let kept = fields_and_containers(&part, &shape).union(&typed::name_containers(owned, &shape));
            let gone = fields_and_containers(&whole, &shape).difference(&kept);
            pruned = typed::remove(&whole, &gone, owned, &shape);
        }

        // And so does everything that was not the manager's to remove in the first place.
        let pruned = self.seen_in(&pruned, last_version)?;
        let gone = fields_and_containers(&merged, &shape).difference(&fields_and_containers(&pruned, &shape));
        let pruned = typed::remove(&merged, &gone.intersection(&before), &here, &shape);
        self.seen_in(&pruned, self.api_version).map(Cow::into_owned)
    }

    /// The object in a version; the object itself if it is in that version.
    fn seen_in<'v>(&self, object: &'v Value, version: &str) -> Result<Cow<'v, Value>, ConversionError> {
        if object.get("apiVersion").and_then(Value::as_str) == Some(version) {
            return Ok(Cow::Borrowed(object));
        }
        self.versions.convert(object, version).map(Cow::Owned)
    }

    /// Ownership in terms of today's schemas.
    fn reconcile(&self, mut managed: ManagedFields) -> ManagedFields {
        for ownership in managed.managers.values_mut() {
            let shape = self.versions.shape(&ownership.api_version);
            if let Some(reconciled) = shape.and_then(|shape| typed::reconcile(&ownership.fields, &shape)) {
                ownership.fields = reconciled;
            }
        }
        managed
    }
}

fn fields_and_containers(object: &Value, shape: &Shape) -> Set {
    typed::name_containers(&typed::fields(object, shape), shape)
}
