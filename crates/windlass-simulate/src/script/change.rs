//! Statements that change something: objects, extensions, machines.

use std::collections::btree_map::Entry;
use std::time::Duration;

use jiff::SignedDuration;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::infrastructure::{DevCluster, DevMachine};
use windlass_inmemory::knobs::{
    DRAIN_NEVER_ENDS_ANNOTATION, FAIL_PROVISIONING_ANNOTATION, MISSING_IMAGES_ANNOTATION,
    NEVER_READY_ANNOTATION,
};
use windlass_patch::merge_patch;
use windlass_runtime::Layer;

use super::play::{Done, Play, PlayFailure};
use super::statement::{
    Action, ExternalUpdaterOrder, Fate, Group, HookAnswer, MachineChoice, Manifests, ObjectName, Part,
    Target, TroubleOrder, UpdatedObject, UpdaterOrder,
};
use super::view::is_of;
use crate::extension::Misbehaviour;
use crate::external_updater::{Reply, SimulatedExternalUpdater};
use crate::updater::{Covered, SimulatedUpdater};
use crate::world::key;

/// How long a hook that blocks until further notice asks to wait, each time.
const PATIENCE: Duration = Duration::from_secs(30);

impl Play<'_> {
    pub(crate) async fn change(&mut self, action: &Action) -> Result<Done, PlayFailure> {
        match action {
            Action::Create(cluster) => self.world.apply_objects(&cluster.objects()).await?,
            Action::Apply(Manifests::Inline(objects)) => self.world.apply_objects(objects).await?,
            Action::Apply(Manifests::File(file)) => {
                let text = (self.options.read)(file).map_err(PlayFailure::Invalid)?;
                self.world.apply(&text).await?;
            }
            Action::Edit { object, patch } => self.patch(object, patch.clone()).await?,
            Action::Upgrade { cluster, to } => {
                let patch = json!({"spec": {"topology": {"version": to}}});
                self.world.patch::<Cluster>(&key(cluster), patch).await?;
            }
            Action::Annotate { object, annotations } => {
                let pairs = annotations.iter().map(|(name, value)| (name.clone(), json!(value)));
                let annotations: Value = Value::Object(pairs.collect());
                let patch = json!({"metadata": {"annotations": annotations}});
                match object {
                    Target::Object(object) => self.patch(object, patch).await?,
                    Target::Part(part) => self.patch_part(part, &patch).await?,
                }
            }
            Action::Scale { object, replicas } => match object {
                Target::Object(object) => self.patch(object, json!({"spec": {"replicas": replicas}})).await?,
                Target::Part(part) => self.patch_part(part, &json!({"replicas": replicas})).await?,
            },
            Action::Delete(object) => {
                self.exists(object)?;
                self.world.delete_of::<DynamicObject>(&object.kind.resource(), &object.key()).await?;
            }
            Action::DeleteMachine(which) => {
                let name = self.choose(which)?.name_any();
                self.world.delete::<Machine>(&key(&name)).await?;
                return Ok(Done::Note(name));
            }
            Action::Trouble(None) => self.world.faults().clear_layers(),
            Action::Trouble(Some(TroubleOrder { trouble, percent, time })) => {
                let until = time.map(|time| Instant::now() + time);
                self.world.faults().add_layer(Layer { trouble: *trouble, percent: *percent, until });
            }
            Action::Clock { by, is_back } => {
                let by =
                    SignedDuration::try_from(*by).map_err(|error| PlayFailure::Invalid(error.to_string()))?;
                self.world.clock().set(if *is_back { -by } else { by });
            }
            Action::Hook { hook, answer } => {
                self.extension.pass(*hook);
                match answer {
                    HookAnswer::Success => {}
                    HookAnswer::Failure { message } => self.extension.fail(*hook, Some(message)),
                    HookAnswer::Blocks { time, message } => {
                        let times = if time.is_some() { 1 } else { u32::MAX };
                        let seconds = u32::try_from(time.unwrap_or(PATIENCE).as_secs()).unwrap_or(u32::MAX);
                        self.extension.block(*hook, times, seconds, message);
                    }
                }
            }
            Action::Extension { is_up: true } => self.extension.behave(),
            Action::Extension { is_up: false } => self.extension.misbehave(Misbehaviour::Hangs),
            Action::Updater { name, order } => self.updater(name, order).await?,
            Action::ExternalUpdater { name, order } => return self.external_updater(name, order).await,
            Action::Machine { which, fate } => {
                let machine = self.choose(which)?;
                self.decide(&machine, fate).await?;
                return Ok(Done::Note(machine.name_any()));
            }
            Action::Machines { cluster, fate } => self.decide_all(cluster, fate).await?,
            // All others were looked at before.
            _ => {}
        }
        Ok(Done::Quietly)
    }

    /// Whether there is an extension that takes whole updates over.
    pub(crate) fn has_external_updater(&self) -> bool {
        !self.external_updaters.is_empty()
    }

    fn exists(&self, object: &ObjectName) -> Result<(), PlayFailure> {
        match object.find(&self.world) {
            Some(_) => Ok(()),
            None => Err(PlayFailure::Invalid(format!("there is no {object}"))),
        }
    }

    async fn patch(&self, object: &ObjectName, patch: Value) -> Result<(), PlayFailure> {
        self.exists(object)?;
        self.world.patch_of::<DynamicObject>(&object.kind.resource(), &object.key(), patch).await?;
        Ok(())
    }

    /// Merges a patch into an entry of the topology of a Cluster.
    async fn patch_part(&self, part: &Part, patch: &Value) -> Result<(), PlayFailure> {
        let no_such = || PlayFailure::Invalid(format!("there is no {part}"));
        let cluster: Cluster = self.world.get(&key(&part.cluster)).ok_or_else(no_such)?;
        let topology = cluster.spec.topology.as_ref().map(|topology| json!(topology)).ok_or_else(no_such)?;
        let patch = match &part.group {
            Some(Group::Workers(name)) => {
                let mut workers = topology["workers"].clone();
                let lists = ["machineDeployments", "machinePools"];
                let entry = lists.iter().find_map(|list| {
                    let entries = topology["workers"][*list].as_array()?;
                    let index = entries.iter().position(|entry| entry["name"] == name.as_str())?;
                    Some((*list, index))
                });
                let (list, index) = entry.ok_or_else(no_such)?;
                let entry = merge_patch::apply(&workers[list][index], patch);
                workers[list][index] = entry.map_err(|error| PlayFailure::Invalid(error.to_string()))?;
                // A list is replaced as a whole.
                json!({"workers": {list: workers[list]}})
            }
            Some(Group::ControlPlane) => json!({"controlPlane": patch}),
            None => patch.clone(),
        };
        self.world.patch::<Cluster>(&key(&part.cluster), json!({"spec": {"topology": patch}})).await?;
        Ok(())
    }

    async fn updater(&mut self, name: &str, order: &UpdaterOrder) -> Result<(), PlayFailure> {
        let updater = match self.updaters.entry(name.to_owned()) {
            Entry::Occupied(entry) => entry.get().clone(),
            Entry::Vacant(entry) => {
                let updater = entry.insert(self.extension.add_updater(name)).clone();
                self.register(&updater.config()).await?;
                updater
            }
        };
        obey(&updater, order);
        Ok(())
    }

    async fn external_updater(
        &mut self,
        name: &str,
        order: &ExternalUpdaterOrder,
    ) -> Result<Done, PlayFailure> {
        let external_updater = match self.external_updaters.entry(name.to_owned()) {
            Entry::Occupied(entry) => entry.get().clone(),
            Entry::Vacant(entry) => {
                let added = self.extension.add_external_updater(name, Reply::refuse("not told to"));
                let external_updater = entry.insert(added).clone();
                self.register(&external_updater.config()).await?;
                external_updater
            }
        };
        external_updater.reply(match order {
            ExternalUpdaterOrder::Accepts => Reply::accept(),
            ExternalUpdaterOrder::Refuses(reason) => Reply::refuse(reason),
            ExternalUpdaterOrder::Fails(message) => Reply::Fail { message: message.clone() },
            ExternalUpdaterOrder::IsSilent => Reply::Silence,
            ExternalUpdaterOrder::Updates(count) => return self.take_over(&external_updater, *count).await,
        });
        Ok(Done::Quietly)
    }

    /// Lets an external updater do its work on machines that are not what is desired yet.
    async fn take_over(
        &self,
        external_updater: &SimulatedExternalUpdater,
        count: Option<usize>,
    ) -> Result<Done, PlayFailure> {
        let calls = external_updater.calls();
        let Some(call) = calls.last() else {
            return Err(PlayFailure::Invalid("it was not asked to take anything over yet".to_owned()));
        };
        let desired = &call.request["desired"]["machine"]["spec"]["version"];
        let is_behind = |name: &&String| {
            let machine: Option<Machine> = self.world.get(&key(name));
            machine.is_some_and(|machine| desired.as_str() != Some(machine.spec.version.as_str()))
        };
        let names: Vec<&String> =
            call.machines.iter().filter(is_behind).take(count.unwrap_or(usize::MAX)).collect();
        for name in &names {
            let updated = external_updater.update(&self.world, name).await;
            updated.map_err(|error| PlayFailure::Refused(windlass_runtime::describe_error(&error)))?;
        }
        Ok(Done::Note(match names.as_slice() {
            [] => "no machine is left to be updated".to_owned(),
            names => names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "),
        }))
    }

    fn choose(&self, which: &MachineChoice) -> Result<Machine, PlayFailure> {
        let none = |what: String| PlayFailure::Invalid(format!("there is no machine {what}"));
        let (part, is_newest) = match which {
            MachineChoice::Name(name) => return self.world.get(&key(name)).ok_or_else(|| none(name.clone())),
            MachineChoice::Newest(part) => (part, true),
            MachineChoice::Oldest(part) => (part, false),
        };
        let mut machines = self.world.list::<Machine>();
        machines
            .retain(|machine| is_of(machine, Some(part)) && machine.metadata.deletion_timestamp.is_none());
        machines.sort_by_key(|machine| (machine.creation_timestamp().map(|time| time.0), machine.name_any()));
        let chosen = if is_newest { machines.pop() } else { machines.into_iter().next() };
        chosen.ok_or_else(|| none(format!("of {part}")))
    }

    async fn decide(&self, machine: &Machine, fate: &Fate) -> Result<(), PlayFailure> {
        let name = key(&machine.spec.infrastructure_ref.name);
        self.world.patch::<DevMachine>(&name, patch_for(fate)).await?;
        Ok(())
    }

    async fn decide_all(&self, cluster: &str, fate: &Fate) -> Result<(), PlayFailure> {
        let found: Option<Cluster> = self.world.get(&key(cluster));
        let reference = found.as_ref().and_then(|found| found.spec.infrastructure_ref.as_ref());
        let Some(reference) = reference else {
            let missing = format!("there is no Cluster {cluster}, or it has no infrastructure yet");
            return Err(PlayFailure::Invalid(missing));
        };
        self.world.patch::<DevCluster>(&key(&reference.name), patch_for(fate)).await?;
        Ok(())
    }
}

