//! KubeadmConfig: makes the bootstrap data of a machine, as far as the contract needs it.
//!
//! Nothing in memory boots from the data, but everything waits for it in the order that kubeadm demands: the first
//! control plane machine initializes the cluster, all others join what is there.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use windlass_api::bootstrap::{KubeadmConfig, KubeadmConfigInitializationStatus, KubeadmConfigStatus};
use windlass_api::cluster::{Cluster, Machine, MachinePool};
use windlass_api::conditions::DATA_SECRET_AVAILABLE;
use windlass_api::names::{CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, UPDATE_IN_PROGRESS_ANNOTATION};
use windlass_engine::condition::{self, Finding};
use windlass_engine::pause::Pause;
use windlass_runtime::{
    Cache, Context, GroupKind, Incomplete, Manager, ObjectKey, Outcome, Reconciler, owner_reference,
};

use crate::provider::{DevError, FIELD_MANAGER, World, concerned, status_intent};

/// Reconciles KubeadmConfigs.
pub(crate) struct KubeadmConfigs {
    world: World,
    configs: Cache<KubeadmConfig>,
}

/// Whose bootstrap data it is.
struct Owner {
    cluster: String,
    version: String,
    /// Nothing for the machines of a pool, and for workers.
    control_plane: Option<ObjectKey>,
}

/// What the data makes of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Initializes,
    Joins,
}

impl KubeadmConfigs {
    pub(crate) fn register(manager: &Manager, world: &World) {
        let configs: Cache<KubeadmConfig> = manager.cache();
        let by_cluster = configs.clone();
        manager
            .controller("kubeadm-config", &configs)
            .concurrency(50)
            .watches_changes(&world.machines, config_of)
            .watches_changes(&world.clusters, move |before, after| concerned(&by_cluster, before, after))
            .register(Self { world: world.clone(), configs: configs.clone() });
    }

    fn owner(&self, config: &KubeadmConfig) -> Option<Owner> {
        let machines = GroupKind::of::<Machine>(&()).owners_of(config);
        if let Some(machine) = machines.iter().find_map(|key| self.world.machines.get(key)) {
            let control_plane = machine.labels().contains_key(CONTROL_PLANE_LABEL);
            return Some(Owner {
                cluster: machine.spec.cluster_name.clone(),
                version: machine.spec.version.clone(),
                control_plane: control_plane.then(|| ObjectKey::of(machine.as_ref())),
            });
        }
        let pools = GroupKind::of::<MachinePool>(&()).owners_of(config);
        let pool = pools.iter().find_map(|key| self.world.pools.get(key))?;
        Some(Owner {
            cluster: pool.spec.cluster_name.clone(),
            version: pool.spec.template.spec.version.clone(),
            control_plane: None,
        })
    }

    /// What the machine does, or why it cannot do anything yet.
    fn role(&self, cluster: &Cluster, owner: &Owner) -> Result<Role, (&'static str, &'static str)> {
        let initialization = &cluster.status.initialization;
        if initialization.infrastructure_provisioned != Some(true) {
            let why = "waiting for the infrastructure of the Cluster";
            return Err(("WaitingForClusterInfrastructureReady", why));
        }
        if initialization.control_plane_initialized == Some(true) {
            return Ok(Role::Joins);
        }
        let Some(machine) = &owner.control_plane else {
            return Err((
                "WaitingForControlPlaneInitialized",
                "waiting for the control plane to be initialized",
            ));
        };
        // One machine initializes the cluster: the oldest of the control plane, which needs no agreement.
        let labels = [
            (CLUSTER_NAME_LABEL.to_owned(), owner.cluster.clone()),
            (CONTROL_PLANE_LABEL.to_owned(), String::new()),
        ];
        let machines = self.world.machines.labelled(&machine.namespace, &labels.into_iter().collect());
        let oldest = machines.iter().min_by_key(|machine| {
            (machine.metadata.creation_timestamp.as_ref().map(|created| created.0), machine.name_any())
        });
        if oldest.is_none_or(|oldest| ObjectKey::of(oldest.as_ref()) == *machine) {
            return Ok(Role::Initializes);
        }
        Err(("WaitingForControlPlaneInitialized", "another machine initializes the control plane"))
    }
}

