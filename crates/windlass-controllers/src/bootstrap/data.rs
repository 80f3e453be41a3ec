//! Making bootstrap data, and the Secret that holds them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::json;
use windlass_api::bootstrap::{BootstrapFormat, FileContentFormat, KubeadmConfig};
use windlass_bootstrap::certificate_files::ClusterCertificates;
use windlass_bootstrap::certificates::{Purpose, secret};
use windlass_bootstrap::cloud_config::{Contents, secret_keys};
use windlass_bootstrap::data::{FORMAT, Inputs, VALUE, check, init_data, join_data};
use windlass_bootstrap::decision::{Trouble, Waiting};
use windlass_bootstrap::discovery;
use windlass_bootstrap::kubeadm::{ClusterFacts, JoinRole};
use windlass_bootstrap::token::Token;
use windlass_runtime::{ObjectKey, controller_reference, uid_of};

use super::lock::read;
use super::{BootstrapError, KubeadmConfigs, NoData, Scope};

/// What data are made from besides the KubeadmConfig and its certificates.
struct Read {
    facts: ClusterFacts,
    contents: Contents,
    control_plane_version: Option<String>,
}

impl KubeadmConfigs {
    /// Data with which a machine initializes its cluster: the name of their Secret.
    pub(super) async fn initialize(&self, scope: &Scope<'_>) -> Result<String, NoData> {
        let Some(machine) = scope.owner.machine.as_deref() else {
            return Err(NoData::Waits(Waiting::ControlPlaneInitialized));
        };
        self.take_lock(scope, machine).await?;
        let made = self.initialize_locked(scope).await;
        if matches!(made, Err(NoData::Troubled(_))) {
            // Another machine may have a KubeadmConfig that can be used.
            self.drop_lock(scope, machine).await?;
        }
        made
    }

    async fn initialize_locked(&self, scope: &Scope<'_>) -> Result<String, NoData> {
        let spec = &scope.config.spec;
        check(spec, &scope.owner.version).map_err(NoData::Troubled)?;
        let certificates = self.certificates_for_init(scope).await?;
        let read = self.read_inputs(scope).await?;
        let data = init_data(&inputs(scope, scope.config, &read, &certificates)).map_err(NoData::Troubled)?;
        Ok(self.write_data(scope, data).await?)
    }

    /// Data with which a machine joins: the name of their Secret. The KubeadmConfig is `changed` where it did not say how the
    /// control plane is found.
    pub(super) async fn join(
        &self,
        scope: &Scope<'_>,
        role: JoinRole,
        new_token: Option<&Token>,
        changed: &mut Option<KubeadmConfig>,
    ) -> Result<String, NoData> {
        let spec = &scope.config.spec;
        self.remove_lock(scope).await?;
        check(spec, &scope.owner.version).map_err(NoData::Troubled)?;
        let stored = spec.join_configuration.as_ref();
        if role == JoinRole::Worker && stored.is_some_and(|join| join.control_plane.is_some()) {
            return Err(NoData::Troubled(Trouble::ControlPlaneOfWorker));
        }
        let read = self.read_inputs(scope).await?;
        let Some(endpoint) = read.facts.endpoint.clone() else {
            return Err(NoData::Waits(Waiting::ControlPlaneEndpoint));
        };
        let certificates = match role {
            JoinRole::ControlPlane => self.certificates_for_join(scope).await?,
            JoinRole::Worker => self.authority(scope).await?,
        };
        let authority = certificates.get(&Purpose::ClusterAuthority);
        let authority = authority.map(|found| found.certificate.as_str()).unwrap_or_default();
        let complete = |token: Option<&Token>| {
            discovery::complete(stored, &endpoint, authority, token)
                .map_err(|error| NoData::Troubled(Trouble::Authority(error)))
        };
        // An authority that cannot be used is found before a token is made for it.
        let mut join = complete(new_token)?;
        if !discovery::uses_file(stored) && discovery::token(Some(&join)).is_none() {
            join = complete(Some(&self.make_token(scope).await?))?;
        }
        if stored.and_then(|stored| stored.discovery.as_ref()) != join.discovery.as_ref() {
            let patch = json!({"metadata": {"uid": uid_of(scope.config)?},
                "spec": {"joinConfiguration": {"discovery": join.discovery}}});
            let writer = scope.context.writer::<KubeadmConfig>();
            let key = ObjectKey::of(scope.config);
            *changed = Some(writer.patch_unconditionally(&key, patch).await?);
        }
        let config = changed.as_ref().unwrap_or(scope.config);
        let inputs = inputs(scope, config, &read, &certificates);
        let data = join_data(&inputs, &join, role).map_err(NoData::Troubled)?;
        Ok(self.write_data(scope, data).await?)
    }

