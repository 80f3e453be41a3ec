//! Whether now is the time for new machines: what the checks read.

use windlass_api::cluster::{Cluster, MachineSet};
use windlass_api::names::{BOOTSTRAP_GROUP, SKIP_PREFLIGHT_CHECKS_ANNOTATION, UPGRADE_STEP_ANNOTATION};
use windlass_engine::contract;
use windlass_engine::machine_set::{
    Check, ControlPlane, Failure, Observed, Preflight, Topology, annotation, preflight,
};

use windlass_engine::topology::{Entry, WorkerKind};
use windlass_engine::waiting::Wait;
use windlass_runtime::namespace_of;

use super::{Scope, Sets};
use crate::worker_group::{Templates, WorkerError};

impl Sets {
    /// The checks that fail now; the control plane is not read where no machine is to be made or handed over.
    pub(super) async fn preflight(
        &self,
        scope: &Scope<'_>,
        templates: &Templates,
        observed: &Observed,
    ) -> Result<Vec<Failure>, WorkerError> {
        let Scope { context, cluster, set } = *scope;
        let missing = (observed.machines.len() as u64) < u64::from(observed.replicas);
        let waiting = observed.machines.iter().any(|machine| machine.waits_for_remediation());
        if !missing && !waiting && observed.moves_to.is_none() {
            return Ok(Vec::new());
        }
        let Some(reference) = &cluster.spec.control_plane_ref else { return Ok(Vec::new()) };
        let namespace = namespace_of(cluster)?;
        let Some(object) = self.externals.get(context, namespace, reference).await? else {
            return Err(WorkerError::NoControlPlane(reference.to_string()));
        };
        let control_plane = contract::control_plane(object.data(), object.kind.contract);
        // Machines that are handed over come to have the version of the MachineSet that takes them.
        let target = self.target(set);
        let version = version(target.as_deref().unwrap_or(set));
        let bootstrap = templates.bootstrap.as_ref().map(|template| &template.object.metadata);
        let skipped = annotation(&set.metadata, SKIP_PREFLIGHT_CHECKS_ANNOTATION)
            .or_else(|| annotation(bootstrap?, SKIP_PREFLIGHT_CHECKS_ANNOTATION));
        let mut skipped = skipped.map(Check::skipped).unwrap_or_default();
        // The owner keeps these workers behind the control plane on purpose.
        if self.features.worker_version_pinning && is_pinned(cluster, set) {
            skipped.insert(Check::ControlPlaneVersionSkew);
        }
        let config = set.spec.template.spec.bootstrap.config_ref.as_ref();
        Ok(preflight(&Preflight {
            control_plane: control_plane.version.as_deref().map(|version| ControlPlane {
                version,
                provisioning: control_plane.is_provisioning(),
                upgrading: control_plane.is_upgrading(),
            }),
            topology: cluster.spec.topology.as_ref().map(|topology| Topology {
                version: &topology.version,
                upgrade_step: annotation(&cluster.metadata, UPGRADE_STEP_ANNOTATION)
                    .filter(|step| !step.is_empty()),
                waits_for_rollouts: Wait::of_cluster(cluster).is_some_and(|wait| wait.is_for_rollouts()),
            }),
            version,
            kubeadm: config.is_some_and(|config| {
                config.kind == "KubeadmConfigTemplate" && config.api_group == BOOTSTRAP_GROUP
            }),
            skipped,
        }))
    }
}

/// Whether the entry of the topology keeps the machines at a version.
fn is_pinned(cluster: &Cluster, set: &MachineSet) -> bool {
    let labels = set.metadata.labels.as_ref();
    let entry = labels.and_then(|labels| labels.get(WorkerKind::MachineDeployment.entry_label()));
    let entries = cluster.spec.topology.as_ref().map(Entry::all).unwrap_or_default();
    entries.iter().any(|known| {
        known.kind == WorkerKind::MachineDeployment
            && Some(known.name) == entry.map(String::as_str)
            && !known.written_pins().is_empty()
    })
}

fn version(set: &MachineSet) -> Option<&str> {
    Some(set.spec.template.spec.version.as_str()).filter(|version| !version.is_empty())
}
