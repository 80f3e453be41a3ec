//! Laws of rollouts, in a small world: one MachineDeployment, its MachineSets and Machines. The MachineDeployment plans,
//! MachineSets create, delete and hand over, machines come up, are updated and go, all in random order; what the
//! planner sees of the MachineSets may be of a moment ago.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use proptest::prelude::*;
use windlass_api::{HandlerName, RegisteredName};
use windlass_engine::in_place::{Effect, Field, FieldVerdict, Verdict};
use windlass_engine::machine_set::{self, DeletionOrder, Replicas, Target};
use windlass_engine::rollout::{
    self, Amount, InPlaceAnswers, RollingUpdate, Strategy as Rollout, in_place_questions, plan,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// An answer of one extension that covers the change.
fn verdict(harmless: bool) -> Verdict {
    let handler = RegisteredName::new(&HandlerName::new("update").unwrap(), "ext").unwrap();
    let field = Field { kind: "MachineSet".to_owned(), path: "spec.template.spec.version".to_owned() };
    let effect = Effect { affects_availability: !harmless, ..Effect::default() };
    Verdict {
        fields: vec![FieldVerdict { field, by: Some(handler.clone()) }],
        asked: vec![handler.clone()],
        effects: BTreeMap::from([(handler, effect)]),
        ..Verdict::default()
    }
}

#[derive(Clone, Debug)]
struct Set {
    name: String,
    template: u32,
    spec: u32,
    create_disabled: bool,
    revision: u64,
    moves_to: Option<String>,
    receives_from: BTreeSet<String>,
    acknowledged: BTreeSet<String>,
    // What its controller last reported.
    status: (u32, u32, u32),
}

#[derive(Clone, Debug)]
struct Machine {
    name: String,
    set: String,
    template: u32,
    available: bool,
    /// Never becomes available in its first template.
    broken: bool,
    deleting: bool,
    updating: bool,
    pending: bool,
    /// Released for its update.
    released: bool,
    updates: u32,
}

#[derive(Clone, Debug)]
struct World {
    replicas: u32,
    rollout: Rollout,
    template: u32,
    in_place: bool,
    /// Updates do not affect availability.
    harmless: bool,
    sets: Vec<Set>,
    machines: Vec<Machine>,
    created: u32,
    deleted: u32,
    /// Created and deleted since the template changed.
    moved: u32,
    clock: i64,
    most: u32,
    blocked: bool,
}

impl World {
    fn new(replicas: u32, rollout: Rollout, in_place: bool) -> Self {
        let set = Set {
            name: "set1".to_owned(),
            template: 1,
            spec: replicas,
            create_disabled: false,
            revision: 1,
            moves_to: None,
            receives_from: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            status: (replicas, replicas, replicas),
        };
        let mut world = Self {
            replicas,
            rollout,
            template: 1,
            in_place,
            harmless: false,
            sets: vec![set],
            machines: Vec::new(),
            created: 0,
            deleted: 0,
            moved: 0,
            clock: 0,
            most: 0,
            blocked: false,
        };
        for _ in 0..replicas {
            world.create("set1", 1);
        }
        world.machines.iter_mut().for_each(|machine| machine.available = true);
        (world.created, world.most) = (0, replicas);
        world
    }

    fn create(&mut self, set: &str, template: u32) {
        self.created += 1;
        self.clock += 1;
        self.machines.push(Machine {
            name: format!("m{}", self.clock),
            set: set.to_owned(),
            template,
            available: false,
            broken: false,
            deleting: false,
            updating: false,
            pending: false,
            released: false,
            updates: 0,
        });
        self.most = self.most.max(u32::try_from(self.machines.len()).unwrap());
    }

    fn updating(&self) -> u32 {
        u32::try_from(self.machines.iter().filter(|machine| machine.updating).count()).unwrap()
    }

    fn available(&self) -> u32 {
        let available = self.machines.iter().filter(|machine| machine.available && !machine.deleting);
        u32::try_from(available.count()).unwrap()
    }

    fn observed(&self) -> rollout::Observed {
        let sets = self.sets.iter().enumerate().map(|(index, set)| rollout::Set {
            name: set.name.clone(),
            created: at(i64::try_from(index).unwrap()),
            matches: set.template == self.template,
            deleting: false,
            spec: set.spec,
            status: set.status.0,
            available: set.status.1,
            up_to_date: set.status.2,
            revision: set.revision,
            moves_to: set.moves_to.clone(),
            updated: None,
            receives_from: set.receives_from.clone(),
            acknowledged: set.acknowledged.clone(),
            desired_replicas: None,
            max_replicas: None,
        });
        let machines = self.machines.iter().map(|machine| rollout::Machine {
            name: machine.name.clone(),
            set: Some(machine.set.clone()),
            pending_acknowledge: machine.pending,
            updating: machine.updating,
            needs_remediation: false,
            reached: false,
        });
        rollout::Observed {
            replicas: self.replicas,
            strategy: self.rollout,
            after: None,
            paused: false,
            sets: sets.collect(),
            machines: machines.collect(),
            fresh_name: format!("set{}", self.sets.len() + 1),
            now: at(1_000_000),
        }
    }

    /// The MachineDeployment plans and writes; true if anything changed.
    fn step_deployment(&mut self) -> bool {
        let observed = self.observed();
        let answer = if self.in_place { Some(Ok(verdict(self.harmless))) } else { None };
        let answers: InPlaceAnswers = in_place_questions(&observed)
            .into_iter()
            .filter_map(|name| Some((name, answer.clone()?)))
            .collect();
        let plan = plan(&observed, &answers);
        self.blocked = plan.blocked.is_some();
        let mut changed = false;
        for planned in plan.new.iter().chain(&plan.old) {
            if !self.sets.iter().any(|set| set.name == planned.name) {
                changed = true;
                let (template, name) = (self.template, planned.name.clone());
                self.sets.push(Set { name, template, spec: 0, status: (0, 0, 0), ..self.sets[0].clone() });
            }
            let set = self.sets.iter_mut().find(|set| set.name == planned.name).unwrap();
            let before = set.clone();
            set.spec = planned.replicas;
            set.create_disabled = planned.create_disabled;
            set.revision = planned.revision.unwrap_or(set.revision);
            set.moves_to = planned.moves_to.clone();
            set.receives_from = planned.receives_from.clone();
            set.acknowledged = planned.acknowledged.clone();
            changed |= format!("{before:?}") != format!("{set:?}");
        }
        changed
    }

    /// One MachineSet acts and reports; true if anything changed.
    fn step_set(&mut self, index: usize) -> bool {
        let set = self.sets[index].clone();
        let mut changed = false;
        let target = set.moves_to.as_ref().map(|name| Target {
            name: name.clone(),
            receives_from: self
                .sets
                .iter()
                .find(|set| set.name == *name)
                .map(|set| set.receives_from.clone()),
        });
        let machines = self.machines.iter().filter(|machine| machine.set == set.name);
        let observed = machine_set::Observed {
            name: set.name.clone(),
            replicas: set.spec,
            order: DeletionOrder::Oldest,
            create_disabled: set.create_disabled,
            updated: None,
            acknowledged: set.acknowledged.clone(),
            moves_to: target,
            machines: machines
                .map(|machine| machine_set::Machine {
                    name: machine.name.clone(),
                    created: None,
                    deleting: machine.deleting,
                    marked: false,
                    remediate_requested: false,
                    updating: machine.updating,
                    pending_acknowledge: machine.pending,
                    update_started: machine.released,
                    available: machine.available,
                    has_node: machine.available || machine.updates > 0 || machine.updating || machine.broken,
                    node_unhealthy: !machine.available,
                    health_check_failed: false,
                    owner_remediated: None,
                })
                .collect(),
            now: at(1_000_000),
        };
        for name in machine_set::updates_to_start(&observed) {
            let machine = self.machines.iter_mut().find(|machine| machine.name == name).unwrap();
            (machine.pending, machine.released, machine.template) = (false, true, set.template);
            changed = true;
        }
        match machine_set::replicas(&observed, &[]) {
            Ok(Replicas::Create { count }) => {
                (0..count).for_each(|_| self.create(&set.name, set.template));
                changed |= count > 0;
            }
            Ok(Replicas::Delete { machines }) => {
                changed |= !machines.is_empty();
                self.mark_deleting(&machines);
            }
            Ok(Replicas::Move(handover)) => {
                changed |= !handover.delete.is_empty() || !handover.machines.is_empty();
                self.mark_deleting(&handover.delete);
                for name in &handover.machines {
                    let machine = self.machines.iter_mut().find(|machine| machine.name == *name).unwrap();
                    machine.set = handover.to.clone();
                    (machine.pending, machine.updating) = (true, true);
                    machine.available &= self.harmless;
                    self.moved += 1;
                }
            }
            // The MachineDeployment writes both sides of a handover before either acts here.
            Ok(Replicas::Settled | Replicas::Hold { .. }) => {}
            Err(_) => {}
        }
        changed | self.report(index)
    }

    fn mark_deleting(&mut self, names: &[String]) {
        self.deleted += u32::try_from(names.len()).unwrap();
        for machine in self.machines.iter_mut().filter(|machine| names.contains(&machine.name)) {
            machine.deleting = true;
        }
    }

    fn report(&mut self, index: usize) -> bool {
        let (name, template) = (self.sets[index].name.clone(), self.template);
        let count = |filter: &dyn Fn(&Machine) -> bool| {
            u32::try_from(
                self.machines.iter().filter(|machine| machine.set == name && filter(machine)).count(),
            )
            .unwrap()
        };
        let status = (
            count(&|_| true),
            count(&|machine| machine.available && (self.harmless || !machine.updating)),
            count(&|machine| machine.template == template && !machine.updating),
        );
        let before = std::mem::replace(&mut self.sets[index].status, status);
        before != status
    }

    /// One machine goes on with its life; true if anything changed.
    fn step_machine(&mut self, index: usize) -> bool {
        let template = self.template;
        let machine = &mut self.machines[index];
        if machine.deleting {
            self.machines.remove(index);
        } else if machine.updating && machine.released {
            (machine.updating, machine.released, machine.available) = (false, false, true);
            machine.updates += 1;
            machine.broken = false;
        } else if !(machine.updating || machine.available || machine.broken && machine.template != template) {
            (machine.available, machine.broken) = (true, false);
        } else {
            return false;
        }
        true
    }

    /// Anyone's turn, by a random number.
    fn step(&mut self, roll: u16) -> bool {
        let actors = 1 + self.sets.len() + self.machines.len();
        match usize::from(roll) % actors {
            0 => self.step_deployment(),
            actor if actor <= self.sets.len() => self.step_set(actor - 1),
            actor => self.step_machine(actor - 1 - self.sets.len()),
        }
    }

    /// Everybody's turn until nothing changes; false if that does not happen.
    fn settle(&mut self, check: &mut impl FnMut(&Self)) -> bool {
        for _ in 0..60 * (self.replicas + 5) {
            let mut changed = self.step_deployment();
            check(self);
            for index in 0..self.sets.len() {
                changed |= self.step_set(index);
                check(self);
            }
            for index in (0..self.machines.len()).rev() {
                changed |= self.step_machine(index);
                check(self);
            }
            if !changed {
                return true;
            }
        }
        false
    }

    fn run(&mut self, rolls: &[u16], mut check: impl FnMut(&Self)) -> bool {
        for roll in rolls {
            self.step(*roll);
            check(self);
        }
        self.settle(&mut check)
    }

    fn is_done(&self) -> bool {
        let machines = u32::try_from(self.machines.len()).unwrap();
        let good =
            |machine: &Machine| machine.template == self.template && machine.available && !machine.updating;
        machines == self.replicas && self.machines.iter().all(good)
    }
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![(0u32..4).prop_map(Amount::Count), (0u32..=120).prop_map(Amount::Percent)]
}

fn limits() -> impl Strategy<Value = RollingUpdate> {
    (amount(), amount()).prop_map(|(max_surge, max_unavailable)| RollingUpdate { max_surge, max_unavailable })
}

fn rolls() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Never more machines than replicas and surge, never fewer available than the floor, and an end.
    #[test]
    fn a_rollout_keeps_its_limits_and_ends(
        replicas in 0u32..7, limits in limits(), rolls in rolls(), again in prop::option::of(0usize..120),
    ) {
        let mut world = World::new(replicas, Rollout::RollingUpdate(limits), false);
        let resolved = limits.resolve(replicas);
        world.template = 2;
        let (mut most, mut least) = (0, replicas);
        let mut watch = |world: &World| {
            most = most.max(world.machines.len());
            least = least.min(world.available());
        };
        let (first, second) = rolls.split_at(again.unwrap_or(rolls.len()).min(rolls.len()));
        for roll in first {
            world.step(*roll);
            watch(&world);
        }
        // The template changes again in the middle.
        world.template += u32::from(again.is_some());
        prop_assert!(world.run(second, watch), "no end: {world:?}");
        prop_assert!(world.is_done(), "{world:?}");
        prop_assert!(most <= (replicas + resolved.surge) as usize, "{most} machines, {world:?}");
        prop_assert!(least >= resolved.floor(replicas), "{least} available, {world:?}");
        if again.is_none() {
            prop_assert_eq!((world.created, world.deleted), (replicas, replicas));
        }
    }

    /// Scaling in the middle of a rollout ends with the new number of new machines.
    #[test]
    fn scaling_during_a_rollout_ends(
        replicas in 0u32..6, then in 0u32..6, limits in limits(), rolls in rolls(), at in 0usize..120,
        in_place: bool, harmless: bool,
    ) {
        let mut world = World::new(replicas, Rollout::RollingUpdate(limits), in_place);
        (world.template, world.harmless) = (2, harmless);
        let (first, second) = rolls.split_at(at.min(rolls.len()));
        for roll in first {
            world.step(*roll);
        }
        world.replicas = then;
        prop_assert!(world.run(second, |_| {}), "no end: {world:?}");
        prop_assert!(world.is_done(), "{world:?}");
    }

    /// Machines that never come up are replaced too, where their template is not the current one.
    #[test]
    fn broken_machines_do_not_stop_a_rollout(
        replicas in 1u32..6, limits in limits(), rolls in rolls(), broken in any::<u8>(), in_place: bool,
    ) {
        let mut world = World::new(replicas, Rollout::RollingUpdate(limits), in_place);
        for (index, machine) in world.machines.iter_mut().enumerate() {
            machine.broken = broken >> (index % 8) & 1 == 1;
            machine.available = !machine.broken;
        }
        world.report(0);
        world.template = 2;
        prop_assert!(world.run(&rolls, |_| {}), "no end: {world:?}");
        prop_assert!(world.is_done(), "{world:?}");
    }

    /// In place only one machine is created, and only where none may be missing; all others are updated, each once.
    #[test]
    fn in_place_updates_all_machines_but_the_one_that_made_room(
        replicas in 1u32..7, limits in limits(), rolls in rolls(),
    ) {
        let mut world = World::new(replicas, Rollout::RollingUpdate(limits), true);
        let resolved = limits.resolve(replicas);
        world.template = 2;
        let mut least = replicas;
        let ended = world.run(&rolls, |world| least = least.min(world.available()));
        prop_assert!(ended && world.is_done(), "{world:?}");
        let created = u32::from(resolved.unavailable == 0);
        prop_assert_eq!((world.created, world.deleted), (created, created), "{:?}", world);
        prop_assert_eq!(world.moved, replicas - created);
        let updates: Vec<u32> = world.machines.iter().map(|machine| machine.updates).collect();
        prop_assert_eq!(updates.iter().sum::<u32>(), replicas - created);
        prop_assert!(updates.iter().all(|updates| *updates <= 1), "{updates:?}");
        prop_assert!(least >= resolved.floor(replicas), "{least} available, {world:?}");
        prop_assert!(world.most <= replicas + created);
    }

    /// Updates that do not affect availability: no machine is created, none is missing, and the limits are the pace, also if
    /// the template changes again.
    #[test]
    fn machines_that_stay_available_are_all_updated_at_the_pace_of_the_limits(
        replicas in 1u32..7, limits in limits(), rolls in rolls(), again in prop::option::of(0usize..120),
    ) {
        let mut world = World::new(replicas, Rollout::RollingUpdate(limits), true);
        let pace = limits.resolve(replicas).pace();
        (world.template, world.harmless) = (2, true);
        let (mut least, mut most) = (replicas, 0);
        let mut watch = |world: &World| {
            least = least.min(world.available());
            most = most.max(world.updating());
        };
        let (first, second) = rolls.split_at(again.unwrap_or(rolls.len()).min(rolls.len()));
        for roll in first {
            world.step(*roll);
            watch(&world);
        }
        world.template += u32::from(again.is_some());
        prop_assert!(world.run(second, watch) && world.is_done(), "{world:?}");
        prop_assert_eq!((world.created, world.deleted, least), (0, 0, replicas), "{:?}", world);
        prop_assert!(most <= pace, "{most} at a time, {world:?}");
        if again.is_none() {
            prop_assert_eq!(world.moved, replicas);
            prop_assert!(world.machines.iter().all(|machine| machine.updates == 1));
        }
    }

    /// The template changes again while machines are updated in place: the limits hold all the same.
    #[test]
    fn in_place_keeps_its_limits_when_the_template_changes_again(
        replicas in 1u32..7, limits in limits(), rolls in rolls(), at in 0usize..120,
    ) {
        let mut world = World::new(replicas, Rollout::RollingUpdate(limits), true);
        let resolved = limits.resolve(replicas);
        world.template = 2;
        let mut least = replicas;
        let (first, second) = rolls.split_at(at.min(rolls.len()));
        for roll in first {
            world.step(*roll);
            least = least.min(world.available());
        }
        world.template = 3;
        let ended = world.run(second, |world| least = least.min(world.available()));
        prop_assert!(ended && world.is_done(), "{world:?}");
        prop_assert!(least >= resolved.floor(replicas), "{least} available, {world:?}");
        prop_assert!(world.most <= replicas + resolved.surge, "{world:?}");
        // Room is made by what may be unavailable; a machine is added only where nothing may be.
        let created = if resolved.unavailable == 0 { 2 } else { 0 };
        prop_assert!(world.created == world.deleted && world.created <= created, "{world:?}");
    }

    /// External: no machine is created or deleted, whatever happens; without an extension nothing happens at all.
    #[test]
    fn external_replaces_no_machine(
        replicas in 1u32..7, max_unavailable in amount(), rolls in rolls(), can: bool, again: bool,
    ) {
        let rollout = Rollout::External { max_unavailable, fallback: None };
        let mut world = World::new(replicas, rollout, can);
        world.template = 2;
        let mut least = replicas;
        let (first, second) = rolls.split_at(rolls.len() / 2);
        for roll in first {
            world.step(*roll);
            least = least.min(world.available());
        }
        if again {
            world.template = 3;
        }
        prop_assert!(world.run(second, |world| least = least.min(world.available())), "no end: {world:?}");
        prop_assert_eq!((world.created, world.deleted), (0, 0), "{:?}", world);
        prop_assert_eq!(world.is_done(), can, "{:?}", world);
        prop_assert_eq!(world.blocked, !can);
        prop_assert!(least >= rollout.limits(replicas).floor(replicas), "{least} available, {world:?}");
    }

    /// With a fallback it ends, also if extensions stop covering the change half way.
    #[test]
    fn external_with_a_fallback_ends(
        replicas in 1u32..6, limits in limits(), rolls in rolls(), at in 0usize..120, then: bool,
    ) {
        let rollout = Rollout::External { max_unavailable: Amount::Count(1), fallback: Some(limits) };
        let mut world = World::new(replicas, rollout, true);
        world.template = 2;
        let (first, second) = rolls.split_at(at.min(rolls.len()));
        for roll in first {
            world.step(*roll);
        }
        world.in_place = then;
        prop_assert!(world.run(second, |_| {}), "no end: {world:?}");
        prop_assert!(world.is_done(), "{world:?}");
        prop_assert!(!world.blocked);
        if then {
            prop_assert_eq!((world.created, world.deleted), (0, 0));
        }
    }

    /// Without a fallback, an extension that stops covering the change half way stops the rollout, and costs no machine.
    #[test]
    fn external_that_stops_half_way_costs_no_machine(replicas in 1u32..6, rolls in rolls(), at in 0usize..120) {
        let rollout = Rollout::External { max_unavailable: Amount::Count(1), fallback: None };
        let mut world = World::new(replicas, rollout, true);
        world.template = 2;
        let (first, second) = rolls.split_at(at.min(rolls.len()));
        for roll in first {
            world.step(*roll);
        }
        world.in_place = false;
        prop_assert!(world.run(second, |_| {}), "no end: {world:?}");
        prop_assert_eq!((world.created, world.deleted), (0, 0), "{:?}", world);
        prop_assert!(world.is_done() != world.blocked, "{world:?}");
    }

    /// OnDelete: nothing happens until machines are deleted, and those come back in the new template.
    #[test]
    fn on_delete_replaces_what_is_deleted(replicas in 1u32..6, rolls in rolls(), deleted in any::<u8>()) {
        let mut world = World::new(replicas, Rollout::OnDelete, false);
        world.template = 2;
        prop_assert!(world.run(&rolls, |_| {}), "no end: {world:?}");
        prop_assert_eq!((world.created, world.deleted), (0, 0));
        let mut gone = 0;
        for (index, machine) in world.machines.iter_mut().enumerate() {
            machine.deleting = deleted >> (index % 8) & 1 == 1;
            gone += u32::from(machine.deleting);
        }
        prop_assert!(world.run(&rolls, |_| {}), "no end: {world:?}");
        prop_assert_eq!((world.created, world.deleted), (gone, 0), "{:?}", world);
        let new = world.machines.iter().filter(|machine| machine.template == 2).count();
        prop_assert_eq!((world.machines.len(), new), (replicas as usize, gone as usize));
    }
}

