//! How the control plane identifies to the etcd of a cluster that is elsewhere: by a certificate that the cluster's own authority of
//! etcd signs. It is kept in memory only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::time::Instant;
use windlass_bootstrap::certificates::{Pair, Purpose, etcd_client};
use windlass_etcd::Credentials;
use windlass_runtime::ObjectKey;

use crate::workload::{NoAnswer, answer};

/// How long a certificate is used. The authority in the Secret may be another one by then.
const TTL: Duration = Duration::from_secs(60 * 60);

#[derive(Clone)]
pub(crate) struct EtcdCredentials {
    client: Client,
    known: Arc<Mutex<BTreeMap<ObjectKey, (Instant, Credentials)>>>,
}

impl EtcdCredentials {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    pub(crate) async fn of(&self, cluster: &ObjectKey) -> Result<Credentials, NoAnswer> {
        let fresh = self.known().get(cluster).filter(|(until, _)| Instant::now() < *until).cloned();
        if let Some((_, credentials)) = fresh {
            return Ok(credentials);
        }
        let name = Purpose::EtcdAuthority.secret_name(&cluster.name);
        let unusable = |why: String| NoAnswer::Refused(format!("etcd: Secret {name}: {why}"));
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &cluster.namespace);
        let found = answer(secrets.get(&name)).await?;
        let found = found.ok_or_else(|| unusable("it does not exist".to_owned()))?;
        let authority = Pair::of_secret(&found).map_err(|error| unusable(error.to_string()))?;
        // Certificates are valid by the time of the machines, whatever the time here.
        let own =
            etcd_client(&authority, &name, Timestamp::now()).map_err(|error| unusable(error.to_string()))?;
        let credentials = Credentials::from_pem(&authority.certificate, &own.certificate, &own.key);
        let credentials = credentials.map_err(|error| unusable(error.to_string()))?;
        self.known().insert(cluster.clone(), (Instant::now() + TTL, credentials.clone()));
        Ok(credentials)
    }

    pub(crate) fn forget(&self, cluster: &ObjectKey) {
        self.known().remove(cluster);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (Instant, Credentials)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
