//! The init lock of a cluster, as the ConfigMap that it is.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_api::cluster::Machine;
use windlass_bootstrap::decision::Waiting;
use windlass_bootstrap::lock::{self, Claim};
use windlass_runtime::{describe_error, owner_reference, uid_of};

use super::{BootstrapError, KubeadmConfigs, NoData, Scope};

pub(super) fn known(unlocked: &Mutex<BTreeSet<String>>) -> MutexGuard<'_, BTreeSet<String>> {
    unlocked.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KubeadmConfigs {
    /// Takes the lock for a Machine, or says who has it.
    pub(super) async fn take_lock(&self, scope: &Scope<'_>, machine: &str) -> Result<(), NoData> {
        let found = lock_of(scope).await?;
        let claim =
            lock::claim(found.as_ref(), machine, |name| self.machines.get(&scope.key(name)).is_some());
        if let (Claim::Abandoned { holder }, Some(found)) = (&claim, &found) {
            // The cache may lag behind: another process may have taken the lock for a Machine that is new.
            if read::<Machine>(scope, holder, "Machine").await?.is_some() {
                return Err(NoData::Waits(Waiting::InitLock { holder: Some(holder.clone()) }));
            }
            scope.context.writer::<ConfigMap>().delete_unchanged(found).await?;
        }
        match claim {
            Claim::Held => Ok(()),
            Claim::Taken(holder) => Err(NoData::Waits(Waiting::InitLock { holder })),
            Claim::Free | Claim::Abandoned { .. } => {
                let owner = owner_reference(scope.cluster)?;
                let lock = lock::config_map(&scope.namespace(), &scope.owner.cluster, owner, machine);
                match scope.context.writer::<ConfigMap>().create(&lock).await {
                    Err(error) if error.is_already_exists() => {
                        Err(NoData::Waits(Waiting::InitLock { holder: None }))
                    }
                    created => Ok(created.map(drop)?),
                }
            }
        }
    }

    /// Lets go of the lock, so that another Machine may try.
    pub(super) async fn drop_lock(&self, scope: &Scope<'_>, machine: &str) -> Result<(), BootstrapError> {
        if let Some(found) = lock_of(scope).await?
            && lock::claim(Some(&found), machine, |_| true) == Claim::Held
        {
            scope.context.writer::<ConfigMap>().delete_unchanged(&found).await?;
        }
        Ok(())
    }

    /// Removes the lock of a cluster that is initialized, whoever has it.
    pub(super) async fn remove_lock(&self, scope: &Scope<'_>) -> Result<(), BootstrapError> {
        let uid = uid_of(scope.cluster)?;
        if known(&self.unlocked).contains(uid) {
            return Ok(());
        }
        if let Some(found) = lock_of(scope).await? {
            scope.context.writer::<ConfigMap>().delete(&found).await?;
        }
        known(&self.unlocked).insert(uid.to_owned());
        Ok(())
    }
}

async fn lock_of(scope: &Scope<'_>) -> Result<Option<ConfigMap>, BootstrapError> {
    read(scope, &lock::name(&scope.owner.cluster), "ConfigMap").await
}

/// Reads an object in the namespace of the KubeadmConfig from the API.
pub(super) async fn read<K>(scope: &Scope<'_>, name: &str, kind: &str) -> Result<Option<K>, BootstrapError>
where
    K: windlass_runtime::Kind<DynamicType: Default>,
{
    let key = scope.key(name);
    scope
        .context
        .get(&key)
        .await
        .map_err(|error| BootstrapError::Read { what: format!("{kind} {key}"), why: describe_error(&error) })
}