/// Found by search: the machine that one old MachineSet still had to hand over was counted as available for the other.
#[test]
fn what_an_old_machine_set_still_owes_is_not_given_twice() {
    let limits = RollingUpdate { max_surge: Amount::Count(0), max_unavailable: Amount::Count(3) };
    let mut world = World::new(6, Rollout::RollingUpdate(limits), true);
    world.template = 2;
    for roll in [20280, 32374, 954, 0, 0, 0, 6788, 23718, 11616, 24464, 978, 639] {
        world.step(roll);
    }
    let owes = |set: &Set| set.status.0 - set.spec;
    assert_eq!(world.sets.iter().map(owes).collect::<Vec<_>>(), [1, 0]);
    world.template = 3;
    let mut least = 6;
    assert!(world.settle(&mut |world| least = least.min(world.available())));
    assert!(world.is_done(), "{world:?}");
    assert_eq!(least, 3);
}

/// `windlass simulate rollout --replicas 6 --max-surge 3 --max-unavailable 1 --in-place --change-spec --at-step 4`: a
/// machine that had just been updated was not available yet when the template changed again, and one was added for it.
#[test]
fn no_machine_is_added_for_one_of_an_old_machine_set_that_is_not_available_yet() {
    let limits = RollingUpdate { max_surge: Amount::Count(3), max_unavailable: Amount::Count(1) };
    let mut world = World::new(6, Rollout::RollingUpdate(limits), true);
    world.template = 2;
    world.step_deployment();
    world.step_set(0);
    world.step_deployment();
    world.step_set(1);
    let updated = world.machines.iter().position(|machine| machine.released).unwrap();
    world.step_machine(updated);
    // Updated, and the time after which it counts as available has not passed.
    world.machines[updated].available = false;
    world.report(1);
    world.template = 3;
    let mut least = 6;
    assert!(world.settle(&mut |world| least = least.min(world.available())));
    assert!(world.is_done(), "{world:?}");
    assert_eq!((world.created, world.deleted, least), (0, 0, 5), "{world:?}");
}

/// A Node that is not ready is unavailable by itself, whatever its extension says: nothing else begins until it is back.
#[test]
fn a_machine_that_is_unavailable_after_all_stops_the_pace() {
    let limits = RollingUpdate { max_surge: Amount::Count(1), max_unavailable: Amount::Count(0) };
    let mut world = World::new(3, Rollout::RollingUpdate(limits), true);
    (world.template, world.harmless) = (2, true);
    world.step_deployment();
    world.step_set(0);
    world.step_deployment();
    world.step_set(1);
    let updated = world.machines.iter().position(|machine| machine.released).unwrap();
    world.step_machine(updated);
    world.machines[updated].available = false;
    for _ in 0..5 {
        for index in 0..world.sets.len() {
            world.step_set(index);
        }
        world.step_deployment();
    }
    assert_eq!((world.moved, world.created, world.updating()), (1, 0, 0), "{world:?}");
    assert!(world.settle(&mut |_| {}) && world.is_done(), "{world:?}");
    assert_eq!((world.moved, world.created), (3, 0));
}
