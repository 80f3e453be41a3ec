//! The Secrets of a cluster: made once, completed when one is missing, never overwritten.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::json;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_engine::control_plane::observe::is_etcd_external;
use windlass_runtime::{Incomplete, ObjectKey, controller_reference, describe_error, uid_of};

use super::{ControlPlaneError, ControlPlaneReconciler, Scope};
use crate::certificates::{
    KUBECONFIG, Pair, Purpose, kubeconfig, kubeconfig_needs_renewal, kubeconfig_secret_name, secret,
};

/// How long Secrets that were complete are not looked at again. They are read from the API, not from a cache: keeping all
/// Secrets of a management cluster in memory for the few that are ours would be a bad trade.
const RECHECK: SignedDuration = SignedDuration::from_mins(10);

impl ControlPlaneReconciler {
    /// Whether all certificates are there, after what is missing was made.
    pub(super) async fn reconcile_certificates(&self, scope: &Scope<'_>) -> Result<bool, ControlPlaneError> {
        let ready = scope.cluster.status.initialization.infrastructure_provisioned == Some(true);
        let uid = uid_of(scope.control_plane)?;
        let now = scope.context.now();
        let certified = || self.certified.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = certified().get(uid).copied();
        if checked.is_some_and(|checked| now.duration_since(checked) < RECHECK) {
            return Ok(true);
        }
        if scope.is_deleting() || !ready {
            return Ok(scope
                .control_plane
                .status
                .conditions
                .iter()
                .any(|condition| condition.type_ == "CertificatesAvailable" && condition.status == "True"));
        }
        let mut authority = None;
        for purpose in Purpose::ALL {
            if purpose == Purpose::EtcdAuthority && is_etcd_external(scope.control_plane) {
                // The operator of that etcd signs for it.
                continue;
            }
            let pair = self.pair(scope, purpose).await?;
            if purpose == Purpose::ClusterAuthority {
                authority = Some(pair);
            }
        }
        if let (Some(authority), Some(address)) =
            (authority, scope.cluster.spec.control_plane_endpoint.address())
        {
            self.kubeconfig(scope, &format!("https://{address}"), &authority).await?;
            certified().insert(uid.to_owned(), now);
        }
        Ok(true)
    }

    async fn pair(&self, scope: &Scope<'_>, purpose: Purpose) -> Result<Pair, ControlPlaneError> {
        let cluster = scope.cluster_name();
        let name = purpose.secret_name(&cluster);
        if let Some(found) = self.read(scope, &name).await? {
            return Ok(Pair::of_secret(&found)?);
        }
        let pair = purpose.generate(scope.context.now())?;
        let made = self.secret(scope, &name, pair.clone().data())?;
        scope.context.writer::<Secret>().create(&made).await?;
        Ok(pair)
    }

    async fn kubeconfig(
        &self,
        scope: &Scope<'_>,
        server: &str,
        authority: &Pair,
    ) -> Result<(), ControlPlaneError> {
        let (cluster, now) = (scope.cluster_name(), scope.context.now());
        let name = kubeconfig_secret_name(&cluster);
        let make = || kubeconfig(&cluster, server, authority, now);
        let writer = scope.context.writer::<Secret>();
        match self.read(scope, &name).await? {
            None => {
                let data = BTreeMap::from([(KUBECONFIG.to_owned(), make()?)]);
                writer.create(&self.secret(scope, &name, data)?).await?;
            }
            Some(found) => {
                let uid = scope.control_plane.uid();
                let ours = found.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref());
                if ours && kubeconfig_needs_renewal(&found, now) {
                    writer.patch(&found, json!({"stringData": {KUBECONFIG: make()?}})).await?;
                }
            }
        }
        Ok(())
    }

    /// Reads a Secret. One of a control plane that is gone is about to be deleted, by the garbage collector or because it
    /// went with its Cluster: a Cluster of the same name would lose it as soon as it had begun to use it.
    async fn read(&self, scope: &Scope<'_>, name: &str) -> Result<Option<Secret>, ControlPlaneError> {
        let key = ObjectKey::new(scope.namespace(), name);
        let unusable = |why: String| ControlPlaneError::Read { what: format!("Secret {key}"), why };
        let found: Option<Secret> =
            scope.context.get(&key).await.map_err(|error| unusable(describe_error(&error)))?;
        let Some(secret) = found else { return Ok(None) };
        let is_gone = |owner: &OwnerReference| {
            let there = self.control_planes.get(&ObjectKey::new(scope.namespace(), &owner.name));
            owner.kind == KubeadmControlPlane::KIND
                && there.is_none_or(|there| there.uid().as_ref() != Some(&owner.uid))
        };
        match secret.owner_references() {
            [owner, ..] if secret.owner_references().iter().all(is_gone) => {
                Err(unusable(format!("KubeadmControlPlane {} is gone, and it goes with it", owner.name)))
            }
            _ => Ok(Some(secret)),
        }
    }

    fn secret(
        &self,
        scope: &Scope<'_>,
        name: &str,
        data: BTreeMap<String, String>,
    ) -> Result<Secret, Incomplete> {
        let owner = controller_reference(scope.control_plane)?;
        Ok(secret(&scope.namespace(), name, &scope.cluster_name(), owner, data))
    }
}
