//! Whole upgrades on a small model of a cluster: every pair of versions of a catalogue, several shapes of
//! workers, the skew policy checked at every state, and a crash after every effect.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_api::hooks::Hook;
use windlass_engine::topology::{
    ControlPlane, Decision, GroupObject, HookAnswer, HookAnswers, Next, Observed, PlanSource, WorkerGroup,
    WorkerKind, decide,
};
use windlass_engine::waiting::Retry;
use windlass_plan::{PlanRequest, Source, plan};
use windlass_version::{Version, check_control_plane_step, kubelet_skew};

/// Rollouts replace one machine per tick.
const MACHINES: usize = 2;

#[derive(Clone, Debug)]
struct Model {
    target: Version,
    control_plane: Version,
    control_plane_machines: Vec<Version>,
    groups: Vec<(WorkerKind, Version, Vec<Version>)>,
    pending: Option<String>,
    step: Option<Version>,
    /// Hooks that answer "wait" that many more times, when called.
    stubborn: Vec<(Hook, u32)>,
    called: Vec<String>,
    /// Hooks and steps, in their order.
    story: Vec<String>,
}

fn v(minor: u64) -> Version {
    Version::new(1, minor, 0)
}

impl Model {
    fn new(from: u64, to: u64, groups: &[(WorkerKind, u64)]) -> Self {
        Self {
            target: v(to),
            control_plane: v(from),
            control_plane_machines: vec![v(from); MACHINES],
            groups: groups.iter().map(|&(kind, minor)| (kind, v(minor), vec![v(minor); MACHINES])).collect(),
            pending: None,
            step: None,
            stubborn: Vec::new(),
            called: Vec::new(),
            story: Vec::new(),
        }
    }

    fn observe(&self) -> Observed {
        let workers = self.groups.iter().enumerate().map(|(index, (kind, version, machines))| {
            let name = format!("g{index}");
            let object = GroupObject {
                name: name.clone(),
                version: Some(version.clone()),
                upgrading: machines.iter().any(|machine| machine != version),
                rolling_out: false,
                blocked: None,
            };
            WorkerGroup::of(*kind, &name, Some(object))
        });
        Observed {
            source: PlanSource::Known(Source::versions((28..36).map(|minor| v(minor).to_string()))),
            control_plane: Some(ControlPlane {
                kind: "KubeadmControlPlane".to_owned(),
                name: "cp".to_owned(),
                version: self.control_plane.clone(),
                running: self.control_plane_machines.clone(),
                unborn: false,
                leaves_step: false,
                updating_in_place: false,
                blocked: None,
            }),
            workers: workers.collect(),
            pending_hooks: windlass_engine::topology::PendingHooks::parse(self.pending.as_deref()),
            upgrade_step: self.step.clone(),
            created: true,
            control_plane_initialized: true,
            ..Observed::new(self.target.clone())
        }
    }

    fn decide(&mut self) -> Decision {
        let observed = self.observe();
        let mut answers = HookAnswers::new();
        loop {
            match decide(&observed, &answers) {
                Next::Act(decision) => return *decision,
                Next::Call(call) => {
                    let stubborn =
                        self.stubborn.iter_mut().find(|(hook, left)| *hook == call.hook && *left > 0);
                    let answer = match stubborn {
                        Some((_, left)) => {
                            *left -= 1;
                            HookAnswer::Blocked {
                                retry: Retry {
                                    left: Duration::from_secs(5),
                                    interval: Duration::from_secs(5),
                                },
                                asked_seconds: 5,
                                handlers: Vec::new(),
                                message: String::new(),
                            }
                        }
                        None => {
                            self.called.push(call.to_string());
                            self.story.push(call.hook.to_string());
                            HookAnswer::Passed
                        }
                    };
                    answers.insert(&call, answer);
                }
            }
        }
    }

