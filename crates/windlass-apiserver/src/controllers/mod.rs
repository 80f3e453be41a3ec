//! What goes on without being asked: deletion that spreads, namespaces and CRDs that are emptied,
//! events that expire. One task reads every change in order, so that its picture is never out of order.

mod crd;
mod events;
mod garbage;
mod namespace;
mod seed;

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};
use windlass_store::{Event, EventKind, Object, Scope, WatchError};

pub(crate) use crd::establish;
pub(crate) use seed::seed;

use crate::registry::{Behaviour, Resource};
use crate::server::Inner;
use crate::stored::meta;
use events::Expiry;
use garbage::Collector;

/// Starts the task. It ends with the server or with its store.
pub(crate) fn start(server: &Arc<Inner>) {
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let mut stopped = server.stopped.subscribe();
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = run(&server) => {}
        }
    });
}

async fn run(server: &Arc<Inner>) {
    loop {
        let mut housekeeping = Housekeeping::new(server);
        match housekeeping.run().await {
            // It fell behind so far that changes are lost to it: it looks at everything again.
            WatchError::Expired(_) => {}
            WatchError::Closed => return,
        }
    }
}

struct Housekeeping<'a> {
    server: &'a Arc<Inner>,
    collector: Collector,
    expiry: Expiry,
}

impl<'a> Housekeeping<'a> {
    fn new(server: &'a Arc<Inner>) -> Self {
        Self { server, collector: Collector::default(), expiry: Expiry::default() }
    }

    async fn run(&mut self) -> WatchError {
        let snapshot = self.server.store.snapshot();
        let mut watcher = match self.server.store.watch(Scope::All, snapshot.revision()) {
            Ok(watcher) => watcher,
            Err(expired) => return WatchError::Expired(expired),
        };
        let objects: Vec<Arc<Object>> = snapshot.list(&Scope::All).cloned().collect();
        drop(snapshot);
        for object in &objects {
            self.collector.learn(object);
        }
        for object in &objects {
            self.expiry.found(self.server, object);
            self.look_at(object).await;
        }
        drop(objects);
        loop {
            let next_expiry = self.expiry.next().unwrap_or_else(|| Instant::now() + events::LIFETIME);
            tokio::select! {
                event = watcher.next() => match event {
                    Ok(event) => self.handle(&event).await,
                    Err(error) => return error,
                },
                () = sleep_until(next_expiry) => self.expiry.expire(self.server).await,
            }
        }
    }

    async fn handle(&mut self, event: &Event) {
        let object = event.object();
        if event.kind() == EventKind::Deleted {
            self.gone(object).await;
            return;
        }
        self.collector.learn(object);
        self.expiry.written(object);
        self.look_at(object).await;
    }

    /// An object that is there: does it need anything?
    async fn look_at(&mut self, object: &Arc<Object>) {
        let meta = meta(object);
        if !meta.owners.is_empty() {
            self.collector.check_owners(self.server, object.key()).await;
        }
        let Some(resource) = home(self.server, object) else { return };
        if resource.behaviour == Behaviour::Namespace {
            namespace::look_after(self.server, object).await;
        }
        if meta.deleted_at.is_some() {
            self.collector.look_after_deletion(self.server, &resource, object).await;
            if resource.behaviour == Behaviour::Crd {
                crd::clean_up(self.server, object.key().name()).await;
            }
        }
    }

    /// An object is gone: who waited for that?
    async fn gone(&mut self, object: &Arc<Object>) {
        let orphans = self.collector.forget(object);
        for dependent in orphans {
            self.collector.check_owners(self.server, &dependent).await;
        }
        for owner in &meta(object).owners {
            let Some(owner) = self.collector.find(self.server, &owner.uid) else { continue };
            if let Some(resource) = home(self.server, &owner) {
                self.collector.look_after_deletion(self.server, &resource, &owner).await;
            }
        }
        let namespace = object.key().namespace();
        if !namespace.is_empty() {
            namespace::finish(self.server, namespace).await;
        }
        if let Some((group, plural)) = object.key().resource().as_str().split_once('/') {
            crd::clean_up(self.server, &format!("{plural}.{group}")).await;
        }
    }
}

/// The resource that an object of the store belongs to, in the version it is kept in.
fn home(server: &Inner, object: &Object) -> Option<Arc<Resource>> {
    server.registry().home(object.key().resource()).cloned()
}
