//! Laws that hold for every plan of a catalogue of eight minors with patches, builds and pre-releases.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;
use windlass_plan::{
    HooksPassed, PlanDiff, PlanDocument, PlanRequest, Source, Step, UpgradeHook, UpgradePlan, WorkerGroup,
    plan,
};
use windlass_version::{Comparison, Version, kubelet_skew};

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

/// Five versions of each minor; the order of the two builds of the last patch is known only from here.
fn catalogue() -> Vec<String> {
    (28..36)
        .flat_map(|minor| ["0-rc.1", "0", "1", "2+east", "2+west"].map(|patch| format!("v1.{minor}.{patch}")))
        .collect()
}

/// Every start from which a target can be reached: control plane, target, and a version that workers may
/// have below that control plane.
fn starts() -> impl Iterator<Item = (Version, Version, Vec<Version>)> {
    let versions: Vec<Version> = catalogue().iter().map(|text| v(text)).collect();
    let places = 0..versions.len();
    places.clone().flat_map(move |from| {
        let versions = versions.clone();
        (from..versions.len()).map(move |to| {
            let workers = versions[..=from]
                .iter()
                .filter(|worker| kubelet_skew(&versions[from], worker).is_ok())
                .cloned()
                .collect();
            (versions[from].clone(), versions[to].clone(), workers)
        })
    })
}

/// The cluster in the middle of a plan, and what was called so far.
struct Progress {
    control_plane: Version,
    workers: Vec<WorkerGroup>,
    passed: HooksPassed,
    taken: usize,
}

impl Progress {
    fn start(request: &PlanRequest) -> Self {
        Self {
            control_plane: request.control_plane.clone(),
            workers: request.workers.clone(),
            passed: request.hooks_passed,
            taken: 0,
        }
    }

    fn take(&mut self, plan: &UpgradePlan) {
        let operation = &plan.operations[self.taken];
        self.passed.before_cluster_upgrade |= operation.hooks.contains(&UpgradeHook::BeforeClusterUpgrade);
        match &operation.step {
            Step::ControlPlane { to, .. } => {
                self.control_plane = to.clone();
                self.passed.before_workers_upgrade = false;
            }
            Step::Workers { group, to, .. } => {
                self.workers.iter_mut().find(|other| other.name == *group).unwrap().version = to.clone();
                self.passed.before_workers_upgrade = true;
            }
        }
        self.taken += 1;
    }

    fn request(&self, target: &Version, source: Source) -> PlanRequest {
        PlanRequest::new(self.control_plane.clone(), target.clone())
            .with_workers(self.workers.clone())
            .with_source(source)
            .with_hooks_passed(self.passed)
    }
}

/// Takes the plan step by step and plans again after each: the answer is exactly the rest.
fn recomputes_to_its_own_rest(
    request: &PlanRequest,
    source_after: impl Fn(&Progress, &UpgradePlan) -> Source,
) {
    let whole = plan(request).unwrap_or_else(|refusal| panic!("{request:?}: {refusal}"));
    let mut progress = Progress::start(request);
    while progress.taken < whole.operations.len() {
        progress.take(&whole);
        let again = plan(&progress.request(&request.target, source_after(&progress, &whole)))
            .unwrap_or_else(|refusal| panic!("{request:?} after {}: {refusal}", progress.taken));
        assert_eq!(again.operations, whole.operations[progress.taken..], "{request:?}");
    }
    assert_eq!(progress.control_plane, request.target);
    assert!(progress.workers.iter().all(|group| group.version == request.target), "{request:?}");
}

#[test]
fn recomputing_a_list_plan_at_any_point_gives_exactly_the_remaining_steps() {
    let source = Source::Versions(catalogue());
    for (from, to, workers) in starts() {
        let whole_list = |_: &Progress, _: &UpgradePlan| source.clone();
        let base = PlanRequest::new(from, to).with_source(source.clone());
        recomputes_to_its_own_rest(&base, whole_list);
        // Groups of three, so that every worker version meets its neighbours.
        for trio in workers.windows(3.min(workers.len())).step_by(2) {
            let groups = trio.iter().enumerate().map(|(n, at)| WorkerGroup::new(format!("g{n}"), at.clone()));
            recomputes_to_its_own_rest(&base.clone().with_workers(groups), whole_list);
        }
    }
}

#[test]
fn recomputing_a_given_plan_at_any_point_gives_exactly_the_remaining_steps() {
    // A chain with several patches and builds per minor, and forced stops; what an extension would answer
    // later is what is left of both lists.
    let control_plane = ["v1.30.1", "v1.31.0+a", "v1.31.0+b", "v1.32.2", "v1.33.0-rc.1", "v1.33.0"];
    for workers in [
        vec![],
        vec!["v1.33.0"],
        vec!["v1.30.1", "v1.31.0+a", "v1.31.0+b", "v1.33.0"],
        vec!["v1.30.0", "v1.32.2", "v1.33.0"],
    ] {
        let at = if workers.first() == Some(&"v1.30.0") { "v1.29.0" } else { "v1.30.0" };
        let request = PlanRequest::new(v("v1.30.0"), v("v1.33.0"))
            .with_workers([WorkerGroup::new("a", v(at)), WorkerGroup::new("b", v(at))])
            .with_source(Source::given(control_plane, workers.clone()));
        recomputes_to_its_own_rest(&request, |progress, _| {
            let chain = control_plane.iter().map(|text| v(text));
            let passed = chain.clone().position(|step| step == progress.control_plane).map_or(0, |at| at + 1);
            let stops_taken = |group: &WorkerGroup| {
                workers.iter().position(|stop| v(stop) == group.version).map_or(0, |at| at + 1)
            };
            let reached = progress.workers.iter().map(stops_taken).min().unwrap_or(0);
            Source::given(control_plane[passed..].to_vec(), workers[reached..].to_vec())
        });
    }
}