impl Reconciler for KubeadmConfigs {
    type Error = DevError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, DevError> {
        let Some(config) = self.configs.get(key) else { return Ok(Outcome::done()) };
        let config = config.as_ref();
        // Data that was made is never made again, whatever an update in place writes into the spec.
        let updating = config.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION);
        let done = config.status.initialization.data_secret_created == Some(true);
        if config.metadata.deletion_timestamp.is_some() || updating || done {
            return Ok(Outcome::done());
        }
        let Some(owner) = self.owner(config) else { return Ok(Outcome::done()) };
        let Some(cluster) = self.world.clusters.get(&ObjectKey::new(&key.namespace, &owner.cluster)) else {
            return Ok(Outcome::done());
        };
        if Pause::of(&config.metadata, Some(&cluster)).is_some() {
            return Ok(Outcome::done());
        }
        let mut status = KubeadmConfigStatus {
            conditions: config.status.conditions.clone(),
            observed_generation: config.metadata.generation,
            ..KubeadmConfigStatus::default()
        };
        let finding = match self.role(&cluster, &owner) {
            Err((reason, why)) => Finding::no(DATA_SECRET_AVAILABLE, reason).because(why),
            Ok(role) => {
                let secret = secret(config, &owner, role)?;
                // It may have been made before a crash that came before the status was written. Whether it can be
                // made tells more than that it could not be read.
                let made = context.get::<Secret>(&ObjectKey::of(&secret)).await.ok().flatten();
                if made.is_none() {
                    match context.writer::<Secret>().create(&secret).await {
                        Err(error) if error.is_conflict() || error.is_already_exists() => {}
                        created => drop(created?),
                    }
                }
                status.data_secret_name = secret.name_any();
                status.initialization = KubeadmConfigInitializationStatus { data_secret_created: Some(true) };
                Finding::yes(DATA_SECRET_AVAILABLE, "Available")
            }
        };
        let ready = Finding { type_: "Ready".to_owned(), ..finding.clone() };
        for finding in [finding, ready] {
            condition::set(&mut status.conditions, finding, config.metadata.generation, context.now());
        }
        if status != config.status {
            let writer = context.writer::<KubeadmConfig>();
            writer.apply_status(FIELD_MANAGER, &status_intent(config, status)).await?;
        }
        Ok(Outcome::done())
    }
}

/// The Secret with the data: named as the config, and gone with it.
fn secret(config: &KubeadmConfig, owner: &Owner, role: Role) -> Result<Secret, Incomplete> {
    let text = cloud_config(config, owner, role);
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let labels = [(CLUSTER_NAME_LABEL.to_owned(), owner.cluster.clone())];
    let controller = OwnerReference { controller: Some(true), ..owner_reference(config)? };
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(config.name_any()),
            namespace: config.namespace(),
            labels: Some(labels.into_iter().collect()),
            owner_references: Some(vec![controller]),
            ..ObjectMeta::default()
        },
        type_: Some("cluster.x-k8s.io/secret".to_owned()),
        data: Some(
            [("value".to_owned(), bytes(&text)), ("format".to_owned(), bytes("cloud-config"))]
                .into_iter()
                .collect(),
        ),
        ..Secret::default()
    })
}

/// A cloud-config that runs kubeadm with the configuration of the spec. JSON is YAML, so nothing is lost in it.
fn cloud_config(config: &KubeadmConfig, owner: &Owner, role: Role) -> String {
    let spec = &config.spec;
    let (verb, documents): (&str, Vec<Value>) = match role {
        Role::Initializes => {
            ("init", vec![json!(spec.cluster_configuration), json!(spec.init_configuration)])
        }
        Role::Joins => ("join", vec![json!(spec.join_configuration)]),
    };
    let documents: Vec<String> =
        documents.iter().filter(|document| !document.is_null()).map(ToString::to_string).collect();
    let file = json!({"path": "/run/kubeadm/kubeadm.yaml", "content": documents.join("\n---\n")});
    let files: Vec<Value> = spec.files.iter().map(|file| json!(file)).chain([file]).collect();
    let version = format!("# kubernetes {}", owner.version);
    let kubeadm = format!("kubeadm {verb} --config /run/kubeadm/kubeadm.yaml");
    let mut commands: Vec<&str> = spec.pre_kubeadm_commands.iter().map(String::as_str).collect();
    commands.push(&kubeadm);
    commands.extend(spec.post_kubeadm_commands.iter().map(String::as_str));
    format!("#cloud-config\n{version}\n{}\n", json!({"write_files": files, "runcmd": commands}))
}

/// The KubeadmConfig of a Machine, when it may have been waiting for the Machine.
fn config_of(before: Option<&Machine>, after: Option<&Machine>) -> Vec<ObjectKey> {
    let Some(machine) = after.filter(|_| before.is_none()) else { return Vec::new() };
    let config =
        machine.spec.bootstrap.config_ref.as_ref().filter(|config| config.kind == KubeadmConfig::KIND);
    let namespace = ObjectKey::of(machine).namespace;
    config.map(|config| ObjectKey::new(namespace, &config.name)).into_iter().collect()
}
