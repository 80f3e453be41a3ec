//! What an upgrade leaves to do in the workload cluster: kubeadm's own record of the version, and kube-proxy.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use windlass_engine::control_plane::{Action, Decision, JoinReason, Observed, Step};

use super::{ControlPlaneError, ControlPlaneReconciler, Scope};
use crate::workload::{NoAnswer, answer};
use crate::workload_objects::daemon_sets;

/// On a KubeadmControlPlane: kube-proxy is managed by others.
const SKIP_KUBE_PROXY_ANNOTATION: &str = "controlplane.cluster.x-k8s.io/skip-kube-proxy";

impl ControlPlaneReconciler {
    /// Before a Machine of another version joins, kubeadm on it must find that version in the cluster; after all Machines
    /// are there, kube-proxy follows. Kubelets may be older than the API server, so kube-proxy, which follows them, comes
    /// last.
    pub(super) async fn maintain_workload(
        &self,
        scope: &Scope<'_>,
        observed: &Observed,
        decision: &Decision,
    ) -> Result<(), ControlPlaneError> {
        let joins = matches!(
            decision.step,
            Step::Act(Action::Join { reason: JoinReason::Rollout, .. } | Action::TriggerInPlace { .. })
        );
        let settled = decision.step == Step::Settled && observed.initialized && !observed.machines.is_empty();
        if joins {
            let client = self.workload_client(scope).await?;
            set_kubeadm_version(client, &observed.version).await?;
        } else if settled && !self.is_maintained(scope, &observed.version) {
            let client = self.workload_client(scope).await?;
            set_kubeadm_version(client.clone(), &observed.version).await?;
            let annotations = scope.control_plane.metadata.annotations.as_ref();
            if annotations.is_none_or(|all| !all.contains_key(SKIP_KUBE_PROXY_ANNOTATION)) {
                set_kube_proxy_version(client, &observed.version).await?;
            }
            self.note_maintained(scope, &observed.version)?;
        }
        Ok(())
    }
}

/// Replaces `kubernetesVersion` in kubeadm's configuration. The rest of the text is left as it is.
async fn set_kubeadm_version(client: Client, version: &str) -> Result<(), NoAnswer> {
    const CONFIGURATION: &str = "ClusterConfiguration";
    let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    let Some(map) = answer(maps.get("kubeadm-config")).await? else { return Ok(()) };
    let Some(before) = map.data.as_ref().and_then(|data| data.get(CONFIGURATION)) else { return Ok(()) };
    let after = with_kubernetes_version(before, version);
    if after != *before {
        let patch = json!({"data": {CONFIGURATION: after}});
        answer(maps.patch("kubeadm-config", &PatchParams::default(), &Patch::Merge(patch))).await?;
    }
    Ok(())
}

fn with_kubernetes_version(configuration: &str, version: &str) -> String {
    let line = |line: &str| match line.strip_prefix("kubernetesVersion:") {
        Some(_) => format!("kubernetesVersion: {version}\n"),
        None => format!("{line}\n"),
    };
    configuration.lines().map(line).collect()
}

/// Brings the image of kube-proxy to a version, wherever it comes from.
async fn set_kube_proxy_version(client: Client, version: &str) -> Result<(), NoAnswer> {
    let sets = daemon_sets(client, "kube-system");
    let Some(set) = answer(sets.get("kube-proxy")).await? else { return Ok(()) };
    let containers = set.spec.template.spec.map(|spec| spec.containers);
    let Some(container) = containers.into_iter().flatten().find(|container| container.name == "kube-proxy")
    else {
        return Ok(());
    };
    let Some(image) = container.image else { return Ok(()) };
    let wanted = with_tag(&image, version);
    if wanted != image {
        let containers = json!([{"name": "kube-proxy", "image": wanted}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        answer(sets.patch("kube-proxy", &PatchParams::default(), &Patch::Strategic(patch))).await?;
    }
    Ok(())
}

/// An image with another tag. A digest names one build, and is replaced with the tag.
fn with_tag(image: &str, version: &str) -> String {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    // A colon before the last slash belongs to the port of a registry.
    let after_slash = name.rfind('/').map_or(0, |slash| slash + 1);
    let end = name[after_slash..].find(':').map_or(name.len(), |colon| after_slash + colon);
    // Tags cannot have a plus.
    format!("{}:{}", &name[..end], version.replace('+', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_get_another_tag_and_keep_the_rest() {
        for (image, expected) in [
            ("registry.k8s.io/kube-proxy:v1.32.0", "registry.k8s.io/kube-proxy:v1.33.0_k3s.1"),
            ("localhost:5000/kube-proxy", "localhost:5000/kube-proxy:v1.33.0_k3s.1"),
            ("localhost:5000/a/kube-proxy:v1@sha256:abc", "localhost:5000/a/kube-proxy:v1.33.0_k3s.1"),
            ("kube-proxy:v1", "kube-proxy:v1.33.0_k3s.1"),
        ] {
            assert_eq!(with_tag(image, "v1.33.0+k3s.1"), expected);
        }
    }

    #[test]
    fn only_the_version_of_the_configuration_changes() {
        let before = "apiVersion: kubeadm.k8s.io/v1beta4\nkubernetesVersion: v1.32.0\ncontrolPlane:\n  kubernetesVersion: x\n";
        let after = "apiVersion: kubeadm.k8s.io/v1beta4\nkubernetesVersion: v1.33.0\ncontrolPlane:\n  kubernetesVersion: x\n";
        assert_eq!(with_kubernetes_version(before, "v1.33.0"), after);
    }
}
