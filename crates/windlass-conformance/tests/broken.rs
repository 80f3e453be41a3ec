//! A deliberately broken extension: every way to break the contract, and the rule that finds it.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod cases;
mod support;

use std::collections::BTreeSet;

use cases::Case;
use support::Extension;
use windlass_conformance::{CheckId, Group, Progress, Rule, run};

/// Runs every case and asserts that it breaks at least the rules that it is about.
async fn assert_found(cases: Vec<Case>) {
    for case in cases {
        let extension = Extension::start(case.below, case.twist).await;
        let mut target = extension.target();
        let mut options = case.options;
        (case.adjust)(&extension, &mut target, &mut options);
        let report = run(&target, &options, &|_: &Progress| {}).await.unwrap();
        let found: BTreeSet<Rule> = report.findings().map(|finding| finding.rule).collect();
        for rule in case.expected {
            assert!(found.contains(rule), "{rule} was not found in {found:?}\n{}", report.to_table());
        }
    }
}

macro_rules! broken {
    ($($name:ident => $cases:path;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                assert_found($cases()).await;
            }
        )+

        fn all_cases() -> Vec<Case> {
            [$($cases()),+].into_iter().flatten().collect()
        }
    };
}

broken! {
    broken_tls_is_found => cases::transport::tls;
    broken_http_is_found => cases::transport::http;
    broken_bodies_are_found => cases::transport::bodies;
    broken_announcements_are_found => cases::discovery::announcements;
    broken_discovery_is_found => cases::discovery::answers;
    broken_calls_are_found => cases::calls::answers;
    slow_calls_are_found => cases::calls::slow;
    unstable_answers_are_found => cases::calls::unstable;
    broken_blocking_is_found => cases::calls::blocking;
    broken_patches_are_found => cases::data::patches;
    broken_variables_are_found => cases::data::variables;
    broken_plans_are_found => cases::data::plans;
    broken_in_place_updates_are_found => cases::data::in_place;
    broken_availability_is_found => cases::availability::all;
}

#[test]
fn every_rule_of_every_check_is_broken_by_some_case() {
    let covered: BTreeSet<Rule> = all_cases().iter().flat_map(|case| case.expected).copied().collect();
    // Rules about manifests are covered by the table beside the linter.
    let live = |check: CheckId| check.group() != Group::Lint;
    let missing: Vec<&Rule> =
        Rule::ALL.iter().filter(|rule| live(rule.check()) && !covered.contains(rule)).collect();
    assert_eq!(missing, Vec::<&Rule>::new());
    let checks: BTreeSet<CheckId> = covered.iter().map(|rule| rule.check()).collect();
    let expected: BTreeSet<CheckId> = CheckId::ALL.iter().copied().filter(|&check| live(check)).collect();
    assert_eq!(checks, expected);
}