    /// The writes of a decision, in the order in which a controller makes them; only the first `count`.
    fn act(&mut self, decision: &Decision, count: usize) -> usize {
        let mut effects = 0;
        let mut effect = |changed: bool| {
            effects += usize::from(changed);
            changed && effects <= count
        };
        let marks = (decision.pending_hooks.annotation(), decision.upgrade_step.clone());
        if effect(marks != (self.pending.clone(), self.step.clone())) {
            (self.pending, self.step) = marks;
        }
        if effect(decision.control_plane.version != self.control_plane) {
            assert_eq!(
                check_control_plane_step(&self.control_plane, &decision.control_plane.version),
                Ok(())
            );
            let to = &decision.control_plane.version;
            self.story.push(format!("control plane {} -> {to}", self.control_plane));
            self.control_plane = to.clone();
        }
        for (group, decided) in self.groups.iter_mut().zip(&decision.workers) {
            if effect(decided.version != group.1) {
                self.story.push(format!("workers {} {} -> {}", decided.id, group.1, decided.version));
                group.1 = decided.version.clone();
            }
        }
        effects.min(count)
    }

    /// One machine is replaced somewhere. New control plane machines come first, as they must.
    fn tick(&mut self) -> bool {
        let roll = |machines: &mut Vec<Version>, version: &Version| {
            let Some(old) = machines.iter_mut().find(|machine| *machine != version) else { return false };
            *old = version.clone();
            true
        };
        let version = self.control_plane.clone();
        let mut rolled = roll(&mut self.control_plane_machines, &version);
        for (_, version, machines) in &mut self.groups {
            let version = version.clone();
            rolled |= roll(machines, &version);
        }
        rolled
    }

    fn check_skew(&self) {
        // A new worker joins through the oldest API server, an old one is served by the newest.
        for machine in self.groups.iter().flat_map(|(_, _, machines)| machines) {
            for api_server in &self.control_plane_machines {
                assert!(kubelet_skew(api_server, machine).is_ok(), "{machine} under {api_server}: {self:?}");
            }
            assert!(kubelet_skew(&self.control_plane, machine).is_ok(), "{self:?}");
        }
    }

    /// Runs to the end; every `crash_every` decisions the process ends after that many effects.
    fn run(&mut self, crash_after: impl Fn(usize) -> usize) -> Result<(), String> {
        for round in 0..400 {
            let decision = self.decide();
            if let Some(no_path) = decision.plan.no_path() {
                return Err(no_path.to_string());
            }
            let effects = self.act(&decision, crash_after(round));
            self.check_skew();
            let rolled = self.tick();
            self.check_skew();
            if effects == 0 && !rolled && self.is_done() && decision.held.is_empty() {
                return Ok(());
            }
        }
        Err(format!("did not end: {self:?}"))
    }

    fn is_done(&self) -> bool {
        self.pending.is_none()
            && self.step.is_none()
            && self.control_plane_machines.iter().all(|machine| *machine == self.target)
            && self
                .groups
                .iter()
                .all(|(_, _, machines)| machines.iter().all(|machine| *machine == self.target))
    }
}

const MD: WorkerKind = WorkerKind::MachineDeployment;
const MP: WorkerKind = WorkerKind::MachinePool;

#[test]
fn every_pair_of_versions_with_every_shape_of_workers_and_a_crash_anywhere() {
    let mut upgrades = 0;
    for from in 28..36u64 {
        for to in from..36 {
            for lag in 0..=3u64.min(from - 28) {
                let slow = from - lag;
                let middle = from - lag / 2;
                let shapes: [&[(WorkerKind, u64)]; 3] =
                    [&[], &[(MD, slow)], &[(MD, slow), (MD, middle), (MP, from)]];
                for shape in shapes.into_iter().filter(|shape| lag == 0 || !shape.is_empty()) {
                    let model = Model::new(from, to, shape);
                    let mut straight = model.clone();
                    straight.run(|_| usize::MAX).unwrap();
                    // The process ends after no, one, two effects of every decision, in turn. With none
                    // at all nothing would ever happen, so every fourth decision is carried out.
                    for offset in 0..4 {
                        let mut crashing = model.clone();
                        crashing.run(|round| [0, 1, 2, usize::MAX][(round + offset) % 4]).unwrap();
                        let distinct = |calls: &[String]| calls.iter().cloned().collect::<BTreeSet<_>>();
                        let (got, expected) = (distinct(&crashing.called), distinct(&straight.called));
                        // A crash may call a hook again, from where the workers are by then; it skips none.
                        let kinds = |calls: &BTreeSet<String>| {
                            calls
                                .iter()
                                .filter(|call| !call.starts_with("BeforeWorkersUpgrade"))
                                .cloned()
                                .collect::<BTreeSet<_>>()
                        };
                        assert_eq!(kinds(&got), kinds(&expected), "{from} to {to}, {shape:?}");
                    }
                    upgrades += 1;
                }
            }
        }
    }
    assert!(upgrades > 200, "{upgrades}");
}

