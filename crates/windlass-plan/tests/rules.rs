//! Every rule for plans, broken once and kept once.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failing helper fails the test")]

use windlass_plan::{HooksPassed, PlanRequest, Source, UpgradePlan, Violation, WorkerGroup, plan};
use windlass_version::Version;

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

/// `"a=v1.30.0 b=v1.31.0"`, or one version for a group called `workers`, or nothing.
fn groups(text: &str) -> Vec<WorkerGroup> {
    text.split_whitespace()
        .map(|item| match item.split_once('=') {
            Some((name, version)) => WorkerGroup::new(name, v(version)),
            None => WorkerGroup::new("workers", v(item)),
        })
        .collect()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

struct Ask {
    from: &'static str,
    workers: &'static str,
    to: &'static str,
    source: Source,
}

fn ask(from: &'static str, workers: &'static str, to: &'static str, source: Source) -> Ask {
    Ask { from, workers, to, source }
}

fn given(control_plane: &str, workers: &str) -> Source {
    Source::Given { control_plane: words(control_plane), workers: words(workers) }
}

fn list(versions: &str) -> Source {
    Source::Versions(words(versions))
}

impl Ask {
    fn plan(&self) -> Result<UpgradePlan, Vec<Violation>> {
        let request = PlanRequest::new(v(self.from), v(self.to))
            .with_workers(groups(self.workers))
            .with_source(self.source.clone());
        plan(&request).map_err(|refusal| refusal.violations)
    }

    fn steps(&self) -> Vec<String> {
        self.plan().unwrap().operations.iter().map(|operation| operation.step.to_string()).collect()
    }

    fn row(&self, group: &str) -> Vec<String> {
        let plan = self.plan().unwrap();
        let row = plan.workers.iter().find(|row| row.group.as_str() == group).unwrap();
        row.stops.iter().map(ToString::to_string).collect()
    }

    /// `Code` or `Code[index]`, in the order of the report.
    fn refused(&self) -> Vec<String> {
        let violations = self.plan().expect_err("should be refused");
        violations
            .iter()
            .map(|violation| match violation.index() {
                Some(index) => format!("{}[{index}]", violation.code()),
                None => violation.code().to_owned(),
            })
            .collect()
    }
}

#[test]
fn the_documented_example_has_its_six_operations() {
    let example = ask("v1.29.0", "v1.29.0", "v1.33.0", list("v1.29.0 v1.30.0 v1.31.0 v1.32.0 v1.33.0"));
    assert_eq!(
        example.steps(),
        [
            "control plane v1.29.0 -> v1.30.0",
            "control plane v1.30.0 -> v1.31.0",
            "control plane v1.31.0 -> v1.32.0",
            "workers workers v1.29.0 -> v1.32.0",
            "control plane v1.32.0 -> v1.33.0",
            "workers workers v1.32.0 -> v1.33.0",
        ]
    );
    let plan = example.plan().unwrap();
    assert_eq!(plan.operations.iter().map(|o| o.skew).collect::<Vec<_>>(), [1, 2, 3, 0, 1, 0]);
    assert_eq!(plan.worst_skew, 3);
    let hooks: Vec<String> = plan
        .operations
        .iter()
        .map(|operation| operation.hooks.iter().map(|hook| hook.name()).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        hooks,
        [
            "BeforeClusterUpgrade BeforeControlPlaneUpgrade AfterControlPlaneUpgrade",
            "BeforeControlPlaneUpgrade AfterControlPlaneUpgrade",
            "BeforeControlPlaneUpgrade AfterControlPlaneUpgrade",
            "BeforeWorkersUpgrade AfterWorkersUpgrade",
            "BeforeControlPlaneUpgrade AfterControlPlaneUpgrade",
            "BeforeWorkersUpgrade AfterWorkersUpgrade AfterClusterUpgrade",
        ]
    );
    let reasons: Vec<String> = plan.operations.iter().map(|operation| operation.reason.to_string()).collect();
    assert_eq!(
        reasons,
        [
            "workers can stay, at most 1 minor behind",
            "workers can stay, at most 2 minors behind",
            "workers follow",
            "needed: they would be 4 minors behind at v1.33.0",
            "workers follow",
            "target",
        ]
    );
}

#[test]
fn workers_alone_are_no_upgrade_of_the_cluster_unless_one_has_begun() {
    let hooks = |begun: bool| -> Vec<String> {
        let passed = HooksPassed { before_cluster_upgrade: begun, ..HooksPassed::default() };
        let request = PlanRequest::new(v("v1.33.0"), v("v1.33.0"))
            .with_workers([WorkerGroup::new("a", v("v1.32.0"))])
            .with_hooks_passed(passed);
        let plan = plan(&request).unwrap();
        plan.operations.iter().flat_map(|operation| &operation.hooks).map(ToString::to_string).collect()
    };
    assert_eq!(hooks(false), ["BeforeWorkersUpgrade", "AfterWorkersUpgrade"]);
    assert_eq!(hooks(true), ["BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade"]);
}

#[test]
fn the_list_gives_the_last_version_of_each_minor_up_to_the_target() {
    for (from, to, versions, chain) in [
        ("v1.28.0", "v1.31.2", "v1.28.0 v1.29.0 v1.30.0 v1.30.1 v1.31.2", "v1.29.0 v1.30.1 v1.31.2"),
        ("v1.31.0", "v1.32.0", "v1.31.0 v1.32.0 v1.32.1", "v1.32.0"),
        ("v1.35.1", "v1.35.2", "v1.35.1 v1.35.2 v1.35.3", "v1.35.2"),
        ("v1.35.1", "v1.35.3", "v1.35.1 v1.35.2 v1.35.3", "v1.35.3"),
        ("v1.31.0", "v1.33.0", "v1.31.1 v1.32.0 v1.33.0", "v1.32.0 v1.33.0"),
        ("v1.31.0", "v1.31.0", "v1.31.0", ""),
        ("v1.31.0+a", "v1.31.0+b", "v1.31.0+a v1.31.0+b", "v1.31.0+b"),
        ("v1.31.0+a", "v1.31.0+b", "v1.31.0+b v1.32.0", "v1.31.0+b"),
        ("v1.31.0", "v1.33.0", "v1.32.0+a v1.32.0+b v1.33.0", "v1.32.0+b v1.33.0"),
        ("1.31", "1.32", "1.31 1.32", "v1.32.0"),
        ("v1.29.0", "v1.31.0", "v1.30.0-beta.3 v1.30.0-rc.0 v1.30.0-rc.1 v1.31.0", "v1.30.0-rc.1 v1.31.0"),
    ] {
        let plan = ask(from, "", to, list(versions)).plan().unwrap();
        let shown: Vec<String> = plan.control_plane.iter().map(ToString::to_string).collect();
        assert_eq!(shown, words(chain), "{from} to {to} through {versions}");
    }
}

#[test]
fn lists_that_lead_nowhere_are_refused() {
    for (from, to, versions, codes) in [
        ("v1.29.0", "v1.31.0", "", "ListEmpty"),
        ("v1.29.0", "v1.31.0", "v1.29.0 v1.31.0", "MinorNotListed"),
        ("v1.29.0", "v1.33.0", "v1.31.0 v1.33.0", "MinorNotListed MinorNotListed"),
        ("v1.29.0", "v1.31.0", "v1.30.0 v1.31.1", "TargetNotListed"),
        ("v1.29.0", "v1.30.0", "v1.29.0 v1.31.0 v1.30.0", "ListNotSorted[2]"),
        ("v1.29.0", "v1.30.0", "v1.30.0 v1.29.0 v1.30.0", "ListNotSorted[1] ListedTwice[2]"),
        ("v1.29.0", "v1.30.0", "v1.29.0 x v1.30.0 1.30", "ListedNotAVersion[1] ListedTwice[3]"),
        ("v1.29.0", "v1.30.0", "v1.30.0+a v1.30.0+b v1.30.0+a", "ListedTwice[2]"),
        ("v1.30.0+b", "v1.30.0+a", "v1.30.0+a v1.30.0+b", "TargetListedBeforeCurrent"),
        ("v1.30.0", "v1.29.0", "v1.29.0 v1.30.0", "Downgrade"),
        ("v1.30.0", "v2.30.0", "v1.30.0 v2.30.0", "TargetOfOtherMajor"),
    ] {
        assert_eq!(
            ask(from, "", to, list(versions)).refused(),
            words(codes),
            "{from} to {to} through {versions}"
        );
    }
    let long = (0..101).map(|patch| format!("v1.30.{patch}")).collect();
    assert_eq!(ask("v1.29.0", "", "v1.30.100", Source::Versions(long)).refused(), ["ListTooLong"]);
}

#[test]
fn a_far_target_is_refused_without_a_complaint_per_minor() {
    let far = ask("v1.29.0", "", "v1.18446744073709551615.0", list("v1.30.0 v1.18446744073709551615.0"));
    assert!(far.refused().len() <= 33);
}

#[test]
fn without_a_source_one_minor_can_be_reached() {
    assert_eq!(ask("v1.30.0", "", "v1.31.4", Source::OneMinor).steps(), ["control plane v1.30.0 -> v1.31.4"]);
    assert_eq!(ask("v1.30.0", "", "v1.30.1", Source::OneMinor).steps(), ["control plane v1.30.0 -> v1.30.1"]);
    assert_eq!(ask("v1.30.0", "", "v1.30.0", Source::OneMinor).steps(), [""; 0]);
    for (to, code) in [
        ("v1.32.0", "VersionsUnknown"),
        ("v1.29.0", "Downgrade"),
        ("v1.30.0-rc.1", "Downgrade"),
        ("v2.31.0", "TargetOfOtherMajor"),
    ] {
        assert_eq!(ask("v1.30.0", "", to, Source::OneMinor).refused(), [code]);
    }
    assert_eq!(ask("v1.30.0+2", "", "v1.30.0+1", Source::OneMinor).refused(), ["Downgrade"]);
}

#[test]
fn every_rule_for_control_plane_plans_is_checked_and_all_violations_are_reported() {
    for (from, to, chain, codes) in [
        ("v1.30.0", "v1.33.1", "", "ControlPlanePlanEmpty"),
        ("v1.33.1", "v1.33.1", "v1.33.1", "PlanNotNeeded[0]"),
        ("v1.30.0", "v1.33.1", "v1.32.1", "MinorSkipped[0] WrongEnd[0]"),
        ("v1.30.0", "v1.33.1", "v1.31.1 v1.32.0 v1.33.1 v1.34.1", "AboveTarget[3] WrongEnd[3]"),
        ("v1.30.0", "v1.32.0", "v1.31.0 foo v1.32.0", "NotAVersion[1]"),
        ("v1.30.0", "v1.32.0", "foo", "NotAVersion[0]"),
        ("v1.30.0", "v1.32.0", "v1.31.1 v1.31.0 v1.32.0", "NotNewer[1]"),
        ("v1.30.0", "v1.32.0", "v1.29.0 v1.31.0 v1.32.0", "NotNewer[0] MinorSkipped[1]"),
        ("v1.30.0", "v1.32.0", "v1.31.0 v1.31.0 v1.32.0", "NotNewer[1]"),
        ("v1.30.0", "v1.31.0", "v1.30.0 v1.31.0", "NotNewer[0]"),
        ("v1.30.0", "v1.32.0", "v1.31.0 v1.32.0 v1.31.0 v1.32.0", "NotNewer[2]"),
        (
            "v1.30.0",
            "v1.31.0+b",
            "v1.31.0+a v1.31.0+b v1.31.0+a v1.31.0+b",
            "VisitedTwice[2] VisitedTwice[3]",
        ),
        ("v1.34.0", "v1.35.0", "v2.35.0 v1.35.0", "MajorChanged[0] AboveTarget[0] MajorChanged[1]"),
        ("v1.30.0", "v1.31.0", "v1.31.0-rc.1", "WrongEnd[0]"),
        ("v1.30.0", "v1.29.0", "v1.29.0", "Downgrade NotNewer[0]"),
    ] {
        assert_eq!(ask(from, "", to, given(chain, "")).refused(), words(codes), "{from} to {to}: {chain}");
    }
    let long: Vec<String> = (1..=33).map(|patch| format!("v1.30.{patch}")).collect();
    assert_eq!(ask("v1.30.0", "", "v1.30.33", given(&long.join(" "), "")).refused(), ["TooManySteps"]);
}

#[test]
fn a_plan_that_goes_back_is_refused_with_the_rule_and_both_versions() {
    for (chain, expected) in [
        (
            "v1.31.0 v1.32.0 v1.31.0 v1.32.0",
            "controlPlaneUpgrades[2]: v1.31.0 must be greater than the one before it, v1.32.0",
        ),
        (
            "v1.31.1 v1.31.0 v1.32.0",
            "controlPlaneUpgrades[1]: v1.31.0 must be greater than the one before it, v1.31.1",
        ),
        (
            "v1.30.0 v1.31.0 v1.32.0",
            "controlPlaneUpgrades[0]: v1.30.0 must be greater than the one before it, v1.30.0",
        ),
    ] {
        let request = PlanRequest::new(v("v1.30.0"), v("v1.32.0")).with_source(given(chain, ""));
        assert_eq!(plan(&request).unwrap_err().to_string(), expected);
    }
}

#[test]
fn every_rule_for_workers_plans_is_checked_and_all_violations_are_reported() {
    const CHAIN: &str = "v1.31.1 v1.32.0 v1.33.1 v1.34.0";
    for (from, at, to, chain, workers, codes) in [
        ("v1.30.0", "v1.30.0", "v1.34.0", CHAIN, "v1.34.0 v1.33.1", "StopMissing[0] NotNewer[1] WrongEnd[1]"),
        ("v1.30.0", "v1.30.0", "v1.34.0", CHAIN, "v1.34.0", "StopMissing[0]"),
        ("v1.30.0", "v1.30.0", "v1.34.0", CHAIN, "v1.33.1", "WrongEnd[0]"),
        ("v1.30.0", "v1.30.0", "v1.34.0", CHAIN, "v1.33.2 v1.34.0", "NotAControlPlaneVersion[0]"),
        ("v1.30.0", "v1.30.0", "v1.34.0", CHAIN, "bar v1.32.0 v1.34.0", "NotAVersion[0]"),
        ("v1.30.0", "v1.30.0", "v1.34.0", CHAIN, "v1.30.0 v1.33.1 v1.34.0", "NotNewer[0]"),
        ("v1.30.0", "v1.30.0", "v1.34.0", CHAIN, "v1.32.0 v1.32.0 v1.34.0", "NotNewer[1]"),
        (
            "v1.30.0",
            "v1.30.0",
            "v1.34.0",
            CHAIN,
            "v1.33.1 v1.34.0 v1.35.0",
            "NotAControlPlaneVersion[2] AboveTarget[2] WrongEnd[2]",
        ),
        ("v1.30.0", "", "v1.34.0", CHAIN, "v1.34.0", "PlanNotNeeded[0]"),
        ("v1.34.0", "v1.34.0", "v1.34.0", "", "v1.34.0", "PlanNotNeeded[0]"),
        ("v1.33.1", "v1.30.0", "v1.33.1", "", "v1.32.1", "NotAControlPlaneVersion[0] WrongEnd[0]"),
        ("v1.33.1", "v1.30.0", "v1.33.1", "", "v1.32.1 v1.33.1", "NotAControlPlaneVersion[0]"),
        (
            "v1.31.1+a",
            "v1.30.0",
            "v1.32.0",
            "v1.31.1+b v1.32.0",
            "v1.31.1+b v1.31.1+a v1.32.0",
            "OrderContradicted[1]",
        ),
        (
            "v1.30.0",
            "v1.30.0",
            "v1.31.0",
            "v1.31.0",
            "v2.31.0 v1.31.0",
            "NotAControlPlaneVersion[0] MajorChanged[0] AboveTarget[0] NotNewer[1] MajorChanged[1]",
        ),
    ] {
        let case = ask(from, at, to, given(chain, workers));
        assert_eq!(case.refused(), words(codes), "{from} ({at}) to {to}: {chain} / {workers}");
    }
}

#[test]
fn workers_in_an_impossible_place_are_refused() {
    for (from, at, to, codes) in [
        ("v1.34.0", "v1.30.0", "v1.34.0", "WorkersTooFarBehind"),
        ("v1.34.0", "v1.30.0", "v1.35.0", "WorkersTooFarBehind"),
        ("v1.33.0", "v1.34.0", "v1.33.0", "WorkersAheadOfTarget"),
        ("v1.33.0", "v1.33.1", "v1.33.0", "WorkersAheadOfTarget"),
        ("v1.33.0", "v1.34.0", "v1.34.0", "WorkersAheadOfControlPlane"),
        ("v1.33.0", "v2.33.0", "v1.34.0", "WorkersOfOtherMajor"),
        ("v1.33.0", "a=v1.33.0 a=v1.32.0", "v1.34.0", "GroupRepeated"),
        ("v1.33.0", "a=v1.28.0 b=v1.35.0", "v1.34.0", "WorkersTooFarBehind WorkersAheadOfTarget"),
    ] {
        assert_eq!(ask(from, at, to, Source::OneMinor).refused(), words(codes), "{from} ({at}) to {to}");
    }
}

#[test]
fn each_group_has_its_own_stops_and_skips_what_it_can() {
    let versions = "v1.30.0 v1.31.0 v1.32.0 v1.33.0 v1.34.0 v1.35.0";
    let mixed = ask("v1.31.0", "slow=v1.30.0 fast=v1.31.0", "v1.34.0", list(versions));
    assert_eq!(mixed.row("slow"), ["v1.33.0", "v1.34.0"]);
    assert_eq!(mixed.row("fast"), ["v1.34.0"]);
    let plan = mixed.plan().unwrap();
    let union: Vec<String> = plan.workers_union().iter().map(ToString::to_string).collect();
    assert_eq!(union, ["v1.33.0", "v1.34.0"]);
    let skipped: Vec<String> = plan.skipped_by(&plan.workers[1]).iter().map(ToString::to_string).collect();
    assert_eq!(skipped, ["v1.32.0", "v1.33.0"]);
}

#[test]
fn workers_wait_for_the_last_patch_of_a_minor() {
    let chain = "v1.31.1 v1.31.2 v1.32.0 v1.33.1 v1.33.2 v1.34.1";
    assert_eq!(ask("v1.30.0", "v1.30.0", "v1.34.1", given(chain, "")).row("workers"), ["v1.33.2", "v1.34.1"]);
}

#[test]
fn workers_that_lag_behind_catch_up_before_the_control_plane_goes_on() {
    assert_eq!(
        ask("v1.30.2", "v1.27.0", "v1.31.0", Source::OneMinor).steps(),
        [
            "workers workers v1.27.0 -> v1.30.2",
            "control plane v1.30.2 -> v1.31.0",
            "workers workers v1.30.2 -> v1.31.0"
        ]
    );
}

#[test]
fn a_given_workers_plan_applies_to_all_groups_from_where_each_is() {
    let source = given("v1.31.0 v1.32.0 v1.33.0", "v1.30.0 v1.31.0 v1.33.0");
    let case = ask("v1.30.0", "a=v1.29.0 b=v1.30.0 c=v1.29.5", "v1.33.0", source);
    assert_eq!(case.row("a"), ["v1.30.0", "v1.31.0", "v1.33.0"]);
    assert_eq!(case.row("b"), ["v1.31.0", "v1.33.0"]);
    assert_eq!(case.row("c"), ["v1.30.0", "v1.31.0", "v1.33.0"]);
    let plan = case.plan().unwrap();
    let demanded = plan.operations.iter().filter(|o| o.reason == windlass_plan::Reason::Given).count();
    assert_eq!(demanded, 5);
}

#[test]
fn a_stop_that_was_given_and_one_for_the_skew_stay_in_the_plan_until_they_are_passed() {
    for (from, at, chain, stops) in [
        ("v1.31.0", "v1.31.0", "v1.32.0 v1.33.0 v1.34.0 v1.35.0 v1.36.0", "v1.32.0 v1.35.0 v1.36.0"),
        ("v1.32.0", "v1.31.0", "v1.33.0 v1.34.0 v1.35.0 v1.36.0", "v1.32.0 v1.35.0 v1.36.0"),
        ("v1.32.0", "v1.32.0", "v1.33.0 v1.34.0 v1.35.0 v1.36.0", "v1.35.0 v1.36.0"),
        ("v1.35.0", "v1.32.0", "v1.36.0", "v1.35.0 v1.36.0"),
        ("v1.36.0", "v1.35.0", "", "v1.36.0"),
    ] {
        let row = ask(from, at, "v1.36.0", given(chain, stops)).row("workers");
        assert_eq!(row, words(stops), "{from} ({at})");
    }
}

#[test]
fn workers_skip_builds_of_a_minor_that_they_need_not_stop_at() {
    let chain = given("v1.31.1+x.2 v1.32.1+x.1", "");
    let row = ask("v1.31.1+x.1", "v1.30.0+x.1", "v1.32.1+x.1", chain).row("workers");
    assert_eq!(row, ["v1.32.1+x.1"]);
}

#[test]
fn build_only_upgrades_with_unorderable_tags_finish() {
    let start = ask("v1.31.0+a", "v1.31.0+a", "v1.31.0+b", given("v1.31.0+b", ""));
    assert_eq!(
        start.steps(),
        ["control plane v1.31.0+a -> v1.31.0+b", "workers workers v1.31.0+a -> v1.31.0+b"]
    );
    let control_plane_done = ask("v1.31.0+b", "v1.31.0+a", "v1.31.0+b", given("", ""));
    assert_eq!(control_plane_done.steps(), ["workers workers v1.31.0+a -> v1.31.0+b"]);
    let demanded = ask("v1.31.0+b", "v1.31.0+a", "v1.31.0+b", given("", "v1.31.0+b"));
    assert_eq!(demanded.row("workers"), ["v1.31.0+b"]);
}

#[test]
fn the_input_hash_tells_requests_apart() {
    let base = || ask("v1.29.0", "a=v1.29.0", "v1.30.0", list("v1.30.0"));
    let hash = |case: Ask| case.plan().unwrap().input_hash;
    assert_eq!(hash(base()), hash(base()));
    for other in [
        ask("v1.29.1", "a=v1.29.0", "v1.30.0", list("v1.30.0")),
        ask("v1.29.0", "b=v1.29.0", "v1.30.0", list("v1.30.0")),
        ask("v1.29.0", "a=v1.29.1", "v1.30.0", list("v1.30.0")),
        ask("v1.29.0", "a=v1.29.0", "v1.30.0", list("v1.29.0 v1.30.0")),
        ask("v1.29.0", "a=v1.29.0", "v1.30.0", given("v1.30.0", "")),
        ask("v1.29.0", "a=v1.29.0", "v1.30.0", Source::OneMinor),
    ] {
        assert_ne!(hash(base()), hash(other));
    }
}
