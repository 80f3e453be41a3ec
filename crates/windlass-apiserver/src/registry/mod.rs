//! Which resources there are.

mod builtin;
mod columns;
pub(crate) mod crd;
mod jsonpath;
mod resource;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use windlass_api::api_version;
use windlass_store as store;

use crate::stored::parse;
pub(crate) use jsonpath::{JsonPath, text};
pub use resource::ConvertFn;
pub(crate) use resource::{
    Behaviour, Cell, Column, Conversion, Resource, ScalePaths, Selectable, Subresource, Verbs,
};

/// All resources at one moment. Replaced as a whole, so that a request sees one state of it.
pub(crate) struct Registry {
    /// By group and version, in the order in which discovery lists them.
    versions: BTreeMap<(String, String), Vec<Arc<Resource>>>,
    crds: BTreeMap<String, Arc<Known>>,
    next_encoding: u64,
    /// By storage: one resource each, in the version that is kept if that is served.
    homes: BTreeMap<store::Resource, Arc<Resource>>,
}

/// A CRD that is in the registry.
struct Known {
    /// That of the object it was read from: as long as it stays, nothing has to be read again.
    revision: u64,
    uid: String,
    generation: i64,
    terminating: bool,
    resources: Vec<Arc<Resource>>,
}

/// Conversions that were registered, by `group/Kind`.
pub(crate) type Conversions = BTreeMap<String, ConvertFn>;

static BUILT_IN: LazyLock<Vec<Arc<Resource>>> =
    LazyLock::new(|| builtin::resources().into_iter().map(Arc::new).collect());

/// A resource that is there whatever is defined.
pub(crate) fn built_in(group: &str, version: &str, plural: &str) -> Option<&'static Arc<Resource>> {
    let is_it = |resource: &&Arc<Resource>| {
        resource.group == group && resource.version == version && resource.plural == plural
    };
    BUILT_IN.iter().find(is_it)
}

impl Registry {
    /// Only the built-in kinds.
    pub(crate) fn new() -> Self {
        Self::with(BTreeMap::new(), BUILT_IN.len() as u64)
    }

    fn with(crds: BTreeMap<String, Arc<Known>>, next_encoding: u64) -> Self {
        let mut versions: BTreeMap<(String, String), Vec<Arc<Resource>>> = BTreeMap::new();
        let custom = crds.values().flat_map(|known| known.resources.iter());
        for resource in BUILT_IN.iter().chain(custom) {
            let place = (resource.group.clone(), resource.version.clone());
            versions.entry(place).or_default().push(Arc::clone(resource));
        }
        let mut homes: BTreeMap<store::Resource, Arc<Resource>> = BTreeMap::new();
        for resource in versions.values().flatten() {
            let is_home = resource.version == resource.storage_version && !resource.is_alias();
            if is_home || !homes.contains_key(&resource.storage) {
                homes.insert(resource.storage.clone(), Arc::clone(resource));
            }
        }
        Self { versions, crds, next_encoding, homes }
    }