/// What a plan says will happen: the hooks before each operation, the operation, the hooks after it.
#[expect(clippy::unwrap_used, reason = "a request without a plan fails the test")]
fn planned(from: u64, to: u64, groups: &[(WorkerKind, u64)]) -> Vec<String> {
    let workers = groups
        .iter()
        .enumerate()
        .map(|(index, (kind, minor))| windlass_plan::WorkerGroup::new(format!("{kind}/g{index}"), v(*minor)));
    let request = PlanRequest::new(v(from), v(to))
        .with_workers(workers)
        .with_source(Source::versions((28..36).map(|minor| v(minor).to_string())));
    let mut story = Vec::new();
    for operation in plan(&request).unwrap().operations {
        let (before, after): (Vec<String>, Vec<String>) =
            operation.hooks.iter().map(ToString::to_string).partition(|hook| hook.starts_with("Before"));
        story.extend(before);
        story.push(operation.step.to_string());
        story.extend(after);
    }
    story
}

#[test]
fn what_happens_is_what_the_plan_says_hook_by_hook_and_step_by_step() {
    for from in 28..36u64 {
        for to in from..36 {
            for lag in 0..=3u64.min(from - 28) {
                let shapes: [&[(WorkerKind, u64)]; 3] =
                    [&[], &[(MD, from - lag)], &[(MD, from - lag), (MD, from - lag / 2), (MP, from)]];
                for shape in shapes {
                    let mut model = Model::new(from, to, shape);
                    model.run(|_| usize::MAX).unwrap();
                    assert_eq!(model.story, planned(from, to, shape), "{from} to {to}, {shape:?}");
                }
            }
        }
    }
}

#[test]
fn the_hooks_of_the_worked_example_come_in_order() {
    let mut model = Model::new(29, 33, &[(MD, 29)]);
    model.stubborn = vec![
        (Hook::BeforeClusterUpgrade, 2),
        (Hook::AfterControlPlaneUpgrade, 3),
        (Hook::BeforeWorkersUpgrade, 1),
        (Hook::AfterWorkersUpgrade, 1),
        (Hook::AfterClusterUpgrade, 2),
    ];
    model.run(|_| usize::MAX).unwrap();
    assert_eq!(
        model.called,
        [
            "BeforeClusterUpgrade v1.29.0 -> v1.33.0",
            "BeforeControlPlaneUpgrade v1.29.0 -> v1.30.0",
            "AfterControlPlaneUpgrade v1.30.0",
            "BeforeControlPlaneUpgrade v1.30.0 -> v1.31.0",
            "AfterControlPlaneUpgrade v1.31.0",
            "BeforeControlPlaneUpgrade v1.31.0 -> v1.32.0",
            "AfterControlPlaneUpgrade v1.32.0",
            "BeforeWorkersUpgrade v1.29.0 -> v1.32.0",
            "AfterWorkersUpgrade v1.32.0",
            "BeforeControlPlaneUpgrade v1.32.0 -> v1.33.0",
            "AfterControlPlaneUpgrade v1.33.0",
            "BeforeWorkersUpgrade v1.32.0 -> v1.33.0",
            "AfterWorkersUpgrade v1.33.0",
            "AfterClusterUpgrade v1.33.0",
        ]
    );
}

#[test]
fn groups_at_different_versions_skip_what_each_may_skip() {
    // One group must stop at 1.32, the other one can go to the target directly.
    let mut model = Model::new(31, 34, &[(MD, 29), (MD, 31)]);
    let mut second: Vec<Version> = Vec::new();
    for _ in 0..200 {
        let decision = model.decide();
        model.act(&decision, usize::MAX);
        if second.last() != Some(&model.groups[1].1) {
            second.push(model.groups[1].1.clone());
        }
        model.tick();
        model.check_skew();
    }
    assert!(model.is_done());
    assert_eq!(second, [v(31), v(34)]);
}
