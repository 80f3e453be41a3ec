//! What would be asked, from manifests: the machines that there are and what they shall become; and the answers as people and
//! programs read them.

use std::collections::BTreeSet;

use kube_core::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::cluster::{Machine, MachineDeployment, MachineSet};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{CONTROL_PLANE_NAME_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL};
use windlass_api::{Object, RegisteredName};
use windlass_patch::merge_patch;

use super::{Effect, InPlaceAnswer, Level, Objects, Verdict, WhyNotInPlace, comparable_configs};
use crate::control_plane::kubeadm_config::{Form, for_machine};
use crate::rollout::{compared_sets, next_set, same_machines};

/// The UID of an owner that was not created yet.
const UID_OF_MANIFESTS: &str = "00000000-0000-0000-0000-000000000000";

/// Machines that a change is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Whose: such as `MachineSet a of MachineDeployment b`.
    pub subject: String,
    /// Where.
    pub namespace: String,
    /// Whether it is about one Machine or a MachineSet.
    pub level: Level,
    /// The two states, or what the manifests lack.
    pub states: Result<(Objects, Objects), String>,
}

/// Whether the machines of a question would be updated in place. The JSON of `windlass plan --in-place`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Whose machines, as in the [`Question`].
    pub subject: String,
    /// Their namespace.
    pub namespace: String,
    /// None if that could not be found out.
    pub can_update_in_place: Option<bool>,
    /// The fields that would change, in order.
    pub fields: Vec<PreviewedField>,
    /// What the update does to a machine, of each handler that covers something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<PreviewedEffect>,
    /// What people should know besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why not, where it is not a matter of fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A field that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedField {
    /// Kind and path.
    pub field: String,
    /// Full name of the handler that covers it, if one does.
    pub covered_by: Option<String>,
}

/// What the update of one extension does to a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedEffect {
    /// Full name of the handler.
    pub handler: String,
    /// Whether machines are out of service while they are updated.
    pub affects_availability: bool,
    /// What is done before a machine is updated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<&'static str>,
}

impl PreviewedEffect {
    fn of(handler: &RegisteredName, effect: &Effect) -> Self {
        Self {
            handler: handler.to_string(),
            affects_availability: effect.takes_out_of_service(),
            requirements: effect.requirements.iter().map(|requirement| requirement.as_str()).collect(),
        }
    }
}

impl Preview {
    /// The answer to a question about the machines of `subject`.
    pub fn new(subject: String, namespace: String, answer: &InPlaceAnswer) -> Self {
        let verdict = match answer {
            Ok(verdict) | Err(WhyNotInPlace::NotCovered(verdict)) => Some(verdict),
            Err(_) => None,
        };
        let effects = verdict.into_iter().flat_map(|verdict| {
            let effect = |handler| verdict.effects.get(handler).cloned().unwrap_or_default();
            verdict.covering().map(move |handler| PreviewedEffect::of(handler, &effect(handler)))
        });
        let (effects, notes) = (effects.collect(), verdict.map(Verdict::notes).unwrap_or_default());
        let (can_update_in_place, fields, message) = match answer {
            Ok(verdict) | Err(WhyNotInPlace::NotCovered(verdict)) => {
                let fields = verdict.fields.iter().map(|field| PreviewedField {
                    field: field.field.to_string(),
                    covered_by: field.by.as_ref().map(ToString::to_string),
                });
                // Without a change of fields an extension still has to agree.
                let covered = verdict.is_covered() && !verdict.asked.is_empty();
                (Some(covered), fields.collect(), None)
            }
            Err(WhyNotInPlace::NoAnswer(why)) => (None, Vec::new(), Some(why.clone())),
            Err(why) => (Some(false), Vec::new(), Some(why.to_string())),
        };
        Self { subject, namespace, can_update_in_place, fields, effects, notes, message }
    }
}

/// The questions that manifests lead to: MachineSets that do not have the template of their MachineDeployment, and Machines of
/// control planes that are not as their control plane wants them.
pub fn questions(manifests: &[Value]) -> Vec<Question> {
    let found = Manifests(manifests);
    let sets: Vec<MachineSet> = found.all("MachineSet");
    let mut questions = Vec::new();
    for mut deployment in found.all::<MachineDeployment>("MachineDeployment") {
        // The API server gives it one when it is created; a manifest may have been written by hand.
        deployment.metadata.uid.get_or_insert_with(|| UID_OF_MANIFESTS.to_owned());
        let name = deployment.name_any();
        let is_its = |set: &&MachineSet| {
            set.metadata.namespace == deployment.metadata.namespace
                && belongs(&json!(set.metadata), "MachineDeployment", &name, MACHINE_DEPLOYMENT_NAME_LABEL)
        };
        let sets: Vec<&MachineSet> = sets.iter().filter(is_its).collect();
        let same = |set: &&MachineSet| same_machines(&set.spec.template, &deployment.spec.template);
        let new = sets.iter().copied().find(same);
        let fresh = next_set(&deployment, &sets, &BTreeSet::new());
        for old in sets.iter().copied().filter(|set| !same(set)) {
            let compared = fresh
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|fresh| compared_sets(&deployment, old, new, fresh));
            let states = compared
                .map_err(|incomplete| incomplete.to_string())
                .and_then(|(current, desired)| Ok((found.of_set(&current)?, found.of_set(&desired)?)));
            questions.push(Question {
                subject: format!("MachineSet {} of MachineDeployment {name}", old.name_any()),
                namespace: namespace(&json!(deployment.metadata)),
                level: Level::MachineSet,
                states,
            });
        }
    }
    let machines: Vec<Machine> = found.all("Machine");
    for control_plane in found.all::<KubeadmControlPlane>("KubeadmControlPlane") {
        let name = control_plane.name_any();
        let is_its = |machine: &&Machine| {
            machine.metadata.namespace == control_plane.metadata.namespace
                && belongs(&json!(machine.metadata), "KubeadmControlPlane", &name, CONTROL_PLANE_NAME_LABEL)
        };
        for machine in machines.iter().filter(is_its) {
            let states = found.of_machine(machine, &control_plane);
            let differ = |(current, desired): &(Objects, Objects)| {
                super::Composition::new(Level::Machine, current.clone(), desired.clone())
                    .map_or(true, |composition| !composition.is_covered())
            };
            if states.as_ref().map_or(true, differ) {
                questions.push(Question {
                    subject: format!("Machine {} of KubeadmControlPlane {name}", machine.name_any()),
                    namespace: namespace(&json!(control_plane.metadata)),
                    level: Level::Machine,
                    states,
                });
            }
        }
    }
    questions
}

