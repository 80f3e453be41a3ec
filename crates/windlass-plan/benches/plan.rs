//! How long one plan takes, as a reconcile would compute it.

use divan::{Bencher, black_box};
use windlass_plan::{PlanRequest, Source, WorkerGroup, plan};
use windlass_version::Version;

fn main() {
    divan::main();
}

/// v1.29 to v1.36 through 30 listed versions, with 10 worker groups that are 0 to 3 minors behind.
#[divan::bench]
fn v1_29_to_v1_36_30_versions_10_groups(bencher: Bencher<'_, '_>) {
    let versions =
        (29..=36).flat_map(|minor| (0..4).map(move |patch| format!("v1.{minor}.{patch}"))).take(30);
    let groups = (0..10).map(|n| WorkerGroup::new(format!("pool-{n}"), Version::new(1, 26 + n % 4, 0)));
    let request = PlanRequest::new(Version::new(1, 29, 0), Version::new(1, 36, 1))
        .with_workers(groups)
        .with_source(Source::versions(versions));
    assert!(plan(&request).is_ok_and(|plan| plan.operations.len() > 30));
    bencher.bench(|| plan(black_box(&request)));
}

/// The example of the documentation: v1.29 to v1.33, one group.
#[divan::bench]
fn v1_29_to_v1_33_1_group(bencher: Bencher<'_, '_>) {
    let request = PlanRequest::new(Version::new(1, 29, 0), Version::new(1, 33, 0))
        .with_workers([WorkerGroup::new("pool", Version::new(1, 29, 0))])
        .with_source(Source::versions(["v1.29.0", "v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0"]));
    bencher.bench(|| plan(black_box(&request)));
}

/// A refusal that reports many violations.
#[divan::bench]
fn refusal(bencher: Bencher<'_, '_>) {
    let request = PlanRequest::new(Version::new(1, 29, 0), Version::new(1, 33, 0))
        .with_workers([WorkerGroup::new("pool", Version::new(1, 29, 0))])
        .with_source(Source::given(["v1.31.0", "v1.30.0", "x", "v1.34.0"], ["v1.33.0", "v1.28.0"]));
    bencher.bench(|| plan(black_box(&request)));
}
