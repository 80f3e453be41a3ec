//! What a cache holds, with its indices. Pure: events in, answers out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Resource, ResourceExt};

use crate::key::{ObjectKey, revision};

/// Objects of one kind, found by key, by owner, by label, and by any other index.
///
/// An object has a slot for as long as it is there, whatever becomes of it. Indices lead to slots: who goes through the
/// thousands of objects of a group does not look each of them up by its name.
pub(crate) struct Index<K> {
    slots: Vec<Option<Arc<K>>>,
    free: Vec<usize>,
    objects: Members,
    by_owner: BTreeMap<String, Members>,
    by_label: BTreeMap<String, BTreeMap<String, Members>>,
    by_value: Vec<ByValue<K>>,
}

/// Slots of objects, in the order of their keys.
type Members = BTreeMap<ObjectKey, usize>;

/// Says by which values an object is found.
pub(crate) type Values<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

struct ByValue<K> {
    values: Values<K>,
    found: BTreeMap<String, Members>,
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
            slots: Vec::new(),
            free: Vec::new(),
            objects: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_label: BTreeMap::new(),
            by_value: Vec::new(),
        }
    }
}

impl<K: Resource> Index<K> {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.slots[*self.objects.get(key)?].as_ref()
    }

    fn at<'a>(&'a self, members: impl IntoIterator<Item = &'a usize>) -> impl Iterator<Item = &'a Arc<K>> {
        members.into_iter().filter_map(|slot| self.slots[*slot].as_ref())
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.at(self.objects.values())
    }

    /// Those of one namespace, which are neighbours because keys are ordered by it.
    pub(crate) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<K>> {
        let first = ObjectKey::new(namespace, "");
        let neighbours = self.objects.range(first..).take_while(move |(key, _)| key.namespace == namespace);
        self.at(neighbours.map(|(_, slot)| slot))
    }

    pub(crate) fn owned_by(&self, uid: &str) -> impl Iterator<Item = &Arc<K>> {
        self.at(self.by_owner.get(uid).into_iter().flat_map(Members::values))
    }

    /// Finds objects by what is read from them, from now on. The number is that of [`Index::of_value`].
    pub(crate) fn add_values(&mut self, values: Values<K>) -> usize {
        let mut found: BTreeMap<String, Members> = BTreeMap::new();
        for (key, slot) in &self.objects {
            for value in self.slots[*slot].iter().flat_map(|object| values(object)) {
                found.entry(value).or_default().insert(key.clone(), *slot);
            }
        }
        self.by_value.push(ByValue { values, found });
        self.by_value.len() - 1
    }

    /// Those that are found by a value.
    pub(crate) fn of_value(&self, number: usize, value: &str) -> impl Iterator<Item = &Arc<K>> {
        let found = self.by_value.get(number).and_then(|by| by.found.get(value));
        self.at(found.into_iter().flat_map(Members::values))
    }

    /// Those that have all of these labels, and that `keep` keeps. The rarest of the labels is looked up, the others are
    /// compared, which costs more than most other questions: `keep` is asked first.
    pub(crate) fn labelled<'a>(
        &'a self,
        namespace: &'a str,
        labels: &'a BTreeMap<String, String>,
        keep: impl Fn(&K) -> bool + 'a,
    ) -> Box<dyn Iterator<Item = &'a Arc<K>> + 'a> {
        let found = |(label, value): (&String, &String)| self.by_label.get(label)?.get(value);
        let sets = labels.iter().map(|label| (label.0, found(label)));
        let rarest = sets.min_by_key(|(_, set)| set.map_or(0, Members::len));
        let Some((known, rarest)) = rarest else {
            return Box::new(self.in_namespace(namespace).filter(move |object| keep(object)));
        };
        let members = rarest.into_iter().flatten().filter(move |(key, _)| key.namespace == namespace);
        let objects = self.at(members.map(|(_, slot)| slot));
        Box::new(objects.filter(move |object| keep(object)).filter(move |object| {
            let has = object.labels();
            labels.iter().all(|(label, value)| label == known || has.get(label) == Some(value))
        }))
    }

    /// Takes in an object as it is now. One that is older than what is known is not taken: a list that was asked
    /// for before the last event says nothing new.
    pub(crate) fn put(&mut self, object: K) -> Option<Change<K>> {
        let key = ObjectKey::of(&object);
        let before = self.get(&key).cloned();
        if let Some(known) = &before
            && revision(known.as_ref()) >= revision(&object)
            && known.uid() == object.uid()
        {
            return None;
        }
        let object = Arc::new(object);
        let slot = match self.objects.get(&key) {
            Some(slot) => *slot,
            None => self.free.pop().unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            }),
        };
        self.move_over(&key, slot, before.as_deref(), Some(&object));
        self.slots[slot] = Some(Arc::clone(&object));
        self.objects.insert(key, slot);
        Some(Change { before, after: Some(object) })
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Change<K>> {
        let slot = self.objects.remove(key)?;
        let before = self.slots[slot].take()?;
        self.free.push(slot);
        self.move_over(key, slot, Some(&before), None);
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
    fn move_over(&mut self, key: &ObjectKey, slot: usize, before: Option<&K>, after: Option<&K>) {
        if before.map(K::owner_references) != after.map(K::owner_references) {
            for owner in before.into_iter().flat_map(K::owner_references) {
                take(&mut self.by_owner, &owner.uid, key);
            }
            for owner in after.into_iter().flat_map(K::owner_references) {
                self.by_owner.entry(owner.uid.clone()).or_default().insert(key.clone(), slot);
            }
        }
        if before.map(K::labels) != after.map(K::labels) {
            for (label, value) in before.into_iter().flat_map(K::labels) {
                if let Some(values) = self.by_label.get_mut(label) {
                    take(values, value, key);
                    if values.is_empty() {
                        self.by_label.remove(label);
                    }
                }
            }
            for (label, value) in after.into_iter().flat_map(K::labels) {
                let values = self.by_label.entry(label.clone()).or_default();
                values.entry(value.clone()).or_default().insert(key.clone(), slot);
            }
        }
        for ByValue { values, found } in &mut self.by_value {
            let (before, after) = (before.map(|object| values(object)), after.map(|object| values(object)));
            if before != after {
                for value in before.into_iter().flatten() {
                    take(found, &value, key);
                }
                for value in after.into_iter().flatten() {
                    found.entry(value).or_default().insert(key.clone(), slot);
                }
            }
        }
    }
}