#[test]
fn recomputing_a_one_minor_plan_at_any_point_gives_exactly_the_remaining_steps() {
    for (from, to, workers) in starts() {
        if to.minor() > from.minor().next() {
            continue;
        }
        for worker in workers {
            let request =
                PlanRequest::new(from.clone(), to.clone()).with_workers([WorkerGroup::new("w", worker)]);
            recomputes_to_its_own_rest(&request, |_, _| Source::OneMinor);
        }
    }
}

/// Fewest rollouts with which one group can follow the control plane through `passed`: breadth-first over
/// every schedule the skew policy allows, workers going to any version that the control plane has reached.
fn fewest_rollouts(passed: &[Version], worker: &Version) -> Option<usize> {
    let target = passed.len() - 1;
    let mut seen = BTreeSet::new();
    // Place of the control plane, place of the workers (none: where they started), rollouts so far.
    let mut queue = VecDeque::from([(0, None::<usize>, 0)]);
    while let Some((control_plane, at, rollouts)) = queue.pop_front() {
        let version = at.map_or(worker, |place| &passed[place]);
        if control_plane == target && version.compare(&passed[target]) == Comparison::Equal {
            return Some(rollouts);
        }
        if !seen.insert((control_plane, at)) {
            continue;
        }
        if control_plane < target && kubelet_skew(&passed[control_plane + 1], version).is_ok() {
            queue.push_front((control_plane + 1, at, rollouts));
        }
        let beyond = at.map_or(0, |place| place + 1);
        for (place, reached) in passed.iter().enumerate().take(control_plane + 1).skip(beyond) {
            if reached.compare(version).is_progress() {
                queue.push_back((control_plane, Some(place), rollouts + 1));
            }
        }
    }
    None
}

#[test]
fn no_schedule_has_fewer_rollouts_for_any_group() {
    let source = Source::Versions(catalogue());
    for (from, to, workers) in starts() {
        let groups = workers.iter().enumerate().map(|(n, at)| WorkerGroup::new(format!("g{n}"), at.clone()));
        let request = PlanRequest::new(from, to).with_workers(groups).with_source(source.clone());
        let plan = plan(&request).unwrap();
        let passed: Vec<Version> =
            std::iter::once(plan.from.clone()).chain(plan.control_plane.iter().cloned()).collect();
        for (group, row) in plan.workers_from.iter().zip(&plan.workers) {
            assert_eq!(
                fewest_rollouts(&passed, &group.version),
                Some(row.stops.len()),
                "{} from {} through {passed:?}",
                group.version,
                plan.from
            );
        }
    }
}

fn any_request() -> impl Strategy<Value = PlanRequest> {
    let version = proptest::sample::select(catalogue()).prop_map(|text| v(&text));
    let source = prop_oneof![
        Just(Source::OneMinor),
        proptest::sample::subsequence(catalogue(), 0..40).prop_map(Source::Versions),
        (proptest::sample::subsequence(catalogue(), 0..10), proptest::sample::subsequence(catalogue(), 0..4))
            .prop_map(|(control_plane, workers)| Source::Given { control_plane, workers }),
    ];
    (version.clone(), version.clone(), proptest::collection::vec(version, 0..4), source).prop_map(
        |(from, to, workers, source)| {
            let groups = workers.into_iter().enumerate().map(|(n, at)| WorkerGroup::new(format!("g{n}"), at));
            PlanRequest::new(from, to).with_workers(groups).with_source(source)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_safe_complete_and_ends_at_the_target_or_is_refused_with_a_reason(request in any_request()) {
        match plan(&request) {
            Err(refusal) => prop_assert!(!refusal.violations.is_empty()),
            Ok(plan) => {
                let mut control_plane = request.control_plane.clone();
                let mut workers = request.workers.clone();
                for operation in &plan.operations {
                    match &operation.step {
                        Step::ControlPlane { to, .. } => {
                            prop_assert!(to.minor() <= control_plane.minor().next());
                            control_plane = to.clone();
                        }
                        Step::Workers { group, to, .. } => {
                            let at = workers.iter_mut().find(|other| other.name == *group).unwrap();
                            prop_assert!(to.compare(&at.version).is_progress());
                            at.version = to.clone();
                        }
                    }
                    let skews: Vec<u64> =
                        workers.iter().map(|at| kubelet_skew(&control_plane, &at.version).unwrap()).collect();
                    prop_assert_eq!(operation.skew, skews.into_iter().max().unwrap_or(0));
                }
                prop_assert_eq!(&control_plane, &request.target);
                prop_assert!(workers.iter().all(|at| at.version == request.target));
            }
        }
    }

    #[test]
    fn a_plan_survives_json_and_differs_from_itself_in_nothing(request in any_request()) {
        if let Ok(plan) = plan(&request) {
            let document = PlanDocument::from(&plan);
            let text = serde_json::to_string(&document).unwrap();
            let read: PlanDocument = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, &document);
            prop_assert!(PlanDiff::between(&document, &read).is_empty());
        }
    }
}
