//! One admission review, from a webhook or from the embedded API.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_api::cluster::{Cluster, ClusterClass, MachineDeployment, MachinePool, MachineSet};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    ACKNOWLEDGED_TARGET_ANNOTATION, CLUSTER_GROUP, CONTROL_PLANE_GROUP,
    DISABLE_UPDATE_VERSION_CHECK_ANNOTATION, PENDING_HOOKS_ANNOTATION, RUNTIME_GROUP,
    TOPOLOGY_DRY_RUN_ANNOTATION, UPGRADE_STEP_ANNOTATION,
};
use windlass_api::runtime::{ExtensionConfig, validate as validate_extension_config};
use windlass_engine::admission::{
    ClassUse, ClusterContext, FieldProblem, Verdict, default_cluster, default_machine_deployment,
    default_machine_pool, default_machine_set, pins_change, validate_class, validate_class_deletion,
    validate_cluster, validate_machine_deployment, validate_replicas,
};
use windlass_engine::control_plane;
use windlass_engine::features::Features;
use windlass_patch::merge_patch;

use super::objects::LookUp;
use crate::topology::{check_variable_definitions, default_and_validate_variables};

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Group of the resource.
    pub group: &'a str,
    /// Plural name of the resource.
    pub resource: &'a str,
    /// Part of the object that is written, empty for all of it.
    pub subresource: &'a str,
    /// Namespace of the object.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// The object as it is stored, if it is.
    pub old: Option<&'a Value>,
    /// Whether it is deleted.
    pub is_deletion: bool,
}

/// Why an object is refused: fields with what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .fields.iter().map(|(field, problem)| format!("{field}: {problem}")).collect::<Vec<_>>().join("; "))]
pub struct Refused {
    /// Fields and what is wrong with them.
    pub fields: Vec<(String, String)>,
}

impl From<FieldProblem> for Refused {
    fn from(FieldProblem { field, problem }: FieldProblem) -> Self {
        Self { fields: vec![(field, problem)] }
    }
}

impl Refused {
    fn whole(problem: impl Into<String>) -> Self {
        Self { fields: vec![("metadata".to_owned(), problem.into())] }
    }
}

/// The resources that there are rules for, as group and plural name.
pub const ADMITTED: [(&str, &str); 7] = [
    (CLUSTER_GROUP, "clusters"),
    (CLUSTER_GROUP, "clusterclasses"),
    (CLUSTER_GROUP, "machinedeployments"),
    (CLUSTER_GROUP, "machinesets"),
    (CLUSTER_GROUP, "machinepools"),
    (CONTROL_PLANE_GROUP, "kubeadmcontrolplanes"),
    (RUNTIME_GROUP, "extensionconfigs"),
];

/// The rules, with a way to look up what they need to know.
pub struct Rules<L> {
    look_up: L,
    features: Features,
}

impl<L: LookUp> Rules<L> {
    /// Rules that look things up in some way.
    pub fn new(look_up: L) -> Self {
        Self { look_up, features: Features::default() }
    }

    /// The same with features of the caller's choice.
    #[must_use]
    pub fn with_features(self, features: Features) -> Self {
        Self { features, ..self }
    }

    /// Fills in what may be left out.
    ///
    /// # Errors
    ///
    /// When the object is not of its kind.
    pub async fn mutate(&self, asked: &Asked<'_>, object: &mut Value) -> Result<(), Refused> {
        if asked.is_deletion || !asked.subresource.is_empty() {
            return Ok(());
        }
        match (asked.group, asked.resource) {
            (CLUSTER_GROUP, "clusters") => {
                let mut cluster: Cluster = read(object)?;
                let before = cluster.clone();
                default_cluster(&mut cluster);
                if let Some(topology) = &mut cluster.spec.topology {
                    let namespace = class_namespace(topology.class_ref.namespace.as_str(), asked.namespace);
                    let class = self.look_up.class(namespace, &topology.class_ref.name).await;
                    // Without its class, variables are left alone; validation says what is missing.
                    if let Ok(Some(class)) = class {
                        let mut filled = topology.clone();
                        if default_and_validate_variables(&class, &mut filled, None).is_ok() {
                            *topology = filled;
                        }
                    }
                }
                write_spec(object, &before.spec, &cluster.spec)?;
                keep_marks(asked.old, object);
                Ok(())
            }
            (CLUSTER_GROUP, "machinedeployments") => {
                let mut deployment: MachineDeployment = read(object)?;
                let before = deployment.clone();
                let old: Option<MachineDeployment> = asked.old.map(read).transpose()?;
                default_machine_deployment(&mut deployment, old.as_ref())?;
                write_spec(object, &before.spec, &deployment.spec)
            }
            (CLUSTER_GROUP, "machinesets") => {
                let mut set: MachineSet = read(object)?;
                let before = set.clone();
                let old: Option<MachineSet> = asked.old.map(read).transpose()?;
                default_machine_set(&mut set, old.as_ref())?;
                write_spec(object, &before.spec, &set.spec)
            }
            (CLUSTER_GROUP, "machinepools") => {
                let mut pool: MachinePool = read(object)?;
                let before = pool.clone();
                let old: Option<MachinePool> = asked.old.map(read).transpose()?;
                default_machine_pool(&mut pool, old.as_ref())?;
                write_spec(object, &before.spec, &pool.spec)
            }
            (CONTROL_PLANE_GROUP, "kubeadmcontrolplanes") => {
                let mut plane: KubeadmControlPlane = read(object)?;
                let before = plane.clone();
                control_plane::admission::default(&mut plane);
                write_spec(object, &before.spec, &plane.spec)
            }
            (RUNTIME_GROUP, "extensionconfigs") => {
                let mut config: ExtensionConfig = read(object)?;
                let before = config.clone();
                config.fill_defaults();
                write_spec(object, &before.spec, &config.spec)
            }
            _ => Ok(()),
        }
    }