fn take(index: &mut BTreeMap<String, Members>, at: &str, key: &ObjectKey) {
    if let Some(members) = index.get_mut(at) {
        members.remove(key);
        if members.is_empty() {
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
        assert_eq!(names(index.labelled("n", &x, |_| true)), ["a"]);
        assert_eq!(names(index.labelled("other", &x, |_| true)), [""; 0]);
        let yes = BTreeMap::from([("all".to_owned(), "yes".to_owned())]);
        assert_eq!(names(index.labelled("n", &yes, |object| object.name_any() != "a")), ["b"]);

        index.put(object("b", 3, "x", "p"));
        assert_eq!(names(index.labelled("n", &x, |_| true)), ["a", "b"]);
        assert_eq!(names(index.owned_by("o")), ["a"]);
        index.remove(&ObjectKey::new("n", "a"));
        assert_eq!(names(index.owned_by("o")), [""; 0]);
        assert_eq!(names(index.labelled("n", &x, |_| true)), ["b"]);
        assert_eq!(names(index.labelled("n", &BTreeMap::new(), |_| true)), ["b"], "no label is asked for");
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
        assert!(index.by_value[number].found.is_empty(), "nothing is left behind");
    }

    #[test]
    fn the_slot_of_what_is_gone_is_used_again() {
        let mut index = Index::default();
        for round in 0..3 {
            for name in ["b", "a", "c"] {
                index.put(object(name, round * 10 + 1, "x", "o"));
            }
            assert_eq!(names(index.iter()), ["a", "b", "c"]);
            index.put(object("b", round * 10 + 2, "y", "p"));
            assert_eq!(names(index.owned_by("o")), ["a", "c"]);
            index.remove(&ObjectKey::new("n", "b"));
            index.remove(&ObjectKey::new("n", "a"));
            assert_eq!(names(index.in_namespace("n")), ["c"]);
            index.remove(&ObjectKey::new("n", "c"));
        }
        assert_eq!((index.len(), index.slots.len()), (0, 3));
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
