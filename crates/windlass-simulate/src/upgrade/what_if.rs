//! What if: machines that fail, hooks that block, images that are missing, other limits. Everything is put into the world
//! before it begins; the controllers find it there.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_api::hooks::Hook;
use windlass_api::names::UPGRADE_CONCURRENCY_ANNOTATION;
use windlass_inmemory::knobs::{
    DRAIN_NEVER_ENDS_ANNOTATION, FAIL_PROVISIONING_ANNOTATION, GROUP_KNOBS_ANNOTATION,
    MISSING_IMAGES_ANNOTATION, NEVER_READY_ANNOTATION,
};

use crate::extension::SimulatedExtension;
use crate::rollout::Amount;
use crate::snapshot::Rebuilt;

/// Name of the extension that is assumed to update machines in place.
const UPDATER: &str = "assumed-updater";

/// What is assumed to be otherwise than in the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhatIf {
    /// Machines that fail, by group or by name.
    pub fail: Vec<Failing>,
    /// Hooks that ask to wait once, and for how long.
    pub hook_blocks: Vec<(Hook, Duration)>,
    /// Versions of which there is no machine image.
    pub missing_images: Vec<String>,
    /// Limits of rollouts of all MachineDeployments.
    pub max_surge: Option<Amount>,
    /// How many worker groups are upgraded at a time.
    pub concurrency: Option<u32>,
    /// Whether an extension updates machines in place, and covers everything.
    pub in_place: bool,
}

/// Machines that fail in a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// `control-plane`, a worker group by its name in the topology, or a machine.
    pub part: String,
    /// How.
    pub how: Fate,
}

/// How machines fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are never provisioned.
    Provisioning,
    /// Their Nodes never become ready.
    NeverReady,
    /// They are never drained: a PodDisruptionBudget cannot be met.
    Drain,
}

impl Fate {
    const ALL: [(&'static str, Self); 3] =
        [("provisioning", Self::Provisioning), ("never-ready", Self::NeverReady), ("drain", Self::Drain)];

    fn knob(self) -> (&'static str, &'static str) {
        match self {
            Self::Provisioning => (FAIL_PROVISIONING_ANNOTATION, "assumed to fail"),
            Self::NeverReady => (NEVER_READY_ANNOTATION, "assumed never to be ready"),
            Self::Drain => (DRAIN_NEVER_ENDS_ANNOTATION, ""),
        }
    }
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Fate::ALL.iter().find(|(_, fate)| *fate == self.how).map_or("", |(name, _)| name);
        write!(f, "{}={name}", self.part)
    }
}

/// A string that is not a part and how it fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not PART=HOW, as web=provisioning is: HOW is provisioning, never-ready or drain")]
pub struct NotAFailure {
    given: String,
}

impl FromStr for Failing {
    type Err = NotAFailure;

    fn from_str(given: &str) -> Result<Self, NotAFailure> {
        let wrong = || NotAFailure { given: given.to_owned() };
        let (part, how) = given.split_once('=').ok_or_else(wrong)?;
        let how = Fate::ALL.iter().find(|(name, _)| *name == how).map(|(_, fate)| *fate).ok_or_else(wrong)?;
        if part.is_empty() {
            return Err(wrong());
        }
        Ok(Self { part: part.to_owned(), how })
    }
}

/// A part that is not in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no worker group and no machine {part}; worker groups are {}", .groups.join(", "))]
pub struct NoSuchPart {
    /// What was named.
    pub part: String,
    /// The worker groups that there are.
    pub groups: Vec<String>,
}

impl WhatIf {
    /// Puts what is assumed into the objects of a world.
    ///
    /// # Errors
    ///
    /// When a part is named that is not there.
    pub fn apply(&self, rebuilt: &mut Rebuilt) -> Result<(), NoSuchPart> {
        let groups = groups(&rebuilt.objects, &rebuilt.cluster.name);
        let mut of_groups: BTreeMap<String, BTreeMap<&str, &str>> = BTreeMap::new();
        for failing in &self.fail {
            let (key, value) = failing.how.knob();
            let named = groups.iter().filter(|(name, _)| *name == failing.part);
            let mut found = false;
            for (_, group) in named {
                of_groups.entry(group.clone()).or_default().insert(key, value);
                found = true;
            }
            for machine in machines(&mut rebuilt.objects, &failing.part) {
                machine["metadata"]["annotations"][key] = json!(value);
                found = true;
            }
            if !found {
                let groups = groups.iter().map(|(name, _)| name.clone()).collect();
                return Err(NoSuchPart { part: failing.part.clone(), groups });
            }
        }
        for object in &mut rebuilt.objects {
            match object["kind"].as_str().unwrap_or_default() {
                "DevCluster" => {
                    let annotations = &mut object["metadata"]["annotations"];
                    if !of_groups.is_empty() {
                        annotations[GROUP_KNOBS_ANNOTATION] = json!(json!(of_groups).to_string());
                    }
                    if !self.missing_images.is_empty() {
                        annotations[MISSING_IMAGES_ANNOTATION] = json!(self.missing_images.join(","));
                    }
                }
                "Cluster" => self.change_cluster(object),
                _ => {}
            }
        }
        rebuilt.notes.extend(self.notes());
        Ok(())
    }

