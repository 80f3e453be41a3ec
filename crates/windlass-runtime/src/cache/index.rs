//! What a cache holds, with its indices. Pure: events in, answers out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Resource, ResourceExt};

use crate::key::{ObjectKey, revision};

/// Objects of one kind, found by key, by owner, by label, and by any other index.
pub(crate) struct Index<K> {
    objects: BTreeMap<ObjectKey, Arc<K>>,
    by_owner: BTreeMap<String, BTreeSet<ObjectKey>>,
    by_label: BTreeMap<(String, String), BTreeSet<ObjectKey>>,
    by_value: Vec<ByValue<K>>,
}

/// Says by which values an object is found.
pub(crate) type Values<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

struct ByValue<K> {
    values: Values<K>,
    keys: BTreeMap<String, BTreeSet<ObjectKey>>,
}

/// What became of one object: what it was and what it is. One of them is there.
#[derive(Debug)]
pub(crate) struct Change<K> {
    pub(crate) before: Option<Arc<K>>,
    pub(crate) after: Option<Arc<K>>,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_label: BTreeMap::new(),
            by_value: Vec::new(),
        }
    }
}

impl<K: Resource> Index<K> {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// Those of one namespace, which are neighbours because keys are ordered by it.
    pub(crate) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<K>> {
        let first = ObjectKey::new(namespace, "");
        self.objects
            .range(first..)
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, object)| object)
    }

    pub(crate) fn owned_by(&self, uid: &str) -> impl Iterator<Item = &Arc<K>> {
        self.by_owner.get(uid).into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// Finds objects by what is read from them, from now on. The number is that of [`Index::of_value`].
    pub(crate) fn add_values(&mut self, values: Values<K>) -> usize {
        let mut keys: BTreeMap<String, BTreeSet<ObjectKey>> = BTreeMap::new();
        for (key, object) in &self.objects {
            for value in values(object) {
                keys.entry(value).or_default().insert(key.clone());
            }
        }
        self.by_value.push(ByValue { values, keys });
        self.by_value.len() - 1
    }

    /// Those that are found by a value.
    pub(crate) fn of_value(&self, number: usize, value: &str) -> impl Iterator<Item = &Arc<K>> {
        let keys = self.by_value.get(number).and_then(|by| by.keys.get(value));
        keys.into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// Those that have all of these labels; the rarest of them is looked up, the others are compared.
    pub(crate) fn labelled<'a>(
        &'a self,
        namespace: &'a str,
        labels: &'a BTreeMap<String, String>,
    ) -> Box<dyn Iterator<Item = &'a Arc<K>> + 'a> {
        let sets = labels.iter().map(|(label, value)| self.by_label.get(&(label.clone(), value.clone())));
        let rarest = sets.min_by_key(|set| set.map_or(0, BTreeSet::len));
        let Some(rarest) = rarest else { return Box::new(self.in_namespace(namespace)) };
        let keys = rarest.into_iter().flatten().filter(move |key| key.namespace == namespace);
        let objects = keys.filter_map(|key| self.objects.get(key));
        Box::new(objects.filter(move |object| {
            let has = object.labels();
            labels.iter().all(|(label, value)| has.get(label) == Some(value))
        }))
    }

    /// Takes in an object as it is now. One that is older than what is known is not taken: a list that was asked
    /// for before the last event says nothing new.
    pub(crate) fn put(&mut self, object: K) -> Option<Change<K>> {
        let key = ObjectKey::of(&object);
        let before = self.objects.get(&key).cloned();
        if let Some(known) = &before
            && revision(known.as_ref()) >= revision(&object)
            && known.uid() == object.uid()
        {
            return None;
        }
        let object = Arc::new(object);
        self.move_over(&key, before.as_deref(), Some(&object));
        self.objects.insert(key, Arc::clone(&object));
        Some(Change { before, after: Some(object) })
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Change<K>> {
        let before = self.objects.remove(key)?;
        self.move_over(key, Some(&before), None);
        Some(Change { before: Some(before), after: None })
    }

    /// Takes in a whole list, and says what differs from what was known.
    pub(crate) fn replace(&mut self, objects: Vec<K>) -> Vec<Change<K>> {
        let listed: BTreeSet<ObjectKey> = objects.iter().map(ObjectKey::of).collect();
        let gone: Vec<ObjectKey> = self.objects.keys().filter(|key| !listed.contains(key)).cloned().collect();
        let mut changes: Vec<Change<K>> = gone.iter().filter_map(|key| self.remove(key)).collect();
        changes.extend(objects.into_iter().filter_map(|object| self.put(object)));
        changes
    }

    /// Brings the indices from what an object was to what it is. Most changes are of a status, and touch none of them.
    fn move_over(&mut self, key: &ObjectKey, before: Option<&K>, after: Option<&K>) {
        if before.map(K::owner_references) != after.map(K::owner_references) {
            for owner in before.into_iter().flat_map(K::owner_references) {
                take(&mut self.by_owner, &owner.uid, key);
            }
            for owner in after.into_iter().flat_map(K::owner_references) {
                self.by_owner.entry(owner.uid.clone()).or_default().insert(key.clone());
            }
        }
        if before.map(K::labels) != after.map(K::labels) {
            for (label, value) in before.into_iter().flat_map(K::labels) {
                take(&mut self.by_label, &(label.clone(), value.clone()), key);
            }
            for (label, value) in after.into_iter().flat_map(K::labels) {
                self.by_label.entry((label.clone(), value.clone())).or_default().insert(key.clone());
            }
        }
        for ByValue { values, keys } in &mut self.by_value {
            let (before, after) = (before.map(|object| values(object)), after.map(|object| values(object)));
            if before != after {
                for value in before.into_iter().flatten() {
                    take(keys, &value, key);
                }
                for value in after.into_iter().flatten() {
                    keys.entry(value).or_default().insert(key.clone());
                }
            }
        }
    }
}

fn take<I: Ord>(index: &mut BTreeMap<I, BTreeSet<ObjectKey>>, at: &I, key: &ObjectKey) {
    if let Some(keys) = index.get_mut(at) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: u64, label: &str, owner: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {
            "name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string(),
            "labels": {"app": label, "all": "yes"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner}],
        }}))
        .unwrap()
    }

    fn names<'a>(objects: impl Iterator<Item = &'a Arc<ConfigMap>>) -> Vec<String> {
        objects.map(|object| object.name_any()).collect()
    }

    #[test]
    fn indices_follow_the_objects() {
        let mut index = Index::default();
        index.put(object("a", 1, "x", "o"));
        index.put(object("b", 2, "y", "o"));
        assert_eq!(names(index.owned_by("o")), ["a", "b"]);
        let x = BTreeMap::from([("app".to_owned(), "x".to_owned()), ("all".to_owned(), "yes".to_owned())]);
        assert_eq!(names(index.labelled("n", &x)), ["a"]);
        assert_eq!(names(index.labelled("other", &x)), [""; 0]);

        index.put(object("b", 3, "x", "p"));
        assert_eq!(names(index.labelled("n", &x)), ["a", "b"]);
        assert_eq!(names(index.owned_by("o")), ["a"]);
        index.remove(&ObjectKey::new("n", "a"));
        assert_eq!(names(index.owned_by("o")), [""; 0]);
        assert_eq!(names(index.labelled("n", &x)), ["b"]);
        assert_eq!(names(index.labelled("n", &BTreeMap::new())), ["b"], "no label is asked for");
        index.remove(&ObjectKey::new("n", "b"));
        assert!(index.by_label.is_empty() && index.by_owner.is_empty(), "nothing is left behind");
    }

    #[test]
    fn objects_are_found_by_what_is_read_from_them() {
        let mut index = Index::default();
        index.put(object("a", 1, "x", "o"));
        let number = index.add_values(Arc::new(|map: &ConfigMap| vec![map.labels()["app"].clone()]));
        index.put(object("b", 2, "x", "o"));
        assert_eq!(names(index.of_value(number, "x")), ["a", "b"], "also what was there before");
        index.put(object("b", 3, "y", "o"));
        assert_eq!(names(index.of_value(number, "x")), ["a"]);
        assert_eq!(names(index.of_value(number, "y")), ["b"]);
        index.remove(&ObjectKey::new("n", "b"));
        assert_eq!(names(index.of_value(number, "y")), [""; 0]);
        index.remove(&ObjectKey::new("n", "a"));
        assert!(index.by_value[number].keys.is_empty(), "nothing is left behind");
    }

    #[test]
    fn an_older_state_does_not_replace_a_newer_one() {
        let mut index = Index::default();
        index.put(object("a", 5, "new", "o"));
        assert!(index.put(object("a", 4, "old", "o")).is_none());
        assert_eq!(index.get(&ObjectKey::new("n", "a")).unwrap().labels()["app"], "new");
        let mut again = object("a", 3, "another", "o");
        again.metadata.uid = Some("another".into());
        assert!(index.put(again).is_some(), "versions of another object are not compared");
    }

    #[test]
    fn a_list_tells_what_was_missed() {
        let mut index = Index::default();
        for name in ["a", "b", "c"] {
            index.put(object(name, 1, "x", "o"));
        }
        let changes =
            index.replace(vec![object("b", 1, "x", "o"), object("c", 7, "x", "o"), object("d", 8, "x", "o")]);
        let told: Vec<_> = changes
            .iter()
            .map(|change| (change.before.is_some(), change.after.as_ref().map(|object| object.name_any())))
            .collect();
        assert_eq!(told, [(true, None), (true, Some("c".to_owned())), (false, Some("d".to_owned()))]);
    }
}
