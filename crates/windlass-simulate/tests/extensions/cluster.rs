//! The one Cluster `c1` of these tests: how it goes, and what is done to it.

use std::time::Duration;

use serde_json::json;
use windlass_api::cluster::{Cluster, Machine};
use windlass_engine::condition;
use windlass_simulate::{World, WorldError, key};

/// Longer than anything takes.
pub(crate) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Whether the topology and all of its machines are up to date.
pub(crate) fn is_reconciled(world: &World) -> bool {
    let machines = world.list::<Machine>();
    let ready = |machine: &Machine| condition::is_true(&machine.status.conditions, "Ready");
    !machines.is_empty()
        && machines.iter().all(ready)
        && world
            .get::<Cluster>(&key("c1"))
            .is_some_and(|cluster| condition::is_true(&cluster.status.conditions, "TopologyReconciled"))
}

/// The message of `TopologyReconciled`.
pub(crate) fn told(world: &World) -> String {
    let conditions = world.get::<Cluster>(&key("c1")).unwrap().status.conditions;
    condition::find(&conditions, "TopologyReconciled").unwrap().message.clone()
}

pub(crate) async fn upgrade_to(world: &World, version: &str) {
    let version = json!({"spec": {"topology": {"version": version}}});
    world.patch::<Cluster>(&key("c1"), version).await.unwrap();
}

/// Lets time pass.
pub(crate) async fn pass(world: &mut World, seconds: u64) {
    let error = world.run_until("never", Duration::from_secs(seconds), |_| false).await.unwrap_err();
    assert!(matches!(error, WorldError::NotReached(_)), "{error}");
}