    /// Refuses an object, or lets it pass with warnings. The object is the old one for a deletion.
    ///
    /// # Errors
    ///
    /// Why it is refused.
    pub async fn validate(&self, asked: &Asked<'_>, object: &Value) -> Result<Vec<String>, Refused> {
        if !asked.subresource.is_empty() {
            return Ok(Vec::new());
        }
        let verdict = match (asked.group, asked.resource) {
            (CLUSTER_GROUP, "clusters") if !asked.is_deletion => self.cluster(asked, object).await?,
            (CLUSTER_GROUP, "clusterclasses") => self.class(asked, object).await?,
            (CLUSTER_GROUP, "machinedeployments") if !asked.is_deletion => {
                let old: Option<MachineDeployment> = asked.old.map(read).transpose()?;
                validate_machine_deployment(&read(object)?, old.as_ref())
            }
            (CLUSTER_GROUP, "machinesets") if !asked.is_deletion => {
                validate_replicas(read::<MachineSet>(object)?.spec.replicas)
            }
            (CLUSTER_GROUP, "machinepools") if !asked.is_deletion => {
                validate_replicas(read::<MachinePool>(object)?.spec.replicas)
            }
            (CONTROL_PLANE_GROUP, "kubeadmcontrolplanes") if !asked.is_deletion && !is_dry_run(object) => {
                let old: Option<KubeadmControlPlane> = asked.old.map(read).transpose()?;
                let mut verdict = Verdict::default();
                for refusal in control_plane::admission::review(old.as_ref(), &read(object)?) {
                    let text = refusal.to_string();
                    let (field, problem) = text.split_once(": ").unwrap_or(("spec", &text));
                    verdict.refuse(field, problem);
                }
                verdict
            }
            (RUNTIME_GROUP, "extensionconfigs") if !asked.is_deletion => {
                let config: ExtensionConfig = read(object)?;
                let mut verdict = Verdict::default();
                for violation in validate_extension_config(&config) {
                    let accepted = violation.problem.accepted();
                    verdict.refuse(violation.field, format!("{}; {accepted} is accepted", violation.problem));
                }
                verdict
            }
            _ => Verdict::default(),
        };
        if verdict.is_accepted() {
            return Ok(verdict.warnings);
        }
        let fields = verdict.problems.into_iter().map(|problem| (problem.field, problem.problem));
        Err(Refused { fields: fields.collect() })
    }