    /// Lets the extension that is assumed answer so, and says what to register.
    pub(super) fn extensions(&self, extension: &SimulatedExtension) -> Vec<Value> {
        for (hook, time) in &self.hook_blocks {
            let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
            extension.block(*hook, 1, seconds, "assumed to block");
        }
        if self.in_place { vec![extension.add_updater(UPDATER).config()] } else { Vec::new() }
    }

    fn change_cluster(&self, cluster: &mut Value) {
        if let Some(concurrency) = self.concurrency {
            cluster["metadata"]["annotations"][UPGRADE_CONCURRENCY_ANNOTATION] =
                json!(concurrency.to_string());
        }
        let groups =
            cluster.pointer_mut("/spec/topology/workers/machineDeployments").and_then(Value::as_array_mut);
        if let (Some(surge), Some(groups)) = (&self.max_surge, groups) {
            for group in groups {
                group["rollout"]["strategy"]["type"] = json!("RollingUpdate");
                group["rollout"]["strategy"]["rollingUpdate"]["maxSurge"] = (*surge).into();
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.fail.iter().map(|failing| format!("what if: {failing}")).collect();
        notes.extend(
            self.missing_images.iter().map(|version| format!("what if: there is no image of {version}")),
        );
        let spoken = |time: &Duration| crate::script::spoken(*time);
        notes.extend(
            self.hook_blocks
                .iter()
                .map(|(hook, time)| format!("what if: {} asks to wait {}, once", hook.name(), spoken(time))),
        );
        notes.extend(
            self.max_surge
                .iter()
                .map(|surge| format!("what if: maxSurge is {surge} in all MachineDeployments")),
        );
        notes.extend(
            self.concurrency
                .iter()
                .map(|groups| format!("what if: {groups} worker groups are upgraded at a time")),
        );
        if self.in_place {
            notes.push("what if: an extension updates machines in place, and covers everything".to_owned());
        }
        notes
    }
}

/// The parts of a topology: how users call them, and how the in-memory provider does.
fn groups(objects: &[Value], cluster: &str) -> Vec<(String, String)> {
    let mut groups = vec![("control-plane".to_owned(), "control-plane".to_owned())];
    let found =
        objects.iter().find(|object| object["kind"] == "Cluster" && object["metadata"]["name"] == cluster);
    let workers = found.map(|found| &found["spec"]["topology"]["workers"]);
    for (list, kind) in [("machineDeployments", "MachineDeployment"), ("machinePools", "MachinePool")] {
        let entries = workers.and_then(|workers| workers[list].as_array()).into_iter().flatten();
        let names = entries.filter_map(|entry| entry["name"].as_str());
        groups.extend(names.map(|name| (name.to_owned(), format!("{kind}/{name}"))));
    }
    groups
}

/// The infrastructure of a Machine.
fn machines<'a>(objects: &'a mut [Value], name: &str) -> impl Iterator<Item = &'a mut Value> {
    let machine =
        objects.iter().find(|object| object["kind"] == "Machine" && object["metadata"]["name"] == name);
    let infrastructure = machine.map(|machine| machine["spec"]["infrastructureRef"]["name"].clone());
    objects.iter_mut().filter(move |object| {
        object["kind"] == "DevMachine"
            && infrastructure.as_ref().is_some_and(|name| object["metadata"]["name"] == *name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_part_and_how() {
        let parsed: Failing = "web=drain".parse().unwrap();
        assert_eq!(parsed, Failing { part: "web".to_owned(), how: Fate::Drain });
        assert_eq!(parsed.to_string(), "web=drain");
        for wrong in ["web", "web=", "=drain", "web=explodes"] {
            assert!(wrong.parse::<Failing>().is_err(), "{wrong}");
        }
    }
}