struct Manifests<'a>(&'a [Value]);

impl Manifests<'_> {
    fn all<T: serde::de::DeserializeOwned>(&self, kind: &str) -> Vec<T> {
        let of_kind = self.0.iter().filter(|object| object["kind"] == kind);
        of_kind.filter_map(|object| serde_json::from_value(object.clone()).ok()).collect()
    }

    fn get(&self, kind: &str, name: &str, namespace: &str) -> Result<Object, String> {
        let is_it = |object: &&Value| {
            object["kind"] == kind
                && object["metadata"]["name"] == name
                && self::namespace(&object["metadata"]) == namespace
        };
        let found = self.0.iter().find(is_it).and_then(|object| Object::try_from(object.clone()).ok());
        found
            .map(|object| object.in_place_view())
            .ok_or_else(|| format!("{kind} {name} is not in the manifests"))
    }

    fn of_set(&self, set: &MachineSet) -> Result<Objects, String> {
        let namespace = namespace(&json!(set.metadata));
        let spec = &set.spec.template.spec;
        let infrastructure = &spec.infrastructure_ref;
        let config = spec.bootstrap.config_ref.as_ref();
        Ok(Objects {
            machine: view(&json!(set)),
            infrastructure: self.get(&infrastructure.kind, &infrastructure.name, &namespace)?,
            bootstrap: config.map(|config| self.get(&config.kind, &config.name, &namespace)).transpose()?,
        })
    }

    fn of_machine(
        &self,
        machine: &Machine,
        control_plane: &KubeadmControlPlane,
    ) -> Result<(Objects, Objects), String> {
        let namespace = namespace(&json!(machine.metadata));
        let reference = &machine.spec.infrastructure_ref;
        let infrastructure = self.get(&reference.kind, &reference.name, &namespace)?;
        let template = &control_plane.spec.machine_template.spec.infrastructure_ref;
        let template = self.get(&template.kind, &template.name, &namespace)?;
        let wanted = template.pointer("/spec/template/spec").cloned().unwrap_or_else(|| json!({}));
        // What the provider has written into the machine stays in it.
        let mut spec = infrastructure.spec().cloned().unwrap_or_else(|| json!({}));
        merge_patch::apply_to(&mut spec, &wanted);
        let current = view(&json!(machine));
        let mut machine_spec = current.spec().cloned().unwrap_or_else(|| json!({}));
        machine_spec["version"] = json!(control_plane.spec.version);
        let configs = match &machine.spec.bootstrap.config_ref {
            None => None,
            Some(config) => {
                let config = self.get(&config.kind, &config.name, &namespace)?;
                let wanted = json!(control_plane.spec.kubeadm_config_spec);
                let wanted = for_machine(&wanted, Form::Join, &control_plane.spec.version);
                Some(comparable_configs(&config, &with_spec(&config, wanted)))
            }
        };
        let (bootstrap, bootstrap_wanted) = configs.unzip();
        let desired = Objects {
            machine: with_spec(&current, machine_spec),
            infrastructure: with_spec(&infrastructure, spec),
            bootstrap: bootstrap_wanted,
        };
        Ok((Objects { machine: current, infrastructure, bootstrap }, desired))
    }
}

fn view(object: &Value) -> Object {
    Object::try_from(object.clone()).map(|object| object.in_place_view()).unwrap_or_default()
}

fn with_spec(object: &Object, spec: Value) -> Object {
    let mut object = object.clone();
    object.as_map_mut().insert("spec".to_owned(), spec);
    object
}

fn namespace(metadata: &Value) -> String {
    metadata["namespace"].as_str().unwrap_or("default").to_owned()
}

/// Whether an object has a controller, or a label that names one.
fn belongs(metadata: &Value, kind: &str, name: &str, label: &str) -> bool {
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owned = owners.into_iter().any(|owner| owner["kind"] == kind && owner["name"] == name);
    owned || metadata["labels"][label] == name
}
