//! How far things are.

use windlass_api::cluster::MachineDeployment;

use crate::world::{World, key};

/// Whether a MachineDeployment has all machines it wants, up to date and available.
pub fn is_complete(world: &World, deployment: &str) -> bool {
    let Some(deployment) = world.get::<MachineDeployment>(&key(deployment)) else { return false };
    has_all(&deployment) && deployment.status.up_to_date_replicas == deployment.replicas()
}

/// Whether a MachineDeployment has as many available machines as it wants, up to date or not.
pub fn is_settled(world: &World, deployment: &str) -> bool {
    world.get::<MachineDeployment>(&key(deployment)).is_some_and(|deployment| has_all(&deployment))
}

fn has_all(deployment: &MachineDeployment) -> bool {
    let (wanted, status) = (deployment.replicas(), &deployment.status);
    status.observed_generation >= deployment.metadata.generation
        && status.replicas == wanted
        && status.available_replicas == wanted
}
