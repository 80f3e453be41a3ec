//! A small world in which Machines come up, break, drain and go, with decisions at random moments in between.

use proptest::prelude::{Just, ProptestConfig, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Values;

use super::fixture::*;
use super::*;
use crate::in_place::{Verdict, WhyNotInPlace};
use crate::waiting::WaitingOn;

/// What happens next. The number picks a Machine, or a value.
#[derive(Clone, Copy, Debug)]
enum Event {
    Decide { crash: bool },
    ComesUp(usize),
    Drains(usize),
    UpdateFinishes(usize),
    Breaks(usize, Component),
    HealthCheckFails(usize),
    Heals,
    TemplateChanges,
    VersionRises,
    Replicas(u32),
    Strategy(Strategy),
    UserDeletes(usize),
    TimePasses,
}

struct World {
    observed: Observed,
    second: i64,
    created: i64,
    template: u32,
    minor: u32,
    /// Template of each Machine, by name.
    made_from: std::collections::BTreeMap<String, u32>,
    /// Extensions cover what changes.
    in_place: bool,
}

impl World {
    fn new(in_place: bool) -> Self {
        let mut observed = control_plane(Vec::new());
        observed.replicas = 3;
        observed.initialized = false;
        observed.failure_domains = ["a", "b"].map(str::to_owned).into();
        Self {
            observed,
            second: 1,
            created: 0,
            template: 0,
            minor: 30,
            made_from: std::collections::BTreeMap::new(),
            in_place,
        }
    }

    fn pick(&mut self, index: usize) -> Option<&mut ObservedMachine> {
        let count = self.observed.machines.len();
        (count > 0).then(|| &mut self.observed.machines[index % count])
    }

    fn members(&mut self) -> &mut Vec<EtcdMember> {
        match &mut self.observed.etcd {
            Etcd::Managed { members: Some(members) } => members,
            _ => unreachable!("this world has its own etcd"),
        }
    }

    /// Recomputes what an observer would see.
    fn look(&mut self) {
        self.observed.version = format!("v1.{}.0", self.minor);
        for machine in &mut self.observed.machines {
            machine.outdated.clear();
            let current = machine.version.clone().unwrap_or_default();
            if current != self.observed.version {
                let required = self.observed.version.clone();
                machine.outdated.push(OutdatedReason::Version { current, required });
            }
            let made_from = self.made_from.get(&machine.name).copied().unwrap_or_default();
            if made_from != self.template {
                machine.outdated.push(OutdatedReason::Infrastructure {
                    kind: "DevMachine".to_owned(),
                    current: format!("t{made_from}"),
                    required: format!("t{}", self.template),
                });
            }
        }
    }

    fn happen(&mut self, event: Event) {
        self.second += 1;
        match event {
            Event::Decide { crash } => drop(self.decide(crash)),
            Event::ComesUp(index) => self.come_up(index),
            Event::Drains(index) => self.drain(index),
            Event::UpdateFinishes(index) => self.finish_update(index),
            Event::Breaks(index, component) => {
                if let Some(machine) = self.pick(index).filter(|machine| machine.node.is_some()) {
                    machine.components.insert(component, Health::Unhealthy);
                }
            }
            Event::HealthCheckFails(index) => {
                if let Some(machine) = self.pick(index) {
                    machine.remediation_requested = true;
                }
            }
            Event::Heals => self.heal(),
            Event::TemplateChanges => self.template += 1,
            Event::VersionRises => {
                // The topology goes on only when the last step is done.
                let version = format!("v1.{}.0", self.minor);
                if self.observed.machines.iter().all(|machine| machine.version.as_ref() == Some(&version)) {
                    self.minor += 1;
                }
            }
            Event::Replicas(replicas) => self.observed.replicas = replicas,
            Event::Strategy(strategy) => self.observed.strategy = strategy,
            Event::UserDeletes(index) => {
                let since = self.second;
                if let Some(machine) = self.pick(index).filter(|machine| machine.deletion.is_none()) {
                    machine.deletion = deletion(since);
                }
            }
            Event::TimePasses => self.second += 1800,
        }
        self.look();
    }

    fn come_up(&mut self, index: usize) {
        let Some(machine) = self.pick(index).filter(|m| m.node.is_none() && m.deletion.is_none()) else {
            return;
        };
        let name = machine.name.clone();
        machine.node = Some(name.clone());
        machine.components =
            Component::ALL.into_iter().map(|component| (component, Health::Healthy)).collect();
        self.members().push(member(&name));
        self.observed.initialized = true;
    }

    fn drain(&mut self, index: usize) {
        let Some(machine) = self.pick(index) else { return };
        let name = machine.name.clone();
        match &mut machine.deletion {
            Some(deletion) if !deletion.has_cleanup_hook => {
                self.observed.machines.retain(|machine| machine.name != name);
            }
            Some(deletion) => deletion.at_pre_terminate = true,
            None => {}
        }
    }

    fn finish_update(&mut self, index: usize) {
        let (template, version) = (self.template, format!("v1.{}.0", self.minor));
        let Some(machine) = self.pick(index).filter(|machine| machine.update_hook_pending) else { return };
        machine.update_in_progress = false;
        machine.update_hook_pending = false;
        machine.version = Some(version);
        machine.in_place = Err(WhyNotInPlace::NotAsked);
        let name = machine.name.clone();
        self.made_from.insert(name, template);
    }

    fn heal(&mut self) {
        for machine in self.observed.machines.iter_mut().filter(|machine| machine.node.is_some()) {
            machine.components =
                Component::ALL.into_iter().map(|component| (component, Health::Healthy)).collect();
        }
        for machine in &mut self.observed.machines {
            machine.remediation_requested = false;
        }
    }

    /// Decides, checks that the decision is safe, and acts; with `crash` only the first of two writes happens.
    fn decide(&mut self, crash: bool) -> Step {
        let decision = decide(&self.observed, at(self.second));
        if decision.remediation_done {
            self.observed.remediation_in_progress = None;
        }
        let Step::Act(action) = &decision.step else { return decision.step };
        self.check(action);
        let now = at(self.second);
        match action.clone() {
            Action::Initialize { failure_domain, remediation_for }
            | Action::Join { failure_domain, remediation_for, .. } => {
                self.create(failure_domain, remediation_for);
                if !crash {
                    self.observed.remediation_in_progress = None;
                }
            }
            Action::Delete { machine, .. } => self.named(&machine).deletion = deletion(now.as_second()),
            Action::Remediate(record) => {
                if !crash {
                    self.named(&record.machine).deletion = deletion(now.as_second());
                }
                self.observed.remediation_in_progress = Some(record);
            }
            Action::AskInPlace { machine } => {
                self.named(&machine).in_place =
                    if self.in_place { Ok(Verdict::default()) } else { Err(WhyNotInPlace::NoExtension) };
            }
            // There is no external updater.
            Action::AskExternal => {
                self.observed.external_update = crate::external_update::ExternalUpdate::Refused(Vec::new());
            }
            Action::TriggerInPlace { machine } => {
                self.named(&machine).update_in_progress = true;
                self.named(&machine).update_hook_pending = !crash;
            }
            Action::ReleaseMachine { machine, member, .. } => {
                if let Some(member) = member {
                    self.members().retain(|other| other.name != member);
                }
                if !crash && let Some(deletion) = &mut self.named(&machine).deletion {
                    deletion.has_cleanup_hook = false;
                }
            }
            Action::RemoveMember { member, .. } => self.members().retain(|other| other.name != member),
            Action::DeleteAll { .. } | Action::Finish => unreachable!("this control plane is not deleted"),
        }
        self.look();
        decision.step
    }

    fn create(&mut self, failure_domain: Option<String>, remediation_for: Option<RemediationRecord>) {
        self.created += 1;
        let mut machine = machine(self.created);
        machine.created = at(self.second);
        machine.node = None;
        machine.components.clear();
        machine.version = Some(format!("v1.{}.0", self.minor));
        machine.failure_domain = failure_domain;
        machine.remediation_for = remediation_for;
        machine.in_place = Err(WhyNotInPlace::NotAsked);
        self.made_from.insert(machine.name.clone(), self.template);
        self.observed.machines.push(machine);
    }

    fn named(&mut self, name: &str) -> &mut ObservedMachine {
        match self.observed.machines.iter_mut().find(|machine| machine.name == name) {
            Some(machine) => machine,
            None => unreachable!("a decision named {name}, which does not exist"),
        }
    }

    fn check(&self, action: &Action) {
        let Observed { machines, replicas, strategy, .. } = &self.observed;
        let quiet = |except: &str| {
            for machine in machines.iter().filter(|machine| machine.name != except) {
                assert!(machine.deletion.is_none(), "{action:?} while {} is deleted", machine.name);
                assert!(!machine.is_updating(), "{action:?} while {} is updated", machine.name);
                assert!(machine.node.is_some(), "{action:?} while {} comes up", machine.name);
            }
        };
        match action {
            Action::Initialize { .. } => assert!(machines.is_empty()),
            Action::Join { .. } => {
                let most = replicas + strategy.surge(*replicas).unwrap_or(0);
                assert!(machines.len() < most as usize, "{} Machines, at most {most}", machines.len());
                if remediation::pending(&self.observed).is_none() {
                    quiet("");
                }
            }
            Action::Delete { machine, reason } => {
                quiet(machine);
                self.keeps_quorum_without(machine);
                let replaces = *strategy != Strategy::External { fallback_surge: None };
                assert!(replaces || *reason == DeleteReason::ScaleDown, "nothing is ever replaced");
                assert!(replaces || machines.len() > *replicas as usize, "nothing is ever replaced");
            }
            Action::TriggerInPlace { machine } => {
                assert!(
                    self.observed.machines.iter().all(|m| m.name == *machine || !m.is_updating()),
                    "two updates at a time"
                );
            }
            Action::Remediate(record) if self.observed.initialized => {
                for other in machines.iter().filter(|machine| machine.name != record.machine) {
                    assert!(
                        self.observed.remediation_in_progress.is_some() || other.deletion.is_none(),
                        "{action:?} while {} is deleted",
                        other.name
                    );
                }
                if self.observed.remediation_in_progress.is_none() {
                    self.keeps_quorum_without(&record.machine);
                }
            }
            Action::ReleaseMachine { machine, member: Some(_), .. } => self.keeps_quorum_without(machine),
            _ => {}
        }
    }

    /// Counted from the world, not with the code under test.
    fn keeps_quorum_without(&self, name: &str) {
        let Some(members) = self.observed.etcd.members() else { return };
        let remaining: Vec<_> = members.iter().filter(|member| member.name != name).collect();
        let healthy = remaining.iter().filter(|member| {
            self.observed.machines.iter().any(|machine| {
                machine.name == member.name
                    && machine.components.get(&Component::EtcdMember) == Some(&Health::Healthy)
            })
        });
        let healthy = healthy.count();
        assert!(2 * healthy > remaining.len(), "{healthy} of {} members without {name}", remaining.len());
    }

    /// Without further trouble, decides until nothing is left to do; how it ended.
    fn settle(&mut self) -> Step {
        self.heal();
        self.look();
        for _ in 0..400 {
            let step = self.decide(false);
            self.second += 60;
            let machines = self.observed.machines.len();
            let mut progressed = matches!(step, Step::Act(_));
            for index in 0..machines {
                let before = self.observed.machines.clone();
                self.come_up(index);
                self.drain(index);
                self.finish_update(index);
                self.look();
                progressed |= before != self.observed.machines;
            }
            if !progressed {
                return step;
            }
        }
        unreachable!("it never settles: {:#?}", self.observed)
    }
}

fn event() -> impl Values<Value = Event> {
    let machine = || 0..7_usize;
    prop_oneof![
        12 => proptest::bool::weighted(0.1).prop_map(|crash| Event::Decide { crash }),
        5 => machine().prop_map(Event::ComesUp),
        5 => machine().prop_map(Event::Drains),
        4 => machine().prop_map(Event::UpdateFinishes),
        1 => (machine(), proptest::sample::select(Component::ALL.to_vec()))
            .prop_map(|(machine, component)| Event::Breaks(machine, component)),
        1 => machine().prop_map(Event::HealthCheckFails),
        2 => Just(Event::Heals),
        1 => Just(Event::TemplateChanges),
        1 => Just(Event::VersionRises),
        1 => proptest::sample::select(vec![1_u32, 3, 5]).prop_map(Event::Replicas),
        1 => strategy().prop_map(Event::Strategy),
        1 => machine().prop_map(Event::UserDeletes),
        1 => Just(Event::TimePasses),
    ]
}

fn strategy() -> impl Values<Value = Strategy> {
    proptest::sample::select(vec![
        Strategy::RollingUpdate { max_surge: 0 },
        Strategy::RollingUpdate { max_surge: 1 },
        Strategy::External { fallback_surge: None },
        Strategy::External { fallback_surge: Some(1) },
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_change_at_a_time_never_without_quorum_and_always_to_the_end(
        in_place: bool,
        events in proptest::collection::vec(event(), 0..120),
    ) {
        let mut world = World::new(in_place);
        for event in events {
            world.happen(event);
        }
        let end = world.settle();
        let refused = matches!(end, Step::Wait(WaitingOn::InPlaceRefused { .. }));
        prop_assert!(end == Step::Settled || refused, "{end:?}");
        prop_assert!(
            !refused || world.observed.strategy == Strategy::External { fallback_surge: None },
            "{end:?}"
        );
        prop_assert_eq!(world.observed.machines.len(), world.observed.replicas as usize);
        prop_assert!(refused || world.observed.machines.iter().all(|machine| machine.outdated.is_empty()));
        prop_assert_eq!(world.members().len(), world.observed.replicas as usize);
    }
}