    /// The registry for the CRDs that are established, taking over from this one what has not
    /// changed: parsing a CRD takes a while, and compiling a schema a longer one.
    pub(crate) fn rebuilt<'a>(
        &self,
        crds: impl Iterator<Item = &'a store::Object>,
        conversions: &Conversions,
        by_webhook: impl Fn(&Value) -> Option<ConvertFn>,
    ) -> Self {
        let mut known = BTreeMap::new();
        let mut next_encoding = self.next_encoding;
        for object in crds {
            let (name, revision) = (object.key().name().to_owned(), object.revision());
            if let Some(before) = self.crds.get(&name).filter(|before| before.revision == revision) {
                known.insert(name, Arc::clone(before));
                continue;
            }
            let Ok(crd) = parse(object) else { continue };
            if !crd::has_condition(&crd, "Established") {
                continue;
            }
            let uid = crd["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let generation = crd["metadata"]["generation"].as_i64().unwrap_or_default();
            let terminating = crd["metadata"]["deletionTimestamp"].is_string();
            let before = self.crds.get(&name).filter(|before| {
                before.uid == uid && before.generation == generation && before.terminating == terminating
            });
            if let Some(before) = before {
                let resources = before.resources.clone();
                known.insert(name, Arc::new(Known { revision, uid, generation, terminating, resources }));
                continue;
            }
            let (group, kind) = (&crd["spec"]["group"], &crd["spec"]["names"]["kind"]);
            let place = format!("{}/{}", text(group), text(kind));
            let registered = conversions.get(&place).cloned().map(Conversion::Function);
            let conversion = registered.or_else(|| by_webhook(&crd).map(Conversion::Webhook));
            let conversion = conversion.unwrap_or(Conversion::Relabel);
            if let Some(resources) = crd::resources(&crd, revision, next_encoding, &conversion) {
                next_encoding += resources.len() as u64;
                let resources = resources.into_iter().map(Arc::new).collect();
                known.insert(name, Arc::new(Known { revision, uid, generation, terminating, resources }));
            }
        }
        Self::with(known, next_encoding)
    }

    /// A resource by its path.
    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let resources = self.versions.get(&(group.to_owned(), version.to_owned()))?;
        resources.iter().find(|resource| resource.plural == plural)
    }

    /// A resource by the group and kind of its objects, in whatever version.
    pub(crate) fn by_group_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let group = api_version::group(api_version);
        self.all().find(|resource| resource.group == group && resource.kind == kind)
    }

    /// All versions of a resource.
    pub(crate) fn versions_of<'a>(
        &'a self,
        group: &'a str,
        plural: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.all().filter(move |resource| resource.group == group && resource.plural == plural)
    }

    /// Every resource.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.versions.values().flatten()
    }

    /// The groups in order, each with its versions, the preferred one first.
    pub(crate) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: BTreeMap<&str, Vec<GroupVersion<'_>>> = BTreeMap::new();
        for ((group, version), resources) in &self.versions {
            groups.entry(group).or_default().push((version, resources));
        }
        let sorted = groups.into_iter().map(|(name, mut versions)| {
            versions
                .sort_by(|(left, _), (right, _)| priority(right).cmp(&priority(left)).then(left.cmp(right)));
            Group { name, versions }
        });
        sorted.collect()
    }

    /// The resource that the objects of a storage belong to.
    pub(crate) fn home(&self, storage: &store::Resource) -> Option<&Arc<Resource>> {
        self.homes.get(storage)
    }

    /// One resource per storage: to reach every object that can be written once.
    pub(crate) fn storages(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.homes.values().filter(|resource| resource.verbs == Verbs::All)
    }
}

impl Resource {
    /// Whether the objects are those of another group, seen differently.
    fn is_alias(&self) -> bool {
        matches!(self.conversion, Conversion::Events)
    }
}

/// A group in discovery.
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    pub(crate) versions: Vec<GroupVersion<'a>>,
}

/// A version of a group, and what is in it.
type GroupVersion<'a> = (&'a str, &'a [Arc<Resource>]);

/// Kubernetes' order of versions: stable before beta before alpha, higher numbers first.
fn priority(version: &str) -> (u8, u64, u64) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse() else { return (0, 0, 0) };
    let (stage, minor) = match &rest[digits..] {
        "" => return (3, major, 0),
        stage if stage.starts_with("beta") => (2, &stage[4..]),
        stage if stage.starts_with("alpha") => (1, &stage[5..]),
        _ => return (0, 0, 0),
    };
    minor.parse().map_or((0, 0, 0), |minor| (stage, major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_maturity_then_number() {
        let mut versions = vec!["v1beta1", "foo", "v1", "v1alpha3", "v2", "v10", "v1beta2", "v2alpha1"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha3", "foo"]);
    }

    #[test]
    fn every_built_in_kind_is_found_by_path_and_by_kind() {
        let registry = Registry::new();
        for resource in registry.all() {
            let found = registry.get(&resource.group, &resource.version, &resource.plural).unwrap();
            assert!(Arc::ptr_eq(found, resource), "{resource:?}");
            let found = registry.by_group_kind(&resource.api_version(), &resource.kind).unwrap();
            assert!(Arc::ptr_eq(found, resource), "{resource:?}");
        }
    }
}
