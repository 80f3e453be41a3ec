//! Bootstrap tokens, as the Secrets of the workload cluster that they are.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_bootstrap::decision::Waiting;
use windlass_bootstrap::discovery;
use windlass_bootstrap::kubeadm::JoinRole;
use windlass_bootstrap::token::{DEFAULT_TTL, Expiry, Joining, NAMESPACE, Token, Upkeep, extension, upkeep};
use windlass_runtime::Outcome;

use super::{KubeadmConfigs, NoData, Scope, upkeep_interval};
use crate::workload::{NoAnswer, answer};

impl KubeadmConfigs {
    /// Makes a new token in the workload cluster.
    pub(super) async fn make_token(&self, scope: &Scope<'_>) -> Result<Token, NoData> {
        let secrets = self.secrets(scope).await.map_err(down)?;
        loop {
            // So many bytes have enough that can be used, but for one draw in very many; and as seldom there is one of this name.
            let Some(token) = Token::from_random(scope.context.secret("token")?) else { continue };
            if create(&secrets, &token, scope).await.map_err(down)? {
                return Ok(token);
            }
        }
    }

    /// Keeps the token of data that were made good for as long as it is needed.
    pub(super) async fn look_after_token(
        &self,
        scope: &Scope<'_>,
        changed: &mut Option<KubeadmConfig>,
    ) -> Result<(String, Outcome), NoData> {
        let secret = scope.config.status.data_secret_name.clone();
        let join = scope.config.spec.join_configuration.as_ref();
        let token = discovery::token(join).and_then(|token| Token::parse(token).ok());
        let is_over = scope.owner.joining == Joining::JoinedMachine || discovery::uses_file(join);
        let (Some(token), false) = (token, is_over) else { return Ok((secret, Outcome::done())) };
        let again = Outcome::routinely(upkeep_interval());
        // The data are there, whatever becomes of the token. A workload cluster that is down is asked again.
        let soon = Waiting::WorkloadCluster { why: String::new() }.retry_after();
        let soon = soon.map_or(again, Outcome::routinely);
        match self.keep(scope, &token).await {
            Err(_) => return Ok((secret, soon)),
            Ok(false) => return Ok((secret, again)),
            Ok(true) => {}
        }
        match self.rotate(scope, changed).await {
            Err(NoData::Failed(error)) => Err(NoData::Failed(error)),
            Err(NoData::Waits(_) | NoData::Troubled(_)) => Ok((secret, soon)),
            Ok(secret) => Ok((secret, again)),
        }
    }

    /// New data with a new token: instances of a pool come at any time, and join with what the pool has then.
    async fn rotate(&self, scope: &Scope<'_>, changed: &mut Option<KubeadmConfig>) -> Result<String, NoData> {
        let token = self.make_token(scope).await?;
        self.join(scope, JoinRole::Worker, Some(&token), changed).await
    }

    /// Makes a token good for longer where that is needed; true if it is to be replaced by another.
    async fn keep(&self, scope: &Scope<'_>, token: &Token) -> Result<bool, NoAnswer> {
        let secrets = self.secrets(scope).await?;
        let found = answer(secrets.get(&token.secret_name())).await?;
        let now = scope.context.now();
        match upkeep(scope.owner.joining, Expiry::of(found.as_ref()), now, DEFAULT_TTL) {
            Upkeep::Finished | Upkeep::Keep => Ok(false),
            Upkeep::Rotate => Ok(true),
            Upkeep::Recreate => create(&secrets, token, scope).await.map(|_| false),
            Upkeep::Extend => {
                let patch = json!({"data": extension(now, DEFAULT_TTL)});
                let (name, patch) = (token.secret_name(), Patch::Merge(&patch));
                let parameters = PatchParams::default();
                let patched = secrets.patch(&name, &parameters, &patch);
                answer(patched).await.map(|_| false)
            }
        }
    }

    async fn secrets(&self, scope: &Scope<'_>) -> Result<Api<Secret>, NoAnswer> {
        let client = self.access.client(&scope.cluster_key()).await?;
        Ok(Api::namespaced(client, NAMESPACE))
    }
}

/// Creates the Secret of a token; false if there is one of its name.
async fn create(secrets: &Api<Secret>, token: &Token, scope: &Scope<'_>) -> Result<bool, NoAnswer> {
    let secret = token.secret(scope.context.now(), DEFAULT_TTL);
    let created = async {
        match secrets.create(&PostParams::default(), &secret).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            created => created.map(|_| true),
        }
    };
    answer(created).await?.ok_or_else(|| NoAnswer::Refused(format!("there is no namespace {NAMESPACE}")))
}

fn down(no_answer: NoAnswer) -> NoData {
    NoData::Waits(Waiting::WorkloadCluster { why: no_answer.to_string() })
}
