//! What a ClusterClass and the topology of a Cluster say alike of the control plane and of workers.

use crate::rule::{Form, Rule, moved, renamed, seconds};
use crate::tables::health_check::HEALTH_CHECK;

/// How long the deletion of a Machine may take.
pub(crate) const TIMEOUTS: Rule = Rule::All(&[
    seconds("nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds"),
    seconds("nodeVolumeDetachTimeout", "deletion.nodeVolumeDetachTimeoutSeconds"),
    seconds("nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds"),
]);

pub(crate) const HEALTH: Rule = moved("machineHealthCheck", "healthCheck", Form::Object(HEALTH_CHECK));

/// The strategy of a MachineDeployment is in three places of v1beta2. The two that move furthest go first, so that v1beta1
/// has a `machineHealthCheck` only for what else is in the one of v1beta2.
pub(crate) const STRATEGY: Rule = Rule::All(&[
    renamed("strategy.remediation.maxInFlight", "healthCheck.remediation.maxInFlight"),
    renamed("strategy.rollingUpdate.deletePolicy", "deletion.order"),
    renamed("strategy", "rollout.strategy"),
]);
