//! The certificates that a machine needs, from the Secrets of its cluster.

use k8s_openapi::api::core::v1::Secret;
use windlass_bootstrap::certificate_files::{ClusterCertificates, Found, missing, needed};
use windlass_bootstrap::certificates::{Purpose, secret};
use windlass_bootstrap::decision::Waiting;
use windlass_runtime::controller_reference;

use super::lock::read;
use super::{BootstrapError, KubeadmConfigs, NoData, Scope};

impl KubeadmConfigs {
    /// All certificates of a control plane machine that initializes its cluster. A control plane makes them; those of a
    /// cluster without one are made here.
    pub(super) async fn certificates_for_init(
        &self,
        scope: &Scope<'_>,
    ) -> Result<ClusterCertificates, NoData> {
        let found = self.find(scope, &needed(scope.config.spec.cluster_configuration.as_ref())).await?;
        if scope.cluster.spec.control_plane_ref.is_some() {
            return complete(scope, found);
        }
        let mut all = found;
        for purpose in missing(scope.config.spec.cluster_configuration.as_ref(), &all) {
            if all.contains_key(&purpose) || purpose == Purpose::ApiServerEtcdClient {
                // What a user began is not overwritten, and only the operator of an external etcd signs for it.
                continue;
            }
            all.insert(purpose, self.make(scope, purpose).await?);
        }
        complete(scope, all)
    }

    /// All certificates of a control plane machine that joins.
    pub(super) async fn certificates_for_join(
        &self,
        scope: &Scope<'_>,
    ) -> Result<ClusterCertificates, NoData> {
        let found = self.find(scope, &needed(scope.config.spec.cluster_configuration.as_ref())).await?;
        complete(scope, found)
    }

    /// The authority of a cluster, by which a worker knows it. Its key is not needed.
    pub(super) async fn authority(&self, scope: &Scope<'_>) -> Result<ClusterCertificates, NoData> {
        let found = self.find(scope, &[Purpose::ClusterAuthority]).await?;
        if found.is_empty() {
            let (cluster, missing) = (scope.owner.cluster.clone(), vec![Purpose::ClusterAuthority]);
            return Err(NoData::Waits(Waiting::Certificates { cluster, missing }));
        }
        Ok(found)
    }

    async fn find(
        &self,
        scope: &Scope<'_>,
        purposes: &[Purpose],
    ) -> Result<ClusterCertificates, BootstrapError> {
        let mut all = ClusterCertificates::new();
        for purpose in purposes {
            let name = purpose.secret_name(&scope.owner.cluster);
            let found = read::<Secret>(scope, &name, "Secret").await?;
            all.extend(found.as_ref().and_then(Found::of_secret).map(|found| (*purpose, found)));
        }
        Ok(all)
    }

    async fn make(&self, scope: &Scope<'_>, purpose: Purpose) -> Result<Found, BootstrapError> {
        let cluster = &scope.owner.cluster;
        let pair = purpose.generate(scope.context.now())?;
        let owner = controller_reference(scope.config)?;
        let name = purpose.secret_name(cluster);
        let made = secret(&scope.namespace(), &name, cluster, owner, pair.clone().data());
        scope.context.writer::<Secret>().create(&made).await?;
        Ok(pair.into())
    }
}

/// The certificates, if none is missing.
fn complete(scope: &Scope<'_>, found: ClusterCertificates) -> Result<ClusterCertificates, NoData> {
    let missing = missing(scope.config.spec.cluster_configuration.as_ref(), &found);
    if missing.is_empty() {
        return Ok(found);
    }
    Err(NoData::Waits(Waiting::Certificates { cluster: scope.owner.cluster.clone(), missing }))
}
