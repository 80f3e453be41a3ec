//! Beside upstream's controllers, or instead of them: what is there is taken as it is, and no machine is touched.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod empty;
mod older_crds;
mod templates;
mod upstream;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::conditions::TOPOLOGY_RECONCILED;
use windlass_engine::condition;
use windlass_simulate::{World, key};
use windlass_store::Scope;

/// That of the `windlass` binary: simulations make and drop many small values, and end a fifth sooner with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub(crate) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Lets an hour pass, in which nothing may end.
pub(crate) async fn rest(world: &mut World) {
    let ended = world.run_to_the_end(Duration::from_secs(3600)).await;
    assert_eq!(ended.map(|_| "ended"), None);
}

/// Whether all machines have Nodes, and the topology wants nothing more.
pub(crate) fn is_settled(world: &World, machines: usize) -> bool {
    let all = world.list::<Machine>();
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    all.len() == machines
        && all.iter().all(|machine| machine.status.node_ref.is_some())
        && condition::is_true(&cluster.status.conditions, TOPOLOGY_RECONCILED)
}

/// Everything in the store.
pub(crate) fn stored(world: &World) -> BTreeMap<String, Value> {
    let snapshot = world.server().store().snapshot();
    let objects = snapshot.list(&Scope::All).map(|object| {
        let key = object.key();
        let name = format!("{} {}/{}", key.resource().as_str(), key.namespace(), key.name());
        (name, serde_json::from_slice(object.value()).unwrap())
    });
    objects.filter(|(name, _)| !name.contains("customresourcedefinitions")).collect()
}

/// The same apart from what tells of it: Events.
pub(crate) fn everything(world: &World) -> BTreeMap<String, Value> {
    stored(world).into_iter().filter(|(name, _)| !name.contains("/events ")).collect()
}