    async fn cluster(&self, asked: &Asked<'_>, object: &Value) -> Result<Verdict, Refused> {
        let cluster: Cluster = read(object)?;
        let old: Option<Cluster> = asked.old.map(read).transpose()?;
        // What goes is not held back by rules for what comes.
        if cluster.metadata.deletion_timestamp.is_some() {
            return Ok(Verdict::default());
        }
        let class_of = async |cluster: Option<&Cluster>| -> Result<Option<ClusterClass>, Refused> {
            let Some(topology) = cluster.and_then(|cluster| cluster.spec.topology.as_ref()) else {
                return Ok(None);
            };
            let namespace = class_namespace(topology.class_ref.namespace.as_str(), asked.namespace);
            self.look_up.class(namespace, &topology.class_ref.name).await.map_err(Refused::whole)
        };
        let class = class_of(Some(&cluster)).await?;
        let reference =
            |cluster: &Cluster| cluster.spec.topology.as_ref().map(|topology| topology.class_ref.clone());
        let changed_class = old.as_ref().is_some_and(|old| reference(old) != reference(&cluster));
        let old_class = if changed_class { class_of(old.as_ref()).await? } else { None };
        let version =
            |cluster: &Cluster| cluster.spec.topology.as_ref().map(|topology| topology.version.clone());
        let changed_version = old.as_ref().is_some_and(|old| version(old) != version(&cluster));
        let topologies = old.as_ref().map(|old| (&old.spec.topology, &cluster.spec.topology));
        let changed_pins = matches!(topologies, Some((Some(old), Some(new))) if pins_change(old, new));
        let state = match &old {
            Some(old) if changed_version || changed_pins => {
                Some(self.look_up.state(old).await.map_err(Refused::whole)?)
            }
            _ => None,
        };
        let context = ClusterContext {
            old: old.as_ref(),
            class: class.as_ref(),
            old_class: old_class.as_ref(),
            state: state.as_ref(),
            features: self.features,
        };
        let mut verdict = validate_cluster(&cluster, context);
        if let (Some(class), Some(mut topology)) = (&class, cluster.spec.topology) {
            let old = old.as_ref().and_then(|old| old.spec.topology.as_ref());
            if let Err(problems) = default_and_validate_variables(class, &mut topology, old) {
                for problem in problems {
                    let (field, text) =
                        problem.split_once(": ").unwrap_or(("spec.topology.variables", &problem));
                    verdict.refuse(field, text);
                }
            }
        }
        Ok(verdict)
    }

    async fn class(&self, asked: &Asked<'_>, object: &Value) -> Result<Verdict, Refused> {
        let users = self.look_up.users(asked.namespace, asked.name).await.map_err(Refused::whole)?;
        if asked.is_deletion {
            return Ok(validate_class_deletion(asked.name, &users));
        }
        let class: ClusterClass = read(object)?;
        let old: Option<ClusterClass> = asked.old.map(read).transpose()?;
        let mut verdict = validate_class(&class, ClassUse { old: old.as_ref(), clusters: &users });
        for problem in check_variable_definitions(&class) {
            let (field, text) = problem.split_once(": ").unwrap_or(("spec.variables", &problem));
            verdict.refuse(field, text);
        }
        Ok(verdict)
    }
}

/// Keeps what the topology controller has promised on a Cluster when a client writes the whole object without it, as tools
/// do that write what is in a repository. The controller itself removes a mark by an empty value.
fn keep_marks(old: Option<&Value>, object: &mut Value) {
    let annotations =
        |object: &Value| object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let (stored, mut written) = (old.map(annotations).unwrap_or_default(), annotations(object));
    let is_unchecked = written.contains_key(DISABLE_UPDATE_VERSION_CHECK_ANNOTATION);
    let before = written.clone();
    for key in [PENDING_HOOKS_ANNOTATION, UPGRADE_STEP_ANNOTATION, ACKNOWLEDGED_TARGET_ANNOTATION] {
        match (written.get(key), stored.get(key)) {
            (Some(value), _) if value == "" => {
                written.remove(key);
            }
            (None, Some(promised)) if !is_unchecked => {
                written.insert(key.to_owned(), promised.clone());
            }
            _ => {}
        }
    }
    if written != before {
        object["metadata"]["annotations"] = Value::Object(written);
    }
}

fn class_namespace<'a>(of_reference: &'a str, of_cluster: &'a str) -> &'a str {
    if of_reference.is_empty() { of_cluster } else { of_reference }
}

fn is_dry_run(object: &Value) -> bool {
    object["metadata"]["annotations"].get(TOPOLOGY_DRY_RUN_ANNOTATION).is_some()
}

fn read<T: DeserializeOwned>(object: &Value) -> Result<T, Refused> {
    serde_json::from_value(object.clone()).map_err(|error| Refused::whole(error.to_string()))
}

/// Writes a spec back if it changed. What the types do not know is left alone.
fn write_spec<T: Serialize + PartialEq>(object: &mut Value, before: &T, after: &T) -> Result<(), Refused> {
    if before == after {
        return Ok(());
    }
    let written = serde_json::to_value(after).map_err(|error| Refused::whole(error.to_string()))?;
    if let Some(fields) = object.as_object_mut() {
        let spec = fields.entry("spec").or_insert(Value::Null);
        merge_patch::apply_to(spec, &written);
    }
    Ok(())
}
