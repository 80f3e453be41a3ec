//! Names that other things are derived from.

use windlass_api::names::{CLUSTER_NAME_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL};

use super::Verdict;

/// How long the value of a label may be.
const LONGEST_LABEL_VALUE: usize = 63;

/// The name of a new Cluster is the value of a label of everything that belongs to it.
pub(super) fn check_cluster_name(name: &str, verdict: &mut Verdict) {
    check(name, CLUSTER_NAME_LABEL, "everything that belongs to the Cluster", verdict);
}

/// The name of a new MachineDeployment is the value of a label of its MachineSets and Machines.
pub(super) fn check_machine_deployment_name(name: &str, verdict: &mut Verdict) {
    check(name, MACHINE_DEPLOYMENT_NAME_LABEL, "its MachineSets and Machines", verdict);
}

/// Refuses a name that is too long for a label. Names of objects that are made from it are cut where they are too long, so
/// it is labels that limit it.
fn check(name: &str, label: &str, of: &str, verdict: &mut Verdict) {
    let length = name.len();
    if length > LONGEST_LABEL_VALUE {
        verdict.refuse(
            "metadata.name",
            format!(
                "has {length} characters and is the value of label {label} of {of}: at most {LONGEST_LABEL_VALUE} are \
                 accepted"
            ),
        );
    }
}
