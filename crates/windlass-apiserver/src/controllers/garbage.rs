//! Deletion that spreads from owners to what they own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use windlass_store::{Key, Object};

use super::home;
use crate::api::Propagation;
use crate::registry::Resource;
use crate::server::Inner;
use crate::stored::{Owner, meta};
use crate::verbs::{Call, DeleteOptions, FOREGROUND, ORPHAN, Ownership, Part};

/// Who owns whom, as of the last change that was read.
#[derive(Debug, Default)]
pub(super) struct Collector {
    /// Every object by its uid.
    objects: BTreeMap<String, Key>,
    /// The objects that name a uid as their owner.
    dependents: BTreeMap<String, BTreeSet<Key>>,
    /// The uids that an object names as its owners.
    owners: BTreeMap<Key, Vec<String>>,
}

impl Collector {
    pub(super) fn learn(&mut self, object: &Object) {
        let meta = meta(object);
        let key = object.key();
        if self.objects.get(&meta.uid) != Some(key) {
            self.objects.insert(meta.uid.clone(), key.clone());
        }
        // Most changes are of something else.
        let known = self.owners.get(key).map(Vec::as_slice).unwrap_or_default();
        if known.iter().eq(meta.owners.iter().map(|owner| &owner.uid)) {
            return;
        }
        self.forget_owners(key);
        if meta.owners.is_empty() {
            return;
        }
        for owner in &meta.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        self.owners.insert(key.clone(), meta.owners.iter().map(|owner| owner.uid.clone()).collect());
    }

    fn forget_owners(&mut self, key: &Key) {
        for uid in self.owners.remove(key).unwrap_or_default() {
            if let Some(dependents) = self.dependents.get_mut(&uid) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(&uid);
                }
            }
        }
    }

    /// Forgets an object that is gone, and returns what it owned.
    pub(super) fn forget(&mut self, object: &Object) -> Vec<Key> {
        let uid = &meta(object).uid;
        self.objects.remove(uid);
        self.forget_owners(object.key());
        self.dependents_of(uid)
    }

    fn dependents_of(&self, uid: &str) -> Vec<Key> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The object with a uid, as it is now.
    pub(super) fn find(&self, server: &Inner, uid: &str) -> Option<Arc<Object>> {
        let object = server.store.get(self.objects.get(uid)?)?;
        (meta(&object).uid == uid).then_some(object)
    }

    /// Deletes an object none of whose owners are there any more. If some are, it only forgets the others.
    pub(super) async fn check_owners(&self, server: &Arc<Inner>, key: &Key) {
        let Some(object) = server.store.get(key) else { return };
        let meta = meta(&object);
        let (gone, there): (Vec<&Owner>, Vec<&Owner>) =
            meta.owners.iter().partition(|owner| self.is_gone(server, owner, key.namespace()));
        let Some(resource) = home(server, &object) else { return };
        if gone.is_empty() || meta.deleted_at.is_some() {
            return;
        }
        if there.is_empty() {
            delete(server, &resource, &object, Propagation::Background).await;
        } else {
            let uids: Vec<&str> = gone.iter().map(|owner| owner.uid.as_str()).collect();
            disown(server, &resource, key, &uids).await;
        }
    }

    /// Whether an owner is surely not there. Of a kind that is not served here nothing is sure.
    ///
    /// The store is asked as well: the object at hand may be newer than the last change that was read, and
    /// its owner may have been created in between.
    fn is_gone(&self, server: &Inner, owner: &Owner, namespace: &str) -> bool {
        if self.objects.contains_key(&owner.uid) {
            return false;
        }
        let registry = server.registry();
        let Some(resource) = registry.by_group_kind(&owner.api_version, &owner.kind) else { return false };
        let namespace = if resource.namespaced { namespace } else { "" };
        let found = resource.key(namespace, &owner.name).ok().and_then(|key| server.store.get(&key));
        found.is_none_or(|found| meta(&found).uid != owner.uid)
    }

    /// Lets an object go that waits for what it owns, once nothing keeps it waiting.
    pub(super) async fn look_after_deletion(
        &self,
        server: &Arc<Inner>,
        resource: &Arc<Resource>,
        object: &Object,
    ) {
        let meta = meta(object);
        if meta.deleted_at.is_none() {
            return;
        }
        let holds = |finalizer: &str| meta.finalizers.iter().any(|held| held == finalizer);
        if holds(ORPHAN) {
            for dependent in self.dependents_of(&meta.uid) {
                if let Some(resource) = server.store.get(&dependent).and_then(|object| home(server, &object))
                {
                    disown(server, &resource, &dependent, &[&meta.uid]).await;
                }
            }
            release(server, resource, object.key(), ORPHAN).await;
        }
        if holds(FOREGROUND) && !self.delete_blocking(server, &meta.uid).await {
            release(server, resource, object.key(), FOREGROUND).await;
        }
    }

    /// Deletes what an owner waits for, and says whether there was anything.
    async fn delete_blocking(&self, server: &Arc<Inner>, uid: &str) -> bool {
        let mut is_blocked = false;
        for key in self.dependents_of(uid) {
            let Some(dependent) = server.store.get(&key) else { continue };
            let dependent_meta = meta(&dependent);
            let blocks = |owner: &&Owner| owner.uid == uid && owner.block_owner_deletion;
            if !dependent_meta.owners.iter().any(|owner| blocks(&owner)) {
                continue;
            }
            is_blocked = true;
            if dependent_meta.deleted_at.is_some() {
                continue;
            }
            let Some(resource) = home(server, &dependent) else { continue };
            let owns_others = self.dependents.contains_key(&dependent_meta.uid);
            let policy = if owns_others { Propagation::Foreground } else { Propagation::Background };
            delete(server, &resource, &dependent, policy).await;
        }
        is_blocked
    }
}

async fn delete(server: &Arc<Inner>, resource: &Arc<Resource>, object: &Object, propagation: Propagation) {
    let key = object.key();
    let call = Call::internal(server, resource, key.namespace(), Some(key.name()));
    let uid = Some(meta(object).uid.clone());
    let options = DeleteOptions { propagation: Some(propagation), uid, ..DeleteOptions::default() };
    // If it is gone already, or is another object by now, there is nothing to do.
    let _ = call.remove(key.name(), &options).await;
}

/// Takes owners out of an object.
async fn disown(server: &Arc<Inner>, resource: &Arc<Resource>, key: &Key, uids: &[&str]) {
    edit(server, resource, key, |object| {
        retain(object, "ownerReferences", |owner| !uids.iter().any(|uid| owner["uid"] == *uid));
    })
    .await;
}

/// Takes a finalizer out of an object.
pub(super) async fn release(server: &Arc<Inner>, resource: &Arc<Resource>, key: &Key, finalizer: &str) {
    edit(server, resource, key, |object| retain(object, "finalizers", |held| held != finalizer)).await;
}

async fn edit(server: &Arc<Inner>, resource: &Arc<Resource>, key: &Key, change: impl Fn(&mut Value)) {
    let call = Call::internal(server, resource, key.namespace(), Some(key.name()));
    let make = |old: &Value| {
        let mut new = old.clone();
        change(&mut new);
        Ok(new)
    };
    // If it is gone already, there is nothing to do.
    let _ = call.rewrite_only(Part::Object, Ownership::Creator, &mut Vec::new(), make).await;
}

fn retain(object: &mut Value, list: &str, keep: impl Fn(&Value) -> bool) {
    if let Some(items) = object["metadata"][list].as_array_mut() {
        items.retain(|item| keep(item));
    }
}