/// Lets an extension that updates machines do as it is told from now on.
pub(crate) fn obey(updater: &SimulatedUpdater, order: &UpdaterOrder) {
    match order {
        UpdaterOrder::CoversEverything => updater.cover(None),
        UpdaterOrder::Covers(fields) => {
            let fields = fields.iter().map(|(object, name)| {
                let name = name.clone().into();
                match object {
                    UpdatedObject::Machine => Covered::Machine(name),
                    UpdatedObject::Infrastructure => Covered::Infrastructure(name),
                    UpdatedObject::Bootstrap => Covered::Bootstrap(name),
                }
            });
            updater.cover(Some(fields.collect()));
        }
        UpdaterOrder::Takes(time) => updater.take(*time),
        UpdaterOrder::Fails(message) => updater.fail(Some(message)),
        UpdaterOrder::Recovers => updater.fail(None),
    }
}

/// What is written for machines to go wrong, or for nothing to be wrong any more.
fn patch_for(fate: &Fate) -> Value {
    let annotate = |name: &str, value: &str| json!({"metadata": {"annotations": {name: value}}});
    match fate {
        Fate::FailsToProvision(why) => annotate(FAIL_PROVISIONING_ANNOTATION, why),
        Fate::IsNotReady(why) => annotate(NEVER_READY_ANNOTATION, why),
        Fate::DoesNotDrain => annotate(DRAIN_NEVER_ENDS_ANNOTATION, ""),
        Fate::HasNoImage(version) => annotate(MISSING_IMAGES_ANNOTATION, version),
        Fate::Takes(time) => {
            let provisioning =
                json!({"startupDuration": format!("{}s", time.as_secs()), "startupJitter": "0"});
            json!({"spec": {"backend": {"inMemory": {"node": {"provisioning": provisioning}}}}})
        }
        Fate::Recovers => json!({"metadata": {"annotations": {
            FAIL_PROVISIONING_ANNOTATION: null,
            NEVER_READY_ANNOTATION: null,
            DRAIN_NEVER_ENDS_ANNOTATION: null,
            MISSING_IMAGES_ANNOTATION: null,
        }}}),
    }
}