    async fn read_inputs(&self, scope: &Scope<'_>) -> Result<Read, BootstrapError> {
        let spec = &scope.config.spec;
        let mut contents = Contents::new();
        for name in secret_keys(spec).into_iter().map(|key| key.name) {
            if contents.contains_key(&name) {
                continue;
            }
            if let Some(found) = read::<Secret>(scope, &name, "Secret").await? {
                let data = found.data.unwrap_or_default();
                contents.insert(name, data.into_iter().map(|(key, value)| (key, value.0)).collect());
            }
        }
        let is_template = |format: &Option<FileContentFormat>| *format == Some(FileContentFormat::Template);
        let has_template = spec.files.iter().any(|file| is_template(&file.content_format));
        let reference = scope.cluster.spec.control_plane_ref.as_ref().filter(|_| has_template);
        let control_plane_version = match reference {
            None => None,
            Some(reference) => {
                let found = self.externals.get_live(scope.context, &scope.namespace(), reference).await?;
                found.and_then(|found| Some(found.data().pointer("/spec/version")?.as_str()?.to_owned()))
            }
        };
        Ok(Read { facts: ClusterFacts::of(scope.cluster), contents, control_plane_version })
    }

    /// Writes data into the Secret of the KubeadmConfig. One that is there may be older: of a reconcile that did not come to
    /// its end, or with a token that was replaced.
    async fn write_data(&self, scope: &Scope<'_>, data: String) -> Result<String, BootstrapError> {
        let name = scope.config.name_any();
        let format = BootstrapFormat::CloudConfig.to_string();
        let data = BTreeMap::from([(VALUE.to_owned(), data), (FORMAT.to_owned(), format)]);
        let owner = controller_reference(scope.config)?;
        let wanted = secret(&scope.namespace(), &name, &scope.owner.cluster, owner, data);
        let writer = scope.context.writer::<Secret>();
        // It is looked for first: a process that is killed after every write would otherwise create it for ever.
        let Some(found) = read::<Secret>(scope, &name, "Secret").await? else {
            writer.create(&wanted).await?;
            return Ok(name);
        };
        let uid = uid_of(scope.config)?;
        let foreign =
            found.owner_references().iter().find(|owner| owner.controller == Some(true) && owner.uid != uid);
        if let Some(owner) = foreign {
            let owner = format!("{} {}", owner.kind, owner.name);
            return Err(BootstrapError::ForeignSecret { secret: name, owner });
        }
        if found.data != wanted.data {
            let metadata = json!({"ownerReferences": wanted.metadata.owner_references, "labels": wanted.metadata.labels});
            writer.patch(&found, json!({"metadata": metadata, "data": wanted.data})).await?;
        }
        Ok(name)
    }
}

fn inputs<'a>(
    scope: &'a Scope<'_>,
    config: &'a KubeadmConfig,
    read: &'a Read,
    certificates: &'a ClusterCertificates,
) -> Inputs<'a> {
    Inputs {
        spec: &config.spec,
        cluster: &read.facts,
        version: &scope.owner.version,
        control_plane_version: read.control_plane_version.as_deref(),
        certificates,
        contents: &read.contents,
    }
}
